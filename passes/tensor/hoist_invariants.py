"""
What does not change from trip to trip is computed once, before the loop.

SOURCE: Aho, Lam, Sethi, Ullman, Compilers, 2nd ed., 2006, section 9.5.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, OpResult, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim
from mlc.dialects.tensor.bind import BindOp, symbols_in
from mlc.dialects.tensor.control import ControlOp, is_inside
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark

DEAR = 8.0
"""
Arithmetic of this weight (of additions) per element is kept in memory even where reading what it is
computed from would move fewer bytes: about what the transfer of a value from level 3 takes.
"""


@dataclass(frozen=True)
class HoistInvariantsPass(ModulePass):
    """
    for … { q = p / degree; yield q @ r }  ->  q = p / degree; for … { yield q @ r }

    A value is hoisted if reading it moves no more bytes than reading what it is computed from, or
    if it is dear. Ops that may report an error stay: the loop may not run.
    """

    name = "mlc-hoist-invariants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            for region in function.regions:
                for block in region.blocks:
                    _visit(block)


def _visit(block: Block) -> None:
    """Inner loops first, so that what leaves them may leave the outer ones too."""
    for op in list(block.ops):
        if isinstance(op, ControlOp):
            for inner in op.blocks:
                _visit(inner)
            if op.repeats and not op.IS_RIGID:
                for inner in op.blocks:
                    _hoist(op, inner)


def _hoist(loop: ControlOp, body: Block) -> None:
    invariant: set[SSAValue] = set()
    bound = {op.symbol.data for op in body.ops if isinstance(op, BindOp)}
    for op in body.ops:
        fixed = all(x in invariant or not is_inside(x, loop) for x in op.operands)
        fixed = fixed and (not bound or bound.isdisjoint(symbols_in(op)))
        if fixed and isinstance(op, TensorOp) and not op.CHECKS:
            invariant.update(op.results)
    for op in list(body.ops):
        if isinstance(op, TensorOp) and op.results[0] in invariant and _is_worth(op, invariant):
            _move(op, loop, invariant)


def _is_worth(op: TensorOp, invariant: set[SSAValue]) -> bool:
    """Whether others read the value, and to keep it costs no more than to compute it each time."""
    stays = any(_leaves(use.operation, invariant) for use in op.results[0].uses)
    if op.IS_FREE or not stays:
        return False
    if not isinstance(op, Elementwise):
        return True
    weight, sources = 0.0, dict[SSAValue, None]()
    pending: list[Operation] = [op]
    seen: set[Operation] = set()
    while pending:
        found = pending.pop()
        if found in seen:
            continue
        seen.add(found)
        if isinstance(found, Elementwise):
            weight += found.WEIGHT * found.FLOPS
        for x in found.operands:
            if (
                isinstance(x, OpResult)
                and x in invariant
                and isinstance(x.op, TensorOp)
                and (x.op.IS_FREE or isinstance(x.op, Elementwise))
            ):
                pending.append(x.op)
            else:
                sources[x] = None
    read = sum((bytes_of(x.type) for x in sources), Dim.const(0))
    more = (bytes_of(op.results[0].type) - read).constant
    return weight >= DEAR or (more is not None and more <= 0)


def _leaves(reader: Operation, invariant: set[SSAValue]) -> bool:
    """Whether a reader stays in the loop, as index maps do beside theirs."""
    pending = [reader]
    while pending:
        reader = pending.pop()
        if not isinstance(reader, TensorOp) or reader.results[0] not in invariant:
            return True
        if reader.IS_FREE:
            pending += [use.operation for use in reader.results[0].uses]
    return False


def _move(op: TensorOp, loop: ControlOp, invariant: set[SSAValue]) -> None:
    """Puts an op before the loop, after what it needs."""
    assert loop.parent is not None
    pending = [op]
    while pending:
        op = pending[-1]
        needed = [x.op for x in op.operands if isinstance(x, OpResult) and x in invariant]
        needed = [before for before in needed if isinstance(before, TensorOp)]
        if needed:
            pending += needed
            continue
        pending.pop()
        if op.results[0] not in invariant:
            continue
        invariant.discard(op.results[0])
        op.detach()
        loop.parent.insert_op_before(op, loop)
        if not op.IS_FREE:
            flops = op.cost().flops
            remark(
                op, f"computed once, before the loop (exact): {flops} operations less in each trip"
            )
