"""Arithmetic on complex elements, in terms of their parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

from mlc.dialects.dtypes import DType
from mlc.dialects.errors import CompilerBug

if TYPE_CHECKING:
    from mlc.lowering.loops.element import Lanes

Parts = tuple[SSAValue, SSAValue]
Rule = Callable[..., Parts]
"""(lanes, dtype of the parts, parts of each operand…) -> parts of the result"""


def apply_to_complex(e: Lanes, op: type[Operation], dtype: DType, *operands: SSAValue) -> SSAValue:
    """`op` of the arith or math dialect, meant for complex elements of parts `dtype`."""
    rule = _RULES.get(op)
    if rule is None:
        raise CompilerBug(f"lowering: {op.name} has no meaning on complex elements")
    return e.pair(*rule(e, dtype, *((e.real(x), e.imag(x)) for x in operands)))


def compare_complex(
    e: Lanes, predicate: str, lhs: SSAValue, rhs: SSAValue, dtype: DType
) -> SSAValue:
    """eq or ne; `dtype` is that of the parts."""
    if predicate not in ("eq", "ne"):
        raise CompilerBug(f"lowering: complex elements have no order, found {predicate!r}")
    parts = (e.compare(predicate, part(lhs), part(rhs), dtype) for part in (e.real, e.imag))
    return e.apply(arith.AndIOp if predicate == "eq" else arith.OrIOp, *parts)


def _partwise(op: type[Operation]) -> Rule:
    def rule(e: Lanes, dtype: DType, *operands: Parts) -> Parts:
        return e.apply(op, *(x[0] for x in operands)), e.apply(op, *(x[1] for x in operands))

    return rule


def multiply(e: Lanes, dtype: DType, x: Parts, y: Parts) -> Parts:
    """The product."""
    real = e.apply(
        arith.SubfOp, e.apply(arith.MulfOp, x[0], y[0]), e.apply(arith.MulfOp, x[1], y[1])
    )
    imag = e.apply(
        arith.AddfOp, e.apply(arith.MulfOp, x[0], y[1]), e.apply(arith.MulfOp, x[1], y[0])
    )
    return real, imag


def _multiply_add(e: Lanes, dtype: DType, x: Parts, y: Parts, z: Parts) -> Parts:
    real = e.fma(e.apply(arith.NegfOp, x[1]), y[1], e.fma(x[0], y[0], z[0]))
    return real, e.fma(x[1], y[0], e.fma(x[0], y[1], z[1]))


def _divide(e: Lanes, dtype: DType, x: Parts, y: Parts) -> Parts:
    """
    Without a branch: the larger part of the divisor is divided by.

    SOURCE: Smith, "Algorithm 116: Complex division", CACM 5(8), 1962, as NumPy has it
    """
    sizes = [e.apply(math.AbsFOp, part) for part in y]
    by_real = e.compare("ge", sizes[0], sizes[1], dtype)
    large, small = e.select(by_real, y[0], y[1]), e.select(by_real, y[1], y[0])
    zero = e.constant(0, dtype)
    is_zero = e.apply(
        arith.AndIOp,
        e.compare("eq", y[0], zero, dtype),
        e.compare("eq", y[1], zero, dtype),
    )
    ratio = e.apply(arith.DivfOp, small, large)
    divisor = e.apply(arith.AddfOp, large, e.apply(arith.MulfOp, small, ratio))
    scale = e.apply(arith.DivfOp, e.constant(1, dtype), divisor)
    scaled = [e.apply(arith.MulfOp, part, ratio) for part in x]
    real = e.select(
        by_real, e.apply(arith.AddfOp, x[0], scaled[1]), e.apply(arith.AddfOp, scaled[0], x[1])
    )
    imag = e.select(
        by_real, e.apply(arith.SubfOp, x[1], scaled[0]), e.apply(arith.SubfOp, scaled[1], x[0])
    )
    found = [e.apply(arith.MulfOp, part, scale) for part in (real, imag)]
    plain = [e.apply(arith.DivfOp, part, sizes[0]) for part in x]
    return tuple(e.select(is_zero, p, f) for p, f in zip(plain, found, strict=True))  # pyright: ignore[reportReturnType]


def _exp(e: Lanes, dtype: DType, x: Parts) -> Parts:
    """exp(a + bi) = exp(a) (cos b + i sin b); a real operand stays real, whatever exp(a) is."""
    size, zero = e.apply(math.ExpOp, x[0]), e.constant(0, dtype)
    real = e.apply(arith.MulfOp, size, e.apply(math.CosOp, x[1]))
    imag = e.apply(arith.MulfOp, size, e.apply(math.SinOp, x[1]))
    is_real = e.compare("eq", x[1], zero, dtype)
    return e.select(is_real, size, real), e.select(is_real, x[1], imag)


_RULES: dict[type[Operation], Rule] = {
    arith.AddfOp: _partwise(arith.AddfOp),
    arith.SubfOp: _partwise(arith.SubfOp),
    arith.NegfOp: _partwise(arith.NegfOp),
    arith.MulfOp: multiply,
    arith.DivfOp: _divide,
    math.FmaOp: _multiply_add,
    math.ExpOp: _exp,
}
