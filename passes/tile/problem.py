"""A product of matrices by values alone: what schedules are chosen and predicted for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mlc.lazy_dataclass import dataclass

AXES: Mapping[str, str] = {"a": "gmk", "b": "gkn", "c": "gmn"}
"""The axes of both factors and of the sums."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """C[g, m, n] = sum over k of A[g, m, k] · B[g, k, n], by values alone."""

    m: int
    n: int
    k: int
    batch: int = 1
    dtypes: tuple[str, str, str] = ("f32", "f32", "f32")
    """Of a, b and the sums."""
    result: str = ""
    """Of what becomes of a sum, where that is another dtype."""
    apart: bool = False
    """Whether sums between blocks of k wait in scratch: the result's memory cannot hold them."""
    a_unit: Literal["k", "m"] = "k"
    """The axis of a whose elements lie side by side; "m" where a is given transposed."""
    b_unit: Literal["n", "k"] = "n"
    """Likewise of b."""
    a_rows: bool = True
    """Whether rows of a follow one another at one distance."""
    a_shared: bool = False
    """Whether all batches read one a."""
    b_shared: bool = False
    threads: int = 1

    @property
    def macs(self) -> int:
        """Multiplications."""
        return self.batch * self.m * self.n * self.k

    @property
    def axes(self) -> Mapping[str, str]:
        """Of each operand."""
        shared = {"a": self.a_shared, "b": self.b_shared, "c": False}
        return {x: axes[1:] if shared[x] else axes for x, axes in AXES.items()}
