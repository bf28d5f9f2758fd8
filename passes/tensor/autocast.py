"""Factors that products round are rounded before them."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.op import OpBuilder, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import Product
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class AutocastPass(ModulePass):
    """
    contract "mk,kn->mn" a, b rounds "bf16"
    ->  contract "mk,kn->mn" (convert (convert a : bf16) : f32), (convert (convert b : bf16) : f32)

    Sums stay in f32. What is widened from that dtype is left as it is.
    """

    name = "mlc-autocast"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if isinstance(inner, Product) and (narrow := inner.rounded()) is not None:
                _round(inner, narrow)


def _round(op: Product, narrow: DType) -> None:
    block = op.parent
    assert block is not None

    def insert(new: Operation) -> None:
        new.location = op.location
        block.insert_op_before(new, op)

    b = OpBuilder(insert)
    found: dict[SSAValue, SSAValue] = {}
    for number, x in enumerate(op.operands):
        if x not in found:
            found[x] = x if _is_rounded(x, narrow) else _rounded(b, x, narrow)
        op.operands[number] = found[x]
    op.properties.pop("rounds")


def _is_rounded(x: SSAValue, narrow: DType) -> bool:
    source = x.owner
    return isinstance(source, ConvertOp) and element_dtype(source.x) is narrow


def _rounded(b: OpBuilder, x: SSAValue, narrow: DType) -> SSAValue:
    made = b(ConvertOp, x, declared=tensor_type(narrow.ir, shape_of(x.type)))
    return b(ConvertOp, made, declared=tensor_of(x))
