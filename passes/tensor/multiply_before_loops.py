"""
Products of a tensor's rows, one per trip, with one factor are one product, before the loop.

What a recurrent net computes from its inputs alone is such a product: thin ones would read the
whole factor in every trip.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.control import ForOp, is_inside
from mlc.dialects.tensor.letters import fresh, split
from mlc.dialects.tensor.op import bytes_of
from mlc.dialects.tensor.reduce import ContractOp, sum_order
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.derivative.emit import Emitter
from mlc.passes.tensor.scan_rows import row_read


@dataclass(frozen=True)
class MultiplyBeforeLoopsPass(ModulePass):
    """
    for … { z = contract(x[i], w) }  ->  t = contract(x, w); for … { z = t[i] }

    where a product has no more bytes than the factor that all of them share: a trip reads the
    product instead of the factor.
    """

    name = "mlc-multiply-before-loops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for loop in [x for x in outside_kernels(op) if isinstance(x, ForOp)]:
            for inner in list(loop.body.block.ops):
                if isinstance(inner, ContractOp):
                    _visit(inner, loop)


def _visit(op: ContractOp, loop: ForOp) -> None:
    reads = [row_read(x, loop) for x in op.operands]
    row = 0 if reads[0] is not None else 1
    found, factor = reads[row], op.operands[1 - row]
    if found is None or is_inside(factor, loop):
        return
    less = (bytes_of(factor.type) - bytes_of(op.results[0].type)).constant
    if less is None or less < 0:
        return
    rows, at = found
    words, result = split(op.letters.data)
    trip = fresh((*words, result))
    both, operands = list(words), list(op.operands)
    both[row], operands[row] = trip + words[row], rows
    if is_strict(op) and sum_order(both, trip + result) != op.order() != "any":
        return
    before = Emitter(Block(), op.location)
    products = before(ContractOp, *operands, letters=f"{','.join(both)}->{trip}{result}")
    _insert(before.block, loop)
    inside = Emitter(Block(), op.location)
    value: SSAValue = inside.read(products, at)
    value.name_hint = op.results[0].name_hint
    _insert(inside.block, op)
    remark(op, "multiplied for all trips at once, before the loop (exact)")
    op.results[0].replace_all_uses_with(value)
    loop.body.block.erase_op(op)


def _insert(block: Block, anchor: Operation) -> None:
    assert anchor.parent is not None
    for new in list(block.ops):
        new.detach()
        anchor.parent.insert_op_before(new, anchor)
