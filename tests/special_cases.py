"""
The special cases of the array API standard for elementwise functions and operators, as data.

SOURCE: Python array API standard 2024.12, "Elementwise functions", the section "Special cases" of
each function. Where a case speaks of a range ("if x_i is greater than 1"), samples stand for it;
"an implementation-dependent approximation to" a number is that number.
"""

from __future__ import annotations

from math import inf, nan, pi

Cases1 = list[tuple[float, float]]
Cases2 = list[tuple[float, float, float]]

HALF, QUARTER, THREE = pi / 2, pi / 4, 3 * pi / 4
SAMPLES = (0.25, 1.0, 2.5, 3.0, 1e30)
BELOW_ONE = (-1.5, -2.0, -inf, -1e30)


def _same(*values: float) -> Cases1:
    return [(x, x) for x in values]


def _all(values: tuple[float, ...], result: float) -> Cases1:
    return [(x, result) for x in values]


ENDS = _same(nan, 0.0, -0.0, inf, -inf)
WHOLE = [*ENDS, *_same(1.0, -3.0, 2.0**23, -(2.0**52))]
LOGARITHM = [(nan, nan), *_all((-1.0, -inf, -1e-30), nan), (0.0, -inf), (-0.0, -inf), (1.0, 0.0)]

UNARY: dict[str, Cases1] = {
    "abs": [(nan, nan), (-0.0, 0.0), (0.0, 0.0), (-inf, inf), (inf, inf), (-2.5, 2.5)],
    "acos": [(nan, nan), *_all((1.5, inf, *BELOW_ONE), nan), (1.0, 0.0), (-1.0, pi), (0.0, HALF)],
    "acosh": [(nan, nan), *_all((0.5, 0.0, -0.0, *BELOW_ONE), nan), (1.0, 0.0), (inf, inf)],
    "asin": [(nan, nan), *_all((1.5, inf, *BELOW_ONE), nan), *_same(0.0, -0.0), (1.0, HALF)],
    "asinh": ENDS,
    "atan": [*_same(nan, 0.0, -0.0), (inf, HALF), (-inf, -HALF)],
    "atanh": [
        *_same(nan, 0.0, -0.0),
        *_all((1.5, inf, *BELOW_ONE), nan),
        *[(1.0, inf), (-1.0, -inf)],
    ],
    "ceil": [*WHOLE, (-0.5, -0.0), (0.5, 1.0), (-1.5, -1.0)],
    "cos": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, nan), (-inf, nan)],
    "cosh": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, inf)],
    "exp": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0)],
    "expm1": [*_same(nan, 0.0, -0.0, inf), (-inf, -1.0)],
    "floor": [*WHOLE, (-0.5, -1.0), (0.5, 0.0), (1.5, 1.0)],
    "log": [*LOGARITHM, (inf, inf)],
    "log1p": [
        *_same(nan, 0.0, -0.0, inf),
        *_all(BELOW_ONE, nan),
        (-1.0, -inf),
    ],
    "log2": [*LOGARITHM, (inf, inf), (8.0, 3.0)],
    "log10": [*LOGARITHM, (inf, inf)],
    "negative": [(nan, nan), (0.0, -0.0), (-0.0, 0.0), (inf, -inf), (-inf, inf)],
    "positive": ENDS,
    "reciprocal": [(nan, nan), (0.0, inf), (-0.0, -inf), (inf, 0.0), (-inf, -0.0)],
    "round": [*WHOLE, (0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-1.5, -2.0), (3.5, 4.0)],
    "sign": [(nan, nan), (0.0, 0.0), (-0.0, 0.0), (2.5, 1.0), (-inf, -1.0), (inf, 1.0)],
    "sin": [*_same(nan, 0.0, -0.0), (inf, nan), (-inf, nan)],
    "sinh": ENDS,
    "sqrt": [*_same(nan, 0.0, -0.0, inf), *_all((-1.0, -inf, -1e-30), nan)],
    "square": [(nan, nan), (0.0, 0.0), (-0.0, 0.0), (inf, inf), (-inf, inf)],
    "tan": [*_same(nan, 0.0, -0.0), (inf, nan), (-inf, nan)],
    "tanh": [*_same(nan, 0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "trunc": [*WHOLE, (-0.5, -0.0), (0.5, 0.0), (1.5, 1.0), (-1.5, -1.0)],
    # beyond the standard, by the same rules: C's Annex F, and IEEE 754-2019, 9.2.1
    "cbrt": ENDS,
    "exp2": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, inf), (-inf, 0.0), (3.0, 8.0)],
    "erf": [*_same(nan, 0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    "erfc": [(nan, nan), (0.0, 1.0), (-0.0, 1.0), (inf, 0.0), (-inf, 2.0)],
    "lgamma": [
        *[(nan, nan), (1.0, 0.0), (2.0, 0.0), (inf, inf), (-inf, inf)],
        *_all((0.0, -0.0, -1.0, -2.0, -50.0), inf),
    ],
    "rsqrt": [(nan, nan), (0.0, inf), (-0.0, -inf), (inf, 0.0), (-1.0, nan)],
    "sigmoid": [(nan, nan), (0.0, 0.5), (-0.0, 0.5), (inf, 1.0), (-inf, 0.0)],
}

QUESTIONS: dict[str, list[tuple[float, bool]]] = {
    "isfinite": [(x, x not in (inf, -inf) and x == x) for x in (nan, inf, -inf, 0.0, -0.0, 2.5)],
    "isinf": [(x, x in (inf, -inf)) for x in (nan, inf, -inf, 0.0, -0.0, 2.5)],
    "isnan": [(x, x != x) for x in (nan, inf, -inf, 0.0, -0.0, 2.5)],
    "signbit": [
        *[(inf, False), (-inf, True), (0.0, False), (-0.0, True), (2.5, False), (-2.5, True)],
        *[(nan, False), (-nan, True)],
    ],
}


def _signed(cases: Cases2) -> Cases2:
    """With both signs of the first operand, odd in it."""
    return [*cases, *((-x, y, -z) for x, y, z in cases)]


def _products(cases: Cases2) -> Cases2:
    """The sign of the result is that of the product of the operands' signs."""
    found = _signed(cases)
    return [*found, *((x, -y, -z) for x, y, z in found)]


NANS: Cases2 = [(nan, 1.0, nan), (1.0, nan, nan), (nan, nan, nan), (nan, inf, nan), (0.0, nan, nan)]
SUM: Cases2 = [
    *NANS,
    *[(inf, -inf, nan), (-inf, inf, nan), (inf, inf, inf), (-inf, -inf, -inf)],
    *[(inf, 2.0, inf), (-inf, 2.0, -inf), (2.0, inf, inf), (2.0, -inf, -inf)],
    *[(-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (0.0, -0.0, 0.0), (0.0, 0.0, 0.0)],
    *[(0.0, 2.5, 2.5), (-0.0, 2.5, 2.5), (2.5, -2.5, 0.0), (-2.5, 2.5, 0.0)],
]
DIVISION = _products(
    [
        *[(inf, inf, nan), (0.0, 0.0, nan), (0.0, 2.5, 0.0), (2.5, 0.0, inf)],
        *[(inf, 2.5, inf), (2.5, inf, 0.0)],
    ]
)

BINARY: dict[str, Cases2] = {
    "add": SUM,
    "subtract": [(x, -y, z) for x, y, z in SUM],
    "multiply": [
        *NANS,
        *_products([(inf, 0.0, nan), (0.0, inf, nan), (inf, inf, inf)]),
        *_products([(inf, 2.5, inf), (2.5, inf, inf), (0.0, 2.5, 0.0)]),
    ],
    "divide": [*NANS, *DIVISION],
    "atan2": [
        *NANS,
        *_signed([(2.5, 0.0, HALF), (2.5, -0.0, HALF), (0.0, 2.5, 0.0), (0.0, 0.0, 0.0)]),
        *_signed([(0.0, -0.0, pi), (0.0, -2.5, pi), (2.5, inf, 0.0), (2.5, -inf, pi)]),
        *_signed([(inf, 2.5, HALF), (inf, -2.5, HALF), (inf, inf, QUARTER), (inf, -inf, THREE)]),
    ],
    "copysign": [
        (x, y, z)
        for x in (2.5, -2.5, inf, 0.0, -0.0)
        for y, z in ((1.0, abs(x)), (0.0, abs(x)), (-0.0, -abs(x)), (-inf, -abs(x)), (inf, abs(x)))
    ],
    "floor_divide": [
        *NANS,
        *_products([(inf, inf, nan), (0.0, 0.0, nan), (0.0, 2.5, 0.0), (2.5, 0.0, inf)]),
        # ±inf / finite: inf or NaN in the standard of 2024; NumPy's is NaN
        *_products([(inf, 2.5, nan)]),
        *[(2.5, inf, 0.0), (-2.5, -inf, 0.0), (-2.5, inf, -1.0), (2.5, -inf, -1.0)],
        *[(5.0, 2.0, 2.0), (-5.0, 2.0, -3.0), (5.0, -2.0, -3.0), (-5.0, -2.0, 2.0)],
    ],
    "hypot": [
        *[(x, y, inf) for x, y in ((inf, nan), (-inf, nan), (nan, inf), (nan, -inf), (-inf, 2.5))],
        *[(nan, 2.5, nan), (2.5, nan, nan), (nan, nan, nan)],
        *[(0.0, -2.5, 2.5), (-0.0, 2.5, 2.5), (2.5, 0.0, 2.5), (-2.5, -0.0, 2.5), (3.0, 4.0, 5.0)],
    ],
    "logaddexp": [*NANS[:4], (inf, 2.5, inf), (2.5, inf, inf), (-inf, 2.5, 2.5), (inf, inf, inf)],
    "maximum": [*NANS, (inf, 2.5, inf), (-inf, 2.5, 2.5), (2.5, inf, inf)],
    "minimum": [*NANS, (inf, 2.5, 2.5), (-inf, 2.5, -inf), (2.5, -inf, -inf)],
    "fmax": [(nan, 1.0, 1.0), (1.0, nan, 1.0), (nan, nan, nan), (inf, 2.5, inf)],
    "fmin": [(nan, 1.0, 1.0), (1.0, nan, 1.0), (nan, nan, nan), (inf, 2.5, 2.5)],
    "nextafter": [*NANS, (2.5, 2.5, 2.5), (0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (inf, inf, inf)],
    "remainder": [
        *NANS,
        *_products([(inf, inf, nan), (0.0, 0.0, nan), (inf, 2.5, nan), (2.5, 0.0, nan)]),
        *[(0.0, 2.5, 0.0), (-0.0, 2.5, 0.0), (0.0, -2.5, -0.0), (-0.0, -2.5, -0.0)],
        *[(2.5, inf, 2.5), (2.5, -inf, -inf), (-2.5, inf, inf), (-2.5, -inf, -2.5)],
        *[(5.0, 3.0, 2.0), (-5.0, 3.0, 1.0), (5.0, -3.0, -1.0), (-5.0, -3.0, -2.0)],
        *[(6.0, 3.0, 0.0), (-6.0, 3.0, 0.0), (6.0, -3.0, -0.0), (-6.0, -3.0, -0.0)],
    ],
    "power": [
        *[(x, y, 1.0) for x in (nan, 0.0, -0.0, inf, -inf, 2.5) for y in (0.0, -0.0)],
        *[(1.0, y, 1.0) for y in (nan, inf, -inf, 2.5)],
        *[(nan, 2.5, nan), (2.5, nan, nan), (-1.0, inf, 1.0), (-1.0, -inf, 1.0)],
        *[(x, inf, inf) for x in (1.5, -1.5, inf, -inf)],
        *[(x, -inf, 0.0) for x in (1.5, -1.5, inf, -inf)],
        *[(x, inf, 0.0) for x in (0.5, -0.5, 0.0, -0.0)],
        *[(x, -inf, inf) for x in (0.5, -0.5, 0.0, -0.0)],
        *[(inf, 2.5, inf), (inf, -2.5, 0.0), (-inf, 3.0, -inf), (-inf, 2.0, inf), (-inf, 2.5, inf)],
        *[(-inf, -3.0, -0.0), (-inf, -2.0, 0.0), (-inf, -2.5, 0.0)],
        *[(0.0, 2.5, 0.0), (0.0, -2.5, inf), (-0.0, 3.0, -0.0), (-0.0, 2.0, 0.0), (-0.0, 2.5, 0.0)],
        *[(-0.0, -3.0, -inf), (-0.0, -2.0, inf), (-0.0, -2.5, inf), (-2.5, 0.5, nan)],
        *[(-2.0, 3.0, -8.0), (-2.0, 2.0, 4.0), (-2.5, -1e30, 0.0)],
    ],
}

COMPARISONS: dict[str, list[tuple[float, float, bool]]] = {
    name: [
        *[(nan, 1.0, unequal), (1.0, nan, unequal), (nan, nan, unequal)],
        *[(0.0, -0.0, same), (-0.0, 0.0, same), (inf, inf, same), (-inf, -inf, same)],
        *[(inf, -inf, larger), (inf, 2.5, larger), (2.5, -inf, larger), (-inf, inf, smaller)],
    ]
    for name, same, larger, smaller, unequal in (
        ("equal", True, False, False, False),
        ("not_equal", False, True, True, True),
        ("less", False, False, True, False),
        ("less_equal", True, False, True, False),
        ("greater", False, True, False, False),
        ("greater_equal", True, True, False, False),
    )
}

OPERATORS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "remainder",
    "**": "power",
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
"""Operators have the special cases of their functions."""
