# pyright: basic
"""
`sort` of StableHLO: comparators as orders of keys, where they are that, else asked for each pair.

A comparator compares a function of the left elements with the same function of the right ones: the
key, which JAX normalises first. Several keys are `first < or (first = and rest)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlc.dialects.dtypes import is_real
from mlc.frontend.importers.stablehlo.elementwise import ordered
from mlc.frontend.importers.stablehlo.program import Op, Region
from mlc.frontend.importers.stablehlo.shapes import line
from mlc.lazy_dataclass import dataclass

Array = Any
Apply = Callable[..., tuple[Array, ...]]


@dataclass(frozen=True)
class Key:
    """What is compared: a value of the region as the left elements have it, and how."""

    value: str
    down: bool
    total: bool


def sort(op: Op, evaluate: Callable[[Region], Apply], *xs: Array) -> tuple[Array, ...]:
    """All operands along an axis in the order of a comparator. `evaluate`: a region's function."""
    if not xs[0].ndim:
        return xs
    axis = int(op.get("dimension", -1)) % xs[0].ndim
    region = op.regions[0]
    keys = _Comparator(region).keys()
    order: Any = _by_pairs(evaluate(region), xs, axis) if keys is None else None
    for key in reversed(keys or ()):
        both = [x for x in xs for _ in range(2)]
        (found,) = evaluate(_giving(region, key.value))(*both)
        value = np.broadcast_to(found, xs[0].shape) if found.shape != xs[0].shape else found
        order = ranked(comparable(value, total=key.total), order, axis, down=key.down)
    return tuple(np.take_along_axis(x, order, axis) for x in xs)


def comparable(x: Array, *, total: bool) -> Array:
    """What may be sorted in its place; `total`: floats in their total order."""
    if x.dtype.kind == "b":
        return x.astype(np.int8)
    return ordered(x) if total and is_real(x.dtype) else x


def ranked(key: Array, order: Array | None, axis: int, *, down: bool) -> Array:
    """The positions in the order of a key; of those that are equal in it, in the order so far."""
    if order is not None:
        key = np.take_along_axis(key, order, axis)
    if down:  # from the last: equal ones keep their order
        key = np.flip(key, axis)
    found = np.argsort(key, axis=axis, kind="stable")
    if down:
        found = np.flip(key.shape[axis] - 1 - found, axis)
    return found if order is None else np.take_along_axis(order, found, axis)


def _giving(region: Region, value: str) -> Region:
    """The region with another result."""
    end = replace(region.ops[-1], operands=(value,))
    return replace(region, ops=(*region.ops[:-1], end))


def _by_pairs(before: Apply, xs: Sequence[Array], axis: int) -> Array:
    """
    The positions in order, by asking for each pair which one comes first: an element's place is the
    number of those before it.
    """
    moved = [np.moveaxis(x, axis, -1) for x in xs]
    whole = (*moved[0].shape, moved[0].shape[-1])
    columns = [np.broadcast_to(x[..., :, None], whole) for x in moved]
    rows = [np.broadcast_to(x[..., None, :], whole) for x in moved]
    (mine,) = before(*(x for pair in zip(columns, rows, strict=True) for x in pair))
    (theirs,) = before(*(x for pair in zip(rows, columns, strict=True) for x in pair))
    size = moved[0].shape[-1]
    earlier = line(size, 1, 2) < line(size, 0, 2)
    place = (theirs | (~mine & earlier)).astype(np.int64).sum(-1)
    return np.moveaxis(np.argsort(place, axis=-1, kind="stable"), -1, axis)


class _Comparator:
    def __init__(self, region: Region) -> None:
        self.made = {result: op for op in region.ops for result in op.results}
        self.side = {name: k for k, name in enumerate(region.arguments)}
        self.result = region.ops[-1].operands[0]

    def keys(self) -> list[Key] | None:
        """The keys, the first one first; None for any other comparator."""
        found, value = list[Key](), self.result
        while True:
            op = self.made.get(value)
            if op is not None and op.name == "compare":
                key = self._key(op)
                return None if key is None else [*found, key]
            parts = self._then(op) if op is not None and op.name == "or" else None
            if parts is None:
                return None
            key, value = parts
            found.append(key)

    def _then(self, op: Op) -> tuple[Key, str] | None:
        """`first or (equal and rest)`: the first key, and what is left."""
        for first, other in (op.operands, op.operands[::-1]):
            strict, both = self.made.get(first), self.made.get(other)
            if strict is None or both is None or both.name != "and" or strict.name != "compare":
                continue
            key = self._key(strict)
            for equal, rest in (both.operands, both.operands[::-1]):
                tested = self.made.get(equal)
                if key and tested and tested.name == "compare" and _direction(tested) == "EQ":
                    again = self._key(tested)
                    if again and again.total == key.total and self._same(again.value, key.value):
                        return key, rest
        return None

    def _key(self, op: Op) -> Key | None:
        """A comparison of one function of either side's elements."""
        direction = _direction(op)
        left, right = op.operands
        turned = self._mirrors(right, left) and self._sides(right) == {0}
        if not turned and not (self._mirrors(left, right) and self._sides(left) == {0}):
            return None
        if direction not in ("LT", "GT", "EQ"):
            return None
        down = (direction == "GT") != turned
        return Key(right if turned else left, down, op.get("compare_type") == "TOTALORDER")

    def _sides(self, value: str) -> set[int]:
        """Which sides' elements a value is computed from."""
        if value in self.side:
            return {self.side[value] % 2}
        op = self.made.get(value)
        return set[int]().union(*(self._sides(x) for x in op.operands)) if op else set()

    def _mirrors(self, left: str, right: str) -> bool:
        """Whether a value is of the left elements what the other one is of the right ones."""
        if left in self.side or right in self.side:
            return self.side.get(left, -1) ^ 1 == self.side.get(right, -3)
        return self._alike(left, right, self._mirrors)

    def _same(self, one: str, other: str) -> bool:
        return one == other or self._alike(one, other, self._same)

    def _alike(self, one: str, other: str, alike: Callable[[str, str], bool]) -> bool:
        """Whether two values are the same op, of operands that are alike."""
        if one not in self.made or other not in self.made:
            return one == other
        a, b = self.made[one], self.made[other]
        same = (a.name, a.kinds, len(a.operands), len(a.regions)) == (
            b.name, b.kinds, len(b.operands), 0,
        )  # fmt: skip
        if not same or repr(dict(a.attributes)) != repr(dict(b.attributes)):
            return False
        return all(alike(x, y) for x, y in zip(a.operands, b.operands, strict=True))


def _direction(op: Op) -> str:
    return str(op.get("comparison_direction"))
