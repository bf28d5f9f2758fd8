"""Methods and items of lists whose length only the compiled function knows (counted.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlc.dialects.dims import Dim
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.python_numbers import item
from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.counted import (
    Counted,
    Fixed,
    Layout,
    appended,
    as_array,
    as_number,
    counted_of,
    element,
    fitting,
    is_counted,
    made,
    next_place,
    overwritten,
    place_in,
    places,
    put,
    refused,
    size_of,
    used_rows,
    wide,
    with_rows,
)
from mlc.frontend.staging.joins import RAISED
from mlc.frontend.staging.journal import put_contents, touched
from mlc.frontend.staging.many import of_each, with_listed
from mlc.frontend.staging.sized import padded
from mlc.frontend.staging.sometimes import check
from mlc.frontend.trace.containers import flatten, unflatten
from mlc.frontend.trace.effects import effects
from mlc.frontend.trace.kinds import is_tuple
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.transform import take_care


class _Methods:
    """Methods of lists and deques, by name."""

    @staticmethod
    def append(obj: list[Any], value: Any) -> None:
        put(obj, appended(counted_of(obj), value))
        _limit(obj)

    @staticmethod
    def extend(obj: list[Any], values: Any) -> None:
        (values,) = with_listed(list, (values,))
        found: list[Any] = [counted_of(values)] if is_counted(values) else list(values)
        held = counted_of(obj)
        room = held.capacity if isinstance(held, Fixed) else None
        put(obj, made([held, *found], room=room, kind=type(held)))
        _limit(obj)

    @staticmethod
    def pop(obj: list[Any], key: Any = -1) -> Any:
        held = counted_of(obj)
        found = element(held, place_in(held, key))
        put(obj, _without(held, key))
        return found

    @staticmethod
    def popleft(obj: list[Any]) -> Any:
        return _Methods.pop(obj, 0)

    @staticmethod
    def appendleft(obj: list[Any], value: Any) -> None:
        _Methods.insert(obj, 0, value)
        _limit(obj, left=True)

    @staticmethod
    def clear(obj: list[Any]) -> None:
        touched(obj)
        put_contents(obj, [])

    @staticmethod
    def copy(obj: list[Any]) -> list[Any]:
        return obj.copy()

    @staticmethod
    def reverse(obj: list[Any]) -> None:
        put(obj, turned(counted_of(obj)))

    @staticmethod
    def sort(obj: list[Any], *, key: Any = None, reverse: Any = False) -> None:
        held = counted_of(obj)
        put(obj, ordered(held, keys_of(held, key), reverse))

    @staticmethod
    def insert(obj: list[Any], place: Any, value: Any) -> None:
        from mlc.frontend import numpy as names

        held = fitting(counted_of(obj), Layout.of(value), Dim.const(1))
        index: Any = lift(place)
        index = names.where(index < 0, names.maximum(index + held.count, 0), index)
        index = names.minimum(index, held.count)
        _, count = next_place(held)
        at: Any = places(held)
        source = names.maximum(names.where(at > index, at - 1, at), 0)
        held = picked(held, source, count)

        def write(x: Tracer, new: Any) -> Any:
            return names.where(wide(at == index, x), names.astype(lift(new), x.row.numpy), x)

        put(obj, with_rows(held, count, write, value))

    @staticmethod
    def index(obj: list[Any], value: Any) -> Any:
        from mlc.frontend import numpy as names

        same: Any = as_array(counted_of(obj)) == value
        _check(names.any(same), "list.index(x): x not in list")
        return as_number(names.argmax(same))

    @staticmethod
    def remove(obj: list[Any], value: Any) -> None:
        _Methods.pop(obj, _Methods.index(obj, value))

    @staticmethod
    def count(obj: list[Any], value: Any) -> Any:
        from mlc.frontend import numpy as names

        return as_number(names.sum(as_array(counted_of(obj)) == value))


def _limit(obj: Any, *, left: bool = False) -> None:
    """A deque that holds more than it may loses elements at the end where none was added."""
    from mlc.frontend import numpy as names

    most = getattr(obj, "maxlen", None)  # a list has none
    if most is None:
        return
    held = counted_of(obj)
    if isinstance(held.count, int) and held.count <= most:
        return
    known = isinstance(held.count, int)
    count: Any = most if known else as_number(names.minimum(held.count, most))
    if left:
        put(obj, type(held)(count, held.rows))
        return
    source = names.minimum(places(held) + (held.count - count), size_of(held.capacity) - 1)
    put(obj, picked(held, source, count))


def picked(held: Counted, source: Any, count: Any) -> Counted:
    """With the rows at other places."""
    from mlc.frontend import numpy as names

    return with_rows(held, count, lambda x, _: names.take(x, source, axis=0), held.rows)


def _without(held: Counted, key: Any) -> Counted:
    """Without the element at a place."""
    from mlc.frontend import numpy as names

    if isinstance(held.count, int):
        count: Any = held.count - 1
    else:
        count = as_number(names.maximum(held.count - 1, 0))
    if isinstance(key, int) and key == -1:
        return type(held)(count, held.rows)
    at: Any = places(held)
    place = place_in(held, key)
    last = size_of(held.capacity) - 1
    source = names.minimum(names.where(at >= place, at + 1, at), last)
    return picked(held, source, count)


def turned(held: Counted) -> Counted:
    """From the last to the first."""
    from mlc.frontend import numpy as names

    at: Any = places(held)
    return picked(held, names.maximum(lift(held.count) - 1 - at, 0), held.count)


def keys_of(held: Counted, key: Any) -> Any:
    """What a function gives for each element."""
    return None if key is None else used_rows(counted_of(of_each(key, [held]))).rows


def without_nans(rows: Any) -> Any:
    """Python compares each number with the best before it: NaN wins only where it is first."""
    from mlc.frontend import numpy as names

    return names.where(names.isnan(rows), rows[0], rows) if rows.row.kind == "float" else rows


def ordered(held: Counted, keys: Any = None, reverse: Any = False) -> Counted:
    """
    Sorted, as Python sorts: equal elements stay in their order. `keys`: one for each row, or what
    the elements are.
    """
    from mlc.frontend import numpy as names

    if keys is None and isinstance(held.rows, Tracer) and held.rows.ndim == 1 and not reverse:
        found: Any = names.sort(as_array(held))
        value = padded(found.value, (held.capacity,))
        return type(held)(held.count, Tracer(here(), value, weak=held.rows.weak))
    order: Any = order_of(used_rows(held).rows if keys is None else keys, reverse=reverse)
    return picked(held, padded_places(order, held.capacity), held.count)


def order_of(rows: Any, *, reverse: Any = False) -> Any:
    """Which row is the first, the second, … of them: numbers, or tuples of such."""
    from mlc.frontend import numpy as names

    columns = _columns(rows)
    size = columns[0].shape[0]
    if reverse:
        columns = [x[::-1] for x in columns]
    found: Any = names.lexsort(tuple(reversed(columns)))
    return (size - 1 - found)[::-1] if reverse else found


def _columns(rows: Any) -> list[Any]:
    leaves, _ = flatten(rows)
    if not all(isinstance(x, Tracer) and x.ndim == 1 for x in leaves):
        raise refused("what has no order among them")
    return leaves


def padded_places(order: Any, room: Dim) -> Any:
    """Places for all rows that there is room for."""
    return Tracer(here(), padded(order.value, (room,)))


def less(held: Counted, item: Any) -> Any:
    """Which rows stand before an item in an order; those behind the last do not."""
    from mlc.frontend import numpy as names

    columns, values = _columns(held.rows), flatten(item)[0]
    found: Any = None
    for column, value in reversed(list(zip(columns, values, strict=True))):
        before = column < value
        if found is not None:
            before = names.logical_or(before, names.logical_and(column == value, found))
        found = before
    return names.logical_and(found, places(held) < held.count)


def heappush(obj: list[Any], item: Any) -> None:
    """A heap is kept in order, so that its first element is the least, as in any heap."""
    from mlc.frontend import numpy as names

    if obj:
        held = counted_of(obj)
        _Methods.insert(obj, names.sum(less(held, item)), item)
    else:
        put(obj, made([item]))


def heappop(obj: list[Any]) -> Any:
    """The least element of a heap, which is taken out."""
    return _Methods.pop(obj, 0)


def heapify(obj: list[Any]) -> None:
    """A list in order is a heap."""
    put(obj, ordered(counted_of(obj)))


def method_of(obj: list[Any], name: str) -> Callable[..., Any]:
    """A method of such a list."""
    found = getattr(_Methods, name, None)
    if found is None:
        message = f"{type(obj).__name__}.{name} of a list whose length only the compiled function"
        remedy = "Make an array of it first: np.array(xs)."
        raise located(NotSupportedError, f"{message} knows.", remedy=remedy)
    return lambda *args, **kwargs: found(obj, *args, **kwargs)


def equal_lists(value: Any, other: Any) -> Any:
    """value == other, where the length of one of them is not known."""
    x, y = (value, other) if is_counted(value) else (other, value)
    if value is other or type(x) is not type(y):
        return value is other
    if y:
        counted_of(x).fail()
    empty = counted_of(x).count == 0
    return item(empty) if isinstance(empty, Tracer) else empty  # a bool of Python's


def unpacked(value: Any, pattern: Any) -> Any:
    """
    What is assigned to several targets. `pattern`: for each of them None, "*" for what takes the
    rest, or a pattern.
    """
    if not is_tuple(pattern):
        return value
    check(value)
    if is_counted(value):
        value = _taken_apart(value, pattern)
    if type(value) not in (list, tuple) or len(value) != len(pattern) or "*" in pattern:
        return value
    return [unpacked(x, part) for x, part in zip(value, pattern, strict=True)]


def _taken_apart(obj: list[Any], pattern: tuple[Any, ...]) -> list[Any]:
    """The elements, in the middle those for "*" as a list holds them."""
    held, size = counted_of(obj), len(pattern)
    star = pattern.index("*") if "*" in pattern else size
    behind = max(size - 1 - star, 0)
    least = star + behind
    at_least = "at least " if star < size else ""
    _check(held.count >= least, f"not enough values to unpack (expected {at_least}{least})")
    if star == size:
        _check(held.count <= least, f"too many values to unpack (expected {least})")
    first = [element(held, k) for k in range(star)]
    last = [element(held, held.count - behind + k) for k in range(behind)]
    middle: list[Any] = read(obj, slice(star, -behind or None)) if star < size else []
    return [*first, *middle, *last]


def _check(fits: Any, message: str) -> None:
    """A ValueError unless that holds, when the program runs where only it knows."""
    from mlc.frontend.staging.branches import choice

    if not isinstance(fits, Tracer):
        if not fits:
            raise ValueError(message)
        return

    def missing() -> Any:
        take_care(here().functions, 2)
        effects().fail(ValueError(message))
        return RAISED

    choice("the elements", fits, lambda: 0, missing)


def spread(value: Any) -> Any:
    """The elements of what is spread out among arguments, or in a tuple."""
    if not is_counted(value):
        return check(value)
    held = counted_of(value)
    if not isinstance(held.count, int):
        message = "a list whose length only the compiled function knows is spread out by *."
        remedy = "Give the list itself, or make an array of it first: np.array(xs)."
        raise located(NotSupportedError, message, remedy=remedy)
    return [element(held, k) for k in range(held.count)]


def written(obj: list[Any], key: Any, value: Any) -> None:
    """obj[key] = value"""
    if isinstance(key, slice):
        put(obj, _spliced(obj, key, value))
        return
    held = fitting(counted_of(obj), Layout.of(value), Dim.const(0))
    place = place_in(held, key)
    put(obj, overwritten(held, place, held.count, value))


def _spliced(obj: list[Any], key: Any, values: Any) -> Counted:
    """With other elements in the place of some that stand one after another."""
    if key.step not in (None, 1):
        message = "a slice with a step of a list whose length only the compiled function knows"
        remedy = "Assign element by element, or make an array of it first: np.array(xs)."
        raise located(NotSupportedError, f"{message} is assigned.", remedy=remedy)
    (values,) = with_listed(list, (values,))
    end = 0 if key.stop is None else key.stop
    behind: list[Any] = [] if key.stop is None else read(obj, slice(end, None))
    return made([*read(obj, slice(0, key.start or 0)), *values, *behind])


def read(obj: list[Any], key: Any) -> Any:
    """obj[key]"""
    held = counted_of(obj)
    if not isinstance(key, slice):
        return element(held, place_in(held, key))
    if key == slice(None):
        return [held]
    if key == slice(None, None, -1):
        return [turned(held)]
    used = used_rows(held)
    rows = [x[key] if isinstance(x, Tracer) else x for x in flatten(used.rows)[0]]
    first = next(x for x in rows if isinstance(x, Tracer))
    size = first.dims[0]
    count: Any = as_number(lift_size(size)) if size.constant is None else size.constant
    wide = [
        Tracer(here(), padded(x.value, (held.capacity, *x.dims[1:])))
        if isinstance(x, Tracer)
        else x
        for x in rows
    ]
    for x, y in zip(wide, flatten(held.rows)[0], strict=True):
        if isinstance(x, Tracer):
            x.weak = y.weak
    return [Counted(count, unflatten(flatten(held.rows)[1], wide))]
