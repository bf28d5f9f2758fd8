"""How lanes are read and written: in one piece where they lie together, else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import vec
from mlc.dialects.dtypes import BOOL, U8, DType, dtype_of
from mlc.dialects.lanes import vector_type
from mlc.dialects.tensor.element import Point
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.builder import memory_type

if TYPE_CHECKING:
    from mlc.lowering.loops.element import Lanes

WIDEST_STEP = 4  # elements between two lanes up to which whole vectors are read and picked from


def load(e: Lanes, buffer: Buffer, at: Point, where: SSAValue | None) -> SSAValue:
    """The elements at a point; nothing is read for lanes where `where` is false."""
    positions = [p for p in at if isinstance(p, Position)]
    bases, steps = buffer.indices(e.b, positions)
    element = memory_type(buffer.dtype)
    together = _distance(buffer, positions, steps)
    if e.lanes == 1:
        value = _load_one(e, buffer, bases, element, where)
    elif buffer.turned is not None and buffer.turned.serves(positions):
        mask = e.masked(where)
        fill = _zero(e, element) if mask is not None else None
        place, kind = buffer.turned.indices(e.b, positions), vector_type(element, e.lanes)
        value = e.b.load_vector(buffer.turned.memref, place, kind, mask, fill)
    elif not any(steps) and all(p.lanes is None for p in positions):
        value = e.spread(_load_one(e, buffer, bases, element, e.any_lane(where)))
    elif together == 1:
        if where is not None:
            bases = _nearest(e, buffer, bases, steps)
        value = _load_row(e, buffer.memref, bases, element, e.masked(where))
    elif together == -1:
        value = _load_backwards(e, buffer, bases, element, e.masked(where))
    elif 1 < together <= WIDEST_STEP and e.masked(where) is None:
        value = _load_apart(e, buffer, bases, element, together)
    else:
        offsets = _offsets(e, buffer, positions, steps)
        mask = e.masked(where)
        if mask is None:
            mask = e.constant(True, BOOL)
        indices = [e.b.index(i) for i in bases]
        zero = _zero(e, element)
        value = e.b.value(vec.GatherOp.of(buffer.memref, indices, offsets, mask, zero))
    return _from_memory(e, value, buffer.dtype)


def store(e: Lanes, value: SSAValue, buffer: Buffer, at: Point) -> None:
    """Writes the elements of a point."""
    positions = [p for p in at if isinstance(p, Position)]
    bases, steps = buffer.indices(e.b, positions)
    if buffer.dtype is BOOL:
        value = e.cast("extui", value, memory_type(BOOL))
    if e.lanes == 1:
        e.b.store(value, buffer.memref, bases)
    elif _distance(buffer, positions, steps) == 1 and e.nontemporal and e.mask is None:
        indices = [e.b.index(i) for i in bases]
        e.b.add_op(vec.NontemporalStoreOp.of(value, buffer.memref, indices))
    elif _distance(buffer, positions, steps) == 1:
        e.b.store_vector(value, buffer.memref, bases, e.mask)
    else:
        mask = e.mask if e.mask is not None else e.constant(True, BOOL)
        offsets = _offsets(e, buffer, positions, steps)
        indices = [e.b.index(i) for i in bases]
        e.b.add_op(vec.ScatterOp.of(value, buffer.memref, indices, offsets, mask))


def read_row(e: Lanes, dtype: DType, buffer: SSAValue, at: Index) -> SSAValue:
    """The lanes' elements from element `at` of a scratch array on."""
    if e.lanes == 1:
        return e.b.load(buffer, [at])
    return _load_row(e, buffer, [at], memory_type(dtype), e.mask)


def write_row(e: Lanes, value: SSAValue, buffer: SSAValue, at: Index) -> None:
    """Writes the lanes from element `at` of a scratch array on."""
    if e.lanes == 1:
        e.b.store(value, buffer, [at])
    else:
        e.b.store_vector(value, buffer, [at], e.mask)


def _distance(buffer: Buffer, at: Sequence[Position], steps: Sequence[int]) -> int:
    """
    Elements between two lanes where one axis alone moves and the last one is dense; else 0.

    The axis that moves may be another than the last if all behind it have size 1.
    """
    if any(p.lanes is not None for p in at) or not steps or buffer.strides[-1] != 1:
        return 0
    moving = [k for k, step in enumerate(steps) if step]
    if len(moving) != 1 or buffer.strides[moving[0]] != 1:
        return 0
    # a step other than 1 is taken off the last index
    return steps[moving[0]] if steps[moving[0]] == 1 or moving[0] == len(steps) - 1 else 0


def _nearest(e: Lanes, buffer: Buffer, bases: Sequence[Index], steps: Sequence[int]) -> list[Index]:
    """
    Indices inside the buffer where no lane is read: a masked load from a page that is not there
    takes 0.15 µs. Measured: docs/measurements.md, Every op.
    """
    found: list[Index] = []
    for group, base, step in zip(buffer.groups, bases, steps, strict=True):
        size = e.b.product([buffer.sizes[axis] for axis in group])
        if step and len(bases) > 1:
            found.append(base)  # next to a row there is another one, nearly always
            continue
        low, high = (-e.lanes, size) if step else (0, e.b.sub(size, 1))
        found.append(e.b.max(e.b.min(base, high), low))
    return found


def _load_one(
    e: Lanes, buffer: Buffer, bases: Sequence[Index], element: Attribute, where: SSAValue | None
) -> SSAValue:
    if where is None:
        return e.b.load(buffer.memref, bases)
    zero = e.b.element(0, dtype_of(element), 1)  # of bool: a byte
    return e.b.pick(where, lambda: e.b.load(buffer.memref, bases), lambda: zero)


def _load_row(
    e: Lanes, memref: SSAValue, bases: Sequence[Index], element: Attribute, mask: SSAValue | None
) -> SSAValue:
    fill = _zero(e, element) if mask is not None else None
    return e.b.load_vector(memref, bases, vector_type(element, e.lanes), mask, fill)


def _load_backwards(
    e: Lanes, buffer: Buffer, bases: Sequence[Index], element: Attribute, mask: SSAValue | None
) -> SSAValue:
    """Lane 0 is the last of the elements."""
    last = e.lanes - 1
    order = list(range(last, -1, -1))
    start = [*bases[:-1], e.b.sub(bases[-1], last)]
    reversed_mask = None if mask is None else e.b.shuffled(mask, mask, order)
    value = _load_row(e, buffer.memref, start, element, reversed_mask)
    return e.b.shuffled(value, value, order)


def _load_apart(
    e: Lanes, buffer: Buffer, bases: Sequence[Index], element: Attribute, step: int
) -> SSAValue:
    """Every `step`-th of step x lanes elements; none behind the last lane's is read."""
    lanes = e.lanes
    found: SSAValue | None = None
    for v in range(step):
        at = [*bases[:-1], e.b.add(bases[-1], v * lanes)]
        mask = e.b.mask(lanes - step + 1, lanes) if v == step - 1 else None
        piece = _load_row(e, buffer.memref, at, element, mask)
        if found is None:
            found = piece
            continue
        order: list[int] = []
        for lane in range(lanes):
            which, place = divmod(lane * step, lanes)
            placed = lane if v > 1 and which < v else place  # the first two are placed together
            order.append(lanes + place if which == v else placed if which < v else 0)
        found = e.b.shuffled(found, piece, order)
    assert found is not None
    return found


def _zero(e: Lanes, element: Attribute) -> SSAValue:
    return e.constant(0, dtype_of(element))  # of bool: a byte


def _offsets(e: Lanes, buffer: Buffer, at: Sequence[Position], steps: Sequence[int]) -> SSAValue:
    """How far each lane lies from lane 0's base, in elements."""
    delta: Index = 0
    for step, stride in zip(steps, buffer.strides, strict=True):
        delta = e.b.add(delta, e.b.mul(stride, step))
    total: SSAValue | None = None
    if delta != 0:
        number = e.b.value(vec.StepOp.of(e.lanes))
        total = number if delta == 1 else e.times(number, delta)
    for group, stride in zip(buffer.groups, buffer.strides, strict=True):
        inner: Index = stride
        for axis in reversed(group):
            lanes = at[axis].lanes
            if lanes is not None:
                term = e.times(lanes, inner)
                total = term if total is None else e.apply(arith.AddiOp, total, term)
            inner = e.b.mul(inner, buffer.sizes[axis])
    # no lane moves where there is nothing: a stride is the product of sizes
    return e.spread(e.b.index(0)) if total is None else total


def _from_memory(e: Lanes, value: SSAValue, dtype: DType) -> SSAValue:
    """A bool is the byte not being zero."""
    return value if dtype is not BOOL else e.compare("ne", value, e.constant(0, U8), U8)
