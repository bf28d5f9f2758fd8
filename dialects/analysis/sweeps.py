"""
Loops whose kernels sweep over arrays of one shape, row by row, and read of what the loop writes
only rows near the one that they write.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, SSAValue

from mlc.dialects.analysis.access import (
    Access,
    Shape,
    kept_pieces,
    nest_of,
    reads_of_pieces,
    whole_of,
)
from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.shares import is_dealt, loads_of
from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ForOp, YieldOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.shape import ConcatOp
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Sweep:
    """
    What a kernel of such a loop does: it writes `rows` rows of its result, from row `first` on;
    of what the loop writes it reads up to `reach` rows from where it writes.
    """

    rows: int
    first: int
    reach: int
    shares: int  # of workers for whom there is work, at most
    points: int  # elements of the result, of which each of these has some
    row_elements: int  # that are written
    row_bytes: int
    memory: object  # what it writes, as others name it too


def sweeps_of(loop: ForOp) -> list[Sweep]:
    """
    The sweeps of a loop, in order; none where an op is something else, where what a trip leaves
    lies elsewhere than what the one before it has left, or where sweeps differ in their rows.
    """
    block, found = loop.body.block, list[Sweep]()
    if block.args[0].first_use is not None:
        return []
    kernels = [op for op in block.ops if isinstance(op, KernelOp)]
    others = [op for op in block.ops if not isinstance(op, KernelOp | ConstantOp | YieldOp)]
    if others or not all(_stands(op, loop) for op in kernels):
        return []
    if any(root_of(x) not in {op.outs[0] for op in kernels} for x in loop.yielded.values):
        return []
    kinds: dict[object, Attribute] = {}
    for op in kernels:
        sweep = _sweep(op, loop)
        if sweep is None or kinds.setdefault(sweep.memory, op.outs[0].type) != op.outs[0].type:
            return []
        found.append(sweep)
    return found if len({(sweep.rows, sweep.first) for sweep in found}) == 1 else []


def _stands(op: KernelOp, loop: ForOp) -> bool:
    """Whether a kernel's only result lies in one place, which is that of the trip before."""
    if op.unwritten is not None or len(op.outs) != 1 or op.buffers is None or not is_dealt(op):
        return False
    if op.schedule is None or op.schedule.data.cuts:
        return False
    place, numbers = op.buffers.data[0].data
    if len(numbers) != 1 or place not in ("arena", "out", "input"):
        return False
    if (over := _over(op)) < 0:
        return True
    argument = root_of(op.inputs[over])
    return any(
        carried is argument and root_of(left) is op.outs[0]
        for carried, left in zip(loop.carried, loop.yielded.values, strict=True)
    )


def _over(op: KernelOp) -> int:
    """The input over which a kernel's only result is written, or -1."""
    found = op.overwritten
    return op.shared_inputs[0] if found is None else found


def _memory(op: KernelOp) -> object:
    assert op.buffers is not None
    place, numbers = op.buffers.data[0].data
    return root_of(op.inputs[numbers[0]]) if place == "input" else (place, numbers[0])


def _sweep(op: KernelOp, loop: ForOp) -> Sweep | None:
    """What a kernel does along the axis that workers share, if it is a sweep."""
    part = _written_part(op)
    if part is None:
        return None
    sizes, start, accesses = part
    axis = next((k for k, size in enumerate(sizes) if size.constant != 1), 0)
    shape = shape_of(op.outs[0].type)
    figures = (sizes[axis], start[axis], loads_of(op), product(shape), product(sizes))
    known = [x.constant for x in figures]
    if axis >= len(sizes) - 1 or any(x is None for x in known):
        return None  # an only axis is cut where vectors end
    rows, first, shares, points, written = (x or 0 for x in known)
    reach = 0
    for access in accesses:
        if not _is_of_trip(root_of(op.inputs[access.argument]), loop):
            continue
        if (away := _away(access, axis, first)) is None or len(access.shape) != len(shape):
            return None
        reach = max(reach, abs(away))
    row_bytes = points // (shape[axis].constant or 1) * element_dtype(op.outs[0]).bytes
    return Sweep(
        rows, first, reach, shares, points, written // max(rows, 1), row_bytes, _memory(op)
    )


def _written_part(op: KernelOp) -> tuple[Shape, Shape, Sequence[Access]] | None:
    """
    The size of what a kernel computes of its result, where that begins in it, and what it reads
    for it: the rest stands there from the trip before.
    """
    whole, nest = whole_of(op), nest_of(op)
    if isinstance(whole, ConcatOp):
        kept = kept_pieces(op, _over(op)) if _over(op) >= 0 else set[int]()
        reads = zip(whole.pieces(), reads_of_pieces(op, whole), strict=True)
        parts = [
            (shape_of(x.type), *read) for k, ((x, _), read) in enumerate(reads) if k not in kept
        ]
        return parts[0] if len(parts) == 1 else None
    if (
        whole is not None
        or nest is None
        or nest.reduction is not None
        or op.template.data != "cell"
    ):
        return None
    groups = nest.groups(frozenset())
    if any(len(group) > 1 for group in groups):
        return None
    return nest.sizes, (Dim.const(0),) * nest.rank, nest.accesses


def _is_of_trip(value: SSAValue, loop: ForOp) -> bool:
    """Whether a value is what a loop carries, or made in it."""
    owner = value.owner
    return owner is loop.body.block or (
        isinstance(owner, KernelOp) and owner.parent is loop.body.block
    )


def _away(access: Access, axis: int, first: int) -> int | None:
    """How many rows behind the row that is written an input is read; None for others as well."""
    position = access.point[axis] if axis < len(access.point) else None
    if position is None or not position.known or position.terms != ((axis, 1),):
        return None
    offset = position.offset.constant
    return None if offset is None else offset - first
