"""PTX of templates that no other test compiles, and of start schedules: what ptxas says of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.artifact import CodeUnit
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.lowering.emit import joined
from mlc.passes.gpu.tiles import BLOCK_TILES, TURN_TILES, BlockTile, TurnTile
from mlc.runtime.ptx import emit_ptx
from tests.assembler import checked, needs_ptxas
from tests.plans import candidates, planned, spec
from tests.sweeps import covering

pytestmark = needs_ptxas
ARCHITECTURES = ("sm_80", "sm_90a")
INTEGERS = tuple(f"{kind}{bits}" for kind in "iu" for bits in (8, 16, 32, 64))
FLOATS = ("bf16", "f16", "f32", "f64")
Specs = Sequence[mlc.TensorSpec]


def text_of(units: Sequence[CodeUnit], sm: str) -> str:
    """The PTX of all kernels."""
    target = named_target(sm)
    assert isinstance(target, GpuTarget)
    return emit_ptx(joined([(u.name, u.text) for u in units]), target)


def code(f: Callable[..., Any], specs: Specs, sm: str, **options: object) -> str:
    """The PTX of all kernels of a function, as they are scheduled."""
    return text_of(planned(f, *specs, target=f"cuda:{sm}", **options).units(), sm)


def ordered(x: Any) -> Any:
    return np.cumsum(x, axis=1), np.cumsum(x, axis=0), np.sort(x), np.argsort(x)


def placed(x: Any, index: Any) -> Any:
    y = x.copy()
    np.add.at(y, index, x[0])
    return y


def convolved(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, padding=1), mlc.nn.max_pool(x, 2)


@pytest.mark.parametrize(("dtype", "sm"), covering([*FLOATS, *INTEGERS], ARCHITECTURES, strength=1))
def test_the_assembler_accepts_what_is_no_nest(dtype: str, sm: str, tmp_path: Path) -> None:
    checked(code(ordered, [spec("M", 3000, dtype=dtype)], sm), sm, tmp_path)
    checked(code(placed, [spec(40, 9, dtype=dtype), spec(9, dtype="i64")], sm), sm, tmp_path)


@pytest.mark.parametrize(("dtype", "sm"), covering(FLOATS, ARCHITECTURES, strength=1))
def test_the_assembler_accepts_convolutions(dtype: str, sm: str, tmp_path: Path) -> None:
    specs = [spec(8, 16, 40, 40, dtype=dtype), spec(32, 16, 3, 3, dtype=dtype)]
    ptx = code(convolved, specs, sm, numerics="fast")
    assert "mma.sync" in ptx
    checked(ptx, sm, tmp_path)


def nn(a: Any, b: Any) -> Any:
    return a @ b


def nt(a: Any, b: Any) -> Any:
    return a @ b.T


def tn(a: Any, b: Any) -> Any:
    return a.T @ b


def tt(a: Any, b: Any) -> Any:
    c = a.T @ b.T
    return c * c


FORMS = (nn, nt, tn, tt)
SIZES: dict[str, tuple[int | str, ...]] = {
    "square": (2048, 2048, 2048),
    "deep": (512, 512, 16384),
    "edges": (1000, 1032, 520),
    "open": ("M", "N", "K"),
}


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
    ptx = code(nn, [spec(2048, 2048, dtype=dtype) for _ in "ab"], sm, numerics="fast")
    assert f"mma.sync.aligned.{instruction}" in ptx
    checked(ptx, sm, tmp_path)


@pytest.mark.parametrize(
    ("dtype", "f", "tile", "together"),
    covering(
        ["bf16", "f16"],
        FORMS,
        BLOCK_TILES,
        ["", ", cluster(2)", ", split_k(blocks 132, parts 4)"],
        strength=1,
    ),
)
def test_no_tile_of_blocks_spills(
    f: Callable[..., Any], dtype: str, tile: BlockTile, together: str, tmp_path: Path
) -> None:
    rows, columns = tile.rows, tile.columns
    words = f"tile(m {rows}, n {columns}, k 64), stages(2), roles(producer 1, consumer"
    schedule = f"{words} {rows // GROUP_ROWS}), raster(2){together}"
    ptx = code(f, [spec(512, 512, dtype=dtype) for _ in "ab"], "sm_90a", schedule=schedule)
    assert f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.{dtype}.{dtype}" in ptx
    assert (".multicast::cluster" in ptx) == ("cluster" in together)
    checked(ptx, "sm_90a", tmp_path)


@pytest.mark.parametrize("tile", TURN_TILES)
@pytest.mark.parametrize("f", FORMS)
def test_no_tile_of_groups_in_turn_spills(
    f: Callable[..., Any], tile: TurnTile, tmp_path: Path
) -> None:
    words = f"tile(m {tile.rows}, n {tile.columns}, k 64), stages(4), roles(producer 1, consumer"
    schedule = f"{words} {tile.groups}, fill 32, sums 160), raster(2), overlap(items)"
    ptx = code(f, [spec(512, 512, dtype="bf16") for _ in "ab"], "sm_90a", schedule=schedule)
    checked(ptx, "sm_90a", tmp_path)


@pytest.mark.parametrize(
    ("dtype", "f", "sizes", "sm"),
    covering(
        [*FLOATS, *INTEGERS, "bool", "c64", "c128"], FORMS, list(SIZES), ARCHITECTURES, strength=1
    ),
)
def test_no_start_schedule_of_a_product_spills(
    dtype: str, f: Callable[..., Any], sizes: str, sm: str, tmp_path: Path
) -> None:
    m, n, k = SIZES[sizes]
    shapes = (m, k) if f in (nn, nt) else (k, m), (k, n) if f in (nn, tn) else (n, k)
    specs = [spec(*shape, dtype=dtype) for shape in shapes]
    found = planned(f, *specs, target=f"cuda:{sm}")
    # nobody measures what sizes that are open might have: the first schedule is theirs
    for units in [found.units()] if sizes == "open" else candidates(found):
        ptx = text_of(units, sm)
        checked(ptx, sm, tmp_path)


def scaled(a: Any, b: Any, c: Any, r: Any) -> Any:
    return (np.exp((a @ b) * np.float32(0.1) - r) * c).astype(a.dtype)


def bent(a: Any, b: Any, c: Any, r: Any) -> Any:
    return (a @ b) * c + np.tanh(c) * r


def several(a: Any, b: Any, c: Any, r: Any) -> Any:
    h = a @ b + r
    t = np.tanh(h + h * h * h)
    return h, t, h * (1 + t) + c


@pytest.mark.parametrize(
    ("f", "size", "dtype", "sm"),
    covering(
        [scaled, bent, several], [(4000, 512), (1000, 64), (4096, 512)], ["bf16", "f16"],
        ARCHITECTURES, strength=1,
    ),
)  # fmt: skip
def test_nothing_that_follows_a_product_spills(
    f: Callable[..., Any], size: tuple[int, int], dtype: str, sm: str, tmp_path: Path
) -> None:
    """Also where a matrix is read, and where columns end within a tile."""
    n, k = size
    specs = [spec(n, k, dtype=dtype), spec(k, n, dtype=dtype), spec(n, n, dtype=dtype), spec(n, 1)]
    checked(code(f, specs, sm), sm, tmp_path)


def fast(a: Any, b: Any) -> Any:
    return a.astype(np.float32) @ b.astype(np.float32).T


@pytest.mark.parametrize(
    ("dtype", "sizes", "sm"),
    covering(["f8e4m3fn", "f8e5m2", "f32"], list(SIZES)[:-1], ARCHITECTURES, strength=1),
)
def test_no_start_schedule_of_a_fast_product_spills(
    dtype: str, sizes: str, sm: str, tmp_path: Path
) -> None:
    m, n, k = SIZES[sizes]
    specs = [spec(m, k, dtype=dtype), spec(n, k, dtype=dtype)]
    for units in candidates(planned(fast, *specs, target=f"cuda:{sm}", numerics="fast")):
        ptx = text_of(units, sm)
        checked(ptx, sm, tmp_path)
