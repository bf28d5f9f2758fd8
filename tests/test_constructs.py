"""Every staged construct through derivatives, batches, open sizes, and to a GPU's instructions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.errors import PlanError
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.runtime.ptx import emit_ptx
from tests.assembler import checked, needs_ptxas
from tests.construct_programs import CONSTRUCTS, POINTS

REFUSED: dict[tuple[str, str], tuple[type[Exception], str]] = {
    ("open", "comprehensions"): (mlc.NotSupportedError, "Make an array of it first"),
    ("batch", "filtered"): (mlc.ShapeError, "sums and extrema"),
    ("batch", "masks"): (mlc.ShapeError, r"np.where\(mask, x, 0\)"),
    ("gpu", "slices"): (PlanError, "for CPUs only yet"),
}
"""What does not go through, by way and construct: a clear error."""

every = pytest.mark.parametrize("f", CONSTRUCTS.values(), ids=lambda f: f.__name__)
IN_TURN = ("gradient", "batch", "open", "gpu")


def in_turn(way: str) -> pytest.MarkDecorator:
    """Each construct goes one of these ways, and those that refuse it; slow ones go all."""
    turn = IN_TURN.index(way)
    constructs = [
        pytest.param(
            f,
            id=name,
            marks=() if k % len(IN_TURN) == turn or (way, name) in REFUSED else pytest.mark.slow,
        )
        for k, (name, f) in enumerate(CONSTRUCTS.items())
    ]
    return pytest.mark.parametrize("f", constructs)


Function = Callable[[Any], Any]


@contextmanager
def allowed(way: str, f: Function) -> Generator[None]:
    """What a construct may do on a way: go through, or raise what `REFUSED` says."""
    known = REFUSED.get((way, f.__name__))
    if known is None:
        yield
        return
    with pytest.raises(known[0], match=known[1]):
        yield


@every
def test_values(f: Function) -> None:
    with allowed("values", f):
        compiled = mlc.compile(f)
        for x in POINTS:
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
        assert len(compiled.stats().artifacts) == 1


@in_turn("gradient")
def test_gradient(f: Function) -> None:
    with allowed("gradient", f):
        gradient, h = mlc.compile(mlc.grad(f)), 1e-6
        for x in POINTS:
            steps = h * np.eye(len(x))
            expected = [(f(x + step) - f(x - step)) / (2 * h) for step in steps]
            np.testing.assert_allclose(gradient(x), expected, rtol=1e-6, atol=1e-7)


@in_turn("batch")
def test_batch(f: Function) -> None:
    with allowed("batch", f):
        expected = [f(x) for x in POINTS]
        found = mlc.compile(mlc.vmap(f))(np.stack(POINTS))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@in_turn("open")
def test_open_sizes(f: Function) -> None:
    with allowed("open", f):
        compiled = mlc.compile(f, dynamic={"x": {0: "n"}})
        for x in (*POINTS, np.concatenate(POINTS)):
            np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
        assert len(compiled.stats().artifacts) == 1


@needs_ptxas
@in_turn("gpu")
def test_instructions_of_a_gpu(f: Function, tmp_path: Path) -> None:
    with allowed("gpu", f):
        target = named_target("h200")
        assert isinstance(target, GpuTarget)
        code = mlc.compile(f, target="cuda:h200").lower(POINTS[0]).text("code")
        checked(emit_ptx(code, target), "sm_90a", tmp_path)
