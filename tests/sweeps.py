"""Which combinations of a sweep every run tries, and which only slow tests do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def covering(*axes: Sequence[Any], strength: int = 2) -> list[Any]:
    """
    All combinations of the axes' values, as `pytest.mark.parametrize` takes them. Slow are those
    without which every choice of values of any `strength` axes occurs.
    """
    chosen = _chosen([len(axis) for axis in axes], strength)
    return [
        pytest.param(
            *(values := [axis[k] for axis, k in zip(axes, point, strict=True)]),
            marks=() if point in chosen else pytest.mark.slow,
            id="-".join(str(getattr(x, "name", None) or getattr(x, "__name__", x)) for x in values),
        )
        for point in product(*(range(len(axis)) for axis in axes))
    ]


def leading(count: int, values: Iterable[Any]) -> list[Any]:
    """The first values are tried in every run, the others are slow."""
    return [
        pytest.param(value, marks=() if k < count else pytest.mark.slow)
        for k, value in enumerate(values)
    ]


def _chosen(sizes: Sequence[int], strength: int) -> set[tuple[int, ...]]:
    """
    Greedily: next is one of the points that show most choices for the first time, and of these one
    whose values were chosen least often.
    """
    shown = {p: set(combinations(enumerate(p), strength)) for p in product(*map(range, sizes))}
    missing = set[Any]().union(*shown.values())
    often: Counter[tuple[int, int]] = Counter()

    def gain(point: tuple[int, ...]) -> tuple[int, int]:
        return len(shown[point] & missing), -sum(often[value] for value in enumerate(point))

    chosen: set[tuple[int, ...]] = set()
    while missing:
        best = max(shown, key=gain)
        chosen.add(best)
        missing -= shown[best]
        often.update(enumerate(best))
    return chosen
