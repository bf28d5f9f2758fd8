"""What may go wrong while compiled code runs, in NumPy's words; nothing of the IR."""

from __future__ import annotations

LIBRARY_FAULTS = (
    "Singular matrix",
    "Matrix is not positive definite",
    "SVD did not converge",
    "Eigenvalues did not converge",
    "SVD did not converge in Linear Least Squares",
    "the library routine failed",
)
"""What a routine may report; NumPy's messages."""

SHARE = "share"
"""The kind of the site of a quantile."""
SHARE_FAULT = "quantiles must be in the range [0, 1], percentiles in [0, 100]"
