"""Tile programs whose warps have roles: results, and code that NVIDIA's assembler takes."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.errors import MlcError, PlanError
from mlc.dialects.launch import GpuProgram, Launch, TensorMap
from mlc.dialects.target.known import H200
from mlc.lowering.gpu import emit_gpu, lower_to_gpu
from mlc.passes.tile.insert_fences import InsertFencesPass
from mlc.passes.tile.place_slots import PlaceSlotsPass
from mlc.runtime.interpret import interpret
from mlc.runtime.ptx import emit_ptx
from mlc.text import parse_text
from tests.assembler import checked, needs_ptxas
from tests.block_programs import Product

WIDE = Product(4096, 4096, 4096)
PROGRAMS = {
    "nt": WIDE,
    "nn": Product(4096, 4096, 4096, form="nn"),
    "tt, f32": Product(4096, 4096, 4096, form="tt", out="f32"),
    "f16": Product(1024, 2048, 512, form="nn", dtype="f16", out="f16"),
    "ragged": Product(1000, 1032, 1000, form="tn"),
    "ragged, f32": Product(1000, 1032, 1000, out="f32"),
    "narrow": Product(4096, 4096, 4096, tile=(128, 128), stages=6),
}


def finished(product: Product) -> ModuleOp:
    module = parse_text(product.text(), "product")
    PlaceSlotsPass().apply(Context(), module)
    InsertFencesPass().apply(Context(), module)
    return module


def program(product: Product) -> GpuProgram:
    return emit_gpu(lower_to_gpu(finished(product)), H200)


@pytest.mark.parametrize("form", ["nt", "nn", "tn", "tt"])
def test_the_interpreter_multiplies(form: str) -> None:
    product = Product(136, 264, 72, form=form, out="f32", raster=1)
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(s).astype(ml_dtypes.bfloat16) for s in product.shapes)
    bias = rng.standard_normal(product.n).astype(np.float32)
    (c,) = interpret(finished(product), [a, b, bias], workers=2, seed=5)
    lhs, rhs = (x.T if turned == "t" else x for x, turned in zip((a, b), form, strict=True))
    np.testing.assert_allclose(c, lhs.astype("f4") @ rhs.astype("f4") + bias, rtol=1e-4, atol=1e-4)


@needs_ptxas
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_assembler_keeps_sums_in_registers(name: str, tmp_path: Path) -> None:
    (kernel,) = program(PROGRAMS[name]).kernels
    ptx = emit_ptx(kernel.llvm, H200)
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor" in ptx
    assert checked(ptx, H200.sm, tmp_path) == {kernel.name: 0}


def test_a_launch_describes_what_is_copied() -> None:
    plan = program(Product(1000, 1032, 1000, form="nn")).plan
    (launch,) = (step for step in plan.steps if isinstance(step, Launch))
    maps = [x for x in launch.arguments if isinstance(x, TensorMap)]
    known = dict(plan.known)
    sizes = [(*(known[n] for n in (*x.sizes, *x.strides)), x.box) for x in maps]
    assert sizes == [
        (1000, 1000, 1000, (128, 64)),
        (1000, 1032, 1032, (64, 64)),
        (1000, 1032, 1032, (16, 64)),
    ]
    assert [known[x] for x in launch.block] == [384, 1, 1]
    assert launch.shared_bytes == 4 * 48 * 1024 + 4 * 8192 + 4 * 16 + 1024


def test_slots_beyond_a_block_s_memory_are_refused() -> None:
    with pytest.raises(PlanError, match=r"279,632 bytes of shared memory; a block of h200 has"):
        finished(Product(4096, 4096, 4096, stages=5))


def test_columns_that_no_product_has_are_refused() -> None:
    text = WIDE.text().replace("over (m 64, n 64)", "over (m 64, n 32)")
    module = parse_text(text, "product")
    PlaceSlotsPass().apply(Context(), module)
    with pytest.raises(MlcError, match=r"64 x 32 elements; expected all of"):
        lower_to_gpu(module)
