"""Steps of a stencil between two arrays: each writes over the values before the last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.plans import HOSTED, planned, spec
from tests.sweeps import covering

Array = Any


def steps(a: Array, b: Array, n: int) -> Array:
    """Two arrays by turns; their frames stay and differ."""
    a, b = a.copy(), b.copy()
    for _ in range(n):
        b[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a[1:-1, 1:-1] = 0.25 * (b[:-2, 1:-1] + b[2:, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:])
    return a, b


def turned(a: Array, b: Array, n: int) -> Array:
    """What is kept of the older array moves to the other side."""
    for _ in range(n):
        middle = 0.5 * (a[:-2] + a[2:])
        a, b = np.concatenate([b[-1:], middle, b[:1]]), a
    return a, b


@pytest.mark.parametrize("target", HOSTED)
def test_steps_need_two_slots(target: str) -> None:
    """The third array of a step that copies the frame is not there."""
    plan = str(planned(steps, spec(64, 64), spec(64, 64), 4, target=target).plan())
    assert "mlc.arena = {}" in plan  # the two results hold them
    rolled = str(planned(steps, spec(64, 64), spec(64, 64), 40, target=target).plan())
    assert '"1" = #mlc.dims<16384>}' in rolled
    assert '"2" = ' not in rolled.partition("mlc.kernel")[0]


@pytest.mark.parametrize(("f", "trips"), covering([steps, turned], [1, 2, 3, 40], strength=1))
def test_values_and_bits(f: Callable[..., Any], trips: int) -> None:
    """Of arguments that differ, of one twice, of rows of whole vectors; on any threads."""
    r = np.random.default_rng(0)
    x, y, u, v = (r.random((150, n)) for n in (140, 140, 64, 64))
    for a, b in ((x, y), (x, x), (u, v)):
        kept = a.copy(), b.copy()
        found = [mlc.compile(f, threads=n)(a, b, trips) for n in (1, 2, 3)]
        for got, expected in zip(found[0], f(a, b, trips), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12)
        for other in found[1:]:
            for got, first in zip(other, found[0], strict=True):
                np.testing.assert_array_equal(got, first)
        np.testing.assert_array_equal(kept, (a, b))
