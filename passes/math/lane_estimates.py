"""
Reciprocals and square roots from the target's estimates and steps of Newton's: no
division, which takes as long as five to sixteen other operations.

SOURCE: P. W. Markstein, IA-64 and Elementary Functions, 2000, chapters 8 and 9.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.passes.math.double_word import Word2
from mlc.passes.math.lane_builder import BINARY32, LaneBuilder

LARGEST_ROOT = 2.0**100
"""Of the inverse roots that matter: that of 0 must not be infinite."""


def reciprocal(b: LaneBuilder, x: SSAValue, steps: int | None = None) -> SSAValue:
    """1 / x within an ulp; each step doubles the 14 bits of the estimate. NaN at 0 and inf."""
    inverse = b.reciprocal_estimate(x)
    minus, one = b.negate(x), b.constant(1.0)
    for _ in range(steps or (1 if b.format is BINARY32 else 2)):
        inverse = b.fma(inverse, b.fma(minus, inverse, one), inverse)
    return inverse


def root_parts(b: LaneBuilder, x: SSAValue) -> Word2:
    """
    sqrt(x) as a number of 28 bits (f64) or within an ulp (f32), and what is left of it; (0, 0) at
    0, NaN below and at inf.
    """
    estimate = b.at_most(b.root_estimate(x), LARGEST_ROOT)
    half = b.mul(estimate, b.constant(0.5))
    root = b.mul(x, estimate)
    off = b.fma(b.negate(root), half, b.constant(0.5))
    root, half = b.fma(root, off, root), b.fma(half, off, half)
    return root, b.mul(b.fma(b.negate(root), root, x), half)
