"""Tile programs whose warps have roles, on a GPU: results, with the same bits in every run."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.dtypes import BF16, named_dtype
from mlc.executable import compile_module
from mlc.frontend.importers.mlir import read_module
from mlc.options import Options
from mlc.runtime.cuda import gpu_target
from tests.block_programs import Product
from tests.unit.test_gpu_blocks import BATCHES, SHARED, Shapes

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("guarded_memory")]

PRODUCTS = [
    *(Product(256, 512, 192, form=form) for form in ("nn", "nt", "tn", "tt")),
    *(Product(256, 512, 192, form=form, out="f32") for form in ("nn", "nt", "tn", "tt")),
    Product(1000, 1032, 1000, form="nn"),
    Product(1000, 1032, 1000, form="tn", out="f32"),
    Product(136, 264, 72),
    Product(512, 512, 512, dtype="f16", out="f16"),
    Product(512, 512, 512, tile=(128, 128), stages=6),
    *(Product(256, 520, 192, form=form, tile=(128, 192)) for form in ("nn", "nt", "tn", "tt")),
]  # fmt: skip


@pytest.fixture(autouse=True)
def needs_groups() -> None:
    if "wgmma" not in gpu_target().tensor_core_kinds:
        pytest.skip("the GPU has no wgmma")


@pytest.mark.parametrize("product", PRODUCTS, ids=str)
def test_a_text_multiplies(product: Product, tmp_path: Path) -> None:
    path = tmp_path / "product.mlir"
    path.write_text(product.text())
    module, signature = read_module(path)
    call: Any = compile_module(module, signature, Options(target=gpu_target()))
    rng = np.random.default_rng(3)
    kind = named_dtype(product.dtype).numpy
    a, b = (rng.standard_normal(shape).astype(kind) for shape in product.shapes)
    bias = rng.standard_normal(product.n).astype(np.float32)
    found = [call(a, b, bias) for _ in range(3)]
    assert all(x.tobytes() == found[0].tobytes() for x in found)
    lhs, rhs = (x.T if c == "t" else x for x, c in zip((a, b), product.form, strict=True))
    expected = lhs.astype(np.float32) @ rhs.astype(np.float32) + bias
    close = 1e-4 if product.out == "f32" else 8e-3
    np.testing.assert_allclose(found[0].astype(np.float32), expected, rtol=close, atol=50 * close)


def nn(a: Any, b: Any, c: Any) -> Any:
    return np.maximum(a @ b + c, 0)


def nt(a: Any, b: Any, c: Any) -> Any:
    return a @ b.T + c


@pytest.mark.parametrize("f", [nn, nt])
@pytest.mark.parametrize("size", [(1024, 512, 256), (1000, 520, 1032), (16, 512, 256)])
def test_a_function_multiplies(f: Callable[..., Any], size: tuple[int, int, int]) -> None:
    m, n, k = size
    rng = np.random.default_rng(4)
    shapes = ((m, k), (k, n) if f is nn else (n, k), (m, n))
    arrays = [rng.standard_normal(shape).astype(BF16.numpy) for shape in shapes]
    compiled: Any = mlc.compile(f, target="cuda")
    found = compiled(*arrays)
    expected = f(*(x.astype(np.float32) for x in arrays))
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=0.03, atol=0.5)


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("size", [(1000, 1032, 1000), (264, 520, 4096)])
def test_blocks_that_work_together(name: str, size: tuple[int, int, int]) -> None:
    m, n, k = size
    rng = np.random.default_rng(4)
    arrays = [rng.standard_normal(s).astype(BF16.numpy) for s in ((m, k), (k, n), (m, n))]
    for blocks in ("blocks 6", "blocks 40", "blocks 132"):
        words = re.sub(r"blocks \d", blocks, SHARED[name])
        compiled: Any = mlc.compile(nn, target="cuda", schedule=words)
        found = [compiled(*arrays) for _ in range(20)]
        assert all(x.tobytes() == found[0].tobytes() for x in found)
        expected = nn(*(x.astype(np.float32) for x in arrays))
        np.testing.assert_allclose(found[0].astype(np.float32), expected, rtol=0.03, atol=1)


@pytest.mark.parametrize(("f", "shapes"), BATCHES, ids=lambda x: getattr(x, "__name__", ""))
def test_batches_are_multiplied(f: Callable[..., Any], shapes: Shapes) -> None:
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal([*map(int, shape)]).astype(BF16.numpy) for shape in shapes]
    compiled: Any = mlc.compile(f, target="cuda")
    found = compiled(*arrays)
    expected = f(*(x.astype(np.float32) for x in arrays))
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=0.02, atol=0.2)
