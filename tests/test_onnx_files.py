# pyright: basic
"""Files of ONNX models: weights beside them, texts that are none, the command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.driver import main
from tests.onnx_graphs import body, f32, helper, model, node, numpy_helper, onnx


def saved(folder: Path, location: str, data: bytes | None, **more: str) -> Path:
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[3])
    weight.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        weight.external_data.add(key=key, value=value)
    made = model([node("Add", "x w", "y")], {"x": f32(3)}, ["y"])
    made.graph.initializer.append(weight)
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    if data is not None:
        (folder / "w.bin").write_bytes(data)
    return path


def test_weights_are_mapped(tmp_path: Path) -> None:
    w = np.arange(5, dtype=np.float32)
    path = saved(tmp_path, "w.bin", w.tobytes(), offset="4", length="12")
    assert mlc.onnx.load(path)(np.zeros(3, np.float32)).tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("location", "more", "said"),
    [
        ("../w.bin", {}, "expected a file in the model's folder"),
        ("/etc/hostname", {}, "expected a file in the model's folder"),
        ("none.bin", {}, "no file in the model's folder"),
        ("link.bin", {}, "no file in the model's folder"),
        ("w.bin", {"offset": "8"}, "the file is shorter"),
        ("w.bin", {"offset": "-4"}, "expected none below 0"),
        ("w.bin", {"length": "8"}, "says another length"),
    ],
)
def test_weights_elsewhere_are_refused(
    tmp_path: Path, location: str, more: dict[str, str], said: str
) -> None:
    outside = tmp_path / "secret"
    outside.write_bytes(bytes(12))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "link.bin").symlink_to(outside)
    with pytest.raises(mlc.MlcError, match=said):
        mlc.onnx.load(saved(folder, location, bytes(12), **more))


def test_a_link_to_a_model_brings_the_folder_that_it_leads_to(tmp_path: Path) -> None:
    """As caches of hubs keep them: links to a folder of all files."""
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    folder.mkdir()
    path = saved(blobs, "w.bin", np.arange(3, dtype=np.float32).tobytes())
    (folder / "w.bin").symlink_to(blobs / "w.bin")
    (folder / "m.onnx").symlink_to(path)
    found = mlc.onnx.load(folder / "m.onnx")(np.zeros(3, np.float32))
    assert found.tolist() == [0, 1, 2]


def test_large_weights_are_read_where_they_lie(tmp_path: Path) -> None:
    w = f32(300, 300)
    weight = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=w.shape)
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="w.bin")
    made = model([node("MatMul", "x w", "y")], {"x": f32(2, 300)}, ["y"])
    made.graph.initializer.append(weight)
    (tmp_path / "w.bin").write_bytes(w.tobytes())
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    loaded = mlc.onnx.load(tmp_path / "m.onnx")
    x = f32(2, 300)
    np.testing.assert_allclose(loaded(x), x @ w, rtol=1e-4, atol=1e-4)
    held = loaded.compiled().lower().text("trace")
    assert 'mlc.name = "w"' in held  # an argument of the program by the model's name
    assert "mlc.constant" not in held


# models that are none


def _whole(folder: Path) -> bytes:
    """A model with a bit of everything."""
    inner = body(
        [node("Add", "v row", "w"), node("Identity", "go", "on")], ["k", "go", "v"], ["on", "w"]
    )
    nodes = [
        node("Conv", "x kernel", "c", pads=[1, 1, 1, 1]),
        node("Shape", "c", "s"),
        node("Gather", "s zero", "n"),
        node("Concat", "n minus", "shape", axis=0),
        node("Reshape", "c shape", "flat"),
        node("Pad", "flat pads", "wide"),
        node("Gemm", "wide weight", "h"),
        node("Loop", "trips start h", "h2", body=inner),
        node("TopK", "h2 two", "top place"),
        node("Cast", "place", "y", to=1),
    ]
    weights: dict[str, Any] = {
        "kernel": f32(1, 1, 3, 3), "zero": np.array([0]), "minus": np.array([-1]),
        "pads": np.array([0, 0, 0, 2]), "trips": np.int64(3), "start": np.bool_(True),
        "row": f32(4), "two": np.array([2]),
    }  # fmt: skip
    made = model(nodes, {"x": f32(2, 1, 2, 3)}, ["top", "y"], weights=weights)
    beside = numpy_helper.from_array(f32(8, 4), "weight")
    (folder / "weight.bin").write_bytes(beside.raw_data)
    beside.ClearField("raw_data")
    beside.data_location = onnx.TensorProto.EXTERNAL
    beside.external_data.add(key="location", value="weight.bin")
    made.graph.initializer.append(beside)
    return made.SerializeToString()


class Watched:
    """The files that are opened while it watches."""

    def __init__(self) -> None:
        self.watches, self.opened = False, set[str]()
        sys.addaudithook(self._event)

    def _event(self, event: str, args: tuple[Any, ...]) -> None:
        if self.watches and event == "open" and isinstance(args[0], str | os.PathLike):
            self.opened.add(os.fspath(args[0]))


def test_changed_files_are_refused_or_read(tmp_path: Path) -> None:
    """200 files with some bytes changed, or cut short: an error that says so, or a model."""
    whole, path = _whole(tmp_path), tmp_path / "m.onnx"
    path.write_bytes(whole)
    assert mlc.onnx.load(path)(f32(2, 1, 2, 3))[0].shape == (2, 2)
    watched, refused = Watched(), list[str]()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        data = bytearray(whole)
        if seed % 4 == 3:
            data = data[: int(rng.integers(len(data)))]
        else:
            for place in rng.integers(len(data), size=int(rng.integers(1, 4))):
                data[place] = int(rng.integers(256))
        path.write_bytes(data)
        watched.watches = True
        try:
            mlc.onnx.load(path)
        except mlc.MlcError as error:
            refused.append(str(error))
        finally:
            watched.watches = False
    assert len(refused) > 100
    assert all(refused)
    read = {p for p in watched.opened if not p.endswith((".py", ".pyc"))}
    assert all(Path(p).resolve().is_relative_to(tmp_path.resolve()) for p in read)


def test_what_does_not_fit_together_is_said(tmp_path: Path) -> None:
    x = {"x": f32(2)}
    for made, said in (
        (model([node("Neg", "z", "y")], x, ["y"]), "reads 'z', which nothing computes before it"),
        (model([node("Neg", "x", "y")], x, ["w"]), "the output 'w' is computed by no node"),
        (model([node("Neg", "x", "y")], x, ["y"], opset=99), "opset 99 of ai.onnx; expected 1 to"),
    ):
        with pytest.raises(mlc.onnx.OnnxError, match=said):
            mlc.onnx.load(made)
    with pytest.raises(mlc.onnx.OnnxError, match="no such file"):
        mlc.onnx.load(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("a text")
    with pytest.raises(mlc.onnx.OnnxError, match="is no model of ONNX"):
        mlc.onnx.load(tmp_path / "text.onnx")
    wrong = mlc.onnx.load(model([node("Reshape", "x s", "y")], x, ["y"], {"s": np.array([3])}))
    with pytest.raises(mlc.MlcError, match="cannot give"):
        wrong(f32(2))
    with pytest.raises(TypeError, match="input 'x' has 2 axes; expected 1"):
        wrong(f32(2, 2))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: node("Mul", "x x x", "y"), "has 3 inputs; expected 2"),
        (lambda: node("Clip", "- x", "y"), "has no input input, which it needs"),
        (lambda: node("Swish", "x x", "y"), "has 2 inputs; expected 1"),  # of a later opset
        (lambda: node("Flatten", "x", "y", axis=[1]), "axis is of the type INTS; expected INT"),
        (lambda: node("Cast", "x", "y"), "has no attribute to, which it needs"),
        (lambda: node("Softmax", "x", "y", axis=0.5), "axis is of the type FLOAT; expected INT"),
    ],
)
def test_nodes_have_the_form_that_onnx_defines(made: Any, said: str) -> None:
    with pytest.raises(mlc.onnx.OnnxError, match=said):
        mlc.onnx.load(model([made()], {"x": f32(2)}, ["y"]))


def function(name: str, *calls: str) -> Any:
    """One that calls others in a row."""
    nodes = [helper.make_node(f, ["a"], ["b"], domain="my" if f[0] == "F" else "") for f in calls]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    return helper.make_function("my", name, ["a"], ["b"], nodes, opsets)


@pytest.mark.parametrize(
    ("functions", "said"),
    [
        ([function("F0", "F1"), function("F1", "F0")], "function my F0 calls itself"),
        (
            [function("F40", "Neg"), *(function(f"F{k}", *2 * [f"F{k + 1}"]) for k in range(40))],
            "function my F.* takes [0-9]+ steps; expected 1048576 at most",
        ),
        (
            [function("F90", "Neg"), *(function(f"F{k}", f"F{k + 1}") for k in range(90))],
            "function my F.* calls through 64 others; expected fewer",
        ),
    ],
)
def test_functions_that_would_never_end(functions: list[Any], said: str) -> None:
    call = helper.make_node("F0", ["x"], ["y"], domain="my")
    with pytest.raises(mlc.onnx.OnnxError, match=said):
        mlc.onnx.load(model([call], {"x": f32(2)}, ["y"], functions=functions))


def test_calls_have_what_their_function_has() -> None:
    call = helper.make_node("F0", ["x"], ["y", "z"], domain="my")
    made = model([call], {"x": f32(2)}, ["y", "z"], functions=[function("F0", "Neg")])
    with pytest.raises(mlc.onnx.OnnxError, match="has 2 outputs; its function has 1"):
        mlc.onnx.load(made)


def test_names_of_weights_that_no_file_can_have(tmp_path: Path) -> None:
    with pytest.raises(mlc.MlcError, match="File name too long"):
        mlc.onnx.load(saved(tmp_path, "w" * 5000, None))


# the command line


@pytest.fixture
def head(tmp_path: Path) -> Path:
    w = numpy_helper.from_array(f32(4, 3), "w")
    port = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node("MatMul", "x.1 w", "h"), node("Softmax", "h", "y")], "head",
        [port("x.1", 1, ["batch", 4])], [port("y", 1, ["batch", 3])], [w],
    )  # fmt: skip
    path = tmp_path / "head.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return path


def test_models_where_onnx_is_not_installed(
    head: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlc.programs.find_spec", lambda name: None)
    assert main(["build", str(head)]) == 1
    assert "models need the extra onnx: pip install 'mlc-compiler[onnx]'" in capsys.readouterr().err


def test_random_inputs_that_no_memory_holds(head: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for size in (10**13, 2**62):
        assert main(["run", str(head), "--random", "--sizes", f"batch={size}"]) == 1
        said = capsys.readouterr().err
        assert f"random numbers for an argument f32[{size}, 4]" in said
        assert "--sizes" in said


def test_the_command_line_takes_models(head: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(head), "--random", "--sizes", "batch=5"]) == 0
    assert "result 0: float32[5, 3]" in capsys.readouterr().out
    assert main(["show", str(head), "--at", "tensor"]) == 0
    assert 'tensor<?x4xf32, #mlc.dims<"batch", 4>>' in capsys.readouterr().out
    assert main(["explain", str(head), "--sizes", "batch=5"]) == 0
    assert "@head" in capsys.readouterr().out
    out = head.parent / "head"
    assert main(["build", str(head), "--emit", "obj,header", "-o", str(out)]) == 0
    text = out.with_suffix(".h").read_text()
    assert "x_1" in text
    assert "batch" in text
    assert main(["run", str(head.parent / "none.onnx"), "--random"]) != 0
