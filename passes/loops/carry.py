"""What a trip of a loop hands to the next one, and trips that stand behind a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IndexType, IntegerAttr, i1, i64
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.traits import Pure

from mlc.dialects import vec
from mlc.passes.loops.places import lie_apart

INDEX = IndexType()
LOADS = (vector.LoadOp, vector.MaskedLoadOp)
STORES = (vector.StoreOp, vector.MaskedStoreOp, vec.NontemporalStoreOp, memref.StoreOp)
_READS = (*LOADS, memref.LoadOp, vec.GatherOp)
_FLAGGED = (arith.AddiOp, arith.SubiOp, arith.MuliOp)


class Inserter:
    """Puts ops in front of another one."""

    def __init__(self, at: Operation) -> None:
        self.at = at

    def __call__(self, op: Operation) -> SSAValue:
        assert self.at.parent is not None
        self.at.parent.insert_op_before(op, self.at)
        return op.results[0]

    def index(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        """An index that is computed of others."""
        flags = {"overflowFlags": arith.IntegerOverflowAttr("none")} if op in _FLAGGED else {}
        return self(op.create(operands=operands, result_types=[INDEX], properties=flags))

    def away(self, index: SSAValue | None, distance: int) -> SSAValue:
        """The index so far behind another one, or behind 0."""
        place = self(arith.ConstantOp(IntegerAttr(distance, INDEX)))
        return place if index is None else self.index(arith.AddiOp, index, place)


def written_by(op: Operation) -> SSAValue:
    """The buffer that a store writes to."""
    return op.operands[0 if isinstance(op, vector.MaskedStoreOp) else 1]


@cache
def never_writes(kind: type[Operation]) -> bool:
    """Whether ops of a class compute or read, whatever they are given."""
    return issubclass(kind, (*_READS, scf.YieldOp)) or kind.has_trait(Pure)


def is_innocent(op: Operation, buffer: SSAValue) -> bool:
    """Whether neither an op nor one in its regions may write to a buffer, or wait for who does."""
    if never_writes(type(op)):
        return True
    if isinstance(op, STORES):
        return lie_apart(buffer, written_by(op))
    if isinstance(op, scf.ForOp | scf.IfOp):
        inner = (x for region in op.regions for block in region.blocks for x in block.ops)
        return all(is_innocent(x, buffer) for x in inner)
    return False


def leave_the_last(loop: scf.ForOp) -> None:
    """for i = l to u step s  ->  for i = l to u - s step s, and behind it what is left of it"""
    rest, b = loop.clone(), Inserter(loop)
    assert loop.parent is not None
    loop.parent.insert_op_after(rest, loop)
    low, step = loop.lb, loop.step
    end = b.index(arith.MaxSIOp, b.index(arith.SubiOp, loop.ub, step), low)
    # where the first trip begins that the shorter loop does not have
    trips = b.index(arith.CeilDivUIOp, b.index(arith.SubiOp, end, low), step)
    start = b.index(arith.AddiOp, low, b.index(arith.MuliOp, trips, step))
    for result, other in zip(loop.results, rest.results, strict=True):
        result.replace_all_uses_with(other)
    loop.operands[1], rest.operands[0] = end, start
    for k, result in enumerate(loop.results):
        rest.operands[3 + k] = result


def carry(
    loop: scf.ForOp,
    starts: Callable[[Inserter, SSAValue], Sequence[SSAValue]],
    following: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
    *,
    has_trips: bool,
) -> None:
    """
    A loop that carries more: `starts` makes what its first trip is given, of where it begins, and
    `following` what a trip hands on. Nothing is made for a loop without trips.
    """
    if has_trips:
        _carry(loop, starts, following)
        return
    assert loop.parent is not None
    b, kinds = Inserter(loop), [x.type for x in loop.results]
    code = IntegerAttr(2, i64)  # slt
    runs = b(
        arith.CmpiOp.create(
            operands=[loop.lb, loop.ub], result_types=[i1], properties={"predicate": code}
        )
    )
    then, otherwise = Block(), Block([scf.YieldOp(*loop.operands[3:])])
    branch = scf.IfOp(runs, kinds, Region(then), Region(otherwise))
    loop.parent.insert_op_before(branch, loop)
    for result, other in zip(loop.results, branch.results, strict=True):
        result.replace_all_uses_with(other)
    loop.detach()
    then.add_op(loop)
    then.add_op(scf.YieldOp(*loop.results))
    _carry(loop, starts, following)


def _carry(
    loop: scf.ForOp,
    starts: Callable[[Inserter, SSAValue], Sequence[SSAValue]],
    following: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
) -> None:
    block = loop.body.block
    first = starts(Inserter(loop), loop.lb)
    arguments: list[BlockArgument] = [block.insert_arg(x.type, len(block.args)) for x in first]
    ends = block.last_op
    assert isinstance(ends, scf.YieldOp)
    handed = [*ends.operands, *following(arguments)]
    block.add_op(scf.YieldOp(*handed))
    ends.detach()
    ends.erase()
    region = loop.body
    region.detach_block(block)
    operands = [*loop.operands, *first]
    new = scf.ForOp.create(
        operands=operands,
        result_types=[x.type for x in operands[3:]],
        regions=[Region(block)],
        attributes=loop.attributes,
    )
    assert loop.parent is not None
    loop.parent.insert_op_before(new, loop)
    for result, other in zip(loop.results, new.results, strict=False):
        result.replace_all_uses_with(other)
    loop.detach()
    loop.erase()
