"""
Programs of what tile loops are made of: softmax-like chains, reductions of reductions, contractions
of elementwise results, over rows and columns, with infinities and NaN in some arguments.

Every step keeps finite values below 4 in magnitude and multiplies errors by at most about 3, so one
bound holds of all. Infinities meet only what tells them apart from large numbers in every
evaluation: nothing that may round to zero is multiplied by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import F32, F64, I64, DType
from mlc.dialects.tensor.comparison import CompareOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import IotaOp
from mlc.dialects.tensor.elementwise import AddOp, DivOp, ExpOp, LogOp, MulOp, NegOp, SubOp, TanhOp
from mlc.dialects.tensor.functions import RsqrtOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.rounding import AbsOp
from mlc.dialects.tensor.shape import TransposeOp
from tests.differential.programs import FRACTIONS, Program
from tests.differential.values import Array, Known, Traced

SIZES = (0, 1, 2, 7, 13, 24, 40)
FEW = (1, 2, 3, 5)
ERROR = {F32: 5e-4, F64: 1e-11}
"""Seven steps of exp, sums of 40 and quotients: 3**7 * 4 epsilon, of values below 4."""
HOLED = np.array([*np.linspace(-2, 2, 9), *[-np.inf] * 9])
"""Masked scores: in short rows all are -inf now and then."""
BROKEN = np.array([*np.linspace(-2, 2, 80), np.inf, -np.inf, np.nan])
"""Some rows have one, others have none. Large numbers would cancel, in an order that is open."""


@dataclass
class Rows:
    """A program under construction, whose values have one dtype; `infinite`: what may be so."""

    p: Program
    dtype: DType
    infinite: set[Traced] = field(default_factory=set[Traced])

    def step(self) -> None:
        """One of the steps."""
        self.p.choose.pick(STEPS)(self)

    def argument(self, word: str, values: Array) -> None:
        """One argument more."""
        strided = self.p.choose.number(0, 7) == 0
        value = self.p.input(self.dtype, self.p.axes.shape(word), values, strided=strided)
        found = self.p.add(value, self.dtype, word, Known())
        if not np.isfinite(values).all() or np.abs(values).max() > 4:
            self.infinite.add(found)

    def any(self, wanted: Callable[[Traced], bool] = lambda _: True) -> Traced | None:
        """A value of the dtype with a property, the latest ones more often."""
        return self.p.any(lambda v: v.dtype is self.dtype and wanted(v))

    def finite(self, wanted: Callable[[Traced], bool] = lambda _: True) -> Traced | None:
        """A value that is finite or NaN, with a property."""
        return self.any(lambda v: v not in self.infinite and wanted(v))

    def op(self, kind: type[TensorOp], word: str, *operands: Traced | float) -> Traced:
        """An elementwise op: numbers and values with fewer letters are repeated."""
        values = [
            self.p.scalar(x, self.dtype, word) if isinstance(x, float | int) else self.wide(x, word)
            for x in operands
        ]
        known = Known(error=ERROR[self.dtype], relative=ERROR[self.dtype])
        found = self.p.add(self.p.emit(kind, *values), self.dtype, word, known)
        if kind is not TanhOp and any(x in self.infinite for x in operands):
            self.infinite.add(found)
        return found

    def wide(self, x: Traced, word: str):
        """A value repeated along the letters it lacks."""
        source = "".join(c for c in word if c in x.word)
        value = x.value
        if source != x.word:
            value = self.p.emit(TransposeOp, value, letters=f"{x.word}->{source}")
        return self.p.spread(value, self.dtype, source, word)

    def reduce(self, monoid: str, x: Traced, lost: str) -> Traced:
        """A reduction over one letter."""
        kept = x.word.replace(lost, "")
        value = self.p.emit(ReduceOp, x.value, monoid=monoid, letters=f"{x.word}->{kept}")
        known = Known(error=ERROR[self.dtype], relative=ERROR[self.dtype])
        found = self.p.add(value, self.dtype, kept, known)
        if x in self.infinite:
            self.infinite.add(found)
        return found

    def lost(self, x: Traced) -> str:
        """A letter to reduce over, rather the columns."""
        return "j" if "j" in x.word and self.p.choose.number(0, 3) else self.p.choose.pick(x.word)

    def share(self, letter: str) -> float:
        """What keeps a sum over a letter as small as its terms."""
        return 1 / max(self.p.axes.most(letter), 1)


def row_program(program: Program, length: int) -> None:
    """Rows i and columns j, a few matrices h and columns k of factors; constants or symbols."""
    choose, dims = program.choose, program.axes.dims
    dims.clear()
    dims["h"], dims["k"] = Dim.const(choose.pick(FEW)), Dim.const(choose.pick(FEW))
    for letter, symbol in (("i", "B"), ("j", "N")):
        size = choose.pick(SIZES)
        dims[letter] = Dim.symbol(symbol) if choose.number(0, 1) else Dim.const(size)
    rows = Rows(program, choose.pick((F32, F32, F64)))
    for word in ("kj", "ik", "j", "i", "ij")[: choose.number(1, 5)]:
        rows.argument(word, FRACTIONS)
    rows.argument(choose.pick(("ij", "ij", "ji", "hij")), choose.pick((FRACTIONS, HOLED, BROKEN)))
    for _ in range(length):
        rows.step()


# Steps


def shifted(r: Rows) -> None:
    """
    exp(c (x - max x)) over one axis, and then its sum, their quotient, or a weighted sum of it that
    is divided before or after; of a maximum that is itself multiplied.
    """
    choose = r.p.choose
    x = r.any(lambda v: len(v.word) > 0)
    if x is None or r.p.axes.least(lost := r.lost(x)) == 0:
        return
    scale = choose.pick((1, 1, 0.5, 2))
    if scale != 1 and choose.number(0, 1):
        x = r.op(MulOp, x.word, x, scale)
        scale = 1
    top = r.reduce("max", x, lost)
    difference = r.op(SubOp, x.word, x, top)
    if scale != 1:
        difference = r.op(MulOp, x.word, difference, scale)
    power = r.op(ExpOp, x.word, difference)
    r.infinite.discard(power)  # 0 to 1, or NaN
    if choose.number(0, 3) == 0:
        power = r.op(MulOp, x.word, power, weight) if (weight := inside(r, x.word)) else power
    total = r.reduce("sum", power, lost)
    end = choose.number(0, 4)
    if end == 0:
        smaller = r.op(LogOp, total.word, total)
        r.op(AddOp, total.word, r.op(MulOp, total.word, smaller, 0.2), top)
    elif end == 1:
        r.op(MulOp, total.word, total, r.share(lost))
    elif end == 2:
        weighted(r, power, lost, total)
    else:
        quotient = r.op(DivOp, x.word, power, total)
        if end == 3:
            weighted(r, quotient, lost)


def inside(r: Rows, word: str) -> Traced | None:
    """A finite value whose letters are among these; positive."""
    x = r.finite(lambda v: set(v.word) <= set(word))
    return None if x is None else r.op(AddOp, x.word, r.op(AbsOp, x.word, x), 0.25)


def weighted(r: Rows, x: Traced, lost: str, total: Traced | None = None) -> None:
    """A contraction of a value by a factor over one letter; `total`: divided by that."""
    choose = r.p.choose
    factor = r.finite(lambda v: lost in v.word and v is not x)
    if factor is None or x in r.infinite:
        return
    extra = "".join(c for c in factor.word if c not in x.word)
    word = x.word.replace(lost, "") + extra
    if choose.number(0, 2) == 0:
        word = word[::-1]
    if not r.p.fits(word):
        return
    letters = f"{x.word},{factor.word}->{word}"
    operands = (x.value, factor.value)
    if choose.number(0, 1):
        letters, operands = f"{factor.word},{x.word}->{word}", operands[::-1]
    known = Known(error=ERROR[r.dtype] * r.p.axes.most(lost), relative=ERROR[r.dtype])
    value = r.p.emit(ContractOp, *operands, letters=letters)
    found = r.p.add(value, r.dtype, word, known)
    if total is None or not set(total.word) <= set(word):
        r.op(MulOp, word, found, r.share(lost))
    else:
        r.op(DivOp, word, found, total)


def contracted(r: Rows) -> None:
    """A weighted sum of any value."""
    x = r.finite(lambda v: len(v.word) > 0)
    if x is not None:
        weighted(r, x, r.lost(x))


def scored(r: Rows) -> None:
    """All products of rows of two factors, which have columns: what attention begins with."""
    x = r.finite(lambda v: set(v.word) == set("ik"))
    y = r.finite(lambda v: set(v.word) == set("kj"))
    if x is not None and y is not None:
        value = r.p.emit(ContractOp, x.value, y.value, letters=f"{x.word},{y.word}->ij")
        known = Known(error=5 * ERROR[r.dtype], relative=ERROR[r.dtype])
        r.op(MulOp, "ij", r.p.add(value, r.dtype, "ij", known), r.share("k"))


def normalised(r: Rows) -> None:
    """x less its mean, over the root of its variance; as layer norm does it, and by squares."""
    x = r.finite(lambda v: len(v.word) > 0)
    if x is None:
        return
    lost = r.lost(x)
    share = r.share(lost)
    total = r.reduce("sum", x, lost)
    mean = r.op(MulOp, total.word, total, share)
    apart = r.op(SubOp, x.word, x, mean)
    if r.p.choose.number(0, 1):
        square = r.reduce("sum", r.op(MulOp, x.word, apart, apart), lost)
    else:
        square = r.reduce("sum", r.op(MulOp, x.word, x, x), lost)
    variance = r.op(AddOp, square.word, r.op(MulOp, square.word, square, share), 0.25)
    root = r.op(RsqrtOp, square.word, variance)
    r.op(TanhOp, x.word, r.op(MulOp, x.word, apart, root))


def reduced(r: Rows) -> None:
    """A reduction over one axis, and what it says of each element."""
    choose = r.p.choose
    x = r.any(lambda v: len(v.word) > 0)
    if x is None:
        return
    monoid, lost = choose.pick(("sum", "sum", "max", "min")), r.lost(x)
    if monoid != "sum" and r.p.axes.least(lost) == 0:
        return
    found = r.reduce(monoid, x, lost)
    if monoid == "sum":
        found = r.op(MulOp, found.word, found, r.share(lost))
    if choose.number(0, 1):
        r.op(choose.pick((SubOp, AddOp, MaxOp)), x.word, x, found)


def placed(r: Rows) -> None:
    """Where the largest element of an argument is."""
    x = r.any(lambda v: len(v.word) > 0 and v.known.certain)
    if x is None or r.p.axes.least(lost := r.lost(x)) == 0:
        return
    kept = x.word.replace(lost, "")
    value = r.p.emit(ReduceOp, x.value, monoid="argmax", letters=f"{x.word}->{kept}")
    r.p.add(value, I64, kept, Known(r.p.axes.most(lost), whole=True))


def unary(r: Rows) -> None:
    """An elementwise op."""
    x = r.any()
    if x is not None:
        kind = r.p.choose.pick((TanhOp, NegOp, AbsOp))
        r.op(kind, x.word, x)


def binary(r: Rows) -> None:
    """An elementwise op on two values, whose letters are one's."""
    choose = r.p.choose
    kind = choose.pick((AddOp, SubOp, MulOp, MaxOp, MinOp))
    x = r.any() if kind is not MulOp else r.finite()
    if x is None:
        return
    others = r.finite if kind is MulOp else r.any
    y = others(lambda v: set(v.word) <= set(x.word))
    if y is None:
        return
    found = r.op(kind, x.word, *((x, y) if choose.number(0, 1) else (y, x)))
    r.op(TanhOp, x.word, found) if choose.number(0, 3) else r.op(MulOp, x.word, found, 0.25)


def masked(r: Rows) -> None:
    """-inf or 0 to the right of the diagonal, as in causal attention."""
    x = r.any(lambda v: "i" in v.word and "j" in v.word)
    if x is None:
        return
    shape = r.p.axes.shape(x.word)
    declared = tensor_type(I64.ir, shape)
    i, j = (r.p.emit(IotaOp, axis=x.word.index(c), declared=declared) for c in "ij")
    below = r.p.emit(CompareOp, j, i, predicate=r.p.choose.pick(("le", "lt")))
    number = r.p.choose.pick((-math.inf, 0))
    other = r.p.scalar(number, r.dtype, x.word)
    found = r.p.add(r.p.emit(SelectOp, below, x.value, other), r.dtype, x.word, x.known)
    if number != 0 or x in r.infinite:
        r.infinite.add(found)


def turned(r: Rows) -> None:
    """A value the other way round."""
    x = r.any(lambda v: len(v.word) > 1)
    if x is not None:
        word = x.word[::-1]
        value = r.p.emit(TransposeOp, x.value, letters=f"{x.word}->{word}")
        found = r.p.add(value, r.dtype, word, x.known)
        if x in r.infinite:
            r.infinite.add(found)


STEPS: tuple[Callable[[Rows], None], ...] = (
    *(shifted,) * 4,
    *(contracted,) * 2,
    *(scored,) * 2,
    *(normalised,) * 2,
    *(reduced,) * 3,
    *(binary,) * 2,
    unary,
    placed,
    masked,
    turned,
)
