"""
Pass `mlc-place-slots`: where in a block's shared memory the rings and slots of a kernel lie, and
the barriers of its rings.

```
channel : <4 x [128x64xbf16, 256x64xbf16]>  ->  channel {offset = 0, barriers = 229376}
alloc worker : <2x2x64x64xbf16, sw128>      ->  alloc worker {offset = 196608}
kernel @k                                   ->  kernel @k attributes {shared_bytes = 230464}
```
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mlc.dialects.errors import PlanError
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import gpu_of
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import AllocOp
from mlc.dialects.tile.pipeline import ChannelOp
from mlc.dialects.tile.slots import (
    BARRIERS,
    OFFSET,
    RING_BARRIERS_BYTES,
    SHARED,
    SLOT_ALIGNMENT,
    kind_of,
    place_bytes,
    slot_bytes,
)
from mlc.dialects.tile.turns import takers_of
from mlc.dialects.tile.types import view_of


class PlaceSlotsPass(ModulePass):
    """Gives every slot its offset; PlanError where a block does not have so much memory."""

    name = "mlc-place-slots"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = gpu_of(op, self.name)
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                place_slots(kernel, target)


def place_slots(kernel: KernelOp, target: GpuTarget) -> None:
    """One kernel: slots first, then barriers; a block begins anywhere, slots at a multiple."""
    total = 0
    rings = [op for op in kernel.walk() if isinstance(op, ChannelOp)]
    for op in kernel.walk():
        if isinstance(op, ChannelOp):
            kind = kind_of(op)
            _set(op, OFFSET, total)
            total += kind.depth.data * place_bytes(kind)
        elif isinstance(op, AllocOp) and view_of(op.result).is_slot:
            _set(op, OFFSET, total)
            total += slot_bytes(view_of(op.result))
    if not total:
        return
    for op in rings:
        _set(op, BARRIERS, total)
        total += RING_BARRIERS_BYTES * (kind_of(op).depth.data + takers_of(op))
    total += SLOT_ALIGNMENT
    if total > target.shared_bytes_per_block:
        raise PlanError(
            f"mlc-place-slots: @{kernel.sym_name.data} needs {total:,} bytes of shared memory;"
            f" a block of {target.name} has {target.shared_bytes_per_block:,}: say fewer stages,"
            " or smaller tiles"
        )
    _set(kernel, SHARED, total)


def _set(op: Operation, name: str, value: int) -> None:
    op.attributes[name] = IntegerAttr(value, i64)
