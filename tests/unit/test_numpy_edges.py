"""Options and sizes of NumPy's functions that are easily forgotten, against NumPy itself."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
import mlc.numpy as mnp

Array = NDArray[Any]


def same(found: Any, want: Any) -> None:
    """Equal elements, shapes and dtypes, also of tuples."""
    if isinstance(want, tuple):
        assert len(found) == len(want)
        for a, b in zip(found, want, strict=True):
            same(a, b)
        return
    assert np.shape(found) == np.shape(want)
    assert np.asarray(found).dtype == np.asarray(want).dtype
    np.testing.assert_array_equal(found, want)


# unique along an axis


@pytest.mark.parametrize("dtype", [np.int64, np.float32, bool])
@pytest.mark.parametrize("shape", [(7, 3), (4, 2, 3), (1, 3), (6, 1), (5,)])
def test_unique_parts_along_an_axis(shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, shape).astype(dtype)
    for axis in range(-1, x.ndim):
        want: Any = np.unique(x, True, True, True, axis=axis)
        size = want[0].shape[axis]

        def distinct(v: Any, axis: int = axis, size: int = size) -> Any:
            return mnp.unique(v, True, True, True, axis=axis, size=size)

        same(distinct(x), tuple(want))
        same(mlc.compile(distinct)(x), tuple(want))


def test_unique_parts_with_nan_differ_and_missing_ones_are_filled() -> None:
    x = np.array([[1.0, np.nan], [0.0, 2.0], [1.0, np.nan], [0.0, 2.0]])
    want = np.unique(x, axis=0)
    same(mlc.compile(lambda v: mnp.unique(v, axis=0, size=3))(x), want)
    filled = mlc.compile(lambda v: mnp.unique(v, axis=0, size=5, fill_value=-1))(x)
    same(filled, np.concatenate([want, np.full((2, 2), -1.0)]))


# interp with a period


@pytest.mark.parametrize("period", [360, -4.5, 2.0])
def test_interpolation_with_a_period(period: float) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-700, 700, 50)
    places, values = rng.permutation(np.arange(-5, 5) * 37.3), rng.normal(size=10)

    def angle(x: Any, places: Any, values: Any) -> Any:
        return np.interp(x, places, values, period=period)

    found = mlc.compile(angle)(x, places, values)
    np.testing.assert_allclose(found, angle(x, places, values), rtol=1e-9, atol=1e-9)


def test_a_period_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="interp: the period is 0"):
        mlc.compile(lambda x: np.interp(x, x, x, period=0))(np.arange(3.0))


# pad, mirrored at a point


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint8])
def test_padding_mirrored_at_a_point(mode: Any, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    for n in (1, 2, 3, 5):
        x = rng.integers(0, 9, (n, 2)).astype(dtype)
        for widths in ((0, 0), (1, 0), (2, 3), (7, 1), (4, 13), (0, 9), (12, 12)):

            def padded(v: Any, widths: tuple[int, int] = widths) -> Any:
                return np.pad(v, (widths, (0, 1)), mode, reflect_type="odd")

            same(mlc.compile(padded).reference(x), padded(x))


def test_padding_mirrored_at_a_point_for_any_size() -> None:
    def padded(v: Any) -> Any:
        return np.pad(v, 2, "reflect", reflect_type="odd") * 2

    compiled = mlc.compile(dynamic=True)(padded)
    for n in (3, 4, 9):
        same(compiled(np.arange(n) ** 2.0), padded(np.arange(n) ** 2.0))
    assert compiled.stats().compilations + compiled.stats().cache_hits == 1


def test_another_reflect_type_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 'even' or 'odd'"):
        mlc.compile(lambda x: mnp.pad(x, 2, "reflect", reflect_type="strange"))(np.arange(3.0))


# No rows


def step(carry: Any, x: Any) -> Any:
    return carry + x, (carry * 2, x.sum())


def test_a_scan_over_no_rows_has_outputs_without_rows() -> None:
    start, rows = np.arange(3, dtype=np.float32), np.zeros((0, 3), np.float32)
    want = start, (rows, np.zeros(0, np.float32))

    def scanned(start: Any, rows: Any) -> Any:
        return mlc.scan(step, start, rows)

    for found in (scanned(start, rows), mlc.compile(scanned)(start, rows)):
        same(found[0], want[0])
        same(found[1], want[1])
    same(mlc.map(np.exp, rows), rows)
    counted = mlc.scan(lambda c, x: (c + 1, c), np.float32(0), None, length=0)
    same(counted, (np.float32(0), np.zeros(0, np.float32)))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_running_reductions_of_nothing(name: str, shape: tuple[int, int]) -> None:
    x = np.zeros(shape, np.float32)
    running: Callable[..., Any] = getattr(mnp, name)
    for axis in (0, 1):
        same(running(x, axis=axis), x)
        same(mlc.compile(lambda v, axis=axis: running(v, axis=axis))(x), x)


# NumPy's own functions, compiled


def test_ufuncs_and_functions_of_numpy_can_be_compiled() -> None:
    x, y = np.arange(6, dtype=np.int8).reshape(2, 3), np.full((2, 3), 3, np.int8)
    compiled: Any = mlc.compile
    same(compiled(np.add)(x, y), x + y)
    same(compiled(np.sqrt)(x), np.sqrt(x))
    same(compiled(np.sum)(x), x.sum())
    same(compiled(np.max, static="axis")(x, 1), x.max(1))
    same(compiled(mnp.exp)(x), mnp.exp(x))
    with pytest.raises(TypeError, match="too many positional arguments"):
        compiled(np.add)(x, y, x)


def test_an_error_among_constants_is_raised_when_the_line_runs() -> None:
    def powers(x: Any) -> Any:
        return np.power(np.full(3, 2), np.full(3, -1)) + x

    with pytest.raises(ValueError, match="negative integer powers") as error:
        mlc.compile(powers)(np.arange(3))
    assert "test_numpy_edges.py:" in str(error.value)


# The same bits, complex powers, borders of histograms


@pytest.mark.parametrize(
    ("given", "wanted"), [("f4", "i4"), ("i1", "u1"), ("?", "i1"), ("f8", "f8")]
)
def test_view_shows_the_same_bits(given: str, wanted: str) -> None:
    x = np.array([[0, 1, 1], [1, 0, 1]], given)
    got = mlc.compile(lambda v: v.view(wanted))(x)
    assert got.dtype == np.dtype(wanted)
    np.testing.assert_array_equal(got, x.view(wanted))


def test_writing_to_a_view_writes_to_the_array() -> None:
    def negated(x: Any) -> Any:
        x = x.copy()
        bits = x.view(np.int32)
        bits ^= np.int32(-(2**31))
        return x

    x = np.array([1.5, -0.0, 3.0], np.float32)
    np.testing.assert_array_equal(mlc.compile(negated)(x), -x)


def test_a_view_of_another_size_is_refused() -> None:
    with pytest.raises(mlc.DTypeError, match="f32 has 4 bytes, i64 8; expected the same number"):
        mlc.compile(lambda x: x.view(np.int64))(np.zeros(4, np.float32))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_powers(dtype: type[np.complexfloating[Any, Any]]) -> None:
    rng = np.random.default_rng(4)
    re, im = rng.standard_normal((2, 2, 90))
    z, w = (re + 1j * im).astype(dtype)
    f = mlc.compile(lambda z, w: z**w)
    limit = 200 * float(np.finfo(dtype).eps)
    for exponent in (w, w.real, np.arange(-45, 45), np.arange(-45, 45, dtype=np.int8)):
        want = z**exponent
        got = f(z, exponent)
        assert got.dtype == want.dtype
        assert np.abs(got / want - 1).max() < limit


def test_complex_powers_of_zero() -> None:
    z, w = np.zeros(5, complex), np.array([0, 2.5, -1, 1j, 3])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(mlc.compile(lambda z, w: z**w)(z, w), z**w)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_histograms_have_the_borders_of_numpy(dtype: type[np.number[Any]]) -> None:
    rng = np.random.default_rng(5)
    f = mlc.compile(lambda x: np.histogram(x, 7))
    for _ in range(10):
        x = (rng.standard_normal(500) * 3).astype(dtype)
        for got, want in zip(f(x), np.histogram(x, 7), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


# what NumPy refuses


MODES = ("edge", "linear_ramp", "maximum", "mean", "minimum", "reflect", "symmetric", "wrap")


@pytest.mark.parametrize("mode", MODES)
def test_an_axis_without_elements_is_not_padded_from_them(mode: Any) -> None:
    """Also where its size is known only when the function runs; other axes are."""
    pad = mlc.compile(lambda x: np.pad(x, ((1, 1), (0, 0)), mode), dynamic={"x": {0: "N"}})
    x = np.ones((3, 2))
    same(pad(x), np.pad(x, ((1, 1), (0, 0)), mode))
    for empty in (x[:0], x[:0].astype(np.float32)):
        with pytest.raises(ValueError, match="can't extend empty axis 0"):
            pad(empty)
    beside = mlc.compile(lambda x: np.pad(x, ((0, 0), (1, 1)), mode))
    assert beside(x[:0]).shape == (0, 4)


@pytest.mark.parametrize(
    ("found", "wanted"),
    [("c16", "f8"), ("c8", "f8"), ("f8", "f4"), ("i8", "f4"), ("f4", "i8"), ("?", "f4")],
)
def test_einsum_converts_to_a_dtype_only_what_it_holds(found: str, wanted: Any) -> None:
    x = np.ones((2, 3), found)

    def product(x: Any, **options: Any) -> Any:
        return np.einsum("ij,ij->i", x, x, dtype=wanted, **options)

    if np.can_cast(found, wanted):
        same(mlc.compile(product)(x), product(x))
    else:
        with pytest.raises(TypeError, match=r"not converted to .* by the rule 'safe'"):
            mlc.compile(product)(x)
        with pytest.raises(TypeError, match="according to the rule 'safe'"):
            product(x)
    if found[0] != "c":
        unsafe = mlc.compile(lambda x: product(x, casting="unsafe"))
        same(unsafe(x), product(x, casting="unsafe"))
