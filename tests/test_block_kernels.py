"""Block kernels against NumPy, program by program, and what they become."""
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc
from mlc.dialects.dtypes import F32
from mlc.frontend.block.launch import memory_of
from mlc.frontend.trace.containers import flatten
from mlc.runtime.cuda.dlpack import View
from tests import block_kernels as kernels
from tests.assembler import checked, needs_ptxas
from tests.block_oracle import run

RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def both(kernel: Any, grid: tuple[int, ...], *args: Any, rtol: float = 2e-6, **kwargs: Any) -> None:
    """The launch by mlc and by the oracle, on copies of the same arrays."""
    copies: dict[int, Any] = {}

    def copied(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        return copies.setdefault(id(value), value.copy())

    expected = [copied(a) for a in args]
    kernel[grid](*args, **kwargs)
    run(kernel, grid, *expected, **kwargs)
    for mine, theirs in zip(args, expected, strict=True):
        if isinstance(mine, np.ndarray):
            wide = (x.astype(np.float64) for x in (mine, theirs))
            np.testing.assert_allclose(*wide, rtol=rtol, atol=rtol)


def test_the_lectures_first_addition() -> None:
    x, y, z = (normal(1024) for _ in range(3))
    kernels.add_v1[(1,)](z, x, y, 1024)
    np.testing.assert_array_equal(z, x + y)


@pytest.mark.parametrize("n", [1, 1000, 1024, 192311])
def test_the_lectures_second_addition(n: int) -> None:
    x, y, z = (normal(n) for _ in range(3))
    kernels.add_v2[(mlc.block.cdiv(n, 1024),)](z, x, y, n)
    np.testing.assert_array_equal(z, x + y)


@pytest.mark.parametrize(
    ("rows", "n", "block"), [(9, 781, 1024), (3, 257, 257), (4, 5, 192), (1, 1, 1)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_lectures_softmax(rows: int, n: int, block: int, dtype: Any) -> None:
    x, z = normal(rows, n, dtype=dtype), np.zeros((rows, n), dtype)
    kernels.softmax[(rows,)](z, x, n, n, BLOCK=block)
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
    tolerance = 2 * float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(
        z.astype(np.float64), e / e.sum(axis=1, keepdims=True), rtol=tolerance, atol=1e-7
    )


def test_softmax_of_a_row_of_a_hundred_thousand() -> None:
    x, z = normal(2, 100_000), np.empty((2, 100_000), np.float32)
    kernels.softmax[(2,)](z, x, 100_000, 100_000, BLOCK=131072)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(z, e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_rows_that_lie_apart_in_memory() -> None:
    wide = normal(5, 40)
    x, z = wide[:, 3:30], np.zeros((5, 40), np.float32)
    kernels.softmax[(5,)](z[:, 3:30], x, 40, 27, BLOCK=32)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(z[:, 3:30], e / e.sum(axis=1, keepdims=True), rtol=1e-5)
    assert not z[:, :3].any()
    assert not z[:, 30:].any()


CASES: dict[str, tuple[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = {
    "scaled": (kernels.scaled, (4,), (normal(700), normal(700), 700, 1.5), {"BLOCK": 192}),
    "whole blocks": (kernels.scaled, (4,), (normal(768), normal(768), 768, -2.0), {"BLOCK": 192}),
    "half an array": (kernels.scaled, (2,), (normal(900), normal(800), 300, 0.5), {"BLOCK": 257}),
    "nothing inside": (kernels.scaled, (2,), (normal(9), normal(9), 0, 0.5), {"BLOCK": 4}),
    "layer norm": (
        kernels.layer_norm, (6,),
        (normal(6, 300), normal(6, 300), normal(300), normal(300), 300, 1e-5), {"BLOCK": 512},
    ),
    "sums": (kernels.row_sums, (7,), (normal(7), normal(7, 100), 100), {"BLOCK": 33}),
    "transposed": (
        kernels.transposed, (3, 4), (normal(50, 37), normal(37, 50), 37, 50), {"BM": 13, "BN": 14},
    ),
    "product": (
        kernels.product, (12,),
        (normal(50, 20), normal(20, 45), normal(50, 45), 50, 45, 20, 20, 1, 45, 1, 45, 1),
        {"BM": 16, "BN": 16, "BK": 8},
    ),
    "product, b turned, f16": (
        kernels.product, (4,),
        (normal(32, 16, dtype=np.float16), normal(24, 16, dtype=np.float16), normal(32, 24),
         32, 24, 16, 16, 1, 1, 16, 24, 1), {"BM": 16, "BN": 12, "BK": 16},
    ),
    "gathered": (
        kernels.gathered, (9,),
        (normal(9, 20), normal(30, 20), RNG.integers(0, 30, 9), 9, 20), {"BLOCK": 32},
    ),
    "scattered": (
        kernels.scattered, (3,),
        (normal(20), normal(20), RNG.permutation(20).astype(np.int32), 20), {"BLOCK": 7},
    ),
    "positions": (kernels.positions, (3,), (np.zeros(25, np.int32), 25), {"BLOCK": 10}),
    "positive": (kernels.positive, (4,), (normal(25), normal(51), 25), {"BLOCK": 7}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_program_by_program(name: str) -> None:
    kernel, grid, args, kwargs = CASES[name]
    both(kernel, grid, *args, rtol=1e-3 if "f16" in name else 2e-5, **kwargs)


def test_an_array_given_twice_is_one() -> None:
    x = normal(300)
    expected = x + x
    kernels.add_v2[(1,)](x, x, x, 300)
    np.testing.assert_array_equal(x, expected)


def test_a_grid_may_ask_for_the_arguments() -> None:
    x, z = normal(1000), np.zeros(1000, np.float32)
    kernels.scaled[lambda meta: (mlc.block.cdiv(1000, meta["BLOCK"]),)](
        z, x, 1000, 2.0, BLOCK=96, num_warps=4
    )
    np.testing.assert_array_equal(z, np.maximum(2 * x, 0))


def test_floats_are_no_part_of_the_program() -> None:
    x, z = normal(64), np.zeros(64, np.float32)
    kernel = mlc.block_kernel(kernels.scaled.function)
    for alpha in (0.5, 2.0, 3.0):
        kernel[(2,)](z, x, 64, alpha, BLOCK=32)
        np.testing.assert_array_equal(z, np.maximum(np.float32(alpha) * x, 0))
    assert [s.compilations for s in kernel.stats()] == [1]


def test_the_interpreter_runs_a_launch() -> None:
    x, y, z = (normal(2000) for _ in range(3))
    kernels.add_v2[(2,)].reference(z, x, y, 2000)
    np.testing.assert_array_equal(z, x + y)


def lowered(name: str, target: str) -> Any:
    kernel, grid, args, kwargs = CASES[name]
    return mlc.block_kernel(target=target)(kernel.function)[grid].lower(*args, **kwargs)


def test_masked_lanes_are_no_work() -> None:
    """257 elements of blocks of 1024: programs over 257."""
    kernel = mlc.block_kernel(target="avx2")(kernels.softmax.function)
    x = mlc.TensorSpec(300, 257, dtype="f32")
    text = kernel[(300,)].lower(x, x, 257, 257, BLOCK=1024).text("tensor")
    assert "300x257" in text
    assert "1024" not in text


def test_softmax_is_one_kernel_that_holds_rows_on_a_gpu() -> None:
    kernel = mlc.block_kernel(target="cuda:h200")(kernels.softmax.function)
    x = mlc.TensorSpec(1823, 781, dtype="f32")
    program = kernel[(1823,)].lower(x, x, 781, 781, BLOCK=1024)
    assert [k.template for k in program.plan().kernels] == ["rows"]
    text = program.text("tiles")
    assert text.count("mlc_tile.load") == text.count("mlc_tile.store") == 1


def test_a_product_of_blocks_is_a_product() -> None:
    plan = lowered("product, b turned, f16", "avx512").plan()
    assert [k.template for k in plan.kernels].count("contraction") == 1


@needs_ptxas
@pytest.mark.parametrize("sm", ["sm_80", "sm_90a"])
def test_the_assembler_takes_every_kernel(sm: str, tmp_path: Path) -> None:
    for name in CASES:
        checked(lowered(name, f"cuda:{sm}").asm(), sm, tmp_path)


def test_memory_on_a_device_is_taken_as_it_lies() -> None:
    def view(*strides: int) -> View:
        return View(
            pointer=4096, row=F32, shape=(5, 27), strides=strides,
            origin=None, owner=None, ready_on=None,
        )  # fmt: skip

    whole, apart = view(27, 1), memory_of("x_ptr", view(40, 1))
    assert memory_of("x_ptr", whole) is whole
    assert (apart.shape, apart.strides, apart.pointer) == ((4 * 40 + 27,), (1,), 4096)
    assert flatten({"x_ptr": apart})[0] == [apart]  # one array, no container of numbers
    with pytest.raises(TypeError, match="expected none below 0"):
        memory_of("x_ptr", view(40, -1))
