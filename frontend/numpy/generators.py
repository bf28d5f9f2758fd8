"""
``np.random.default_rng(seed)`` inside a compiled function: the seed is known, so NumPy itself draws
while the function is traced. Every call has these numbers, as it has in Python. Where values decide
what is drawn, the program draws (drawing.py).
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.drawing import Words, can_draw
from mlc.frontend.numpy.python_numbers import item
from mlc.frontend.numpy.values import lift, result
from mlc.frontend.trace.captures import holds_tracer
from mlc.frontend.trace.draws import REMEDY, Drawn, table_for
from mlc.frontend.trace.kinds import is_array, is_number, is_tuple
from mlc.frontend.trace.paths import HiddenInput, object_path
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.transform import Again

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
        self.spent = False
        self._words = None
        draws, bits = here().draws, generator.bit_generator
        if draws.carries and isinstance(bits, np.random.PCG64):
            self._words = Words(bits)
        else:
            draws.streams.append(self)

    @property
    def state(self) -> Any:
        """Where it is in its stream."""
        return self._generator.bit_generator.state

    @state.setter
    def state(self, state: Any) -> None:
        self._generator.bit_generator.state = state

    def __getattr__(self, name: str) -> Callable[..., Any]:
        getattr(self._generator, name)  # else its AttributeError

        def draw(*args: Any, **kwargs: Any) -> Any:
            if name in _OF_ARRAYS and args and isinstance(args[0], Tracer):
                return _OF_ARRAYS[name](partial(self._draw, name), *args, **kwargs)
            if name in _SCALED and holds_tracer([*args, *kwargs.values()]):
                return _SCALED[name](partial(self._draw, name), *args, **kwargs)
            args, kwargs = _known(args), {key: _known(value) for key, value in kwargs.items()}
            if holds_tracer([*args, *kwargs.values()]):
                if name == "integers":
                    return self._draw(name, lambda stream: stream.integers(*args, **kwargs), True)
                message = f"rng.{name}: an argument is traced, and NumPy draws while compiling."
                remedy = "Draw standard numbers, and scale and shift them: mu + sigma * rng.…"
                raise located(NotSupportedError, message, remedy=remedy)
            return self._draw(name, lambda stream: getattr(stream, name)(*args, **kwargs))

        return draw

    def _draw(self, name: str, how: Draw, of_values: bool = False) -> Any:
        """
        What NumPy draws here: now, or in loops of the program for all trips once these stand; what
        the program draws, where values decide (`of_values`: between which numbers).
        """
        trace = here()
        if self._words is not None and self._is_followed():
            return self._words.drawn(name, self._generator, how, of_values)
        loops = None if self.spent else trace.draws.loops(trace.scopes, self._scope)
        if of_values or (loops is None and trace.trial is None):
            if not trace.draws.carries and can_draw(self._generator, name):
                trace.draws.carries = True
                raise Again
            message = (
                "a loop before, which values end, decides what is drawn here."
                if self.spent
                else "the generator is made outside the loop or branch that draws from it, which is"
                " traced once, and values decide how often."
            )
            raise located(NotSupportedError, f"{name}: {message}", remedy=REMEDY)
        if not loops:
            return _traced(how(self._generator))
        sample = how(copy.deepcopy(self._generator))
        table = table_for(loops, sample)
        loops[-1].drawn.append(Drawn(lambda: how(self._generator), table))
        loops[-1].streams.append(self)
        held = trace.hidden_argument(table, HiddenInput(object_path(table, f"rng.{name}")))
        row = held[tuple(x.place for x in loops)]
        return item(row) if is_number(sample) else result(row.value)

    def _is_followed(self) -> bool:
        """Whether all that is traced within its scope follows what changes: no `mlc.fori_loop`."""
        scopes, blocks = here().scopes, [journal.block for journal in here().journals]
        first = next((k for k, scope in enumerate(scopes) if scope is self._scope), -1)
        return all(any(x is block for block in blocks) for x in scopes[first + 1 :])


Draw = Callable[[Any], Any]
Drawing = Callable[[Draw], Any]


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


def _normal(draw: Drawing, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    size = _size_of(size, loc, scale)
    return loc + scale * draw(lambda stream: stream.standard_normal(size))


def _uniform(draw: Drawing, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    size = _size_of(size, low, high)
    return low + (high - low) * draw(lambda stream: stream.random(size))


def _exponential(draw: Drawing, scale: Any = 1.0, size: Any = None) -> Any:
    size = _size_of(size, scale)
    return scale * draw(lambda stream: stream.standard_exponential(size))


_SCALED: dict[str, Any] = {"normal": _normal, "uniform": _uniform, "exponential": _exponential}
"""Distributions that scale and shift a standard one, as NumPy computes them."""


def _traced(drawn: Any) -> Any:
    """Arrays as traced ones that may be written; numbers as they are."""
    return result(lift(drawn).value) if is_array(drawn) else drawn


def _order(draw: Drawing, x: Tracer, axis: int) -> Tracer:
    count = int(x.shape[axis])
    return draw(lambda stream: stream.permutation(count))


def _shuffle(draw: Drawing, x: Tracer, axis: int = 0) -> None:
    mnp.write_all(x, mnp.take(x, _order(draw, x, axis), axis=axis), "shuffle")


def _permutation(draw: Drawing, x: Tracer, axis: int = 0) -> Tracer:
    return mnp.take(x, _order(draw, x, axis), axis=axis)


def _choice(
    draw: Drawing,
    a: Tracer,
    size: Any = None,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    shuffle: bool = True,
) -> Tracer:
    count = int(a.shape[axis])

    def places(stream: Any) -> Any:  # its stubs do not know every size
        found = stream.choice(count, size, replace, p, 0, shuffle)
        return found if isinstance(found, Tracer) else np.asarray(found)

    return mnp.take(a, draw(places), axis=axis)


_OF_ARRAYS: dict[str, Any] = {
    "shuffle": _shuffle,
    "permutation": _permutation,
    "choice": _choice,
}
"""Methods that order or choose elements: of a traced array NumPy draws the positions."""
