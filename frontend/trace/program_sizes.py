"""Sizes that the program computes, as symbols: `mlc.bind` in the trace."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, highest
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.comparison import MaxOp
from mlc.dialects.tensor.create import SizeOp, full
from mlc.frontend.trace.symbolic import bounds
from mlc.frontend.trace.trace import here

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
