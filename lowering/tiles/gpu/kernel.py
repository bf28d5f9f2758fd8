"""A tile program as a function of a block's threads, and how the entry starts it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects import gpu, par
from mlc.dialects.dims import product, shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import (
    GROUP_THREADS,
    TENSOR_MAP,
    BarrierFenceOp,
    DynamicSharedOp,
    ElectOp,
    PrefetchMapOp,
    UniformOp,
)
from mlc.dialects.gpu_clusters import CLUSTER_ATTRIBUTE, ClusterBarrierOp
from mlc.dialects.numerics import numerics_of
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.kernel import CallOp, KernelOp, axes_between
from mlc.dialects.tile.memory import AllocOp
from mlc.dialects.tile.pipeline import ChannelOp, JoinOp, RolesOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.slots import OFFSET, SHARED, SLOT_ALIGNMENT, number_of
from mlc.dialects.tile.types import view_of
from mlc.dialects.tile.work import WorkOp
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.gpu.phase import mark_unchanging
from mlc.lowering.loops.arithmetic import INDEX
from mlc.lowering.loops.buffer import Buffer
from mlc.lowering.loops.builder import buffer_type, memory_type
from mlc.lowering.loops.function import NOALIAS, NOTHING, READONLY, Kernel, Scratch
from mlc.lowering.tiles.gpu.control import groups_of, lower_roles
from mlc.lowering.tiles.gpu.copy import box_of
from mlc.lowering.tiles.gpu.ring import Ring, Slot
from mlc.lowering.tiles.gpu.rows import lower_rows
from mlc.lowering.tiles.gpu.scope import BlockScope, Map, Threads
from mlc.lowering.tiles.gpu.words import Words
from mlc.lowering.tiles.kernel import buffer_in, memref_of, named, strides_of, symbols_of
from mlc.lowering.tiles.scope import TileScope


@dataclass(frozen=True)
class BlockKernel:
    """The function, and what its launch takes besides the arguments of a kernel."""

    kernel: Kernel
    maps: tuple[tuple[int, tuple[int, ...]], ...]  # arguments, and the boxes of their maps
    threads: int
    shared_bytes: int
    work: WorkOp
    stays: bool  # whether a block goes on to other items; or else each item has a block
    cleared: tuple[int, ...]  # of the kernel's scratch, what is 0 before


def lower_block_kernel(call: CallOp, op: KernelOp, all_symbols: Sequence[str]) -> BlockKernel:
    """The function of a kernel that walks items; MlcError for another, or strided arguments."""
    roles = [x for x in op.block.ops if isinstance(x, RolesOp)]
    work = next((x for x in op.walk() if isinstance(x, WorkOp)), None)
    rows = work is not None and work.threads is not None and work.parent is op.block
    if work is None or len(roles) != (0 if rows else 1):
        raise MlcError(
            f"tiles to GPU: @{op.sym_name.data} has {len(roles)} mlc_tile.roles at its top;"
            " expected one, whose roles walk mlc_tile.work, or mlc_tile.work of so many threads"
        )
    if any(view_of(x).layout.data for x in op.block.args):
        raise MlcError(f"tiles to GPU: @{op.sym_name.data}: expected row-major arguments")
    used = symbols_of(op)
    symbols = tuple(s for s in all_symbols if s in used)
    maps = _maps(op)
    scratch = scratch_of(op)
    types = _types(op, call, symbols, scratch, len(maps))
    block = Block(arg_types=[kind for kind, _ in types])
    shared = number_of(op, SHARED) or 0
    s = _arguments(op, block, symbols)
    if rows:
        _alone(op, work)
        lower_rows(s, work)
    else:
        described = {key: named(x, "map") for key, x in _described(maps, block)}
        _write(s, op, roles[0], work.blocks, described)
    s.b.add_op(func.ReturnOp.create())
    function = func.FuncOp.create(
        properties={
            "sym_name": StringAttr(op.sym_name.data),
            "function_type": FunctionType.from_lists([kind for kind, _ in types], []),
            "arg_attrs": ArrayAttr([marks for _, marks in types]),
        },
        regions=[Region(block)],
    )
    if rows:
        assert work.threads is not None
        threads = work.threads.value.data
        mark_unchanging(function)
    else:
        threads = GROUP_THREADS * sum(groups_of(roles[0], n) for n in range(len(roles[0].bodies)))
    if work.blocks > 1:
        function.attributes[CLUSTER_ATTRIBUTE] = IntegerAttr(work.blocks, i64)
    function.attributes[gpu.KERNEL_ATTRIBUTE] = IntegerAttr(threads, i64)
    kernel = Kernel(
        op.sym_name.data,
        function,
        symbols,
        strides_of(op, ()),
        tuple(_groups(x, view) for x, view in zip(call.inputs, op.inputs, strict=True)),
        tuple(_groups(x, view) for x, view in zip(call.outs, op.outputs, strict=True)),
        scratch,
        False,
    )
    inputs = len(op.inputs)
    arguments = [*op.block.args[:inputs], *scratch, *op.block.args[inputs:]]
    joins = [x for x in op.walk() if isinstance(x, JoinOp)]
    marks = {x.arrived for x in joins}
    cleared = tuple(n for n, x in enumerate(_team(op)) if x.result in marks)
    passed = tuple((arguments.index(view), box) for view, box in maps)  # pyright: ignore[reportArgumentType]
    return BlockKernel(kernel, passed, threads, shared, work, not rows, cleared)


def scratch_of(op: KernelOp) -> tuple[Scratch, ...]:
    """Memory that all blocks share."""
    views = (view_of(x.result) for x in _team(op))
    return tuple(Scratch(memory_type(x.dtype), product(x.shape)) for x in views)


def _team(op: KernelOp) -> list[AllocOp]:
    return [x for x in op.block.ops if isinstance(x, AllocOp) and x.scope.data == "team"]


def _groups(value: SSAValue, view: SSAValue) -> tuple[tuple[int, ...], ...]:
    found = axes_between(shape_of(value.type), view_of(view).shape)
    assert found is not None
    return found


def _maps(op: KernelOp) -> list[Map]:
    """The descriptions that the kernel's copies need, each once."""
    arguments = set(op.block.args)
    found: dict[Map, None] = {}
    for x in op.walk():
        if isinstance(x, CopyOp):
            memory = x.source if x.source in arguments else x.target
            if memory not in arguments:
                raise MlcError(f"tiles to GPU: {x.name} from slot to slot; expected an argument")
            found[memory, box_of(x)] = None
    return list(found)


def _types(
    op: KernelOp, call: CallOp, symbols: Sequence[str], scratch: Sequence[Scratch], maps: int
) -> list[tuple[Attribute, DictionaryAttr]]:
    shared, inputs = call.shared_inputs, len(op.inputs)
    types: list[tuple[Attribute, DictionaryAttr]] = [(par.CONTEXT, NOTHING)]
    types += [(INDEX, NOTHING)] * len(symbols)
    shares = [(buffer_type(x.element, (x.count.constant or -1,)), NOTHING) for x in scratch]
    for number, x in enumerate(op.block.args):
        if number == inputs:
            types += shares
        writes = number - inputs
        marks = READONLY if writes < 0 else NOALIAS if shared[writes] < 0 else NOTHING
        types.append((memref_of(view_of(x)), marks))
    return types + [(TENSOR_MAP, NOTHING)] * maps


def _arguments(op: KernelOp, block: Block, symbols: Sequence[str]) -> TileScope:
    """Where arguments lie; those of maps are left."""
    b = GpuBuilder(block)
    b.numerics = numerics_of(op)
    given = iter(block.args)
    s = TileScope(b, named(next(given), "ctx"), 1, {})
    for symbol in symbols:
        b.symbols[symbol] = named(next(given), symbol)
    team = [x.result for x in _team(op)]
    for x in (*op.inputs, *team, *op.outputs):
        buffer = buffer_in(b, named(next(given), x.name_hint), view_of(x))
        s.memory[x] = buffer
        b.strides[buffer.memref] = buffer.strides[-1:] if x in team else buffer.strides
    b.unchanging = frozenset(
        buffer.memref for x in op.inputs if isinstance(buffer := s.memory[x], Buffer)
    )
    return s


def _described(maps: Sequence[Map], block: Block) -> Iterator[tuple[Map, SSAValue]]:
    """The last arguments, by what they describe."""
    yield from zip(maps, block.args[len(block.args) - len(maps) :], strict=True)


def _write(
    s: TileScope, op: KernelOp, roles: RolesOp, blocks: int, described: dict[Map, SSAValue]
) -> None:
    """The body of a kernel with roles, of a cluster of so many blocks: places, barriers, roles."""
    b = s.b
    assert isinstance(b, GpuBuilder)
    words = Words(b)
    k = BlockScope(s, words, _threads(b, words, blocks), described)
    _prepare(k, op)
    if blocks > 1:  # nobody fills what another one has not made yet
        b.add_op(ClusterBarrierOp.create())
    lower_roles(k, roles)
    _alone(op, roles)


def _threads(b: GpuBuilder, words: Words, blocks: int) -> Threads:
    number = words.of_index(b.thread())
    warp = b.value(UniformOp.of(words.value(words.shifted(number, 5))))
    lane = words.both(number, 31)
    return Threads(
        number,
        lane,
        words.both(warp, 3),
        words.shifted(warp, 2),
        words.equal(lane, 0),
        words.both(number, GROUP_THREADS - 1),
        words.of_index(b.rem(b.block_number(), blocks)) if blocks > 1 else 0,
    )


def _prepare(k: BlockScope, op: KernelOp) -> None:
    """Where slots lie; one thread makes the barriers, for which all wait."""
    b, words = k.b, k.words
    assert isinstance(b, GpuBuilder)
    base = words.add(b.value(DynamicSharedOp.of()), SLOT_ALIGNMENT - 1)
    shared = words.both(base, -SLOT_ALIGNMENT)
    for x in op.block.ops:
        if isinstance(x, ChannelOp):
            k.rings[x.result] = Ring.of(x, shared, words)
        elif isinstance(x, AllocOp) and x.scope.data == "worker":
            offset = number_of(x, OFFSET)
            if offset is None:
                raise MlcError("tiles to GPU: scratch has no place: run mlc-place-slots first")
            k.slots[x.result] = Slot(words.add(shared, offset), view_of(x.result))

    def init() -> None:
        for described in k.maps.values():
            b.add_op(PrefetchMapOp.of(described))
        for ring in k.rings.values():
            ring.init(words)
        b.add_op(BarrierFenceOp.create())

    def elected() -> None:
        b.when(b.value(ElectOp.of()), init)

    b.when(
        words.both_hold(words.equal(k.threads.group, 0), words.equal(k.threads.warp, 0)), elected
    )
    b.barrier()


def _alone(op: KernelOp, body: RolesOp | WorkOp) -> None:
    """MlcError where something else runs."""
    for x in op.block.ops:
        if x is not body and not isinstance(x, ChannelOp | AllocOp | YieldOp):
            raise MlcError(
                f"tiles to GPU: {x.name} beside {body.name}; expected channels and slots"
            )
