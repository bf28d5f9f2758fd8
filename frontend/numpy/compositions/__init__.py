"""
NumPy's names as short compositions of the others, written as their user would write them: what
derivatives, batches, symbolic sizes and complex numbers they have follows.

Nothing here emits an op that has no NumPy name, but for the convolution of lines. It is imported
when a function is asked for that `mlc.frontend.numpy` does not have.
"""

from mlc.frontend.numpy.compositions import (
    bessel,
    calculus,
    choosing,
    joining,
    logic,
    making,
    nans,
    parts,
    polynomials,
    sets,
    signals,
)

__all__ = [
    "bessel",
    "calculus",
    "choosing",
    "joining",
    "logic",
    "making",
    "nans",
    "parts",
    "polynomials",
    "sets",
    "signals",
]
