"""`mlc machine --measure`: what its programs tell apart, and what it makes of their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.analysis.trips import running_kernels
from mlc.dialects.target import CpuTarget, named_target
from mlc.dialects.target.loop_costs import LoopCosts
from mlc.machine import FUNCTIONS, LANES, PROBES, Given, Probe, agreed, shifted, solved, spread_of
from mlc.passes.cost.prediction import predicted_seconds


def machine(name: str) -> CpuTarget:
    found = named_target(name)
    assert isinstance(found, CpuTarget)
    return found


def plan_of(given: Given, target: CpuTarget, dtype: Any = np.float32) -> Any:
    program, shapes = given
    arguments = [np.zeros(-s[0], "i8") if s[0] < 0 else np.ones(s, dtype) for s in shapes]
    return mlc.compile(threads=1, target=target.name)(program).lower(*arguments).levels.plan()


def predicted(plan: Any, target: CpuTarget, **figures: Any) -> float:
    there = replace(target, loops=replace(target.loops, **figures))
    found = predicted_seconds(plan, there, {})
    return sum(found[kernel] for kernel in running_kernels(plan))


@pytest.mark.parametrize("name", ["avx2", "avx512", "neon"])
@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.figure)
def test_programs_differ_by_the_figure_that_they_are_for(probe: Probe, name: str) -> None:
    target = machine(name)
    few, many = (plan_of(given, target, probe.dtype) for given in (probe.few, probe.many))
    usual = getattr(target.loops, probe.figure)

    def more(factor: float) -> float:
        figures = {probe.figure: usual * factor}
        return predicted(many, target, **figures) - predicted(few, target, **figures)

    assert more(2.0) > more(1.0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_what_a_row_says(name: str) -> None:
    target = machine("avx512")
    plan = plan_of((FUNCTIONS[name], ((LANES,),)), target)
    quick, slow = (predicted(plan, target, function_cycles=f"{name} {n} 9") for n in (20, 40))
    assert slow > 1.5 * quick


def test_a_figure_is_found_from_how_much_longer_a_program_takes() -> None:
    target = machine("avx512")
    plans: Sequence[Any] = [plan_of((shifted, ((n,),)), target) for n in (512, 1536)]

    def took(cycles: float) -> float:
        few, many = (predicted(plan, target, vector_step_cycles=cycles) for plan in plans)
        return many - few

    for cycles in (0.1, 0.7, 3.0):
        assert solved(took, took(cycles), usual=0.4) == pytest.approx(cycles, rel=0.01)


def test_what_is_measured_is_what_there_is() -> None:
    names = {field.name for field in fields(LoopCosts)}
    assert {probe.figure for probe in PROBES} < names


def test_a_figure_that_others_hide_is_the_most_that_they_may_hide() -> None:
    def more(value: float) -> float:
        return max(10.0, value)  # what is read takes 10

    for wanted in (3.0, 10.0):
        assert solved(more, wanted, usual=4.0) == pytest.approx(10.0, rel=0.01)
    assert solved(more, 25.0, usual=4.0) == pytest.approx(25.0, rel=0.01)


def test_rounds_go_on_until_the_best_two_agree() -> None:
    told = [{"near": 100.0, "far": n} for n in (40.0, 79.0, 50.0, 80.0, 1.0)]
    rounds = iter(told)
    best, apart = agreed([next(rounds)], lambda: next(rounds))
    assert best == {"near": 100.0, "far": 80.0}
    assert next(rounds) == told[4]
    assert apart == {"near": 0.0, "far": pytest.approx(1 - 79 / 80)}
    assert spread_of(apart) == ""


def test_a_machine_that_is_too_busy_is_not_kept_and_a_busy_one_is_said_to_be() -> None:
    values = iter([100.0, *[80.0] * 20])
    best, apart = agreed([{"near": next(values)}], lambda: {"near": next(values)})
    assert best == {"near": 100.0}
    assert spread_of(apart) == "near by 20%"
    values = iter([100.0, *[30.0] * 20])
    with pytest.raises(mlc.MlcError, match=r"8 times.*near by 70%; expected at most 50%"):
        agreed([{"near": next(values)}], lambda: {"near": next(values)})


def test_a_figure_of_wide_elements_is_not_that_of_narrow_ones() -> None:
    target = machine("avx512")
    column = next(probe for probe in PROBES if probe.figure == "apart_f64_cycles").many
    narrow, wide = (plan_of(column, target, dtype) for dtype in (np.float32, np.float64))
    for plan, figure in ((narrow, "apart_cycles"), (wide, "apart_f64_cycles")):
        assert predicted(plan, target, **{figure: 9.0}) > 2 * predicted(plan, target)
    assert predicted(wide, target, apart_cycles=9.0) == predicted(wide, target)
