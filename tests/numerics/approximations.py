# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingTypeStubs=false, reportUnknownLambdaType=false
"""
What the polynomials of passes/math/coefficients_f32.py and coefficients_f64.py approximate: the
function, the interval, how errors count, and the degree per format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np

from mlc.passes.math.by_unit import TANH_POLYNOMIAL
from mlc.passes.math.formats import CONSTANTS
from mlc.passes.math.lane_angles import TAN_POINTS_PER_RADIAN, TANH_BITS, TANH_OFFSET
from mlc.passes.math.lane_builder import BINARY32, BINARY64
from mlc.passes.math.log_gamma import VALLEY_CENTRE, ZEROS

Real = mpmath.mpf
Function = Callable[[Real], Real]


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Approximate `value` on [low, high] by a polynomial; errors count `weight` times."""

    name: str
    value: Function
    weight: Function
    low: Real
    high: Real
    degree: int
    dtype: type[np.floating]


def value_of(coefficients: Sequence[Real], x: Real) -> Real:
    """The polynomial, constant term first."""
    total = mpmath.mpf(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def _one(x: Real) -> Real:
    return mpmath.mpf(1)


def _series(closed: Function, terms: Callable[[int], Real], near: str = "1e-4") -> Function:
    """The closed form, which loses digits near zero, and there its power series instead."""
    first = [terms(k) for k in range(16)]
    edge = mpmath.mpf(near)
    return lambda x: value_of(first, x) if abs(x) < edge else closed(x)


def _away(weight: Function) -> Function:
    """Zero divided by zero at the origin counts as 0."""
    return lambda x: weight(x) if x else mpmath.mpf(0)


def _reciprocal_of(value: Function) -> Function:
    """The weight of relative errors."""
    return lambda x: 1 / value(x)


Row = tuple[str, Function, Function, Real, Real, int | None, int | None]


def _exponential() -> Iterator[Row]:
    ln2, wide = mpmath.log(2), mpmath.mpf("1.001")
    factorial = mpmath.factorial
    tail = _series(lambda r: (mpmath.expm1(r) - r) / r**2, lambda k: 1 / factorial(k + 2))
    yield ("exp_tail", tail, lambda r: r**2 / mpmath.exp(r), -ln2 * wide, ln2 * wide, 5, 11)
    rise = _away(lambda r: r**2 / mpmath.expm1(r))
    yield ("expm1_positive", tail, rise, mpmath.mpf("-0.001"), ln2 * wide, 5, 10)
    yield ("expm1_tail", tail, rise, -ln2 / 2 * wide, ln2 / 2 * wide, 5, 10)
    power = _series(
        lambda r: (2**r - 1 - r * ln2) / r**2, lambda k: ln2 ** (k + 2) / factorial(k + 2)
    )
    one = mpmath.mpf(1)
    yield ("exp2_tail", power, lambda r: r**2 / 2**r, -one, one, 5, 11)
    rise = _series(lambda r: (2**r - 1) / r, lambda k: ln2 ** (k + 1) / factorial(k + 1))
    yield ("exp2_half", rise, lambda r: abs(r) / 2**r, -one / 2, one / 2, None, 6)
    root, reach = mpmath.sqrt, (ln2 / 2 * wide) ** 2
    sinh = _series(
        lambda z: (mpmath.sinh(root(z)) / root(z) - 1) / z, lambda k: 1 / factorial(2 * k + 3)
    )
    cosh = _series(lambda z: (mpmath.cosh(root(z)) - 1) / z, lambda k: 1 / factorial(2 * k + 2))
    yield ("sinh_tail", sinh, lambda z: z, mpmath.mpf(0), reach, 2, 5)
    yield ("cosh_tail", cosh, lambda z: z, mpmath.mpf(0), reach, 2, 6)
    tanh = _series(
        lambda z: (mpmath.tanh(root(z)) / root(z) - 1) / z,
        lambda k: (
            (2 ** (2 * k + 4) - 1)
            * mpmath.mpf(2) ** (2 * k + 4)
            * mpmath.bernoulli(2 * k + 4)
            / factorial(2 * k + 4)
        ),
    )
    yield ("tanh_tail", tanh, lambda z: z, mpmath.mpf(0), mpmath.mpf(TANH_POLYNOMIAL) ** 2, 4, None)


def _logarithm() -> Iterator[Row]:
    root2, root = mpmath.sqrt(2), mpmath.sqrt
    tail = _series(
        lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3, lambda k: mpmath.mpf((-1) ** k) / (k + 3)
    )
    weight = _away(lambda f: abs(f**3 / mpmath.log1p(f)))
    yield ("log_tail", tail, weight, 1 / root2 - 1, root2 - 1, 8, None)
    half = _series(
        lambda z: (2 * mpmath.atanh(root(z)) / root(z) - 2) / z,
        lambda k: mpmath.mpf(2) / (2 * k + 3),
    )
    reach = ((root2 - 1) / (root2 + 1)) ** 2 * mpmath.mpf("1.001")
    yield ("log_tail", half, lambda z: z, mpmath.mpf(0), reach, None, 6)
    second = _series(
        lambda z: (half(z) - mpmath.mpf(2) / 3) / z / mpmath.log(2),
        lambda k: mpmath.mpf(2) / (2 * k + 5) / mpmath.log(2),
    )
    yield ("log2_tail", second, lambda z: z * z, mpmath.mpf(0), reach, None, 6)
    whole = _series(
        lambda z: 2 * mpmath.atanh(root(z)) / root(z) / mpmath.log(2),
        lambda k: mpmath.mpf(2) / (2 * k + 1) / mpmath.log(2),
    )
    yield ("log2_short", whole, _one, mpmath.mpf(0), reach, None, 4)


def _trigonometric() -> Iterator[Row]:
    root, factorial, pi = mpmath.sqrt, mpmath.factorial, mpmath.pi
    reach = (pi / 4 * mpmath.mpf("1.001")) ** 2
    sin = _series(
        lambda z: (mpmath.sin(root(z)) / root(z) - 1) / z,
        lambda k: (-1) ** (k + 1) / factorial(2 * k + 3),
    )
    cos = _series(
        lambda z: (mpmath.cos(root(z)) - 1 + z / 2) / z**2,
        lambda k: (-1) ** k / factorial(2 * k + 4),
        "1e-3",
    )
    zero = mpmath.mpf(0)
    yield ("sin_tail", sin, lambda z: z, zero, reach, 2, 5)
    half_turn = (pi / 2 * mpmath.mpf("1.001")) ** 2
    weight = _away(lambda z: z * root(z) / mpmath.sin(root(z)))
    yield ("sin_of_half_turns", sin, weight, zero, half_turn, 4, None)
    yield ("cos_tail", cos, lambda z: z**2, zero, reach, 2, 5)
    binomial = mpmath.binomial

    def arcsine(k: int) -> Real:
        return binomial(2 * k + 2, k + 1) / mpmath.mpf(4) ** (k + 1) / (2 * k + 3)

    asin = _series(lambda z: (mpmath.asin(root(z)) / root(z) - 1) / z, arcsine)
    atan = _series(
        lambda z: (mpmath.atan(root(z)) / root(z) - 1) / z,
        lambda k: mpmath.mpf((-1) ** (k + 1)) / (2 * k + 3),
    )
    yield ("asin_tail", asin, lambda z: z, zero, mpmath.mpf("0.2501"), 4, 11)
    yield ("atan_tail", atan, lambda z: z, zero, mpmath.mpf("0.1718"), 4, 10)


ERFC_CENTRE = 2.0
"""erfc(a) is a polynomial in (a - centre) / (a + centre), times elementary functions."""


def _special() -> Iterator[Row]:
    root, factorial, pi = mpmath.sqrt, mpmath.factorial, mpmath.pi
    zero, one = mpmath.mpf(0), mpmath.mpf(1)
    slope = 2 / root(pi)
    erf = _series(
        lambda z: mpmath.erf(root(z)) / root(z) - 1,
        lambda k: slope * (-1) ** k / factorial(k) / (2 * k + 1) - (0 if k else 1),
    )
    yield ("erf_near", erf, lambda z: mpmath.mpf(1) / (erf(z) + 1), zero, one, 6, 11)

    def scaled(q: Real) -> Real:
        a = ERFC_CENTRE * (1 + q) / (1 - q)
        return (1 + 2 * a) * mpmath.exp(a * a) * mpmath.erfc(a) - 1

    def place(a: float) -> Real:
        return (mpmath.mpf(a) - ERFC_CENTRE) / (mpmath.mpf(a) + ERFC_CENTRE)

    def weight(q: Real) -> Real:
        return mpmath.mpf(1) / (1 + scaled(q))

    yield ("erfc_scaled", scaled, weight, place(0.49), place(10.1), 10, None)
    yield ("erfc_scaled", scaled, weight, place(0.49), place(27.3), None, 23)
    yield ("erfc_short", scaled, weight, place(0.49), place(10.1), None, 11)
    half = one / 2
    slope = 1 - mpmath.euler
    gamma = _series(
        lambda u: (mpmath.loggamma(2 + u) / u - slope) / u,
        lambda k: (-1) ** k * (mpmath.zeta(k + 2) - 1) / (k + 2),
    )
    yield (
        "lgamma_tail",
        gamma,
        lambda u: u * u / max(abs(mpmath.loggamma(2 + u)), mpmath.mpf("0.05")),
        mpmath.mpf("-0.551"),
        mpmath.mpf("0.451"),
        None,
        19,
    )

    def stirling(t: Real) -> Real:
        if t < mpmath.mpf("1e-5"):
            return mpmath.mpf(1) / 12 - t / 360 + t**2 / 1260 - t**3 / 1680 + t**4 / 1188
        x = 1 / root(t)
        rest = mpmath.loggamma(x) - (x - half) * mpmath.log(x) + x - mpmath.log(2 * pi) / 2
        return rest * x

    yield ("stirling", stirling, _one, zero, one / 63, None, 6)
    first = mpmath.taylor(lambda t: mpmath.rgamma(1 + t), 0, 7 + 16)[7:]
    reciprocal = _series(lambda t: value_of(first, t), lambda k: first[k])
    edge = one / 80
    yield ("reciprocal_gamma_tail", reciprocal, lambda t: t**7, -edge, edge, None, 5)
    yield from _lgamma_zeros()
    yield ("cbrt_start", lambda m: m ** (-one / 3), lambda m: m ** (one / 3), one, one * 2, 3, 4)


def _lgamma_zeros() -> Iterator[Row]:
    """
    (1 / |gamma(z + d)| - 1) / d at a zero z of lgamma, a little farther than where |lgamma| < 1/4;
    1 / |gamma| - 1 in the valley between the first two.
    """
    wide = ((-0.08, 0.124, 11), (-0.09, 0.0845, 11))
    narrow = ((-0.038, 0.0305, 8), (-0.0111, 0.015, 7), (-0.0112, 0.0089, 6))
    for k, (low, high, degree) in enumerate((*wide, *narrow), 1):
        zero = -mpmath.findroot(lambda y: abs(mpmath.rgamma(-y)) - 1, mpmath.mpf(ZEROS[k - 1][0]))
        terms = mpmath.taylor(lambda x: abs(mpmath.rgamma(x)), zero, 16)[1:]

        def slope(d: Real, zero: Real = zero) -> Real:
            return (abs(mpmath.rgamma(zero + d)) - 1) / d

        value = _series(slope, lambda k, terms=terms: terms[k])
        weight = _reciprocal_of(value)
        yield (f"lgamma_zero_{k}", value, weight, mpmath.mpf(low), mpmath.mpf(high), None, degree)

    def valley(d: Real) -> Real:
        return abs(mpmath.rgamma(d - mpmath.mpf(VALLEY_CENTRE))) - 1

    reach = (mpmath.mpf("-0.056"), mpmath.mpf("0.076"))
    yield ("lgamma_valley", valley, _reciprocal_of(valley), *reach, None, 11)


def _by_table() -> Iterator[Row]:
    """Around the entries of tables of 32 (f32) and 16 (f64) numbers."""
    ln2, wide, one, factorial = mpmath.log(2), mpmath.mpf("1.01"), mpmath.mpf(1), mpmath.factorial
    tail = _series(lambda r: (mpmath.expm1(r) - r) / r**2, lambda k: 1 / factorial(k + 2), "1e-3")
    rise = _series(lambda r: (2**r - 1) / r, lambda k: ln2 ** (k + 1) / factorial(k + 1), "1e-3")

    def logarithm(scale: Real) -> Function:
        return _series(
            lambda f: (mpmath.log1p(f) - f) / f**2 * scale,
            lambda k: mpmath.mpf((-1) ** (k + 1)) / (k + 2) * scale,
            "1e-3",
        )

    third = _series(
        lambda f: (mpmath.log1p(f) - f + f * f / 2) / f**3,
        lambda k: mpmath.mpf((-1) ** k) / (k + 3),
        "1e-3",
    )
    sqrt = mpmath.sqrt
    atan = _series(
        lambda z: (mpmath.atan(sqrt(z)) / sqrt(z) - 1) / z,
        lambda k: mpmath.mpf((-1) ** (k + 1)) / (2 * k + 3),
    )
    tanh = _series(
        lambda z: (mpmath.tanh(sqrt(z)) / sqrt(z) - 1) / z,
        lambda k: mpmath.taylor(mpmath.tanh, 0, 2 * k + 3)[-1],
    )
    tan = _series(
        lambda z: (mpmath.tan(sqrt(z)) / sqrt(z) - 1) / z,
        lambda k: mpmath.taylor(mpmath.tan, 0, 2 * k + 3)[-1],
    )
    # the last interval is wider, and so flat that nothing is asked of it
    yield ("tanh_by_table", tanh, lambda z: z, mpmath.mpf(0), (one / 4) ** 2 * wide, 3, None)
    root = _series(
        lambda f: ((1 + f) ** (-one / 3) - 1) / f,
        lambda k: mpmath.binomial(-one / 3, k + 1),
        "1e-3",
    )
    for entries, short in ((32, True), (16, False)):

        def degrees(f32: int, f64: int, short: bool = short) -> tuple[int | None, int | None]:
            return (f32, None) if short else (None, f64)

        reach = wide / (2 * entries)
        yield ("exp_by_table", tail, lambda r: r * r, -reach * ln2, reach * ln2, *degrees(1, 4))
        yield ("expm1_by_table", tail, abs, -reach * ln2, reach * ln2, *degrees(1, 5))
        yield ("exp2_by_table", rise, abs, -reach, reach, *degrees(2, 5))
        angle = (wide * (mpmath.mpf("1.5") - NEAREST_POINT) / (entries - 1)) ** 2
        yield ("atan_by_table", atan, lambda z: z, mpmath.mpf(0), angle, *degrees(0, 3))
        far = mpmath.mpf("1.5") - NEAREST_POINT
        slice_of_tan = (wide * mpmath.pi / 2 * far / (entries - 1)) ** 2
        yield ("tan_by_table", tan, lambda z: z, mpmath.mpf(0), slice_of_tan, *degrees(1, 4))
        yield ("inverse_root_by_table", root, abs, -reach, one / entries, *degrees(2, 4))
        weight = _away(lambda f: abs(f**3 / mpmath.log1p(f)))
        edge = one / 25  # of `_short_inverse`
        yield ("log_by_short_table", third, weight, -edge, edge, *degrees(4, 10))
        for name, scale in (
            ("log_by_table", one),
            ("log2_by_table", 1 / ln2),
            ("log10_by_table", 1 / mpmath.log(10)),
        ):
            weight = _away(lambda f, scale=scale: f * f / abs(mpmath.log1p(f)) / scale)
            yield (name, logarithm(scale), weight, -reach, one / entries, *degrees(2, 8))


def problems() -> list[Problem]:
    """All polynomials, f32 before f64 where both have one."""
    with mpmath.workdps(60):
        rows = [*_exponential(), *_logarithm(), *_trigonometric(), *_special(), *_by_table()]
        return [
            Problem(
                name=name, value=value, weight=weight, low=low, high=high, degree=n, dtype=dtype
            )
            for name, value, weight, low, high, *degrees in rows
            for dtype, n in zip((np.float32, np.float64), degrees, strict=True)
            if n is not None
        ]


def _short_inverse(k: int) -> float:
    """
    A reciprocal of the k-th of 32 intervals of significands whose product with any of them, less 1,
    has no more bits than a significand: a multiple of 2^-5, or of less where that product is
    farther from 0.
    """
    unit = mpmath.mpf(1) / 32 if k < 16 else mpmath.mpf(1) / 64
    low, high = (32 + k) * unit, (33 + k) * unit
    if k in (0, 31):
        return 1.0
    found: list[tuple[float, float]] = []
    for numerator in range(16, 64):
        c = mpmath.mpf(numerator) / 32
        reach = max(abs(low * c - 1), abs(high * c - 1))
        bits = 5 if numerator % 2 else 4 if numerator % 4 else 3
        # multiples of 2^-(digits + bits), below 2^-(bits - 1) or, for m < 1, half of that
        if reach <= mpmath.mpf(2) ** -(bits - 1 if k < 16 else bits):
            found.append((float(reach), float(c)))
    return min(found)[1]


NEAREST_POINT = 0.875
"""The place of the first point after 0 of atan and tan, in steps: nearer to 0 than the middle of
its interval, so that what the distance from it is rounded by counts less."""


def _tanh_places() -> list[Real | None]:
    """The middles of the 32 intervals of |x|, by the last bits of their number; None: 0."""
    per_octave = 1 << TANH_BITS
    found: list[Real | None] = [None] * 32
    first = round(per_octave * 2 * (TANH_OFFSET - 0.5))  # counted from the octave of 1/2
    for k in range(first + 1, 32 + first):
        octave, part = divmod(k, per_octave)
        low = mpmath.ldexp(1 + mpmath.mpf(part) / per_octave, octave - 1)
        middle = low + mpmath.ldexp(mpmath.mpf(1), octave - 1) / per_octave / 2 - TANH_OFFSET
        found[(126 * per_octave + k) % 32] = min(
            middle, mpmath.mpf(CONSTANTS[BINARY32].tanh_one) / 2
        )
    return found


def tables(dtype: type[np.floating]) -> dict[str, tuple[float, ...]]:
    """
    The tables that two vectors of 512 bits hold: powers of 2, and for each interval of significands
    in [3/4, 3/2), by their first bits, a reciprocal and its negative logarithm. The two intervals
    at 1 have 1 and 0, so that logarithms near 0 keep their digits; the other reciprocals are those
    near the interval's middle whose logarithm is nearest to a number of the format.
    SOURCE: S. Gal, in Accurate Scientific Computations, LNCS 235, 1986.
    """
    entries = 32 if dtype is np.float32 else 16
    format_ = BINARY32 if dtype is np.float32 else BINARY64

    def rounded(x: Real) -> float:
        return float(dtype(mpmath.nstr(x, 30)))

    def accurate(
        function: Function, place: Real, spacing: float | None = None
    ) -> tuple[float, float]:
        first = dtype(rounded(place))
        apart = np.spacing(first) if spacing is None else dtype(spacing)
        first = np.rint(first / apart) * apart
        near = [float(first + k * apart) for k in range(-100, 101)]
        exact = [function(mpmath.mpf(x)) for x in near]
        lost = [abs(x - mpmath.mpf(rounded(x))) for x in exact]
        best = min(range(len(near)), key=lambda k: lost[k])
        return near[best], rounded(exact[best])

    def split(pairs: list[tuple[float, float]], inputs: str, outputs: str) -> None:
        found[inputs], found[outputs] = (tuple(x) for x in zip(*pairs, strict=True))

    with mpmath.workdps(60):
        steps = [mpmath.mpf(k) / entries for k in range(entries)]
        powers = [mpmath.mpf(2) ** step for step in steps]
        found = {"exp2": tuple(rounded(x) for x in powers)}
        found["exp2_low"] = tuple(rounded(x / mpmath.mpf(rounded(x)) - 1) for x in powers)
        scales = {"log": mpmath.mpf(1), "log2": 1 / mpmath.log(2), "log10": 1 / mpmath.log(10)}
        # products of so few bits with powers of 2 from 2^-6, less 1, are exact
        few_bits = 2.0 ** (-18 if dtype is np.float32 else -30)
        for name, scale in scales.items():
            of_2 = mpmath.mpf(rounded(scale * mpmath.log(2)))
            if name == "log10" and dtype is np.float32:
                of_2 = mpmath.mpf(0)  # two parts of log10(2), for all significands alike
            pairs = [(1.0, 0.0)]
            for k in range(1, entries - 1):
                middle = mpmath.mpf(2 * (entries + k) + 1) / (2 * entries)
                lower = k < entries // 2
                place = mpmath.mpf(1) / (middle if lower else middle / 2)
                more = mpmath.mpf(0) if lower else of_2

                def logarithm(x: Real, scale: Real = scale, more: Real = more) -> Real:
                    return more - mpmath.log(x) * scale

                pairs.append(accurate(logarithm, mpmath.mpf(place), few_bits))
            pairs.append((1.0, float(of_2)))
            split(pairs, f"{name}_inverse", name)
        first = [mpmath.mpf(x) for x in found["log_inverse"]]
        found["inverse_root"] = tuple(rounded(x ** (mpmath.mpf(1) / 3)) for x in first)
        places = [x / mpmath.mpf(entries - 1) for x in (NEAREST_POINT, *range(2, entries))]
        angles = [(0.0, 0.0), *(accurate(mpmath.atan, place) for place in places)]
        split(angles, "atan_point", "atan")
        shift = 9 if dtype is np.float32 else 12
        inverses = [_short_inverse(k) for k in range(32)]
        logs = [-mpmath.log(mpmath.mpf(x)) for x in inverses]
        step = mpmath.mpf(2) ** (shift - np.finfo(dtype).nmant - 2)
        short_logs = [mpmath.nint(x / step) * step for x in logs]
        # from 3/4 to 1, with ln(2)
        ln2 = [mpmath.mpf(x) for x in CONSTANTS[format_].ln2_short]
        logs = [x + sum(ln2) if k >= 16 else x for k, x in enumerate(logs)]
        short_logs = [x + ln2[0] if k >= 16 else x for k, x in enumerate(short_logs)]
        found["short_inverse"] = tuple(inverses)
        found["short_log"] = tuple(float(x) for x in short_logs)
        pairs_of_logs = zip(logs, short_logs, strict=True)
        found["short_log_low"] = tuple(rounded(x - y) for x, y in pairs_of_logs)
        per_radian = mpmath.mpf(TAN_POINTS_PER_RADIAN[format_])
        steps = [NEAREST_POINT, *range(2, entries // 2)]
        middles = [accurate(mpmath.tan, mpmath.mpf(k) / per_radian) for k in steps]
        below = [(-x, -y) for x, y in reversed(middles)]
        split([(0.0, 0.0), *middles, (0.0, 0.0), *below], "tan_point", "tan")
        if dtype is np.float32:
            points = [(0.0, 0.0) if x is None else accurate(mpmath.tanh, x) for x in _tanh_places()]
            split(points, "tanh_point", "tanh")
            slopes = (mpmath.sech(mpmath.mpf(x)) ** 2 for x in found["tanh_point"])
            found["tanh_slope"] = tuple(rounded(x) for x in slopes)
        return found
