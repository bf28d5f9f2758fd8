"""Positions of elements that are not zero."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.errors import ShapeError
from mlc.frontend.errors import located
from mlc.frontend.numpy.counted import true_positions
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import reshape, stack
from mlc.frontend.numpy.values import convert, lift, number, result
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import current
from mlc.frontend.trace.tracer import Tracer

R = TypeVar("R")


def _on_known(numpy_function: Any) -> Callable[[Callable[[Any], R]], Callable[[Any], R]]:
    """Registers an implementation; outside a compiled function every array is known."""

    def register(implementation: Callable[[Any], R]) -> Callable[[Any], R]:
        traced = public(numpy_function)(implementation)

        @functools.wraps(implementation)
        def call(a: Any) -> R:
            return numpy_function(a) if current() is None else traced(a)

        return call

    return register


@_on_known(np.nonzero)
def nonzero(a: Any) -> tuple[Tracer, ...]:
    """The positions of elements that are not zero, an array for each axis."""
    x = lift(a)
    if not x.ndim:
        message = "nonzero: the operand is a number; expected at least one axis."
        raise located(ShapeError, message, remedy="Use np.atleast_1d(x).")
    place: Any = flatnonzero(x)
    found: list[Tracer] = []
    for dim in reversed(x.dims[1:]):
        size = as_size(dim)
        found.append(place % size)
        place = place // size
    return (place, *reversed(found))


@_on_known(np.argwhere)
def argwhere(a: Any) -> Tracer:
    """The positions of elements that are not zero, one row for each."""
    x = lift(a)
    if not x.ndim:
        (count,) = flatnonzero(reshape(x, (1,))).dims
        return result(number(0, I64, (count, count - count)))
    return stack(nonzero(x), axis=1)


@_on_known(np.flatnonzero)
def flatnonzero(a: Any) -> Tracer:
    """The positions of elements that are not zero in the flattened array."""
    x = lift(a)
    held = Tracer(x.owner, convert(x.value, BOOL), origins=x.origins)
    return true_positions(held)
