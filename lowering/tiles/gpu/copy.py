"""Copies between memory and slots, which the copy engine makes."""

from __future__ import annotations

from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import MOST_BOX, BulkLoadOp, BulkStoreOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.slots import ROW_BYTES
from mlc.dialects.tile.types import ViewType, view_of
from mlc.lowering.tiles.gpu.scope import BlockScope, matrix_of, slot_at

WARP_ROWS = 16
"""Of a group's tile that a warp stores, and that it then has copied."""


def box_of(op: CopyOp) -> tuple[int, int]:
    """The box in which a copy's memory is described."""
    loads = view_of(op.target).is_slot
    slot = view_of(op.target if loads else op.source)
    rows, _ = matrix_of(slot, "a copy of")
    return (min(rows, MOST_BOX) if loads else WARP_ROWS), ROW_BYTES // slot.dtype.bytes


def _check(op: CopyOp, memory: ViewType) -> None:
    (source,), target = op.words.operands, op.words.result
    if op.via is None or op.via.data != "tma":
        raise MlcError(f"tiles to GPU: {op.name}: via {op.via}; expected tma")
    if len(memory.shape) != 2 or memory.layout.data or source != target or len(target) != 2:
        raise MlcError(
            f"tiles to GPU: {op.letters.data!r} of {memory}; expected a row-major matrix whose axes"
            " stay as they are"
        )
    slot = view_of(op.target if view_of(op.target).is_slot else op.source)
    sizes = [x.data[0].constant for c in target if (x := op.extents["".join(c)])]
    if tuple(sizes) != matrix_of(slot, "a copy of"):
        raise MlcError(
            f"tiles to GPU: {op.name}: {' x '.join(map(str, sizes))} elements; expected all of"
            f" {slot}: say their sizes after over"
        )
    if op.fill is not None and op.fill.value.data:
        raise MlcError(f"tiles to GPU: {op.name}: fill {op.fill}; what lies outside is 0")


def lower_copy(k: BlockScope, op: CopyOp) -> None:
    """Into a slot box by box; out of one, which a group has stored, by the warps that stored it."""
    words = k.words
    source, target = op.where()
    if view_of(op.target).is_slot:
        _check(op, view_of(op.source))
        row, column = k.begin(source, op.positions)
        slot = slot_at(k, op.target, k.begin(target, op.positions))
        if slot.full is None:
            raise MlcError(f"tiles to GPU: {op.name}: fills a slot that no mlc_tile.put has given")
        high, wide = box_of(op)
        rows, columns = matrix_of(slot.view, "a copy to")
        described = k.map_of(op.source, (high, wide))
        for x in range(0, columns, wide):
            for y in range(0, rows, high):
                place = words.add(slot.address, x // wide * rows * ROW_BYTES + y * ROW_BYTES)
                at = words.value(words.add(row, y)), words.value(words.add(column, x))
                k.b.add_op(BulkLoadOp.of(described, at, words.value(place), slot.full))
        return
    _check(op, view_of(op.target))
    row, column = k.begin(target, op.positions)
    slot = slot_at(k, op.source, k.begin(source, op.positions))
    high, wide = box_of(op)
    rows, columns = matrix_of(slot.view, "a copy of")
    if (rows, columns) != (4 * high, wide):
        raise MlcError(
            f"tiles to GPU: a copy of {slot.view}; expected {4 * high} x {wide} elements"
        )
    place = words.add(slot.address, words.mul(k.threads.warp, high * ROW_BYTES))
    mine = words.add(row, words.mul(k.threads.warp, high))
    described = k.map_of(op.target, (high, wide))
    at = words.value(mine), words.value(column)
    k.b.add_op(BulkStoreOp.of(words.value(place), described, at, k.threads.first))
