# pyright: basic
"""
`rng`: numbers of a distribution, with a key that the text does not have.

A function that draws is one of a key of `mlc.random` beside its arguments. Each op has a key of its
own, made of that of the call and its number in the text, and in a loop of the trip. Who calls the
function without a key gets the next one of its `Generator`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects.tensor.random import LOW, philox4x32
from mlc.fork import RenewedLock
from mlc.frontend import random
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.importers.stablehlo.program import Module, Op, Region, TensorKind
from mlc.frontend.importers.stablehlo.text import numpy_of
from mlc.frontend.trace.effects import effects
from mlc.frontend.trace.trace import here

Array = Any
_FLOATS = ("f16", "bf16", "f32", "f64")


def drawing(module: Module) -> frozenset[str]:
    """The functions of a module that draw numbers, or call one that does."""
    found: frozenset[str] = frozenset()
    while True:
        more = {
            name for name, function in module.functions.items() if draws(function.region, found)
        }
        if more == found:
            return found
        found = frozenset(more)


def draws(region: Region, functions: frozenset[str]) -> bool:
    """Whether ops of a region draw numbers. `functions`: those that are known to."""
    ops = region.all_ops()
    return any(op.name == "rng" or not functions.isdisjoint(op.called()) for op in ops)


def drawn(op: Op, key: Array, low: Array, high: Array, shape: Sequence[Any]) -> Array:
    """
    `rng %low, %high, %shape, distribution = UNIFORM`: numbers from [low, high); of NORMAL, `low` is
    the mean and `high` the standard deviation.
    """
    kind = op.kinds[0]
    assert isinstance(kind, TensorKind)
    dtype = numpy_of(kind)
    said = str(op.get("rng_distribution")).split()[-1].rstrip(">")
    if said not in ("UNIFORM", "NORMAL"):
        raise ValueError(f"rng_distribution = {said}; expected UNIFORM or NORMAL")
    if low.ndim or high.ndim or {low.dtype, high.dtype} != {dtype}:
        raise ValueError(f"expected two numbers of {kind.dtype}")
    if kind.dtype in _FLOATS:
        if said == "UNIFORM":
            return random.uniform(key, shape, dtype, low, high)
        return random.normal(key, shape, dtype) * high + low
    if said == "NORMAL" or dtype.kind not in "biu":
        raise NotSupportedError(
            f"line {op.line}: rng of {kind.dtype}, {said}; expected one of {', '.join(_FLOATS)}"
            + (", or integers" if said == "UNIFORM" else "")
        )
    whole = np.dtype(np.uint8) if dtype.kind == "b" else dtype
    ends = low.astype(whole), high.astype(whole)
    return random.randint(key, shape, *ends, whole).astype(dtype)


class _Integers:
    """Words that are integers of Python's: one key takes a quarter of the time of arrays."""

    def constant(self, value: int) -> int:
        return value

    def add(self, x: int, y: int) -> int:
        return (x + y) % 2**64

    def mul(self, x: int, y: int) -> int:
        return x * y % 2**64

    def xor(self, x: int, y: int) -> int:
        return x ^ y

    def low(self, x: int) -> int:
        return x & LOW

    def high(self, x: int) -> int:
        return x >> 32


class Generator:
    """
    The keys of calls without one: of a seed and the number of the call. The state is an array that
    programs read and leave as it is after them.
    """

    def __init__(self, name: str, seed: int) -> None:
        self._name = f"{name}: the number of its calls"
        self._lock = RenewedLock()
        self._seed, self._calls = np.zeros((), np.uint64), np.zeros((), np.uint64)
        self.begin(seed)

    def begin(self, seed: int) -> None:
        """From the first key of a seed on."""
        with self._lock():
            self._seed[()], self._calls[()] = int(seed) % 2**64, 0

    def next(self) -> Any:
        """The key of a call from outside of traced functions."""
        with self._lock():
            seed, count = int(self._seed), int(self._calls)
            self._calls[()] = (count + 1) % 2**64
        low, high, _, _ = philox4x32(
            _Integers(), (count & LOW, count >> 32, random.FOLD, 0), (seed & LOW, seed >> 32)
        )
        return np.asarray(low | high << 32, np.uint64)

    def traced(self, function: str) -> Array:
        """The key of a call in a traced function: the next one each time that it is run."""
        if here().examples:
            raise located(
                NotSupportedError,
                f"vmap of {function}, which draws numbers by stablehlo.rng: all examples would have"
                " the same ones.",
                remedy=f"Give each a key: mlc.vmap(lambda key, x: {function}(x, key=key))"
                "(mlc.random.split(mlc.random.key(0), n), x)",
            )
        seed = effects().left(self._seed, self._name)
        calls = effects().left(self._calls, self._name)
        key = random.fold_in(seed, calls)
        calls.write((calls + np.uint64(1)).value)
        return key
