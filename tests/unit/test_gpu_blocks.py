"""Products of 16-bit factors on GPUs: which are tile programs of blocks, and what these compute."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context

import mlc
from mlc.dialects.dtypes import BF16, named_dtype
from mlc.dialects.target.known import H200
from mlc.levels import Levels
from mlc.lowering.gpu import emit_gpu, lower_to_gpu
from mlc.passes.cost.prediction import predicted_seconds
from mlc.passes.tile.place_slots import PlaceSlotsPass
from mlc.passes.tile.plan_to_tiles import PlanToTilesPass
from mlc.runtime.interpret import interpret
from mlc.runtime.ptx import emit_ptx
from mlc.text import parse_text
from tests.assembler import checked, needs_ptxas
from tests.plans import planned

Shapes = tuple[tuple[int | str, ...], ...]
SQUARE: Shapes = ((4096, 4096), (4096, 4096))


def levels(
    f: Callable[..., Any], shapes: Shapes, target: str = "cuda:h200", **options: Any
) -> Levels:
    specs = [mlc.TensorSpec(*shape, dtype="bf16") for shape in shapes]
    return planned(f, *specs, target=target, **options)


def words(of: Levels) -> str:
    found = re.search(r"schedule<\[[^>]*?(\btile\(.*?)\]>", of.text("plan"))
    return found[1] if found else ""


def nn(a: Any, b: Any) -> Any:
    return a @ b


def nt(a: Any, b: Any) -> Any:
    return a @ b.T


def tn(a: Any, b: Any) -> Any:
    return a.T @ b


def relu_of_sum(a: Any, b: Any, bias: Any) -> Any:
    return np.maximum(a @ b + bias, 0)


def residual(a: Any, b: Any, c: Any) -> Any:
    return a @ b + c


def both(a: Any, b: Any) -> Any:
    c = a @ b
    return c, np.maximum(c, 0)


def scores(x: Any) -> Any:
    q, k = np.transpose(x, (2, 0, 3, 1, 4))[:2]
    return q @ np.swapaxes(k, -1, -2)


def heads(x: Any, p: Any) -> Any:
    return np.swapaxes(p @ np.transpose(x, (2, 0, 3, 1, 4))[2], 1, 2)


def wide(a: Any, b: Any) -> Any:
    return a.astype(np.float32) @ b.astype(np.float32)


def gelu(a: Any, b: Any) -> Any:
    x = a @ b
    return 0.5 * x * (1 + np.tanh(0.75 * (x + 0.0625 * x**3)))  # bf16 holds the constants


def of_batches(a: Any, b: Any) -> Any:
    return np.einsum("abd,abc->cd", a, b)


SUITED: dict[str, tuple[Callable[..., Any], Shapes, str]] = {
    "large": (nn, SQUARE, "tile(m 128, n 256, k 64), stages(4), roles(producer 1, consumer 2)"),
    "few tiles": (
        nn,
        ((512, 16384), (16384, 512)),
        "tile(m 64, n 128, k 64), stages(8), roles(producer 1, consumer 1), raster(32),"
        " split_k(blocks 132, parts 4)",
    ),
    "one wave": (nn, ((1024, 1024), (1024, 1024)), "tile(m 64, n 128, k 64), stages(8)"),
    "few rows": (nn, ((16, 4096), (4096, 8192)), "tile(m 64, n 64, k 64), stages(13)"),
    "waves": (nn, ((8192, 768), (768, 2304)), "tile(m 128, n 192, k 64), stages(4)"),
    "half a wave": (nn, ((1024, 4096), (4096, 14336)), "tile(m 128, n 256, k 64), stages(4)"),
    "edges": (relu_of_sum, ((1000, 520), (520, 1032), (1032,)), "tile(m 128, n 128, k 64)"),
    "two results": (both, ((512, 256), (256, 768)), "tile(m 64, n 64, k 64)"),
    "batches": (nn, ((64, 1024, 1024), (64, 1024, 1024)), "tile(m 128, n 256, k 64)"),
    "several letters": (relu_of_sum, ((8, 128, 768), (768, 2304), (2304,)), "tile(m 128,"),
    "heads": (scores, ((8, 1024, 3, 12, 64),), "tile(m 128, n 256, k 64)"),
    "turned": (tn, ((512, 256), (512, 768)), "tile(m 64,"),
    "wide": (wide, SQUARE, "tile(m 128, n 256, k 64)"),
    "much to finish": (
        gelu,
        ((8192, 768), (768, 3072)),
        "tile(m 64, n 192, k 64), stages(6), roles(producer 1, consumer 3, fill 32, sums 160),"
        " raster(32), overlap(items)",
    ),
    "much to finish of many steps": (gelu, ((8192, 4096), (4096, 14336)), "tile(m 128, n 256"),
    "one tile of each block": (gelu, ((1024, 768), (768, 1024)), "tile(m 64, n 128, k 64)"),
}


@pytest.mark.parametrize("name", SUITED)
def test_what_suits_has_words(name: str) -> None:
    f, shapes, expected = SUITED[name]
    assert words(levels(f, shapes)).startswith(expected)


@pytest.mark.parametrize(
    "shapes",
    [
        ((512, 512), (512, 500)),  # rows of 1000 bytes
        ((512, 100), (100, 512)),
        (("M", 512), (512, 512)),
        ((32, 32), (32, 32)),
        ((8, 64, 32), (8, 32, 64)),
    ],
)
def test_other_products_are_multiplied_by_threads(shapes: Shapes) -> None:
    assert words(levels(nn, shapes)) == ""


def test_other_machines_have_no_such_blocks() -> None:
    assert words(levels(nn, SQUARE, "cuda:sm_90")) == ""
    assert words(levels(nn, SQUARE, "cuda:sm_80")) == ""


def test_words_that_cannot_be_applied_leave_numbers() -> None:
    text = levels(nn, SQUARE).text("plan").replace("#mlc.buffer<out 0>", "#mlc.buffer<input 0>")
    assert "tile(m 128" in text
    module = parse_text(text, "plan")
    PlanToTilesPass().apply(Context(), module)
    assert "mlc_tile.kernel" not in str(module)
    assert "tile(m 128" not in str(module)


@pytest.mark.parametrize("f", [nn, nt, tn, residual, relu_of_sum, wide, gelu])
def test_the_interpreter_agrees(f: Callable[..., Any]) -> None:
    m, n, k = 136, 136, 136
    last: dict[Any, tuple[int, ...]] = {residual: (m, n), relu_of_sum: (n,)}
    shapes: list[tuple[int, ...]] = [(m, k), (k, n), *([last[f]] if f in last else [])]
    module = levels(f, tuple(shapes)).at("tiles")
    assert "mlc_tile.dot_start" in str(module)
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(shape).astype(BF16.numpy) for shape in shapes]
    (found,) = interpret(module, arrays, workers=3, seed=1)
    expected = f(*(x.astype(np.float32) for x in arrays))
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=0.02, atol=0.1)


TOGETHER = "tile(m 128, n 128, k 64), stages(3), roles(producer 1, consumer 2), raster(2)"
SHARED = {
    "clusters": f"{TOGETHER}, cluster(2)",
    "parts": f"{TOGETHER}, split_k(blocks 5, parts 3)",
    "parts of clusters": f"{TOGETHER}, cluster(2), split_k(blocks 6, parts 3)",
    "turns": f"{TOGETHER.replace('m 128', 'm 64')}, overlap(items)",
    "turns of three": "tile(m 64, n 64, k 64), stages(4), roles(producer 1, consumer 3, fill 32,"
    " sums 160), raster(3), overlap(items)",
}
"""Words of blocks, or groups of one, that work together."""


@pytest.mark.parametrize("workers", [1, 4, 5])
@pytest.mark.parametrize("name", SHARED)
def test_the_interpreter_agrees_on_blocks_that_work_together(name: str, workers: int) -> None:
    shapes = (264, 520), (520, 136), (136,)
    module = levels(relu_of_sum, shapes, schedule=SHARED[name]).at("tiles")
    assert ("cluster 2" in str(module)) == ("clusters" in name)
    assert ("mlc_tile.join" in str(module)) == ("parts" in name)
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(shape).astype(BF16.numpy) for shape in shapes]
    expected = relu_of_sum(*(x.astype(np.float32) for x in arrays))
    found = [interpret(module, arrays, workers=workers, seed=seed)[0] for seed in range(2)]
    assert found[0].tobytes() == found[1].tobytes()
    np.testing.assert_allclose(found[0].astype(np.float32), expected, rtol=0.02, atol=0.2)


@needs_ptxas
@pytest.mark.parametrize("name", SHARED)
def test_blocks_that_work_together_keep_sums_in_registers(name: str, tmp_path: Path) -> None:
    schedule = re.sub(r"blocks \d", "blocks 132", SHARED[name].replace("n 128", "n 256"))
    units = levels(nn, ((1024, 4096), (4096, 14336)), schedule=schedule).units()
    ptx = "".join(emit_ptx(unit.text, H200) for unit in units if "clear" not in unit.name)
    assert (".multicast::cluster" in ptx) == ("clusters" in name)
    assert ("ld.acquire.gpu" in ptx) == ("parts" in name)
    checked(ptx, H200.sm, tmp_path)


@pytest.mark.parametrize("m", [5, 16, 40])
def test_of_few_rows_no_others_are_copied(m: int) -> None:
    module = levels(nn, ((m, 136), (136, 264))).at("tiles")
    assert f"over (m {-(-m // 8) * 8}) part via tma" in str(module)
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal(shape).astype(BF16.numpy) for shape in ((m, 136), (136, 264)))
    (found,) = interpret(module, [a, b], workers=3, seed=1)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=0.02, atol=0.1)


def test_a_ring_waits_for_the_rows_that_come() -> None:
    (unit,) = levels(nn, ((16, 4096), (4096, 8192))).units()
    expected = 2 * 64 * (16 + 64)
    assert re.search(rf"expect_tx.*, {expected};", emit_ptx(unit.text, H200))


def halves(a: Any, b: Any) -> Any:
    return np.maximum(a.astype(BF16.numpy) @ b.astype(BF16.numpy), 0)


def rounded(a: Any, b: Any) -> Any:
    kept = (x.astype(BF16.numpy).astype(np.float32) for x in (a, b))
    return np.matmul(*kept)


@pytest.mark.parametrize("f", [halves, rounded])
def test_factors_that_are_converted_are_stored_where_that_is_faster(f: Callable[..., Any]) -> None:
    def templates(n: int | str, target: str) -> list[str]:
        plan = planned(f, *(mlc.TensorSpec(n, n, dtype="f32") for _ in "ab"), target=target)
        return re.findall(r'mlc.kernel "([a-z]+)"', plan.text("plan"))

    assert templates(4096, "cuda:h200") == ["cell", "cell", "contraction"]
    assert templates(64, "cuda:h200") == ["contraction"]
    assert templates("N", "cuda:h200") == ["contraction"]  # multiplied by threads
    assert templates(4096, "cuda:sm_80") == ["contraction"]
    assert templates(4096, "avx512") == ["contraction"]


def test_a_converted_factor_is_multiplied_by_tensor_cores() -> None:
    specs = [mlc.TensorSpec(4096, 4096, dtype="f32") for _ in "ab"]
    assert "tile(m 128, n 256" in words(planned(halves, *specs, target="cuda:h200"))


BATCHES: list[tuple[Callable[..., Any], Shapes]] = [
    (nn, ((3, 136, 128), (3, 128, 264))),
    (relu_of_sum, ((2, 72, 64), (64, 136), (136,))),
    (relu_of_sum, ((2, 4, 72, 64), (2, 4, 64, 136), (2, 1, 1, 136))),
    (of_batches, ((4, 32, 72), (4, 32, 96))),
    (scores, ((2, 72, 3, 4, 64),)),
    (heads, ((2, 72, 3, 4, 64), (2, 4, 72, 72))),
]


@pytest.mark.parametrize(("f", "shapes"), BATCHES, ids=lambda x: getattr(x, "__name__", ""))
def test_the_interpreter_agrees_on_batches(f: Callable[..., Any], shapes: Shapes) -> None:
    module = levels(f, shapes).at("tiles")
    assert "mlc_tile.dot_start" in str(module)
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal([*map(int, shape)]).astype(BF16.numpy) for shape in shapes]
    (found,) = interpret(module, arrays, workers=3, seed=1)
    expected = f(*(x.astype(np.float32) for x in arrays))
    np.testing.assert_allclose(found.astype(np.float32), expected, rtol=0.02, atol=0.2)


def test_values_that_stay_in_a_kernel_are_not_rounded() -> None:
    shapes = (136, 136), (136, 136)
    module = levels(gelu, shapes).at("tiles")
    rng = np.random.default_rng(2)
    arrays = [rng.standard_normal(shape).astype(BF16.numpy) for shape in shapes]
    (found,) = interpret(module, arrays, workers=3, seed=1)
    expected = gelu(*(x.astype(np.float32) for x in arrays)).astype(BF16.numpy)
    same = found.view(np.uint16) == expected.view(np.uint16)
    assert np.mean(same) > 0.99


@needs_ptxas
@pytest.mark.parametrize("name", SUITED)
def test_the_assembler_keeps_sums_in_registers(name: str, tmp_path: Path) -> None:
    f, shapes, _ = SUITED[name]
    unit, *_ = levels(f, shapes).units()
    ptx = emit_ptx(unit.text, H200)
    assert "wgmma.mma_async" in ptx
    checked(ptx, H200.sm, tmp_path)


def scaled(a: Any, b: Any, rows: Any, columns: Any) -> Any:
    return (a.astype(np.float32) @ b.astype(np.float32).T) * rows * columns


def of_bytes(f: Callable[..., Any], kind: str, m: int, n: int, k: int, numerics: str) -> Levels:
    specs = [mlc.TensorSpec(size, k, dtype=kind) for size in (m, n)]
    specs += [mlc.TensorSpec(m, 1, dtype="f32"), mlc.TensorSpec(n, dtype="f32")]
    return planned(f, *specs, target="cuda:h200", numerics=numerics)


@pytest.mark.parametrize("kind", ["f8e4m3fn", "f8e5m2"])
def test_factors_of_8_bits_are_multiplied_by_tensor_cores(kind: str) -> None:
    program = of_bytes(scaled, kind, 72, 136, 144, "fast")
    assert words(program).startswith("tile(m 64, n 64, k 128)")
    module = program.at("tiles")
    rng = np.random.default_rng(2)
    dtype = named_dtype(kind).numpy
    a, b = (rng.standard_normal((size, 144)).astype(dtype) for size in (72, 136))
    scales = rng.random((72, 1)).astype(np.float32), rng.random(136).astype(np.float32)
    (found,) = interpret(module, [a, b, *scales], workers=3, seed=1)
    np.testing.assert_allclose(found, scaled(a, b, *scales), rtol=1e-4, atol=1e-4)


def test_sums_of_products_of_8_bits_are_for_those_who_ask() -> None:
    assert words(of_bytes(scaled, "f8e4m3fn", 512, 512, 512, "standard")) == ""

    def turned(a: Any, b: Any, rows: Any, columns: Any) -> Any:
        return (a.astype(np.float32).T @ b.astype(np.float32)) * columns.sum() * rows.sum()

    assert words(of_bytes(turned, "f8e4m3fn", 512, 512, 512, "fast")) == ""


@needs_ptxas
@pytest.mark.parametrize(("kind", "spelled"), [("f8e4m3fn", "e4m3"), ("f8e5m2", "e5m2")])
def test_the_assembler_accepts_products_of_8_bits(kind: str, spelled: str, tmp_path: Path) -> None:
    (unit,) = of_bytes(scaled, kind, 4096, 4096, 4096, "fast").units()
    ptx = emit_ptx(unit.text, H200)
    assert f"wgmma.mma_async.sync.aligned.m64n256k32.f32.{spelled}.{spelled}" in ptx
    checked(ptx, H200.sm, tmp_path)


def test_an_edited_program_changes_the_code() -> None:
    text = levels(nn, SQUARE).text("tiles")
    assert text.count("channel<4 x") > 1

    def code(text: str) -> str:
        module = parse_text(text, "edited")
        PlaceSlotsPass().apply(Context(), module)
        return emit_gpu(lower_to_gpu(module), H200).kernels[0].llvm

    assert code(text.replace("channel<4 x", "channel<3 x")) != code(text)


def test_products_of_blocks_are_priced_at_the_tensor_cores_rate() -> None:
    plan = levels(nn, SQUARE).plan()
    (seconds,) = predicted_seconds(plan, H200, {}).values()
    least = 2 * 4096**3 / H200.tensor_f16_flops_per_s
    assert least < seconds < 2 * least


def attended(q: Any, k: Any, v: Any) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) * 0.125
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


@pytest.mark.parametrize(
    ("f", "dtype", "shape", "measured_s"),
    [
        (nn, "f64", (4096, 4096), 2.58e-3),
        (nn, "f32", (4096, 4096), 1.23e-3),  # tf32
        (attended, "bf16", (4, 16, 4096, 128), 0.76e-3),
    ],
)
def test_products_are_priced_at_their_own_rate(
    f: Callable[..., Any], dtype: str, shape: tuple[int, ...], measured_s: float
) -> None:
    """Beside what an H200 has taken: docs/measurements.md."""
    specs = [mlc.TensorSpec(*shape, dtype=dtype)] * f.__code__.co_argcount
    plan = planned(f, *specs, target="h200", numerics="fast").plan()
    (seconds,) = predicted_seconds(plan, H200, {}).values()
    assert 0.8 * measured_s < seconds < 1.25 * measured_s
