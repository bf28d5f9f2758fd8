"""Reductions are monoids (D18).

A state of one or more values, an identity, an associative combine and a finalise.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BOOL, I64, NUMBERS, REALS, DType, numpy_dtype
from mlc.dialects.tensor.element import ElementBuilder, by_kind
from mlc.dialects.tensor.op import Array
from mlc.dialects.tensor.order import COMBINE, Order, plus
from mlc.dialects.tensor.rounded import extreme, times

State = tuple[SSAValue, ...]


class Monoid(abc.ABC):
    """What a reduction does with elements.

    Written against `ElementBuilder`, so for lanes and single values alike.
    """

    name: ClassVar[str]
    needs_element: ClassVar[bool] = False  # no result for an empty axis (NumPy raises)
    weight: ClassVar[float] = 1.0
    kinds: ClassVar[tuple[str, ...]] = (*REALS, "bool")  # dtypes it is defined for
    extreme: ClassVar[Monoid | None] = None  # the result is the first position of this one's result

    def accumulator(self, dtype: DType) -> DType:
        """The dtype in which elements are combined; the result is converted back."""
        return dtype

    def result(self, dtype: DType) -> DType:
        """The dtype of the finalised value."""
        return dtype

    def state(self, dtype: DType) -> tuple[DType, ...]:
        """The dtypes of the state."""
        return (dtype,)

    @abc.abstractmethod
    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        """The state that changes nothing."""

    def lift(self, b: ElementBuilder, element: SSAValue, position: Callable[[], SSAValue]) -> State:
        """The state of one element; `position()` is its i64 position on the reduced axis."""
        return (element,)

    @abc.abstractmethod
    def combine(self, b: ElementBuilder, dtype: DType, left: State, right: State) -> State:
        """Associative; `left` comes before `right` on the axis where order matters."""

    def finalise(self, b: ElementBuilder, state: State) -> SSAValue:
        """The result of a state."""
        return state[0]

    @abc.abstractmethod
    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        """The meaning on NumPy arrays; `order` is how inexact numbers are combined."""


def _wide(x: Array) -> Array:
    """The array in the dtype in which its sums are accumulated, which holds every element."""
    return x.astype(numpy_dtype(x.dtype).accumulator.numpy, copy=False)


class _Simple(Monoid):
    """One arith op for each kind of dtype."""

    combiners: ClassVar[Mapping[str, type[Any]]]

    def combine(self, b: ElementBuilder, dtype: DType, left: State, right: State) -> State:
        op = self.combiners[dtype.kind]
        return (b.apply(op, left[0], right[0]),)


class Sum(_Simple):
    """The sum in the operand's dtype; on bool: any."""

    name: ClassVar[str] = "sum"
    kinds: ClassVar[tuple[str, ...]] = (*NUMBERS, "bool")
    combiners: ClassVar[Mapping[str, type[Any]]] = by_kind(
        arith.AddfOp, arith.AddiOp, arith.OrIOp, complex_=arith.AddfOp
    )

    def accumulator(self, dtype: DType) -> DType:
        return dtype.accumulator

    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        return (0,)  # +0.0, as in NumPy: the sum of nothing, and of -0.0 alone, is 0.0

    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        wide = _wide(x)
        if order != "any":
            return COMBINE[order](plus, wide, axes, 0)
        return np.any(x, axis=axes) if x.dtype == bool else np.sum(wide, axes, wide.dtype)


class Prod(_Simple):
    """The product in the operand's dtype; on bool: all."""

    name: ClassVar[str] = "prod"
    kinds: ClassVar[tuple[str, ...]] = (*NUMBERS, "bool")
    combiners: ClassVar[Mapping[str, type[Any]]] = by_kind(
        arith.MulfOp, arith.MuliOp, arith.AndIOp, complex_=arith.MulfOp
    )

    def accumulator(self, dtype: DType) -> DType:
        return dtype.accumulator

    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        return (1,)

    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        wide = _wide(x)
        if order != "any":
            return COMBINE[order](times, wide, axes, 1)
        return np.all(x, axis=axes) if x.dtype == bool else np.prod(wide, axes, wide.dtype)


class Max(_Simple):
    """The largest element, NaN if any is NaN."""

    name: ClassVar[str] = "max"
    needs_element: ClassVar[bool] = True
    combiners: ClassVar[Mapping[str, type[Any]]] = by_kind(
        arith.MaximumfOp, arith.MaxSIOp, arith.OrIOp, uint=arith.MaxUIOp
    )

    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        return (dtype.lowest,)

    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        return extreme(_wide(x), axes, largest=True)


class Min(_Simple):
    """The smallest element, NaN if any is NaN."""

    name: ClassVar[str] = "min"
    needs_element: ClassVar[bool] = True
    combiners: ClassVar[Mapping[str, type[Any]]] = by_kind(
        arith.MinimumfOp, arith.MinSIOp, arith.AndIOp, uint=arith.MinUIOp
    )

    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        return (dtype.highest,)

    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        return extreme(_wide(x), axes, largest=False)


class _ArgExtremum(Monoid):
    """The position of the extreme element: the first of equals, the first NaN if there is one."""

    needs_element: ClassVar[bool] = True
    weight: ClassVar[float] = 3.0
    better: ClassVar[str]

    def result(self, dtype: DType) -> DType:
        return I64

    def state(self, dtype: DType) -> tuple[DType, ...]:
        return (dtype, I64)

    def lift(self, b: ElementBuilder, element: SSAValue, position: Callable[[], SSAValue]) -> State:
        return (element, position())

    def combine(self, b: ElementBuilder, dtype: DType, left: State, right: State) -> State:
        (x, i), (y, j) = left, right
        takes = b.compare(self.better, y, x, dtype)
        ties = b.compare("eq", x, y, dtype)
        if dtype.kind == "float":
            nan_x, nan_y = b.compare("ne", x, x, dtype), b.compare("ne", y, y, dtype)
            not_x = b.apply(arith.XOrIOp, nan_x, b.constant(True, BOOL))
            takes = b.apply(arith.OrIOp, takes, b.apply(arith.AndIOp, nan_y, not_x))
            ties = b.apply(arith.OrIOp, ties, b.apply(arith.AndIOp, nan_x, nan_y))
        earlier = b.apply(arith.AndIOp, ties, b.compare("lt", j, i, I64))
        takes = b.apply(arith.OrIOp, takes, earlier)
        return (b.select(takes, y, x), b.select(takes, j, i))

    def finalise(self, b: ElementBuilder, state: State) -> SSAValue:
        return state[1]


class ArgMax(_ArgExtremum):
    """The position of the largest element."""

    name: ClassVar[str] = "argmax"
    better: ClassVar[str] = "gt"
    extreme: ClassVar[Monoid | None] = Max()

    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        return (dtype.lowest, I64.highest)

    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        return np.argmax(_wide(x), axis=axes[0])


class ArgMin(_ArgExtremum):
    """The position of the smallest element."""

    name: ClassVar[str] = "argmin"
    better: ClassVar[str] = "lt"
    extreme: ClassVar[Monoid | None] = Min()

    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        return (dtype.highest, I64.highest)

    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        return np.argmin(_wide(x), axis=axes[0])


MONOIDS: dict[str, Monoid] = {m.name: m for m in (Sum(), Prod(), Max(), Min(), ArgMax(), ArgMin())}
