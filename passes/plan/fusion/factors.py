"""Factors of products that some machines multiply only where they lie in memory."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from mlc.dialects.dtypes import BF16, F16, F32
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.terms import OfTermsOp
from mlc.passes.cost.ops import point_cost
from mlc.passes.cost.sizes import stored_bytes
from mlc.passes.cost.work import Clock


def narrowed(product: Operation, factor: SSAValue, points: int, clock: Clock) -> ConvertOp | None:
    """
    The conversion to 16 bits by which a factor is made, where it is better stored: the machine
    multiplies such factors by an instruction that reads memory, and that saves more than writing
    the factor once costs. On other machines the instruction, or the copy to panels, converts.
    """
    if not isinstance(product, ContractOp) or product.summand() is not F32:
        return None
    op = factor.owner
    if isinstance(op, ConvertOp) and element_dtype(factor) is F32:  # widened for the sum
        factor = op.x
        op = factor.owner
    if not isinstance(op, ConvertOp) or element_dtype(factor) not in (BF16, F16):
        return None
    if any(size.constant is None for size in product.sizes().values()):
        return None
    plain, narrow = (point_cost(ContractOp, x, clock.target) for x in (F32, element_dtype(factor)))
    source, made = stored_bytes(op.x.type), stored_bytes(factor.type)
    costs = clock.start + clock.reading(source, source) + clock.writing(made, made)
    return op if points * (plain - narrow) > costs else None


def widens(op: Operation) -> bool:
    """Whether f32 is made of 16 bits, or of terms: who reads it may as well read its source."""
    if isinstance(op, OfTermsOp):
        return True
    return isinstance(op, ConvertOp) and op.dtype is F32 and element_dtype(op.x) in (BF16, F16)
