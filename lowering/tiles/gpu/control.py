"""Roles, work and loops of a tile program as branches and loops of threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import (
    AsyncFenceOp,
    BulkWaitOp,
    ElectOp,
    RegistersOp,
    WarpBarrierOp,
)
from mlc.dialects.tile.compute import ConvertOp, ExtractOp, ReduceOp
from mlc.dialects.tile.control import ForOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import MapOp
from mlc.dialects.tile.fences import DrainOp, FenceOp
from mlc.dialects.tile.memory import AllocOp, StoreOp
from mlc.dialects.tile.parts import Parts
from mlc.dialects.tile.pipeline import (
    GROUP_WARPS,
    ROLES,
    ChannelOp,
    DotStartOp,
    GetOp,
    JoinOp,
    PutOp,
    ReadyOp,
    ReleaseOp,
    RolesOp,
    WaitOp,
)
from mlc.dialects.tile.region import YieldOp, yielded
from mlc.dialects.tile.turns import PassOp, TurnOp
from mlc.dialects.tile.types import FragType, TokenType
from mlc.dialects.tile.work import WorkOp
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import NOT_UNROLLED
from mlc.lowering.tiles.gpu.copy import lower_copy
from mlc.lowering.tiles.gpu.fragment import (
    lower_convert,
    lower_dot_start,
    lower_extract,
    lower_map,
    lower_ready,
    lower_reduce,
    lower_store,
    lower_wait,
)
from mlc.lowering.tiles.gpu.join import join
from mlc.lowering.tiles.gpu.ring import Turn
from mlc.lowering.tiles.gpu.scope import BlockScope, joined, split
from mlc.lowering.tiles.scope import TileScope


def groups_of(op: RolesOp, number: int) -> int:
    """Groups of warps that a role takes: registers are given to whole groups."""
    count = op.counts.data[number].value.data
    return count if ROLES[op.kinds.data[number].data] == "groups" else -(-count // GROUP_WARPS)


def lower_roles(k: BlockScope, op: RolesOp) -> None:
    """Each group of warps takes its role."""
    total = sum(groups_of(op, number) for number in range(len(op.bodies)))
    regs = [x.value.data for x in op.registers]
    even = sum(groups_of(op, n) * r for n, r in enumerate(regs)) // total

    def arm(number: int, first: int) -> None:
        if number == len(op.bodies):
            return
        count = groups_of(op, number)
        body = partial(_role, k, op, number, first, more=regs[number] > even)
        last = number == len(op.bodies) - 1
        if last:
            body()
            return
        mine = k.b.compare("lt", k.words.index(k.threads.group), first + count)
        k.b.when(mine, body, partial(arm, number + 1, first + count))

    arm(0, 0)


def _role(k: BlockScope, op: RolesOp, number: int, first: int, *, more: bool) -> None:
    """One role: of a producer's warps one thread copies."""
    b, block = k.b, op.bodies[number].block
    b.add_op(RegistersOp.of(op.registers.data[number].value.data, more=more))
    own = k.words.add(k.threads.group, -first)
    k.turns = {x: Turn.begin(ring, x, block, own, k.words) for x, ring in k.rings.items()}
    if ROLES[op.kinds.data[number].data] == "groups":
        k.s.indices[block.args[0]] = k.words.index(own)
        k.turn = k.s.indices[block.args[0]], op.copies(number)
        lower_block(k, block)
        return
    if op.counts.data[number].value.data != 1 or op.kinds.data[number].data != "producer":
        raise MlcError(
            f"tiles to GPU: {op.kinds.data[number].data} of {op.counts.data[number].value.data}"
            " warps; expected a producer of one"
        )
    k.s.indices[block.args[0]] = 0

    def fill() -> None:
        lower_block(k, block)
        for turn in k.turns.values():
            if turn.ring.blocks > 1:
                turn.drain(k.words)

    def elected() -> None:
        b.when(b.value(ElectOp.of()), fill)

    b.when(k.words.equal(k.threads.warp, 0), elected)


def lower_block(k: BlockScope, block: Block) -> None:
    """The ops of a region, but for its end."""
    for op in block.ops:
        if not isinstance(op, YieldOp):
            _lower(k, op)


def _lower(k: BlockScope, op: Operation) -> None:
    b, words = k.b, k.words
    match op:
        case PutOp():
            k.slots.update(zip(op.slots, k.turns[op.channel].put(words), strict=True))
        case GetOp():
            k.slots.update(zip(op.slots, k.turns[op.channel].get(words), strict=True))
        case TurnOp():
            k.turns[op.channel].take(op.places.value.data, words)
        case PassOp():
            k.turns[op.channel].pass_on(k.threads.member, words)
        case ReleaseOp():
            behind = 0 if op.behind is None else op.behind.value.data
            k.turns[op.channel].release(behind, k.threads.member, words)
        case FenceOp():
            b.add_op(AsyncFenceOp.create())
            b.add_op(WarpBarrierOp.create())
        case DrainOp():
            b.add_op(BulkWaitOp.of(op.pending.value.data))
            b.add_op(WarpBarrierOp.create())
        case WorkOp():
            _work(k, op)
        case ForOp():
            _for(k, op)
        case JoinOp():
            join(k, op, partial(lower_block, k, op.body.block))
        case _:
            rule = _RULES.get(type(op))
            if rule is None:
                raise MlcError(f"tiles to GPU: {op.name} is not lowered in a role")
            rule(k, op)


# Loops ------------------------------------------------------------------------------------------


def _loop(
    k: BlockScope,
    bounds: tuple[Index, Index, Index],
    inside: Block,
    inits: Sequence[SSAValue],
    body: Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]],
) -> Sequence[SSAValue]:
    """A loop that carries where the role stands in the rings that it turns inside."""
    words = k.words
    turns = [k.turns[channel] for channel in _channels(inside)]
    states = [turn.carried(words) for turn in turns]
    count = sum(map(len, states))

    def resume(values: Sequence[SSAValue]) -> None:
        start = 0
        for turn, state in zip(turns, states, strict=True):
            turn.resume(values[start : start + len(state)])
            start += len(state)

    def trip(i: Index, *carried: SSAValue) -> Sequence[SSAValue]:
        resume(carried[:count])
        results = body(i, carried[count:])
        return [*(x for turn in turns for x in turn.carried(words)), *results]

    begin = [x for state in states for x in state]
    found = k.b.loop(*bounds, trip, [*begin, *inits], NOT_UNROLLED)
    resume(found[:count])
    return found[count:]


def _channels(block: Block) -> list[SSAValue]:
    """The channels of which a region has places or waits for its turn, each once."""
    used = (x.channel for x in block.walk() if isinstance(x, PutOp | GetOp | TurnOp | ReleaseOp))
    return list(dict.fromkeys(used))


def _for(k: BlockScope, op: ForOp) -> None:
    (loop, *more), block = op.loops, op.body.block
    if more or op.deal is not None or loop.sized:
        raise MlcError(f"tiles to GPU: {op.name}: expected one axis, neither dealt nor sized")
    extent = k.s.least(loop.extent.data, op.positions)

    count, kinds = len(op.carried), _kept(block)

    def body(i: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        k.s.indices[op.indices[0]] = i
        _resume(k, op.carried, carried[:count])
        _keep(k, op.carried, kinds, carried[count:])
        lower_block(k, block)
        values = yielded(block)
        return [*_whole(k, values), *(k.kept[values[n]] for n in kinds)]

    begin = [k.kept[x] if (x := op.inits[n]) in k.kept else k.nothing(kinds[n]) for n in kinds]
    found = _loop(k, (0, extent, loop.step), block, [*_whole(k, op.inits), *begin], body)
    _resume(k, op.outs, found[:count])
    _keep(k, op.outs, kinds, found[count:])


def _kept(block: Block) -> dict[int, FragType]:
    """Of what a loop yields the products that read registers, which no other value may have."""
    found: dict[int, FragType] = {}
    for number, x in enumerate(yielded(block)):
        if isinstance(dot := x.owner, DotStartOp) and isinstance(dot.lhs.type, FragType):
            found[number] = dot.lhs.type
    return found


def _keep(
    k: BlockScope, tokens: Sequence[SSAValue], kinds: Iterable[int], vectors: Sequence[SSAValue]
) -> None:
    """Products that are not done have these registers."""
    for number, vector in zip(kinds, vectors, strict=True):
        k.kept[tokens[number]] = vector


def _whole(k: BlockScope, values: Sequence[SSAValue]) -> list[SSAValue]:
    """Tokens and tiles as a vector each."""
    return [k.tokens[x] if x in k.tokens else joined(k.b, k.pairs[x]) for x in values]


def _resume(k: BlockScope, values: Sequence[SSAValue], vectors: Sequence[SSAValue]) -> None:
    """What `_whole` gave is what these values stand for."""
    for x, found in zip(values, vectors, strict=True):
        if isinstance(x.type, TokenType):
            k.tokens[x] = found
        else:
            k.pairs[x] = split(k.b, found)


def items_of(s: TileScope, op: WorkOp) -> list[Index]:
    """Tiles along each axis; along the first one, in roles, as many as a cluster has at once."""
    steps = [step.value.data for step in op.steps]
    if op.threads is None:
        steps[0] *= op.blocks
    sizes = (s.least(extent.data, ()) for extent in op.extents)
    return [s.b.ceil_div(size, step) for size, step in zip(sizes, steps, strict=True)]


def parts_of(s: TileScope, op: WorkOp, items: Index) -> Parts:
    """How clusters of blocks share items."""
    assert op.depth is not None
    return op.parts(s.b, items, s.least(op.depth.data, ()), op.sharing // op.blocks)


def _work(k: BlockScope, op: WorkOp) -> None:
    """This block's items: each after as many as there are blocks, two at a time, or in parts."""
    b, block = k.b, op.body.block
    assert isinstance(b, GpuBuilder)
    counts = items_of(k.s, op)
    total, number, blocks = b.product(counts), b.block_number(), b.grid_size()
    number, blocks = b.div(number, op.blocks), b.div(blocks, op.blocks)

    axes = len(op.before)
    parts = None if op.part is None else parts_of(k.s, op, total)

    def body(item: Index, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if op.paired is not None:
            item = one_of_pair(b, item, number, blocks)
        if parts is not None and op.part is not None:
            k.piece = parts, (piece := parts.part(item, number))
            item, ends = piece.item, (piece.first, piece.end)
            steps = (b.mul(x, op.step_size) for x in ends)
            k.s.indices.update(zip(op.part, steps, strict=True))
        found = _tile_of(b, item, counts, op.raster.value.data // op.blocks)
        found[0] = b.add(b.mul(found[0], op.blocks), k.words.index(k.threads.rank))
        if op.paired is not None:
            found[-1] = from_both_ends(b, found[-1], counts[-1])
        if op.down is not None:
            found[-1] = b.sub(b.sub(counts[-1], 1), found[-1])
        for x, place, step in zip(op.positions, found, op.steps, strict=True):
            k.s.indices[x] = b.mul(place, step.value.data)
        k.s.indices.update(zip(op.before, carried[:axes], strict=True))
        _resume(k, op.carried, carried[axes:])
        lower_block(k, block)
        here = [b.index(k.s.indices[x]) for x in op.positions[:axes]]
        return [*here, *_whole(k, yielded(block))]

    bounds = (number, total, blocks)
    if op.in_turn is not None:
        bounds = (b.add(number, b.mul(k.turn[0], blocks)), total, b.mul(blocks, k.turn[1]))
    if op.paired is not None:
        bounds = (0, items_of_pairs(b, total, number, blocks), 1)
    if parts is not None:
        bounds = (0, parts.visits(number), 1)
    if _kept(block):
        raise MlcError(f"tiles to GPU: {op.name}: a product of registers goes on after its item")
    pairs = zip(counts, op.steps, strict=True)
    beyond = [b.index(b.mul(n, step.value.data)) for n, step in pairs][:axes]
    left = _loop(k, bounds, block, [*beyond, *_whole(k, op.inits)], body)
    k.s.indices.update(zip(op.last, left[:axes], strict=True))
    _resume(k, op.left, left[axes:])


def items_of_pairs(b: GpuBuilder, total: Index, number: Index, blocks: Index) -> Index:
    """How many items a block has that takes two at a time."""
    each, first = b.mul(blocks, 2), b.mul(number, 2)
    left = b.sub(b.max(total, first), first)
    rounds = b.div(left, each)
    return b.add(b.mul(rounds, 2), b.min(b.sub(left, b.mul(rounds, each)), 2))


def one_of_pair(b: GpuBuilder, visit: Index, number: Index, blocks: Index) -> Index:
    """The item that a block takes at its visit of so many."""
    rounds = b.div(visit, 2)
    pair = b.add(b.mul(rounds, blocks), number)
    return b.add(b.mul(pair, 2), b.sub(visit, b.mul(rounds, 2)))


def from_both_ends(b: GpuBuilder, place: Index, count: Index) -> Index:
    """First, last, second, last but one and so on."""
    begin = b.div(place, 2)
    second = b.sub(place, b.mul(begin, 2))
    return b.add(begin, b.mul(second, b.sub(b.sub(count, 1), b.mul(begin, 2))))


def _tile_of(b: GpuBuilder, item: Index, counts: Sequence[Index], raster: int) -> list[Index]:
    """The tile of an item: groups of so many rows, in which columns are walked together."""
    rows, rest = counts[0], b.product(counts[1:])
    per = b.mul(rest, raster)
    group = b.div(item, per)
    left = b.sub(item, b.mul(group, per))
    first = b.mul(group, raster)
    high = b.min(b.sub(rows, first), raster)
    across = b.div(left, high)
    row = b.add(first, b.sub(left, b.mul(across, high)))
    return [row, *(b.split(across, counts[1:]) if len(counts) > 1 else ())]


def _nothing(k: BlockScope, op: Operation) -> None:
    """What stands before the roles has its place."""


_RULES: dict[type[Operation], Callable[..., None]] = {
    CopyOp: lower_copy,
    DotStartOp: lower_dot_start,
    ReadyOp: lower_ready,
    WaitOp: lower_wait,
    MapOp: lower_map,
    ConvertOp: lower_convert,
    ReduceOp: lower_reduce,
    ExtractOp: lower_extract,
    StoreOp: lower_store,
    ChannelOp: _nothing,
    AllocOp: _nothing,
}
