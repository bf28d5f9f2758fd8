"""Steps of a random program: elementwise ops, conversions, and what makes values fit each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import BF16, BOOL, C64, C128, DTYPES, F32, F64, I64, U32, U64, DType
from mlc.dialects.tensor.bitwise import BitcastOp, ClampOp
from mlc.dialects.tensor.comparison import (
    PREDICATES,
    CompareOp,
    ConvertOp,
    Extremum,
    MaxOp,
    SelectOp,
    ShareOp,
)
from mlc.dialects.tensor.complex_parts import COMPLEX_OF, ComplexOp, ImagOp, MagnitudeOp, RealOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.division import DivisorOp, FloorDivOp, ModOp, PowOp, RemOp
from mlc.dialects.tensor.elementwise import (
    AddOp,
    DivOp,
    Elementwise,
    ExpOp,
    MulOp,
    NegOp,
    SubOp,
    TanhOp,
)
from mlc.dialects.tensor.functions import (
    Atan2Op,
    CbrtOp,
    ErfcOp,
    ErfOp,
    HypotOp,
    RsqrtOp,
    SigmoidOp,
)
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.random import PhiloxOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.registry import OPS
from mlc.dialects.tensor.room import RoomOp
from mlc.dialects.tensor.rounding import (
    AbsOp,
    CeilOp,
    CopysignOp,
    FloorOp,
    IsfiniteOp,
    Numeric,
    RoundOp,
    SignbitOp,
    SignOp,
    TruncOp,
)
from mlc.dialects.tensor.shape import TransposeOp
from mlc.dialects.tensor.some import SomeOp
from mlc.dialects.tensor.terms import COUNT, OfTermsOp, TermOp
from mlc.dialects.tensor.trigonometry import AsinhOp, AtanOp, CosOp, SincOp, SinOp
from mlc.dialects.tensor.within import WithinOp
from tests.differential.programs import Program
from tests.differential.values import INFINITE, Known, Traced, epsilon, fitted, total
from tests.numerics.judges import FUNCTIONS, OPEN_ZEROS

ELEMENTWISE = tuple(op for op in OPS if issubclass(op, Elementwise))
FROM_ZERO_SIGN = (DivOp, CopysignOp, SignbitOp, Atan2Op, RsqrtOp, PowOp, BitcastOp, FloorDivOp)
"""Ops that tell 0.0 from -0.0."""
NO_ZERO_SIGN = (*OPEN_ZEROS, ModOp, RemOp)
"""Ops of whose results the sign of a zero is open."""
INTEGRAL = (FloorOp, CeilOp, RoundOp, TruncOp, SignOp)
EVERYWHERE: Mapping[type[TensorOp], float] = {
    TanhOp: 1.0,
    SinOp: 1.0,
    CosOp: 1.0,
    SincOp: 1.0,
    ErfOp: 1.0,
    SigmoidOp: 1.0,
    AtanOp: 1.6,
    AsinhOp: 40.0,
}
"""Functions of slope at most 1.2 that are finite for every finite number, and their bounds."""
ULPS = 16  # two evaluations, each within the bounds of `FUNCTIONS` and NumPy's own


def certain(x: Traced) -> bool:
    """Whether its bits may decide about something."""
    return x.known.certain


def bounded(x: Traced) -> bool:
    """Whether sums and products of it keep a known error."""
    return x.known.certain or x.known.bounded


# Values made fit for each other


def converted(p: Program, x: Traced, dtype: DType) -> Traced | None:
    """The value in another dtype; None where its error does not allow it."""
    if x.dtype is dtype:
        return x
    known = _conversion(x, dtype)
    if known is None:
        return None
    value = p.emit(ConvertOp, x.value, declared=tensor_type(dtype.ir, p.axes.shape(x.word)))
    return p.add(value, dtype, x.word, known)


def _conversion(x: Traced, dtype: DType) -> Known | None:
    known = Known(1, whole=True) if x.dtype is BOOL else x.known
    if dtype.kind == "bool":
        return Known(1, whole=True) if known.certain else None
    if not dtype.is_inexact:
        if not known.certain or (dtype.kind == "storage" and not known.signed):
            return None
        narrow = dtype.kind == "storage" or known.bound > dtype.highest or dtype.lowest == 0
        return Known(whole=dtype.is_integer) if narrow else Known(known.bound, whole=True)
    if x.dtype.is_inexact and epsilon(dtype) <= epsilon(x.dtype):
        return fitted(known, dtype) if x.dtype.kind == dtype.kind else replace(known, signed=False)
    if known.certain:
        exact = known.whole and known.bound * epsilon(dtype) <= 1
        bound = known.bound if exact else known.bound * 1.01
        return fitted(Known(bound, known.whole, signed=known.signed), dtype)
    if not known.bounded:
        return None  # a value may round to infinity in one evaluation only
    return fitted(replace(known, error=known.error + epsilon(dtype) * known.bound), dtype)


def aligned(p: Program, x: Traced, word: str) -> Traced | None:
    """The value with exactly the letters of `word`: others are summed, lacking ones repeated."""
    kept = "".join(c for c in x.word if c in word)
    if kept != x.word:
        reduced = summed(p, x, kept)
        if reduced is None:
            return None
        x = reduced
    order = "".join(c for c in word if c in x.word)
    value = x.value
    if order != x.word:
        value = p.emit(TransposeOp, value, letters=f"{x.word}->{order}")
    return p.add(p.spread(value, x.dtype, order, word), x.dtype, word, x.known)


def summed(p: Program, x: Traced, kept: str) -> Traced | None:
    """The sum over the letters that are not kept."""
    if x.dtype.kind == "storage":
        return None
    lost = "".join(c for c in x.word if c not in kept)
    known = total(x.known, p.axes.most(lost), x.dtype)
    if known is None:
        return None
    value = p.emit(ReduceOp, x.value, monoid="sum", letters=f"{x.word}->{kept}")
    return p.add(value, x.dtype, kept, known)


def partner(p: Program, x: Traced) -> Traced | None:
    """A value of x's dtype and letters: another one made fit, or a number."""
    other = p.any(bounded)
    if other is None or p.choose.number(0, 4) == 0:
        return number(p, p.choose.pick((0, 1, 2, 3, -1)), x.dtype, x.word)
    fitting = converted(p, other, x.dtype)
    return None if fitting is None else aligned(p, fitting, x.word)


def number(p: Program, value: int, dtype: DType, word: str) -> Traced:
    """A constant in every element; its absolute value where the dtype has no sign."""
    value = value if dtype.lowest < 0 else abs(value)
    value = value if dtype.kind != "bool" else int(value > 0)
    return p.add(p.scalar(value, dtype, word), dtype, word, Known(abs(value), whole=True))


def tame(p: Program, x: Traced, most: int = 4) -> Traced:
    """The value without NaN and within [-most, most]."""
    if x.known.bound <= most or x.dtype.kind not in ("float", "int", "uint"):
        return x
    value, word, known = x.value, x.word, x.known
    if x.dtype.kind == "float":
        finite = p.emit(IsfiniteOp, value)
        value = p.emit(SelectOp, finite, value, p.scalar(0, x.dtype, word))
    low = 0 if x.dtype.kind == "uint" else -most
    ends = (p.scalar(k, x.dtype, word) for k in (low, most))
    value = p.emit(ClampOp, value, *ends)
    away = known.error + known.relative * most
    return p.add(value, x.dtype, word, Known(most, known.whole, away, signed=False))


def zeros_signed(p: Program, x: Traced) -> Traced:
    """The value with a known sign of its zeros, if its bits are certain: -0 + 0 = 0."""
    if x.known.signed or not certain(x) or x.dtype.kind != "float":
        return x
    value = p.emit(AddOp, x.value, p.scalar(0, x.dtype, x.word))
    return p.add(value, x.dtype, x.word, replace(x.known, signed=True))


def of_kind(p: Program, kinds: tuple[str, ...]) -> Traced | None:
    """A value of one of these kinds of dtype, converted if there is none."""
    x = p.any(lambda v: v.dtype.kind in kinds)
    if x is not None:
        return x
    x = p.any(certain)
    options = [d for d in DTYPES if d.kind in kinds]
    return None if x is None else converted(p, x, p.choose.pick(options))


# What is known of results


def derived(op: type[TensorOp], operands: list[Traced], dtype: DType) -> Known | None:
    """What is known of an elementwise op's result; None where it may be anything."""
    known = [x.known for x in operands]
    source = operands[0].dtype
    if not all(k.certain for k in known):
        return _inexact(op, known, dtype) if dtype.is_inexact else None
    if source.is_inexact and op in FROM_ZERO_SIGN and not all(k.signed for k in known):
        return None
    bound = _bound(op, known)
    if dtype.kind == "uint" and op in (NegOp, SubOp):
        bound = INFINITE  # it wraps around
    if not dtype.is_inexact:
        return Known(1 if dtype.kind == "bool" else bound, whole=True)
    if source.kind == "complex" and op in (MulOp, DivOp, ExpOp, MagnitudeOp):
        exact = op is MulOp and all(k.whole for k in known) and bound < 1e3
        error = 0.0 if exact else ULPS * epsilon(dtype) * bound
        return fitted(Known(bound, exact, error, signed=False), dtype) if bound < INFINITE else None
    if op is SincOp or op.name.removeprefix("mlc.") in FUNCTIONS:
        error = ULPS * epsilon(dtype)
        if bound == INFINITE:
            return Known(error=error, relative=error)
        return fitted(Known(bound, error=error * max(bound, 1)), dtype)
    signed = all(k.signed for k in known) and not issubclass(op, NO_ZERO_SIGN)
    whole = op in INTEGRAL or (op in _WHOLE and all(k.whole for k in known))
    return fitted(Known(bound, whole, signed=signed and source.kind != "complex"), dtype)


_WHOLE = (NegOp, AddOp, SubOp, MulOp, AbsOp, ClampOp, SelectOp)


def _bound(op: type[TensorOp], known: list[Known]) -> float:
    """The magnitude of a result; infinite where it is not simply known."""
    bounds = [k.bound for k in known]
    if INFINITE in bounds:
        return INFINITE
    if op in EVERYWHERE:
        return EVERYWHERE[op]
    if op in (AddOp, SubOp, HypotOp):
        return sum(bounds)
    if op is MulOp:
        return math.prod(bounds)
    if op is ExpOp and bounds[0] <= 5:
        return math.exp(bounds[0])
    if op in (ErfcOp, SignOp):
        return 2.0
    if op in INTEGRAL:
        return bounds[0] + 1
    if op in (NegOp, AbsOp, ShareOp, RealOp, ImagOp, MagnitudeOp):
        return bounds[0]
    if op is CbrtOp:
        return bounds[0] + 1
    if op in (ComplexOp, SelectOp, ClampOp) or issubclass(op, Extremum | Numeric):
        return sum(bounds) if op is ComplexOp else max(bounds)
    return INFINITE


def _inexact(op: type[TensorOp], known: list[Known], dtype: DType) -> Known | None:
    """How far evaluations lie apart, from how far those of the operands do."""
    joined = known[0]
    for k in known[1:]:
        joined = joined.join(k)
    if op in (NegOp, AbsOp):
        return replace(joined, signed=False)
    if not all(k.bounded for k in known):
        return None
    bound = _bound(op, known)
    rounding = ULPS * epsilon(dtype) * max(bound, 1)
    aways = [k.away for k in known]
    if op in (AddOp, SubOp, HypotOp, ComplexOp) or op in EVERYWHERE:
        error = 1.2 * sum(aways) + rounding
    elif op is MulOp:
        error = aways[0] * known[1].bound + aways[1] * known[0].bound + math.prod(aways) + rounding
    elif op is ClampOp or issubclass(op, Extremum | Numeric):
        error = max(aways)
    elif op in (RealOp, ImagOp, MagnitudeOp):
        error = 2 * aways[0] + rounding
    else:
        return None
    return fitted(Known(bound, error=error, signed=False), dtype)


# Steps


def elementary(p: Program) -> None:
    """One to three elementwise ops."""
    for _ in range(p.choose.number(1, 3)):
        elementary_op(p, p.choose.pick(ELEMENTWISE))


def elementary_op(p: Program, op: type[TensorOp]) -> None:
    """The op on values that are made fit for it."""
    special: Callable[[Program], None] | None = SPECIAL.get(op)
    if special is not None:
        special(p)
        return
    x = of_kind(p, op.KINDS)
    if x is None:
        return
    if p.choose.number(0, 2) == 0:
        x = tame(p, x)
    operands = [x]
    for _ in op.get_irdl_definition().operands[1:]:
        other = partner(p, x)
        if other is None:
            return
        operands.append(other)
    applied(p, op, operands)


def applied(p: Program, op: type[TensorOp], operands: list[Traced]) -> None:
    """The op on these values, if enough is known of its result."""
    if op in FROM_ZERO_SIGN:
        operands = [zeros_signed(p, y) for y in operands]
    x = operands[0]
    result = op.infer([y.value.type for y in operands], {}, None)  # pyright: ignore[reportArgumentType]
    dtype = next(d for d in DTYPES if d.ir == result.element_type)
    known = derived(op, operands, dtype)
    if known is None and not all(certain(y) for y in operands):
        operands = [tame(p, y) for y in operands]
        known = derived(op, operands, dtype)
    if known is not None:
        p.add(p.emit(op, *(y.value for y in operands)), dtype, x.word, known)


def division(p: Program) -> None:
    """Division; of complex numbers by numbers away from zero."""
    x = of_kind(p, DivOp.KINDS)
    y = partner(p, x) if x is not None else None
    if x is None or y is None:
        return
    if x.dtype.kind != "complex":
        applied(p, DivOp, [x, y])
        return
    known = x.known.join(y.known)
    bound = x.known.bound
    error = (2 * known.away * (1 + bound) + ULPS * epsilon(x.dtype) * (1 + bound)) * 4
    fit = fitted(Known(bound, error=error, signed=False), x.dtype) if known.bounded else None
    if fit is None:
        return
    part = x.dtype.part
    above = p.emit(MaxOp, p.emit(ImagOp, y.value), p.scalar(1, part, x.word))
    divisor = p.emit(ComplexOp, p.emit(RealOp, y.value), above)
    p.add(p.emit(DivOp, x.value, divisor), x.dtype, x.word, fit)


def power(p: Program) -> None:
    """Powers; of integers with exponents that are not negative."""
    x = of_kind(p, PowOp.KINDS)
    y = partner(p, x) if x is not None else None
    if x is None or y is None:
        return
    if x.dtype.kind == "int":
        y = p.add(p.emit(MaxOp, y.value, p.scalar(0, y.dtype, y.word)), y.dtype, y.word, y.known)
    applied(p, PowOp, [x, y])


def comparing(p: Program) -> None:
    """compare."""
    x = of_kind(p, CompareOp.KINDS)
    y = partner(p, x) if x is not None and certain(x) else None
    if x is None or y is None or not certain(y):
        return
    predicates = ("eq", "ne") if x.dtype.kind == "complex" else tuple(PREDICATES)
    flag = p.emit(CompareOp, x.value, y.value, predicate=p.choose.pick(predicates))
    p.add(flag, BOOL, x.word, Known(1, whole=True))


def choosing(p: Program) -> None:
    """select, by any certain value."""
    x = p.any()
    flag = p.any(certain)
    if x is None or flag is None or (flag := converted(p, flag, BOOL)) is None:
        return
    flag = aligned(p, flag, x.word)
    y = partner(p, x)
    if flag is None or y is None:
        return
    known = fitted(x.known.join(y.known), x.dtype)
    if known is not None:
        p.add(p.emit(SelectOp, flag.value, x.value, y.value), x.dtype, x.word, known)


def conversion(p: Program) -> None:
    """A value in another dtype."""
    x = p.any()
    if x is not None:
        converted(p, x, p.choose.pick(DTYPES))


def reinterpreting(p: Program) -> None:
    """The bits as another dtype of as many."""
    x = of_kind(p, BitcastOp.KINDS)
    if x is None or not certain(x):
        return
    # NaN has many bit patterns: which one an op makes is not stated
    x = zeros_signed(p, tame(p, x))
    options = [d for d in DTYPES if d.bytes == x.dtype.bytes and d.kind in BitcastOp.KINDS]
    dtype = p.choose.pick(options)
    kind = tensor_type(dtype.ir, p.axes.shape(x.word))
    p.add(p.emit(BitcastOp, x.value, declared=kind), dtype, x.word, Known())


def combining_parts(p: Program) -> None:
    """A complex number of two parts."""
    x = p.any(lambda v: v.dtype in (F32, F64))
    if x is None and (x := of_kind(p, ("float",))) is not None:
        x = converted(p, x, F32)
    y = partner(p, x) if x is not None else None
    if x is not None and y is not None:
        known = derived(ComplexOp, [x, y], C64 if x.dtype is F32 else C128)
        if known is not None:
            value = p.emit(ComplexOp, x.value, y.value)
            p.add(value, COMPLEX_OF[x.dtype], x.word, known)


def random_bits(p: Program) -> None:
    """Philox of any keys and positions."""
    key = p.any(certain)
    if key is None or (key := converted(p, key, U64)) is None:
        return
    position = partner(p, key)
    if position is None:
        return
    bits = p.choose.pick((32, 64))
    stream = p.choose.pick((0, 1, -(2**40) + 7))
    value = p.emit(PhiloxOp, key.value, position.value, bits=bits, stream=stream)
    p.add(value, U32 if bits == 32 else U64, key.word, Known(whole=True))


def exponential(p: Program) -> None:
    """exp of what is not large."""
    x = of_kind(p, ExpOp.KINDS)
    if x is not None:
        applied(p, ExpOp, [tame(p, x) if x.known.bound > 5 else x])


def share(p: Program) -> None:
    """A certain value in [0, 1]."""
    x = p.any(lambda v: v.dtype.kind == "float" and certain(v))
    if x is not None:
        x = tame(p, x, 1)
        applied(p, ShareOp, [p.add(p.emit(AbsOp, x.value), x.dtype, x.word, x.known)])


def within(p: Program) -> None:
    """A certain whole number in [-5, 4] as an index of five elements."""
    x = p.any(lambda v: v.dtype.kind == "int" and certain(v))
    if x is not None and (x := converted(p, tame(p, x), I64)) is not None:
        index = p.emit(WithinOp, x.value, size=(Dim.const(5),))
        p.add(index, I64, x.word, Known(4, whole=True))


def some(p: Program) -> None:
    """A certain whole number in [1, 5] as a count, for which there is room."""
    x = p.any(lambda v: v.dtype.kind == "int" and certain(v))
    if x is not None and (x := converted(p, tame(p, x, 4), I64)) is not None:
        count = p.emit(AbsOp, x.value)
        more = p.emit(AddOp, count, full(p.b, 1, I64, shape_of(count.type)))
        p.add(p.emit(SomeOp, more, reduction="max"), I64, x.word, Known(5, whole=True))


def roomy(p: Program) -> None:
    """A certain whole number in [0, 4] as a count, for which there is room."""
    x = p.any(lambda v: v.dtype.kind == "int" and certain(v))
    if x is not None and (x := converted(p, tame(p, x, 4), I64)) is not None:
        count = p.emit(RoomOp, p.emit(AbsOp, x.value), function="repeat", size=(Dim.const(4),))
        p.add(count, I64, x.word, Known(4, whole=True))


def term(p: Program) -> None:
    """A term of a certain f32."""
    x = p.any(certain)
    if x is not None and (x := converted(p, x, F32)) is not None:
        x = zeros_signed(p, x)
        value = p.emit(TermOp, x.value, number=p.choose.number(0, COUNT - 1))
        p.add(value, BF16, x.word, Known())


def of_terms(p: Program) -> None:
    """What three certain numbers of bf16 are the terms of."""
    x = p.any(certain)
    if x is None or (x := converted(p, x, BF16)) is None or not certain(x):
        return
    x = zeros_signed(p, tame(p, x))
    other = zeros_signed(p, tame(p, number(p, p.choose.pick((0, 1, 3)), BF16, x.word)))
    value = p.emit(OfTermsOp, x.value, other.value, x.value)
    p.add(value, F32, x.word, Known())


def divisor(p: Program) -> None:
    """A certain whole number in [1, 5], which is not 0."""
    x = p.any(lambda v: v.dtype.kind == "int" and certain(v))
    if x is not None and (x := converted(p, tame(p, x, 4), I64)) is not None:
        count = p.emit(AbsOp, x.value)
        more = p.emit(AddOp, count, full(p.b, 1, I64, shape_of(count.type)))
        p.add(p.emit(DivisorOp, more, operation="int //"), I64, x.word, Known(5, whole=True))


SPECIAL: Mapping[type[TensorOp], Callable[[Program], None]] = {
    DivOp: division,
    PowOp: power,
    CompareOp: comparing,
    SelectOp: choosing,
    ConvertOp: conversion,
    BitcastOp: reinterpreting,
    ComplexOp: combining_parts,
    PhiloxOp: random_bits,
    ExpOp: exponential,
    ShareOp: share,
    WithinOp: within,
    DivisorOp: divisor,
    SomeOp: some,
    RoomOp: roomy,
    TermOp: term,
    OfTermsOp: of_terms,
}
