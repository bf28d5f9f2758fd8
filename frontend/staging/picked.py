"""What the data pick from a list or tuple: a number is Python's where the one picked is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.counted import element, made, place_in
from mlc.frontend.staging.options import is_number_or_array
from mlc.frontend.staging.variants import Variants
from mlc.frontend.staging.wholes import are_alike, are_told, has_class, open_class, whole_of
from mlc.frontend.trace.containers import flatten
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Whole


def picked(elements: Sequence[Any], key: Tracer) -> Any:
    """
    The element at a place that only the compiled function knows: of all elements one below the
    other, where they are of one class; else of those of its own class.
    """
    held = made(list(elements))
    place = place_in(held, key)
    found, groups = element(held, place), _groups(elements)
    if len(groups) == 1:
        return elements[0] if _is_one_open(elements) else found
    if (whole := _whole(elements, found, place)) is not None:
        found.whole = whole
        return found
    numbers, places = np.zeros((2, len(elements)), np.int64)
    for number, group in enumerate(groups):
        numbers[group], places[group] = number, range(len(group))
    options = [_one_of([elements[k] for k in group], lift(places)[place]) for group in groups]
    return Variants(lift(numbers)[place], options)


def _one_of(group: list[Any], place: Tracer) -> Any:
    one = len(group) == 1 or _is_one_open(group)
    return group[0] if one else element(made(group), place)


def _is_one_open(group: Sequence[Any]) -> bool:
    """Whether all are one number, of which only the call knows whether it is Python's."""
    return whole_of(group[0]) is not None and all(x is group[0] for x in group)


def _groups(elements: Sequence[Any]) -> list[list[int]]:
    """The numbers of elements that are alike."""
    found: list[list[int]] = []
    leaves = [flatten(x)[0] for x in elements]
    for k, own in enumerate(leaves):
        for group in found:
            if all(map(_are_alike, leaves[group[0]], own)):
                group.append(k)
                break
        else:
            found.append([k])
    return found


def _are_alike(x: Any, y: Any) -> bool:
    numbers = is_number_or_array(x) and is_number_or_array(y)
    return x is y or not numbers or are_alike(x, y)


def _whole(elements: Sequence[Any], found: Any, place: Any) -> Whole | None:
    """Where a picked number is one of Python's, if its dtype holds it and what is made of it."""
    if not isinstance(found, Tracer) or found.dims:
        return None
    if not all(are_told(x, y) for x, y in combinations(elements, 2)):
        return None
    kind = open_class(elements, found.row, apart=True)
    known = None if kind is None else [has_class(x, kind) for x in elements]
    if kind is None or known is None or not all(isinstance(x, bool) for x in known):
        return None
    return Whole(lift(np.array(known))[place].value, kind)
