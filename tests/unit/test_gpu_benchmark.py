"""benchmarks.gpu without a GPU: what it measures, in small sizes, and what it says of times."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import sys
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from benchmarks.gpu import __main__ as command
from benchmarks.gpu.candidates import CANDIDATES, in_jax, in_torch, takes_part
from benchmarks.gpu.measure import Row
from benchmarks.gpu.plot import bars
from benchmarks.gpu.workload import Array, Workload, differentiated, loss_of
from benchmarks.gpu.workloads import GROUPS

DTYPES = {"bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i64": np.int64}
ATTENTION = [
    f"{shape}{causal}"
    for shape in ("16x16x1024x64", "4x16x4096x128", "1x16x16384x128")
    for causal in ("", "_causal")
]
MUST_SHOW = {
    "contractions": [
        *(f"matmul_bf16_{n}x{n}x{n}" for n in (1024, 2048, 4096, 8192, 16384)),
        *(
            f"matmul_bf16_{m}x{k}x{n}"
            for m in (16, 128, 1024, 8192)
            for k, n in ((4096, 14336), (14336, 4096), (4096, 4096))
        ),
        *(f"matmul_bf16_{way}_4096x4096x4096" for way in ("nt", "tn")),
        "matmul_bf16_64x1024x1024x1024",
    ],
    "linear_gelu": ["linear_gelu_8192x4096x14336"],
    "f32": ["matmul_f32_4096x4096x4096"],
    "softmax": ["softmax_16384x4096", "softmax_256x131072"],
    "layer_norm": ["layer_norm_16384x4096"],
    "elementwise": ["add_multiply_add_200000000", "chain_200000000"],
    "sums": ["sum_of_columns_32768x8192", "sum_of_rows_32768x8192"],
    "transpose": ["transpose_16384x16384"],
    "attention": [f"attention_{name}" for name in ATTENTION],
    "attention_back": [f"attention_back_{name}" for name in ATTENTION],
    "block": ["gpt2_block_8x1024x768"],
    "block_training": ["gpt2_block_8x1024x768_training"],
    "digits": [f"digits_{name}_{batch}" for name in ("mlp", "cnn") for batch in (64, 512)],
}
ALL = [w for group in GROUPS for w in group.workloads]
SMALL = [w for group in GROUPS for w in group.small]


def id_of(workload: Workload) -> str:
    return workload.name


def drawn(workload: Workload) -> list[NDArray[Any]]:
    rng = np.random.default_rng(7)

    def one(array: Array) -> NDArray[Any]:
        if array.dtype == "i64":
            return rng.integers(0, int(array.scale), array.shape)
        return (rng.normal(size=array.shape) * array.scale).astype(DTYPES[array.dtype])

    return [one(array) for array in workload.arrays]


def exact(arrays: list[NDArray[Any]]) -> list[NDArray[Any]]:
    return [x if x.dtype == np.int64 else x.astype(np.float64) for x in arrays]


def error(found: Any, expected: Any) -> float:
    mine, other = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    assert mine.shape == other.shape
    return float(np.linalg.norm(mine - other) / (np.linalg.norm(other) + 1e-30))


def test_every_group_of_the_goal_is_measured() -> None:
    names = {group.name: [w.name for w in group.workloads] for group in GROUPS}
    assert {name: names.get(name) for name in MUST_SHOW} == MUST_SHOW
    assert len(MUST_SHOW["contractions"]) == 20


def test_names_are_unique_and_each_says_what_it_costs() -> None:
    assert len({w.name for w in ALL}) == len(ALL)
    assert all(w.flops or w.bytes or w.steps for w in ALL)
    assert all("torch" in w.words for w in ALL), "PyTorch computes what results are compared with"


def test_the_goal_has_small_sizes() -> None:
    assert all(group.small for group in GROUPS if group.name in MUST_SHOW)


def test_shapes_are_what_their_names_say() -> None:
    nt, tn = (command.chosen(f"_{way}_4096")[0][1] for way in ("nt", "tn"))
    assert [a.shape for a in (*nt.arrays, *tn.arrays)] == [(4096, 4096)] * 4
    ((_, few),) = command.chosen("16x4096x14336")
    assert [a.shape for a in few.arrays] == [(16, 4096), (4096, 14336)]
    ((_, longest),) = command.chosen("attention_back_1x16x16384x128$")
    assert [a.shape for a in longest.arrays] == [(1, 16, 16384, 128)] * 4
    ((_, block),) = command.chosen("^block/")
    assert block.arrays[-1].shape == (8, 1024, 768)
    assert len(block.arrays) == 13


@pytest.mark.parametrize("workload", [w for w in SMALL if not w.gradient], ids=id_of)
def test_mlc_computes_what_numpy_does(workload: Workload) -> None:
    arrays = drawn(workload)
    found = mlc.compile(workload.f)(*arrays)
    assert error(found, workload.f(*exact(arrays))) <= workload.error


@pytest.mark.parametrize("workload", [w for w in SMALL if w.gradient], ids=id_of)
def test_gradients_are_those_of_the_loss(workload: Workload) -> None:
    """Along a random direction, beside the difference of two values of the loss in f64."""
    arrays = exact(drawn(workload))
    loss = loss_of(workload, workload.f)
    found = mlc.compile(differentiated(workload))(*arrays)
    rng = np.random.default_rng(3)
    given = arrays[len(found) :]
    ways = [rng.normal(size=x.shape) for x in arrays[: len(found)]]

    def at(h: float) -> float:
        moved = [x + h * way for x, way in zip(arrays, ways, strict=False)]
        return float(loss(*moved, *given))

    slope = sum(float((g * way).sum()) for g, way in zip(found, ways, strict=True))
    h = 1e-2  # the loss rounds to f32
    assert slope == pytest.approx((at(h) - at(-h)) / (2 * h), rel=2e-2)
    assert len(found) == len(workload.arrays) - (workload.gradient == "given")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("workload", SMALL, ids=id_of)
def test_words_of_torch(workload: Workload) -> None:
    torch = importlib.import_module("torch")
    arrays = exact(drawn(workload))
    given = [torch.from_numpy(x) for x in arrays]
    if workload.steps:
        found = workload.words["torch"](torch, *given)()
    else:
        found = in_torch(torch, workload)(*given)
    check_words(workload, arrays, found)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
@pytest.mark.parametrize(
    "workload", [w for w in SMALL if "jax" in w.words and not w.steps], ids=id_of
)
def test_words_of_jax(workload: Workload) -> None:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    arrays = exact(drawn(workload))
    check_words(workload, arrays, in_jax(workload)(*map(jax.numpy.array, arrays)))


def check_words(workload: Workload, arrays: list[NDArray[Any]], found: Any) -> None:
    expected = mlc.compile(differentiated(workload))(*arrays)
    pairs: Any = zip(found, expected, strict=True) if workload.gradient else [(found, expected)]
    for mine, other in pairs:
        assert error(mine, other) <= 1e-5


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("bf16_1024x1024x1024", "torch compile jax triton tuned mlc"),
        ("64x1024x1024x1024", "torch compile jax tuned mlc"),
        ("softmax_256", "torch compile jax triton tuned mlc"),
        ("chain", "torch compile jax triton tuned mlc"),
        ("attention_16x16x1024x64$", "torch compile cudnn flash jax tuned mlc"),
        ("back_16x16x1024x64$", "torch graph compile cudnn flash jax tuned mlc"),
        ("block_training", "torch graph compile jax tuned mlc"),
        ("mlp_64", "torch graph jax mlc"),
    ],
)
def test_who_takes_part(pattern: str, names: str) -> None:
    ((_, workload),) = command.chosen(pattern)
    assert " ".join(name for name in CANDIDATES if takes_part(workload, name)) == names


def rows() -> list[Row]:
    first, second = ALL[0], ALL[1]
    errors = {"torch": 1e-3, "jax": 0.5, "mlc": 1e-3}
    return [
        Row("contractions", first, {"torch": 2e-3, "jax": 1e-3, "mlc": 1e-3}, errors),
        Row("contractions", second, {"torch": 1e-3, "mlc": 2e-3}, errors),
        Row("f32", second, {"torch": 1e-3, "mlc": 2e-3}, {"torch": 0.0, "mlc": math.nan}),
    ]


def test_what_is_wrong_counts_nowhere() -> None:
    assert [row.ratio for row in rows()[:2]] == [2.0, 0.5]
    assert math.isnan(rows()[2].ratio)


def test_tables_and_json() -> None:
    text = command.results("GPU", ["torch", "jax", "triton", "mlc"], rows()).text()
    assert "1.00 ms !" in text
    assert "triton" not in text
    assert "2.1 TFLOP/s" in text
    groups = command.by_group(rows())
    assert groups.rows == [
        ["contractions", "2 of 2", "1.000", "0.500"],
        ["all", "2 of 3", "1.000", "0.500"],
    ]
    assert [entry["ratio"] for entry in json.loads(command.as_json(rows()))] == [2.0, 0.5, None]
    assert bars({"one": 2.0, "two": 0.5}, "GPU").count("<rect") == 2


def test_list(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu", "--list", "--only", "^digits/.*_64"])
    assert command.main() == 0
    assert capsys.readouterr().out.split() == ["digits/digits_mlp_64", "digits/digits_cnn_64"]


def test_who_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = {"jax", "triton", "torch"}

    def found(name: str) -> object:
        return None if name in missing else object()

    monkeypatch.setattr("importlib.util.find_spec", found)
    assert command.present("jax,triton") == ["mlc"]
    assert capsys.readouterr().out.splitlines() == [
        f"{name} is left out: {name} is not installed" for name in ("jax", "triton")
    ]
    monkeypatch.setattr(sys, "argv", ["gpu"])
    assert command.main() == 1
    assert "needs PyTorch" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="--peers: tensorflow; expected some of torch"):
        command.present("tensorflow")
