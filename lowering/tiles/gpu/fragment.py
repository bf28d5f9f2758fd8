"""Tiles of sums over a group's threads: products, maps, and where their elements go."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32
from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_products import (
    DescriptorOp,
    StoreMatrixOp,
    WgmmaOp,
    WgmmaWaitOp,
    step_depth,
)
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tile.compute import ConvertOp, ExtractOp, ReduceOp
from mlc.dialects.tile.element import EXCESS, MapOp
from mlc.dialects.tile.layout import GROUP_ROWS, LayoutAttr, wgmma_acc
from mlc.dialects.tile.memory import StoreOp, axes_of
from mlc.dialects.tile.pipeline import DotStartOp, ReadyOp, WaitOp
from mlc.dialects.tile.slots import ROW_BYTES
from mlc.dialects.tile.types import FragType, frag_of, view_of
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.element import Lanes
from mlc.lowering.tiles.access import Access, put, run_elements
from mlc.lowering.tiles.gpu.scope import (
    PAIR,
    BlockScope,
    joined,
    matrix_of,
    shuffled,
    slot_at,
    split,
)

_TURNED = {("m", "k"): False, ("k", "m"): True, ("n", "k"): False, ("k", "n"): True}


@dataclass(frozen=True)
class Place:
    """Of a pair, by its number: 8 columns hold a pair of a row and one of the eighth row below."""

    row: int
    column: int


def places(kind: FragType) -> list[Place]:
    """
    Where a thread's pairs lie, from its first one on; MlcError for another layout than sums'. Of a
    number for each row it has one pair: of its row, and of the eighth row below.
    """
    if kind.shape == (GROUP_ROWS,):
        return [Place(0, 0)]
    rows, columns = kind.shape if len(kind.shape) == 2 else (0, 0)
    of_sums = rows == GROUP_ROWS and columns >= 8 and not columns % 8
    layout = kind.layout
    if isinstance(layout, LayoutAttr):  # a map of bits, which knows powers of two
        of_sums = of_sums and not columns & (columns - 1) and layout.data == wgmma_acc(columns)
    if not of_sums:
        raise MlcError(
            f"tiles to GPU: {kind}; expected {GROUP_ROWS} rows and a multiple of 8 columns, laid"
            " out as sums of products"
        )
    return [Place(8 * (p % 2), p // 2 * 8) for p in range(columns // 4)]


def place_of(kind: FragType, row: Index, column: Index) -> tuple[Position, ...]:
    """A pair as subscripts."""
    if len(kind.shape) == 1:
        return (Position(row, 8),)
    return Position(row), Position(column, 1)


def first_place(k: BlockScope) -> tuple[Index, Index]:
    """Row and column of a thread's first pair."""
    words, threads = k.words, k.threads
    row = words.add(words.mul(threads.warp, 16), words.shifted(threads.lane, 2))
    column = k.b.mul(words.index(words.both(threads.lane, 3)), PAIR)  # which pairs divide
    return words.index(row), column


# Products ---------------------------------------------------------------------------------------


def lower_dot_start(k: BlockScope, op: DotStartOp) -> None:
    """One text of steps of 16 along the summed axis."""
    if op.tile.dtype is not F32 or len(op.summed) != 1 or op.words.result != ("m", "n"):
        raise MlcError(f"tiles to GPU: {op.letters.data!r} of {op.tile}; expected sums mn of f32")
    (depth,) = (bound.data for bound in op.summed.values())
    size = depth[0].constant
    places(op.tile)
    each = step_depth(view_of(op.rhs).dtype)
    if size is None or size % each or len(depth) > 1:
        raise MlcError(f"tiles to GPU: a product over {depth[0]}; expected a multiple of {each}")
    factors = [
        _factor(k, op, number, view, dims)
        for number, (view, dims) in enumerate(zip((op.lhs, op.rhs), op.where(), strict=True))
    ]
    lhs, rhs = factors
    product = WgmmaOp.of(
        lhs.value,
        rhs.value,
        None if op.init is None else k.tokens[op.init],
        columns=op.tile.shape[1],
        steps=size // each,
        steps_by=(lhs.step, rhs.step),
        boxes=(lhs.box, rhs.box),
        element=view_of(op.rhs).element,
        turned=(lhs.turned, rhs.turned),
    )
    k.tokens[op.result] = k.b.value(product)
    if isinstance(op.lhs.type, FragType):
        k.kept[op.result] = lhs.value


@dataclass(frozen=True)
class _Factor:
    """A descriptor or registers; bytes from step to step and from box to box, 0: as steps go on."""

    value: SSAValue
    step: int = 0
    box: int = 0
    turned: bool = False  # whether its rows are summed over


def _factor(
    k: BlockScope, op: DotStartOp, number: int, view: SSAValue, dims: Sequence[Dim]
) -> _Factor:
    if isinstance(view.type, FragType):
        places(view.type)
        if number or view.type.dtype.bytes != 2 or tuple(op.words.operands[0]) != ("m", "k"):
            raise MlcError(f"tiles to GPU: {view.type} in {op.letters.data!r}; expected bf16 as mk")
        return _Factor(joined(k.b, k.pairs[view]))
    rows, columns = matrix_of(view_of(view), "a factor")
    word = tuple("".join(axis) for axis in op.words.operands[number])
    turned = _TURNED.get((word[-2], word[-1])) if len(word) == 2 else None
    per_row = ROW_BYTES // view_of(view).dtype.bytes
    depth = next(iter(op.summed.values())).data[0].constant
    if turned is None or (not turned and columns != per_row and columns != depth):
        raise MlcError(
            f"tiles to GPU: factor {''.join(word)} in {view_of(view)}; expected two letters, and"
            f" {per_row} elements along the summed one where it is the last, or all"
        )
    slot = slot_at(k, view, k.begin(dims, op.positions))
    leading = rows * ROW_BYTES if turned else 0
    dtype = view_of(view).dtype
    step = step_depth(dtype) * (ROW_BYTES if turned else dtype.bytes)
    made = DescriptorOp.of(k.words.value(slot.address), leading, 8 * ROW_BYTES)
    box = rows * ROW_BYTES if not turned and columns > per_row else 0
    return _Factor(k.b.value(made), step, box, turned)


def lower_ready(k: BlockScope, op: ReadyOp) -> None:
    """A tile as sums."""
    k.tokens[op.result] = joined(k.b, k.pairs[op.value])


def lower_wait(k: BlockScope, op: WaitOp) -> None:
    """Sums that are there, for all later uses of the token too."""
    pending = op.pending.value.data
    done = k.b.value(WgmmaWaitOp.of(k.tokens[op.token], pending, k.kept.get(op.token)))
    k.tokens[op.token] = done
    if op.value is not None:
        places(frag_of(op.value))
        k.pairs[op.value] = split(k.b, done)


# Elements ---------------------------------------------------------------------------------------


def lower_map(k: BlockScope, op: MapOp) -> None:
    """The region on each pair."""
    s, found = k.s, list[list[SSAValue]]()
    starts = [s.index(d[0], op.positions) if (d := x.data) else 0 for x in op.starts]
    arguments, count = op.body.block.args, len(op.inputs)
    row, column = first_place(k)
    numerics = s.b.numerics
    if EXCESS in op.attributes and numerics == "standard":
        s.b.numerics = "fast"
    kind = frag_of(op.outs[0])
    if starts:
        row, column = s.b.add(row, starts[0]), s.b.add(column, starts[-1])
    for number, place in enumerate(places(kind)):
        at = place_of(kind, s.b.add(row, place.row), s.b.add(column, place.column))
        values = [_operand(k, x, number, place, kind) for x in op.inputs]
        coordinates: dict[SSAValue, Position] = dict(zip(arguments[count:], at, strict=False))
        bound: dict[SSAValue, SSAValue] = dict(zip(arguments, values, strict=False))
        found.append(run_elements(s, s.element_builder(PAIR), op, bound, coordinates))
    s.b.numerics = numerics
    for number, out in enumerate(op.outs):
        k.pairs[out] = [values[number] for values in found]


def _operand(k: BlockScope, x: SSAValue, number: int, place: Place, kind: FragType) -> SSAValue:
    """A pair of an operand; of a number for each row that of the place's row, twice."""
    if len(frag_of(x).shape) == len(kind.shape):
        return k.pairs[x][number]
    return k.b.splat(k.b.lane(k.pairs[x][0], place.row // 8), PAIR)


def lower_convert(k: BlockScope, op: ConvertOp) -> None:
    """Another dtype."""
    source, kind = frag_of(op.value), frag_of(op.result)
    places(kind)
    e = k.s.element_builder(PAIR)
    k.pairs[op.result] = [e.convert(x, source.dtype, kind.dtype) for x in k.pairs[op.value]]


def lower_reduce(k: BlockScope, op: ReduceOp) -> None:
    """Along rows: the pairs of a thread first, then the four threads that have a row together."""
    kind = frag_of(op.inputs[0])
    whole = places(kind)
    if len(op.inputs) != 1 or op.axis.value.data != 1 or len(kind.shape) != 2:
        raise MlcError(f"tiles to GPU: {op.name} of {kind}; expected one value, along rows")
    b, monoid = k.b, MONOIDS[op.monoid.data]
    e, single = (k.s.element_builder(lanes) for lanes in (PAIR, 1))
    assert isinstance(b, GpuBuilder)

    def combine(e: Lanes, x: SSAValue, y: SSAValue) -> SSAValue:
        return monoid.combine(e, kind.dtype, (x,), (y,))[0]

    rows: list[SSAValue] = []
    pairs = k.pairs[op.inputs[0]]
    for row in (0, 8):
        mine = [x for place, x in zip(whole, pairs, strict=True) if place.row == row]
        found = reduce(partial(combine, e), mine)
        one = combine(single, b.lane(found, 0), b.lane(found, 1))
        for distance in (1, 2):
            one = combine(single, one, b.shuffle("xor", one, distance))
        rows.append(one)
    high, low = (b.splat(x, PAIR) for x in rows)
    k.pairs[op.outs[0]] = [shuffled(b, high, low, (0, PAIR))]


def lower_extract(k: BlockScope, op: ExtractOp) -> None:
    """Some columns of all rows."""
    whole = places(frag_of(op.value))
    (top, bottom), (start, stop) = op.parts
    if (top, bottom) != (0, GROUP_ROWS) or start % 8 or stop % 8:
        raise MlcError(f"tiles to GPU: {op.name}: expected all rows, and multiples of 8 columns")
    places(frag_of(op.result))
    k.pairs[op.result] = [
        x for place, x in zip(whole, k.pairs[op.value], strict=True) if start <= place.column < stop
    ]


def lower_store(k: BlockScope, op: StoreOp) -> None:
    """To a slot by matrices of 8 rows, to memory pair by pair."""
    if view_of(op.view).is_slot:
        _store_to_slot(k, op)
        return
    if op.where_ is not None:
        raise MlcError(f"tiles to GPU: {op.name}: conditions are not lowered; expected none")
    kind, axes = frag_of(op.value), axes_of(op.axes, frag_of(op.value))
    sizes = {c: (Dim.const(n),) for c, n in zip(axes, kind.shape, strict=True)}
    access = Access.of(op.view, op.where(), op.positions, sizes)
    row, column = first_place(k)
    atoms, b = k.s.atoms(op.positions), k.b
    if len(kind.shape) == 1:  # the four threads of a row write the same
        for lane in range(PAIR):
            at = {f".{axes[0]}": Position(b.add(row, 8 * lane))}
            put(k.s, access, {**atoms, **at}, 1, b.lane(k.pairs[op.value][0], lane))
        return
    for place, value in zip(places(kind), k.pairs[op.value], strict=True):
        at = (Position(b.add(row, place.row)), Position(b.add(column, place.column), 1))
        letters = {f".{c}": x for c, x in zip(axes, at, strict=True)}
        put(k.s, access, {**atoms, **letters}, PAIR, value)


def _store_to_slot(k: BlockScope, op: StoreOp) -> None:
    """
    The rows of each warp, four matrices of 8 x 8 at a time: thread t says where row t % 16 of the
    block of 16 columns goes, or of the 8 columns behind it.
    """
    kind, words = frag_of(op.value), k.words
    if kind.dtype.bytes != 2:
        raise MlcError(f"tiles to GPU: {kind} to a slot; expected elements of 16 bits")
    places(kind)
    slot = slot_at(k, op.view, k.begin(op.where(), op.positions))
    rows, columns = matrix_of(slot.view, "a store to")
    if (rows, columns) != (GROUP_ROWS, ROW_BYTES // 2) or kind.shape != (rows, columns):
        raise MlcError(f"tiles to GPU: {kind} to {slot.view}; expected 64 x 64 elements each")
    lane, warp = k.threads.lane, k.threads.warp
    eighth = words.both(lane, 7)
    row = words.add(eighth, words.both(lane, 8))
    chunk = words.shifted(words.differ(eighth, words.shifted(lane, 4)), -4)
    base = words.add(slot.address, words.mul(warp, 16 * ROW_BYTES))
    base = words.add(base, words.add(words.mul(row, ROW_BYTES), chunk))
    pairs = k.pairs[op.value]
    for number in range(0, len(pairs), 4):
        at = words.differ(base, number // 4 << 5)
        parts = tuple(pairs[number : number + 4])
        k.b.add_op(StoreMatrixOp.of(words.value(at), parts))
