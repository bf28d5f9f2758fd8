"""
Loops that become ops on whole arrays (`mlc-raise-loops`): the bits of the serial loop, on random
programs and as users write them, and what `explain` says of each.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.dialects.tensor.control import ForOp
from mlc.passes.tensor.dce import DcePass
from mlc.passes.tensor.prove_bounds import ProveBoundsPass
from mlc.passes.tensor.raise_loops import RaiseLoopsPass
from mlc.runtime.interpret import interpret
from tests.random_affine import LEAST, LONG, Writer, arguments
from tests.sweeps import leading


def loops_in(module: ModuleOp) -> int:
    """How many loops a program has."""
    return sum(isinstance(op, ForOp) for op in module.walk())


def check(seed: int) -> tuple[int, int]:
    """Raises what can be raised, which must not change a bit; gives the loops before and after."""
    writer = Writer(seed)
    serial = writer.module()
    ProveBoundsPass().apply(Context(), serial)
    raised = serial.clone()
    RaiseLoopsPass(always=True).apply(Context(), raised)
    DcePass().apply(Context(), raised)
    raised.verify()
    for n in (LEAST, LONG + 1) if writer.symbolic else (LONG,):
        given = arguments(seed, n)
        pairs = zip(interpret(serial, given), interpret(raised, given), strict=True)
        for number, (expected, found) in enumerate(pairs):
            assert found.tobytes() == expected.tobytes(), f"seed {seed}, result {number}"
    return loops_in(serial), loops_in(raised)


@pytest.mark.parametrize("start", leading(4, range(0, 100, 10)))
def test_random_loops(start: int) -> None:
    found = [check(seed) for seed in range(start, start + 10)]
    assert any(after < before for before, after in found)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(100, 10_000, 100))
def test_many_random_loops(start: int) -> None:
    for seed in range(start, start + 100):
        check(seed)


# ---- as users write them


def scaled(a: Any, x: Any, y: Any) -> None:
    for i in range(len(x)):
        y[i] = a * x[i] + y[i]


def shifted(y: Any) -> None:
    for i in range(len(y) - 1):
        y[i] = 0.5 * y[i + 1] + y[i]


def of_one_place(y: Any) -> None:
    for i in range(len(y)):
        y[i] = y[3] + 1


def of_the_end(y: Any) -> None:
    for i in range(len(y)):
        y[i] = y[i] - y[len(y) - 1 - i]


def under_conditions(x: Any) -> Any:
    y = np.empty(len(x))
    positive = 0
    for i in range(len(x)):
        if x[i] > 0.5:
            y[i] = np.sqrt(x[i])
            positive += 1
        else:
            y[i] = -x[i]
    return y, positive


def turned(A: Any) -> Any:
    B = np.empty((A.shape[1], A.shape[0]))
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            B[j, i] = 2 * A[i, j] + j
    return B


def shortest(D: Any) -> None:
    for k in range(len(D)):
        for i in range(len(D)):
            for j in range(len(D)):
                D[i, j] = min(D[i, j], D[i, k] + D[k, j])


def counted(k: Any, e: Any) -> Any:
    h, total = np.zeros(9, np.int64), np.zeros((9, 2))
    for i in range(len(k)):
        h[k[i]] += 1
        total[k[i], i % 2] -= e[i]
    return h, total


def diagonals(A: Any) -> Any:
    traced = np.zeros(len(A))
    for i in range(len(A)):
        traced[i] = A[i, i]
        A[i, i] = 0
    for i in range(len(A) - 1):
        A[i + 1, len(A) - 1 - i] += traced[i]
    return traced


def by_label(labels: Any, A: Any) -> Any:
    sums = np.zeros((6, A.shape[1]))
    for i in range(len(labels)):
        sums[labels[i]] += A[i]
    return sums


def read_again(k: Any) -> Any:
    h = np.zeros(9, np.int64)
    for i in range(len(k)):
        h[k[i]] += h[0]
    return h


RANDOM = np.random.default_rng(7)
LONG_ROW, SQUARE = RANDOM.random(50), RANDOM.random((40, 40)) - 0.1
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "scaled": (scaled, (0.3, LONG_ROW, RANDOM.random(50)), 0),
    "shifted": (shifted, (LONG_ROW,), 0),
    "of one place": (of_one_place, (LONG_ROW,), 0),
    "of the end": (of_the_end, (LONG_ROW,), 0),
    "under conditions": (under_conditions, (LONG_ROW,), 0),
    "turned": (turned, (RANDOM.random((40, 50)),), 0),
    "diagonals": (diagonals, (SQUARE,), 0),
    "counted": (counted, (RANDOM.integers(-9, 9, 50), LONG_ROW), 0),
    "by label": (by_label, (RANDOM.integers(-6, 6, 40), SQUARE), 0),
    "read again": (read_again, (RANDOM.integers(0, 9, 50),), 1),
    "shortest": (shortest, (SQUARE,), 1),  # the paths by way of k need those by way of k - 1
}


@pytest.mark.parametrize("name", CASES)
def test_programs(name: str) -> None:
    """On a CPU the numbers, on a GPU as many loops as there must be."""
    f, given, loops = CASES[name]
    own, expected = copy.deepcopy(given), copy.deepcopy(given)
    pairs = zip((*own, mlc.compile(f)(*own)), (*expected, f(*expected)), strict=True)
    for found, wanted in pairs:
        assert pickle.dumps(found) == pickle.dumps(wanted)
    program = mlc.compile(f, target="h200").lower(*given)
    assert program.text("tensor").count("mlc.for") == loops


@pytest.mark.parametrize("name", ["scaled", "turned", "under conditions"])
def test_sizes_that_are_symbols(name: str) -> None:
    f, given, loops = CASES[name]
    program = mlc.compile(f, target="h200", dynamic=True).lower(*given)
    assert program.text("tensor").count("mlc.for") == loops


def blurred(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        y[i] = (x[i - 1] + x[i] + x[i + 1]) / 3
    return y


def every_other(x: Any) -> Any:
    y = np.zeros_like(x)
    for i in range(len(x) - 2, 0, -2):
        y[i] = x[i + 1]
    return y


def inside(A: Any, B: Any) -> None:
    for i in range(1, A.shape[0] - 1):
        for j in range(1, A.shape[1] - 1):
            B[i, j] = A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1]


def from_the_other(x: Any, y: Any) -> None:
    for i in range(len(y), len(x)):
        x[i] = 1 - x[i]


INSIDE: list[tuple[Callable[..., Any], list[tuple[int, ...]], int, int]] = [
    (blurred, [(9,), (2,), (1,), (40,), (0,)], 3, 0),
    (every_other, [(9,), (4,), (3,), (8,)], 1, 1),
    (inside, [(7, 9), (2, 5), (5, 2), (3, 3), (1, 4)], 2, 0),
    (from_the_other, [(9, 4), (4, 9), (5, 5)], 1, 1),
]


@pytest.mark.parametrize(("f", "sizes", "programs", "loops"), INSIDE)
def test_ranges_between_sizes(
    f: Callable[..., Any], sizes: list[tuple[int, ...]], programs: int, loops: int
) -> None:
    """One program where sizes have trips; those few that have none are others."""

    def arrays(shape: tuple[int, ...]) -> list[Any]:
        shapes = [(n,) for n in shape] if f is from_the_other else [shape] * (1 + (f is inside))
        return [RANDOM.random(s) for s in shapes]

    function = mlc.compile(f, dynamic=True)
    for shape in sizes:
        given = arrays(shape)
        own, expected = copy.deepcopy(given), copy.deepcopy(given)
        pairs = zip((*own, function(*own)), (*expected, f(*expected)), strict=True)
        for found, wanted in pairs:
            assert pickle.dumps(found) == pickle.dumps(wanted)
    assert function.stats().compilations == programs
    program = mlc.compile(f, target="h200", dynamic=True).lower(*arrays(sizes[0]))
    assert program.text("tensor").count("mlc.for") == loops


def running(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(1, len(x)):
        y[i] = y[i - 1] + x[i]
    return y


def test_what_is_said_of_loops() -> None:
    def said(f: Callable[..., Any], *given: Any) -> str:
        return mlc.compile(f, target="avx512").lower(*given).explain()

    assert "mlc.for: raised" in said(scaled, *CASES["scaled"][1])
    assert "cut at trip 3" in said(of_one_place, LONG_ROW)
    kept = said(running, LONG_ROW)
    assert "stays a loop: trips may meet in one element of an array. One writes it here:" in kept
    assert kept.count("y[i] = y[i - 1] + x[i]") == 2
    assert "Trips 0 and 1 do, for example." in kept
