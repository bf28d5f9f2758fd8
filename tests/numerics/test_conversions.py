"""
Conversions between dtypes: every number of the 8- and 16-bit ones into each dtype, and into the
narrow floating ones every number halfway between two of theirs, with its neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BF16, DTYPES, F8E4M3FN, F8E5M2, F16, F32, F64, DType
from mlc.dialects.tensor.comparison import ConvertOp
from tests.every_op.native import Argument, compile_plan, function_module, signature_of, to_plan
from tests.every_op.values import Exact

Array = NDArray[Any]
SMALL = tuple(d for d in DTYPES if d.bytes <= 2 and d.kind != "bool")
NARROW = (F16, BF16, F8E4M3FN, F8E5M2)
# signalling NaN among all bit patterns
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered in cast")


def converted(x: Array, source: DType, targets: tuple[DType, ...]) -> list[Array]:
    """The array in each target, by compiled code."""
    dims = (Dim.const(x.size),)
    module = function_module(
        [Argument(source, dims)],
        lambda b, v: [b(ConvertOp, v[0], declared=tensor_type(t.ir, dims)) for t in targets],
    )
    signature = signature_of(module)
    return list(compile_plan(to_plan(module), signature)(x))


def every_number(dtype: DType) -> Array:
    """All bit patterns of a dtype of 8 or 16 bits."""
    count = 1 << (8 * dtype.bytes)
    return np.arange(count).astype(f"uint{8 * dtype.bytes}").view(dtype.numpy)


def by_numpy(x: Array, target: DType) -> Array:
    """NumPy's and ml_dtypes' own conversion; out of an integer's range, the nearest bound."""
    with np.errstate(all="ignore"):
        if target.is_integer and x.dtype.kind not in "iu":
            wide = np.nan_to_num(x.astype(np.float64), nan=0.0)
            if target.bytes == 8:
                # what a 16-bit float can be fits, but for inf
                limit = 2.0 ** (63 if target.kind == "int" else 64)
                inside = np.where(np.abs(wide) < limit, wide, 0.0)
                whole = np.where(inside < 0, inside * (target.lowest < 0), inside)
                ends = np.array([target.lowest, target.highest], target.numpy)
                bound = ends[(wide >= 0).astype(int)]
                return np.where(np.abs(wide) < limit, whole.astype(target.numpy), bound)
            return np.clip(np.trunc(wide), target.lowest, target.highest).astype(target.numpy)
        return x.astype(target.numpy)


@pytest.mark.parametrize("source", SMALL, ids=lambda d: d.name)
def test_every_number_into_every_dtype(source: DType) -> None:
    x = every_number(source)
    for target, got in zip(DTYPES, converted(x, source, DTYPES), strict=True):
        if (x.dtype.kind, target.kind) == ("V", "complex"):
            want = x.astype(np.float32).astype(target.numpy)  # ml_dtypes has no such conversion
        else:
            want = by_numpy(x, target)
        Exact().check(got, want, [x])


@pytest.mark.parametrize("target", NARROW, ids=lambda d: d.name)
@pytest.mark.parametrize("source", [F32, F64], ids=lambda d: d.name)
def test_halfway_and_its_neighbours(source: DType, target: DType) -> None:
    numbers = every_number(target).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers)])
    top = numbers[-1] + (numbers[-1] - numbers[-2])  # where the next number would be
    numbers = np.concatenate([[-top], numbers, [top]])
    halfway = (numbers[1:] + numbers[:-1]) / 2
    with np.errstate(over="ignore", under="ignore"):
        points = np.concatenate([numbers, halfway, [np.inf, -np.inf, np.nan, 3e38, 1e300]])
        x: Array = points.astype(source.numpy)
        around = [x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf)]
        x = np.concatenate([*around, x * np.asarray(1 + 2.0**-20, source.numpy)])
        want = x.astype(target.numpy)
    (got,) = converted(x, source, (target,))
    Exact().check(got, want, [x])


def test_every_encoding_of_fp8_survives_the_way_through_f32() -> None:
    for dtype in (F8E4M3FN, F8E5M2):
        x = every_number(dtype)
        (wide,) = converted(x, dtype, (F32,))
        (back,) = converted(wide, F32, (dtype,))
        numbers = ~np.isnan(x.astype(np.float32))
        np.testing.assert_array_equal(back.view(np.uint8)[numbers], x.view(np.uint8)[numbers])
        assert np.isnan(back[~numbers].astype(np.float32)).all()
