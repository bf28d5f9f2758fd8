"""Three products with one factor, added, and a rule that makes one product of two."""

# pyright: reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import mlc
from mlc.levels import Levels
from mlc.passes.rules.text import parse

TEXT = """
rule product_of_sum
  class approximate
  dims m, k, n
  given %x [m, k], %y [m, k], %z [k, n] : float int
  left
    yield add (contract "mk,kn->mn" %x, %z), (contract "mk,kn->mn" %y, %z)
  right
    yield contract "mk,kn->mn" (add %x, %y), %z
  ways both
"""
RULES = parse(TEXT, "sums.rules")
SQUARE = mlc.TensorSpec(96, 96)


def discovering(rules: Any, **options: Any) -> Any:
    """The sum, compiled by what a search by these rules finds; None: as it is."""

    @mlc.compile(target="avx2", threads=1, discover=rules, **options)
    def f(x: Any, y: Any, z: Any, w: Any) -> Any:
        return x @ w + y @ w + z @ w

    return f


def levels_of(numerics: Any = "fast") -> Levels:
    """Of the sum as it is."""
    levels: Levels = discovering(None, numerics=numerics).lower(*(SQUARE,) * 4).levels
    return levels
