"""Python's operators on blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlc.frontend.numpy as mnp
from mlc.dialects.dtypes import BOOL, F32
from mlc.frontend.block.frame import divided
from mlc.frontend.block.spans import Line
from mlc.frontend.block.value import (
    Block,
    broadcast,
    common_row,
    elementwise,
    is_whole_number,
    line_of,
    of_conditions,
    of_line,
)
from mlc.frontend.trace.kinds import is_number, is_scalar


def _is_operand(value: object) -> bool:
    return isinstance(value, Block) or is_number(value) or is_scalar(value)


def _aligned(a: Any, b: Any) -> tuple[Any, Any]:
    """Both operands in their common shape."""
    shape = broadcast([x for x in (a, b) if isinstance(x, Block)])
    return tuple(x.spread(shape) if isinstance(x, Block) else x for x in (a, b))  # pyright: ignore[reportReturnType]


def _lines(a: Any, b: Any) -> tuple[Block, Line, Line] | None:
    """Both operands as lines."""
    a, b = _aligned(a, b)
    like = a if isinstance(a, Block) else b
    first, second = line_of(a, like), line_of(b, like)
    return None if first is None or second is None else (like, first, second)


def add(a: Any, b: Any) -> Block:
    """a + b."""
    if (lines := _lines(a, b)) is not None:
        return of_line(lines[0], lines[1] + lines[2])
    return elementwise(mnp.add, a, b, row=common_row(a, b))


def subtract(a: Any, b: Any) -> Block:
    """a - b."""
    if (lines := _lines(a, b)) is not None:
        return of_line(lines[0], lines[1] + lines[2].times(-1))
    return elementwise(mnp.subtract, a, b, row=common_row(a, b))


def multiply(a: Any, b: Any) -> Block:
    """a * b."""
    if (lines := _lines(a, b)) is not None:
        like, first, second = lines
        if not second.axes:
            return of_line(like, first.times(second.constant))
        if not first.axes:
            return of_line(like, second.times(first.constant))
    return elementwise(mnp.multiply, a, b, row=common_row(a, b))


def divide(a: Any, b: Any) -> Block:
    """a / b; of integers, in 32-bit floats."""
    row = common_row(a, b)
    return elementwise(mnp.true_divide, a, b, row=row if row.is_inexact else F32)


def floor_divide(a: Any, b: Any) -> Block:
    """a // b, rounded down as Python rounds."""
    if (lines := _divided(a, b)) is not None:
        return of_line(a, lines[0])
    return elementwise(mnp.floor_divide, a, b, row=common_row(a, b))


def remainder(a: Any, b: Any) -> Block:
    """a % b, with b's sign as Python has it."""
    if (lines := _divided(a, b)) is not None:
        return of_line(a, lines[1])
    return elementwise(mnp.remainder, a, b, row=common_row(a, b))


def _divided(a: Any, b: Any) -> tuple[Line, Line] | None:
    if isinstance(a, Block) and a.line is not None and is_whole_number(b) and b > 0:
        return divided(a.line, a.sizes, int(b))
    return None


def logical_and(a: Any, b: Any) -> Block:
    """a & b."""
    a, b = _aligned(a, b)
    masks = [x.conditions for x in (a, b) if isinstance(x, Block)]
    if len(masks) == 2 and masks[0] is not None and masks[1] is not None:
        return of_conditions(a, (*masks[0], *masks[1]))
    return elementwise(mnp.bitwise_and, a, b, row=common_row(a, b))


def _of_bits(function: Callable[..., Any]) -> Callable[[Any, Any], Block]:
    return lambda a, b: elementwise(function, a, b, row=common_row(a, b))


def _compared(name: str, condition: Callable[[Line, Line], Line] | None) -> Callable[..., Block]:
    """A comparison; `condition`: of lines, the line that is >= 0 where it is true."""
    function = getattr(mnp, name)

    def compare(a: Any, b: Any) -> Block:
        if condition is not None and (lines := _lines(a, b)) is not None:
            return of_conditions(lines[0], (condition(lines[1], lines[2]),))
        return elementwise(function, a, b, row=common_row(a, b))

    return compare


_COMPARISONS: dict[str, Callable[..., Block]] = {
    "lt": _compared("less", lambda a, b: (b + a.times(-1)).plus(-1)),
    "le": _compared("less_equal", lambda a, b: b + a.times(-1)),
    "gt": _compared("greater", lambda a, b: (a + b.times(-1)).plus(-1)),
    "ge": _compared("greater_equal", lambda a, b: a + b.times(-1)),
    "eq": _compared("equal", None),
    "ne": _compared("not_equal", None),
}

_OPERATORS: dict[str, Callable[[Any, Any], Block]] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "truediv": divide,
    "floordiv": floor_divide,
    "mod": remainder,
    "and": logical_and,
    "or": _of_bits(mnp.bitwise_or),
    "xor": _of_bits(mnp.bitwise_xor),
    "lshift": _of_bits(mnp.left_shift),
    "rshift": _of_bits(mnp.right_shift),
}


def _install(name: str, function: Callable[[Any, Any], Block], *, reflected: bool) -> None:
    def forward(self: Block, other: object) -> Any:
        return function(self, other) if _is_operand(other) else NotImplemented

    def backward(self: Block, other: object) -> Any:
        return function(other, self) if _is_operand(other) else NotImplemented

    setattr(Block, f"__{name}__", forward)
    if reflected:
        setattr(Block, f"__r{name}__", backward)


def negative(x: Block) -> Block:
    """-x."""
    return of_line(x, x.line.times(-1)) if x.line is not None else elementwise(mnp.negative, x)


def inverted(x: Block) -> Block:
    """~x: of a mask, where it is false."""
    return elementwise(mnp.logical_not if x.row is BOOL else mnp.invert, x)


for _name, _function in _OPERATORS.items():
    _install(_name, _function, reflected=True)
for _name, _function in _COMPARISONS.items():
    _install(_name, _function, reflected=False)
for _name, _function in {"neg": negative, "invert": inverted, "pos": lambda x: x}.items():  # pyright: ignore[reportUnknownLambdaType, reportUnknownVariableType]
    setattr(Block, f"__{_name}__", _function)
