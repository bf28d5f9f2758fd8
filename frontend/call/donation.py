"""
Donated arguments: which result takes the place of which array, and what may be donated.

An argument that is returned as it came takes its own place, so that ``return u, following`` of a
time step moves nothing. Then matching is by structure, as in ``return params, state``; then by
dtype and shape, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.trace.containers import Leaf as StructureLeaf
from mlc.frontend.trace.containers import Structure, leaf_count
from mlc.frontend.trace.kinds import is_array
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.frontend.call.arguments import Call, Leaf


@dataclass
class Donations:
    """What replaces what: result of the program, by argument leaf."""

    result_of: dict[int, int] = field(default_factory=dict[int, int])
    unused: list[int] = field(default_factory=list[int])  # donated leaves that nothing replaces


def donated_leaves(call: Call, names: Sequence[str], parameters: Sequence[str]) -> list[list[int]]:
    """The array leaves of each donated argument, one list each; other leaves stay as they are."""
    found: list[list[int]] = []
    position = 0
    for name, structure in zip(parameters, call.structures, strict=True):
        count = leaf_count(structure)
        if name in names:
            found.append([*range(position, position + count)])
        position += count
    return found


def matched(
    call: Call,
    groups: Sequence[Sequence[int]],
    types: Mapping[int, object],
    structure: Structure,
    results: Sequence[object],
    kept: Mapping[int, int],
) -> Donations:
    """
    The result that takes the place of each donated leaf.

    `groups`: the leaves of each donated argument. `types`: of array leaves, by leaf. `structure`:
    of the results. `results`: the type of each leaf of the results, None where it is no array.
    `kept`: leaves of the results that are leaves of the arguments as they came.
    """
    given = Donations(dict(kept))
    taken = set(kept.values())
    structures = dict(_positions(call.structures))
    for group in groups:
        wanted = structures[group[0]] if group else None
        if wanted is None or isinstance(wanted, StructureLeaf) or kept.keys() & set(group):
            continue
        for first in _same(structure, wanted):
            pairs = [(leaf, first + n) for n, leaf in enumerate(group) if leaf in types]
            fits = all(types[leaf] == results[n] for leaf, n in pairs)
            if fits and not taken & {n for _, n in pairs}:
                given.result_of.update(pairs)
                taken.update(n for _, n in pairs)
                break
    for leaf in (leaf for group in groups for leaf in group if leaf in types):
        if leaf in given.result_of:
            continue
        free = (n for n, kind in enumerate(results) if n not in taken and kind == types[leaf])
        if (number := next(free, None)) is None:
            given.unused.append(leaf)
        else:
            given.result_of[leaf] = number
            taken.add(number)
    return given


def _positions(structures: Sequence[Structure]) -> Iterator[tuple[int, Structure]]:
    position = 0
    for structure in structures:
        yield position, structure
        position += leaf_count(structure)


def _same(structure: Structure, wanted: Structure, first: int = 0) -> Iterator[int]:
    """The first leaf of each part that has the wanted structure, outermost first."""
    if structure == wanted:
        yield first
    elif not isinstance(structure, StructureLeaf):
        for child in structure.children:
            yield from _same(child, wanted, first)
            first += leaf_count(child)


# What may be donated


def check_donated(call: Call, leaves: Sequence[int], name: str) -> None:
    """Raises where an array cannot be updated in place: ValueError, with the remedy."""
    for k in leaves:
        leaf = call.leaves[k]
        if leaf.kind == "array" and (why := _why_not(leaf)):
            what, remedy = why
            raise ValueError(
                f"{name}: donated argument {leaf.name} {what}; expected a writeable, C-contiguous"
                f" array that compiled code can update in place. {remedy}"
            )


def _why_not(leaf: Leaf) -> tuple[str, str] | None:
    value = leaf.value
    if isinstance(leaf.given, np.generic):
        return None  # a number that nobody else holds
    if leaf.layout != "c":
        return "is not C-contiguous", f"Pass np.ascontiguousarray({leaf.name})."
    if not is_array(value):
        return None  # on a GPU
    if leaf.copied_because:
        return f"must be copied: {leaf.copied_because}", f"Pass {leaf.name}.copy()."
    if not value.flags.writeable:
        return "is read-only", f"Pass {leaf.name}.copy(), or leave it out of donate=."
    return None


def check_apart(
    program: str, names: Sequence[str], arrays: Sequence[Any], written: Sequence[int]
) -> None:
    """Raises where an array that is written shares memory with another argument."""
    bounds = [_bounds(array) for array in arrays]
    for k in written:
        for other, there in enumerate(bounds):
            here = bounds[k]
            if other == k or here is None or there is None:
                continue
            if not (here[1] <= there[0] or here[0] >= there[1]):
                raise NotSupportedError(
                    f"{program} writes to {names[k]}, which shares memory with {names[other]};"
                    f" pass a copy of one of them: {names[other]}.copy()."
                )


def _bounds(array: Any) -> tuple[int, int] | None:
    """The first byte and the one behind the last; as the native entry compares them."""
    if is_array(array):
        return np.lib.array_utils.byte_bounds(array)
    return getattr(array, "bounds", None)  # of an array on a GPU
