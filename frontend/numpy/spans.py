"""Slices between numbers that only the compiled function knows, clipped as NumPy clips them."""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.comparison import CompareOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import SizeOp
from mlc.dialects.tensor.elementwise import AddOp, SubOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import convert, is_integer, number
from mlc.frontend.trace.program_sizes import bound_symbol, same_value
from mlc.frontend.trace.symbolic import as_dim
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

ZERO = Dim.const(0)


@dataclass(frozen=True)
class Span:
    """Of the `whole` elements of one axis from a number on every step-th, from the end if < 0."""

    offset: SSAValue
    whole: Dim
    step: int = 1
    single: ClassVar[bool] = False

    @property
    def count(self) -> Dim:
        """How many."""
        distance = abs(self.step)
        return (self.whole + (distance - 1)) // distance

    @property
    def first(self) -> Dim:
        """The first of them, in the whole."""
        return ZERO if self.step > 0 else self.whole - 1


def is_traced(part: slice[Any, Any, Any], size: Dim) -> bool:
    """Whether a slice is one of numbers of the program."""
    trace = here()
    if trace.examples or (trace.bound.inside and trace.derivatives):
        return False
    dims = (size, as_dim(part.start), as_dim(part.stop))
    if trace.bound.inside and any(trace.bound.is_bound(dim) for dim in dims if dim is not None):
        return True
    ends = (x for x in (part.start, part.stop) if isinstance(x, Tracer) and not x.dims)
    return any(is_integer(x.row) and x.from_constants() is None and not x.origins for x in ends)


def spell_slice(part: slice[Any, Any, Any]) -> str:
    """``1:-1:2``."""
    ends = [("" if v is None else str(v)) for v in (part.start, part.stop)]
    return ":".join([*ends, str(part.step)] if part.step is not None else ends)


def span_of(part: slice[Any, Any, Any], size: Dim) -> Span:
    """A slice of an axis. Raises ConcretizationError where no loop makes the numbers."""
    step = as_dim(1 if part.step is None else part.step)
    if step is None or not step.constant:
        raise located(DTypeError, "a slice needs a constant step other than zero.")
    if step.constant > 0:
        first, last = _clipped(part.start, size, ZERO), _clipped(part.stop, size, size)
    else:
        first, last = _clipped_next(part.stop, size, ZERO), _clipped_next(part.start, size, size)
    count = _at_least_zero(_difference(last, first))
    ranges = here().bound.ranges
    room = size - ranges.of(first)
    most = size if any(name[0] == "%" for name in room.symbols()) else room
    dim = here().bound.size(count, most)
    if dim is None and not here().bound.inside:
        dim = _span_size(count, size)
    if dim is None:
        for end in (part.start, part.stop):
            if isinstance(end, Tracer):
                end.__index__()
        raise located(DTypeError, "a slice whose size nobody knows.")
    return Span(first, dim, step.constant)


def _span_size(count: SSAValue, size: Dim) -> Dim:
    """The size of a slice outside of loops: numbers that are computed alike are one size."""
    trace = here()
    for value, limit, dim in trace.bound.spans:
        if limit == size and trace.visible(value) and same_value(value, count, {}):
            return dim
    dim = bound_symbol(count, size)
    trace.bound.spans.append((count, size, dim))
    return dim


def _clipped(value: Any, size: Dim, default: Dim) -> SSAValue:
    """An end of a slice in [0, size]."""
    return position_of(default) if value is None else _clip(_wrapped(value, size), size)


def _clipped_next(value: Any, size: Dim, default: Dim) -> SSAValue:
    """The position after an end of a slice that runs backwards."""
    if value is None:
        return position_of(default)
    return _clip(_emit(AddOp, _wrapped(value, size), number(1, I64)), size)


def _wrapped(value: Any, size: Dim) -> SSAValue:
    """An end of a slice, counted from the start."""
    dim = as_dim(value)
    if dim is not None and dim.constant is not None:
        return position_of(dim + size if dim.constant < 0 else dim)
    if dim is not None:
        value = lift_size(dim)
    if not isinstance(value, Tracer) or value.dims or not is_integer(value.row):
        raise located(DTypeError, f"a slice bound is {value!r}; expected an integer or None.")
    x = convert(value.value, I64)
    ranges = here().bound.ranges
    known = ranges.of(x)
    if ranges.is_natural(known):
        return x
    behind = _emit(AddOp, x, position_of(size))
    if ranges.is_natural(-known - 1):
        return behind
    zero = number(0, I64)
    negative = here().emit(CompareOp, x, zero, predicate="lt")
    return here().emit(SelectOp, negative, behind, x)


def _clip(x: SSAValue, size: Dim) -> SSAValue:
    ranges = here().bound.ranges
    if not ranges.is_natural(ranges.of(x)):
        x = _emit(MaxOp, x, position_of(ZERO))
    if not ranges.is_natural(size - ranges.of(x)):
        x = _emit(MinOp, x, position_of(size))
    return x


def _difference(x: SSAValue, y: SSAValue) -> SSAValue:
    if here().bound.ranges.of(y) == ZERO:
        return x
    return _emit(SubOp, x, y)


def _at_least_zero(x: SSAValue) -> SSAValue:
    ranges = here().bound.ranges
    return x if ranges.is_natural(ranges.of(x)) else _emit(MaxOp, x, position_of(ZERO))


def position_of(dim: Dim) -> SSAValue:
    """A dim as an i64."""
    if dim.constant is not None:
        return number(dim.constant, I64)
    return here().emit(SizeOp, dims=(dim,))


def _emit(op: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    """The op, or what it gave for the same operands in the same block."""
    trace = here()
    key = (trace.scopes[-1], op, x, y)
    found = trace.numbers.get(key)
    if found is None:
        found = trace.numbers[key] = trace.emit(op, x, y)
    return found
