"""
Integers of Python's, which have no end, in the 64 bits that compiled code has for them: where a
product, a power or a shift of what values say may leave these, the call looks, and ends there with
OverflowError; Python, which can, then runs it (call/loaded_program.py).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.faults import TOO_LARGE
from mlc.dialects.tensor.bitwise import ShlOp, ShrOp
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.control import IfOp, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.division import DivisorOp, PowOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp
from mlc.frontend import numpy as mnp
from mlc.frontend.numpy.python_numbers import THROUGH
from mlc.frontend.numpy.values import is_weak, lift
from mlc.frontend.trace.integer_rules import END, RULES, USUAL
from mlc.frontend.trace.source import asked_by_user
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

names: Any = mnp
HALF = 2**62
"""Of a float that an integer is made of: the sum of two still fits."""
SIZE = 2**31
"""Of the size of an array, and of a trip's number: two of them have a product of 62 bits."""


def _shifted(x: Any, y: Any) -> Any:
    return x * 2.0**y


def _first(x: Any, _: Any) -> Any:
    return x


_OPERATORS: dict[str, tuple[type[TensorOp], Callable[[Any, Any], Any]]] = {
    "add": (AddOp, operator.add),
    "subtract": (SubOp, operator.sub),
    "multiply": (MulOp, operator.mul),
    "left_shift": (ShlOp, _shifted),
    "power": (PowOp, pow),
    "right_shift": (ShrOp, _first),
}
"""Those whose results may be larger than their operands: the op, and what it is of floats."""
_FUNCTIONS = {op: function for function, (op, _) in _OPERATORS.items()}
_POSITIVE = ("left_shift", "right_shift", "power")
"""Those whose second operand is no number of Python's integers where it is negative."""


def check_fits(function: str, lhs: Any, rhs: Any) -> tuple[int | None, SSAValue | None]:
    """
    Looks whether the result of an operator of two integers of Python's fits into 64 bits. What it
    is at most, or None of other operators and numbers; and what looks, where it looks at
    nothing else: it goes where the program's limits say so already (staging/largest.py).
    """
    if function not in _OPERATORS or not (_is_integer(lhs) and _is_integer(rhs)):
        return None, None
    if not asked_by_user(THROUGH):
        return None, None
    x, y = _most(lhs), _most(rhs)
    signed = _is_signed(function, rhs)
    if function == "right_shift":
        if signed:
            _looked(function, lhs, rhs)
        return x, None
    most = RULES[_OPERATORS[function][0]]([x, y])
    if most < END and not signed:
        return most, None
    look = _looked(function, lhs, rhs)
    return END - 1, None if signed else look


def whole(x: Tracer) -> Tracer:
    """int(x) of a number; looks whether a float, or an unsigned integer, is one that fits."""
    made: Tracer = names.astype(x, np.int64)
    if x.row.kind == "float":
        made = where_fine(names.less(names.abs(_as_float(x)), float(HALF)), TOO_LARGE, made)
    elif x.row.numpy == np.uint64:
        made = where_fine(names.less(x, np.uint64(END)), TOO_LARGE, made)
    made.weak, made.origins = True, x.origins
    return made


def where_fine(fine: Tracer, operation: str, x: Tracer) -> Tracer:
    """x where a condition holds; elsewhere the call ends, with the error of an operation."""
    asked = here().emit(DivisorOp, fine.value, operation=operation)
    return names.where(Tracer(here(), asked), x, np.zeros((), x.dtype))


def check_growing(ops: Iterable[Operation]) -> None:
    """Looks whether the results of ops fit, where they stand."""
    for op in list(ops):
        with ExitStack() as scopes:
            for block in _around(op):
                scopes.enter_context(here().inside(block))
            scopes.enter_context(here().inside(block := Block()))
            lhs, rhs = (Tracer(here(), x, weak=True) for x in op.operands)
            function = _FUNCTIONS[type(op)]  # pyright: ignore[reportArgumentType]
            look = _looked(function, lhs, rhs)
            if not _is_signed(function, rhs):
                here().ints.looked[look] = op.results[0]
        last, around = op, op.parent
        assert around is not None
        for made in list(block.ops):
            made.detach()
            around.insert_op_after(made, last)
            last = made


def _around(op: Operation) -> list[Block]:
    """The blocks in which an op stands and that are not being built, outermost first."""
    found: list[Block] = []
    block = op.parent
    while block is not None and not any(block is scope for scope in here().scopes):
        found.insert(0, block)
        outer = block.parent_op()
        block = None if outer is None else outer.parent
    return found


def _looked(function: str, lhs: Any, rhs: Any) -> SSAValue:
    """Ends the call where a result is too large."""
    _, of_floats = _OPERATORS[function]
    found = of_floats(_as_float(lhs), _as_float(rhs))
    fits = names.less(names.abs(found), float(END))
    if _is_signed(function, rhs):  # an error of Python's, or a float
        fits = names.logical_and(fits, names.greater_equal(rhs, 0))
    fits = names.astype(fits, np.int64)
    return here().emit(DivisorOp, fits.value, operation=TOO_LARGE)


def _is_signed(function: str, rhs: Any) -> bool:
    """Whether a second operand may be negative that must not be."""
    return function in _POSITIVE and not _is_natural(rhs)


def _is_integer(x: Any) -> bool:
    if isinstance(x, SymbolicDim) or type(x) in (int, bool):
        return True
    return isinstance(x, Tracer) and is_weak(x) and not x.dims and x.row.kind == "int"


def _is_natural(x: Any) -> bool:
    if type(x) in (int, bool):
        return x >= 0
    ranges = here().bound.ranges
    return ranges.is_natural(ranges.of(lift(x).value))


def _as_float(x: Any) -> Any:
    return float(x) if type(x) in (int, bool) else names.astype(x, np.float64)


def _most(x: Any) -> int:
    """What a number is at most, as far as that is known."""
    if type(x) in (int, bool):
        return abs(int(x))
    return _most_of(lift(x).value)


def _most_of(value: SSAValue, memo: dict[SSAValue, int] | None = None) -> int:
    """Of a value; `memo`: of those that choices before it are between, which are many to one."""
    memo = {} if memo is None else memo
    if value not in memo:
        memo[value] = _most_asked(value, memo)
    return memo[value]


def _most_asked(value: SSAValue, memo: dict[SSAValue, int]) -> int:
    if (known := here().pythons.get(value)) is not None:
        return known
    match value.owner:
        case SelectOp() as op:
            return max(_most_of(x, memo) for x in op.operands[1:])
        case IfOp() as op:
            k = op.results.index(value)
            return max(_most_of(yield_of(block).values[k], memo) for block in op.blocks)
        case ConstantOp() as op:
            return abs(int(op.array()[()]))
        case _:
            pass
    ranges = here().bound.ranges
    found = ranges.of(value)
    ends = [ranges.greatest(found), ranges.greatest(-found)]
    known = [end.constant for end in ends if end is not None and end.constant is not None]
    if len(known) == len(ends):
        return max(map(abs, known))
    symbols = found.symbols()
    named = symbols and all(name[0] != "%" for name in symbols) and len(found.terms) == 1
    return SIZE if named else USUAL
