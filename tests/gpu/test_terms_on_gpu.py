"""Products of f32 by terms of bf16 on a GPU: errors, special values, the same bits in every run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mlc
from mlc.executable import compile_module
from mlc.frontend.importers.mlir import read_module
from mlc.options import Options
from mlc.runtime.cuda import gpu_target
from tests.programs_of_terms import FORMS, OfTerms
from tests.unit.test_gpu_terms import check, factors

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("guarded_memory")]
Array = NDArray[Any]


@pytest.fixture(autouse=True)
def needs_groups() -> None:
    if "wgmma" not in gpu_target().tensor_core_kinds:
        pytest.skip("the GPU has no wgmma")


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    "program",
    [
        *(OfTerms(264, 520, 328, form=form, relu=True) for form in FORMS),
        OfTerms(1000, 136, 72),
        OfTerms(256, 264, 512, narrow=True),
        OfTerms(136, 264, 128, batches=5),
    ],
    ids=str,
)
def test_a_text_multiplies_terms(program: OfTerms, special: bool, tmp_path: Path) -> None:
    path = tmp_path / "product.mlir"
    path.write_text(program.text("cuda:h200"))
    module, signature = read_module(path)
    call: Any = compile_module(module, signature, Options(target=gpu_target()))
    a, b = factors(program, special=special)
    found = [call(a, b) for _ in range(20)]
    assert all(x.tobytes() == found[0].tobytes() for x in found)
    check(program, found[0], a, b)


def product(a: Any, b: Any) -> Any:
    return a @ b


@pytest.mark.parametrize("kind", ["normal", "positive", "wide", "tiny", "cancel"])
def test_errors_are_those_of_a_sum_in_f32(kind: str) -> None:
    """In units of 2⁻²⁴ of the sum of magnitudes; measured: docs/numerics.md."""
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((1024, 2048)).astype(np.float32) for _ in range(2))
    b = np.ascontiguousarray(b.T)
    if kind == "positive":
        a, b = np.abs(a), np.abs(b)
    elif kind == "wide":
        a, b = (np.sign(x) * np.exp(4 * x) for x in (a, b))
    elif kind == "tiny":
        a, b = a * np.float32(1e-37), b * np.float32(1e20)
    elif kind == "cancel":
        a[:, 1024:], b[1024:] = a[:, :1024], -b[:1024]
    compiled: Any = mlc.compile(target="cuda")(product)
    found = compiled(a, b)
    assert "mlc.of_terms" in str(compiled.lower(a, b).text("plan"))
    wide = a.astype(np.float64), b.astype(np.float64)
    size: Array = np.abs(wide[0]) @ np.abs(wide[1])
    error: Array = np.abs(found - wide[0] @ wide[1]) / size
    assert error.max() * 2**24 <= 32
    assert np.sqrt(np.mean(error**2)) * 2**24 <= 4
