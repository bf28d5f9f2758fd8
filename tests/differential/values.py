"""
What a random program knows about a value: its axes by letter, and how exactly it must come out.

A pass may change the order of a sum, and exp, log and tanh differ from NumPy's in the last bits.
So each value carries a bound of its magnitude and of the distance between two evaluations, which
each op derives from its operands'. Ops that turn a small difference into a large one (comparisons,
conversions to integers, positions) take only values whose bits are certain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import BF16, F16, F32, F64, DType
from mlc.dialects.tensor.letters import ALPHABET

Array = NDArray[Any]

INFINITE = float("inf")
EPSILON: dict[DType, float] = {F16: 2.0**-10, BF16: 2.0**-7, F32: 2.0**-23, F64: 2.0**-52}
"""The distance from 1 to the next number, of a dtype's parts."""
WHOLE_MOST: dict[DType, float] = {F16: 2.0**11, BF16: 2.0**8, F32: 2.0**22, F64: 2.0**50}
"""Whole numbers up to this add without rounding."""
LARGEST: dict[DType, float] = {F16: 2.0**14, BF16: 2.0**60, F32: 2.0**60, F64: 2.0**500}
"""Beyond this an overflow is near, and nothing is known of the magnitude."""
INEXACT_MOST = 1e4
"""The magnitude up to which an inexact value may be computed with."""


@dataclass(frozen=True)
class Known:
    """
    `bound`: |x| is at most that and no NaN; infinite where nothing is known. `whole`: an integer if
    finite. Two evaluations lie at most `error + relative * |x|` apart. `signed`: the sign of a zero
    is certain too.
    """

    bound: float = INFINITE
    whole: bool = False
    error: float = 0.0
    relative: float = 0.0
    signed: bool = True

    @property
    def certain(self) -> bool:
        """The same bits in any evaluation, but for the sign of a zero."""
        return self.error == 0 and self.relative == 0

    @property
    def bounded(self) -> bool:
        """Whether the magnitude has a bound."""
        return self.bound < INFINITE

    @property
    def away(self) -> float:
        """How far two evaluations may lie apart, where the magnitude is bounded."""
        return self.error + self.relative * self.bound if self.relative else self.error

    def unsigned(self) -> Known:
        """The same, but the sign of a zero is open."""
        return replace(self, signed=False)

    def join(self, other: Known) -> Known:
        """What holds of both."""
        return Known(
            max(self.bound, other.bound),
            self.whole and other.whole,
            max(self.error, other.error),
            max(self.relative, other.relative),
            self.signed and other.signed,
        )


@dataclass(frozen=True)
class Traced:
    """A value of the program: `word` has one letter per axis."""

    value: SSAValue
    dtype: DType
    word: str
    known: Known


def epsilon(dtype: DType) -> float:
    """The relative distance of neighbours in a float or complex dtype."""
    return EPSILON[dtype.part]


def fitted(known: Known, dtype: DType) -> Known | None:
    """What is known of a result of the dtype; None where its error could be anything."""
    if not dtype.is_inexact:
        return Known(known.bound, whole=True)
    if known.bound > LARGEST[dtype.part]:
        known = replace(known, bound=INFINITE)
    if known.certain:
        return known
    if not known.bounded:
        return known if known.error <= 1e-2 and known.relative <= 1e-2 else None
    if known.bound > INEXACT_MOST or known.away > 0.05 * max(known.bound, 1.0):
        return None
    return known


def total(x: Known, terms: int, dtype: DType) -> Known | None:
    """What is known of a sum of so many terms; None where its rounding could be anything."""
    bound = x.bound * max(terms, 1)
    if not dtype.is_inexact:
        return Known(bound, whole=True)
    if x.whole and x.certain and bound <= WHOLE_MOST[dtype.part]:
        return Known(bound, whole=True, signed=False)
    if not x.bounded:
        return None
    rounding = (4 * math.sqrt(terms) * epsilon(dtype.accumulator) + epsilon(dtype)) * bound
    return fitted(Known(bound, error=x.away * terms + rounding, signed=False), dtype)


@dataclass
class Axes:
    """The letters of one program, with their dims and the sizes each run gives the symbols."""

    dims: dict[str, Dim]
    runs: Sequence[Mapping[str, int]]

    def shape(self, word: str) -> Shape:
        """The dims of a word."""
        return tuple(self.dims[c] for c in word)

    def most(self, word: str) -> int:
        """How many elements a word has in the largest run."""
        return max(self._extents(word))

    def least(self, word: str) -> int:
        """How many elements a word has in the smallest run."""
        return min(self._extents(word))

    def _extents(self, word: str) -> list[int]:
        return [math.prod(self.dims[c].evaluate(sizes) for c in word) for sizes in self.runs]

    def new(self, dim: Dim, word: str) -> str:
        """
        A letter for a dim that is not in `word`: an old one where there is one, so that values keep
        meeting.
        """
        for letter, known in self.dims.items():
            if known == dim and letter not in word:
                return letter
        letter = self.unused()
        self.dims[letter] = dim
        return letter

    def unused(self, taken: str = "") -> str:
        """A letter that names no axis yet."""
        return next(c for c in ALPHABET if c not in self.dims and c not in taken)


def differs(got: Array, want: Array, known: Known, dtype: DType) -> str:
    """How two evaluations differ by more than they may; empty where they do not."""
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{got.shape} where {want.dtype}{want.shape} is expected"
    if dtype.kind == "complex":
        real = differs(np.real(got), np.real(want), known, dtype.part)
        return real or differs(np.imag(got), np.imag(want), known, dtype.part)
    if dtype.kind == "storage" or dtype in (F16, BF16):
        got, want = got.astype(np.float32), want.astype(np.float32)  # which holds them all
    same = np.asarray(got == want)
    if got.dtype.kind == "f":
        same = same | (np.isnan(got) & np.isnan(want))
        if known.certain and known.signed:
            same &= np.isnan(want) | (np.signbit(got) == np.signbit(want))
        if not known.certain:
            with np.errstate(invalid="ignore", over="ignore"):
                apart = np.abs(got.astype(np.float64) - want.astype(np.float64))
                same |= apart <= known.error + known.relative * np.abs(want.astype(np.float64))
    if same.all():
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{got[at]!r} at {at} where {want[at]!r} is expected ({known})"
