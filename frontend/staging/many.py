"""
Calls that go over many items, or over a number of them that only the compiled function knows, as
loops: `sum(x)` and `list(zip(x, y))` of arrays get one list of rows, `map(f, x)` gives items of
which each is made in its own trip.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections import deque
from dataclasses import replace
from typing import Any

from mlc.frontend.staging.counted import Counted
from mlc.frontend.staging.items import Items, items_of, traced, zipped
from mlc.frontend.staging.lazy import is_long
from mlc.frontend.staging.variables import Body
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.transform import transformed

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownArgumentType=false


def _listed(items):
    made = []
    for item in items:
        made.append(item)  # noqa: PERF402 - a loop of the program
    return made


def _of_each(function, items):
    made = []
    for item in items:
        made.append(function(item))  # noqa: PERF401
    return made


def _kept(function, items):
    made = []
    for item in items:
        if item if function is None else function(item):
            made.append(item)  # noqa: PERF401
    return made


def _reduced(function, items, made):
    for item in items:
        made = function(made, item)
    return made


def _accumulated(function, items, made):
    found = [made]
    for item in items:
        made = function(made, item)
        found.append(made)
    return found


def _run(function: Any, *args: Any) -> Any:
    observed = transformed(function)
    assert observed is not None
    return observed(*args)


def with_listed(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a call that goes over the first: many items as one list."""
    first = args[0] if args else None
    if not isinstance(first, Tracer | Items) or not _gathers(function, args) or not is_long(first):
        return args
    if isinstance(first, Tracer) and first.ndim == 1:
        items = items_of(first)
        assert items is not None
        return [Counted(items.count, Tracer(first.owner, first.value))], *args[1:]
    if isinstance(first, Tracer) and function is not sum:
        return args  # of rows, which are views
    return _run(_listed, first), *args[1:]


def _gathers(function: Any, args: tuple[Any, ...]) -> bool:
    return any(function is x for x in (_GATHERING if len(args) == 1 else _GATHERING[:2]))


_GATHERING = (sum, deque, min, max, any, all, list, tuple, sorted)
"""What goes over its first argument at once; of one argument but for the first."""


def filtered(function: Any, items: Any) -> list[Any]:
    """filter(function, items) of many."""
    return _run(_kept, function, items)


def of_each(function: Any, items: Any) -> list[Any]:
    """What a function gives for each of many."""
    return _run(_of_each, function, items)


def reduced(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """functools.reduce(…)"""
    if not kwargs and len(args) > 1 and traced(args[1]) and is_long(args[1]):
        return _from_first(_reduced, *args)
    return functools.reduce(*observed(args), **kwargs)


def accumulated(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """itertools.accumulate(…)"""
    items, *function = args
    if not kwargs and traced(items) and is_long(items):
        return _from_first(_accumulated, function[0] if function else operator.add, items)
    return itertools.accumulate(*observed(args), **kwargs)


def observed(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of a library's function, which calls some of them."""
    from mlc.frontend.trace.access import observed_functions

    return observed_functions(args)


def _from_first(loop: Any, function: Any, items: Any, *made: Any) -> Any:
    """A loop that begins with a value, else with the first item."""
    found = items_of(items)
    assert found is not None
    if made:
        return _run(loop, function, found, *made)
    return _run(loop, function, found.after(1), found.made(found.at(0)))


def making(items: Items, body: Body) -> Body:
    """A loop's body that makes its items itself."""

    @functools.wraps(body)
    def trip(found: Any) -> Any:
        return body(items.made(found))

    return trip


def mapped(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """map(…)"""
    from mlc.frontend.trace.access import call

    function, *rest = args if args else (None,)

    def made(*given: Any) -> Any:
        return call(function, given, {})

    if not rest or kwargs or not any(map(traced, rest)):
        return map(made, *args[1:], **kwargs)
    items = items_of(rest[0]) if len(rest) == 1 else zipped(zip, tuple(rest), {})
    if not isinstance(items, Items):
        return map(made, *rest)

    def each(found: Any) -> Any:
        parts = items.made(found)
        return made(*parts) if len(rest) > 1 else made(parts)

    return replace(items, each=each, python=lambda: map(made, *rest))
