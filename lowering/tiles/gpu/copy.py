"""Copies between memory and slots, which the copy engine makes."""

from __future__ import annotations

from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import MOST_BOX, BulkLoadOp, BulkStoreOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.expression import letter, letters_in
from mlc.dialects.tile.slots import ATOM_ROWS, ROW_BYTES
from mlc.dialects.tile.types import ViewType, view_of
from mlc.lowering.tiles.gpu.ring import makers_of
from mlc.lowering.tiles.gpu.scope import BlockScope, matrix_of, slot_at

WARP_ROWS = 16
"""Of a group's tile that a warp stores, and that it then has copied."""


def box_of(op: CopyOp) -> tuple[int, ...]:
    """The box in which a copy's memory is described."""
    loads = view_of(op.target).is_slot
    slot = view_of(op.target if loads else op.source)
    high = min(_rows(op), MOST_BOX) if loads else WARP_ROWS
    if makers_of(op) > 1 and not _by_columns(op, slot):
        high = min(high, _rows(op) // makers_of(op))
    row, column = _axes(op)
    box = [1] * len(op.where()[not loads])
    box[row], box[column] = high, ROW_BYTES // slot.dtype.bytes
    return tuple(box)


def _by_columns(op: CopyOp, slot: ViewType) -> bool:
    """Whether the parts that blocks of a cluster copy are columns of the matrix, not rows."""
    _, columns = matrix_of(slot, "a copy to")
    return columns * slot.dtype.bytes % (ROW_BYTES * makers_of(op)) == 0


def _rows(op: CopyOp) -> int:
    """Rows of the matrix that a copy moves."""
    (found,) = op.extents["".join(op.words.result[0])].data
    if found.constant is None:
        raise MlcError(f"tiles to GPU: {op.name}: {found} rows; expected a number")
    return found.constant


def _axes(op: CopyOp) -> tuple[int, int]:
    """The axes of a copy's memory along which rows and columns of its matrix lie."""
    memory = op.where()[not view_of(op.target).is_slot]
    row, column = ("".join(axis) for axis in op.words.result)
    found: list[int] = []
    for c in (row, column):
        axes = [a for a, dim in enumerate(memory) if c in letters_in([dim])]
        moved = (memory[axes[0]] - letter(c)) if len(axes) == 1 else None
        if moved is None or letters_in([moved]):
            raise MlcError(f"tiles to GPU: {op.letters.data!r}: expected one axis along letter {c}")
        found += axes
    if found[1] != len(memory) - 1:
        raise MlcError(
            f"tiles to GPU: {op.letters.data!r}: columns lie along axis {found[1]} of"
            f" {len(memory)}; expected the last"
        )
    return found[0], found[1]


def _check(op: CopyOp, memory: ViewType) -> None:
    (source,), target = op.words.operands, op.words.result
    if op.via is None or op.via.data != "tma":
        raise MlcError(f"tiles to GPU: {op.name}: via {op.via}; expected tma")
    if memory.layout.data or source != target or len(target) != 2:
        raise MlcError(
            f"tiles to GPU: {op.letters.data!r} of {memory}; expected a matrix in row-major memory"
            " whose axes stay as they are"
        )
    slot = view_of(op.target if view_of(op.target).is_slot else op.source)
    sizes = [x.data[0].constant or 0 for c in target if (x := op.extents["".join(c)])]
    rows, columns = matrix_of(slot, "a copy of")
    few = op.part is not None and 0 < sizes[0] < rows and sizes[0] % ATOM_ROWS == 0
    if sizes[1] != columns or (sizes[0] != rows and not few):
        raise MlcError(
            f"tiles to GPU: {op.name}: {' x '.join(map(str, sizes))} elements; expected all of"
            f" {slot}, or as part of it its first rows, a multiple of {ATOM_ROWS}: say their"
            " sizes after over"
        )
    if op.fill is not None and op.fill.value.data:
        raise MlcError(f"tiles to GPU: {op.name}: fill {op.fill}; what lies outside is 0")


def lower_copy(k: BlockScope, op: CopyOp) -> None:
    """Into a slot box by box; out of one, which a group has stored, by the warps that stored it."""
    (_load if view_of(op.target).is_slot else _store)(k, op)


def _load(k: BlockScope, op: CopyOp) -> None:
    """A matrix, or the part of it that this block of a cluster copies for all."""
    words = k.words
    source, target = op.where()
    _check(op, view_of(op.source))
    begin = k.begin(source, op.positions)
    slot = slot_at(k, op.target, k.begin(target, op.positions))
    if slot.full is None:
        raise MlcError(f"tiles to GPU: {op.name}: fills a slot that no mlc_tile.put has given")
    box, (row, column) = box_of(op), _axes(op)
    high, wide = box[row], box[column]
    rows, columns = matrix_of(slot.view, "a copy to")
    moved, address, blocks = _rows(op), slot.address, makers_of(op)
    described = k.map_of(op.source, box)
    if blocks > 1:
        if moved != rows or rows % (blocks * ATOM_ROWS):
            raise MlcError(
                f"tiles to GPU: {op.name}: {moved} of {rows} rows, of {blocks} blocks;"
                f" expected all, a multiple of {ATOM_ROWS} for each"
            )
        if _by_columns(op, slot.view):
            axis, per = column, rows * ROW_BYTES // wide
            part = columns = columns // blocks
        else:
            axis, per = row, ROW_BYTES
            part = moved = moved // blocks
        mine = words.mul(k.threads.rank, part)
        begin[axis] = words.add(begin[axis], mine)
        address = words.add(address, words.mul(mine, per))
    for x in range(0, columns, wide):
        for y in range(0, moved, high):
            place = words.add(address, x // wide * rows * ROW_BYTES + y * ROW_BYTES)
            at = [*begin]
            at[row], at[column] = words.add(begin[row], y), words.add(begin[column], x)
            places = [*map(words.value, at)]
            k.b.add_op(BulkLoadOp.of(described, places, words.value(place), slot.full, blocks))


def _store(k: BlockScope, op: CopyOp) -> None:
    """The rows of a group's slot that this warp has stored."""
    words = k.words
    source, target = op.where()
    _check(op, view_of(op.target))
    at = k.begin(target, op.positions)
    slot = slot_at(k, op.source, k.begin(source, op.positions))
    box, (row, column) = box_of(op), _axes(op)
    high, wide = box[row], box[column]
    rows, columns = matrix_of(slot.view, "a copy of")
    if (rows, columns) != (4 * high, wide):
        raise MlcError(
            f"tiles to GPU: a copy of {slot.view}; expected {4 * high} x {wide} elements"
        )
    place = words.add(slot.address, words.mul(k.threads.warp, high * ROW_BYTES))
    at[row] = words.add(at[row], words.mul(k.threads.warp, high))
    described, places = k.map_of(op.target, box), [*map(words.value, at)]
    k.b.add_op(BulkStoreOp.of(words.value(place), described, places, k.threads.first))
