"""Backends: a row for each kind of machine, and what its targets state."""

from __future__ import annotations

import dataclasses

import pytest
from xdsl.context import Context

from mlc import registry
from mlc.backends import BACKENDS, backend_of
from mlc.dialects.errors import MlcError
from mlc.dialects.target import CpuTarget, named_target
from mlc.dialects.target.known import CPUS, GPUS
from mlc.lowering.emit import math as emit_math
from mlc.options import Options
from mlc.passes.cost.ops import POINTS
from mlc.passes.cost.prediction import WORKS
from mlc.passes.cost.work import clock
from mlc.passes.math.expand_math import FUNCTIONS
from mlc.passes.plan.tiling.schedule import OFFERS
from mlc.pipeline import run_pipeline
from mlc.text import parse_text

SCALED = """
func.func @scaled(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = mlc.mul %x, %x : tensor<8xf32>
  func.return %0 : tensor<8xf32>
}
"""


def test_every_kind_of_machine_has_its_rows() -> None:
    kinds = {type(target) for target in (*CPUS, *GPUS)}
    for table in ({row.kind for row in BACKENDS}, OFFERS, POINTS, WORKS):
        assert set(table) == kinds


def test_rows_name_passes_and_fields_that_there_are() -> None:
    for step in (x for row in BACKENDS for stage in row.stages for x in stage.steps):
        fields = {field.name for field in dataclasses.fields(registry.load(step.name))}
        assert fields.issuperset(step.options)
        assert all(hasattr(Options(target=CPUS[0]), name) for name in step.options)


def test_rows_say_which_loops_a_machine_has() -> None:
    for target in (*CPUS, *GPUS):
        names = {x.name for stage in backend_of(target).stages for x in stage.steps}
        assert ("mlc-form-tiles" in names) == target.forms_tile_loops
        assert ("mlc-expand-partition" in names) == (not target.has_partition)
        assert ("mlc-merge-siblings" in names) == target.packs_factors


@pytest.mark.parametrize("name", ["mlc-form-tiles", "mlc-merge-siblings"])
def test_a_pass_for_cpus_refuses_another_machine(name: str) -> None:
    gpu = named_target("h200")
    module = run_pipeline(parse_text(SCALED, "scaled.mlir"), Options(target=gpu), until="tensor")
    with pytest.raises(MlcError, match=f"{name} is for CPUs: found a module for the GPU h200"):
        registry.load(name)().apply(Context(), module)


def test_targets_state_their_rates() -> None:
    for target in (*CPUS, *GPUS):
        costs = clock(target)
        reading = [costs.reading(1 << 20, 1 << shift) for shift in range(8, 40)]
        assert reading == sorted(reading)
        assert reading[0] > 0
        assert target.write_factor >= 1
        assert [roof.name for roof in target.roofs(2)]
    small = named_target("avx2")
    assert isinstance(small, CpuTarget)
    assert small.read_rates(4)[1] == 4 * small.l2_read_bytes_per_s


def test_no_function_is_left_that_has_no_instruction() -> None:
    functions = {op.name for op in FUNCTIONS}
    emitted = {op.name for op in emit_math.RULES}
    for row in BACKENDS:
        loops = row.stage("loops")
        assert not any(loops.may_leave(name) for name in functions)
        assert all(loops.may_leave(name) for name in emitted - functions)


def test_stages_leave_dialects_or_ops_by_their_whole_name() -> None:
    plan = backend_of(named_target("avx2")).stage("plan")
    assert plan.may_leave("func.return")
    assert plan.may_leave("mlc.for")
    assert not plan.may_leave("mlc.format")
    assert not plan.may_leave("mlc.exp")
