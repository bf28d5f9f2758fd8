"""
Calls that ask for an order which only the compiled function knows: sorted, min and max with keys or
of tuples, heaps, and places in sorted lists.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any, cast

import numpy as np

from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.counted import (
    as_array,
    as_number,
    counted_of,
    element,
    is_counted,
    made,
)
from mlc.frontend.staging.items import Items
from mlc.frontend.staging.journal import put_contents, touched
from mlc.frontend.staging.lazy import is_long
from mlc.frontend.staging.list_methods import (
    heapify,
    heappop,
    heappush,
    method_of,
    order_of,
    picked,
    without_nans,
)
from mlc.frontend.staging.many import filtered
from mlc.frontend.staging.truth import truth
from mlc.frontend.staging.variants import first_variants
from mlc.frontend.trace.deferred import is_deferred
from mlc.frontend.trace.kinds import class_of, is_tuple
from mlc.frontend.trace.source import in_users_name
from mlc.frontend.trace.stores import check_collection
from mlc.frontend.trace.tracer import Tracer

MISS = object()
"""What is no such call."""


def call_ordering(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """function(*args, **kwargs), or MISS."""
    if not isinstance(function, BuiltinFunctionType):
        return _filtered(args) if function is filter else MISS
    owner: Any = function.__self__
    series = type(owner) is list
    if series and function.__name__ == "sort":
        held = cast("list[Any]", owner)
        return _sort(held, **kwargs) if is_deferred(held) and not is_counted(held) else MISS
    first = args[0] if args else None
    if function in _HEAPS and type(first) is list:
        return _heap(function, args)
    if function in _PLACES and len(args) == 2 and not kwargs:
        return _place(function, *args)
    if function is sorted and len(args) == 1 and not is_counted(first):
        return _sorted(first, **kwargs)
    if (function is min or function is max) and args and not is_counted(first):
        return _extreme(function, args, kwargs)
    return MISS


def _filtered(args: Sequence[Any]) -> Any:
    """filter(…) of what only the compiled function decides about: a list."""
    from mlc.frontend.trace.access import call

    function, items = args
    if not (isinstance(items, Tracer | Items) or type(items) in (list, tuple)) or is_counted(items):
        return MISS
    if is_long(items):
        return filtered(function, items)
    elements = list(items)
    kept = [truth(x if function is None else call(function, (x,), {})) for x in elements]
    if not is_deferred(kept):
        return [x for x, keep in zip(elements, kept, strict=True) if keep]
    mask: Any = np.stack([lift(x) for x in kept])
    order: Any = np.argsort(np.logical_not(mask), stable=True)
    return [picked(made(elements), order, as_number(np.sum(mask)))]


def _keys(elements: Sequence[Any], key: Any) -> list[Any]:
    from mlc.frontend.trace.access import call

    return list(elements) if key is None else [call(key, (x,), {}) for x in elements]


@in_users_name
def _sorted(first: Any, *, key: Any = None, reverse: Any = False) -> list[Any]:
    elements = list(first)
    keys = _keys(elements, key)
    if not is_deferred(keys):
        order = sorted(range(len(keys)), key=keys.__getitem__, reverse=reverse)
        return [elements[k] for k in order]
    found: Any = order_of(made(keys).rows, reverse=reverse)
    held = made(elements)
    return [element(held, found[k]) for k in range(len(elements))]


def _sort(obj: list[Any], *, key: Any = None, reverse: Any = False) -> None:
    found = _sorted(obj, key=key, reverse=reverse)
    check_collection(obj, "sort()")
    touched(obj)
    put_contents(obj, found)


@in_users_name
def _extreme(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """min or max by key=, or of tuples: the first that is so."""
    key = kwargs.get("key")
    whole = len(args) == 1 and isinstance(args[0], Tracer)
    if key is None and (whole or first_variants(args) is not None):
        return MISS
    elements: list[Any] = list(args[0]) if len(args) == 1 else list(args)
    keys = _keys(elements, key)
    if not elements or not is_deferred(keys):
        if not elements:
            return function(elements, **kwargs)
        order = range(len(elements))
        return elements[function(order, key=keys.__getitem__)]
    if key is None and not any(map(is_tuple, elements)):
        from mlc.frontend.trace.builtin_calls import BUILTINS

        return BUILTINS[function](function, (elements,), {})
    held = made(elements)
    if any(map(is_tuple, keys)):
        place: Any = order_of(made(keys).rows, reverse=function is max)[0]
    else:
        numbers: Any = without_nans(as_array(made(keys)))
        place = np.argmin(numbers) if function is min else np.argmax(numbers)
    return element(held, place)


def _heap(function: Any, args: Sequence[Any]) -> Any:
    obj, *items = args
    if not (is_counted(obj) or is_deferred([obj, items])):
        return MISS
    check_collection(obj, function.__name__)
    if function is heapq.heappush:
        return heappush(obj, *items)
    if function is heapq.heappop:
        return heappop(obj)
    if function is heapq.heapify:
        return heapify(obj)
    if function is heapq.heappushpop:
        heappush(obj, *items)
        return heappop(obj)
    found = heappop(obj)
    heappush(obj, *items)
    return found


def _place(function: Any, obj: Any, item: Any) -> Any:
    """bisect.…(obj, item)"""
    if not is_deferred((obj, item)):
        return MISS
    if class_of(obj) is list and not len(obj):
        line: Any = np.zeros(0)
    else:
        line = as_array(counted_of(obj)) if is_counted(obj) else lift(obj)
    side: Any = "left" if function in (bisect.bisect_left, bisect.insort_left) else "right"
    searched: Any = np.searchsorted
    place = as_number(searched(line, item, side=side))
    if function in (bisect.bisect_left, bisect.bisect_right):
        return place
    check_collection(obj, function.__name__)
    if not obj:
        touched(obj)
        return put_contents(obj, [item])
    return method_of(obj, "insert")(place, item)


_PLACES: tuple[Callable[..., Any], ...] = (
    *(bisect.bisect_left, bisect.bisect_right),
    *(bisect.insort_left, bisect.insort_right),
)
_HEAPS = (heapq.heappush, heapq.heappop, heapq.heapify, heapq.heapreplace, heapq.heappushpop)
