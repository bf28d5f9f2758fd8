"""Python's operators on traced values: NumPy's functions, but of a list beside a number."""

from __future__ import annotations

import operator
from typing import Any

from mlc.frontend import numpy as names
from mlc.frontend.numpy.python_numbers import DIVISIONS, divided
from mlc.frontend.numpy.values import is_operand, operator_result
from mlc.frontend.numpy.whole_numbers import check_fits
from mlc.frontend.trace.kinds import is_series
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

_OF_BOOLS = ("bitwise_and", "bitwise_or", "bitwise_xor")
"""What of two of Python's bools gives a bool."""


def operated(function: str, lhs: Any, rhs: Any) -> Any:
    """The result of an operator, by the function of that name; NotImplemented where none is."""
    if not (is_operand(lhs) and is_operand(rhs)):
        return NotImplemented
    for series, number in ((lhs, rhs), (rhs, lhs)):
        if is_series(series) and (function == "multiply" or number.weak) and not number.is_place:
            return repeated(series, number) if function == "multiply" else NotImplemented
    most, look = check_fits(function, lhs, rhs)
    operands, of_numbers = (lhs, rhs), function not in _OF_BOOLS
    if function == "power" and isinstance(rhs, int) and rhs == 2:
        # as NumPy's operator does: of bool, int8 and not int64
        function, operands = "square", (lhs,)
    if function in DIVISIONS:
        operands = divided(function, lhs, rhs)
    made = operator_result(getattr(names, function), *operands, of_numbers=of_numbers)
    if most is not None and isinstance(made, Tracer):
        here().pythons[made.value] = most
        if look is not None:
            here().ints.looked[look] = made.value
    return made


def repeated(series: Any, times: Tracer) -> Any:
    """`[0] * n`: a list so many times, as beside a number of Python's or an integer of NumPy's."""
    kind = times.row.kind
    if kind in ("int", "uint") or (times.weak and kind == "bool"):
        return series * operator.index(times)
    name = kind if times.weak else f"numpy.{times.row.numpy}"
    raise TypeError(f"can't multiply sequence by non-int of type {name!r}")
