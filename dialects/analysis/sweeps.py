"""
Loops whose kernels sweep over arrays of one shape, row by row, and read of what the loop writes
only rows near the one that they write.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

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
    memory: tuple[object, ...]  # where it writes, by trips in turn


def period_of(sweeps: Sequence[Sweep]) -> int:
    """Trips after which a loop writes where it did before: two slots are written by turns."""
    return max(len(sweep.memory) for sweep in sweeps)


def sweeps_of(loop: ForOp) -> list[Sweep]:
    """
    The sweeps of a loop, in order; none where an op is something else, where what a trip leaves
    lies elsewhere than what the one before it, or the one before that, has left, or where sweeps
    differ in their rows.
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
    for op in kernels:
        sweep = _sweep(op, loop)
        if sweep is None:
            return []
        found.append(sweep)
    alike = {(sweep.rows, sweep.first) for sweep in found}
    return found if len(alike) == 1 and not _mixed(found, kernels) else []


def _mixed(sweeps: Sequence[Sweep], kernels: Sequence[KernelOp]) -> bool:
    """Whether arrays of several shapes lie in one place, or one that stays and others by turns."""
    kinds: dict[object, object] = {}
    for sweep, op in zip(sweeps, kernels, strict=True):
        several = op if len(sweep.memory) > 1 else None
        for place in sweep.memory:
            if kinds.setdefault(place, (op.outs[0].type, several)) != (op.outs[0].type, several):
                return True
    return False


def _stands(op: KernelOp, loop: ForOp) -> bool:
    """
    Whether a kernel's only result lies where it did in the trip before, or by turns in one of two
    places.
    """
    if op.unwritten is not None or len(op.outs) != 1 or op.buffers is None or not is_dealt(op):
        return False
    schedule = op.schedule
    if schedule is None or schedule.data.cuts or schedule.data.turn is not None:
        return False
    place, numbers = op.buffers.data[0].data
    if place not in ("arena", "out", "input") or len(numbers) > 2:
        return False
    over = _over(op)
    if len(numbers) == 2:
        return over < 0 and any(root_of(x) is op.outs[0] for x in loop.yielded.values)
    return over < 0 or over in _before(op, loop)


def _over(op: KernelOp) -> int:
    """The input over which a kernel's only result is written, or -1."""
    found = op.overwritten
    return op.shared_inputs[0] if found is None else found


def _before(op: KernelOp, loop: ForOp) -> list[int]:
    """The inputs that are what the trip before has left of a kernel's result."""
    pairs = zip(loop.carried, loop.yielded.values, strict=True)
    mine = {carried for carried, left in pairs if root_of(left) is op.outs[0]}
    return [k for k, x in enumerate(op.inputs) if root_of(x) in mine]


def _memory(op: KernelOp) -> tuple[object, ...]:
    assert op.buffers is not None
    place, numbers = op.buffers.data[0].data
    if place == "input":
        return (root_of(op.inputs[numbers[0]]),)
    return tuple((place, number) for number in numbers)


def _sweep(op: KernelOp, loop: ForOp) -> Sweep | None:
    """What a kernel does along the axis that workers share, if it is a sweep."""
    part = _written_part(op, loop)
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


def _written_part(op: KernelOp, loop: ForOp) -> tuple[Shape, Shape, Sequence[Access]] | None:
    """
    The size of what a kernel computes of its result, where that begins in it, and what it reads
    for it: the rest is what the trip before has left, in two trips in both places.
    """
    whole, nest = whole_of(op), nest_of(op)
    if isinstance(whole, ConcatOp):
        kept = set[int]().union(*(kept_pieces(op, k) for k in _before(op, loop)))
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
