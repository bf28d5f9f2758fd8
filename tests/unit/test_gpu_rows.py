"""Kernels that read their rows once: what is merged, results, and code that ptxas takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp

import mlc
from mlc.backends import at_tiles
from mlc.dialects.plan import KernelOp
from mlc.dialects.target.known import H200
from mlc.levels import Levels
from mlc.lowering.gpu import emit_gpu, lower_to_gpu
from mlc.passes.math.expand_math import ExpandMathPass
from mlc.passes.plan_faults import plan_faults
from mlc.runtime.interpret import interpret
from mlc.runtime.ptx import emit_ptx
from mlc.text import parse_text
from tests.assembler import checked, needs_ptxas
from tests.plans import planned
from tests.row_programs import PROGRAMS, Rows, layer_norm, softmax


def levels(program: Rows, **options: object) -> Levels:
    count = len(program.shapes) - program.integers
    specs = [
        mlc.TensorSpec(*shape, dtype=program.dtype if k < count else "i64")
        for k, shape in enumerate(program.shapes)
    ]
    return planned(program.f, *specs, target="h200", **options)


def templates(found: Levels) -> list[str]:
    return [op.template.data for op in found.plan().walk() if isinstance(op, KernelOp)]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_one_kernel_computes_what_the_function_does(program: Rows) -> None:
    found = levels(program)
    assert templates(found)[0] == "rows"
    assert len(templates(found)) == 1 + program.integers
    arrays = program.arrays(np.random.default_rng(3))
    results = interpret(found.at("tiles"), arrays)
    for got, (want, close) in zip(results, program.expected(arrays), strict=True):
        np.testing.assert_allclose(got.astype(np.float32), want, rtol=close, atol=close)


@needs_ptxas
@pytest.mark.parametrize("program", [PROGRAMS[k] for k in (0, 1, 2, 6, 7, 8, 9)], ids=str)
def test_a_row_stays_in_registers(program: Rows, tmp_path: Path) -> None:
    loops = lower_to_gpu(at_tiles(levels(program).plan()))
    ExpandMathPass().apply(Context(), loops)
    (kernel,) = emit_gpu(loops, H200).kernels
    ptx = emit_ptx(kernel.llvm, H200)
    assert max(checked(ptx, H200.sm, tmp_path).values()) <= SPILLED


SPILLED = 16
"""Bytes around the call of a division's slow path, which ptxas makes."""


def test_the_tile_program_reads_back() -> None:
    text = levels(PROGRAMS[7]).text("tiles")
    assert str(parse_text(text, "rows")) == text.rstrip("\n")
    assert "mlc_tile.work" in text


def test_rows_of_any_number_are_held() -> None:
    x = mlc.TensorSpec("M", 1000)
    found = planned(softmax, x, target="h200")
    assert templates(found) == ["rows"]
    array = np.random.default_rng(3).standard_normal((6, 1000)).astype(np.float32)
    (got,) = interpret(found.at("tiles"), [array])
    np.testing.assert_allclose(got, softmax(array), rtol=1e-5, atol=1e-7)


def test_narrow_floats_are_rounded_where_they_leave_the_kernel() -> None:
    rng = np.random.default_rng(3)
    x, g, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in ((8, 768), 768, 768))
    found = levels(Rows(layer_norm, ((8, 768), (768,), (768,)), "bf16"))
    (got,) = interpret(found.at("tiles"), [x, g, b])
    wide = layer_norm(*(a.astype(np.float32) for a in (x, g, b)))
    assert np.abs(got.astype(np.float32) - wide).max() <= 2.0**-8 * np.abs(wide).max()


def test_strict_sums_keep_their_order() -> None:
    assert "rows" not in templates(levels(PROGRAMS[0], numerics="strict"))


def test_nothing_is_merged_without_fusion() -> None:
    assert "rows" not in templates(levels(PROGRAMS[0], fusion="none"))


def test_rows_longer_than_registers_are_read_again() -> None:
    assert "rows" not in templates(levels(Rows(softmax, ((4, 1 << 20),))))


def test_products_and_sums_down_columns_stay_apart() -> None:
    def f(x: Any, w: Any) -> tuple[Any, Any, Any]:
        y = x @ w
        return y / y.sum(-1, keepdims=True), y.sum(0), x.sum(0)

    arguments = (mlc.TensorSpec(512, 256), mlc.TensorSpec(256, 512))
    assert sorted(templates(planned(f, *arguments, target="h200")))[:2] == ["contraction", "row"]


def test_a_text_whose_rows_walk_apart_is_refused() -> None:
    text = levels(PROGRAMS[0]).text("plan").replace('"max" "ab->a"', '"max" "ba->a"')
    text = text.replace("16x4096", "64x64").replace("tensor<16xf32>", "tensor<64xf32>")
    (function,) = (x for x in parse_text(text, "rows").walk() if isinstance(x, FuncOp))
    (fault,) = plan_faults(function, H200)
    assert fault[1] == "holds other than reductions along the same rows"


@pytest.mark.parametrize("divisor", [0.0, 1e-40, 2.0, 1e38, np.inf, np.nan])
def test_narrow_rows_are_divided_as_numbers_are(divisor: float) -> None:
    def shares(x: Any, y: Any) -> Any:
        return x / y.sum(-1, keepdims=True)

    x, y = np.ones((4, 64)), np.zeros((4, 64))
    x[1, 3], x[2], x[3, 5], y[:, 0] = 0, 1e-38, np.inf, divisor
    arrays = [a.astype(ml_dtypes.bfloat16) for a in (x, y)]
    specs = [mlc.TensorSpec(4, 64, dtype="bf16")] * 2
    module = planned(shares, *specs, target="h200").at("tiles")
    with np.errstate(all="ignore"):
        (found,) = interpret(module, arrays)
        expected = shares(*(a.astype(np.float32) for a in arrays)).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_what_was_tried_reads_nothing() -> None:
    module = levels(PROGRAMS[0]).plan()
    kernels = {op for op in module.walk() if isinstance(op, KernelOp)}
    arguments = [a for op in module.walk() if isinstance(op, FuncOp) for a in op.body.block.args]
    assert {use.operation for x in arguments for use in x.uses} <= kernels
