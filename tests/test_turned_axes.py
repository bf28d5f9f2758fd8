"""
Arrays that loops walk along an axis, and so have that axis first in memory
(`mlc-turn-walked-axes`): the bits of NumPy, and of programs in which nothing is turned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

import mlc
from mlc.frontend.trace.containers import flatten
from mlc.passes.tensor import turn_walked_axes
from mlc.passes.tensor.turn_walked_axes import TurnWalkedAxesPass
from mlc.runtime.interpret import interpret
from tests.random_affine import LEAST, LONG, Writer, arguments
from tests.sweeps import leading

Program = Callable[..., Any]


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Arrays of any size are turned, whatever it costs."""

    def free(_: object) -> turn_walked_axes.Costs:
        return turn_walked_axes.FREE

    monkeypatch.setattr(turn_walked_axes, "costs_of", free)
    monkeypatch.setenv("MLC_CACHE_DIR", str(tmp_path))


# ---- random loops


def turned(seed: int) -> bool:
    """Turns what can be turned, which must not change a bit; whether there was anything."""
    writer = Writer(seed)
    before = writer.module()
    after = before.clone()
    TurnWalkedAxesPass(always=True).apply(Context(), after)
    after.verify()
    if "mlc.transpose" not in str(after):
        return False
    for n in (LEAST, LONG + 1) if writer.symbolic else (LONG,):
        given = arguments(seed, n)
        pairs = zip(interpret(before, given), interpret(after, given), strict=True)
        for number, (expected, found) in enumerate(pairs):
            assert found.tobytes() == expected.tobytes(), f"seed {seed}, result {number}"
    return True


@pytest.mark.parametrize("start", leading(1, range(0, 150, 50)))
def test_random_loops(start: int) -> None:
    found = [turned(seed) for seed in range(start, start + 50)]
    assert any(found)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 4000, 100))
def test_many_random_loops(start: int) -> None:
    for seed in range(start, start + 100):
        turned(seed)


# ---- as users write them


def recurrence(x: Any, w: Any) -> Any:
    y = np.empty_like(x)
    y[:, :, 0] = x[:, :, 0]
    for k in range(1, x.shape[2]):
        y[:, :, k] = x[:, :, k] - w[1:, :, k] * y[:, :, k - 1] + w[:-1, :, k]
    return y


def in_place(x: Any, w: Any) -> None:
    for k in range(1, x.shape[2]):
        x[:, 1:, k] += x[:, :-1, k - 1]
        w[:, :, k] += w[:, :, k - 1]


def both_ways(x: Any, w: Any) -> Any:
    total = np.zeros_like(x)
    for _ in range(3):
        for k in range(x.shape[2] - 1, -1, -1):
            total[:, :, k] += x[:, :, k] * 2
        for i in range(x.shape[0]):
            total[i] += w[i + 1]
    return total + x, total.sum()


def under_conditions(x: Any, w: Any) -> Any:
    y = x.copy()
    for k in range(1, x.shape[2]):
        if w[:, :, k].sum() > 20:
            y[:, :, k] = y[:, :, k - 1] + 1
        else:
            y[:, -1:, :] = k
    return y


def walked(x: Any, w: Any) -> None:
    for k in range(1, x.shape[2]):
        x[:, :, k] = x[:, :, k - 1] == w[1:, :, k]


PROGRAMS: dict[str, Program] = {
    f.__name__: f for f in (recurrence, in_place, both_ways, under_conditions)
}
SHAPES = [(4, 3, 40), (3, 2, 5), (1, 5, 6), (2, 1, 3), (3, 2, 1), (2, 0, 4)]


def given(shape: tuple[int, int, int], dtype: str, order: Any) -> list[Any]:
    """An array of a shape, and one of a place more along the first axis."""
    rng = np.random.default_rng(3)
    shapes = shape, (shape[0] + 1, *shape[1:])
    return [np.asarray(rng.integers(0, 5, s), dtype=dtype, order=order) for s in shapes]


def agree(function: Any, program: Program, arrays: list[Any]) -> None:
    """The same results, and the same in the arguments."""
    own, expected = ([x.copy(order="K") for x in arrays] for _ in range(2))
    found, wanted = flatten((function(*own), own))[0], flatten((program(*expected), expected))[0]
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    """One artifact for all sizes, which NumPy agrees with in each."""
    function = mlc.compile(PROGRAMS[name], dynamic=True)
    low = function.lower(*given(SHAPES[0], "f8", "C"))
    assert "mlc.transpose" in low.text("tensor")
    for shape in SHAPES:
        agree(function, PROGRAMS[name], given(shape, "f8", "C"))


CASES = [("f4", "F", 1), ("i8", "F", 0), ("c8", "C", 0), ("?", "C", 0), ("u1", "F", 4)]


@pytest.mark.usefixtures("everywhere")
@pytest.mark.parametrize(("dtype", "order", "number"), CASES)
def test_dtypes_and_orders(dtype: str, order: str, number: int) -> None:
    program = walked if dtype == "?" else recurrence
    agree(mlc.compile(program), program, given(SHAPES[number], dtype, order))


@pytest.mark.usefixtures("everywhere")
def test_derivative() -> None:
    """Its loop runs backwards over the same parts."""

    def loss(x: Any, w: Any) -> Any:
        return (recurrence(x, w) ** 2).sum()

    x, w = given((2, 2, 5), "f8", "C")
    gradient = mlc.compile(mlc.grad(loss, argnums=(0, 1)))
    assert "mlc.transpose" in gradient.lower(x, w).text("tensor")
    for found, expected in zip(gradient(x, w), gradient.reference(x, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_by_cost() -> None:
    """Whoever walks along the last axis of large arrays has it first; `explain` says so."""
    rows, columns = (np.zeros((n, m)) for n, m in ((600, 600), (6, 6)))
    program = mlc.compile(sweep, target="avx512")
    assert "mlc.transpose" in program.lower(rows).text("tensor")
    said = [x for x in program.lower(rows).compile().remarks() if "walked" in x]
    assert len(said) == 1
    assert "axis 1" in said[0]
    assert "mlc.transpose" not in program.lower(columns).text("tensor")


def sweep(x: Any) -> None:
    for _ in range(4):
        for k in range(1, x.shape[1]):
            x[:, k] = 0.5 * (x[:, k] + x[:, k - 1])
