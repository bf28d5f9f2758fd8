"""Attention on GPUs: what becomes one program of blocks, and what that computes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.plan import KernelOp
from mlc.dialects.target.known import H200
from mlc.levels import Levels
from mlc.runtime.interpret import interpret
from mlc.runtime.ptx import emit_ptx
from mlc.text import parse_text
from tests.plans import planned
from tests.stream_programs import PROGRAMS, Attention, causal, full, same, scores, softmax

needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")


def levels(program: Attention, target: str = "cuda:h200") -> Levels:
    pairs = zip(program.shapes, program.dtypes(), strict=True)
    specs = [mlc.TensorSpec(*shape, dtype=dtype) for shape, dtype in pairs]
    return planned(program.f, *specs, target=target)


def is_stream(of: Levels) -> bool:
    return 'mlc.kernel "stream"' in of.text("plan")


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_the_interpreter_agrees(program: Attention) -> None:
    arrays = program.arrays()
    found = levels(program)
    module = found.at("tiles")
    module.verify()
    assert "mlc_tile.roles" in str(module)
    assert is_stream(found)
    captured = [np.tril(np.ones((n, n), bool)) for n in _captured(str(module))]
    (result,) = interpret(module, [*arrays, *captured], workers=3, seed=1)
    expected = program.expected(arrays)
    np.testing.assert_allclose(result.astype(np.float32), expected, rtol=0.02, atol=0.02)


def _captured(text: str) -> list[int]:
    """Sizes of masks that the trace has taken along."""
    (entry,) = re.findall(r"func\.func @\w+\((.*?)\) ->", text)
    return [int(n) for n in re.findall(r"%array: tensor<(\d+)x\d+xi1>", entry)]


def softmax_of_sums(q: Any, k: Any, v: Any) -> Any:
    return softmax(scores(q, k) + scores(k, q)) @ v


def both(q: Any, k: Any, v: Any) -> Any:
    p = softmax(scores(q, k))
    return p @ v, p


NOT_SUITED = {
    "f32": same(full, 2, 256, 64, dtype="f32"),
    "depth 80": same(full, 2, 256, 80),
    "few columns": same(full, 2, 32, 64),
    "two scores": same(softmax_of_sums, 2, 256, 64),
    "weights are a result": same(both, 2, 256, 64),
}


@pytest.mark.parametrize("name", NOT_SUITED)
def test_other_products_are_kernels_of_their_own(name: str) -> None:
    assert not is_stream(levels(NOT_SUITED[name]))


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_80"])
def test_other_machines_have_no_such_program(target: str) -> None:
    assert not is_stream(levels(same(full, 2, 256, 64), target))


def test_no_columns_behind_the_diagonal_are_walked() -> None:
    """The producer's loop ends at the rows; the tile of the diagonal alone has a mask."""
    text = levels(same(causal, 2, 4, 1024, 64)).text("tiles")
    assert "mlc_tile.for %n in 896 - %c step 128" in text
    loop = text[text.rindex("mlc_tile.for") :]
    assert "mlc.select" in text[: text.rindex("mlc_tile.for")]
    assert 'mlc.compare "le"' not in loop


def test_heads_of_one_product_are_stored_before_a_stream() -> None:
    def layer(x: Any, w: Any) -> Any:
        q, k, v = np.transpose((x @ w).reshape(2, 128, 3, 4, 64), (2, 0, 3, 1, 4))
        return np.swapaxes(causal(q, k, v), 1, 2).reshape(2, 128, 256)

    specs = [mlc.TensorSpec(*shape, dtype="bf16") for shape in ((2, 128, 256), (256, 768))]
    module = planned(layer, *specs, target="cuda:h200").at("plan")
    module.verify()
    templates = [op.template.data for op in module.walk() if isinstance(op, KernelOp)]
    assert templates == ["contraction", "copy", "copy", "copy", "stream"]


def test_a_plan_with_a_stream_is_read_again() -> None:
    text = levels(same(full, 2, 256, 64)).text("plan")
    assert str(parse_text(text, "plan")) == text.rstrip("\n")


@needs_ptxas
@pytest.mark.parametrize("depth", [64, 128, 256])
@pytest.mark.parametrize("f", [full, causal])
def test_the_assembler_keeps_tiles_in_registers(f: Any, depth: int, tmp_path: Path) -> None:
    (unit,) = levels(same(f, 2, 4, 1024, depth)).units()
    path = tmp_path / "kernel.ptx"
    path.write_text(emit_ptx(unit.text, H200))
    command = ["ptxas", "-v", "-arch", H200.sm, str(path), "-o", str(tmp_path / "kernel.cubin")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    said = result.stdout + result.stderr
    assert result.returncode == 0, said[:2000]
    assert " 0 bytes spill stores" in said
    assert "C75" not in said
