"""What two bodies left where it is of different kinds: one value with options (variants.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from mlc.frontend.numpy.values import lift, number
from mlc.frontend.staging.variants import Unset, Variants
from mlc.frontend.staging.wholes import (
    are_of_other_dtypes,
    are_told,
    is_lost,
    number_of_first,
    row_of,
    whole_of,
)
from mlc.frontend.trace.containers import LEAF, Node, leaf_count, unflatten
from mlc.frontend.trace.integer_rules import END
from mlc.frontend.trace.kinds import is_array, is_number, is_scalar
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

if TYPE_CHECKING:
    from mlc.frontend.staging.joins import Held, Join

MOST_OPTIONS = 8
"""Kinds that one variable may have."""


def is_number_or_array(value: object) -> bool:
    """Whether a leaf can be a result of an op; an int of Python's beyond 64 bits is a constant."""
    if type(value) is int and not -END <= value < END:
        return False
    return isinstance(value, Tracer | SymbolicDim) or (
        is_array(value) or is_number(value) or is_scalar(value)
    )


def options_of(held: Held, name: str) -> tuple[Any, list[Held]]:
    """The leaf that chooses, or None, and the options of what a variable holds."""
    from mlc.frontend.staging.joins import UNBOUND

    if held.value is UNBOUND:
        return None, [replace(held, value=Unset(name), leaves=(Unset(name),))]
    if not isinstance(held.value, Variants):
        return None, [held]
    assert isinstance(held.structure, Node)
    found: list[Held] = []
    at = 1
    for option, structure in zip(held.value.options, held.structure.children[1:], strict=True):
        end = at + leaf_count(structure)
        found.append(replace(
            held, value=option, structure=structure,
            leaves=held.leaves[at:end], values=held.values[at:end],
        ))  # fmt: skip
        at = end
    return (held.leaves[0], held.values[0]), found


def alike(x: Held, y: Held, apart: bool = False) -> bool:
    """
    Whether two options are one: the same constants, numbers and arrays at the same places.
    `apart`: of which one dtype can stand for both, and say which of them it is.
    """
    from mlc.frontend.staging.joins import equal_values

    if x.structure != y.structure:
        return False
    for a, b in zip(x.leaves, y.leaves, strict=True):
        if is_number_or_array(a) != is_number_or_array(b):
            return False
        if not is_number_or_array(a):
            if not equal_values(a, b):
                return False
            continue
        strictly = apart or whole_of(a) is not None or whole_of(b) is not None or is_lost(a, b)
        if (strictly or are_of_other_dtypes(a, b)) and not are_told(a, b):
            return False
    return True


def matching(option: Held, others: Sequence[Held | None], apart: bool) -> int | None:
    """Which of several options one is: of its dtype, if there is such a one."""
    for told in (True,) if apart else (True, False):
        for k, other in enumerate(others):
            if other is not None and alike(other, option, told):
                return k
    return None


def _may_be_one(held: Held) -> bool:
    plain = (str, bytes, Enum, Unset, type(None), int)
    return all(is_number_or_array(x) or isinstance(x, plain) or callable(x) for x in held.leaves)


def _rank(held: Held) -> tuple[int, str]:
    if held.structure != LEAF:
        return 4, str(len(held.leaves))
    leaf = held.leaves[0]
    if leaf is None or isinstance(leaf, Unset):
        return (0 if leaf is None else 1), ""
    return (3, row_of(leaf).name) if is_number_or_array(leaf) else (2, repr(leaf))


def joined_options(join: Join, name: str, x: Held, y: Held) -> Any:
    """The value with the options of both, with holes; None where there is none. Raises Misfit."""
    sides = [options_of(x, name), options_of(y, name)]
    apart = join.apart or any(isinstance(side.value, Variants) for side in (x, y))
    rows: list[list[Held | None]] = [[option, None] for option in sides[0][1]]
    for option in sides[1][1]:
        same = matching(option, [left if right is None else None for left, right in rows], apart)
        if same is None:
            rows.append([None, option])
        else:
            rows[same][1] = option
    if len(rows) > MOST_OPTIONS or not all(
        _may_be_one(o) for r in rows for o in r if o is not None
    ):
        return None
    rows.sort(key=lambda r: _rank(next(o for o in r if o is not None)))
    options: list[Any] = []
    for left, right in rows:
        if left is not None and right is not None:
            options.append(join.value(name, left, right))
        elif left is not None:
            options.append(join.beside_zeros(left, 0))
        else:
            assert right is not None
            options.append(join.beside_zeros(right, 1))
    chosen: list[Any] = []
    for side, (leaf, found) in enumerate(sides):
        numbers = [next(k for k, r in enumerate(rows) if r[side] is o) for o in found]
        with here().inside(join.blocks[side]):
            given = (
                None
                if leaf is None
                else Tracer(here(), leaf[1])
                if leaf[1] is not None
                else leaf[0]
            )
            chosen.append(_renumbered(given, numbers).value)
    return Variants(join.arrays(chosen[0], chosen[1]), options)


def _renumbered(chosen: Any, numbers: Sequence[int]) -> Tracer:
    """The number of an option where the options have other numbers."""
    from mlc.frontend import numpy as names

    if chosen is None:
        return option_number(numbers[0])
    given: Any = lift(chosen)
    if list(numbers) == list(range(len(numbers))):
        return given
    found: Any = option_number(numbers[-1])
    for k, new in enumerate(numbers[:-1]):
        one = option_number(new)
        found = names.where(names.equal(given, k), one, found)
    return found


def option_number(option: int) -> Tracer:
    """The number of an option, as a value of the program."""
    from mlc.dialects.dtypes import I64

    return Tracer(here(), number(option, I64))


def widened(start: Held, end: Held, name: str) -> Variants | None:
    """What a loop starts with, of the options that its trips leave; None if it is none."""
    if not isinstance(end.value, Variants):
        return None
    leaf, mine = options_of(start, name)
    _, theirs = options_of(end, name)
    numbers: list[int] = []
    for option in mine:
        k = matching(option, [x if _of_one_dtype(option, x) else None for x in theirs], apart=True)
        if k is None:
            return None
        numbers.append(k)
    options: list[Any] = []
    for k, other in enumerate(theirs):
        if k in numbers:
            options.append(mine[numbers.index(k)].value)
        else:
            options.append(unflatten(other.structure, [zero_of(x) for x in other.leaves]))
    return type(end.value)(_renumbered(None if leaf is None else leaf[0], numbers), options)


def not_set(absent: Unset, end: Held) -> tuple[Any, list[Any]] | None:
    """The number and the options of a place that no trip has set, of what trips leave there."""
    _, options = options_of(end, "")
    if not all(map(_may_be_one, options)):
        return None
    found = [unflatten(x.structure, [zero_of(leaf) for leaf in x.leaves]) for x in options]
    place = _place_of_unset(found)
    return (option_number(0), [absent, *found]) if place is None else (option_number(place), found)


def _of_one_dtype(x: Held, y: Held) -> bool:
    """Whether numbers at the same places are of one dtype: a trip computes with what it gets."""
    pairs = zip(x.leaves, y.leaves, strict=False)
    numbers = [(a, b) for a, b in pairs if is_number_or_array(a) and is_number_or_array(b)]
    return all(row_of(a) is row_of(b) for a, b in numbers)


def or_unset(name: str, held: Held, unset: Tracer) -> Variants | None:
    """What a variable holds, or that it is not set where `unset` says so; None if it cannot be."""
    from mlc.frontend import numpy as names

    leaf, options = options_of(held, name)
    if not all(map(_may_be_one, options)):
        return None
    if leaf is None:
        return Variants(number_of_first(unset), (Unset(name), held.value))
    found, chosen = [option.value for option in options], lift(leaf[0])
    place = _place_of_unset(found)
    if place is None:
        place, found, chosen = 0, [Unset(name), *found], chosen + 1
    return Variants(names.where(unset, option_number(place), chosen), found)


def _place_of_unset(options: Sequence[Any]) -> int | None:
    return next((k for k, x in enumerate(options) if isinstance(x, Unset)), None)


def zero_of(leaf: Any) -> Any:
    """Zeros like a number or an array; anything else as it is."""
    if not is_number_or_array(leaf):
        return leaf
    x = lift(leaf) if not isinstance(leaf, Tracer) else leaf
    return Tracer(here(), number(0, x.row, x.dims), weak=x.weak)
