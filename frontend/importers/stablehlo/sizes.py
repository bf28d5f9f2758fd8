# pyright: basic
"""
Integers that decide on shapes, known while a module is traced: numbers, or sizes of arguments.

JAX writes the arithmetic on open sizes as ops on small arrays of integers. Beside its traced value
such an array has its elements as `Dim`s here, and a comparison that depends on sizes what it
compares, so that shapes are sizes of ours and one program serves them all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.errors import ShapeError
from mlc.frontend.importers.stablehlo.program import Function, Kind, Module, Op, TensorKind
from mlc.frontend.importers.stablehlo.shapes import (
    broadcast_in_dim,
    concatenate,
    sizes_of,
    slice_,
)
from mlc.frontend.trace.symbolic import bounds
from mlc.frontend.trace.trace import here
from mlc.lazy_dataclass import dataclass

Known = np.ndarray[Any, Any]
"""An array of `Dim`s and `Compared`s."""
MOST = 64  # elements: the rank of a tensor, times two or three
_ZERO, _ONE = Dim.const(0), Dim.const(1)


@dataclass(frozen=True)
class Compared:
    """A comparison of a size with 0 that holds for some sizes: `EQ` or `GE`."""

    direction: str
    dim: Dim


class _Open(Exception):  # noqa: N818 - not an error: the number is not known
    """Depends on more than sizes can say."""


def known(op: Op, operands: Sequence[Known | None], shapes: Sequence[Shape]) -> Known | None:
    """The elements of an op's result, where they are known. `shapes`: the operands'."""
    kind = op.kinds[0] if len(op.kinds) == 1 else None
    if not isinstance(kind, TensorKind) or not _is_small(kind):
        return None
    if op.name == "constant":
        return _dims(op.get("value"))
    if op.name == "get_dimension_size":
        axis = int(op.get("dimension", 0))
        return _array(shapes[0][axis]) if 0 <= axis < len(shapes[0]) else None
    row = _ROWS.get(op.name)
    if row is None or any(x is None for x in operands):
        return None
    try:
        return row(op, kind, *operands)
    except _Open:
        return None


def _is_small(kind: TensorKind) -> bool:
    whole = kind.dtype in ("i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "index")
    sizes = [n for n in kind.shape if n is not None]
    return whole and len(sizes) == len(kind.shape) and math.prod(sizes) <= MOST


def _array(dim: Dim) -> Known:
    found = np.empty((), object)
    found[()] = dim
    return found


def _dims(values: Any) -> Known:
    found = np.empty(np.shape(values), object)
    for at, value in np.ndenumerate(values):
        found[at] = Dim.const(int(value))
    return found


def _each(function: Callable[..., Any]) -> Callable[..., Known]:
    """A function of elements, for whole arrays."""

    def apply(_: Op, __: TensorKind, *operands: Known) -> Known:
        found = np.empty(np.broadcast_shapes(*(x.shape for x in operands)), object)
        whole = [np.broadcast_to(x, found.shape) for x in operands]
        for at in np.ndindex(found.shape):
            found[at] = function(*(x[at] for x in whole))
        return found

    return apply


def _number(value: Any) -> Dim:
    if not isinstance(value, Dim):
        raise _Open
    return value


def _numbers(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *values: function(*map(_number, values))


def _holds(direction: str, dim: Dim) -> Any:
    """Whether dim EQ 0, or dim GE 0."""
    least, most = bounds(dim)
    if direction == "GE":
        if least is not None and least >= 0:
            return _ONE
        if most is not None and most < 0:
            return _ZERO
    elif dim.constant is not None:
        return _ONE if dim.constant == 0 else _ZERO
    elif (least or 0) > 0 or (most or 0) < 0:
        return _ZERO
    return Compared(direction, dim)


def _not(value: Any) -> Any:
    if isinstance(value, Compared):
        if value.direction == "GE":
            return _holds("GE", -value.dim - 1)
        raise _Open
    return _ONE - value


def _compare(op: Op, kind: TensorKind, x: Known, y: Known) -> Known:
    direction = op.get("comparison_direction")
    one = {
        "EQ": lambda a, b: _holds("EQ", a - b), "NE": lambda a, b: _not(_holds("EQ", a - b)),
        "GE": lambda a, b: _holds("GE", a - b), "LE": lambda a, b: _holds("GE", b - a),
        "GT": lambda a, b: _holds("GE", a - b - 1), "LT": lambda a, b: _holds("GE", b - a - 1),
    }[direction]  # fmt: skip
    return _each(_numbers(one))(op, kind, x, y)


def _divide(x: Dim, y: Dim) -> Dim:
    if x.constant is not None and y.constant:
        size = abs(x.constant) // abs(y.constant)
        return Dim.const(size if (x.constant < 0) == (y.constant < 0) else -size)
    if y.terms and (quotient := x.exact_quotient(y)) is not None:
        return quotient
    least = bounds(x)[0]
    if least is None or least < 0 or y.constant is None or y.constant <= 0:
        raise _Open
    return x // y.constant


def _larger(x: Dim, y: Dim) -> Dim:
    decided = _holds("GE", x - y)
    if isinstance(decided, Compared):
        raise _Open
    return x if decided == _ONE else y


def _chosen(condition: Any, x: Any, y: Any) -> Any:
    if isinstance(condition, Compared):
        if x == y:
            return x
        raise _Open
    return x if condition == _ONE else y


def _as_kind(op: Op, kind: TensorKind, x: Known) -> Known:
    if kind.dtype == "i1":
        return _each(lambda a: a if isinstance(a, Compared) else _not(_holds("EQ", a)))(op, kind, x)
    return _each(_number)(op, kind, x)


def _settled_by(settles: Dim, leaves: Dim) -> Callable[..., Any]:
    """`and` or `or`: which value of either side settles it, and which leaves it to the other."""

    def apply(x: Any, y: Any) -> Any:
        if settles in (x, y):
            return settles
        if x == leaves:
            return y
        if y == leaves or x == y:
            return x
        raise _Open

    return apply


def _logical(function: Callable[..., Any]) -> Callable[..., Known]:
    def apply(op: Op, kind: TensorKind, *operands: Known) -> Known:
        if kind.dtype != "i1":
            raise _Open
        return _each(function)(op, kind, *operands)

    return apply


_ROWS: Mapping[str, Callable[..., Known]] = {
    "add": _each(_numbers(lambda x, y: x + y)), "subtract": _each(_numbers(lambda x, y: x - y)),
    "multiply": _each(_numbers(lambda x, y: x * y)), "divide": _each(_numbers(_divide)),
    "remainder": _each(_numbers(lambda x, y: x - _divide(x, y) * y)),
    "negate": _each(_numbers(lambda x: -x)), "maximum": _each(_numbers(_larger)),
    "minimum": _each(_numbers(lambda x, y: x + y - _larger(x, y))),
    "compare": _compare, "select": _each(_chosen), "convert": _as_kind,
    "and": _logical(_settled_by(_ZERO, _ONE)), "or": _logical(_settled_by(_ONE, _ZERO)),
    "not": _logical(_not), "reshape": lambda op, _, x: x.reshape(sizes_of(op)),
    "broadcast_in_dim": lambda op, _, x: broadcast_in_dim(op, x, sizes_of(op)),
    "concatenate": lambda op, _, *xs: concatenate(op, *xs),
    "slice": lambda op, _, x: slice_(op, x),
}  # fmt: skip
"""Ops on known integers."""


# the sizes of a function's arguments


def argument_shapes(module: Module, function: Function) -> list[Shape]:
    """
    A shape for each argument, in which sizes that are open are symbols: one for those that the
    function's assertions say are equal, and multiples where they say that. ShapeError where no
    sizes fulfil an assertion.
    """
    shapes = [_opened(k, kind) for k, kind in enumerate(function.inputs)]
    while any(d.constant is None for shape in shapes for d in shape):
        solved = _solved(_asserted(module, function, shapes))
        if solved is None:
            break
        shapes = [tuple(d.substitute(solved) for d in shape) for shape in shapes]
    return shapes


def _opened(k: int, kind: Kind) -> Shape:
    sizes = kind.shape if isinstance(kind, TensorKind) else ()
    return tuple(
        Dim.symbol(f"a{k}_{axis}") if n is None else Dim.const(n) for axis, n in enumerate(sizes)
    )


def _asserted(module: Module, function: Function, shapes: Sequence[Shape]) -> list[Any]:
    """What the assertions at the function's top level compare."""
    values: dict[str, Known] = {}
    places = dict(zip(function.region.arguments, shapes, strict=True))
    found: list[Any] = []
    for op in function.region.ops:
        operands = [values.get(name) for name in op.operands]
        if op.get("call_target_name") == "shape_assertion":
            found += [] if operands[0] is None else [operands[0][()]]
        elif op.operands and op.name == "get_dimension_size" and op.operands[0] not in places:
            continue
        elif (one := known(op, operands, [places.get(x, ()) for x in op.operands])) is not None:
            values[op.results[0]] = one
    return found


def _solved(asserted: Iterable[Any]) -> dict[str, Dim] | None:
    """Symbols that an equation says: one that is linear in it, or a remainder that is 0."""
    for each in asserted:
        if not isinstance(each, Compared) or each.direction != "EQ":
            continue
        for monomial, coefficient in each.dim.terms:
            rest = each.dim - Dim(((monomial, coefficient),))
            if abs(coefficient) == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
                name = monomial[0]
                if name not in rest.symbols():
                    return {name: rest * -coefficient}
                divisor = _remainder_of(name, rest, coefficient)
                if divisor is not None:
                    return {name: Dim.symbol(name) * divisor}
    return None


def _remainder_of(name: str, rest: Dim, coefficient: int) -> int | None:
    """k where `coefficient * name + rest` is name - name // k * k, or its negative."""
    symbol = Dim.symbol(name)
    if len(rest.terms) != 1:
        return None
    ((_, scale),) = rest.terms
    divisor = -scale * coefficient
    return divisor if divisor > 1 and rest * coefficient == symbol // divisor * -divisor else None


def checked(asserted: Any, message: str, operands: Sequence[Known | None]) -> None:
    """A shape assertion: known to hold, relied on and checked at each call, or a ShapeError."""
    said = message
    for k, each in enumerate(operands):
        said = said.replace(f"{{{k}}}", "?" if each is None else str(each[()]))
    if asserted == _ZERO:
        raise ShapeError(said)
    if isinstance(asserted, Compared):
        here().assume(asserted.dim, said)
        if asserted.direction == "EQ":
            here().assume(-asserted.dim, said)
