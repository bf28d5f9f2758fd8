"""What the lowering of one kernel with roles knows of the threads that run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from math import prod
from typing import cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import DenseArrayBase, DenseIntOrFPElementsAttr, i64
from xdsl.ir import Attribute, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import GROUP_THREADS
from mlc.dialects.lanes import element_of, lanes_of, vector_type
from mlc.dialects.tile.expression import letters_in
from mlc.dialects.tile.parts import Part, Parts
from mlc.dialects.tile.slots import ROW_BYTES
from mlc.dialects.tile.types import FragType, ViewType, view_of
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.tiles.gpu.ring import Ring, Slot, Turn
from mlc.lowering.tiles.gpu.words import Word, Words
from mlc.lowering.tiles.scope import TileScope

Map = tuple[SSAValue, tuple[int, ...]]
"""A view of the kernel, and the box in which it is copied."""
PAIR = 2
"""Elements of a row that a thread holds side by side."""


@dataclass
class Threads:
    """Where a thread stands: in the block, in its group of four warps, in its warp."""

    number: Word
    lane: Word
    warp: Word  # of the group; the same in all threads of a warp, as the compiler knows
    group: Word  # of the block, as well
    first: SSAValue  # of its warp
    member: Word  # of its group
    rank: Word = 0  # of the block in its cluster


@dataclass
class BlockScope:
    """One kernel on its way down; a role has `turns` of its own."""

    s: TileScope
    words: Words
    threads: Threads
    maps: dict[Map, SSAValue]
    slots: dict[SSAValue, Slot] = field(default_factory=dict[SSAValue, Slot])
    rings: dict[SSAValue, Ring] = field(default_factory=dict[SSAValue, Ring])
    turns: dict[SSAValue, Turn] = field(default_factory=dict[SSAValue, Turn])
    tokens: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    pairs: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    kept: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Of a token the registers that its product reads."""
    turn: tuple[Index, int] = (0, 1)
    """Of a role which of how many groups this is."""
    piece: tuple[Parts, Part] | None = None
    """Of an item that comes in parts, the one that this block has."""

    @property
    def b(self) -> LoopBuilder:
        """The builder."""
        return self.s.b

    def nothing(self, kind: FragType) -> SSAValue:
        """A thread's part of a tile of zeros."""
        return self.b.element(0, kind.dtype, prod(kind.shape) // GROUP_THREADS)

    def map_of(self, view: SSAValue, box: tuple[int, ...]) -> SSAValue:
        """The kernel's argument that describes a view."""
        return self.maps[view, box]

    def begin(self, dims: Sequence[Dim], values: Sequence[SSAValue]) -> list[Word]:
        """Subscripts of a tile's first element."""
        named = {f".{c}": Position(0) for c in letters_in(dims)}
        atoms = {**self.s.atoms(values), **named}
        return [self.words.of_index(self.s.position(dim, atoms).base) for dim in dims]


def matrix_of(view: ViewType, what: str) -> tuple[int, int]:
    """Rows and columns of a swizzled slot: its last axes."""
    sizes = [dim.constant or 0 for dim in view.shape]
    per_row = ROW_BYTES // view.dtype.bytes
    if view.layout.data != "sw128" or len(sizes) < 2 or sizes[-2] % 8 or sizes[-1] % per_row:
        raise MlcError(
            f"tiles to GPU: {what} {view}; expected a slot sw128 of a multiple of 8 rows and of"
            f" {per_row} columns"
        )
    return sizes[-2], sizes[-1]


def inside(k: BlockScope, slot: Slot, at: Sequence[Word]) -> Slot:
    """
    The matrix of a slot that holds several, or the part of one that begins at a row or a column:
    rows of 128 bytes, and boxes of such rows beside one another.
    """
    words, view = k.words, slot.view
    rows, columns = matrix_of(view, "a part of")
    item, per_row = view.dtype.bytes, ROW_BYTES // view.dtype.bytes
    *outer, row, column = [*at, *[0] * (len(view.shape) - len(at))]
    address, number = slot.address, 0
    for size, place in zip(view.shape, outer, strict=False):
        number = words.add(words.mul(number, size.constant or 0), place)
    address = words.add(address, words.mul(number, rows * columns * item))
    address = words.add(address, words.mul(row, ROW_BYTES))
    if isinstance(column, int):
        if column % per_row:
            raise MlcError(
                f"tiles to GPU: column {column} of {view}; expected a multiple of {per_row}"
            )
        box: Word = column // per_row
    else:
        box = words.shifted(column, per_row.bit_length() - 1)
    address = words.add(address, words.mul(box, rows * ROW_BYTES))
    return Slot(address, view, slot.full)


def slot_at(k: BlockScope, view: SSAValue, at: Sequence[Word]) -> Slot:
    """Where an access to a slot begins."""
    if view not in k.slots:
        raise MlcError(f"tiles to GPU: {view_of(view)}; expected a slot")
    return inside(k, k.slots[view], at)


def split(b: LoopBuilder, whole: SSAValue) -> list[SSAValue]:
    """A vector as pairs."""
    count = lanes_of(whole.type) or 1
    if count == PAIR:
        return [whole]
    return [shuffled(b, whole, whole, (n, n + 1)) for n in range(0, count, PAIR)]


def shuffled(b: LoopBuilder, x: SSAValue, y: SSAValue, lanes: Sequence[int]) -> SSAValue:
    """Lanes of two vectors, those of the second numbered after the first's."""
    return b.value(
        vector.ShuffleOp.create(
            operands=[x, y],
            result_types=[vector_type(element_of(x.type), len(lanes))],
            properties={"mask": DenseArrayBase.from_list(i64, list(lanes))},
        )
    )


def joined(b: LoopBuilder, pairs: Sequence[SSAValue]) -> SSAValue:
    """Pairs as one vector, two halves at a time; one number everywhere at once."""
    if len(set(pairs)) == 1 and _is_splat(pairs[0]):
        return b.splat(b.lane(pairs[0], 0), PAIR * len(pairs))
    count = PAIR * len(pairs)
    parts = [*pairs, *[pairs[-1]] * ((1 << (len(pairs) - 1).bit_length()) - len(pairs))]
    while len(parts) > 1:
        mask = range(2 * (lanes_of(parts[0].type) or 1))
        parts = [shuffled(b, x, y, mask) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    whole = parts[0]
    return whole if lanes_of(whole.type) == count else shuffled(b, whole, whole, range(count))


def _is_splat(value: SSAValue) -> bool:
    """Whether a vector is one number, which is known."""
    if not isinstance(value.owner, arith.ConstantOp):
        return False
    known = cast("Attribute", value.owner.value)
    return isinstance(known, DenseIntOrFPElementsAttr) and known.is_splat()
