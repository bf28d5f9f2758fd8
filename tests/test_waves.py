"""Loops of sweeps in waves: the bits of trips one after the other, and what is no such loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

import mlc
from mlc.dialects.errors import PlanError
from mlc.dialects.tensor.control import ForOp
from mlc.dialects.waves import WAVES, Waves, WavesAttr
from mlc.pipeline import run_pipeline
from tests.plans import HOSTED, planned, spec

Array = Any
TRIPS = 41


def by_turns(a: Array, b: Array) -> Array:
    a, b = a.copy(), b.copy()
    for _ in range(TRIPS):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a[1:-1, 1:-1] = 0.25 * (b[:-2, 1:-1] + b[2:, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:])
    return a, b


def far(a: Array, b: Array) -> Array:
    """Rows two and three away; what never changes is read anywhere."""
    a, b, c = a.copy(), b.copy(), b[::-1] * 0.125
    for _ in range(TRIPS):
        b[3:-3] = 0.5 * a[:-6] - 0.25 * a[5:-1] + c[3:-3]
        a[3:-3] = 0.5 * b[1:-5] + 0.25 * b[6:] - c[-1] * 0.5
    return a, b


def three(a: Array, b: Array) -> Array:
    """Three arrays, each made of the one before."""
    a, b, c = a.copy(), b.copy(), a - b
    for _ in range(TRIPS):
        b[1:-1] = 0.5 * (a[:-2] - a[2:])
        c[1:-1] = 0.5 * (b[:-2] + b[1:-1])
        a[1:-1] = a[1:-1] * 0.75 + 0.25 * c[2:]
    return a, b, c


def diffusion(a: Array, b: Array) -> Array:
    """What a trip leaves lies in one of two places by turns; an odd number of trips."""
    a = a + b
    for _ in range(TRIPS):
        old = a.copy()
        a[1:-1, 1:-1] = old[1:-1, 1:-1] + 0.1 * (old[2:, 1:-1] - old[:-2, 2:] + old[1:-1, :-2])
    return a, b


def two_by_turns(a: Array, b: Array) -> Array:
    """Both of two arrays; an even number of trips."""
    a, b = a.copy(), b.copy()
    for _ in range(TRIPS + 1):
        old, other = a.copy(), b.copy()
        a[2:-2] = 0.5 * (old[:-4] - other[4:])
        b[2:-2] = 0.25 * (other[1:-3] + a[3:-1])
    return a, b


def in_a_loop(a: Array, b: Array) -> Array:
    """As often as data say, from what the times before have left."""
    a, b, total = a.copy(), b.copy(), 0.0
    while total < 3.0:
        for _ in range(TRIPS):
            b[1:-1] = 0.5 * (a[:-2] - a[2:])
            a[1:-1] = 0.5 * (b[:-2] + b[1:-1])
        total = total + 1.0 + 0.0 * a[0, 0]
    return a, b


def upside_down(a: Array, b: Array) -> Array:
    a, b = a.copy(), b.copy()
    for _ in range(TRIPS):
        b[1:-1] = 0.5 * a[::-1][:-2]
        a[1:-1] = 0.5 * b[:-2]
    return a, b


def counted(a: Array, b: Array) -> Array:
    a, b = a.copy(), b.copy()
    for k in range(TRIPS):
        b[1:-1] = 0.5 * a[:-2] + k
        a[1:-1] = 0.5 * b[2:]
    return a, b


def of_all(a: Array, b: Array) -> Array:
    a, b = a.copy(), b.copy()
    for _ in range(TRIPS):
        b[1:-1] = 0.5 * a[:-2] + a.max()
        a[1:-1] = 0.5 * b[2:]
    return a, b


SWEEPS = (by_turns, far, three, in_a_loop, diffusion, two_by_turns)
OTHERS = (upside_down, counted, of_all)


def of_loop(f: Callable[..., Array], target: str) -> tuple[mlc.levels.Levels, list[ForOp]]:
    levels = planned(f, spec(1500, 1000), spec(1500, 1000), target=target)
    return levels, [op for op in levels.plan().walk() if isinstance(op, ForOp)]


@pytest.mark.parametrize("target", HOSTED)
@pytest.mark.parametrize("f", [*SWEEPS, *OTHERS])
def test_who_runs_in_waves(f: Callable[..., Array], target: str) -> None:
    _, loops = of_loop(f, target)
    assert {WAVES in loop.attributes for loop in loops} == {f in SWEEPS}


@pytest.mark.parametrize("f", [*SWEEPS, *OTHERS])
def test_bits_of_numpy(f: Callable[..., Array]) -> None:
    """By one worker, which runs in waves, and by several, which do not; of one array twice, too."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(700, 1000)).astype(np.float32) for _ in range(2))
    compiled = [mlc.compile(f, threads=n) for n in (1, 2)]
    for x, y in ((a, b), (a, a)):
        expected = f(x, y)
        for one in compiled:
            for found, right in zip(one(x, y), expected, strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)
        for found, other in zip(*(one(x, y) for one in compiled), strict=True):
            np.testing.assert_array_equal(found, other)


@pytest.mark.parametrize(
    ("f", "waves", "message"),
    [
        (by_turns, Waves(5000, 2), r"5000 blocks of 1498 rows; expected at most"),
        (upside_down, Waves(10, 2), r"reads of what the loop writes other rows than near ones"),
    ],
)
def test_waves_that_are_not_true(f: Callable[..., Array], waves: Waves, message: str) -> None:
    """What somebody has written into a plan is checked before code is made of it."""
    levels, (loop, *_) = of_loop(f, HOSTED[0])
    loop.attributes[WAVES] = WavesAttr(waves)
    module = next(x for x in _around(loop) if isinstance(x, ModuleOp))
    with pytest.raises(PlanError, match=message):
        run_pipeline(module, levels.options, done="plan")


def _around(op: Operation) -> Iterator[Operation]:
    while (parent := op.parent_op()) is not None:
        yield parent
        op = parent
