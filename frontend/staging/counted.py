"""
Lists of which only the compiled function knows how long they are: rows of arrays, and a number.

A list that a branch makes longer, or a loop that stays one, holds one `Counted` in the place of its
elements, which must be alike: numbers, arrays of one shape, or tuples of such. It stays the same
list, so that all names and objects lead to it; what is done with it (access.py) is done with the
rows. Without a largest length there is room that grows: where it is too small, the call begins
again with more (`mlc.room`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TypeGuard

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import C128, F64, I64, DType
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.room import RoomOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.values import common_dtype, convert, lift, number
from mlc.frontend.numpy.writing import with_part
from mlc.frontend.staging.journal import put_contents, touched
from mlc.frontend.staging.options import is_number_or_array
from mlc.frontend.staging.sized import first_of, padded, room_for
from mlc.frontend.staging.wholes import is_pythons_int
from mlc.frontend.trace.containers import REGISTERED, Structure, children_of, flatten, unflatten
from mlc.frontend.trace.kinds import is_tuple, is_variants
from mlc.frontend.trace.program_sizes import room_size, symbol_of
from mlc.frontend.trace.symbolic import as_size, is_bound
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

MOST_APART = 64
"""Elements of a list of a known length that are values of their own again behind a loop."""


class Counted:
    """`count` elements; `rows`: one element with an axis more, along which they stand."""

    def __init__(self, count: Any, rows: Any) -> None:
        self.count = count
        self.rows = rows
        here().holders.add(type(self))

    @property
    def arrays(self) -> list[Tracer]:
        """The rows' arrays."""
        return [x for x in flatten(self.rows)[0] if isinstance(x, Tracer)]

    @property
    def capacity(self) -> Dim:
        """How many there is room for."""
        return self.arrays[0].dims[0]

    def fail(self, *_: object, **__: object) -> NoReturn:
        """What is done with the list is not known."""
        message = "a list whose length only the compiled function knows is used as a Python list."
        remedy = "Make an array of it first: np.array(xs)."
        raise located(NotSupportedError, message, remedy=remedy)

    __hash__ = object.__hash__
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __mul__ = __rmul__ = fail
    __sub__ = __rsub__ = __neg__ = __iter__ = __len__ = __bool__ = __getitem__ = __array__ = fail
    __float__ = __int__ = __index__ = __truediv__ = __rtruediv__ = __abs__ = fail


class Fixed(Counted):
    """One with room for all that a loop adds."""


REGISTERED[Counted] = REGISTERED[Fixed] = ("count", "rows")
_KINDS = frozenset({Counted, Fixed})


def is_counted(value: object) -> TypeGuard[list[Any]]:
    """Whether a list or deque is one of these."""
    kind = type(value)
    if kind is not list and kind is not deque:
        return False
    series: Any = value
    trace = current()  # most hold none, and are asked at each use of a list of any length
    holders = _KINDS if trace is None else _KINDS & trace.holders
    return bool(holders) and not holders.isdisjoint(map(type, series))


def counted_of(obj: list[Any]) -> Counted:
    """What it holds, as one."""
    if len(obj) != 1 or not isinstance(obj[0], Counted):
        put(obj, made(list(obj)))
    return obj[0]


def put(obj: list[Any], held: Counted) -> None:
    """The list holds something else."""
    touched(obj)
    put_contents(obj, [held])


# Layouts


class MixedError(Exception):
    """Elements that no array can hold together."""


@dataclass(frozen=True)
class _Leaf:
    row: DType
    dims: Shape
    weak: bool


@dataclass(frozen=True)
class Layout:
    """What elements have in common: constants are in each of them."""

    structure: Structure
    leaves: tuple[Any, ...]

    @staticmethod
    def of(element: Any) -> Layout:
        """Of one, or of those that are counted."""
        counted = isinstance(element, Counted)
        rows = element.rows if counted else element
        if _holds_variants(rows):
            raise MixedError("elements of kinds that only the compiled function knows")
        leaves, structure = flatten(rows)
        return Layout(structure, tuple(_leaf(x, counted) for x in leaves))

    def with_(self, other: Layout) -> Layout:
        """Of both."""
        if self.structure != other.structure:
            raise MixedError("elements of different kinds")
        return Layout(self.structure, tuple(map(_common, self.leaves, other.leaves)))


def _holds_variants(value: Any) -> bool:
    parts = children_of(value)
    return is_variants(value) or (parts is not None and any(map(_holds_variants, parts[2])))


def _leaf(x: Any, counted: bool) -> Any:
    if not is_number_or_array(x):
        return x
    found = lift(x)
    return _Leaf(found.row, found.dims[1:] if counted else found.dims, found.weak)


def _common(x: Any, y: Any) -> Any:
    from mlc.frontend.staging.joins import described, equal_values

    if not (isinstance(x, _Leaf) and isinstance(y, _Leaf)):
        if isinstance(x, _Leaf) or isinstance(y, _Leaf) or not equal_values(x, y):
            names = ["a number" if isinstance(v, _Leaf) else described(v) for v in (x, y)]
            raise MixedError(f"{names[0]} and {names[1]}")
        return x
    if x.dims != y.dims or any(map(is_bound, x.dims)):
        raise MixedError(f"arrays {spell(x.dims)} and {spell(y.dims)}")
    if x.row is y.row:
        return _Leaf(x.row, x.dims, x.weak and y.weak)
    if not (x.weak or y.weak):
        raise MixedError(f"{x.row.numpy} and {y.row.numpy}")
    probes = [Tracer(here(), number(0, v.row), weak=v.weak) for v in (x, y)]
    row = common_dtype("the list", probes)
    strong = [v for v in (x, y) if not v.weak]
    if strong and (strong[0].row is not row or row not in (F64, C128)):
        # Python's 0.1 is no float32, and no integer is a float32 without loss
        names = [f"Python's {v.row.kind}" if v.weak else str(v.row.numpy) for v in (x, y)]
        raise MixedError(f"{names[0]} and {names[1]}")
    return _Leaf(row, x.dims, x.weak and y.weak)


def layout_of(parts: Iterable[Any]) -> Layout:
    """Of elements, some of them counted. Raises MixedError."""
    found: Layout | None = None
    for part in parts:
        layout = Layout.of(part)
        found = layout if found is None else found.with_(layout)
    if found is None or not any(isinstance(x, _Leaf) for x in found.leaves):
        raise MixedError("elements that are no numbers or arrays")
    return found


def refused(why: str) -> NotSupportedError:
    """The error of a list that no arrays can hold."""
    message = (
        "a list whose length only the compiled function knows must hold numbers, arrays of one"
        f" shape, or tuples of such, all alike; found {why}."
    )
    remedy = "Convert them where they are appended, or keep them in lists of their own."
    return located(NotSupportedError, message, remedy=remedy)


# Making them


def room_of(parts: Sequence[Any]) -> Dim:
    """How many elements the parts may be together."""
    total = Dim.const(0)
    for part in parts:
        total = total + (part.capacity if isinstance(part, Counted) else Dim.const(1))
    return total


def room_for_both(x: Dim, y: Dim, fixed: bool) -> Dim:
    """For either of two lists; where a loop has given room, that is enough."""
    room = _room()
    if fixed and room is not None and room in (x, y):
        return room
    return room_for((x,), (y,))[0]


def made(
    parts: Sequence[Any],
    layout: Layout | None = None,
    room: Dim | None = None,
    kind: type[Counted] = Counted,
) -> Counted:
    """Elements, some of them counted, one after another."""
    try:
        layout = layout_of(parts) if layout is None else layout
    except MixedError as error:
        raise refused(str(error)) from None
    room = room_of(parts) if room is None else room
    first = next((k for k, x in enumerate(parts) if isinstance(x, Counted)), len(parts))
    if first == 0 and parts:
        found = _widened(parts[0], layout, room, kind)
        first = 1
    else:
        found = _stacked(parts[:first], layout, room, kind)
    for part in parts[first:]:
        found = _followed(found, part) if isinstance(part, Counted) else appended(found, part)
    return found


def _stacked(elements: Sequence[Any], layout: Layout, room: Dim, kind: type[Counted]) -> Counted:
    from mlc.frontend import numpy as names

    columns = [flatten(element)[0] for element in elements]
    leaves: list[Any] = []
    for k, leaf in enumerate(layout.leaves):
        if not isinstance(leaf, _Leaf):
            leaves.append(leaf)
            continue
        values = [Tracer(here(), convert(lift(c[k]).value, leaf.row)) for c in columns]
        if values:
            stacked: Any = names.stack(values)
            value = padded(stacked.value, (room, *leaf.dims))
        else:
            value = number(0, leaf.row, (room, *leaf.dims))
        leaves.append(Tracer(here(), value, weak=leaf.weak))
    return kind(len(elements), unflatten(layout.structure, leaves))


def _widened(held: Counted, layout: Layout, room: Dim, kind: type[Counted]) -> Counted:
    leaves: list[Any] = []
    for x, leaf in zip(flatten(held.rows)[0], layout.leaves, strict=True):
        if isinstance(leaf, _Leaf):
            value = padded(convert(x.value, leaf.row), (room, *leaf.dims))
            leaves.append(Tracer(here(), value, weak=leaf.weak))
        else:
            leaves.append(leaf)
    return kind(held.count, unflatten(layout.structure, leaves))


def with_rows(
    held: Counted, count: Any, change: Callable[[Tracer, Any], Any], other: Any
) -> Counted:
    """With rows changed by what another element, or other rows, have there."""
    mine, structure = flatten(held.rows)
    theirs, _ = flatten(other)
    leaves: list[Any] = []
    for x, y in zip(mine, theirs, strict=True):
        leaves.append(
            Tracer(here(), change(x, y).value, weak=x.weak) if isinstance(x, Tracer) else x
        )
    return type(held)(count, unflatten(structure, leaves))


def fitting(held: Counted, layout: Layout, more: Dim) -> Counted:
    """With room for more elements of the layout too."""
    try:
        both = Layout.of(held).with_(layout)
    except MixedError as error:
        raise refused(str(error)) from None
    room = held.capacity if isinstance(held, Fixed) else held.capacity + more
    if both == Layout.of(held) and room == held.capacity:
        return held
    return _widened(held, both, room, type(held))


def appended(held: Counted, element: Any) -> Counted:
    """With an element behind them."""
    held = fitting(held, Layout.of(element), Dim.const(1))
    place, count = next_place(held)
    here().ints.into_lists.update(x.value for x in flatten(element)[0] if is_pythons_int(x))
    return overwritten(held, place, count, element)


def overwritten(held: Counted, place: Any, count: Any, element: Any) -> Counted:
    """With another element at a place, and as many as said."""

    def write(x: Tracer, new: Any) -> Tracer:
        return with_part(x, place, lift(new))

    return with_rows(held, count, write, element)


def next_place(held: Counted) -> tuple[Any, Any]:
    """The place behind the last, and how many they are with it."""
    count: Any = held.count + 1
    if held.capacity != _room():
        return held.count, count
    value = here().emit(RoomOp, i64(count), function="append", size=(held.capacity,))
    count = Tracer(here(), value, weak=True)
    return count - 1, count


def _room() -> Dim | None:
    """The room that grows, if the program has some."""
    return None if here().room is None else room_size()


def i64(value: Any) -> SSAValue:
    return convert(lift(value).value, I64)


def _followed(held: Counted, other: Counted) -> Counted:
    """With others behind them."""
    from mlc.frontend import numpy as names

    held = fitting(held, Layout.of(other), other.capacity)
    count: Any = lift(held.count) + lift(other.count)
    at: Any = places(held) - held.count
    inside = names.logical_and(at >= 0, at < other.count)
    source = names.clip(at, 0, size_of(other.capacity) - 1)

    def write(x: Tracer, y: Any) -> Any:
        taken: Any = names.take(y, source, axis=0)
        return names.where(wide(inside, x), names.astype(taken, x.row.numpy), x)

    return with_rows(held, as_number(count), write, other.rows)


def size_of(dim: Dim) -> Any:
    return lift(as_size(dim))


def places(held: Counted) -> Any:
    """0, 1, … up to what there is room for."""
    from mlc.frontend import numpy as names

    return names.arange(as_size(held.capacity))


def as_number(count: Any) -> Any:
    return Tracer(here(), i64(count), weak=True)


def wide(mask: Any, x: Tracer) -> Any:
    return mask.reshape((-1, *([1] * (x.ndim - 1)))) if x.ndim > 1 else mask


# Elements


def place_in(held: Counted, key: Any) -> Any:
    """Where an element stands; a place beyond the last is one beyond all that there is room for."""
    from mlc.frontend import numpy as names

    if isinstance(held.count, int) and isinstance(key, int):
        if not -held.count <= key < held.count:
            raise IndexError("list index out of range")
        return key % held.count
    count, index = lift(held.count), lift(key)
    if isinstance(key, int):
        index = count + key if key < 0 else index
    else:
        index = names.where(names.less(index, 0), names.add(index, count), index)
    outside = names.logical_or(names.less(index, 0), names.greater_equal(index, count))
    beyond = size_of(held.capacity)
    return as_number(names.where(outside, beyond, index))


def element(held: Counted, place: Any) -> Any:
    """The element at a place."""
    leaves, structure = flatten(held.rows)
    found: list[Any] = []
    for x in leaves:
        if isinstance(x, Tracer):
            row = Tracer(here(), x[place].value, weak=x.weak)
            if is_pythons_int(row):
                here().ints.from_lists[row.value] = Dim.const(1)
            found.append(row)
        else:
            found.append(x)
    return unflatten(structure, found)


def as_array(held: Counted) -> Tracer:
    """The elements as NumPy makes an array of them."""
    return _array_of(used_rows(held).rows)


def _array_of(rows: Any) -> Tracer:
    from mlc.frontend import numpy as names

    if isinstance(rows, Tracer):
        return Tracer(here(), rows.value)
    leaves, _ = flatten(rows)
    if not all(isinstance(x, Tracer) for x in leaves):
        raise refused("constants among them")
    return names.stack([_array_of(x) for x in rows], axis=1)


def used_rows(held: Counted) -> Counted:
    """The rows without the room behind them."""
    leaves, structure = flatten(held.rows)
    if isinstance(held.count, int):
        found = [x[: held.count] if isinstance(x, Tracer) else x for x in leaves]
        return Counted(held.count, unflatten(structure, found))
    used = symbol_of(i64(held.count), held.capacity)
    cut: list[Any] = []
    for x in leaves:
        if isinstance(x, Tracer):
            cut.append(Tracer(here(), first_of(x.value, (used, *x.dims[1:])), weak=x.weak))
        else:
            cut.append(x)
    return Counted(held.count, unflatten(structure, cut))


def as_arrays(args: Sequence[Any]) -> list[Any]:
    """Arguments of a NumPy function: arrays in the place of such lists, also of those in lists."""
    return [_as_array(x) for x in args]


def _as_array(value: Any) -> Any:
    if is_counted(value):
        return as_array(counted_of(value))
    if type(value) not in (list, tuple) or not any(type(x) in (list, tuple) for x in value):
        return value
    parts = as_arrays(value)
    return value if all(x is y for x, y in zip(parts, value, strict=True)) else parts


def as_index(key: Any) -> Any:
    """The index of an array, with arrays in the place of such lists."""
    if is_tuple(key):
        return tuple(as_arrays(key))
    return as_array(counted_of(key)) if is_counted(key) else key


def settled(obj: list[Any], total: int | None) -> None:
    """Behind a loop that gave a list room: it has the length that it must have, if known."""
    held = counted_of(obj)
    count = held.count if total is None else total
    if isinstance(count, int) and count <= MOST_APART:
        touched(obj)
        put_contents(obj, [element(held, k) for k in range(count)])
    elif held.capacity != _room():
        put(obj, Counted(count, held.rows))
    elif total is not None:
        put(obj, type(held)(count, held.rows))
