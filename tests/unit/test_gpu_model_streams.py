"""Attention and its gradient in the model of a GPU: numbers, and faults of rings of places."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.dialects.dtypes import named_dtype
from mlc.levels import Levels
from mlc.pipeline import run_pipeline
from mlc.text import parse_text
from tests.gpu_model.faults import ARRIVE, WAIT, Fault, verdict
from tests.gpu_model.machine import Model
from tests.plans import planned
from tests.stream_programs import (
    GRADIENTS,
    PARTS,
    PROGRAMS,
    Attention,
    causal,
    check_gradient,
    cotangent,
    full,
    same,
    with_gradient,
)
from tests.sweeps import covering, leading
from tests.unit import test_gpu_gradients, test_gpu_streams

Array = NDArray[Any]
UNIT = {"bf16": 2.0**-8, "f16": 2.0**-11}
SMALL = "tile(m 64, n 64, k 64), stages(2), roles(producer 1, consumer 1, fill 24, sums 240)"


def levels(program: Attention, *, gradient: bool) -> Levels:
    arrays = given(program, gradient=gradient)
    specs = [mlc.TensorSpec(*x.shape, dtype=program.dtype) for x in arrays]
    f = with_gradient(program.f, program.factors) if gradient else program.f
    found = planned(f, *specs, target="cuda:h200")
    assert found.text("plan").count('mlc.kernel "stream"') == (3 if gradient else 1)
    return found


def by_one_group(program: Attention, *, gradient: bool) -> ModuleOp:
    """The loops level of small tiles in two places each, so that rings go round several times."""
    found = levels(program, gradient=gradient)
    words = r"tile\([^)]*\), stages\(\d+\), roles\([^)]*\)"
    plan = re.sub(words, SMALL, found.text("plan"))
    return run_pipeline(parse_text(plan, "plan"), found.options, until="loops", done="plan")


def given(program: Attention, *, gradient: bool) -> list[Array]:
    return [*program.arrays(), *([cotangent(program)] if gradient else [])]


def expected(program: Attention, arrays: list[Array]) -> list[tuple[Array, Array]]:
    """
    The result and the gradients in f64, each with how far off it may be: weights, what is left of
    them in gradients, the result and each of the sums are rounded once to the narrow dtype.
    """
    q, k, v, *rest = (x.astype(np.float64) for x in arrays)
    unit, scale = UNIT[program.dtype], 1 / np.sqrt(q.shape[-1])
    s = q @ np.swapaxes(k, -1, -2) * scale
    if program.f is causal:
        s[..., ~np.tri(s.shape[-1], dtype=bool)] = -np.inf
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    out = p @ v
    found = [(out, unit * (p @ np.abs(v) + np.abs(out)))]
    for g in rest:
        transposed = np.swapaxes(p, -1, -2)
        ds = p * (g @ np.swapaxes(v, -1, -2) - (g * out).sum(-1, keepdims=True))
        late = p * (np.abs(g) * found[0][1]).sum(-1, keepdims=True)  # of the result that was stored
        off = unit * np.abs(ds) + late
        pairs = [
            (ds @ k * scale, off @ np.abs(k) * scale),
            (np.swapaxes(ds, -1, -2) @ q * scale, np.swapaxes(off, -1, -2) @ np.abs(q) * scale),
            (transposed @ g, unit * transposed @ np.abs(g)),
        ]
        found += [(x, bound + unit * np.abs(x)) for x, bound in pairs]
    return found


SUMS = 1e-5  # of f32, of numbers of the size of one


def judge(program: Attention, *, gradient: bool) -> Callable[[Model], bool]:
    arrays = given(program, gradient=gradient)
    wanted = expected(program, arrays)
    kind = named_dtype(program.dtype).numpy

    def agrees(model: Model) -> bool:
        found = model.call(arrays, [(x.shape, kind) for x, _ in wanted])
        return all(
            bool((np.abs(mine.astype(np.float64) - x) <= 1.01 * bound + SUMS).all())
            for mine, (x, bound) in zip(found, wanted, strict=True)
        )

    return agrees


FORWARD = [same(full, 128, 64), same(causal, 2, 130, 64), same(full, 140, 128, dtype="f16")]
BACKWARD = [same(full, 128, 64), same(causal, 130, 64)]


@pytest.mark.parametrize("program", FORWARD, ids=str)
def test_attention_agrees_with_numpy(program: Attention) -> None:
    assert judge(program, gradient=False)(Model(levels(program, gradient=False).at("loops")))


@pytest.mark.parametrize("program", BACKWARD, ids=str)
def test_gradients_agree_with_numpy(program: Attention) -> None:
    assert judge(program, gradient=True)(Model(levels(program, gradient=True).at("loops")))


TURNS = [same(full, 192, 64), same(causal, 192, 64)]
"""Three tiles of rows, and of columns."""


@pytest.mark.parametrize(("program", "seed"), covering(TURNS, [0, 1], strength=1))
@pytest.mark.parametrize("gradient", [False, True])
def test_rings_go_round_in_any_order(program: Attention, seed: int, gradient: bool) -> None:
    model = Model(by_one_group(program, gradient=gradient), seed, blocks=1)
    assert judge(program, gradient=gradient)(model)


def overlapping(program: Attention) -> ModuleOp:
    """Items whose ends and beginnings overlap, which only many long ones are given."""
    found = test_gpu_streams.levels(program)
    plan = re.sub(r"(raster\([^)]*\))\]", r"\1, overlap(items)]", found.text("plan"))
    return run_pipeline(parse_text(plan, "plan"), found.options, until="loops", done="plan")


def with_masks(module: ModuleOp, arrays: list[Array]) -> list[Array]:
    sizes = test_gpu_gradients.captured(str(module))
    return [*arrays, *(np.tril(np.ones((n, n), bool)) for n in sizes)]


@pytest.mark.parametrize("program", leading(1, test_gpu_streams.OVERLAPPING), ids=str)
@pytest.mark.parametrize("blocks", [1, 2])
def test_items_overlap(program: Attention, blocks: int) -> None:
    arrays = program.arrays()
    wanted = program.expected(arrays)
    model = Model(overlapping(program), seed=blocks, blocks=blocks)
    (found,) = model.call(arrays, [(wanted.shape, arrays[0].dtype)])
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=0.02, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("program", [*PROGRAMS, *PARTS], ids=str)
def test_every_attention(program: Attention) -> None:
    arrays = program.arrays()
    wanted = program.expected(arrays)
    found = test_gpu_streams.levels(program)
    inputs = with_masks(found.at("tiles"), arrays)
    (out,) = Model(found.at("loops"), blocks=2).call(inputs, [(wanted.shape, arrays[0].dtype)])
    np.testing.assert_allclose(out.astype(np.float32), wanted, rtol=0.02, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("program", [*GRADIENTS, *PARTS], ids=str)
def test_every_gradient(program: Attention) -> None:
    arrays = [*program.arrays(), cotangent(program)]
    found = test_gpu_gradients.levels(program)
    inputs = with_masks(found.at("tiles"), arrays)
    shapes = [(x.shape, x.dtype) for x in (arrays[-1], *arrays[: program.factors])]
    check_gradient(program, Model(found.at("loops"), blocks=8).call(inputs, shapes))


# Faults -------------------------------------------------------------------------------------------

RELEASE = rf"(?:%\d+ = arith\.\w+ [^\n]*\n\s*)+{ARRIVE}\n"
"""With what says who does it."""
USED = "overwritten"


def missing_release(k: int) -> Fault:
    """Of the first scores, others, sums, rows, the last sums."""
    return Fault(ARRIVE, "", "nobody can go on", k)


def filled_too_early(k: int) -> Fault:
    """Of columns, of values. Rows and the first columns are free by then, as others tell."""
    return Fault(WAIT, "", USED, k)


def read_too_early(k: int) -> Fault:
    """Rows, the first columns; others, values; the last values."""
    return Fault(WAIT, "", "not brought yet|nobody has written", 5 + k)


def same_phase(k: int) -> Fault:
    """The producer's of other columns; those of rows, columns, others for consumers."""
    message = "nobody can go on|not brought yet|overwritten"
    return Fault(r"arith\.xori (%\d+, %\d+) : i32", r"arith.ori \1 : i32", message, k)


FULL = {
    "a release is missing": missing_release(2),
    "a place is filled before it is free": filled_too_early(3),
    "a place is read before it is full": read_too_early(0),
    "a phase is not turned": same_phase(2),
    "a place is released twice": Fault(
        rf"({ARRIVE})", r"\1 \1", "more arrivals|overwritten|nobody can go on", 1
    ),
    "columns are released while scores are computed": Fault(
        rf"(?s)(%\d+ = mlc_gpu\.wgmma_wait %\d+, 0 : (?:(?!barrier_arrive).)*)({RELEASE})",
        r"\2\1", USED,
    ),
    "values are released while sums are computed": Fault(
        rf"(?s)(%\d+ = mlc_gpu\.wgmma_wait %\d+, 0 keeps (?:(?!barrier_arrive).)*)({RELEASE})",
        r"\2\1", USED,
    ),
    "values are released before they are multiplied": Fault(
        rf"(?s)(%\d+ = mlc_gpu\.wgmma %\d+ by 0, (?:(?!barrier_arrive).)*{RELEASE}"
        rf"(?:(?!barrier_arrive).)*)({RELEASE})",
        r"\2\1", "overwritten|not brought yet",
    ),
    "the producer begins with the wrong phase": Fault(
        r"iter_args\((%\d+ = %\d+), (%\d+) = %\d+,", r"iter_args(\1, \2 = %ZERO,",
        "nobody can go on",
    ),
    "consumers begin with the wrong phase": Fault(
        r"iter_args\((%\d+ = %\d+), (%\d+) = %\d+, (%\d+ = %\d+), (%\d+) = %\d+,",
        r"iter_args(\1, \2 = %ONE, \3, \4 = %ONE,", "not brought yet|nobody has written", 1,
    ),
    "sums are used before they are there": Fault(
        r"(wgmma_wait %\d+), 0 keeps", r"\1, 1 keeps", "before they are waited for"
    ),
}  # fmt: skip
ELSEWHERE = {
    **{f"a release is missing, {k}": missing_release(k) for k in (0, 1, 3, 4)},
    **{f"a place is filled before it is free, {k}": filled_too_early(k) for k in (2, 4)},
    **{f"a place is read before it is full, {k}": read_too_early(k) for k in (1, 2, 3, 4)},
    **{f"a phase is not turned, {k}": same_phase(k) for k in (6, 7, 8)},
}
FOLDED = {
    "the place that is multiplied is released": Fault(
        r"(?s)(barrier_wait %\d+, %\d+\n\s*(%\d+) = arith\.addi "
        r"(?:(?!barrier_wait|barrier_arrive).)*barrier_arrive )%\d+",
        r"\1\2", f"{USED}|more arrivals|nobody can go on", function=1,
    ),
    "the place before is released while it is multiplied": Fault(
        r"(wgmma_wait %\d+), 1 keeps", r"\1, 2 keeps", USED, function=1
    ),
    "of two gradients one is not waited for": Fault(
        r"(wgmma_wait %\d+), 1 keeps", r"\1, 2 keeps", USED, None, function=2
    ),
    "the last place is not released": Fault(ARRIVE, "", "nobody can go on", 1, function=1),
    "rows are released before they are multiplied": Fault(
        rf"(?s)((?:%\d+, ){{4}}%\d+ = scf\.for (?:(?!%\d+ = scf\.for ).)*?{ARRIVE}"
        rf"(?:(?!barrier_arrive).)*{ARRIVE}\n\s*)({RELEASE})",
        r"\2\1", USED, function=1,
    ),
    "rows are not released": Fault(ARRIVE, "", "nobody can go on", 2, function=2),
    "columns of the cotangent come too late": Fault(
        r"(barrier_expect %\d+), 16384", r"\1, 8192", "not brought yet|nobody", 1, function=1
    ),
}  # fmt: skip


def check(program: Attention, text: str, fault: Fault, *, gradient: bool) -> None:
    found = verdict(text, fault, judge(program, gradient=gradient), blocks=1)
    assert re.search(fault.message, found), found


@pytest.fixture(scope="module")
def forward() -> str:
    return str(by_one_group(TURNS[0], gradient=False))


@pytest.mark.parametrize("name", leading(len(FULL), {**FULL, **ELSEWHERE}))
def test_faults_of_a_stream_are_found(name: str, forward: str) -> None:
    check(TURNS[0], forward, {**FULL, **ELSEWHERE}[name], gradient=False)


@pytest.fixture(scope="module")
def backward() -> str:
    return str(by_one_group(TURNS[0], gradient=True))


@pytest.mark.parametrize("name", FOLDED)
def test_faults_of_folds_are_found(name: str, backward: str) -> None:
    check(TURNS[0], backward, FOLDED[name], gradient=True)
