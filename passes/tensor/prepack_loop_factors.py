"""
A factor that a loop's contraction reads in every trip lies as the register tile wants it.

Lanes run along the result's last axis. A factor that has unit stride along the summed axis is
turned while it is packed, element by element: once before the loop, instead of in every trip.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.analysis.matmul_axes import SMALL_CONTRACTION, contraction_roles
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.dims import product
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import TransposeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.derivative.emit import Emitter


@dataclass(frozen=True)
class PrepackLoopFactorsPass(ModulePass):
    """
    for … { contract "mk,nk->mn" x, w }  ->  t = transpose w; for … { contract "mk,kn->mn" x, t }
    """

    name = "mlc-prepack-loop-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        turned: dict[tuple[SSAValue, str, Operation], SSAValue] = {}
        for inner in list(outside_kernels(op)):
            if isinstance(inner, ContractOp):
                _turn(inner, turned)


def _turn(op: ContractOp, turned: dict[tuple[SSAValue, str, Operation], SSAValue]) -> None:
    roles, sizes = contraction_roles(op), op.sizes()
    if roles is None:
        return
    k = 0 if roles.swapped else 1
    words, result, _ = op.words()
    loop = outermost_without(op.operands[k], op)
    if loop is None or words[k][-1] in roles.n or product(sizes[c] for c in roles.m).constant == 1:
        return
    work = product(sizes[c] for c in roles.m + roles.n + roles.k).constant
    if work is not None and work < SMALL_CONTRACTION:
        return
    word = roles.batch + "".join(c for c in words[k] if c in roles.k) + roles.n
    spelled = _spelled(words[k], word)
    x = turned.get((op.operands[k], spelled, loop))
    if x is None:
        before = Emitter(Block(), op.location)
        x = before(TransposeOp, op.operands[k], letters=spelled)
        turned[op.operands[k], spelled, loop] = x
        insert_before(before.block, loop)
        remark(op, "a factor is transposed once, before the loop (exact)")
    operands, both = list(op.operands), list(words)
    operands[k], both[k] = x, word
    block = op.parent
    assert block is not None
    after = Emitter(Block(), op.location)
    new = after(ContractOp, *operands, letters=f"{','.join(both)}->{result}")
    new.name_hint = op.results[0].name_hint
    insert_before(after.block, op)
    op.results[0].replace_all_uses_with(new)
    block.erase_op(op)


def _spelled(word: str, new: str) -> str:
    """Index letters of the transposition, named in order."""
    letters = dict(zip(word, "abcdefghijklmnopqrstuvwxyz", strict=False))
    return f"{''.join(letters.values())}->{''.join(letters[c] for c in new)}"


def insert_before(block: Block, anchor: Operation) -> None:
    """Moves a block's ops before another op."""
    assert anchor.parent is not None
    for new in list(block.ops):
        new.detach()
        anchor.parent.insert_op_before(new, anchor)


def outermost_without(value: SSAValue, op: Operation) -> Operation | None:
    """The outermost loop around an op in which the value is not made; None for no loop."""
    home = block_of(value)
    found: Operation | None = None
    here = op
    while here.parent is not None and here.parent is not home:
        above = here.parent_op()
        if not isinstance(above, ControlOp):
            break
        if above.repeats:
            found = above
        here = above
    return found
