"""A plan prints as a table, and what passes say of it comes from one round of planning."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.call.lowered import Lowered
from mlc.passes.report.report import HEADS

Spec = mlc.TensorSpec


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _ranked(x: Any, w: Any) -> Any:
    return np.sort(_softmax(x @ w), axis=1), np.log(x).sum()


def _loss(p: dict[str, Any], x: Any, y: Any) -> Any:
    return ((np.tanh(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2).mean()


def _step(p: dict[str, Any], x: Any, y: Any) -> Any:
    value, slope = mlc.value_and_grad(_loss)(p, x, y)
    return value, {name: p[name] - 0.1 * slope[name] for name in p}


def _attention(q: Any, k: Any, v: Any) -> Any:
    return ((_softmax(q @ k.T) @ v) ** 2).sum()


def _lowered(function: Any, *specs: Any) -> Lowered:
    return mlc.compile(target="avx512")(function).lower(*specs)


STEP = ({"w": Spec(784, 128), "b": Spec(128), "v": Spec(128, 10)}, Spec(64, 784), Spec(64, 10))


@pytest.mark.parametrize("size", [3, 1_000_000_000])
def test_numbers_stand_below_their_heads(size: int) -> None:
    plan = _lowered(_ranked, Spec("B", 64), Spec(64, 100)).levels.report({"B": size})
    head, *lines = str(plan).splitlines()
    assert head.split() == [*HEADS, "ops"]
    rows = [line for line in lines if re.match(r" *[\d.]+ |total", line)]
    phases = sum(len(k.phases) for k in plan.kernels)
    assert phases
    assert len(rows) == len(plan.kernels) + phases + 1
    for row in rows:
        ends = [found.end() for found in re.finditer(r"[\d.,]+(?= us)?(?: us)?(?=  ?|$)", row)]
        for name in HEADS[2:]:
            end = re.search(rf"{re.escape(name)}(?= )", head)
            assert end is not None
            assert end.end() in ends, f"{name}:\n{head}\n{row}"
    for kernel in plan.kernels:
        assert f"{kernel.flops:,}" in str(plan)
        assert f"{kernel.predicted_s * 1e6:,.2f} us" in str(plan)
    assert sum(line.startswith("buffer ") for line in lines) == len(plan.intermediates)


@pytest.mark.parametrize("limit", [None, "1GiB"])
def test_each_decision_is_said_once(limit: str | None) -> None:
    """Of the plan that was made: each remark names what that plan takes, and no other."""
    lowered = mlc.compile(target="avx512", peak_bytes=limit)(_step).lower(*STEP)
    made = [r for r in lowered.levels.remarks() if r.decision is not None]
    costs = {r.decision.chosen_s for r in made if r.decision and r.decision.other_s is not None}
    assert len(costs) == 1
    said = [(r.op, r.where, r.decision and r.decision.value) for r in made]
    assert len(set(said)) == len(said) > 3


def test_remarks_on_tile_loops_name_lines() -> None:
    """What merging reductions makes has the line of what it was made from."""
    specs = Spec(2048, 64), Spec(2048, 64), Spec(2048, 64)
    lowered = _lowered(mlc.grad(_attention, argnums=(0, 1, 2)), *specs)
    assert any(kernel.phases for kernel in lowered.levels.report({}).kernels)
    remarks = lowered.levels.remarks()
    assert remarks
    assert all(r.where.startswith(__file__) for r in remarks)


def _heads(q: Any, k: Any, v: Any) -> Any:
    return _softmax(q @ k.T * 0.125) @ v


@pytest.mark.parametrize(("target", "softmax", "attention"), [("avx2", 1, 1), ("h200", 1, 3)])
def test_kernels_as_the_readme_counts_them(target: str, softmax: int, attention: int) -> None:
    compiled = mlc.compile(target=target)
    assert len(compiled(_softmax).lower(Spec(1024, 1024)).plan().kernels) == softmax
    assert len(compiled(_heads).lower(*[Spec(2048, 64)] * 3).plan().kernels) == attention
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    assert "softmax of 1024 × 1024 takes 1 kernel for `h200` and 1 for `avx2`" in readme
    assert "attention of 2048 × 64 takes 3 and 1 in f32, and 1 and 1 in bf16" in readme
