"""Positions of elements that are not zero, where the array is known while tracing."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

from mlc.dialects.dtypes import I64
from mlc.dialects.errors import ShapeError
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.values import constant, lift, result
from mlc.frontend.trace.known import known_array
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer

R = TypeVar("R")


def _positions(a: Any, function: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The positions, one row for each; how many there are must be known."""
    x = lift(a)
    if not x.ndim and function == "nonzero":
        message = "nonzero: the operand is a number; expected at least one axis."
        raise located(ShapeError, message, remedy="Use np.atleast_1d(x).")
    known = None if x.origins else known_array(here(), x.value)
    if known is None:
        _refuse(function)
    return np.argwhere(known).astype(np.int64)


def _refuse(function: str) -> NoReturn:
    message = (
        f"{function}: how many elements are not zero is known only when the program runs, and"
        " with it the size of the result."
    )
    remedy = "Use np.where(condition, a, b), or count with np.count_nonzero(x)."
    raise located(NotSupportedError, message, remedy=remedy)


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
    return tuple(result(constant(column, I64)) for column in _positions(a, "nonzero").T.copy())


@_on_known(np.argwhere)
def argwhere(a: Any) -> Tracer:
    """The positions of elements that are not zero, one row for each."""
    return result(constant(_positions(a, "argwhere"), I64))


@_on_known(np.flatnonzero)
def flatnonzero(a: Any) -> Tracer:
    """The positions of elements that are not zero in the flattened array."""
    return nonzero(lift(a).reshape(-1))[0]
