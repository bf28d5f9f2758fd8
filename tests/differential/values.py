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
LOOSE = {4: 2e-3, 8: 1e-9}  # by bytes: see `Known.loose`; a hundred roundings, and what exp does
EXACT_SUM = {4: 2.0**22, 8: 2.0**50}  # by bytes: whole numbers up to this add without rounding
TAINTED_MOST = 1e4  # magnitude up to which an inexact value may be computed with


@dataclass(frozen=True)
class Known:
    """
    `bound`: |x| is at most that, where x is finite for sure; infinite where nothing is known.
    `whole`: an integer if finite. `loose`: how far two evaluations may lie apart, relative to the
    bound; 0 where the bits are certain. `signed`: the sign of a zero is certain too.
    """

    bound: float = INFINITE
    whole: bool = False
    loose: float = 0.0
    signed: bool = True

    @property
    def certain(self) -> bool:
        """The same bits whatever order sums are taken in."""
        return self.loose == 0

    def under(self, other: Known) -> Known:
        """What holds of both; the bound is for the caller to set."""
        return Known(
            max(self.bound, other.bound),
            self.whole and other.whole,
            max(self.loose, other.loose),
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


def differs(got: Array, want: Array, known: Known, dtype: DType) -> str:
    """How two evaluations differ by more than they may; empty where they do not."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{got.shape} where {want.dtype}{want.shape} is expected"
    if dtype is BOOL or dtype.kind == "int":
        return "" if np.array_equal(got, want) else f"{got!r} where {want!r} is expected"
    same = np.asarray((got == want) | (np.isnan(got) & np.isnan(want)))
    if known.certain and known.signed:
        same &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
    if not known.certain:
        with np.errstate(invalid="ignore"):
            same |= np.abs(got - want) <= known.loose * max(known.bound, 1.0)
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{got[at]!r} at {at} where {want[at]!r} is expected ({known})"
