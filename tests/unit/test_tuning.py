"""Schedules by the clock: what is offered, what is taken, and what is remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mlc
from mlc import knobs
from mlc.dialects.plan import KernelOp, ScheduleAttr
from mlc.dialects.target.known import H200
from mlc.dialects.tile.words import spell
from mlc.lowering.emit import joined
from mlc.runtime.ptx import emit_ptx
from tests.assembler import checked, needs_ptxas
from tests.plans import candidates, offered_of


def layer(x: Any, w: Any) -> Any:
    return np.maximum(x @ w, 0)


def same(a: Any, b: Any) -> Any:
    return np.maximum(a @ b, 0)


def cells(x: Any) -> Any:
    return x * 2 + 1


def arrays(size: int = 96) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal((size, size)).astype(np.float32) for _ in "xw")
    return x, w


class Clock:
    """Instead of a clock: seconds by the number of a schedule."""

    def __init__(self, *seconds: float) -> None:
        self.seconds = seconds
        self.measured = 0

    def measure(self, functions: Sequence[Any], *_: object) -> list[float]:
        self.measured += 1
        return [*self.seconds, *[9.0] * len(functions)][: len(functions)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Clock]]:
    """A clock that says so many seconds, over an empty cache."""

    def made(*seconds: float) -> Clock:
        found = Clock(*seconds)

        def row_of(_: Any) -> SimpleNamespace:
            return SimpleNamespace(measure=found.measure)

        monkeypatch.setattr("mlc.tuning.backend_of", row_of)
        return found

    with knobs.scope(cache_dir=tmp_path):
        yield made


def kernel_of(lowered: Any) -> KernelOp:
    (kernel,) = (op for op in lowered.levels.plan().walk() if isinstance(op, KernelOp))
    return kernel


def test_the_fastest_is_taken_said_and_remembered(clock: Callable[..., Clock]) -> None:
    found = clock(3.0, 2.0, 1.0)
    x, w = arrays()
    untuned = mlc.compile(layer).lower(x, w)
    third = offered_of(untuned.levels)[0][2]
    tuned = mlc.compile(tune=60)(layer)
    np.testing.assert_allclose(tuned(x, w), layer(x, w), rtol=1e-4, atol=1e-4)
    lowered = tuned.lower(x, w)
    assert kernel_of(lowered).schedule == ScheduleAttr(third)
    assert spell(third.words) in lowered.text("plan")
    (said,) = (line for line in lowered.explain().splitlines() if "tuned:" in line)
    assert "takes 1000000.0 us, the predicted schedule 3000000.0 us" in said
    assert found.measured == 1
    mlc.compile(tune=60)(same)(x, w)
    assert found.measured == 1, "a kernel is measured once"
    assert kernel_of(untuned).schedule != ScheduleAttr(third)


def test_noise_is_no_reason(clock: Callable[..., Clock]) -> None:
    clock(1.0, 0.99, 0.985)
    x, w = arrays()
    tuned = mlc.compile(tune=60)(layer)
    tuned(x, w)
    ((first, *_),) = offered_of(mlc.compile(layer).lower(x, w).levels)
    assert kernel_of(tuned.lower(x, w)).schedule == ScheduleAttr(first)


def test_what_has_no_choice_is_not_measured(clock: Callable[..., Clock]) -> None:
    found = clock()
    x, w = arrays()
    assert mlc.compile(tune=60)(cells)(x)[0, 0] == cells(x)[0, 0]
    open_sizes = mlc.compile(tune=60, dynamic=True)(layer)
    np.testing.assert_allclose(open_sizes(x, w), layer(x, w), rtol=1e-4, atol=1e-4)
    assert found.measured == 0


def test_a_real_clock(tmp_path: Path) -> None:
    x, w = arrays()
    with knobs.scope(cache_dir=tmp_path):
        tuned = mlc.compile(tune=0.01)(layer)
        np.testing.assert_allclose(tuned(x, w), layer(x, w), rtol=1e-4, atol=1e-4)
        assert "of 2 that were measured" in tuned.lower(x, w).explain()


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "3"])
def test_seconds_that_are_none(seconds: Any) -> None:
    with pytest.raises(ValueError, match="expected seconds, more than 0"):
        mlc.compile(tune=seconds)(layer)


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


GPU: list[tuple[str, Any, tuple[tuple[int, ...], ...], str]] = [
    ("groups", layer, ((512, 256), (256, 512)), "bf16"),
    ("warps", layer, ((512, 256), (256, 512)), "f64"),
    ("threads", layer, ((512, 256), (256, 512)), "f32"),
    ("rows", softmax, ((512, 1024),), "f32"),
    ("clusters", softmax, ((256, 65536),), "f32"),
    ("cells", cells, ((4096, 8192),), "f32"),
]


@needs_ptxas
@pytest.mark.parametrize(("f", "shapes", "dtype"), [x[1:] for x in GPU], ids=[x[0] for x in GPU])
def test_every_schedule_of_a_gpu_has_code(f: Any, shapes: Any, dtype: str, tmp_path: Path) -> None:
    specs = [mlc.TensorSpec(*shape, dtype=dtype) for shape in shapes]
    levels = mlc.compile(target="h200")(f).lower(*specs).levels
    (kernel,) = (op for op in levels.plan().walk() if isinstance(op, KernelOp))
    (offered,) = offered_of(levels)
    assert kernel.schedule == ScheduleAttr(offered[0])
    texts: set[str] = set()
    for units in candidates(levels):
        ptx = emit_ptx(joined([(u.name, u.text) for u in units]), H200)
        assert set(checked(ptx, H200.sm, tmp_path).values()) == {0}
        texts.add(ptx)
    assert len(texts) == len(offered) > 1
