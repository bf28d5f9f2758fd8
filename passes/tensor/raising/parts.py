"""Parts of arrays that begin at sizes or at values: read, and written over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.create import IotaOp, SizeOp, full
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.op import OpBuilder, TensorOp, tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp, SliceOp
from mlc.passes.tensor.batching.block import from_front, to_front

ZERO, ONE = Dim.const(0), Dim.const(1)
Start = Dim | SSAValue
"""Where a part begins on an axis: at a size that is known before the call runs, or at a value."""


def value_of(b: OpBuilder, start: Start) -> SSAValue:
    """A start as a number."""
    return b(SizeOp, dims=(start,)) if isinstance(start, Dim) else start


def start_of(x: SSAValue, now: Callable[[SSAValue], SSAValue], ranges: Ranges) -> Start:
    """A number as a start; `now`: as a value of the program."""
    found = ranges.of(x)
    return found if ranges.is_of_sizes(found) else now(x)


def read_part(b: OpBuilder, x: SSAValue, starts: Sequence[Start], part: Shape) -> SSAValue:
    """x[start : start + n, …], which lies in `x`."""
    kind = tensor_type(tensor_of(x).element_type, part)
    if part == shape_of(x.type) and all(start == ZERO for start in starts):
        return x
    known = [start for start in starts if isinstance(start, Dim)]
    if len(known) == len(starts):
        steps = (ONE,) * len(part)
        return b(SliceOp, x, offsets=tuple(known), steps=steps, declared=kind)
    offsets = [value_of(b, start) for start in starts]
    return b(DynamicSliceOp, x, *offsets, declared=kind, fits=UnitAttr())


def written_part(b: OpBuilder, x: SSAValue, new: SSAValue, starts: Sequence[Start]) -> SSAValue:
    """`x` with `new` at x[start : start + n, …], which lies in it."""
    dims, part = shape_of(x.type), shape_of(new.type)
    known = [start for start in starts if isinstance(start, Dim)]
    if len(known) < len(starts):
        offsets = [value_of(b, start) for start in starts]
        return b(DynamicUpdateOp, x, new, *offsets, fits=UnitAttr())
    for axis, (start, size, dim) in enumerate(zip(known, part, dims, strict=True)):
        if start == ZERO and size == dim:
            continue
        inner = [ZERO if k == axis else s for k, s in enumerate(known)]
        end = start + size
        middle = written_part(b, _piece(b, x, axis, start, size), new, inner)
        pieces = [(ZERO, start), (end, dim - end)]
        before, after = (_piece(b, x, axis, low, n) for low, n in pieces)
        parts = [p for p in (before, middle, after) if shape_of(p.type)[axis] != ZERO]
        return parts[0] if len(parts) == 1 else b(ConcatOp, *parts, axis=axis)
    return new


def _piece(b: OpBuilder, x: SSAValue, axis: int, start: Dim, size: Dim) -> SSAValue:
    dims = shape_of(x.type)
    starts = [start if k == axis else ZERO for k in range(len(dims))]
    return read_part(b, x, starts, (*dims[:axis], size, *dims[axis + 1 :]))


def stepped(b: OpBuilder, x: SSAValue, axis: int, step: int, count: Dim) -> SSAValue:
    """Every step-th element along an axis, from its first one or, backwards, from its last one."""
    if step == 1:
        return x
    dims = shape_of(x.type)
    first = ZERO if step > 0 else dims[axis] - 1
    offsets = tuple(first if k == axis else ZERO for k in range(len(dims)))
    steps = tuple(Dim.const(step) if k == axis else ONE for k in range(len(dims)))
    kind = tensor_type(tensor_of(x).element_type, (*dims[:axis], count, *dims[axis + 1 :]))
    return b(SliceOp, x, offsets=offsets, steps=steps, declared=kind)


def written_steps(b: OpBuilder, x: SSAValue, new: SSAValue, axis: int, step: int) -> SSAValue:
    """`x` with `new` at every step-th element along an axis, from the first one."""
    count = shape_of(new.type)[axis]
    places = b(IotaOp, axis=0, declared=tensor_type(i64, (count,)))
    places = b(MulOp, places, full(b, step, I64, (count,)))
    word = ALPHABET[: len(shape_of(x.type))]
    letters = f"{word[:axis]}0{word[axis + 1 :]},{word[axis]}->{word}"
    return b(ScatterOp, x, places, new, mode="set", letters=letters)


def moved_axis(b: OpBuilder, x: SSAValue, source: int, target: int) -> SSAValue:
    """`x` with its first axis at another place, or the axis there as its first one."""
    assert 0 in (source, target)
    dims = list(shape_of(x.type))
    size = dims.pop(source)
    if all(dim == ONE for dim in dims[: max(source, target)]):
        dims.insert(target, size)
        kind = tensor_type(tensor_of(x).element_type, tuple(dims))
        return x if x.type == kind else b(ReshapeOp, x, declared=kind)
    return from_front(b, x, target) if source == 0 else to_front(b, x, source)


def sum_of(b: OpBuilder, x: Start, y: Start) -> Start:
    """x + y"""
    if isinstance(x, Dim) and isinstance(y, Dim):
        return x + y
    return b(AddOp, value_of(b, x), value_of(b, y))


def difference(b: OpBuilder, x: Start, y: Start) -> Start:
    """x - y"""
    if isinstance(x, Dim) and isinstance(y, Dim):
        return x - y
    return b(SubOp, value_of(b, x), value_of(b, y))


def copied(
    b: OpBuilder,
    value: SSAValue,
    known: dict[SSAValue, SSAValue],
    is_inner: Callable[[SSAValue], bool],
) -> SSAValue:
    """A number that a loop's body computes, where numbers of the body are others."""
    if (found := known.get(value)) is not None:
        return found
    owner = value.owner
    if not isinstance(owner, TensorOp) or not is_inner(value):
        return value
    copy = owner.on([copied(b, x, known, is_inner) for x in owner.operands])
    b.insert(copy)
    known[value] = copy.results[0]
    return copy.results[0]


def drop_unused(ops: Sequence[Operation]) -> None:
    """Erases those of ops one after another of which nobody reads anything."""
    for op in reversed(ops):
        if all(x.first_use is None for x in op.results):
            op.detach()
            op.erase()
