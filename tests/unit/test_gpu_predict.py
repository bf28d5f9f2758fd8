"""What schedules of products should take on GPUs: beside clocks, and beside `explain`."""

from __future__ import annotations

import json
from dataclasses import replace
from math import log
from statistics import median

import pytest

from mlc.dialects.dtypes import BF16, F32, F64
from mlc.dialects.plan import Schedule
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tile.nest_words import Stage, Threads
from mlc.dialects.tile.words import Overlap, Raster, Roles, SplitK, Stages, Tile
from mlc.driver import main
from mlc.passes.cost.prediction import predicted_seconds
from mlc.passes.gpu.predict import GpuProduct, predict
from mlc.passes.gpu.tiles import ProductSizes
from mlc.schedules import SUMS, Problem, program_of, schedules_of

MEASURED = (
    ("h200", "bf16", (512, 512, 512), 5.6),
    ("h200", "bf16", (1024, 1024, 1024), 7.9),
    ("h200", "bf16", (2048, 2048, 2048), 26.4),
    ("h200", "bf16", (4096, 4096, 4096), 173.5),
    ("h200", "bf16", (8192, 14336, 4096), 1306.0),
    ("h200", "f64", (1024, 1024, 1024), 53.8),
    ("h200", "f64", (2048, 2048, 2048), 328.0),
    ("h200", "f64", (4096, 4096, 4096), 2580.0),
    ("h200", "f32", (1024, 1024, 1024), 40.2),
    ("h200", "f32", (2048, 2048, 2048), 179.5),
    ("h200", "f32", (8192, 8192, 8192), 10079.0),
    ("sm_90", "f32", (1024, 1024, 1024), 59.0),
    ("sm_90", "f32", (1536, 1536, 1536), 224.0),
    ("sm_90", "f32", (2048, 2048, 2048), 376.0),
    ("sm_90", "f32", (3072, 3072, 3072), 1322.0),
    ("sm_90", "f32", (1024, 1024, 256), 26.4),
    ("sm_90", "f32", (500, 900, 700), 32.8),
)
"""Machine, dtype, (m, k, n), us: docs/measurements.md, "Products of … on a GPU"."""


def _gpu(name: str) -> GpuTarget:
    target = named_target(name)
    assert isinstance(target, GpuTarget)
    return target


def _predicted_s(target: str, dtype: str, m: int, k: int, n: int) -> float:
    problem = Problem(m=m, n=n, k=k, dtypes=(dtype, dtype, SUMS.get(dtype, dtype)))
    plan = program_of(problem, target, 1).plan()
    return sum(predicted_seconds(plan, _gpu(target), {}).values())


def test_kernels_take_what_was_measured() -> None:
    off = [abs(log(_predicted_s(on, x, *sizes) / (1e-6 * us))) for on, x, sizes, us in MEASURED]
    assert median(off) < 0.1
    assert max(off) < 0.2


SIZES = ProductSizes(1, 1024, 1024, 1024)
PRODUCT = GpuProduct(sizes=SIZES, factor=BF16, result=F32)


def _by_groups(rows: int, columns: int, *others: SplitK | Overlap) -> Schedule:
    roles = Roles(1, rows // 64)
    return Schedule((Tile(rows, columns, 64), Stages(4), roles, Raster(8), *others))


def test_bytes_of_each_memory_are_counted_from_the_tiles() -> None:
    found = predict(PRODUCT, _by_groups(128, 256), _gpu("h200"))
    assert found.blocks == 8 * 4
    shared = 32 * (128 + 2 * 256) * 1024 * 2  # two groups read the columns each for itself
    assert found.bytes == (shared, 32 * (128 + 256) * 1024 * 2, 2 * 1024 * 1024 * 2)


def test_factors_beyond_level_2_come_once_for_blocks_that_run_at_once() -> None:
    large = replace(PRODUCT, sizes=ProductSizes(1, 16384, 16384, 16384))
    found = predict(large, _by_groups(128, 256), _gpu("h200"))
    waves = -(-128 * 64 // 132)
    assert found.bytes[2] == waves * (8 * 128 + 17 * 256) * 16384 * 2


def test_a_product_takes_as_long_as_the_multiprocessor_that_has_most() -> None:
    h200 = _gpu("h200")
    one, more = (
        predict(replace(PRODUCT, sizes=ProductSizes(1, 128 * tiles, 256, 4096)), words, h200)
        for tiles, words in ((132, _by_groups(128, 256)), (133, _by_groups(128, 256)))
    )
    assert more.core_s > 1.6 * one.core_s


def test_parts_of_sums_are_added() -> None:
    deep = replace(PRODUCT, sizes=ProductSizes(1, 512, 512, 16384))
    whole = predict(deep, _by_groups(128, 128), _gpu("h200"))
    parts = predict(deep, _by_groups(128, 128, SplitK(132, 4)), _gpu("h200"))
    assert parts.join_s > 0.0 == whole.join_s
    assert parts.core_s < 0.4 * whole.core_s


def test_cores_of_f64_take_longer_where_there_are_fewer() -> None:
    stage = Schedule((Threads(256), Stage(64, 64, 16, rows=4, columns=4)))
    product = GpuProduct(sizes=SIZES, factor=F64, result=F64)
    slow, fast = (predict(product, stage, _gpu(x)).core_s for x in ("sm_86", "sm_80"))
    assert slow > 10 * fast


@pytest.mark.parametrize(
    ("target", "dtype", "route"),
    [
        ("h200", "bf16", "groups"),
        ("h200", "f32", "threads"),
        ("sm_90a", "f64", "warps"),
        ("sm_80", "bf16", "warps"),
        ("sm_80", "f32", "threads"),
        ("sm_75", "i8", "threads"),
    ],
)
def test_the_command_says_what_explain_says(target: str, dtype: str, route: str) -> None:
    """Of the product's kernel: one cost for both, by the chooser's own candidates."""
    problem = Problem(m=512, n=512, k=512, dtypes=(dtype, dtype, SUMS.get(dtype, dtype)))
    levels = program_of(problem, target, 1)
    found = schedules_of(problem, _gpu(target), levels)
    current = next(c for c in found.candidates if c.words == found.current)
    assert current.route == route
    explained = predicted_seconds(levels.plan(), _gpu(target), {})
    kernel = next(
        s for op, s in explained.items() if op.schedule and op.schedule.data.words == found.current
    )
    # `explain` counts what becomes of the sums as well
    assert current.seconds <= kernel <= 1.02 * current.seconds
    assert list(found.candidates) == sorted(found.candidates, key=lambda c: c.seconds)
    assert {c.route for c in found.candidates} >= {route, "threads"}


def test_the_command_explains_candidates_of_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["tile", "1024", "1024", "1024", "--target", "sm_80", "--first", "3"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert said.startswith("A[1024, 1024] · B[1024, 1024], f32, on sm_80\n")
    assert "what the compiler takes now" in said
    assert "slower: multiplying" in said
    assert "not groups: sm_80 has no groups of warps that multiply" in said
    assert "not warps: factors are f32, which they round to tf32" in said
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["candidates"]
    assert sum(c["current"] for c in found) == 1
    assert all(c["predicted"]["bytes"][2] > 0 for c in found)


def test_a_product_of_few_rows_is_no_product_of_tiles(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tile", "2", "64", "64", "--target", "h200"]) == 0
    said = capsys.readouterr().out
    assert "not threads: m = 2: fewer than 4, so it is a reduction like others" in said
    assert "so it takes" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--threads", "2"), "--threads 2: of processors; h200 is a GPU"),
        (("--dtype", "f8e4m3fn"), "it only stores numbers"),
        (("--batch", "0"), "batch = 0; expected 1 or more"),
    ],
)
def test_the_command_refuses(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(["tile", "64", "64", "64", "--target", "h200", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_measuring_needs_the_device(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlc.runtime.cuda import GpuError

    def missing() -> GpuTarget:
        raise GpuError("found no GPU")

    command = ["tile", "64", "64", "64", "--target", "h200", "--measure"]
    monkeypatch.setattr("mlc.schedules.gpu_target", missing)
    assert main(command) == 2
    assert "--measure: found no GPU" in capsys.readouterr().err
    monkeypatch.setattr("mlc.schedules.gpu_target", lambda: _gpu("sm_80"))
    assert main(command) == 2
    assert "--measure runs on this machine, sm_80" in capsys.readouterr().err
