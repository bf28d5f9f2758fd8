"""
Kernels as NumPy users write them, one function each, from their published definitions.

`KERNELS` holds them by name, for tests (at a small size, against NumPy) and for
`python -m benchmarks.kernels`, which compares mlc with NumPy and numba.
"""

from __future__ import annotations

from benchmarks.kernels import algebra, elements, loops, sequences, stencils
from benchmarks.kernels.model import KERNELS, Kernel

__all__ = ["KERNELS", "Kernel", "algebra", "elements", "loops", "sequences", "stencils"]
