"""Reverse mode through `mlc.for`, `mlc.if`, `mlc.while` and `mlc.rule`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.tensor.control import (
    CHECKPOINT,
    ControlOp,
    ForOp,
    IfOp,
    WhileOp,
    YieldOp,
    discard,
    loop_region,
    yield_of,
)
from mlc.dialects.tensor.rule import RuleOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.emit import (
    Emitter,
    before_yield,
    body_ops,
    extend_results,
    extend_yield,
    trips_of,
)
from mlc.passes.tensor.derivative.replay import count_trips, pull_by_replay
from mlc.passes.tensor.derivative.residuals import Residuals, residuals_of
from mlc.passes.tensor.derivative.reverse import Contribution, Reverse
from mlc.passes.tensor.derivative.reverse_rule import pull_rule
from mlc.passes.tensor.scan_rows import row_of, stack, stacked_outputs


def pull_control(sweep: Reverse, op: ControlOp) -> None:
    """What the cotangents of an op's results say about those of what it reads."""
    cotangents = [sweep.take(x) for x in op.results]
    if all(x is None for x in cotangents):
        return
    sweep.b.at(op)
    match op:
        case ForOp() if trips_of(op.count) == Dim.const(0):
            for start, cotangent in zip(op.inits, cotangents, strict=True):
                sweep.add(start, cotangent)
        case ForOp() if trips_of(op.count) is None or CHECKPOINT in op.attributes:
            pull_by_replay(sweep, op, op.count, cotangents)
        case ForOp():
            _pull_for(sweep, op, cotangents)
        case WhileOp():
            pull_by_replay(sweep, op, count_trips(op), cotangents)
        case IfOp():
            _pull_if(sweep, op, cotangents)
        case RuleOp():
            pull_rule(sweep, op, cotangents)
        case _:
            raise NotImplementedError(f"{op.name} has no derivative")


@dataclass(frozen=True)
class Trip:
    """The way back through one trip: block arguments (number, cotangents), and what comes out."""

    block: Block
    active: list[int]  # the carried values that have a cotangent
    following: list[SSAValue | None]  # for each of these its cotangent before the trip
    outside: list[tuple[SSAValue, list[Contribution]]]  # to what the body reads from around it
    sweep: Reverse


def _trip_back(sweep: Reverse, op: ForOp, cotangents: Sequence[SSAValue | None]) -> Trip:
    """Built again until no carried value gets a cotangent that is not carried."""
    body = op.body.block
    stacked = stacked_outputs(op)
    active = [k for k, c in enumerate(cotangents) if c is not None and k not in stacked]
    while True:
        block = loop_region([op.inits[k].type for k in active]).detach_block(0)
        inner = Reverse(Emitter(block, op.location), sweep.varied)
        for k, cotangent in zip(active, block.args[1:], strict=True):
            inner.add(yield_of(body).values[k], cotangent)
        for k, write in stacked.items():
            if (whole := cotangents[k]) is not None:
                inner.add(write.update, row_of(inner.b, whole, write))
        inner.run(body_ops(body))
        inner.b.at(op)
        found = [inner.take(x) for x in op.carried]
        new = [k for k, x in enumerate(found) if x is not None and k not in active]
        if not new:
            outside = list(inner.pending.items())
            return Trip(block, active, [found[k] for k in active], outside, inner)
        discard(block)
        active = sorted([*active, *new])


def _pull_for(sweep: Reverse, op: ForOp, cotangents: Sequence[SSAValue | None]) -> None:
    """A loop of as many trips, last trip first; what it needs from a trip is stacked by `op`."""
    b, count = sweep.b, op.count
    trip = _trip_back(sweep, op, cotangents)
    inits = [op.inits[k] for k in trip.active]
    block = trip.block
    following = trip.sweep.b.or_zeros(trip.following, inits)
    for value, contributions in trip.outside:
        total = block.insert_arg(value.type, len(block.args))
        found = trip.sweep.total(contributions, total)
        assert found is not None
        following.append(found)
    block.add_op(YieldOp.create(operands=following))
    _bring_residuals(op, block, count)
    starts = b.or_zeros([cotangents[k] for k in trip.active], inits)
    starts += [b.zeros(value.type) for value, _ in trip.outside]
    loop = ForOp(count, starts, Region(block))
    b.insert(loop)
    sources = inits + [value for value, _ in trip.outside]
    for value, cotangent in zip(sources, loop.outs, strict=True):
        sweep.add(value, cotangent)


def _bring_residuals(op: ForOp, block: Block, count: SSAValue) -> None:
    """Values of the forward body that the way back uses are read from stacks, or computed again."""
    body = op.body.block
    index = body.args[0]
    needed = residuals_of(body, block)
    stacks = stack(op, needed.stored)
    e = Emitter(block, op.location, before=block.first_op)
    number = e.from_end(count, block.args[0])
    renamed: dict[SSAValue, SSAValue] = {index: number}
    for value, rows in zip(needed.stored, stacks, strict=True):
        renamed[value] = e.read(rows, number)
    e.copies(needed.computed, renamed)
    _rename(block, renamed)


def _rename(block: Block, renamed: dict[SSAValue, SSAValue]) -> None:
    """What a block reads gets other names."""
    for value, new in renamed.items():
        for use in list(value.uses):
            if block.find_ancestor_op_in_block(use.operation) is not None:
                use.operation.operands[use.index] = new


def _pull_if(sweep: Reverse, op: IfOp, cotangents: Sequence[SSAValue | None]) -> None:
    """The same choice on the way back; each side gives the other's cotangents as zeros."""
    sides: list[tuple[Block, dict[SSAValue, SSAValue | None]]] = []
    for block in op.blocks:
        back = Block()
        inner = Reverse(Emitter(back, op.location), sweep.varied)
        for value, cotangent in zip(yield_of(block).values, cotangents, strict=True):
            inner.add(value, cotangent)
        inner.run(body_ops(block))
        inner.b.at(op)
        outside = list(inner.pending)
        sides.append((back, {x: inner.take(x) for x in outside}))
    sources = list(dict.fromkeys(x for _, found in sides for x in found))
    if not sources:
        return
    for back, found in sides:
        e = Emitter(back, op.location)
        totals = e.or_zeros([found.get(x) for x in sources], sources)
        back.add_op(YieldOp.create(operands=totals))
    for (back, _), block in zip(sides, op.blocks, strict=True):
        _bring_branch_residuals(op, block, back, residuals_of(block, back))
    choice = IfOp(op.condition, *(Region(back) for back, _ in sides))
    sweep.b.insert(choice)
    for value, cotangent in zip(sources, choice.outs, strict=True):
        sweep.add(value, cotangent)


def _bring_branch_residuals(op: IfOp, block: Block, back: Block, needed: Residuals) -> None:
    """Values of one side that its way back uses become results; the other side gives zeros."""
    kinds = [x.type for x in needed.stored]
    results = extend_results(op, kinds)
    for other in op.blocks:
        if other is block:
            extend_yield(other, needed.stored)
            continue
        e = before_yield(other, op.location)
        extend_yield(other, [e.zeros(kind) for kind in kinds])
    renamed: dict[SSAValue, SSAValue] = dict(zip(needed.stored, results, strict=True))
    Emitter(back, op.location, before=back.first_op).copies(needed.computed, renamed)
    _rename(back, renamed)
