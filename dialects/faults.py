"""What may go wrong while compiled code runs, in NumPy's words; nothing of the IR."""

from __future__ import annotations

LIBRARY_FAULTS = (
    "Singular matrix",
    "Matrix is not positive definite",
    "SVD did not converge",
    "Eigenvalues did not converge",
    "SVD did not converge in Linear Least Squares",
    "Array must not contain infs or NaNs",
    "Invalid number of FFT data points (0) specified.",
    "the library routine failed",
)
"""What a routine may report, by its number from 1 on; NumPy's messages."""
NO_POINTS = 7
"""That of a transform of nothing, which is a ValueError; the others are LinAlgErrors."""

SHARE = "share"
"""The kind of the site of a quantile."""
SHARE_FAULT = "quantiles must be in the range [0, 1], percentiles in [0, 100]"

_EMPTY = "zero-size array to reduction operation {} which has no identity"
NONE_FAULTS = {
    "max": _EMPTY.format("maximum"),
    "min": _EMPTY.format("minimum"),
    "range": "range() arg 3 must not be zero",
}
"""What is said of none, by what it is a number of: elements, or places that a range steps on."""

TOO_LARGE = "int too large"
"""The operation whose number is 0 where an integer of Python's does not fit."""
DOMAIN, RANGE = "math domain", "math range"
"""Those whose number is 0 where a function of `math` has no result, or none that is finite."""

ZERO_FAULTS = {
    "int /": "division by zero",
    "int //": "integer division or modulo by zero",
    "int %": "integer modulo by zero",
    "int divmod": "integer division or modulo by zero",
    "float /": "float division by zero",
    "float //": "float floor division by zero",
    "float %": "float modulo",
    "float divmod": "float divmod()",
    "complex /": "complex division by zero",
    "float **": "0.0 cannot be raised to a negative power",
    TOO_LARGE: "an integer of Python's leaves the 64 bits that compiled code has",
    DOMAIN: "math domain error",
    RANGE: "math range error",
}
"""What Python says of numbers that are 0 where it asks; NumPy has no such errors."""
_CLASSES = {TOO_LARGE: OverflowError, DOMAIN: ValueError, RANGE: OverflowError}


def fault_of(operation: str) -> ValueError | ArithmeticError:
    """The error of such an operation."""
    return _CLASSES.get(operation, ZeroDivisionError)(ZERO_FAULTS[operation])
