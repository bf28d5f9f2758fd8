"""Calls that get a list, or are methods of one, whose length only the compiled function knows."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from mlc.frontend.numpy.elementwise import less_equal
from mlc.frontend.numpy.python_numbers import item
from mlc.frontend.numpy.values import common_dtype, is_weak
from mlc.frontend.staging import counted
from mlc.frontend.staging.counted import Counted, as_array, counted_of, is_counted
from mlc.frontend.staging.flow import Flow
from mlc.frontend.staging.list_methods import keys_of, method_of, order_of, ordered, without_nans
from mlc.frontend.staging.many import with_listed
from mlc.frontend.staging.twins import check_twins
from mlc.frontend.staging.variants import Variants, narrowed_in
from mlc.frontend.staging.wholes import after_trips, are_alike, number_of_first, row_of
from mlc.frontend.trace.asked import may_be_rows
from mlc.frontend.trace.kinds import class_of
from mlc.frontend.trace.ordered_calls import MISS, call_ordering
from mlc.frontend.trace.stores import check_method
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer


def call_counted(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """function(*args, **kwargs), or MISS."""
    owner: Any = function.__self__ if isinstance(function, BuiltinFunctionType) else None
    if class_of(owner) in (list, deque):
        args = tuple(narrowed_in(x) for x in args)  # what is kept there is read where less is known
        if is_counted(owner) or _is_placed(owner, function, args):
            if function.__name__ in _CHANGES:
                check_twins(owner)
            return method_of(owner, function.__name__)(*args, **kwargs)
        if any(isinstance(x, tuple) for x in args) and function.__name__ in _ADDING:
            check_method(owner, function.__name__)
            return function(*args, **kwargs)
    args = with_listed(function, args)
    if (found := call_ordering(function, args, kwargs)) is not MISS:
        return found
    if not any(map(is_counted, args)):
        return MISS
    try:
        special = _CALLS.get(function)
    except TypeError:  # not hashable
        return MISS
    if special is not None:
        return special(counted_of(args[0]), *args[1:], **kwargs)
    if function is np.concatenate or function is np.hstack:
        rows: Any = as_array(counted_of(args[0]))
        return rows.reshape((-1, *rows.shape[2:])) if rows.ndim > 1 else function(rows)
    if (function is np.stack or function is np.vstack) and is_counted(args[0]):
        rows: Any = as_array(counted_of(args[0]))
        axis = kwargs.get("axis", args[1] if len(args) > 1 else 0)
        return rows if function is np.vstack or axis == 0 else np.moveaxis(rows, 0, axis)
    return MISS


def _is_placed(owner: Any, function: BuiltinFunctionType, args: tuple[Any, ...]) -> bool:
    """Whether a list gets or gives away an element at a place that the compiled function knows."""
    place = args[0] if args and function.__name__ in ("insert", "pop") else None
    if not isinstance(place, Tracer) or place.origins or place.from_constants() is not None:
        return False
    return class_of(owner) is list and may_be_rows(owner, place)


_ADDING = ("append", "appendleft", "insert")
_CHANGES = (
    *_ADDING,
    *("extend", "extendleft", "pop", "popleft", "remove", "clear", "reverse", "sort", "rotate"),
)


def _copied(held: Counted) -> list[Any]:
    return [held]


def _tuple(held: Counted) -> tuple[Any, ...]:
    if not isinstance(held.count, int):
        held.fail()
    return tuple(counted.element(held, k) for k in range(held.count))


def _deque(held: Counted, *rest: Any) -> Any:
    return deque([held], *rest)


def _sorted(held: Counted, *, key: Any = None, reverse: Any = False) -> list[Any]:
    return [ordered(held, keys_of(held, key), reverse)]


def _folded(function: Callable[..., Any], held: Counted) -> Any:
    """Of numbers, as Python's functions give them."""
    rows = held.rows
    if not isinstance(rows, Tracer) or rows.ndim > 1:
        held.fail()
    found: Any = function(_chosen(held, without_nans(rows)))
    return Tracer(here(), found.value, weak=rows.weak)


def _chosen(held: Counted, rows: Tracer) -> Any:
    """The elements, as a mask picks them: what reduces them asks each row whether it counts."""
    if isinstance(held.count, int):
        return rows[: held.count]
    return rows[counted.places(held) < held.count]


def _extreme(name: str) -> Callable[..., Any]:
    def best(held: Counted, key: Any) -> Any:
        if key is None and isinstance(held.rows, Tracer):
            return _folded(getattr(np, name), held)
        keys = counted.used_rows(held).rows if key is None else keys_of(held, key)
        if isinstance(keys, Tracer) and keys.ndim == 1:
            return counted.element(held, getattr(np, f"arg{name}")(without_nans(keys)))
        return counted.element(held, order_of(keys, reverse=name == "max")[0])

    def of(held: Counted, *others: Any, key: Any = None, default: Any = MISS) -> Any:
        if others:
            held.fail()
        if default is not MISS:
            some: Any = held.count > 0
            return Flow.choose(some, lambda: best(held, key), lambda: default)
        return best(held, key)

    return of


def _sum(held: Counted, start: Any = 0) -> Any:
    """Of none it is what it starts with, which is not of the others' class."""
    if isinstance(held.count, int):
        return _total(held, start) if held.count else start
    found, none = _total(held, start), less_equal(held.count, 0)
    if found.ndim == np.ndim(start) and are_alike(start, found):
        return found
    if found.ndim:
        return Variants(number_of_first(none), (start, found))
    return after_trips(start, found, none)


def _total(held: Counted, start: Any) -> Any:
    rows = held.rows
    if not isinstance(rows, Tracer):
        held.fail()
    weak, boolean = is_weak(start) or isinstance(start, bool), rows.row.kind == "bool"
    if boolean and row_of(start).kind == "bool" and not (rows.weak and weak):
        return np.any(_chosen(held, rows), axis=0) | start  # NumPy's bools add up to one
    kind = np.int64 if boolean else rows.row.numpy
    if not weak:
        kind = row_of(start).numpy if boolean else common_dtype("sum", (start, rows)).numpy
    found: Any = np.sum(_chosen(held, rows), axis=0, dtype=kind)
    found = Tracer(here(), found.value, weak=rows.weak and rows.ndim == 1)
    if found.weak and rows.row.kind == "int":
        here().ints.from_lists[found.value] = rows.dims[0]
    return found if isinstance(start, int) and start == 0 else start + found


def _quantified(name: str) -> Callable[..., Any]:
    def of(held: Counted) -> Any:
        return item(getattr(np, name)(_chosen(held, held.rows)))  # a bool of Python's

    return of


def _length(held: Counted) -> Any:
    return held.count


_CALLS: dict[Any, Callable[..., Any]] = {
    len: _length,
    list: _copied,
    copy.copy: _copied,
    copy.deepcopy: _copied,
    tuple: _tuple,
    deque: _deque,
    sorted: _sorted,
    max: _extreme("max"),
    min: _extreme("min"),
    sum: _sum,
    any: _quantified("any"),
    all: _quantified("all"),
}
