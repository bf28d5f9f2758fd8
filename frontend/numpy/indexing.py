"""Reading parts: slices, integers, new axes, index arrays; take and take_along_axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import ALPHABET, spell
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import SliceOp
from mlc.dialects.tensor.within import WithinOp
from mlc.frontend.errors import NotSupportedError, OutOfBoundsError, located
from mlc.frontend.numpy.counted import has_masks, without_masks
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import as_line, normal_axis, ravel, reshaped, view_of
from mlc.frontend.numpy.spans import Span, is_traced, position_of, span_of, spell_slice
from mlc.frontend.numpy.values import (
    ONE,
    broadcast_shapes,
    constant,
    convert,
    is_integer,
    lift,
    number,
    result,
    spread,
    strong,
)
from mlc.frontend.trace.kinds import is_series, is_slice, is_tuple
from mlc.frontend.trace.program_sizes import natural
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import as_dim, bounds, is_bound, is_natural
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

ZERO = Dim.const(0)


@dataclass(frozen=True)
class Run:
    """Elements offset, offset + step, … of one axis; `single`: one, whose axis disappears."""

    offset: Dim
    step: int
    count: Dim
    single: bool = False


@dataclass(frozen=True, eq=False)
class Picked:
    """An axis indexed by an array of integers. Two are equal if they are one value."""

    index: Tracer

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picked) and self.index.value is other.index.value

    def __hash__(self) -> int:
        return hash(self.index.value)


NEW_AXIS = None
Entry = Run | Span | Picked | None
"""What is done with one axis; None makes a new one."""


def parse_key(x: Tracer, key: object) -> list[Entry]:
    """NumPy's subscript as one entry per axis of `x` and per new axis."""
    parts: list[Any] = list(key) if is_tuple(key) else [key]
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if sum(part is Ellipsis for part in parts) > 1:
        raise located(OutOfBoundsError, "an index can only have a single ellipsis ('...').")
    if used > x.ndim:
        name = name_of(x) or "the array"
        message = (
            f"too many indices: {name} {spell(x.dims)} has {x.ndim} axes, but {used} were indexed."
        )
        raise located(OutOfBoundsError, message)
    fill = [slice(None)] * (x.ndim - used)
    at = next((k for k, part in enumerate(parts) if part is Ellipsis), len(parts))
    parts[at : at + 1] = fill
    entries: list[Entry] = []
    axis = 0
    for part in parts:
        if part is None:
            entries.append(NEW_AXIS)
            continue
        entries.append(_entry(part, x.dims[axis], axis))
        axis += 1
    return entries


def _entry(part: Any, size: Dim, axis: int) -> Entry:
    if is_slice(part):
        return span_of(part, size) if is_traced(part, size) else _run(part, size)
    position = as_dim(part)
    if position is not None:
        return _single(position, size, axis)
    if isinstance(part, float) and not isinstance(part, np.generic):
        message = (
            f"an index is {part!r}; expected an integer, a slice, None, ... or an array of"
            " integers."
        )
        raise located(OutOfBoundsError, message)
    index = index_array(part)
    if not is_integer(index.row):
        message = f"an index array is {index.row.numpy}; expected integers."
        raise located(IndexDTypeError, message, remedy="Convert it with .astype(np.int64).")
    return Picked(index)


def index_array(part: object) -> Tracer:
    """Positions as an array; an empty list is one of integers, as in NumPy."""
    if isinstance(part, str):
        raise located(
            OutOfBoundsError,
            f"an index is {part!r}; expected integers or slices.",
            remedy="A table among the arguments is one array here: pass its columns one by one,"
            f" such as table[{part!r}].",
        )
    if is_series(part) and not _holds_values(part):
        return result(constant(np.zeros(np.shape(part), np.int64), I64))
    return lift(part)


def _holds_values(part: object) -> bool:
    return any(map(_holds_values, part)) if is_series(part) else True


class IndexDTypeError(DTypeError, IndexError):
    """Arrays used as indices must be of integer type."""


def _single(position: Dim, size: Dim, axis: int) -> Run | Picked:
    negative = position.constant is not None and position.constant < 0
    offset = position + size if negative else position
    if offset.constant is not None and size.constant is not None:
        if not 0 <= offset.constant < size.constant:
            message = f"index {position} is out of bounds for axis {axis} with size {size}"
            raise located(OutOfBoundsError, message)
    elif is_bound(position - size):
        return Picked(lift_size(position))  # checked where it is read
    elif negative:
        here().assume(offset, f"index {position} on axis {axis}")
    else:
        here().assume(size - position - 1, f"index {position} on axis {axis}")
    return Run(offset, 1, ONE, single=True)


def _run(part: slice[Any, Any, Any], size: Dim) -> Run:
    step = as_dim(1 if part.step is None else part.step)
    if isinstance(part.step, Tracer):
        step = Dim.const(part.step.__index__())
    stride = None if step is None else step.constant
    if stride is None:
        raise located(NotSupportedError, "a slice needs a constant step.")
    if stride == 0:
        raise located(ShapeError, "slice step cannot be zero")
    ends = tuple(
        Dim.const(v.__index__()) if isinstance(v, Tracer) else as_dim(v)
        for v in (part.start, part.stop)
    )
    if stride > 0 and any(is_bound(dim) for dim in (*ends, size) if dim is not None):
        first, count = _clipped(ends[0], ends[1], size)
        return Run(first, stride, (count + (stride - 1)) // stride)
    if stride > 0:
        first = _bound(part.start, size, ZERO)
        count = _bound(part.stop, size, size) - first
    else:
        first = size - 1 if part.start is None else _bound(part.start, size, ZERO, upper=size - 1)
        last = Dim.const(-1) if part.stop is None else _bound(part.stop, size, ZERO, upper=size - 1)
        count = first - last
    distance = abs(stride)
    count = (count + (distance - 1)) // distance
    if count.constant is not None:
        count = Dim.const(max(count.constant, 0))
        return Run(first if count.constant else ZERO, stride, count)
    low, _ = bounds(count)
    if low is None or low < 0:
        some = is_natural(count, f"the slice {spell_slice(part)} has {count} elements")
        first, count = (first, count) if some else (ZERO, ZERO)
    return Run(first, stride, count)


def _clipped(start: Dim | None, stop: Dim | None, size: Dim) -> tuple[Dim, Dim]:
    """First element and count of a slice, of sizes that the program computes."""

    def end(given: Dim) -> Dim:
        if given.constant is not None and given.constant < 0:
            return natural(given + size)
        low, _ = bounds(size - given)
        return given if low is not None and low >= 0 else size - natural(size - given)

    first, last = ZERO if start is None else start, size if stop is None else end(stop)
    if first.constant is not None and first.constant < 0:
        first = end(first)
    return first, natural(last - first)


def _bound(value: object, size: Dim, default: Dim, upper: Dim | None = None) -> Dim:
    """A slice bound between 0 and the size, as NumPy clips it; symbolic clips are assumed away."""
    if value is None:
        return default
    bound = as_dim(value)
    if isinstance(value, Tracer):
        bound = Dim.const(value.__index__())
    if bound is None:
        raise located(DTypeError, f"a slice bound is {value!r}; expected an integer or None.")
    upper = size if upper is None else upper
    if bound.constant is not None and bound.constant < 0:
        bound = bound + size
        if bound.constant is not None:
            lowest = -1 if upper != size else 0
            return Dim.const(max(bound.constant, lowest))
        inside = is_natural(bound, f"the slice bound {value}")
        return bound if inside else Dim.const(-1 if upper != size else 0)
    room = upper - bound
    if room.constant is not None:
        return bound if room.constant >= 0 else upper
    low, _ = bounds(room)
    if low is None or low < 0:
        return bound if is_natural(room, f"the slice bound {bound} within {upper}") else upper
    return bound


def sliced(x: SSAValue, runs: list[Run]) -> SSAValue:
    dims = shape_of(x.type)
    counts = tuple(run.count for run in runs)
    whole = all(
        run.step == 1 and run.offset == ZERO and run.count == d
        for run, d in zip(runs, dims, strict=True)
    )
    if whole:
        return x
    declared = tensor_type(tensor_of(x).element_type, counts)
    offsets, steps = tuple(run.offset for run in runs), tuple(Dim.const(run.step) for run in runs)
    return here().emit(SliceOp, x, offsets=offsets, steps=steps, declared=declared)


def getitem(x: Tracer, key: object) -> Tracer:
    """x[key]. Slices and integers give views, index arrays copies; single elements are numbers."""
    if has_masks(key):
        return getitem(*without_masks(x, key))
    here().note_part(x, key, writes=False)
    entries = parse_key(x, key)
    placed = placed_part(x, entries)
    if placed is None and any(isinstance(e, Picked) for e in entries):
        return _gathered(x, entries)
    view = viewed(x, entries, placed)
    if not view.dims and not _has_ellipsis(key):
        return Tracer(x.owner, view.known, origins=x.origins, captured=x.captured)
    return view


def viewed(x: Tracer, entries: list[Entry], placed: Placed | None) -> Tracer:
    """A view of what entries pick, among which are no index arrays."""
    runs = [e for e in entries if isinstance(e, Run)]
    shape = kept_shape(entries)

    def get(base: SSAValue) -> SSAValue:
        return reshaped(sliced(base, runs) if placed is None else placed.read(base), shape)

    def put(base: SSAValue, new: SSAValue) -> SSAValue:
        from mlc.frontend.numpy.writing import overwritten

        if placed is not None:
            return placed.written(base, new)
        return overwritten(base, runs, reshaped(new, tuple(run.count for run in runs)))

    return view_of(x, get, put, tuple(entries))


def is_fixed(key: object) -> bool:
    """Whether the entries of a view say all of its places themselves."""
    return is_tuple(key) and all(entry is None or isinstance(entry, Run) for entry in key)


def _has_ellipsis(key: object) -> bool:
    """Whether what is picked is an array even where it has no axes."""
    return any(part is Ellipsis for part in (key if is_tuple(key) else [key]))


def kept_shape(entries: list[Entry]) -> Shape:
    return tuple(
        ONE if e is None else e.count
        for e in entries
        if e is None or (isinstance(e, Run | Span) and not e.single)
    )


# Integers that are values


@dataclass(frozen=True)
class Placed:
    """A part of an array that begins at values: checked against the axes, counted from 0."""

    offsets: tuple[SSAValue, ...]
    sizes: Shape
    runs: tuple[Run, ...]  # what is picked of it

    def read(self, base: SSAValue) -> SSAValue:
        """The part, with an axis of size 1 for each integer."""
        declared = tensor_type(tensor_of(base).element_type, self.sizes)
        part = here().emit(DynamicSliceOp, base, *self.offsets, declared=declared)
        return sliced(part, list(self.runs))

    def written(self, base: SSAValue, new: SSAValue) -> SSAValue:
        """The array with the part replaced."""
        if any(abs(run.step) != 1 for run in self.runs):
            message = "a slice between traced numbers is written in steps."
            raise located(NotSupportedError, message, remedy="Write whole slices, or elements.")
        picked = reshaped(new, tuple(run.count for run in self.runs))
        part = sliced(picked, list(self.runs))
        return here().emit(DynamicUpdateOp, base, part, *self.offsets)


def placed_part(x: Tracer, entries: list[Entry]) -> Placed | None:
    """
    What the entries pick, if some are integers that are values, and the others are whole pieces of
    their axes; None for anything else.
    """
    real = [e for e in entries if e is not None]
    pairs = list(zip(real, x.dims, strict=True))
    numbers = [(e.index, size) for e, size in pairs if isinstance(e, Picked)]
    spans = any(isinstance(e, Span) for e in real)
    if any(index.dims or size == ZERO for index, size in numbers) or not (numbers or spans):
        if spans:
            raise located(NotSupportedError, "a slice between traced numbers beside index arrays.")
        return None
    if not spans and any(e.step != 1 for e, _ in pairs if isinstance(e, Run)):
        return None
    offsets: list[SSAValue] = []
    for e, size in pairs:
        if isinstance(e, Picked):
            index = convert(e.index.value, I64)
            offsets.append(here().emit(WithinOp, index, size=(size,)))
        elif isinstance(e, Span):
            offsets.append(e.offset)
        elif e.step != 1:
            offsets.append(number(0, I64))
        else:
            offsets.append(position_of(e.offset))
    ends = [_window(e, size) for e, size in pairs]
    return Placed(tuple(offsets), tuple(size for size, _ in ends), tuple(run for _, run in ends))


def _window(e: Entry, size: Dim) -> tuple[Dim, Run]:
    """How many elements of an axis a part has, and which of them are picked."""
    match e:
        case Span():
            return e.whole, Run(e.first, e.step, e.count)
        case Run(step=1):
            return e.count, Run(ZERO, 1, e.count)
        case Run():
            return size, e
        case _:
            return ONE, Run(ZERO, 1, ONE)


# Index arrays


@dataclass(frozen=True)
class Addressed:
    """The part of an array that index arrays pick from: after slices, before new axes."""

    runs: list[Run]
    part: SSAValue
    letters: str
    indices: list[SSAValue]
    shape: Shape  # of what is read or written, with its axes of size 1


def addressed(x: Tracer, entries: list[Entry]) -> Addressed:
    """Slices first, then one gather or scatter over all index arrays, then new axes."""
    real = [e for e in entries if e is not None]
    runs = [
        e if isinstance(e, Run) else Run(ZERO, 1, dim) for e, dim in zip(real, x.dims, strict=True)
    ]
    kept = tuple(
        r.count for r, e in zip(runs, real, strict=True) if isinstance(e, Picked) or not r.single
    )
    value = reshaped(sliced(x.value, runs), kept)
    common = broadcast_shapes(
        "the index arrays", [e.index.dims for e in real if isinstance(e, Picked)]
    )
    index_word, letters = ALPHABET[: len(common)], iter(ALPHABET[len(common) :])
    place = _index_place(entries)
    source, words, operands = "", list[str](), list[SSAValue]()
    before, after = list[tuple[str, Dim]](), list[tuple[str, Dim]]()  # axes around the indexed ones
    for k, e in enumerate(entries):
        side = before if k < place else after
        if e is None:
            side.append(("", ONE))
        elif isinstance(e, Picked):
            operand, word = _thin_index(e.index, common, index_word)
            source += str(len(words))
            words.append(word)
            operands.append(operand)
        elif not e.single:
            letter = next(letters)
            source += letter
            side.append((letter, e.count))
    middle = [c for c in index_word if any(c in word for word in words)]
    out = "".join([*(c for c, _ in before), *middle, *(c for c, _ in after)])
    shape = (*(d for _, d in before), *common, *(d for _, d in after))
    return Addressed(runs, value, f"{','.join([source, *words])}->{out}", operands, shape)


def _gathered(x: Tracer, entries: list[Entry]) -> Tracer:
    at = addressed(x, entries)
    made = here().emit(GatherOp, at.part, *at.indices, letters=at.letters)
    return result(reshaped(made, at.shape))


def _index_place(entries: list[Entry]) -> int:
    """The entry before which the index arrays' axes go: in front when the arrays are apart."""
    # integers next to index arrays count as index arrays here
    advanced = [
        k
        for k, e in enumerate(entries)
        if isinstance(e, Picked) or (isinstance(e, Run) and e.single)
    ]
    together = advanced[-1] - advanced[0] == len(advanced) - 1
    return advanced[0] if together else 0


def _thin_index(index: Tracer, common: Shape, word: str) -> tuple[SSAValue, str]:
    """The index as i64 without the axes along which it is repeated."""
    value = convert(index.value, I64)
    own = index.dims
    letters = word[len(common) - len(own) :]
    kept = [
        k for k, dim in enumerate(own) if dim != ONE or common[len(common) - len(own) + k] == ONE
    ]
    if len(kept) != len(own):
        value = reshaped(value, tuple(own[k] for k in kept))
    return value, "".join(letters[k] for k in kept)


def _kept_inside(index: Tracer, size: Any, mode: str) -> Tracer:
    """Positions beyond an axis as `take` reads them: counted on from the start, or the nearest."""
    from mlc.frontend.numpy.elementwise import clip
    from mlc.frontend.numpy.elementwise_whole import mod

    wide = result(convert(index.value, I64))
    return mod(wide, size) if mode == "wrap" else clip(wide, 0, size - 1)


@public(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Tracer:
    """The elements at positions along an axis."""
    if mode not in ("raise", "wrap", "clip") or out is not None:
        raise located(NotSupportedError, f"take: out= and mode={mode!r} are not supported.")
    x = as_line(strong(a, "take"), axis)
    place = normal_axis(0 if axis is None else axis, x.ndim, "take")
    index = index_array(indices)
    if index.row is BOOL:  # 0 and 1, not a mask
        index = result(convert(index.value, I64))
    if mode != "raise":
        index = _kept_inside(index, x.shape[place], mode)
    return getitem(x, (*(slice(None),) * place, index))


@public(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: Any = -1) -> Tracer:
    """out[i, k] = arr[i, indices[i, k]] for axis 1, and so for any other."""
    x = ravel(arr) if axis is None else lift(arr)
    index = lift(indices)
    place = normal_axis(0 if axis is None else axis, x.ndim, "take_along_axis")
    if index.ndim != x.ndim:
        message = (
            f"take_along_axis: the array has {x.ndim} axes and the indices have {index.ndim};"
            " expected as many."
        )
        raise located(ShapeError, message)
    rest = [k for k in range(x.ndim) if k != place]
    shape = broadcast_shapes(
        "take_along_axis", [tuple(v.dims[k] for k in rest) for v in (x, index)]
    )
    both = dict(zip(rest, shape, strict=True))
    sized = [
        spread(v.value, tuple(both.get(k, v.dims[place]) for k in range(v.ndim)))
        for v in (x, index)
    ]
    word = ALPHABET[: x.ndim]
    letters = f"{word[:place]}0{word[place + 1 :]},{word}->{word}"
    return result(here().emit(GatherOp, sized[0], convert(sized[1], I64), letters=letters))
