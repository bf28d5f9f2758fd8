"""
Arrays that get shorter, or longer, by the same in each trip: one loop, which carries one with room
for the largest, whatever the number of trips. NumPy running the same text is the judge.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

Array = Any
R = np.random.default_rng(3)


def american(s: Array, strike: float) -> Array:
    v = np.maximum(strike - s, 0)
    for _ in range(len(s) - 1):
        s = s[:-1] * 0.97
        v = np.maximum(0.999 * (0.52 * v[:-1] + 0.48 * v[1:]), strike - s)
    return v[0]


def down_to(s: Array, steps: int) -> Array:
    """What is left is handed on; the sizes of other arrays are those of the trip, too."""
    v = None
    for t in range(len(s) - 1, len(s) - 1 - steps, -1):
        line = s[0] * 1.01 ** (2.0 * np.arange(t + 1) - t)
        v = np.maximum(line - 1, 0) if v is None else 0.5 * v[1:] + 0.5 * v[:-1] + 0 * line
    return v


def neville(x: Array, y: Array) -> Array:
    q = y
    for k in range(1, len(x)):
        q = ((0.3 - x[:-k]) * q[1:] - (0.3 - x[k:]) * q[:-1]) / (x[k:] - x[:-k])
    return q[0]


def curve(P: Array) -> Array:
    q = P
    for _ in range(1, len(P)):
        q = 0.7 * q[:-1] + 0.3 * q[1:]
    return q[0]


def pascal(n: Array) -> Array:
    row = np.ones(1)
    for i in range(len(n)):
        following = np.ones(i + 2)
        following[1:-1] = row[1:] + row[:-1]
        row = following
    return row


def from_roots(r: Array) -> Array:
    c = np.array([1.0])
    for k in range(len(r)):
        c = np.convolve(c, np.array([1.0, -1.0]) * np.array([1.0, r[k]]))
    return c


def appended(x: Array) -> Array:
    h = np.array([x[0]])
    for i in range(1, len(x)):
        h = np.append(h, h.mean() + x[i])
    return h, h[::-1]


def levinson(r: Array, b: Array) -> Array:
    f, x = np.array([1 / r[0]]), np.array([b[0] / r[0]])
    for k in range(1, len(b)):
        z, e = np.zeros(1), r[k:0:-1] @ f
        longer, shifted = np.concatenate([f, z]), np.concatenate([z, f[::-1]])
        f = (longer - e * shifted) / (1 - e * e)
        x = np.concatenate([x, z]) + (b[k] - r[k:0:-1] @ x) * f[::-1]
    return x


def both(x: Array) -> Array:
    """One gets shorter by two, one longer by three; a matrix along both axes."""
    longer, square = x[:2], np.outer(x, x)
    for _ in range(len(x) // 3):
        x = x[1:-1] * 1.5
        longer = np.concatenate([x[:3], longer * 2])
        square = square[1:, :-1] + square[:-1, 1:]
    return x, longer, square


GIVEN: dict[Callable[..., Any], Callable[[int], tuple[Any, ...]]] = {
    american: lambda n: (R.random(n) * 50 + 75, 100.0),
    down_to: lambda n: (R.random(n), n // 2),
    neville: lambda n: (np.linspace(0, 1, n), R.random(n)),
    curve: lambda n: (R.random((n, 2)),),
    pascal: lambda n: (np.zeros(n),),
    from_roots: lambda n: (R.random(n),),
    appended: lambda n: (R.random(n),),
    levinson: lambda n: (0.5 ** np.arange(n), R.random(n)),
    both: lambda n: (R.random(n),),
}


@pytest.mark.parametrize("function", GIVEN)
def test_as_numpy(function: Callable[..., Any]) -> None:
    given = GIVEN[function](61)
    compiled = mlc.compile(function)
    found, wanted = compiled(*given), function(*given)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else ((found, wanted),)
    for x, y in pairs:
        np.testing.assert_allclose(x, y, rtol=1e-9)
    assert compiled.lower(*given).text("trace").count("mlc.for") == 1


@pytest.mark.parametrize("function", GIVEN)
def test_text_does_not_grow_with_the_trips(function: Callable[..., Any]) -> None:
    lengths = {
        n: mlc.compile(function).lower(*GIVEN[function](n)).text("tensor").count("\n")
        for n in (400, 900)
    }
    assert lengths[400] == lengths[900]


def test_few_trips_and_open_sizes() -> None:
    for n in (1, 2, 3, 6):
        given = GIVEN[american](n)
        np.testing.assert_allclose(mlc.compile(american)(*given), american(*given))
    compiled = mlc.compile(american, dynamic={"s": {0: "n"}})
    for n in (2, 9, 40):
        given = GIVEN[american](n)
        np.testing.assert_allclose(compiled(*given), american(*given))


def test_sizes_that_do_not_change_by_constants() -> None:
    """Trips stand one after another: of halves, and of what gets too short for a trip."""

    def halved(x: Array) -> Array:
        for _ in range(6):
            x = np.sin(np.sort(x[::2] + x[1::2]))
        return x

    x = R.random(64)
    np.testing.assert_allclose(mlc.compile(halved)(x), halved(x))

    def emptied(x: Array) -> Array:
        for _ in range(40):
            x = np.sort(x[1:]) * 1.5
        return x, x.sum()

    for n in (12, 40, 50):
        x = R.random(n)
        for a, b in zip(mlc.compile(emptied)(x), emptied(x), strict=True):
            np.testing.assert_allclose(a, b)


def test_in_a_loop() -> None:
    def prices(strikes: Array, s: Array) -> Array:
        out = np.zeros(len(strikes))
        for k in range(len(strikes)):
            v = np.maximum(s - strikes[k], 0)
            for _ in range(len(s) - 1):
                v = np.maximum(0.5 * v[1:] + 0.5 * v[:-1], 0.1)
            out[k] = v[0]
        return out

    given = R.random(40), R.random(50) * 2
    compiled = mlc.compile(prices)
    np.testing.assert_allclose(compiled(*given), prices(*given))
    assert compiled.lower(*given).text("trace").count("mlc.for") == 2


def test_derivatives_batches_and_gpus() -> None:
    """Their programs have a trip after another, of sizes that are known."""
    given, step = GIVEN[american](30), 1e-5
    found = mlc.grad(american)(*given)
    for k in (0, 7, 29):
        ends = [american(given[0] + sign * step * (np.arange(30) == k), 100.0) for sign in (1, -1)]
        np.testing.assert_allclose(found[k], (ends[0] - ends[1]) / (2 * step), atol=1e-6)
    many = R.random((3, 30)) * 50 + 75
    batched = mlc.vmap(american, in_axes=(0, None))(many, 100.0)
    np.testing.assert_allclose(batched, [american(row, 100.0) for row in many])
    text = mlc.compile(american, target="h200").lower(*given).text("trace")
    assert "mlc.bind" not in text


def padded_before(a: Any) -> Any:
    for _ in range(20):
        a = np.pad(a, ((1, 0), (0, 0)))
    return a


def padded_both_ways(a: Any) -> Any:
    for _ in range(20):
        a = np.pad(a[1:], (1, 0))
    return a


@pytest.mark.parametrize("function", [padded_before, padded_both_ways])
def test_views_of_what_is_written_over_are_made_before(function: Any) -> None:
    x = np.linspace(0.1, 1.0, 30).reshape(6, 5)
    np.testing.assert_array_equal(mlc.compile(function)(x), function(x))
