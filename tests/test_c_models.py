"""Models as programs for C: the header has the names of ONNX and StableHLO, and C the bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.c_files import CProgram, Weights
from mlc.driver import main
from mlc.programs import open_program
from tests.c_programs import called, compiler, here

rng = np.random.default_rng(0)
LAYER = """
module @jit_layer {
  func.func public @main(%x: tensor<?x3xf32>, %w: tensor<3x2xf32>) -> tensor<?x2xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
    %1 = stablehlo.tanh %0 : tensor<?x2xf32>
    return %1 : tensor<?x2xf32>
  }
}
"""


def f32(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def head(folder: Path) -> tuple[Path, dict[str, Any]]:
    """A model with a name that C cannot spell, sizes that are open, and a weight above 64 KiB."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    helper = onnx.helper
    weights = {"up.w": f32(300, 256), "up.b": f32(256), "down.w": f32(256, 4)}
    nodes = [
        helper.make_node("MatMul", ["tokens:0", "up.w"], ["h"]),
        helper.make_node("Add", ["h", "up.b"], ["b"]),
        helper.make_node("Relu", ["b"], ["r"]),
        helper.make_node("MatMul", ["r", "down.w"], ["logits"]),
        helper.make_node("ReduceMax", ["logits"], ["best"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes,
        "head-1",
        [helper.make_tensor_value_info("tokens:0", 1, ["batch", "past + 1", 300])],
        [helper.make_tensor_value_info(name, 1, None) for name in ("logits", "best")],
        [onnx.numpy_helper.from_array(w, name) for name, w in weights.items()],
    )
    path = folder / "head.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return path, weights


@here
@compiler
@pytest.mark.parametrize("weights", ["freeze", "file", "arguments"])
def test_a_model_of_onnx_in_c(weights: Weights, tmp_path: Path) -> None:
    path, own = head(tmp_path)
    x = f32(2, 3, 300)
    kind = "arguments" if weights == "arguments" else "constants"
    opened = open_program(str(path), None, {"target": "avx2"}, kind)
    found = CProgram(opened.levels, captured=opened.captured, weights=weights)
    given = {
        "freeze": [],
        "file": [np.frombuffer(found.written("weights", ""), np.uint8)],
        "arguments": list(own.values()),
    }
    sizes = {"batch": 2, "past": 2}
    logits, best = called(found, [x, *given[weights]], tmp_path, sizes=sizes)
    model = mlc.onnx.load(path, weights=kind).compiled(target="avx2", threads=1)
    wanted = model(x, *(own.values() if weights == "arguments" else ()))
    np.testing.assert_array_equal(logits, wanted[0])
    np.testing.assert_array_equal(best, wanted[1])


@pytest.mark.parametrize("weights", ["freeze", "file", "arguments"])
def test_what_the_command_writes_of_a_model(weights: str, tmp_path: Path) -> None:
    """Weights are part of a model, unless somebody wants them as arguments."""
    path, own = head(tmp_path)
    command = ["build", str(path), "--target", "avx2", "--emit", "obj,header,a,so"]
    said = [] if weights == "freeze" else ["--weights", weights]
    assert main([*command, *said, "-o", str(tmp_path / "head")]) == 0
    written = {file.suffix for file in tmp_path.iterdir()}
    expected = {".onnx", ".o", ".h", ".a", ".so"}
    assert written == (expected | {".weights"} if weights == "file" else expected)
    header = (tmp_path / "head.h").read_text()
    assert "head_1_call(mlc_context *context, int64_t batch, int64_t past," in header
    assert "tokens_0: float [batch][past + 1][300], read" in header
    assert "logits: float [batch][past + 1][4], written" in header
    assert "best: float, written" in header
    names = [name for name in own if f"{name.replace('.', '_')}: float" in header]
    assert names == (list(own) if weights == "arguments" else [])
    assert ("head_1.weights" in header) == (weights == "file")


@here
@compiler
def test_a_module_of_stablehlo_in_c(tmp_path: Path) -> None:
    path = tmp_path / "layer.mlir"
    path.write_text(LAYER)
    assert main(["build", str(path), "--emit", "obj,header,a,so", "-o", str(tmp_path / "l")]) == 0
    header = (tmp_path / "l.h").read_text()
    assert "x: float [a0_0][3], read" in header
    assert "jit_layer_call(mlc_context *context, int64_t a0_0, const float *x, " in header
    opened = open_program(str(path), None, {"target": "avx2"})
    x, w = f32(5, 3), f32(3, 2)
    (out,) = called(CProgram(opened.levels), [x, w], tmp_path, sizes={"a0_0": 5})
    np.testing.assert_allclose(out, np.tanh(x @ w), rtol=1e-5)


def test_other_commands_read_stablehlo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layer.mlir"
    path.write_text(LAYER)
    assert main(["run", str(path), "--random", "--sizes", "a0_0=3"]) == 0
    assert "result 0: float32[3, 2]" in capsys.readouterr().out
    assert main(["show", str(path), "--at", "stablehlo"]) == 0
    assert "stablehlo.dot_general" in capsys.readouterr().out
    path.write_text(LAYER.replace("tanh", "all_reduce"))
    assert main(["show", str(path)]) == 1
    assert "layer.mlir: ops of StableHLO that are not supported" in capsys.readouterr().err


def test_names_that_c_has_no_room_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(LAYER.replace("module @jit_layer", "module"))
    assert main(["build", str(path), "--emit", "obj"]) == 1
    assert "'main' is no name in C; give the function another one" in capsys.readouterr().err
