"""
What a random program knows about a value: its axes by letter, and how exactly it must come out.

A pass may change the order of a sum, and exp, log and tanh differ from NumPy's in the last bits.
So each value carries a bound of its magnitude and whether its bits are certain; ops that turn a
small difference into a large one (comparisons, conversions to integers, positions) take only
values that are certain. Everything else must be equal bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import BOOL, DType
from mlc.dialects.tensor.letters import ALPHABET

Array = NDArray[Any]

INFINITE = float("inf")
EXACT_SUM = {4: 2.0**22, 8: 2.0**50}  # by bytes: whole numbers up to this add without rounding
TAINTED_MOST = 1e4  # magnitude up to which an inexact value may be computed with


@dataclass(frozen=True)
class Known:
    """
    `bound`: |x| is at most that, where x is finite for sure; infinite where nothing is known.
    `whole`: an integer if finite. `certain`: the same bits whatever order sums are taken in.
    `signed`: the sign of a zero is certain too.
    """

    bound: float = INFINITE
    whole: bool = False
    certain: bool = True
    signed: bool = True

    def under(self, other: Known) -> Known:
        """What holds of both; the bound is for the caller to set."""
        return Known(
            max(self.bound, other.bound),
            self.whole and other.whole,
            self.certain and other.certain,
            self.signed and other.signed,
        )

    def bounded(self, bound: float) -> Known:
        """With another bound."""
        return replace(self, bound=bound)


@dataclass(frozen=True)
class Traced:
    """A value of the program: `word` has one letter per axis, `sizes` says how long each is."""

    value: SSAValue
    dtype: DType
    word: str
    known: Known


@dataclass
class Axes:
    """The letters of one program, with their dims and the sizes they will have."""

    dims: dict[str, Dim]
    sizes: dict[str, int]  # of the symbols

    def shape(self, word: str) -> Shape:
        """The dims of a word."""
        return tuple(self.dims[c] for c in word)

    def extent(self, word: str) -> int:
        """How many elements a word has when the program runs."""
        total = 1
        for c in word:
            total *= self.dims[c].evaluate(self.sizes)
        return total

    def new(self, dim: Dim) -> str:
        """A letter for a dim: an old one where there is one, so that values keep meeting."""
        for letter, known in self.dims.items():
            if known == dim:
                return letter
        return self.fresh(dim)

    def fresh(self, dim: Dim) -> str:
        """A letter of its own."""
        letter = next(c for c in ALPHABET if c not in self.dims)
        self.dims[letter] = dim
        return letter


def tolerance(known: Known, dtype: DType) -> float:
    """How far two evaluations of a value may lie apart."""
    if known.certain or dtype.kind != "float":
        return 0.0
    return (2e-3 if dtype.bytes == 4 else 1e-9) * max(known.bound, 1.0)


def differs(got: Array, want: Array, known: Known, dtype: DType) -> str:
    """How two evaluations differ by more than they may; empty where they do not."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{got.shape} where {want.dtype}{want.shape} is expected"
    if dtype is BOOL or dtype.kind == "int":
        return "" if np.array_equal(got, want) else f"{got!r} where {want!r} is expected"
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if known.certain and known.signed:
        same &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
    if not known.certain:
        with np.errstate(invalid="ignore"):
            same |= np.abs(got - want) <= tolerance(known, dtype)
    if same.all():
        return ""
    at = tuple(int(i[0]) for i in np.nonzero(~same))
    return f"{got[at]!r} at {at} where {want[at]!r} is expected ({known})"
