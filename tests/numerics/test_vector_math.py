# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
# pyright: reportUnknownLambdaType=false
"""
Vector math keeps its stated bounds over 262,144 points per function and format (ten million when
slow tests run), scalars, half-width floats, and where the coefficients come from.
"""

from __future__ import annotations

from functools import cache

import mpmath
import numpy as np
import pytest

from mlc.passes.math import coefficients_f32, coefficients_f64, log_gamma, power, reduction
from mlc.passes.math.expand_math import FUNCTIONS as EXPANDED
from mlc.passes.math.expand_math import ExpandMathPass
from mlc.passes.math.formats import CONSTANTS
from mlc.passes.math.lane_builder import BINARY32, BINARY64
from mlc.runtime.probe import host_target
from tests.emitted import loops_context, parse_loops
from tests.numerics import minimax
from tests.numerics.approximations import problems, tables
from tests.numerics.judges import BY_TABLE, EXACT, FORMATS, FUNCTIONS, Array, apply, errors_ulp
from tests.numerics.points import Points, lgamma_zeros, pairs, samples

POINTS = 1 << 18
CHUNK = 1 << 18  # long doubles of a chunk stay in the cache


BOUNDS = {"avx2": FUNCTIONS, "avx512": BY_TABLE}
"""The functions of each target that has its own."""
CASES = [pytest.param(t, name, id=f"{t}-{name}") for t, some in BOUNDS.items() for name in some]


def only_where_it_runs(target: str) -> None:
    """Skips the test where this machine lacks the target's instructions."""
    if target == "avx512" and not host_target().has_lane_tables:
        pytest.skip("no AVX-512 here")


def judged(target: str, name: str, dtype: str, arguments: tuple[Array, ...]) -> None:
    """Fails where the function leaves its bound."""
    function = BOUNDS[target][name]
    got = apply(function.op, dtype, function.operands, target=target)(*arguments)
    error = errors_ulp(got, function.exact(*arguments))
    worst = int(np.argmax(error))
    limit = function.bound(dtype)
    found = ", ".join(repr(float(x[worst])) for x in arguments)
    assert error[worst] <= limit, f"{name}({found}): {error[worst]:.3f} ulp, bound {limit}"


def judge_many(target: str, name: str, dtype: str, count: int) -> None:
    """About `count` points over all samplers."""
    only_where_it_runs(target)
    points = Points(FORMATS[dtype], 7)
    if FUNCTIONS[name].operands == 2:
        each = max(count // 4, 1)
        for start in range(0, each, CHUNK):
            for pair in pairs(name, points, min(CHUNK, each - start)):
                judged(target, name, dtype, pair)
        return
    chosen = samples(name, points)
    each = -(-count // len(chosen))
    for sample in chosen:
        for start in range(0, each, CHUNK):
            judged(target, name, dtype, (sample(min(CHUNK, each - start)),))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(("target", "name"), CASES)
def test_bound(target: str, name: str, dtype: str) -> None:
    judge_many(target, name, dtype, POINTS)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(("target", "name"), CASES)
def test_bound_over_ten_million_points(target: str, name: str, dtype: str) -> None:
    judge_many(target, name, dtype, 10_000_000)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", EXACT)
def test_functions_without_rounding(name: str, dtype: str) -> None:
    op, judge = EXACT[name]
    for x, y in pairs(name, Points(FORMATS[dtype], 8), POINTS // 8):
        with np.errstate(all="ignore"):
            expected = judge(x, y)
        got = apply(op, dtype, 2)(x, y)
        np.testing.assert_array_equal(got, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(expected[numbers]))


@pytest.mark.parametrize("dtype", FORMATS)
def test_lgamma_of_negative_numbers(dtype: str) -> None:
    points = Points(FORMATS[dtype], 9)
    for low in (-3.0, -50.0, -200.0):
        for _ in range(POINTS // CHUNK):
            judged("avx2", "lgamma", dtype, (points.uniform(low, 0)(CHUNK),))


@pytest.mark.parametrize("dtype", FORMATS)
def test_lgamma_beside_its_zeros(dtype: str) -> None:
    """The 8,192 numbers next to each: no zero has a place in the format."""
    zeros = np.array(lgamma_zeros(), FORMATS[dtype])
    whole = zeros.view(f"i{zeros.itemsize}")[:, None] + np.arange(-4096, 4097)
    x = whole.astype(f"i{zeros.itemsize}").view(zeros.dtype).ravel()
    judged("avx2", "lgamma", dtype, (x,))


def test_lgamma_beside_its_zeros_against_four_hundred_digits() -> None:
    zeros = np.array(lgamma_zeros()).view(np.int64)[:, None] + np.arange(-8, 9)
    x = zeros.view(np.float64).ravel()
    x = x[x != np.round(x)]
    got = apply(FUNCTIONS["lgamma"].op, "f64")(x)
    with mpmath.workdps(400):
        for value, result in zip(x.tolist(), got.tolist(), strict=True):
            true = mpmath.log(abs(mpmath.gamma(mpmath.mpf(value))))
            unit = mpmath.mpf(2) ** (mpmath.frexp(true)[1] - 53)
            assert abs(result - true) / unit <= FUNCTIONS["lgamma"].f64, value


def _real_cbrt(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


def _log_gamma(x: mpmath.mpf) -> mpmath.mpf:
    return mpmath.re(mpmath.loggamma(x))


JUDGED_TWICE = {
    "exp": mpmath.exp,
    "log": mpmath.log,
    "sin": mpmath.sin,
    "tan": mpmath.tan,
    "atan": mpmath.atan,
    "asinh": mpmath.asinh,
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "lgamma": _log_gamma,
    "cbrt": _real_cbrt,
}


@pytest.mark.parametrize("name", JUDGED_TWICE)
def test_f64_against_four_hundred_digits(name: str) -> None:
    """A second judge: the long doubles are not the only ones who say so."""
    first = samples(name, Points(np.float64, 10))
    x = np.concatenate([sample(100) for sample in first[:-1]])
    got = apply(FUNCTIONS[name].op, "f64")(x)
    with mpmath.workdps(400):
        for value, result in zip(x.tolist(), got.tolist(), strict=True):
            true = JUDGED_TWICE[name](mpmath.mpf(value))
            unit = mpmath.mpf(2) ** max(mpmath.frexp(true)[1] - 53, -1074)
            if abs(true) < mpmath.mpf(2) ** 1024:
                assert abs(result - true) / unit <= FUNCTIONS[name].f64, value


def test_sine_of_the_hardest_arguments() -> None:
    """Doubles nearest to a multiple of pi/2. SOURCE: Muller, Elementary Functions, 2016, 11.3."""
    x = np.array([6381956970095103.0 * 2.0**797, 5.319372648326541e255, 1e22, 1.0e308])
    with mpmath.workdps(800):
        for name in ("sin", "cos", "tan"):
            got = apply(FUNCTIONS[name].op, "f64")(x)
            for value, result in zip(x.tolist(), got.tolist(), strict=True):
                true = getattr(mpmath, name)(mpmath.mpf(value))
                assert abs(result / true - 1) < 2.0**-52


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BY_TABLE)
def test_lane_tables_do_not_depend_on_the_number_of_lanes(name: str, dtype: str) -> None:
    only_where_it_runs("avx512")
    function = BY_TABLE[name]
    x = [Points(FORMATS[dtype], seed).bits(4096) for seed in range(function.operands)]
    expected = apply(function.op, dtype, function.operands, vector=False, target="avx512")(*x)
    for lanes in (2, 4, 8, 16, 32):
        got = apply(function.op, dtype, function.operands, target="avx512", lanes=lanes)(*x)
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", [name for name in BY_TABLE if BY_TABLE[name].operands == 1])
def test_lane_tables_at_the_ends(name: str) -> None:
    """Infinities, NaN, zeros and the smallest numbers: as NumPy."""
    only_where_it_runs("avx512")
    function = BY_TABLE[name]
    for dtype, form in FORMATS.items():
        tiny = np.finfo(form).smallest_subnormal
        x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, tiny, -tiny, 1.0, -1.0, 1e4, -1e4], form)
        with np.errstate(all="ignore"):
            expected = function.exact(x).astype(form)
        got = apply(function.op, dtype, target="avx512")(x)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        np.testing.assert_array_max_ulp(got[~np.isnan(got)], expected[~np.isnan(got)], 2)
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scalar_equals_vector(name: str) -> None:
    function = FUNCTIONS[name]
    x = [Points(np.float32, seed).bits(4096) for seed in range(function.operands)]
    expected = apply(function.op, "f32", function.operands)(*x)
    got = apply(function.op, "f32", function.operands, vector=False)(*x)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_f16_is_computed_in_f32(name: str) -> None:
    function = FUNCTIONS[name]
    x = [np.linspace(1, 8, 512).astype(np.float16)] * function.operands
    got = apply(function.op, "f16", function.operands)(*x)
    with np.errstate(all="ignore"):
        expected = function.exact(*x).astype(np.float16)
    np.testing.assert_allclose(got, expected, rtol=2**-10, atol=2**-24)


def test_exact_results() -> None:
    """Powers of two and cubes come out exactly."""
    powers = np.exp2(np.arange(-1022.0, 1024.0))
    np.testing.assert_array_equal(apply("math.log2", "f64")(powers), np.arange(-1022.0, 1024.0))
    np.testing.assert_array_equal(apply("math.exp2", "f64")(np.arange(-1022.0, 1024.0)), powers)
    whole = np.arange(-1000.0, 1000.0)
    np.testing.assert_array_equal(apply("math.cbrt", "f64")(whole**3), whole)
    base, exponent = np.repeat(np.arange(1.0, 30.0), 10), np.tile(np.arange(10.0), 29)
    np.testing.assert_array_equal(apply("math.powf", "f64", 2)(base, exponent), base**exponent)


def test_every_function_is_replaced() -> None:
    for function in FUNCTIONS.values():
        operands = ", ".join(["%x"] * function.operands)
        module = parse_loops(
            f"func.func @k(%x: f32) {{\n %y = {function.op} {operands} : f32\n return\n}}"
        )
        assert any(type(op) in EXPANDED for op in module.walk())
        ExpandMathPass().apply(loops_context(), module)
        assert not any(type(op) in EXPANDED for op in module.walk())


POLYNOMIALS = {
    (name, dtype): list(found)
    for dtype, short in (("float32", coefficients_f32), ("float64", coefficients_f64))
    for name, found in short.POLYNOMIALS.items()
}


@cache
def problems_by_name() -> dict[tuple[str, str], minimax.Problem]:
    """What each polynomial approximates: seconds of arithmetic with many digits."""
    return {(problem.name, problem.dtype.__name__): problem for problem in problems()}


def test_every_problem_has_a_polynomial() -> None:
    assert problems_by_name().keys() == POLYNOMIALS.keys()


@pytest.mark.parametrize(("name", "dtype"), POLYNOMIALS)
def test_coefficients_are_minimax(name: str, dtype: str) -> None:
    """What stands in coefficients_*.py is what the exchange algorithm gives."""
    assert POLYNOMIALS[name, dtype] == minimax.coefficients(problems_by_name()[name, dtype])


@pytest.mark.parametrize("dtype", FORMATS)
def test_tables(dtype: str) -> None:
    """The tables that registers hold are what their definition says."""
    short = coefficients_f32 if dtype == "f32" else coefficients_f64
    assert tables(FORMATS[dtype]) == short.TABLES


def test_pairs_of_constants() -> None:
    """A constant rounded to the format, then what is left of it, rounded again."""
    with mpmath.workdps(60):
        for form, dtype in ((BINARY32, np.float32), (BINARY64, np.float64)):
            c = CONSTANTS[form]
            ln2, ln10 = mpmath.log(2), mpmath.log(10)
            values = {c.ln2: ln2, c.log2_e: 1 / ln2, c.log10_e: 1 / ln10, c.pi: mpmath.pi}
            values |= {c.half_pi: mpmath.pi / 2}
            if form is BINARY64:
                values |= {log_gamma.HALF_LOG_2_PI: mpmath.log(2 * mpmath.pi) / 2}
                values |= {log_gamma.LOG_PI: mpmath.log(mpmath.pi)}
                values |= {log_gamma.LGAMMA_SLOPE: 1 - mpmath.euler}
                terms = mpmath.taylor(lambda t: mpmath.rgamma(1 + t), 0, 6)
                values |= dict(zip(log_gamma.RECIPROCAL_GAMMA, terms, strict=True))
                for pair in log_gamma.ZEROS:
                    zero = mpmath.findroot(lambda y: abs(mpmath.rgamma(-y)) - 1, pair[0])
                    values |= {pair: zero}
                values |= {power.TWO_OVER_LN2: 2 / ln2, power.TWO_THIRDS_OVER_LN2: 2 / ln2 / 3}
            for parts, value in values.items():
                left = value
                for part in parts:
                    assert part == float(dtype(mpmath.nstr(left, 30)))
                    left -= part
            short = {c.ln2_short: ln2, c.log10_2_short: ln2 / ln10}
            for (high, low), value in short.items():
                assert low == float(dtype(mpmath.nstr(value - high, 30)))
                # exact for exponents of up to 8 (f32) or 11 bits (f64), subnormals included
                free_bits = 9 if dtype is np.float32 else 12
                scaled = high * 2.0 ** (np.finfo(dtype).nmant + 2 - free_bits)
                assert scaled == int(scaled)


def test_exponentials_below_the_least_number_round_nothing() -> None:
    """The power of two of the lowest argument is 0, and none of a result that is not 0 is."""
    for form, dtype in ((BINARY32, np.float32), (BINARY64, np.float64)):
        c = CONSTANTS[form]
        zero = -form.exponent_bias
        for lowest, least, unit in (
            (c.exp_zero, c.exp_low, 2 * np.log(2)),
            (c.exp2_zero, c.exp2_low, 2.0),
        ):
            assert np.rint(dtype(lowest) / unit) == zero
            assert np.rint(least / unit) > zero + 1


def test_digits_of_two_over_pi() -> None:
    with mpmath.workprec(1700):
        whole = sum(d * mpmath.mpf(2) ** (-53 * (k + 1)) for k, d in enumerate(reduction.DIGITS))
        assert abs(whole - 2 / mpmath.pi) < mpmath.mpf(2) ** (-53 * len(reduction.DIGITS))
