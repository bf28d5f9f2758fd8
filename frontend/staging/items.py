"""What a `for` goes over: how many items, and the item at a place that is traced, or known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.some import SomeOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.staging.counted import Counted, counted_of, element, is_counted
from mlc.frontend.staging.sometimes import check
from mlc.frontend.trace.kinds import class_of
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import SymbolicDim, as_dim, bounds, is_bound
from mlc.frontend.trace.trace import current, here, lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

Place = int | Tracer
MOST_SIZES_WITHOUT_TRIPS = 4
"""That a loop over a range takes for granted not to be given: each is another program."""
_RANGE_ITERATOR: Any = type(iter(range(0)))


@dataclass(frozen=True)
class Items:
    """Items by their places; `count` is an int where it is known."""

    count: Any
    at: Callable[[Any], Any]
    python: Callable[[], Iterable[Any]] = tuple  # the same, where Python goes over it
    parallel: bool = False  # trips may run at once
    checked: bool = False  # and whether they do is seen when they run
    arrays: tuple[Tracer, ...] = ()  # of whose elements they are made
    series: tuple[list[Any], ...] = ()  # and lists whose length only the compiled function knows
    each: Callable[[Any], Any] | None = None  # what makes an item, in its trip, of what is there

    def __iter__(self) -> Iterator[Any]:
        if self.known:
            return (self.made(self.at(k)) for k in range(self.count))
        return iter(self.python())

    def after(self, first: int) -> Items:
        """Without the first ones."""
        count = self.count - first
        rest = Items(count, lambda k: self.at(k + first), lambda: list(self)[first:])
        rest = replace(rest, parallel=self.parallel, checked=self.checked)
        return replace(rest, arrays=self.arrays, series=self.series, each=self.each)

    def made(self, found: Any) -> Any:
        """The item of what is at its place."""
        return found if self.each is None else self.each(found)

    @property
    def known(self) -> bool:
        """Whether the count is known when the function is traced."""
        return isinstance(self.count, int)


def items_of(value: Any) -> Items | None:
    """The items of what can be indexed at a traced place; None of anything else."""
    if isinstance(value, Items):
        return value
    if isinstance(value, _RANGE_ITERATOR):  # reversed(range(…))
        _, (value,), passed = value.__reduce__()
        value = value[passed or 0 :]
    if isinstance(value, range):
        start, step = value.start, value.step
        return Items(len(value), lambda k: start + k * step)
    if is_counted(value):
        held = counted_of(value)
        found = Items(held.count, lambda k: element(held, k), lambda: _counted_one_by_one(held))
        return replace(found, series=(value,))
    if isinstance(value, Tracer) and value.dims:
        size = value.shape[0]
        count = size if isinstance(size, int) else lift_size(size)
        return Items(count, lambda k: value[k], lambda: iter(value), arrays=(value,))
    return None


def iterated(value: Any) -> Iterator[Any]:
    """iter(value); the error at the user's line, which may be one of the program."""
    if not hasattr(class_of(value), "__iter__") and not hasattr(class_of(value), "__getitem__"):
        raise located(DTypeError, f"{class_of(value).__name__!r} object is not iterable")
    return iter(check(value))


def traced(value: Any) -> bool:
    """Whether only the program goes over it, or may."""
    return isinstance(value, Tracer | Items) or is_counted(value)


def _counted_one_by_one(held: Counted) -> Iterator[Any]:
    """Of a length that Python knows."""
    if not isinstance(held.count, int):
        held.fail()
    return (element(held, k) for k in range(held.count))


def ranged(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """range(…) of numbers that the compiled function computes, or of open sizes."""
    integers = here().ints.known.keys()
    open_ = [x for x in args if isinstance(x, Tracer) and not (x.origins and x.origins <= integers)]
    open_ = [x for x in open_ if x.from_constants() is None]
    sizes = any(isinstance(x, SymbolicDim) for x in args)
    if not open_ and not sizes:
        return range(*args, **kwargs)
    for x in open_:
        if x.dims or x.row.kind not in ("int", "uint"):
            what = f"an array {spell(x.dims)}" if x.dims else f"a number of {x.row.numpy}"
            message = f"range: a bound is {what}; expected integers."
            remedy = f"Convert it: range(int({name_of(x) or '…'}))."
            raise located(DTypeError, message, remedy="" if x.dims else remedy)
    numbers = [lift_size(x) if isinstance(x, SymbolicDim) else x for x in args]
    start, stop, step = _bounds(numbers)
    sign = _sign(step)
    if sign == 0:
        raise ValueError("range() arg 3 must not be zero")
    made = _size_of_range(args)
    if made is None:
        distance, width = _length(start, stop, step, sign)
        one = isinstance(width, int) and width == 1
        made = as_integer(distance if one else (distance + width - 1) // width)
    return Items(made, lambda k: start + k * step, lambda: range(*args))


def _bounds(args: Sequence[Any]) -> tuple[Any, Any, Any]:
    """Where a range starts, where it stops, and its step."""
    return (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]  # pyright: ignore[reportReturnType]


def _size_of_range(args: Sequence[Any]) -> Tracer | None:
    """
    The trips of a range between sizes, as a size: of `range(1, n - 1)` it is n - 2, if it is taken
    for granted that n is not 0 or 1, for which there is another program. None where more sizes than
    a few have no trip.
    """
    start, stop, step = (as_dim(x) for x in _bounds(args))
    width = None if step is None else step.constant
    if start is None or stop is None or not width or is_bound(start) or is_bound(stop):
        return None
    span = stop - start if width > 0 else start - stop
    low, _ = bounds(span)
    if low is None or low < -MOST_SIZES_WITHOUT_TRIPS:
        return None
    if low < 0:
        here().assume(span, f"range counts from {start} to {stop}")
    return lift_size((span + (abs(width) - 1)) // abs(width))


def _sign(step: Any) -> int | None:
    """Which way a range goes; None where that is known only when the program runs."""
    if not isinstance(step, Tracer):
        return (step > 0) - (step < 0)
    from mlc.frontend import numpy as names

    ranges = here().bound.ranges
    whole: Any = names.astype(step, "int64")
    known = ranges.of(whole.value)
    return next((sign for sign in (1, -1) if ranges.is_natural(known * sign - 1)), None)


def _length(start: Any, stop: Any, step: Any, sign: int | None) -> tuple[Any, Any]:
    """How far a range goes, and how wide its steps are: at least 1, or the call ends."""
    if sign is not None:
        return (stop - start, step) if sign > 0 else (start - stop, -step)
    from mlc.frontend import numpy as names

    whole: Any = names.astype(names.abs(step), "int64")
    width = Tracer(here(), here().emit(SomeOp, whole.value, reduction="range"), weak=True)
    return names.where(step > 0, stop - start, start - stop), width


def prange(*bounds: Any, check: bool = False) -> Any:
    """
    `range(…)` whose trips may run at once, on several threads: each may write elements of arrays at
    places of its own, and add up numbers (`s += x[i]`; products, minima and maxima likewise), in
    chunks that do not depend on the number of threads. Outside of compiled functions it is `range`.

    Raises ParallelError when the function is compiled, if trips depend on one another: the lines,
    and where possible two trips that meet. `check`: of elements whose places data decide, that is
    seen in each call, before the trips run: it goes through them once more, in order.
    SOURCE: numba's prange; parfor of SystemML's DML.
    """
    if current() is None:
        return range(*bounds)
    items = items_of(ranged(range, bounds, {}))
    assert items is not None
    return replace(items, parallel=True, checked=check)


def as_integer(count: Any) -> Any:
    """A count as an i64, with the weak dtype of a Python int."""
    from mlc.frontend import numpy as names

    found: Any = names.astype(names.maximum(count, 0), "int64")
    found.weak = True
    return found


def enumerated(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """enumerate(…)"""
    first: Any = kwargs.get("start", args[1] if len(args) > 1 else 0)
    value = args[0] if args else kwargs.get("iterable")
    items = items_of(value) if traced(value) else None
    if items is None:
        return enumerate(*args, **kwargs)
    found = Items(items.count, lambda k: (first + k, items.at(k)), lambda: enumerate(items, first))
    found = replace(found, arrays=items.arrays, series=items.series)
    if items.each is None:
        return found

    def each(numbered: tuple[Any, Any]) -> tuple[Any, Any]:
        return numbered[0], items.made(numbered[1])

    return replace(found, each=each)


def zipped(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """zip(…)"""
    parts = [_pythons(x) if _is_pythons(x) else items_of(x) for x in args]
    if not any(map(traced, args)) or any(x is None for x in parts):
        return zip(*args, **kwargs)  # noqa: B905 - as the user says
    found = [x for x in parts if x is not None]
    counts = [x.count for x in found]
    if kwargs.get("strict") and any(x is not y for x in counts for y in counts if x != y):
        raise located(ShapeError, "zip: the arguments have different lengths.")
    known = [x for x in counts if isinstance(x, int)]
    rest = [x for x in counts if not isinstance(x, int)]
    count: Any = min(known) if known else rest.pop()
    for x in rest:
        from mlc.frontend import numpy as names

        count = as_integer(names.minimum(count, x))
    made = Items(count, lambda k: tuple(x.at(k) for x in found), lambda: zip(*found, strict=False))
    arrays = tuple(a for x in found for a in x.arrays)
    made = replace(made, arrays=arrays, series=tuple(a for x in found for a in x.series))
    if all(x.each is None for x in found):
        return made

    def each(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(x.made(part) for x, part in zip(found, row, strict=True))

    return replace(made, each=each)


def _is_pythons(value: Any) -> bool:
    return type(value) in (list, tuple) and not is_counted(value)


def _pythons(values: list[Any] | tuple[Any, ...]) -> Items:
    """Python values beside traced ones, each of which is read in its own trip."""

    def at(place: Any) -> Any:
        if not isinstance(place, int):
            message = "Python values have no place in a program by their number."
            raise located(NotSupportedError, message, remedy="Stack them: np.stack(values).")
        return values[place]

    return Items(len(values), at)


def turned(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """reversed(…)"""
    items = items_of(args[0]) if len(args) == 1 and traced(args[0]) else None
    if items is None:
        return reversed(*args, **kwargs)
    found = Items(
        items.count, lambda k: items.at(items.count - 1 - k), lambda: reversed(list(items))
    )
    return replace(found, arrays=items.arrays, series=items.series)
