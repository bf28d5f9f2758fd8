"""Scans, sorts and scatters of many blocks on the GPU; the same bits each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BF16, F32, F64, I16, I64, U8, DType, dtype_of
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.sort import ArgsortOp, SortOp
from mlc.runtime.interpret import interpret
from tests.every_op.native import Argument, function_module, signature_of, to_plan
from tests.gpu.native import compile_plan

pytestmark = pytest.mark.gpu
Array = np.ndarray[Any, Any]


def _both(
    body: Any, arguments: Sequence[Argument], arrays: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """Results on the GPU, which are the same bits each time, and of the reference."""
    module = function_module(arguments, body)
    signature = signature_of(module)
    wanted = interpret(module, list(arrays), {})
    run = compile_plan(to_plan(module), signature)
    found = run(*arrays)
    for again, once in zip(run(*arrays), found, strict=True):
        assert again.tobytes() == once.tobytes()
    return list(found), list(wanted)


def _dims(*shape: int) -> tuple[Dim, ...]:
    return tuple(map(Dim.const, shape))


SCANS = [
    ((3_000_017,), 0),
    ((3, 200_003), 1),
    ((2000, 999), 1),
    ((40_001, 3), 0),
    ((70, 999, 5), 1),
    ((100_003, 1), 0),
]


@pytest.mark.parametrize(("shape", "axis"), SCANS)
@pytest.mark.parametrize("dtype", [I64, F64], ids=lambda d: d.name)
def test_scans_of_many_blocks(shape: tuple[int, ...], axis: int, dtype: DType) -> None:
    x = np.random.default_rng(0).integers(-9, 10, shape).astype(dtype.numpy)  # sums are exact
    forms = [
        (monoid, direction, kind)
        for monoid in ("sum", "max")
        for direction in ("forward", "backward")
        for kind in ("inclusive", "exclusive")
    ]

    def body(b: OpBuilder, v: Sequence[SSAValue]) -> list[SSAValue]:
        return [
            b(ScanOp, v[0], monoid=monoid, direction=direction, kind=kind, axis=axis)
            for monoid, direction, kind in forms
        ]

    found, wanted = _both(body, [Argument(dtype, _dims(*shape))], [x])
    for form, got, want in zip(forms, found, wanted, strict=True):
        assert np.array_equal(got, want), form


def test_log_sum_exp_of_many_blocks() -> None:
    x = np.random.default_rng(1).standard_normal((2, 300_001)) * 20

    def body(b: OpBuilder, v: Sequence[SSAValue]) -> list[SSAValue]:
        kind = "inclusive"
        return [
            b(ScanOp, v[0], monoid="logsumexp", direction=direction, kind=kind, axis=1)
            for direction in ("forward", "backward")
        ]

    found, wanted = _both(body, [Argument(F64, _dims(*x.shape))], [x])
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("shape", [(1_000_003,), (7, 5000), (3001, 20), (2, 1024), (2, 1025)])
@pytest.mark.parametrize("dtype", [F32, F64, I64, I16, U8, BF16], ids=lambda d: d.name)
def test_sorts_of_many_blocks(shape: tuple[int, ...], dtype: DType) -> None:
    rng = np.random.default_rng(2)
    x = (rng.standard_normal(shape) * 50).astype(dtype.numpy)
    if dtype.kind == "float":
        x[rng.random(shape) < 0.01] = np.nan
    forms = [(op, order) for op in (SortOp, ArgsortOp) for order in ("ascending", "descending")]

    def body(b: OpBuilder, v: Sequence[SSAValue]) -> list[SSAValue]:
        return [b(op, v[0], order=order) for op, order in forms]

    found, wanted = _both(body, [Argument(dtype, _dims(*shape))], [x])
    for form, got, want in zip(forms, found, wanted, strict=True):
        wide = dtype_of(dtype.ir).accumulator.numpy if form[0] is SortOp else np.int64
        np.testing.assert_array_equal(got.astype(wide), want.astype(wide), err_msg=str(form))


@pytest.mark.parametrize("places", [3, 5000, 400_000])
@pytest.mark.parametrize("mode", ["set", "add", "mul", "max", "min"])
def test_what_meets_is_combined_in_its_order(places: int, mode: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((places, 3)).astype(np.float32)
    index = rng.integers(-places, places, 50_001)
    rows = rng.standard_normal((50_001, 3)).astype(np.float32)
    if mode == "mul":
        rows = 1 + rows / 1000

    def body(b: OpBuilder, v: Sequence[SSAValue]) -> list[SSAValue]:
        return [b(ScatterOp, v[0], v[1], v[2], mode=mode, letters="0n,m->mn")]

    arguments = [
        Argument(F32, _dims(*x.shape)),
        Argument(I64, _dims(*index.shape)),
        Argument(F32, _dims(*rows.shape)),
    ]
    (found,), (wanted,) = _both(body, arguments, [x, index, rows])
    np.testing.assert_array_equal(found, wanted)


def test_numpy_functions() -> None:
    import mlc

    def several(x: Any, i: Any) -> Any:
        y = x.copy()
        y[i] = 7.0
        order = np.argsort(x)
        return (
            np.cumsum(x),
            np.sort(x),
            order,
            x[order],
            y,
            np.linalg.inv(np.outer(x, x) + np.eye(9)),
        )

    compiled: Any = mlc.compile(target="cuda")(several)
    x, i = np.random.default_rng(4).standard_normal(9), np.array([1, 1, -2])
    for got, want in zip(compiled(x, i), several(x, i), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)

    def inverse(x: Any) -> Any:
        return np.linalg.inv(x)  # pyright: ignore[reportUnknownVariableType]

    call: Any = mlc.compile(target="cuda")(inverse)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        call(np.zeros((3, 3)))
