"""Expressions, bounds and conditions of tile programs as numbers, or as arrays over a tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dims import Dim, FloorDiv
from mlc.dialects.tile.expression import Condition, ExpressionsAttr

Array = NDArray[Any]
Atoms = Mapping[str, Any]
"""Sizes by name, positions as ``%0``, letters as ``.k``: whole numbers, or arrays of them."""


def value_of(dim: Dim, atoms: Atoms) -> Any:
    """An expression's value: an array where an atom is one."""
    total: Any = 0
    for monomial, coefficient in dim.terms:
        product: Any = coefficient
        for atom in monomial:
            if isinstance(atom, FloorDiv):
                product = product * (value_of(atom.numerator, atoms) // atom.divisor)
            else:
                product = product * atoms[atom]
        total = total + product
    return total


def bound_of(bound: ExpressionsAttr, atoms: Atoms) -> int:
    """The least of some expressions; a size below 0 is none."""
    return max(0, min(int(value_of(dim, atoms)) for dim in bound.data))


def compared(condition: Condition, atoms: Atoms) -> Any:
    """Whether ``left RELATION right`` holds, for each element where a side is an array."""
    left, right = (value_of(dim, atoms) for dim in (condition.left, condition.right))
    match condition.relation:
        case "eq":
            return left == right
        case "ne":
            return left != right
        case "lt":
            return left < right
        case "le":
            return left <= right
        case "gt":
            return left > right
        case _:
            return left >= right


def along(sizes: Mapping[str, int], starts: Mapping[str, int] | None = None) -> dict[str, Array]:
    """Of each letter the positions from its start on, along an axis of its own, in order."""
    rank, found = len(sizes), dict[str, Array]()
    for axis, (c, size) in enumerate(sizes.items()):
        shape = [1] * rank
        shape[axis] = size
        start = 0 if starts is None else starts.get(c, 0)
        found[f".{c}"] = np.arange(start, start + size, dtype=np.int64).reshape(shape)
    return found
