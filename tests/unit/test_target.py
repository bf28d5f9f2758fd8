"""The machine descriptions: complete, consistent, named."""

from __future__ import annotations

import dataclasses
import platform
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mlc
from mlc.dialects.target import CpuTarget, GpuTarget, named_target
from mlc.dialects.target.attribute import TargetAttr, target_of
from mlc.dialects.target.intrinsics import extensions_in
from mlc.dialects.target.known import CPUS, GPUS
from mlc.dialects.target.loop_costs import LOOP_COSTS, LoopCosts
from mlc.runtime.host import host
from mlc.text import parse_text


@pytest.mark.parametrize("target", CPUS, ids=lambda target: target.name)
def test_cpu_figures_agree(target: CpuTarget) -> None:
    assert named_target(target.name) is target
    assert target.source
    peak = 2 * target.lanes(32) * target.fma_ports * target.clock_hz
    assert target.f32_flops_per_s == pytest.approx(peak)
    assert target.l1d_bytes < target.l2_bytes < target.l3_bytes
    rates = (
        target.l1_read_bytes_per_s,
        target.l2_read_bytes_per_s,
        target.l3_read_bytes_per_s,
        target.memory_read_bytes_per_s,
    )
    assert list(rates) == sorted(rates, reverse=True)
    for sets in (target.l1d_bytes / target.l1d_ways, target.l2_bytes / target.l2_ways):
        assert sets % target.cache_line_bytes == 0


@pytest.mark.parametrize("target", GPUS, ids=lambda target: target.name)
def test_gpu_figures_agree(target: GpuTarget) -> None:
    assert named_target(f"cuda:{target.name}") is target
    assert target.source
    assert target.shared_bytes_per_block <= target.shared_bytes_per_sm
    assert target.has_async_copy == (target.compute_capability >= 80)
    assert target.has_tma == (target.compute_capability >= 90)
    assert ("wgmma" in target.tensor_core_kinds) == (target.sm == "sm_90a")
    assert target.tensor_f16_flops_per_s > target.f32_flops_per_s


UNITS = (
    "bytes", "bits", "_s", "_hz", "num_", "max_", "ways", "cores", "ports", "cycles", "count",
    "registers", "threads", "lanes", "tiles", "capability", "factor", "share",
)  # fmt: skip


@pytest.mark.parametrize("kind", [CpuTarget, GpuTarget, LoopCosts])
def test_every_field_has_a_unit_and_a_docstring(kind: type) -> None:
    import inspect

    source = inspect.getsource(kind)
    for field in dataclasses.fields(kind):
        _, _, after = source.partition(f"    {field.name}: ")
        assert after.splitlines()[1].strip().startswith('"""'), field.name
        if field.type in ("int", "float"):
            assert any(unit in field.name for unit in UNITS), field.name


def test_what_loops_take_has_a_row_of_that_name_and_a_source() -> None:
    for name, row in LOOP_COSTS.items():
        assert row.name == name
        assert row.source
        assert not dict(row.differences())
        figures = [getattr(row, f.name) for f in dataclasses.fields(row) if f.type != "str"]
        assert all(figure > 0 for figure in figures)
    assert all(LOOP_COSTS[target.loops.name] is target.loops for target in CPUS)


def test_what_loops_take_prints_where_it_differs_from_its_row() -> None:
    avx2 = named_target("avx2")
    assert isinstance(avx2, CpuTarget)
    slower = dataclasses.replace(LOOP_COSTS["masks"], fold_cycles=7.5, num_lines_together=4)
    target = dataclasses.replace(avx2, name="slower", loops=slower)
    text = str(TargetAttr(target))
    assert ', loops = "masks" {fold_cycles = 7.5, num_lines_together = 4}, source = ' in text
    assert (
        target_of(parse_text(f"module attributes {{mlc.target = {text}}} {{}}", "text")) == target
    )
    assert str(TargetAttr(avx2)) == '#mlc.target<"avx2">'


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('"zen9"', "no row of what loops take is called 'zen9'; expected one of zen3, masks"),
        ('"zen3" {folds = 1.0}', "what loops take: found folds = 1.0; expected .* fold_cycles"),
        ('"zen3" {fold_cycles = "many"}', "what loops take: found fold_cycles = 'many'"),
    ],
)
def test_no_other_row_is_read(row: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        parse_text(
            f"module attributes {{mlc.target = #mlc.target<cpu, loops = {row}>}} {{}}", "text"
        )


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no target is called 'avx3'; expected one of host, avx2"):
        named_target("avx3")
    with pytest.raises(ValueError, match="no target is called 'cuda:avx2'"):
        named_target("cuda:avx2")
    host = named_target("avx512")
    assert isinstance(host, CpuTarget)
    assert named_target("host", host=lambda: host) is host


def test_tile_registers_count_where_the_kernel_permits_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mlc.runtime import probe

    features = {"amx-tile": True, "amx-bf16": True, "avx512vnni": True, "avx512bf16": False}
    for granted, expected in ((True, "amx-bf16,amx-tile,avx512vnni"), (False, "avx512vnni")):
        monkeypatch.setattr(probe.tile_permission, "granted", lambda answer=granted: answer)
        assert probe.extensions(features) == expected


def test_every_extension_that_a_row_needs_is_probed() -> None:
    from mlc.dialects.target.intrinsics import INTRINSICS
    from mlc.runtime import probe

    features = {need: not need.startswith("amx") for row in INTRINSICS for need in row.needs}
    wanted = {need for need, on in features.items() if on}
    assert set(probe.extensions(features).split(",")) == wanted


def test_extensions_of_arm_are_what_the_kernel_says() -> None:
    """LLVM's detection leaves them out: AT_HWCAP has sdot, AT_HWCAP2 the products of matrices."""
    from mlc.runtime.arm_features import arm_features

    n1, v1 = {16: 1 << 20, 26: 0}, {16: 1 << 20, 26: 1 << 13 | 1 << 14}
    assert arm_features(n1.__getitem__) == {"dotprod": True, "i8mm": False, "bf16": False}
    assert arm_features(v1.__getitem__) == {"dotprod": True, "i8mm": True, "bf16": True}
    assert (arm_features() == {}) == (platform.machine() != "aarch64")


def test_tile_permission_is_what_the_kernel_says() -> None:
    """Granted only where the processor has tiles; asked once."""
    from mlc.runtime import tile_permission

    if tile_permission.granted():
        assert host().features.get("amx-tile", False)
    assert tile_permission.granted.cache_info().misses == 1


def plus_one(x: Any) -> Any:
    return x + 1


def squared(x: Any) -> Any:
    return x @ x


@pytest.mark.parametrize("target", ["neon", "avx2"])
def test_code_of_another_architecture_is_an_error(target: str) -> None:
    """Not the end of the process."""
    mine = {"x86_64": "avx2", "aarch64": "neon"}[host().triple.split("-")[0]]
    step = mlc.compile(plus_one, target=target)
    if target == mine:
        assert step(np.ones(3)).tolist() == [2.0, 2.0, 2.0]
        return
    needs = "aarch64" if target == "neon" else "x86_64"
    with pytest.raises(mlc.MlcError, match=f"target {target}: its code needs {needs}"):
        step(np.ones(3))


def multiplied(a: Any, b: Any) -> Any:
    return a.astype(np.int32) @ b.astype(np.int32)


@pytest.mark.parametrize("target", ["avx512", "amx"])
def test_code_uses_no_instructions_beside_those_that_it_says(target: str) -> None:
    """Else code for amx, say, has instructions for f16, which it does not need."""
    step = mlc.compile(plus_one, target=target).lower(mlc.TensorSpec(512, dtype="f16"))
    (features,) = {
        dict(re.findall(r'"([^" ]+)"="([^"]*)"', line)).get("target-features", "")
        for line in step.levels.text("code").splitlines()
        if line.startswith("attributes #")
    }
    assert not features
    assert not re.search(r"\bv\w+ph\b", step.levels.asm().replace("vcvtps2ph", ""))


def test_code_with_products_of_bytes_says_so() -> None:
    square = mlc.TensorSpec(256, 256, dtype="i8")
    text = mlc.compile(multiplied, target="avx512").lower(square, square).levels.text("code")
    row = named_target("avx512")
    assert isinstance(row, CpuTarget)
    assert "avx512vnni" in extensions_in([text], row)
    assert "+avx512vnni" in text
    assert "avx512bf16" not in text


def test_instructions_that_the_machine_lacks_are_an_error() -> None:
    """Tile registers: what does not use them runs, or the machine has them."""
    x = np.ones((64, 64), ml_dtypes.bfloat16)
    step = mlc.compile(squared, target="amx")
    has = host().features
    if not has.get("avx512f"):
        pytest.skip("the target amx has vectors of 512 bits")
    np.testing.assert_array_equal(step(np.ones((64, 64), np.float32)), 64)
    if has.get("amx-bf16"):
        np.testing.assert_array_equal(step(x).astype(np.float32), 64)
        return
    with pytest.raises(mlc.MlcError, match="amx-bf16, which this machine does not have"):
        step(x)
