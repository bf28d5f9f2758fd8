"""How slots lie in the shared memory of a block, and the attributes that say where."""

from __future__ import annotations

import math

from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.pipeline import ChannelOp, ChannelType
from mlc.dialects.tile.types import ViewType, view_of

SLOT_ALIGNMENT = 1024
"""Bytes after which the pattern of swizzled rows begins anew. SOURCE: PTX ISA, wgmma"""
ROW_BYTES = 128
"""Of a swizzled slot: longer rows are cut into boxes of so many bytes, one behind the other."""
ATOM_ROWS = SLOT_ALIGNMENT // ROW_BYTES
"""Rows after which a swizzled slot's pattern begins anew: copies of fewer rows fill so many."""
RING_BARRIERS_BYTES = 16
"""Of a place of a ring: one barrier says that it is full, the next that it is free."""
OFFSET, BARRIERS, SHARED = "offset", "barriers", "shared_bytes"
"""Attributes: of slots and rings, of a ring's barriers, of a kernel."""


def tile_bytes(view: ViewType) -> int:
    """Of a slot's elements."""
    return math.prod(dim.constant or 0 for dim in view.shape) * view.dtype.bytes


def filled_elements(slot: SSAValue) -> int:
    """Of a slot that a put has given, those that are copied there until it is full."""
    for copy in (use.operation for use in slot.uses):
        if isinstance(copy, CopyOp) and copy.part is not None:
            return math.prod(x.data[0].constant or 0 for x in copy.extents.values())
    return math.prod(dim.constant or 0 for dim in view_of(slot).shape)


def slot_bytes(view: ViewType) -> int:
    """Of a slot, to where the next one may begin."""
    return -(-tile_bytes(view) // SLOT_ALIGNMENT) * SLOT_ALIGNMENT


def place_bytes(channel: ChannelType) -> int:
    """Of all slots of one place of a ring."""
    return sum(slot_bytes(slot) for slot in channel.slots)


def kind_of(channel: ChannelOp) -> ChannelType:
    """What a ring is made of."""
    assert isinstance(channel.result.type, ChannelType)
    return channel.result.type


def number_of(op: Operation, name: str) -> int | None:
    """One of the attributes that `mlc-place-slots` gives."""
    found = op.attributes.get(name)
    return found.value.data if isinstance(found, IntegerAttr) else None
