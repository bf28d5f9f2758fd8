"""mlc_vec.compress and mlc_vec.split: a register's lanes moved together by a mask."""

from __future__ import annotations

from typing import ClassVar, Self

from xdsl.dialects.builtin import VectorType, i1
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, VarConstraint, base, operand_def, result_def, traits_def
from xdsl.traits import Pure

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.lanes import SameLanes


class _MovedByMask(IRDLOperation):
    """Lanes moved by a mask."""

    T: ClassVar = VarConstraint("T", base(VectorType))
    value = operand_def(T)
    mask = operand_def(SameLanes(T, i1))
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$value `,` $mask attr-dict `:` type($value)"

    @classmethod
    def of(cls, value: SSAValue, mask: SSAValue) -> Self:
        return cls.create(operands=(value, mask), result_types=(value.type,))


@irdl_op_definition
class CompressOp(_MovedByMask):
    """
    The lanes that the mask keeps, moved together at the front; the other lanes hold anything.

    ```mlir
    %front = mlc_vec.compress %v, %mask : vector<16xi32>
    ```
    """

    name = "mlc_vec.compress"


@irdl_op_definition
class SplitOp(_MovedByMask):
    """
    The lanes that the mask keeps, in order, and behind them the others, from last to first.

    ```mlir
    %both = mlc_vec.split %v, %mask : vector<8xi32>
    ```
    """

    name = "mlc_vec.split"
