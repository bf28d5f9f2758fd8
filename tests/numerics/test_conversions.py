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
from mlc.dialects.dtypes import BF16, DTYPES, F16, F32, F64, DType, numpy_dtype
from mlc.dialects.tensor.comparison import ConvertOp
from tests.every_op.native import Argument, compile_plan, function_module, signature_of, to_plan
from tests.every_op.values import Exact

Array = NDArray[Any]
SMALL = tuple(d for d in DTYPES if d.bytes <= 2 and d.kind != "bool")
STORED = tuple(d for d in DTYPES if d.kind == "storage" and not d.stores_integers)
NARROW = (F16, BF16, *STORED)
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
    """All bit patterns of a dtype of 16 bits or fewer."""
    count = 1 << dtype.bits
    return np.arange(count).astype(f"uint{8 * dtype.bytes}").view(dtype.numpy)


def by_numpy(x: Array, target: DType) -> Array:
    """NumPy's and ml_dtypes' own conversion; out of an integer's range, the nearest bound."""
    with np.errstate(all="ignore"):
        source = numpy_dtype(x.dtype)
        if source in (BF16, *STORED) or source.stores_integers:  # not into every one of its own
            x = x.astype(np.int8 if source.stores_integers else np.float32)
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
        if target.stores_integers:  # as the integers that they are
            if x.dtype.kind in "iu":
                return x.astype(np.int8).astype(target.numpy)
            wide = np.nan_to_num(x.astype(np.float64), nan=0.0)
            whole = np.clip(np.trunc(wide), target.lowest, target.highest).astype(np.int8)
            return whole.astype(target.numpy)
        if target.kind == "storage" and x.dtype.kind != "f":
            x = x.astype(np.float32)
        return x.astype(target.numpy)


@pytest.mark.parametrize("source", SMALL, ids=lambda d: d.name)
def test_every_number_into_every_dtype(source: DType) -> None:
    x = every_number(source)
    for target, got in zip(DTYPES, converted(x, source, DTYPES), strict=True):
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


def test_every_encoding_that_is_stored_survives_the_way_through_f32() -> None:
    for dtype in STORED:
        x = every_number(dtype)
        (wide,) = converted(x, dtype, (F32,))
        (back,) = converted(wide, F32, (dtype,))
        numbers = ~np.isnan(x.astype(np.float32))
        np.testing.assert_array_equal(back.view(np.uint8)[numbers], x.view(np.uint8)[numbers])
        assert np.isnan(back[~numbers].astype(np.float32)).all()
