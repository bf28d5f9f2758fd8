"""
Numbers of Python's: elements as such (`x.item()`, `x.tolist()`), which take the other's dtype, and
division by 0, which is an error of theirs and none of NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.dialects.dtypes import DType
from mlc.dialects.errors import ShapeError
from mlc.dialects.faults import ZERO_FAULTS
from mlc.dialects.tensor.division import DivisorOp
from mlc.frontend.errors import ConcretizationError, located
from mlc.frontend.numpy.shaping import reshape
from mlc.frontend.numpy.values import (
    common_dtype,
    common_origins,
    convert,
    counted,
    dtype_row,
    is_weak,
    lift,
    result,
    takes_float,
)
from mlc.frontend.trace.source import asked_by_user, name_of
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

MAX_LISTED = 1000
"""Elements that `tolist` takes one by one; each is a value of the program."""

_ROWS = {"bool": np.bool_, "int": np.int64, "uint": np.int64, "float": np.float64}


def item(x: Tracer, *args: Any) -> Tracer:
    """The element at a place as a Python number; without a place, of an array of one element."""
    place = args[0] if len(args) == 1 else args or None
    if place is not None:
        element = x[place] if isinstance(place, tuple) else reshape(x, (-1,))[place]
    elif x.ndim and x.size != 1:
        raise located(
            ShapeError,
            f"can only convert an array of size 1 to a Python scalar; found {x.shape}.",
            remedy=f"Name the element: {name_of(x) or 'x'}.item(0).",
        )
    else:
        element = reshape(x, ()) if x.ndim else x
    made = result(convert(element.value, _row_of(element, "item()")))
    made.weak, made.origins = True, element.origins
    return made


def attribute_of(x: Tracer, name: str) -> Any:
    """What arrays do not have: of a number of Python's among the arguments, as that has it."""
    if x.weak and x.origins and hasattr(x.row.numpy.type(0).item(), name):
        return getattr(x.__index__() if x.row.kind == "int" else float(x), name)
    raise AttributeError(f"'Tracer' object (a traced array) has no attribute {name!r}")


def _row_of(x: Tracer, what: str) -> DType:
    if x.row.kind == "complex":
        return dtype_row(np.complex128)
    if x.row.numpy == np.uint64 or x.row.kind not in _ROWS:
        raise located(
            ConcretizationError,
            f"{what} of {x.row.numpy} is a Python number of more values than a traced one has.",
            remedy=f"Convert it first: {name_of(x) or 'x'}.astype(np.int64).",
        )
    return dtype_row(_ROWS[x.row.kind])


def tolist(x: Tracer) -> Any:
    """Nested lists of Python numbers; of many in a row, one that holds them as rows."""
    from mlc.frontend.staging.counted import Counted
    from mlc.frontend.staging.items import items_of
    from mlc.frontend.staging.lazy import is_long

    if x.ndim == 1 and is_long(x):
        rows = result(convert(x.value, _row_of(x, "tolist()")))
        rows.weak = True
        items = items_of(x)
        assert items is not None
        return [Counted(items.count, rows)]
    if any(d.constant is None for d in x.dims) or int(x.size) > MAX_LISTED:
        raise located(
            ConcretizationError,
            f"tolist() of {x.row.numpy} {x.shape} would make each element a value of the program;"
            f" expected {MAX_LISTED:,} elements at most, in a size that is known.",
            remedy="Return the array, and call .tolist() on the result.",
        )
    return item(x) if not x.ndim else [tolist(lift(row)) for row in x]


# Division

DIVISIONS = {
    "true_divide": "/",
    "floor_divide": "//",
    "remainder": "%",
    "divmod": "divmod",
    "power": "**",
}
"""mlc.numpy's functions for operators that raise ZeroDivisionError, of numbers of Python's."""

THROUGH = (
    "mlc.frontend.trace.tracer",
    "mlc.frontend.trace.symbolic",
    "mlc.frontend.trace.access",
    "mlc.frontend.trace.math_calls",
    "mlc.frontend.numpy.operating",
    "mlc.frontend.numpy.python_numbers",
    "mlc.frontend.numpy.whole_numbers",
    "mlc.frontend.staging.variants",
    "mlc.frontend.staging.branches",
    "mlc.frontend.staging.variables",
    "mlc.frontend.staging.exits",
    "mlc.frontend.staging.many",
)
"""
Modules that operators go through, of values with options too; what else of ours divides means
NumPy's division.
"""


def divided(function: str, lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """
    The operands of a division. Of Python's numbers the divisor must not be 0, or the call ends with
    ZeroDivisionError. Which are Python's is known where both are; else the rule is NumPy's.
    """
    pythons = (_is_pythons(lhs) and _is_pythons(rhs)) or takes_float((lhs, rhs))
    doubtful = any(isinstance(x, Tracer) and x.whole is not None for x in (lhs, rhs))
    if not (pythons or doubtful) or not asked_by_user(THROUGH):
        return lhs, rhs
    if not pythons:
        return _divided_where_pythons(function, lhs, rhs)
    name = _fault(function, common_dtype(function, (lhs, rhs)).kind)
    if name is None:
        return lhs, rhs
    if function == "power":
        return _base(lhs, rhs, name), rhs
    return lhs, _divisor(rhs, name)


def _fault(function: str, kind: str) -> str | None:
    """What goes wrong in a division by 0 of numbers of a kind, if anything."""
    name = f"{kind if kind in ('float', 'complex') else 'int'} {DIVISIONS[function]}"
    # complex numbers have no floor, integers no negative power
    return name if name in ZERO_FAULTS else None


def _divided_where_pythons(function: str, lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """Likewise where only the call knows whether both are Python's."""
    from mlc.frontend.staging.wholes import all_pythons

    found = all_pythons((lhs, rhs))
    if found is None:
        return lhs, rhs
    where, kinds = found
    name = _fault(function, next((x.__name__ for x in (complex, float) if x in kinds), "int"))
    if name is None:
        return lhs, rhs
    if function == "power":
        if not isinstance(rhs, Tracer) and rhs >= 0:
            return lhs, rhs
        return _checked_where(where, lhs, lambda x: _base(x, rhs, name)), rhs
    if _is_not_zero(rhs):
        return lhs, rhs
    return lhs, _checked_where(where, rhs, lambda x: _divisor(x, name))


def _checked_where(condition: Any, x: Any, check: Callable[[Any], Any]) -> Any:
    """x, of which `check` is asked where a condition holds."""
    from mlc.frontend.numpy.elementwise import where

    made = where(condition, check(where(condition, x, 1)), x)
    made.weak = is_weak(x)
    made.whole = x.whole if isinstance(x, Tracer) else None
    return made


def _is_pythons(x: Any) -> bool:
    """Whether it is certainly a number of Python's."""
    return (is_weak(x) or isinstance(x, bool)) and not (isinstance(x, Tracer) and x.dims)


def _divisor(x: Any, name: str) -> Any:
    """x, which must not be 0."""
    if not isinstance(x, Tracer | SymbolicDim):
        if x == 0:
            raise ZeroDivisionError(ZERO_FAULTS[name])
        return x
    if _is_not_zero(x):
        return x
    number: Any = counted(lift(x))
    made = here().emit(DivisorOp, number.value, operation=name)
    return Tracer(here(), made, weak=True, origins=number.origins)


def _is_not_zero(x: Any) -> bool:
    """Whether that is known."""
    if not isinstance(x, Tracer | SymbolicDim):
        return x != 0
    number: Any = counted(lift(x))
    return here().bound.ranges.is_not_zero(number.value)


def _base(x: Any, exponent: Any, name: str) -> Any:
    """x, which must not be 0 where the exponent is negative."""
    if not isinstance(exponent, Tracer):
        return _divisor(x, name) if exponent < 0 else x
    from mlc.frontend.numpy.elementwise import less, where

    negative, base = less(exponent, 0), result(convert(lift(x).value, dtype_row(np.float64)))
    made = where(negative, _divisor(where(negative, base, 1.0), name), base)
    made.weak, made.origins = True, common_origins((x,))
    return made


def quotient_and_rest(lhs: Any, rhs: Any) -> tuple[Any, Any]:
    """divmod(lhs, rhs)"""
    lhs, rhs = divided("divmod", lhs, rhs)
    return lhs // rhs, lhs % rhs
