"""Identities that tell passes what not to do: differentiate through, or merge."""

from __future__ import annotations

from typing import ClassVar

from xdsl.ir import SSAValue

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dtypes import KINDS
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Elementwise, Unary
from mlc.dialects.tensor.op import Array, OpBuilder


class Marker(Unary):
    """x itself."""

    KINDS: ClassVar[tuple[str, ...]] = KINDS
    FLOPS: ClassVar[int] = 0
    WEIGHT: ClassVar[float] = 0.0

    def reference(self, *operands: Array) -> Array:
        return operands[0]

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        return operands[0]


@irdl_op_definition
class StopGradientOp(Marker):
    """x, as a constant for derivatives."""

    name = "mlc.stop_gradient"
    NO_DERIVATIVE: ClassVar[str] = "a constant by its meaning"


@irdl_op_definition
class BarrierOp(Marker):
    """
    x, but not as the same value for common subexpressions: what is computed from it is computed
    again. Checkpoints stand on it; it is gone when kernels are formed.
    """

    name = "mlc.barrier"

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return cotangent

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        from mlc.dialects.tensor.create import full

        return (full(b, 1.0, self.dtype, self.shape),)


MARKERS: tuple[type[Elementwise], ...] = (StopGradientOp, BarrierOp)
