"""
``np.random.default_rng(seed)`` inside a compiled function: the seed is known, so NumPy itself draws
while the function is traced. Every call has these numbers, as it has in Python.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.values import lift, result
from mlc.frontend.trace.captures import holds_tracer
from mlc.frontend.trace.kinds import is_array, is_tuple
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

_BITS = ("PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937", "SeedSequence")


def seeded(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call of NumPy's makes of a seed: a generator, or its stream; None of other calls."""
    name = getattr(function, "__name__", "")
    given = [*args, *kwargs.values()]
    if name not in ("default_rng", "Generator", *_BITS) or not given or given[0] is None:
        return None
    if name in _BITS and not hasattr(np.random, name):
        return None
    if function is not getattr(np.random, name) or isinstance(given[0], np.random.SeedSequence):
        return None
    args, kwargs = _known(args), {key: _known(value) for key, value in kwargs.items()}
    if holds_tracer([*args, *kwargs.values()]):
        message = f"np.random.{name}: the seed is traced, so NumPy cannot draw while it is compiled"
        remedy = "Use mlc.random with a key, or give the seed as static=."
        raise located(NotSupportedError, message, remedy=remedy)
    made = function(*args, **kwargs)
    return made if name in _BITS else SeededGenerator(made)


class SeededGenerator:
    """A generator of NumPy's that draws while the function is traced, in the order of its text."""

    def __init__(self, generator: np.random.Generator) -> None:
        self._generator = generator
        self._scope = here().scopes[-1]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method: Any = getattr(self._generator, name)

        def draw(*args: Any, **kwargs: Any) -> Any:
            if here().scopes[-1] is not self._scope:
                raise located(
                    NotSupportedError,
                    f"{name}: the generator is made outside the loop or branch that draws from it,"
                    " which is traced once.",
                    remedy="Draw all numbers before, rng.random((trips, n)), and take row k.",
                )
            if name in _OF_ARRAYS and args and isinstance(args[0], Tracer):
                return _OF_ARRAYS[name](self._generator, *args, **kwargs)
            if name in _SCALED and holds_tracer([*args, *kwargs.values()]):
                return _SCALED[name](self._generator, *args, **kwargs)
            args, kwargs = _known(args), {key: _known(value) for key, value in kwargs.items()}
            if holds_tracer([*args, *kwargs.values()]):
                message = f"rng.{name}: an argument is traced, and NumPy draws while compiling."
                remedy = "Draw standard numbers, and scale and shift them: mu + sigma * rng.…"
                raise located(NotSupportedError, message, remedy=remedy)
            return _traced(method(*args, **kwargs))

        return draw


def _known(value: Any) -> Any:
    """An argument of NumPy's, with the values of Python's integers in it, which are then fixed."""
    if is_tuple(value):
        return tuple(map(_known, value))
    if not isinstance(value, Tracer):
        return value
    if (known := value.from_constants()) is not None:
        return known[()]
    integer = value.origins and not value.ndim and value.row.kind == "int"
    return operator.index(value) if integer else value


def _size_of(size: Any, *parameters: Any) -> Any:
    """How many numbers a distribution gives for its parameters."""
    if size is not None:
        return _known(size)
    shapes = [mnp.shape(x) for x in parameters]
    return np.broadcast_shapes(*(tuple(map(operator.index, shape)) for shape in shapes)) or None


def _normal(
    generator: np.random.Generator, loc: Any = 0.0, scale: Any = 1.0, size: Any = None
) -> Any:
    return loc + scale * _traced(generator.standard_normal(_size_of(size, loc, scale)))


def _uniform(
    generator: np.random.Generator, low: Any = 0.0, high: Any = 1.0, size: Any = None
) -> Any:
    return low + (high - low) * _traced(generator.random(_size_of(size, low, high)))


def _exponential(generator: np.random.Generator, scale: Any = 1.0, size: Any = None) -> Any:
    return scale * _traced(generator.standard_exponential(_size_of(size, scale)))


_SCALED: dict[str, Any] = {"normal": _normal, "uniform": _uniform, "exponential": _exponential}
"""Distributions that scale and shift a standard one, as NumPy computes them."""


def _traced(drawn: Any) -> Any:
    """Arrays as traced ones that may be written; numbers as they are."""
    return result(lift(drawn).value) if is_array(drawn) else drawn


def _order(generator: np.random.Generator, x: Tracer, axis: int) -> Tracer:
    order = np.arange(int(x.shape[axis]))
    generator.shuffle(order)
    return _traced(order)


def _shuffle(generator: np.random.Generator, x: Tracer, axis: int = 0) -> None:
    mnp.write_all(x, mnp.take(x, _order(generator, x, axis), axis=axis), "shuffle")


def _permutation(generator: np.random.Generator, x: Tracer, axis: int = 0) -> Tracer:
    return mnp.take(x, _order(generator, x, axis), axis=axis)


def _choice(
    generator: np.random.Generator,
    a: Tracer,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    shuffle: bool = True,
) -> Tracer:
    choose: Any = generator.choice  # its stubs do not know every size
    places: Any = choose(int(a.shape[axis]), size, replace, p, 0, shuffle)
    return mnp.take(a, _traced(np.asarray(places)), axis=axis)


_OF_ARRAYS: dict[str, Any] = {
    "shuffle": _shuffle,
    "permutation": _permutation,
    "choice": _choice,
}
"""Methods that order or choose elements: of a traced array NumPy draws the positions."""
