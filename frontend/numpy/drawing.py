"""
What a seeded generator draws where values decide whether it does, how often, or of what: its state
is then a value of the program, which branches join and loops carry, and the program draws as NumPy.
As long as the state is known, NumPy draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects.dims import product
from mlc.dialects.dtypes import F64, I64
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy import pcg64, ziggurat
from mlc.frontend.numpy.creation import shape_argument
from mlc.frontend.numpy.values import lift, number, result
from mlc.frontend.staging.journal import touched
from mlc.frontend.trace.draws import REMEDY
from mlc.frontend.trace.kinds import is_array, is_series
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.transform import transformed

_WORD = (1 << 64) - 1


class _State:
    """The words of a state: attributes, which a journal follows."""

    def __init__(self, words: tuple[Any, ...]) -> None:
        self.put(words)

    def put(self, words: tuple[Any, ...]) -> None:
        self.high, self.low, self.kept, self.half = words

    @property
    def words(self) -> tuple[Any, ...]:
        """High and low; whether half of a word is kept, and which."""
        return self.high, self.low, self.kept, self.half


class Words:
    """The state of a generator as a value."""

    def __init__(self, bits: np.random.PCG64) -> None:
        self._increment = bits.state["state"]["inc"]
        self._state = _State(self._read(bits))

    @staticmethod
    def _read(bits: Any) -> tuple[Any, ...]:
        found = bits.state
        state = found["state"]["state"]
        words = state >> 64, state & _WORD, found["has_uint32"], found["uinteger"]
        return tuple(map(np.uint64, words))

    @property
    def plus(self) -> tuple[Any, Any]:
        """The increment, as two words."""
        return np.uint64(self._increment >> 64), np.uint64(self._increment & _WORD)

    def drawn(
        self, name: str, generator: np.random.Generator, how: Callable[[Any], Any], of_values: bool
    ) -> Any:
        """What is drawn: by NumPy, if the state is known, and no value says between what."""
        touched(self._state)
        words = self._state.words
        if not of_values and not any(isinstance(x, Tracer) for x in words):
            high, low, kept, half = map(int, words)
            generator.bit_generator.state = pcg64.state_of(
                high << 64 | low, self._increment, half if kept else None
            )
            found = how(generator)
            self._state.put(self._read(generator.bit_generator))
            return result(lift(found).value) if is_array(found) else found
        drawing = _Drawing(tuple(map(lift, words)), self.plus)
        try:
            found = how(drawing)
        except (AttributeError, TypeError) as error:
            message = f"rng.{name}: values decide what is drawn here, and the program has no such"
            message += f" method, or not these arguments ({error}); it draws {', '.join(_DRAWS)}."
            raise located(NotSupportedError, message, remedy=REMEDY) from None
        self._state.put(drawing.state)
        return found


def can_draw(generator: np.random.Generator, name: str) -> bool:
    """Whether a program can draw as a generator does."""
    return isinstance(generator.bit_generator, np.random.PCG64) and name in _DRAWS


def _run(function: Any, *args: Any) -> Any:
    observed = transformed(function)
    assert observed is not None
    return observed(*args)


class _Drawing:
    """The methods of a generator, by the ops of the program."""

    def __init__(self, state: tuple[Any, ...], plus: tuple[Any, Any]) -> None:
        self.state = state
        self._plus = plus

    def _numbers(self, draw: Any, given: Any, size: Any, weak: bool) -> Any:
        if size is None:
            self.state, found = _run(draw, self.state, self._plus, given)
            return Tracer(here(), lift(found).value, weak=weak)
        shape = shape_argument(size, "random")
        out = result(number(0, F64 if weak else I64, (product(shape),)))
        self.state, out = _run(pcg64.filled, transformed(draw), self.state, self._plus, given, out)
        return result(mnp.reshape(out, tuple(map(as_size, shape))).value)

    def random(self, size: Any = None) -> Any:
        return self._numbers(pcg64.random, None, size, True)

    def standard_normal(self, size: Any = None) -> Any:
        layers = _layers(ziggurat.normal(), ziggurat.NORMAL_TAIL)
        return self._numbers(pcg64.standard_normal, layers, size, True)

    def standard_exponential(self, size: Any = None) -> Any:
        layers = _layers(ziggurat.exponential(), ziggurat.EXPONENTIAL_TAIL)
        return self._numbers(pcg64.standard_exponential, layers, size, True)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return loc + scale * self.standard_normal(size)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return low + (high - low) * self.random(size)

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        return scale * self.standard_exponential(size)

    def integers(self, low: Any, high: Any = None, size: Any = None, endpoint: bool = False) -> Any:
        low, high = (0, low) if high is None else (low, high)
        least, last = (x if isinstance(x, Tracer) else int(x) for x in (low, high))
        most = last - least - (0 if endpoint else 1)
        if isinstance(most, int):
            if most < 0:
                raise ValueError("low > high" if endpoint else "low >= high")
            most = np.uint64(most)
        else:
            most = _run(pcg64.distance, lift(most))
        return self._numbers(pcg64.integers, (least, most), size, False)

    def permutation(self, count: Any) -> Any:
        if not isinstance(count, int):
            array = lift(count)
            return mnp.take(array, self.permutation(int(array.shape[0])), axis=0)
        masks = np.array([(1 << k.bit_length()) - 1 for k in range(count)], np.uint64)
        order = result(lift(np.arange(count)).value)
        self.state, order = _run(pcg64.shuffled, self.state, self._plus, order, lift(masks))
        return result(order.value)

    def choice(
        self,
        count: Any,
        size: Any = None,
        replace: bool = True,
        p: Any = None,
        axis: int = 0,
        shuffle: bool = True,
    ) -> Any:
        if not replace:
            message = "rng.choice: values decide what is drawn here; expected replace=True."
            raise located(NotSupportedError, message, remedy="Take rng.permutation(n)[:k].")
        if is_array(count) or is_series(count):
            array = lift(np.asarray(count))
            return mnp.take(array, self.choice(int(array.shape[axis]), size, True, p), axis=axis)
        if p is None:
            return self.integers(0, count, size)
        sums = np.cumsum(np.asarray(p, np.float64))
        found = self.random(size)
        return mnp.searchsorted(lift(sums / sums[-1]), found, side="right")


_DRAWS = sorted([*(name for name in vars(_Drawing) if not name.startswith("_")), "shuffle"])


def _layers(tables: ziggurat.Layers, tail: float) -> tuple[Any, ...]:
    return tables.width, tables.surely, tables.density, tail
