"""GPU programs in the model of a device: what they compute, and protocol faults that it finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc.dialects.dtypes import named_dtype
from mlc.text import parse_text
from tests.gpu_model.clocks import ModelError
from tests.gpu_model.faults import ARRIVE, NUMBERS, WAIT, Fault, verdict
from tests.gpu_model.machine import Model
from tests.plans import planned
from tests.sweeps import covering

Array = NDArray[Any]


@dataclass(frozen=True)
class Program:
    """A function of random arrays, and how far its results may be from f64's."""

    f: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    error: float
    options: tuple[tuple[str, Any], ...] = ()

    def loops(self, target: str) -> str:
        specs = [mlc.TensorSpec(*shape, dtype=self.dtype) for shape in self.shapes]
        options = dict(self.options)
        if "sm_80" in target and "schedule" in options:
            options["schedule"] = options["schedule"].replace("mma_f64)", "mma_f64_m8n8k4)")
        return planned(self.f, *specs, target=target, **options).text("loops")

    def draw(self) -> list[Array]:
        rng = np.random.default_rng(4)
        kind = named_dtype(self.dtype).numpy
        return [rng.standard_normal(shape).astype(kind) for shape in self.shapes]

    def difference(self, text: str, *, seed: int = 0, blocks: int | None = None) -> float:
        """Of what the model computes from what NumPy does, at most."""
        return self.error_in(Model(parse_text(text, "loops"), seed, blocks))

    def error_in(self, model: Model) -> float:
        """The same, of a model of the program."""
        arrays, kind = self.draw(), named_dtype(self.dtype).numpy
        expected = np.asarray(self.f(*(x.astype(np.float64) for x in arrays)))
        (found,) = model.call(arrays, [(expected.shape, kind)])
        return float(np.max(np.abs(found.astype(np.float64) - expected)))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def by_words(*words: str) -> tuple[tuple[str, str], ...]:
    return (("schedule", ", ".join(words)),)


def nn(a: Any, b: Any) -> Any:
    return a @ b


def relu_of_nn(a: Any, b: Any) -> Any:
    return np.maximum(a @ b, 0)


def nt(a: Any, b: Any) -> Any:
    return a @ b.T


def tn(a: Any, b: Any) -> Any:
    return a.T @ b


def sums_of_columns(x: Any) -> Any:
    return x.sum(0)


def sums_of_rows(x: Any) -> Any:
    return x.sum(1)


def turned(x: Any) -> Any:
    return np.ascontiguousarray(x.T)


def conv(x: Any, w: Any) -> Any:
    if type(x) is not np.ndarray:
        return mlc.nn.conv(x, w)
    windows: Array = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    return np.einsum("ncuvij,fcij->nfuv", windows, w)


def strided(x: Any, w: Any) -> Any:
    if type(x) is not np.ndarray:
        return mlc.nn.conv(x, w, stride=2, layout="channels_last")
    windows: Array = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    return np.einsum("nuvcij,ijcf->nuvf", windows[:, ::2, ::2], w)


def by_warps(name: str, k: int, slots: int = 0) -> tuple[tuple[str, str], ...]:
    several = f"slots {slots}, " if slots else ""
    stage = f"stage(m 64, n 64, k {k}, rows 32, columns 16, {several}{name})"
    return by_words("vector(2)", "threads(256)", stage)


F64, F64_AHEAD = by_warps("mma_f64", 8), by_warps("mma_f64", 8, 3)
TF32 = (*by_warps("mma_tf32", 16), ("numerics", "fast"))
BF16, F16 = by_warps("mma_bf16", 32), by_warps("mma_f16", 32)
BF16_AHEAD = by_warps("mma_bf16", 32, 2)
SMALL = by_words("tile(m 64, n 128, k 64)", "stages(2)", "roles(producer 1, consumer 1)")
CLUSTER = by_words(
    "tile(m 64, n 128, k 64)", "stages(2)", "roles(producer 1, consumer 1)", "raster(2)",
    "cluster(2)",
)  # fmt: skip
PARTS = by_words(
    "tile(m 128, n 64, k 64)", "stages(2)", "roles(producer 1, consumer 2)", "raster(2)",
    "split_k(blocks 5, parts 3)",
)  # fmt: skip
TURNS = by_words(
    "tile(m 64, n 64, k 64)", "stages(3)", "roles(producer 1, consumer 2)", "raster(2)",
    "overlap(items)",
)  # fmt: skip
THREE = by_words(
    "tile(m 64, n 64, k 64)", "stages(4)", "roles(producer 1, consumer 3, fill 32, sums 160)",
    "raster(2)", "overlap(items)",
)  # fmt: skip
PROGRAMS = {
    "nn, turns": Program(relu_of_nn, ((200, 264), (264, 136)), "bf16", 0.3, TURNS),
    "nt, turns of three": Program(nt, ((264, 136), (200, 136)), "bf16", 0.2, THREE),
    "nn": Program(relu_of_nn, ((72, 136), (136, 72)), "bf16", 0.2),
    "nt": Program(nt, ((72, 64), (72, 64)), "bf16", 0.2),
    "tn": Program(tn, ((136, 64), (136, 136)), "bf16", 0.2, SMALL),
    "nn, clusters": Program(nn, ((192, 136), (136, 264)), "bf16", 0.2, CLUSTER),
    "nt, clusters": Program(nt, ((128, 136), (128, 136)), "bf16", 0.2, CLUSTER),
    "nn, parts": Program(relu_of_nn, ((136, 264), (264, 128)), "bf16", 0.3, PARTS),
    "parts of clusters": Program(
        nn,
        ((192, 200), (200, 128)),
        "bf16",
        0.3,
        by_words(*CLUSTER[0][1].split(", "), "split_k(blocks 6, parts 3)"),
    ),
    "f16": Program(nn, ((64, 64), (64, 64)), "f16", 0.03),
    "f32": Program(nn, ((64, 48), (48, 64)), "f32", 1e-4),
    "f32, odd": Program(nn, ((9, 17), (17, 33)), "f32", 1e-4),
    "f32 by fours": Program(relu_of_nn, ((70, 20), (20, 36)), "f32", 1e-4),
    "f64 by threads": Program(nn, ((64, 32), (32, 64)), "f64", 1e-12),
    "f64": Program(nn, ((64, 32), (32, 64)), "f64", 1e-12, F64),
    "f64, odd": Program(relu_of_nn, ((70, 33), (33, 70)), "f64", 1e-12, F64),
    "f64, tn": Program(tn, ((40, 20), (40, 30)), "f64", 1e-12, F64),
    "f64, ahead": Program(
        relu_of_nn, ((64, 40), (40, 128)), "f64", 1e-12, by_warps("mma_f64", 8, 3)
    ),
    "f64, tn, ahead": Program(tn, ((24, 64), (24, 64)), "f64", 1e-12, F64_AHEAD),
    "f64, edges, ahead": Program(relu_of_nn, ((70, 42), (42, 70)), "f64", 1e-12, F64_AHEAD),
    "f64, tn, edges, ahead": Program(tn, ((34, 70), (34, 66)), "f64", 1e-12, F64_AHEAD),
    "bf16, ahead": Program(relu_of_nn, ((64, 96), (96, 64)), "bf16", 0.2, BF16_AHEAD),
    "bf16, tn, ahead": Program(tn, ((64, 64), (64, 64)), "bf16", 0.2, BF16_AHEAD),
    "bf16, tn, odd": Program(tn, ((41, 33), (41, 37)), "bf16", 0.2, BF16),
    "bf16, odd": Program(nt, ((33, 41), (37, 41)), "bf16", 0.2, BF16),
    "tf32": Program(nn, ((64, 48), (48, 64)), "f32", 0.03, TF32),
    "tf32, odd": Program(tn, ((41, 33), (41, 37)), "f32", 0.03, TF32),
    "convolution": Program(conv, ((2, 9, 11, 10), (20, 9, 3, 3)), "bf16", 0.2, BF16),
    "convolution by threads": Program(conv, ((2, 9, 11, 10), (20, 9, 3, 3)), "f32", 1e-4),
    "convolution of f64": Program(conv, ((2, 9, 7, 7), (20, 9, 3, 3)), "f64", 1e-12, F64),
    "channels last": Program(strided, ((1, 13, 9, 8), (3, 3, 8, 16)), "f16", 0.03, F16),
    "sums of columns": Program(sums_of_columns, ((40, 36),), "f32", 1e-4),
    "sums of rows": Program(sums_of_rows, ((3, 700),), "f32", 1e-3),
    "softmax": Program(softmax, ((4, 300),), "f32", 1e-6),
    "scan": Program(np.cumsum, ((700,),), "f32", 1e-3),
    "sort": Program(np.sort, ((300,),), "f32", 0.0),
    "turned": Program(turned, ((37, 45),), "f32", 0.0),
}


FOR_WGMMA = [
    name for name, x in PROGRAMS.items() if "roles(" in dict(x.options).get("schedule", "")
]
FOR_ANY = [name for name in PROGRAMS if name not in FOR_WGMMA]


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *covering(FOR_WGMMA, ["cuda:h200"], strength=1),
        *covering(FOR_ANY, ["cuda:h200", "cuda:sm_80"], strength=1),
    ],
)
def test_the_model_agrees_with_numpy(name: str, target: str) -> None:
    program = PROGRAMS[name]
    assert program.difference(program.loops(target)) <= program.error


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "edges" in name])
def test_summed_elements_past_the_end_are_copied_as_zeros(name: str) -> None:
    """Without the condition what lies behind a row, or behind the array, would be multiplied."""
    program = PROGRAMS[name]
    text = str(program.loops("cuda:h200"))
    everywhere, count = re.subn(r"(mlc_gpu\.copy_async .*) where %\S+ :", r"\1 :", text)
    assert count
    try:
        found = program.difference(everywhere)
    except ModelError:
        return
    assert not found <= program.error


@pytest.mark.parametrize("kind", ["f8e4m3fn", "f8e5m2"])
def test_factors_of_8_bits(kind: str) -> None:
    def scaled(a: Any, b: Any, scale: Any) -> Any:
        return (a.astype(np.float32) @ b.astype(np.float32).T) * scale

    spec, rng = mlc.TensorSpec, np.random.default_rng(4)
    specs = [spec(72, 144, dtype=kind), spec(136, 144, dtype=kind), spec(136, dtype="f32")]
    text = planned(scaled, *specs, target="cuda:h200", numerics="fast").text("loops")
    assert "of f8E" in text
    a, b = (rng.standard_normal(n).astype(named_dtype(kind).numpy) for n in ((72, 144), (136, 144)))
    scale = rng.random(136).astype(np.float32)
    (found,) = Model(parse_text(text, "loops")).call([a, b, scale], [((72, 136), np.float32)])
    np.testing.assert_allclose(found, scaled(a, b, scale), rtol=1e-4, atol=1e-4)


# Faults -------------------------------------------------------------------------------------------

RING = PROGRAMS["tn"]

FAULTS = {
    "a place is not released": Fault(ARRIVE, "", "nobody can go on"),
    "the last place is not released": Fault(ARRIVE, "", "nobody can go on", 1),
    "a place is released twice": Fault(
        f"({ARRIVE})", r"\1 \1", "more arrivals|overwritten|nobody can go on"
    ),
    "the producer begins with the wrong phase": Fault(
        r"iter_args\((%\d+ = %\d+), (%\d+) = %\d+\)", r"iter_args(\1, \2 = %ZERO)",
        "nobody can go on",
    ),
    "consumers begin with the wrong phase": Fault(
        r"iter_args\((%\d+ = %\d+), (%\d+) = %\d+, (%\d+ = %\d+\))",
        r"iter_args(\1, \2 = %ONE, \3", "not brought yet|nobody has written",
    ),
    "slots are filled before they are free": Fault(WAIT, "", "overwritten|not brought|arrivals"),
    "slots are read before they are full": Fault(WAIT, "", "not brought|nobody has written", 1),
    "a place is released while it is multiplied": Fault(
        r"(mlc_gpu\.wgmma_wait %\d+), 1 ", r"\1, 2 ", "overwritten before it is waited for"
    ),
    "too few bytes are expected": Fault(
        r"(barrier_expect %\d+), \d+", r"\1, 8192", "nobody can go on|not brought"
    ),
    "a wrong leading offset": Fault("leading 8192", "leading 4096", NUMBERS, 1),
    "a wrong stride offset": Fault("stride 1024", "stride 512", NUMBERS, 1),
    "a wrong step": Fault("by 2048", "by 1024", NUMBERS),
    "slots that are not aligned": Fault(
        r"arith\.constant -1024 : i32", "arith.constant -128 : i32", "inside of eight swizzled"
    ),
    "results that are not swizzled": Fault(
        r"arith\.xori (%\d+, %\d+) : i32", r"arith.ori \1 : i32", "nobody has written", -1
    ),
    "a missing fence": Fault(r"mlc_gpu\.async_fence", "", "without a fence"),
    "a slot of results is written while it is read": Fault(
        r"mlc_gpu\.bulk_wait \d+", "", "its slot is overwritten", None
    ),
    "barriers are used before they are made": Fault(
        r"mlc_gpu\.barrier\n", "\n", "no barrier was made"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def ring() -> str:
    return RING.loops("cuda:h200")


CLUSTERS = PROGRAMS["nt, clusters"]
CLUSTER_FAULTS = {
    "blocks fill places of others that do not run yet": Fault(
        r"mlc_gpu\.cluster_barrier", "", "may have not begun"
    ),
    "places are released to the own block alone": Fault(
        r"(barrier_arrive %\d+) of %\d+", r"\1", "more arrivals|nobody can go on|overwritten", None
    ),
    "a block copies for itself alone": Fault(r" cluster 2", "", "nobody can go on"),
    "all copy the first part": Fault(
        r"(mlc_gpu\.bulk_load %\w+)\[%\d+, (%\d+\] to %\d+, %\d+ cluster)", r"\1[%ZERO, \2",
        NUMBERS,
    ),
    "a block ends before others have read": Fault(
        rf"{WAIT}((?:\n\s*%[^\n]*)+\n\s*){WAIT}", r"\1", "has ended"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def clusters() -> str:
    return CLUSTERS.loops("cuda:h200")


@pytest.mark.parametrize("name", CLUSTER_FAULTS)
def test_faults_of_clusters_are_found(name: str, clusters: str) -> None:
    found = _found(CLUSTERS, clusters, CLUSTER_FAULTS[name])
    assert re.search(CLUSTER_FAULTS[name].message, found), found


PARTED = Program(nn, ((64, 264), (264, 64)), "bf16", 0.3, by_words(
    "tile(m 64, n 64, k 64)", "stages(2)", "roles(producer 1, consumer 1)",
    "split_k(blocks 3, parts 3)",
))  # fmt: skip
PART_FAULTS = {
    "nobody says that a part is there": Fault(
        r"mlc_gpu\.signal [^\n]*", "", "nobody can go on"
    ),
    "a part is read before it is there": Fault(r"mlc_gpu\.await [^\n]*", "", NUMBERS),
    "marks are not cleared": Fault(
        r"mlc_gpu\.launch @\w+_clear0[^\n]*", "", "not 0 before"
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def parted() -> str:
    return PARTED.loops("cuda:h200")


@pytest.mark.parametrize("name", PART_FAULTS)
def test_faults_of_parts_are_found(name: str, parted: str) -> None:
    assert PARTED.difference(parted) <= PARTED.error
    found = _found(PARTED, parted, PART_FAULTS[name], blocks=3)
    assert re.search(PART_FAULTS[name].message, found), found


TURNED = PROGRAMS["nn, turns"]
TURN_FAULTS = {
    "nobody waits for a turn": Fault(WAIT, "", f"not brought|nobody has written|{NUMBERS}", 1),
    "nobody passes": Fault(ARRIVE, "", "nobody can go on", 1),
    "a group that passes releases a place too": Fault(
        rf"({ARRIVE})", r"\1 \1", "more arrivals|nobody can go on", 1
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def turned_ring() -> str:
    return TURNED.loops("cuda:h200")


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("name", ["nn, turns", "nt, turns of three"])
def test_turns_are_right_in_any_order(name: str, blocks: int) -> None:
    text = PROGRAMS[name].loops("cuda:h200")
    for seed in range(3):
        found = PROGRAMS[name].difference(text, seed=seed, blocks=blocks)
        assert found <= PROGRAMS[name].error


@pytest.mark.parametrize("name", TURN_FAULTS)
def test_faults_of_turns_are_found(name: str, turned_ring: str) -> None:
    found = _found(TURNED, turned_ring, TURN_FAULTS[name], blocks=1)
    assert re.search(TURN_FAULTS[name].message, found), found


def _found(program: Program, text: str, fault: Fault, blocks: int = 2) -> str:
    return verdict(text, fault, lambda model: program.error_in(model) <= program.error, blocks)


def test_the_ring_is_right_in_any_order(ring: str) -> None:
    for seed in range(2):
        assert RING.difference(ring, seed=seed, blocks=1) <= RING.error


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(name: str, ring: str) -> None:
    found = _found(RING, ring, FAULTS[name], blocks=1)
    assert re.search(FAULTS[name].message, found), found
