"""A tile program as a function of loops: its arguments, its scratch, and what holds it together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects import par, vec
from mlc.dialects.dims import Dim, Shape, product, shape_of
from mlc.dialects.dot import TileType
from mlc.dialects.numerics import numerics_of
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.target.intrinsics import BF16_DOT, rows_of
from mlc.dialects.tile.bounds import multiple
from mlc.dialects.tile.control import NO_UNROLL, BarrierOp, ForOp, IfOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp
from mlc.dialects.tile.expression import Positions
from mlc.dialects.tile.kernel import CallOp, CaseOp, KernelOp, axes_between, called
from mlc.dialects.tile.memory import AllocOp, FillOp, PrefetchOp
from mlc.dialects.tile.region import YieldOp, yielded
from mlc.dialects.tile.types import FragType, ViewType, frag_of, view_of
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.builder import LoopBuilder, buffer_type, memory_type, static
from mlc.lowering.loops.function import NOALIAS, NOTHING, ONE, READONLY, Kernel, Scratch, Strides
from mlc.lowering.tiles import team
from mlc.lowering.tiles.access import Access, put
from mlc.lowering.tiles.compute import lower_fragment, lower_prefetch
from mlc.lowering.tiles.folds import folds_of, lower_fold, states_of
from mlc.lowering.tiles.fragment import Fragment
from mlc.lowering.tiles.groups import lower_copy
from mlc.lowering.tiles.scope import TileScope
from mlc.lowering.tiles.tile_registers import begins_products, in_tiles, places, registers

MANY = Dim.const(1 << 16)
"""More workers than there are: each has memory of its own."""


def scratch_of(kernel: KernelOp) -> tuple[Scratch, ...]:
    """The memory of a kernel's allocs and of its folds' states, in order."""
    own = [
        (view_of(op.result), MANY if op.scope.data == "worker" and kernel.is_dealt else ONE)
        for op in allocs_of(kernel)
    ]
    states = [(view, ONE) for op in folds_of(kernel) for view in states_of(op)]
    return tuple(
        Scratch(memory_type(view.dtype), product(view.shape), copies)
        for view, copies in own + states
    )


def allocs_of(kernel: KernelOp) -> list[AllocOp]:
    """A kernel's allocs, in order."""
    return [op for op in kernel.walk() if isinstance(op, AllocOp)]


def symbols_of(kernel: KernelOp) -> set[str]:
    """The sizes that a kernel's arguments have: whatever it says stands on these."""
    views = [view_of(x) for x in kernel.block.args]
    return {name for view in views for dim in view.shape for name in dim.symbols()}


def lower_called(call: CallOp, all_symbols: Sequence[str], module: ModuleOp) -> Kernel:
    """The function of the kernel that is called, and what its caller passes."""
    op = called(call)
    assert op is not None
    target = cpu_of(module, "tiles to loops")
    shared = call.shared_inputs

    def groups(value: SSAValue, view: SSAValue) -> tuple[tuple[int, ...], ...]:
        found = axes_between(shape_of(value.type), view_of(view).shape)
        assert found is not None
        return found

    used = symbols_of(op)
    symbols = tuple(s for s in all_symbols if s in used)
    arguments = op.block.args
    strided = [k for k, x in enumerate(arguments) if view_of(x).layout.data]
    inputs = len(op.inputs)
    scratch = scratch_of(op)
    types: list[tuple[Attribute, DictionaryAttr]] = [(par.CONTEXT, NOTHING)]
    types += [(INDEX, NOTHING)] * (
        2 * op.is_dealt + len(symbols) + sum(len(view_of(arguments[k]).shape) for k in strided)
    )
    views: list[tuple[Attribute, DictionaryAttr]] = []
    for k, x in enumerate(arguments):
        marks = READONLY if k < inputs else NOALIAS if shared[k - inputs] < 0 else NOTHING
        views.append((memref_of(view_of(x)), marks))
    types += views[:inputs]
    for buffer in scratch:
        count = buffer.count.constant if buffer.copies == Dim.const(1) else None
        types.append((buffer_type(buffer.element, (-1 if count is None else count,)), NOALIAS))
    types += views[inputs:]
    block = Block(arg_types=[kind for kind, _ in types])
    b = LoopBuilder(block)
    b.numerics = numerics_of(op)
    s = _scope(op, b, block, symbols, strided, target)
    b.unchanging = frozenset(
        buffer.memref
        for k, x in enumerate(op.inputs)
        if k not in shared and isinstance(buffer := s.memory[x], Buffer)
    )
    _body(s, op)
    b.add_op(func.ReturnOp.create())
    function = func.FuncOp.create(
        properties={
            "sym_name": StringAttr(op.sym_name.data),
            "function_type": FunctionType.from_lists([kind for kind, _ in types], []),
            "arg_attrs": ArrayAttr([marks for _, marks in types]),
        },
        regions=[Region(block)],
    )
    strides = strides_of(op, strided)
    return Kernel(
        op.sym_name.data,
        function,
        symbols,
        strides,
        tuple(groups(x, view) for x, view in zip(call.inputs, op.inputs, strict=True)),
        tuple(groups(x, view) for x, view in zip(call.outs, op.outputs, strict=True)),
        scratch,
        op.is_dealt,
    )


def strides_of(op: KernelOp, strided: Sequence[int]) -> Strides:
    """Of the arguments that are not row-major, which are inputs."""
    inputs, arguments = len(op.inputs), op.block.args
    return Strides(
        tuple(k for k in strided if k < inputs),
        tuple(k - inputs for k in strided if k >= inputs),
        tuple(k for k in strided if k < inputs and view_of(arguments[k]).layout.data == "rows"),
    )


def memref_of(view: ViewType) -> Attribute:
    """What an argument is."""
    sizes = tuple(-1 if d.constant is None else d.constant for d in view.shape)
    layout = view.layout.data
    return buffer_type(memory_type(view.dtype), sizes, bool(layout), layout == "rows")


def _scope(
    op: KernelOp,
    b: LoopBuilder,
    block: Block,
    symbols: Sequence[str],
    strided: Sequence[int],
    target: CpuTarget,
) -> TileScope:
    """What the function's arguments are."""
    given = iter(block.args)
    context = named(next(given), "ctx")
    worker: Index = named(next(given), "worker") if op.is_dealt else 0
    workers: Index = named(next(given), "workers") if op.is_dealt else 1
    for symbol in symbols:
        b.symbols[symbol] = named(next(given), symbol)
    arguments = op.block.args
    strides: dict[int, tuple[Index, ...]] = {}
    for k in strided:
        values = tuple(next(given) for _ in view_of(arguments[k]).shape)
        dense = view_of(arguments[k]).layout.data == "rows"
        strides[k] = (*values[:-1], 1) if dense else values
    widest = max(
        (_bytes(x.type) for inner in op.walk() for x in inner.results if _bytes(x.type)), default=4
    )
    threads = b.min(workers, b.max(b.dim(op.loads), 1)) if op.is_dealt else 1
    lanes, bits = target.lanes(8 * widest), target.vector_bits
    rounds = any(row.name == BF16_DOT for row in rows_of(target))
    s = TileScope(b, context, lanes, {}, worker, threads, workers, bits, rounds)
    inputs = len(op.inputs)
    for k, x in enumerate(op.inputs):
        s.memory[x] = buffer_in(b, named(next(given), x.name_hint), view_of(x), strides.get(k))
    for alloc in allocs_of(op):
        s.memory[alloc.result] = buffer_in(b, named(next(given), "scratch"), view_of(alloc.result))
    for loop in folds_of(op):
        s.states[loop] = [_state(b, named(next(given), "states"), x) for x in states_of(loop)]
    for k, x in enumerate(op.outputs):
        memref = named(next(given), x.name_hint or "out")
        s.memory[x] = buffer_in(b, memref, view_of(x), strides.get(inputs + k))
    return s


def _bytes(kind: Attribute) -> int:
    return kind.dtype.bytes if isinstance(kind, FragType) else 0


def buffer_in(
    b: LoopBuilder, memref: SSAValue, view: ViewType, strides: tuple[Index, ...] | None = None
) -> Buffer:
    """A view in memory; strides where it is not row-major."""
    shape: Shape = view.shape
    if strides is None:
        strides = tuple(b.dim(product(shape[k + 1 :])) for k in range(len(shape)))
    sizes = tuple(b.dim(d) for d in shape)
    return Buffer(memref, view.dtype, tuple((k,) for k in range(len(shape))), sizes, strides)


def _state(b: LoopBuilder, memref: SSAValue, view: ViewType) -> Buffer:
    whole = buffer_in(b, memref, view)
    return replace(whole, memref=b.view(memref, whole.sizes))


def named(value: SSAValue, name: str | None) -> SSAValue:
    """A value with a name for whoever reads."""
    value.name_hint = name
    return value


# structure --------------------------------------------------------------------------------------


def _body(s: TileScope, op: KernelOp) -> None:
    """The kernel, by the workers of a team."""
    for alloc in allocs_of(op):
        _place(s, alloc)
    _block(s, op.block)


def _place(s: TileScope, op: AllocOp) -> None:
    """The shape of scratch; of memory of the workers, each one's own."""
    b, view = s.b, view_of(op.result)
    buffer = s.memory[op.result]
    assert isinstance(buffer, Buffer)
    base = buffer.memref
    if op.scope.data == "worker":
        count = b.dim(product(view.shape))
        sizes = [] if isinstance(count, int) else [count]
        kind = buffer_type(memory_type(view.dtype), (static(count),))
        at = b.index(b.mul(s.thread, count))
        base = b.value(par.ShiftOp.of(base, at, sizes, kind))
    base = b.view(base, buffer.sizes)
    s.memory[op.result] = Buffer(base, buffer.dtype, buffer.groups, buffer.sizes, buffer.strides)


def _block(s: TileScope, block: Block) -> None:
    outer, s.home = s.home, s.b.block
    for op in block.ops:
        match op:
            case ForOp():
                _for(s, op)
            case IfOp():
                _if(s, op)
            case CaseOp():
                _case(s, op)
            case BarrierOp():
                team.barrier(s.b, s.context, s.thread, s.threads, s.workers)
            case FillOp():
                _fill(s, op)
            case CopyOp():
                lower_copy(s, op)
            case ElementsOp():
                s.memory[op.result] = op
            case PrefetchOp():
                _prefetch(s, op)
            case AllocOp() | YieldOp():
                continue
            case _:
                lower_fragment(s, op)
    s.home = outer


def _prefetch(s: TileScope, op: PrefetchOp) -> None:
    buffer = s.memory[op.view]
    if op.tile is not None:
        lower_prefetch(s, op, op.tile)
    elif isinstance(buffer, Buffer):  # what is computed is not in memory
        at = op.at.data + (Dim.const(0),) * (len(buffer.sizes) - len(op.at.data))
        indices = [s.b.index(s.index(dim, op.positions)) for dim in at]
        s.b.add_op(vec.PrefetchOp.of(buffer.memref, indices))


def _case(s: TileScope, op: CaseOp) -> None:
    def arm(k: int) -> None:
        body = partial(_block, s, op.bodies[k].block)
        if k == len(op.conditions):
            body()
            return
        s.b.when(s.holds(op.conditions.data[k], ()), body, partial(arm, k + 1))

    arm(0)


def _if(s: TileScope, op: IfOp) -> None:
    condition = s.holds(op.conditions, op.positions)
    if not op.outs:
        otherwise = partial(_block, s, op.otherwise.block) if op.otherwise.blocks else None
        s.b.when(condition, partial(_block, s, op.then.block), otherwise)
        return

    kinds = [begins_products(x) for x in op.outs]

    def arm(block: Block) -> list[SSAValue]:
        _block(s, block)
        found: list[SSAValue] = []
        for value, kind in zip(yielded(block), kinds, strict=True):
            fragment = s.fragments[value]
            found += fragment.all() if kind is None else registers(s, fragment, kind)
        return found

    if isinstance(condition, bool):
        block = op.then.block if condition else op.otherwise.block
        found: Sequence[SSAValue] = arm(block)
    else:
        found = s.b.pick_all(condition, lambda: arm(op.then.block), lambda: arm(op.otherwise.block))
    _bind(s, op.outs, found, kinds)


def _bind(
    s: TileScope,
    results: Sequence[SSAValue],
    vectors: Sequence[SSAValue],
    held_in: Sequence[TileType | None] = (),
) -> None:
    """The fragments that some vectors are, or some tile registers, one behind the other."""
    start = 0
    for k, x in enumerate(results):
        kind = frag_of(x)
        tile = held_in[k] if held_in else None
        if tile is not None:
            end = start + len(places(kind.shape, tile))
            s.fragments[x] = in_tiles(s, kind, tile, vectors[start:end])
            start = end
            continue
        lanes = s.lanes_of(kind)
        count = sum(1 for _ in Fragment.of(kind.shape, lanes, ()).rows)
        count *= kind.shape[-1] // lanes if kind.shape else 1
        s.fragments[x] = Fragment.of(kind.shape, lanes, vectors[start : start + count])
        start += count


def _for(s: TileScope, op: ForOp) -> None:
    if op.deal is not None:
        _dealt(s, op)
        return
    extents = [s.least(loop.extent.data, op.positions) for loop in op.loops]
    inits = [x for value in op.inits for x in s.fragments[value].all()]
    marks = {name: x for name, x in op.attributes.items() if name == NO_UNROLL}

    def nest(k: int, at: list[Index], carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        if k == len(extents):
            return _trip(s, op, at, extents, carried)
        end = extents[k] if op.once is None else s.b.max(extents[k], 1)
        return s.b.loop(
            0, end, op.loops[k].step, lambda i, *c: nest(k + 1, [*at, i], c), carried, marks
        )

    _bind(s, op.outs, nest(0, [], inits))


def _trip(
    s: TileScope,
    op: ForOp,
    at: Sequence[Index],
    ends: Sequence[Index],
    carried: Sequence[SSAValue] = (),
) -> list[SSAValue]:
    """One trip, at positions of axes that end there; what it carries on."""
    b = s.b
    for i, last, index, size, loop in zip(at, ends, op.indices, op.sizes, op.loops, strict=True):
        s.indices[index] = i
        if any(isinstance(u.operation, IfOp) for u in index.uses):
            end = s.least(loop.extent.data, op.positions)
            s.ends[index] = b.compare("ge", b.add(i, loop.step), end)
        if size is not None:
            even = (
                (op.deal is None or op.deal.data.unit is None)
                and op.once is None
                and all(
                    multiple(n, Positions(op.positions)) % loop.step == 0 for n in loop.extent.data
                )
            )
            s.indices[size] = loop.step if even else b.min(b.sub(last, i), loop.step)
    _bind(s, op.carried, carried)
    _block(s, op.body.block)
    return [x for value in yielded(op.body.block) for x in s.fragments[value].all()]


def _dealt(s: TileScope, op: ForOp) -> None:
    """A worker's trips of a loop whose trips the team shares."""
    assert op.deal is not None
    b, deal = s.b, op.deal.data
    extents = [s.least(loop.extent.data, op.positions) for loop in op.loops]
    unit = None if op.inits else deal.unit
    cuts = [unit or loop.step for loop in op.loops]
    counts = [b.ceil_div(n, cut) for n, cut in zip(extents, cuts, strict=True)]
    total = b.product(counts)
    shared: SSAValue | bool = True
    if deal.when is not None:
        shared = s.holds(deal.when, op.positions)
    polls, s.polls = s.polls, False

    def at_trip(t: Index) -> list[Index]:
        at: list[Index] = []
        for count, cut in zip(reversed(counts[1:]), reversed(cuts[1:]), strict=True):
            quotient = b.div(t, count)
            at.insert(0, b.mul(b.sub(t, b.mul(quotient, count)), cut))
            t = quotient
        return [b.mul(t, cuts[0]), *at]

    if op.inits:
        found = lower_fold(
            s, op, total, shared, lambda t, carried: _trip(s, op, at_trip(t), extents, carried)
        )
        _bind(s, op.outs, found)
        s.polls = polls
        return
    ends: Sequence[Index] = extents

    def polled(t: Index) -> None:
        run = partial(_trip, s, op, at_trip(t), ends)
        if polls:
            team.unless_cancelled(b, s.context, run)
        else:
            run()

    if deal.scope == "dynamic":
        b.take(s.context, total, s.thread, s.threads, polled)
        s.polls = polls
        return
    low, high = team.share(b, total, s.thread, s.threads)
    low, high = b.choose(shared, low, 0), b.choose(shared, high, total)
    if len(cuts) == 1:
        ends = [b.min(b.mul(high, cuts[0]), extents[0])]
    step = op.loops[0].step // cuts[0] if len(cuts) == 1 else 1
    b.loop(low, high, step, polled)
    s.polls = polls


def _fill(s: TileScope, op: FillOp) -> None:
    """Vectors along the last axis, of which the last one ends where a row does."""
    b, view = s.b, view_of(op.view)
    at = tuple(Dim.symbol(f"x{k}") for k in range(len(view.shape)))
    access = Access(op.view, at, ())
    size = b.dim(view.shape[-1]) if at else 1
    lanes = s.widest if isinstance(size, int) and size >= s.widest else 1
    value = b.element(op.number.value.data, view.dtype, lanes)

    def row(atoms: dict[str, Position]) -> None:
        def vector(i: Index) -> None:
            place = Position(i, 1) if lanes > 1 else Position(i)
            put(s, access, {**atoms, f"x{len(at) - 1}": place}, lanes, value)

        rest = size % lanes if isinstance(size, int) else 0
        b.loop(0, b.sub(size, rest), lanes, vector)
        if rest:
            vector(b.sub(size, lanes))

    def nest(k: int, atoms: dict[str, Position]) -> None:
        if k >= len(at) - 1:
            row(atoms)
            return
        high = b.dim(view.shape[k])
        b.loop(0, high, 1, lambda i: nest(k + 1, {**atoms, f"x{k}": Position(i)}))

    nest(0, {})
