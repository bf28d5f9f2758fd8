"""The steps of a random program, one function per family of ops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BOOL, F32, F64, I32, I64, DType
from mlc.dialects.tensor.comparison import (
    PREDICATES,
    CompareOp,
    ConvertOp,
    MaxOp,
    MinOp,
    SelectOp,
)
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp, dense
from mlc.dialects.tensor.division import FloorDivOp
from mlc.dialects.tensor.elementwise import (
    AddOp,
    DivOp,
    ExpOp,
    LogOp,
    MulOp,
    NegOp,
    SqrtOp,
    SubOp,
    TanhOp,
)
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, ReshapeOp, SliceOp, TransposeOp
from tests.differential.programs import Program, random_loop
from tests.differential.values import EXACT_SUM, INFINITE, LOOSE, TAINTED_MOST, Known, Traced

MOST_ELEMENTS = 20_000


def usable(x: Traced) -> bool:
    """Whether arithmetic on the value keeps a known error: it is certain, or moderate."""
    return x.known.certain or x.known.bound <= TAINTED_MOST


def certain(x: Traced) -> bool:
    """Whether its bits may decide about something."""
    return x.known.certain


def is_float(x: Traced) -> bool:
    return x.dtype.kind == "float" and usable(x)


def steps(program: Program, count: int) -> None:
    """`count` steps; some find nothing to work on and do nothing."""
    for _ in range(count):
        program.choose.pick(STEPS)(program)


# Values made fit for each other


def converted(p: Program, x: Traced, dtype: DType) -> Traced | None:
    """The value in another dtype; None where its bits or range do not allow it."""
    if x.dtype is dtype:
        return x
    if dtype.kind != "float" and not x.known.certain:
        return None
    value = p.emit(ConvertOp, x.value, declared=tensor_type(dtype.ir, p.axes.shape(x.word)))
    known = x.known if x.dtype is not BOOL else Known(1, whole=True)
    if dtype.kind == "float" and x.dtype.kind == "int" and known.bound > EXACT_SUM[dtype.bytes]:
        known = Known(INFINITE)
    if not known.certain:
        known = replace(known, loose=max(known.loose, LOOSE[dtype.bytes]))
    return p.add(value, dtype, x.word, known)


def aligned(p: Program, x: Traced, word: str) -> Traced | None:
    """The value with exactly the letters of `word`: others are summed, lacking ones repeated."""
    extra = [c for c in x.word if c not in word]
    if extra:
        kept = "".join(c for c in x.word if c in word)
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
    if not usable(x):
        return None
    lost = "".join(c for c in x.word if c not in kept)
    known = _sum_known(x.known, max(p.axes.extent(lost), 1), x.dtype)
    if known is None:
        return None
    value = p.emit(ReduceOp, x.value, monoid="sum", letters=f"{x.word}->{kept}")
    return p.add(value, x.dtype, kept, known)


def _sum_known(x: Known, terms: int, dtype: DType) -> Known | None:
    """What is known of a sum; None where its rounding could be anything."""
    bound = x.bound * terms
    if dtype.kind != "float":
        return Known(bound, whole=True)
    if x.whole and x.certain and bound <= EXACT_SUM[dtype.bytes]:
        return Known(bound, whole=True, signed=False)
    if bound <= TAINTED_MOST:
        return Known(bound, loose=max(x.loose, LOOSE[dtype.bytes]), signed=False)
    return None


def partner(p: Program, x: Traced) -> Traced | None:
    """A value of x's dtype and letters: another one made fit, or a number."""
    other = p.any(usable)
    if other is None or p.choose.number(0, 4) == 0:
        number = p.choose.pick((0, 1, 2, -1, 3) if x.dtype is not BOOL else (0, 1))
        value = p.scalar(number, x.dtype, x.word)
        return p.add(value, x.dtype, x.word, Known(abs(number), whole=True))
    fitting = converted(p, other, x.dtype)
    return None if fitting is None else aligned(p, fitting, x.word)


# Families


def arithmetic(p: Program) -> None:
    """add, sub, mul, max, min of two values."""
    x = p.any(usable)
    y = partner(p, x) if x is not None else None
    if x is None or y is None:
        return
    ops = (AddOp, MulOp, MaxOp, MinOp) if x.dtype is BOOL else (AddOp, SubOp, MulOp, MaxOp, MinOp)
    op = p.choose.pick(ops)
    both = x.known.under(y.known)
    if op is MulOp:
        bound = x.known.bound * y.known.bound if both.bound < INFINITE else INFINITE
    else:
        bound = both.bound if op in (MaxOp, MinOp) else x.known.bound + y.known.bound
    if not both.certain and bound > TAINTED_MOST:
        return
    known = both.bounded(bound)
    if op in (MaxOp, MinOp):  # max(0.0, -0.0) may be either
        known = Known(bound, both.whole, both.loose, signed=False)
    p.add(p.emit(op, x.value, y.value), x.dtype, x.word, known)


def quotient(p: Program) -> None:
    """Division: of integers by anything, of floats by what is certain down to the sign of zero."""
    x = p.any(usable)
    y = partner(p, x) if x is not None and x.dtype is not BOOL else None
    if x is None or y is None:
        return
    if x.dtype.kind == "int":
        p.add(p.emit(FloorDivOp, x.value, y.value), x.dtype, x.word, Known(x.known.bound + 1))
    elif x.known.certain and y.known.certain and y.known.signed:
        known = Known(signed=x.known.signed)
        p.add(p.emit(DivOp, x.value, y.value), x.dtype, x.word, known)


def elementary(p: Program) -> None:
    """neg, sqrt, and the functions whose last bits differ from NumPy's."""
    x = p.any(is_float)
    if x is None:
        return
    op = p.choose.pick((NegOp, SqrtOp, ExpOp, LogOp, TanhOp))
    bound = x.known.bound
    loose = max(x.known.loose, LOOSE[x.dtype.bytes])
    if op is NegOp:
        known = x.known
    elif op is SqrtOp and x.known.certain:
        known = Known(signed=x.known.signed)
    elif op is ExpOp and bound <= 8:
        known = Known(math.exp(bound), loose=loose)
    elif op is TanhOp:
        known = Known(1, loose=loose, signed=x.known.signed)
    elif op is LogOp and bound <= TAINTED_MOST:
        one = p.scalar(1, x.dtype, x.word)
        above = p.emit(MaxOp, x.value, one)
        x = p.add(above, x.dtype, x.word, Known(max(bound, 1), x.known.whole, x.known.loose))
        known = Known(math.log(max(bound, 1.0)) + 1, loose=loose, signed=False)
    else:
        return
    p.add(p.emit(op, x.value), x.dtype, x.word, known)


def choice(p: Program) -> None:
    """compare and select."""
    x = p.any(certain)
    y = partner(p, x) if x is not None else None
    if x is None or y is None or not y.known.certain:
        return
    predicate = p.choose.pick(tuple(PREDICATES))
    flag = p.emit(CompareOp, x.value, y.value, predicate=predicate)
    p.add(flag, BOOL, x.word, Known(1, whole=True))
    if p.choose.number(0, 1):
        known = x.known.under(y.known)
        p.add(p.emit(SelectOp, flag, x.value, y.value), x.dtype, x.word, known)


def conversion(p: Program) -> None:
    """A value in another dtype."""
    x = p.any()
    if x is not None:
        converted(p, x, p.choose.pick((F32, F64, I32, I64, BOOL)))


def reduction(p: Program) -> None:
    """Any monoid over some axes, where they hold an element if the monoid asks for one."""
    x = p.any(lambda v: bool(v.word) and usable(v))
    if x is None:
        return
    monoid = p.choose.pick(("sum", "sum", "max", "min", "argmax", "argmin", "prod"))
    mask = p.choose.number(1, 2 ** len(x.word) - 1)
    lost = "".join(c for k, c in enumerate(x.word) if mask >> k & 1)
    if monoid.startswith("arg"):
        lost = lost[0]
    kept = "".join(c for c in x.word if c not in lost)
    extent = p.axes.extent(lost)
    if monoid == "sum":
        summed(p, x, kept)
        return
    if monoid == "prod" and x.dtype.kind == "float":
        return
    if monoid != "prod" and (extent == 0 or not x.known.certain):
        return
    value = p.emit(ReduceOp, x.value, monoid=monoid, letters=f"{x.word}->{kept}")
    if monoid.startswith("arg"):
        p.add(value, I64, kept, Known(extent))
    else:
        bound = x.known.bound if monoid != "prod" else INFINITE
        known = Known(bound, x.known.whole, x.known.loose, signed=False)
        p.add(value, x.dtype, kept, known)


def contraction(p: Program) -> None:
    """Any two values with any result letters."""
    x = p.any(usable)
    y = p.any(usable)
    if x is None or y is None or (y := converted(p, y, x.dtype)) is None:
        return
    both = x.word + "".join(c for c in y.word if c not in x.word)
    if p.axes.extent(both) > MOST_ELEMENTS:
        return
    kept = [c for c in both if p.choose.number(0, 2)]
    if p.choose.number(0, 1):
        kept.reverse()
    word = "".join(kept)
    lost = "".join(c for c in both if c not in word)
    under = x.known.under(y.known)
    bound = INFINITE if under.bound == INFINITE else x.known.bound * y.known.bound
    known = _sum_known(under.bounded(bound), max(p.axes.extent(lost), 1), x.dtype)
    if x.dtype is BOOL:
        known = Known(1, whole=True)
    if known is None:
        return
    value = p.emit(ContractOp, x.value, y.value, letters=f"{x.word},{y.word}->{word}")
    p.add(value, x.dtype, word, known)


def movement(p: Program) -> None:
    """transpose and broadcast."""
    x = p.any()
    if x is None:
        return
    word = "".join(sorted(x.word, reverse=bool(p.choose.number(0, 1))))
    if p.choose.number(0, 1):
        new = [c for c in p.axes.dims if c not in word and p.choose.number(0, 1)]
        wide = "".join([*new, *word])
        if len(wide) <= 4 and p.axes.extent(wide) <= MOST_ELEMENTS:
            kind = tensor_type(x.dtype.ir, p.axes.shape(wide))
            order = "".join(c for c in wide if c in x.word)
            value = x.value
            if order != x.word:
                value = p.emit(TransposeOp, value, letters=f"{x.word}->{order}")
            value = p.emit(BroadcastOp, value, letters=f"{order}->{wide}", declared=kind)
            p.add(value, x.dtype, wide, x.known)
        return
    p.add(p.emit(TransposeOp, x.value, letters=f"{x.word}->{word}"), x.dtype, word, x.known)


def reshaping(p: Program) -> None:
    """Two axes as one, or axes of size 1 more."""
    x = p.any(lambda v: bool(v.word))
    if x is None:
        return
    shape = p.axes.shape(x.word)
    if len(shape) > 1 and p.choose.number(0, 1):
        at = p.choose.number(0, len(shape) - 2)
        merged = shape[at] * shape[at + 1]
        new = (*shape[:at], merged, *shape[at + 2 :])
        letters = [*x.word[:at], p.axes.fresh(merged), *x.word[at + 2 :]]
    else:
        at = p.choose.number(0, len(shape))
        new = (*shape[:at], Dim.const(1), *shape[at:])
        letters = [*x.word[:at], p.axes.fresh(Dim.const(1)), *x.word[at:]]
    value = p.emit(ReshapeOp, x.value, declared=tensor_type(x.dtype.ir, new))
    p.add(value, x.dtype, "".join(letters), x.known)


def slicing(p: Program) -> None:
    """Every axis whole, backwards, or every second element."""
    x = p.any(lambda v: bool(v.word))
    if x is None:
        return
    offsets: list[Dim] = []
    strides: list[Dim] = []
    letters: list[str] = []
    for c in x.word:
        n = p.axes.dims[c]
        form = p.choose.pick(("whole", "backwards", "second", "second backwards"))
        offsets.append(n - 1 if form.endswith("backwards") else Dim.const(0))
        step = 2 if form.startswith("second") else 1
        strides.append(Dim.const(-step if form.endswith("backwards") else step))
        letters.append(p.axes.fresh((n + 1) // 2) if step == 2 else c)
    word = "".join(letters)
    kind = tensor_type(x.dtype.ir, p.axes.shape(word))
    value = p.emit(SliceOp, x.value, offsets=tuple(offsets), steps=tuple(strides), declared=kind)
    p.add(value, x.dtype, word, x.known)


def joining(p: Program) -> None:
    """concat of a value with itself or with another that is made fit."""
    x = p.any(lambda v: bool(v.word))
    if x is None:
        return
    y = partner(p, x)
    if y is None:
        return
    axis = p.choose.number(0, len(x.word) - 1)
    letter = p.axes.fresh(p.axes.dims[x.word[axis]] * 2)
    word = x.word[:axis] + letter + x.word[axis + 1 :]
    if p.axes.extent(word) <= MOST_ELEMENTS:
        value = p.emit(ConcatOp, x.value, y.value, axis=axis)
        p.add(value, x.dtype, word, x.known.under(y.known))


def gathering(p: Program) -> None:
    """Positions computed from any certain value, moved into range, read from one axis."""
    x = p.any(lambda v: any(p.axes.extent(c) for c in v.word))
    index = p.any(certain)
    if x is None or index is None or (index := converted(p, index, I64)) is None:
        return
    axis = p.choose.pick([k for k, c in enumerate(x.word) if p.axes.extent(c)])
    rest = "".join(c for k, c in enumerate(x.word) if k != axis)
    word = index.word + "".join(c for c in rest if c not in index.word)
    if len(word) > 4 or p.axes.extent(word) > MOST_ELEMENTS:
        return
    size = p.emit(SizeOp, dims=(p.axes.dims[x.word[axis]],))
    lowest = p.emit(NegOp, size)
    highest = p.emit(AddOp, size, p.emit(ConstantOp, value=dense(np.asarray(-1), I64)))
    bounded = p.emit(MaxOp, index.value, p.spread(lowest, I64, "", index.word))
    bounded = p.emit(MinOp, bounded, p.spread(highest, I64, "", index.word))
    source = x.word[:axis] + "0" + x.word[axis + 1 :]
    value = p.emit(GatherOp, x.value, bounded, letters=f"{source},{index.word}->{word}")
    p.add(value, x.dtype, word, x.known)


def counting(p: Program) -> None:
    """iota and constants."""
    x = p.any(lambda v: bool(v.word))
    if x is None:
        return
    dtype = p.choose.pick((I32, I64, F32, F64))
    axis = p.choose.number(0, len(x.word) - 1)
    kind = tensor_type(dtype.ir, p.axes.shape(x.word))
    extent = p.axes.extent(x.word[axis])
    p.add(p.emit(IotaOp, axis=axis, declared=kind), dtype, x.word, Known(extent, whole=True))
    sizes = [d.constant for d in p.axes.shape(x.word)]
    known = [s for s in sizes if s is not None]
    if len(known) == len(sizes) and p.choose.number(0, 1):
        values = np.arange(math.prod(known)).reshape(known) % 5 - 2
        value = p.emit(ConstantOp, value=dense(values, dtype))
        p.add(value, dtype, x.word, Known(2, whole=True))


def looping(p: Program) -> None:
    """A `for` whose body is made of the same steps."""
    random_loop(p, steps)


Step = Callable[[Program], None]
STEPS: tuple[Step, ...] = (
    arithmetic,
    arithmetic,
    arithmetic,
    quotient,
    elementary,
    choice,
    conversion,
    reduction,
    reduction,
    contraction,
    contraction,
    movement,
    reshaping,
    slicing,
    joining,
    gathering,
    counting,
    looping,
)
