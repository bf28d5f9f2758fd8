"""Sizes that the program computes, as symbols: `mlc.bind` in the trace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, highest
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.comparison import MaxOp
from mlc.dialects.tensor.control import ControlOp, yield_of
from mlc.dialects.tensor.create import SizeOp, full
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.room import RoomOp
from mlc.frontend.trace.paths import HiddenInput, object_path
from mlc.frontend.trace.symbolic import bounds
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

ZERO = Dim.const(0)


def bound_symbol(value: SSAValue, limit: Dim) -> Dim:
    """A new symbol for a number (i64, of no axes) between 0 and the limit."""
    trace = here()
    known = {*trace.symbols, *trace.limits}
    names = (f"k{number}" if number else "k" for number in range(len(known) + 1))
    name = next(name for name in names if name not in known)
    trace.limits[name] = highest(limit, trace.limits)
    trace.insert(BindOp.of(name, value, limit))
    return Dim.symbol(name)


def symbol_of(count: SSAValue, limit: Dim) -> Dim:
    """A symbol for a number between 0 and the limit; one for equal numbers."""
    trace = here()
    for known, most, bind, symbol in trace.counts:
        if most == limit and bind.parent in trace.scopes and same_value(known, count, {}):
            return symbol
    symbol = bound_symbol(count, limit)
    bind = trace.scopes[-1].last_op
    assert bind is not None
    trace.counts.append((count, limit, bind, symbol))
    return symbol


class Room:
    """Room for sizes that nothing bounds: the size of an array that is only looked at."""

    FIRST: ClassVar[int] = 1 << 6  # measured: docs/measurements.md, Kernels as they are written

    def __init__(self) -> None:
        self.array: np.ndarray[Any, Any] = np.empty(self.FIRST, bool)

    def grow(self, needed: int) -> None:
        """To a power of two, so that few calls begin again."""
        if needed > self.array.size:
            self.array = np.empty(1 << (needed - 1).bit_length(), bool)


def roomy_symbol(function: str, count: SSAValue) -> Dim:
    """A symbol for a number that nothing bounds, which `function` counts; one for equal numbers."""
    trace, size = here(), room_size()
    for known, value, symbol in trace.rooms:
        if trace.visible(value) and same_value(known, count, {}):
            return symbol
    value = trace.emit(RoomOp, count, function=function, size=(size,))
    trace.rooms.append((count, value, symbol := bound_symbol(value, size)))
    return symbol


def room_size() -> Dim:
    """How many elements there is room for where nothing bounds a number of them."""
    trace = here()
    if trace.room is None:
        trace.room = room = Room()
        name = next(n for n in ("room", *(f"room{k}" for k in range(99))) if n not in trace.symbols)
        path = object_path(room, "room").attr("array")
        trace.hidden.append(HiddenInput(path))
        trace.hidden_arrays.append(room.array)
        trace.keep.append(room)
        value = trace.argument(path.text, BOOL, (Dim.symbol(name),))
        trace.arrays[id(room.array)] = Tracer(trace, value)
    return trace.arrays[id(trace.room.array)].dims[0]


def natural(dim: Dim) -> Dim:
    """max(dim, 0) of a size; a symbol of its own where the program must find out."""
    low, high = bounds(dim)
    if low is not None and low >= 0:
        return dim
    if high is not None and high <= 0:
        return ZERO
    trace = here()
    for size, value, symbol in trace.naturals:
        if size == dim and trace.visible(value):
            return symbol
    value = trace.emit(MaxOp, trace.emit(SizeOp, dims=(dim,)), full(trace.b, 0, I64, ()))
    limit = Dim(tuple((monomial, c) for monomial, c in dim.terms if c > 0))
    symbol = bound_symbol(value, limit)
    trace.naturals.append((dim, value, symbol))
    return symbol


def same_value(x: SSAValue, y: SSAValue, seen: dict[tuple[SSAValue, SSAValue], bool]) -> bool:
    """Whether two values are computed in the same way."""
    if x is y:
        return True
    pair = (x, y)
    if pair not in seen:
        a, b = x.owner, y.owner
        seen[pair] = False
        if isinstance(a, ControlOp) and a is b and x.type == y.type:
            seen[pair] = _same_results(a, (a.results.index(x), a.results.index(y)), seen)
        else:
            seen[pair] = (
                isinstance(a, TensorOp)
                and isinstance(b, TensorOp)
                and type(a) is type(b)
                and not a.regions
                and x.type == y.type
                and a.properties == b.properties
                and all(same_value(p, q, seen) for p, q in zip(a.operands, b.operands, strict=True))
            )
    return seen[pair]


def _same_results(
    op: ControlOp, places: tuple[int, int], seen: Mapping[tuple[SSAValue, SSAValue], bool]
) -> bool:
    """Of a branch or a loop: where two numbers are the same before a trip, they are after it."""
    tried = dict(seen)
    if op.repeats:
        j, k = (place - op.first_carried for place in places)
        if min(j, k) < 0 or not op.starts or not same_value(op.starts[j], op.starts[k], tried):
            return False
        for block in op.blocks:
            carried = op.carried_in(block)
            tried[carried[j], carried[k]] = True
        places = j, k
    values = [yield_of(block).values for block in op.yielding()]
    return all(same_value(x[places[0]], x[places[1]], tried) for x in values)
