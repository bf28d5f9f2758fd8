"""The stages of a program: each with module, signature and options, and the one behind it."""

from __future__ import annotations

from typing import Any

import numpy as np

import mlc
from mlc.executable import Executable
from mlc.pipeline import level_of
from mlc.stages import Assembled, Lowered, Planned, Traced
from mlc.text import parse_text

SCALE = np.arange(3.0)


def scaled(x: Any) -> Any:
    return (np.sin(x) * SCALE).sum()


@mlc.compile(threads=1)
def GOMP_parallel(x: Any) -> Any:  # noqa: N802 - which the code calls by this name
    return mlc.grad(scaled)(x)


def test_each_stage_gives_the_next_one() -> None:
    traced = GOMP_parallel.trace(np.ones(3))
    planned = traced.next()
    lowered = planned.next()
    assembled = lowered.next()
    loaded = assembled.next()
    stages = (traced, planned, lowered, assembled, loaded)
    assert [*map(type, stages)] == [Traced, Planned, Lowered, Assembled, Executable]
    for stage in stages:
        assert stage.options.threads == 1
        assert [str(x.dtype) for x in stage.signature.args] == ["f64", "f64"]
        stage.module.verify()
    assert [level_of(x.module) for x in stages] == ["tensor", "plan", "loops", "tensor", "tensor"]
    for stage, op in (
        (traced, "mlc.pull_back"),
        (planned, "mlc.kernel"),
        (lowered, "mlc_par.check"),
    ):
        assert op in str(stage)
        assert str(parse_text(str(stage), "stage")) == str(stage)
    assert [x.template for x in planned.plan().kernels]
    assert planned.memory().peak_bytes > 0
    assert {x.name for x in lowered.units} <= set(str(assembled).replace(":", "").split())
    assert repr(traced).startswith("<traced GOMP_parallel_ for ")
    x = np.array([0.5, 1.0, 2.0])
    np.testing.assert_array_equal(loaded(x, *loaded.captured), GOMP_parallel(x))
