"""
How large an op's result may be where its operands are integers of Python's: magnitudes, which end
nowhere. What follows them through a program asks here, and here alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from mlc.dialects.tensor.bitwise import AndOp, OrOp, ShlOp, ShrOp, XorOp
from mlc.dialects.tensor.comparison import MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.division import DivisorOp, FloorDivOp, ModOp, PowOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.rounding import AbsOp
from mlc.dialects.tensor.within import WithinOp

END = 2**63
"""No number of 64 bits is as large."""
USUAL = 2**40
"""Of a number of which nothing is known."""


def _first(x: Sequence[int]) -> int:
    return x[0]


def _negated(x: Sequence[int]) -> int:
    return x[0] + 1  # of the least there is


def _product(x: Sequence[int]) -> int:
    return x[0] * x[1]


def _power(x: Sequence[int]) -> int:
    """Where the exponent is not negative; one that leaves 64 bits far behind is as good."""
    return min(x[0], END) ** min(x[1], 64)


def _shifted(x: Sequence[int]) -> int:
    return x[0] << min(x[1], 64)


RULES: Mapping[type[TensorOp], Callable[[Sequence[int]], int]] = {
    AddOp: sum,
    SubOp: sum,
    NegOp: _negated,
    AbsOp: _negated,
    WithinOp: sum,
    DivisorOp: sum,
    MulOp: _product,
    FloorDivOp: _first,
    ModOp: lambda x: x[1],
    MaxOp: max,
    MinOp: max,
    SelectOp: lambda x: max(x[1:]),
    AndOp: max,
    OrOp: sum,
    XorOp: sum,
    ShlOp: _shifted,
    ShrOp: _first,
    PowOp: _power,
}
