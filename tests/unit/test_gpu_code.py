"""PTX of templates that no other test compiles, and of start schedules: what ptxas says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.lowering.emit import joined
from mlc.passes.gpu.tiles import BLOCK_TILES, BlockTile
from mlc.runtime.ptx import emit_ptx
from tests.assembler import needs_ptxas, said
from tests.plans import planned
from tests.sweeps import covering

pytestmark = needs_ptxas
ARCHITECTURES = ("sm_80", "sm_90a")
Specs = Sequence[mlc.TensorSpec]


def code(f: Callable[..., Any], specs: Specs, sm: str, **options: object) -> str:
    """The PTX of all kernels."""
    target = named_target(sm)
    assert isinstance(target, GpuTarget)
    units = planned(f, *specs, target=f"cuda:{sm}", **options).units()
    return emit_ptx(joined([(u.name, u.text) for u in units]), target)


def checked(ptx: str, sm: str, folder: Path) -> str:
    """What the assembler says; AssertionError where it refuses, serialises, or code calls."""
    text = said(ptx, sm, folder)
    assert "C75" not in text  # products that wait for each other
    assert "callseq" not in ptx
    assert ".local" not in ptx
    return text


def spilled(text: str) -> int:
    """Bytes that kernels keep outside of registers, for lack of them."""
    return sum(int(n) for n in re.findall(r"(\d+) bytes spill stores", text))


def ordered(x: Any) -> Any:
    return np.cumsum(x, axis=1), np.cumsum(x, axis=0), np.sort(x), np.argsort(x)


def placed(x: Any, index: Any) -> Any:
    y = x.copy()
    np.add.at(y, index, x[0])
    return y


def convolved(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, padding=1), mlc.nn.max_pool(x, 2)


@pytest.mark.parametrize(
    ("dtype", "sm"),
    covering(["bf16", "f16", "f32", "f64", "i8", "i32", "i64"], ARCHITECTURES, strength=1),
)
def test_the_assembler_accepts_what_is_no_nest(dtype: str, sm: str, tmp_path: Path) -> None:
    spec = mlc.TensorSpec
    checked(code(ordered, [spec("M", 3000, dtype=dtype)], sm), sm, tmp_path)
    checked(code(placed, [spec(40, 9, dtype=dtype), spec(9, dtype="i64")], sm), sm, tmp_path)


@pytest.mark.parametrize(
    ("dtype", "sm"), covering(["bf16", "f16", "f32", "f64"], ARCHITECTURES, strength=1)
)
def test_the_assembler_accepts_convolutions(dtype: str, sm: str, tmp_path: Path) -> None:
    spec = mlc.TensorSpec
    specs = [spec(8, 16, 40, 40, dtype=dtype), spec(32, 16, 3, 3, dtype=dtype)]
    ptx = code(convolved, specs, sm, numerics="fast")
    assert "mma.sync" in ptx
    assert spilled(checked(ptx, sm, tmp_path)) == 0


def nn(a: Any, b: Any) -> Any:
    return a @ b


def tt(a: Any, b: Any) -> Any:
    return np.maximum(a.T @ b.T, 0)


@pytest.mark.parametrize(
    ("dtype", "sm", "instruction"),
    [
        ("f64", "sm_80", "m8n8k4.row.col.f64.f64.f64.f64"),
        ("f64", "sm_90a", "m16n8k8.row.col.f64.f64.f64.f64"),
        ("bf16", "sm_80", "m16n8k16.row.col.f32.bf16.bf16.f32"),
        ("f16", "sm_80", "m16n8k16.row.col.f32.f16.f16.f32"),
        ("f32", "sm_80", "m16n8k8.row.col.f32.tf32.tf32.f32"),
        ("f32", "sm_90a", "m16n8k8.row.col.f32.tf32.tf32.f32"),
    ],
)
def test_warps_multiply_on_tensor_cores(
    dtype: str, sm: str, instruction: str, tmp_path: Path
) -> None:
    specs = [mlc.TensorSpec(2048, 2048, dtype=dtype) for _ in "ab"]
    ptx = code(nn, specs, sm, numerics="fast")
    assert f"mma.sync.aligned.{instruction}" in ptx
    assert spilled(checked(ptx, sm, tmp_path)) == 0


@pytest.mark.parametrize(
    ("dtype", "f", "tile"), covering(["bf16", "f16"], [nn, tt], BLOCK_TILES, strength=1)
)
def test_no_start_schedule_of_blocks_spills(
    f: Callable[..., Any], dtype: str, tile: BlockTile, tmp_path: Path
) -> None:
    rows, columns = tile.rows, tile.columns
    words = f"tile(m {rows}, n {columns}, k 64), stages(2), roles(producer 1, consumer"
    specs = [mlc.TensorSpec(512, 512, dtype=dtype) for _ in "ab"]
    schedule = f"{words} {rows // GROUP_ROWS})"
    ptx = code(f, specs, "sm_90a", schedule=schedule)
    assert f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{dtype}.{dtype}" in ptx
    assert spilled(checked(ptx, "sm_90a", tmp_path)) == 0


@pytest.mark.parametrize(
    ("dtype", "sm"),
    covering(["bf16", "f16", "f32", "f64", "i8", "i32", "i64", "c64"], ARCHITECTURES, strength=1),
)
def test_no_product_by_threads_spills(dtype: str, sm: str, tmp_path: Path) -> None:
    for f, shape in ((nn, (2048, 2048)), (tt, (192, 192)), (nn, ("N", "N"))):
        specs = [mlc.TensorSpec(*shape, dtype=dtype) for _ in "ab"]
        if f is tt and dtype == "c64":
            continue  # complex numbers have no order
        assert spilled(checked(code(f, specs, sm), sm, tmp_path)) == 0
