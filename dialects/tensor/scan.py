"""Running reductions along an axis: sums, products, extrema, log-sum-exp (D18)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import eq, operand_def, prop_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import NUMBERS, DType, dtype_of
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.monoid import MONOIDS, Monoid, State
from mlc.dialects.tensor.op import (
    Array,
    OpaqueOp,
    OpaqueTemplate,
    OpBuilder,
    Tensor,
    int_property,
    one_of_property,
    text_property,
)
from mlc.dialects.tensor.order import Order
from mlc.dialects.tensor.rounded import times, winning_zeros, with_sign_of_zeros


class LogSumExp(Monoid):
    """
    log(sum(exp(x))) without overflow: the state (m, s) stands for m + log(s), m the largest x.

    SOURCE: Milakov and Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867
    """

    name: ClassVar[str] = "logsumexp"
    kinds: ClassVar[tuple[str, ...]] = ("float",)
    weight: ClassVar[float] = 20.0

    def state(self, dtype: DType) -> tuple[DType, ...]:
        return (dtype, dtype)

    def identity(self, dtype: DType) -> tuple[int | float, ...]:
        return (float("-inf"), 0.0)

    def lift(self, b: ElementBuilder, element: SSAValue, position: Callable[[], SSAValue]) -> State:
        dtype = dtype_of(_element_type(element))
        return (element, b.constant(1.0, dtype))

    def combine(self, b: ElementBuilder, dtype: DType, left: State, right: State) -> State:
        largest = b.apply(arith.MaximumfOp, left[0], right[0])
        # inf - inf would be NaN: from an infinite maximum nothing is taken away
        size = b.apply(math.AbsFOp, largest)
        infinite = b.compare("eq", size, b.constant(float("inf"), dtype), dtype)
        base = b.select(infinite, b.constant(0.0, dtype), largest)
        parts = [
            b.apply(arith.MulfOp, s, b.apply(math.ExpOp, b.apply(arith.SubfOp, m, base)))
            for m, s in (left, right)
        ]
        return (largest, b.apply(arith.AddfOp, *parts))

    def finalise(self, b: ElementBuilder, state: State) -> SSAValue:
        return b.apply(arith.AddfOp, state[0], b.apply(math.LogOp, state[1]))

    def reference(self, x: Array, axes: tuple[int, ...], order: Order) -> Array:
        return np.logaddexp.reduce(x, axis=axes)


def _element_type(value: SSAValue) -> Attribute:
    from mlc.dialects.lanes import element_of

    return element_of(value.type)


SCANS: dict[str, Monoid] = {
    **{name: MONOIDS[name] for name in ("sum", "prod", "max", "min")},
    "logsumexp": LogSumExp(),
}
_ON_BOOL: dict[str, np.ufunc] = {
    "sum": np.logical_or,
    "prod": np.logical_and,
    "max": np.logical_or,
    "min": np.logical_and,
}


def accumulated(name: str, x: Array) -> Array:
    """The running results along the first axis, in turn."""
    if x.dtype == bool:
        return _ON_BOOL[name].accumulate(x, axis=0)
    if name in ("max", "min"):
        largest = name == "max"
        found = (np.maximum if largest else np.minimum).accumulate(x, axis=0)
        wins = np.logical_or.accumulate(winning_zeros(x, largest=largest), axis=0)
        return with_sign_of_zeros(found, wins, largest=largest)
    if name == "prod" and x.dtype.kind == "c":
        return np.array(list(itertools.accumulate(x, times)), x.dtype).reshape(x.shape)
    ufuncs: dict[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "logsumexp": np.logaddexp}
    return ufuncs[name].accumulate(x, axis=0, dtype=x.dtype)


@irdl_op_definition
class ScanOp(OpaqueOp):
    """
    result[i] = x[0] ∘ x[1] ∘ … ∘ x[i] along an axis.

    `direction`: "forward", or "backward" from the end. `kind`: "inclusive", or "exclusive", which
    leaves x[i] itself out.

    ```mlir
    %0 = mlc.scan "sum" "forward" "inclusive" 0 %x : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "mlc.scan"
    KINDS: ClassVar[tuple[str, ...]] = (*NUMBERS, "bool")
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, ufunc.accumulate"
    TEMPLATE: ClassVar[OpaqueTemplate] = "scan"
    FLOPS: ClassVar[int] = 1
    WEIGHT: ClassVar[float] = 16.0
    monoid = prop_def(StringAttr)
    direction = prop_def(StringAttr)
    kind = prop_def(StringAttr)
    axis = prop_def(IntegerAttr.constr(eq(i64)))
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$monoid $direction $kind $axis $x attr-dict `:` type($x) `->` type($result)"

    @property
    def runs_along(self) -> int | None:
        return self.axis.value.data

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        known = {
            "monoid": tuple(SCANS),
            "direction": ("forward", "backward"),
            "kind": ("inclusive", "exclusive"),
        }
        for name, expected in known.items():
            one_of_property(cls.name, properties, name, expected)
        rank, axis = len(shape_of(operands[0])), int_property(properties, "axis")
        if not 0 <= axis < rank:
            raise ShapeError(f"mlc.scan: axis {axis} of an array with {rank} axes")
        dtype = dtype_of(operands[0].element_type)
        monoid = SCANS[text_property(properties, "monoid")]
        if dtype.kind not in monoid.kinds:
            raise DTypeError(
                f"mlc.scan: {monoid.name} of {dtype.name}; expected {' or '.join(monoid.kinds)}"
            )
        return operands[0]

    def combiner(self) -> Monoid:
        """How elements are combined."""
        return SCANS[self.monoid.data]

    @property
    def is_backward(self) -> bool:
        """Whether it begins at the end of the axis."""
        return self.direction.data == "backward"

    @property
    def is_exclusive(self) -> bool:
        """Whether an element's own value is left out of its result."""
        return self.kind.data == "exclusive"

    def start(self) -> tuple[complex, ...]:
        """The state before the first element; a sum that leaves it out begins with +0, not -0."""
        if self.monoid.data == "sum" and self.dtype.is_inexact and not self.is_exclusive:
            return (complex(-0.0, -0.0) if self.dtype.kind == "complex" else -0.0,)
        return self.combiner().identity(self.dtype)

    def reference(self, *operands: Array) -> Array:
        axis, name = self.axis.value.data, self.monoid.data
        x = np.moveaxis(operands[0], axis, 0)
        x = x[::-1] if self.is_backward else x
        found = accumulated(name, x)
        if self.is_exclusive and len(found):
            first = np.full_like(found[:1], self.start()[0])
            found = np.concatenate([first, found[:-1]])
        found = found[::-1] if self.is_backward else found
        return np.moveaxis(found, 0, axis)

    def linear_operands(self) -> tuple[int, ...]:
        return (0,) if self.monoid.data == "sum" and self.dtype.is_inexact else ()

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        direction = "forward" if self.is_backward else "backward"
        return b(
            ScanOp,
            cotangent,
            monoid="sum",
            direction=direction,
            kind=self.kind,
            axis=self.axis.value.data,
        )

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        from mlc.dialects.tensor.tangents import scan_tangent

        tangent = tangents[0]
        if tangent is None or not self.dtype.is_inexact:
            return None
        return scan_tangent(b, self, tangent)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        return b(
            ScanOp,
            operands[0],
            monoid=self.monoid,
            direction=self.direction,
            kind=self.kind,
            axis=self.axis.value.data + 1,
        )
