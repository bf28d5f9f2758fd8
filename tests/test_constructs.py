"""Every staged construct through derivatives, batches and open sizes, and on GPUs."""

# pyright: basic

from __future__ import annotations

import io
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import func

import mlc
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.errors import PlanError
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.runtime.ptx import emit_ptx
from mlc.text import parse_text
from tests import construct_programs, container_constructs, further_constructs
from tests.assembler import checked, needs_ptxas
from tests.construct_programs import POINTS, Constructs
from tests.gpu_model.machine import Model

CONSTRUCTS: Constructs = {
    **construct_programs.CONSTRUCTS,
    **further_constructs.CONSTRUCTS,
    **container_constructs.CONSTRUCTS,
}
_CPUS_ONLY = (PlanError, "for CPUs only yet")
_DECIDES = (mlc.ConcretizationError, "its size decides about the program")

REFUSED: dict[tuple[str, str], tuple[type[Exception], str]] = {
    ("open", "comprehensions"): (mlc.NotSupportedError, "Make an array of it first"),
    ("open", "views_written"): (mlc.ShapeError, "expected equal counts of elements"),
    ("open", "dict_iteration"): (mlc.ShapeError, "broadcasts only with itself or 1"),
    ("open", "starred"): _DECIDES,
    ("open", "comprehension_nested"): _DECIDES,
    ("open", "isinstance_shape"): _DECIDES,
    ("batch", "filtered"): (mlc.ShapeError, "sums and extrema"),
    ("batch", "masks"): (mlc.ShapeError, r"np.where\(mask, x, 0\)"),
    ("batch", "data_sizes"): (mlc.ShapeError, r"np.where\(mask, x, 0\)"),
    ("batch", "taken_apart"): (mlc.ShapeError, r"np.where\(mask, x, 0\)"),
    ("gpu", "slices"): _CPUS_ONLY,
    ("gpu", "data_sizes"): _CPUS_ONLY,
    ("gpu", "taken_apart"): _CPUS_ONLY,
    ("model", "slices"): _CPUS_ONLY,
    ("model", "taken_apart"): _CPUS_ONLY,
    ("model", "data_sizes"): _CPUS_ONLY,
}
"""What does not go through, by way and construct: a clear error."""

TANGENT = np.array([1.0, 0.5, -0.4, 0.0, -0.7, 0.3])
"""What `contained` looks for stays as it is."""

NOT_IN_THE_MODEL = frozenset({"popped", "printed"})
"""What the host has a part in, beside launches: arrays that grow, and text."""

every = pytest.mark.parametrize("f", CONSTRUCTS.values(), ids=lambda f: f.__name__)
IN_TURN = ("gradient", "batch", "open", "gpu", "pushed", "model")


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


def quiet(f: Callable[..., Any], *arguments: Any) -> Any:
    """f(*arguments), without what it prints."""
    with redirect_stdout(io.StringIO()):
        return f(*arguments)


def slope(f: Function, x: Any, step: Any) -> Any:
    """The difference quotient along a step."""
    return (quiet(f, x + step) - quiet(f, x - step)) / 2


@every
def test_values(f: Function, capsys: pytest.CaptureFixture[str]) -> None:
    with allowed("values", f):
        compiled = mlc.compile(f)
        for x in POINTS:
            expected, text = f(x), capsys.readouterr().out
            np.testing.assert_allclose(compiled(x), expected, rtol=1e-12)
            assert capsys.readouterr().out == text
        assert len(compiled.stats().artifacts) == 1


@in_turn("gradient")
def test_gradient(f: Function) -> None:
    with allowed("gradient", f):
        gradient, h = mlc.compile(mlc.grad(f)), 1e-6
        for x in POINTS:
            expected = [slope(f, x, step) / h for step in h * np.eye(len(x))]
            np.testing.assert_allclose(quiet(gradient, x), expected, rtol=1e-6, atol=1e-7)


@in_turn("pushed")
def test_derivative_along_a_tangent(f: Function) -> None:
    with allowed("pushed", f):
        pushed, h, tangent = (
            mlc.compile(lambda x, t: mlc.jvp(f, (x,), (t,))),
            1e-6,
            TANGENT,
        )
        for x in POINTS:
            value, derivative = quiet(pushed, x, tangent)
            np.testing.assert_allclose(value, quiet(f, x), rtol=1e-12)
            expected = slope(f, x, h * tangent) / h
            np.testing.assert_allclose(derivative, expected, rtol=1e-6, atol=1e-7)


@in_turn("batch")
def test_batch(f: Function) -> None:
    with allowed("batch", f):
        expected = [quiet(f, x) for x in POINTS]
        found = quiet(mlc.compile(mlc.vmap(f)), np.stack(POINTS))
        np.testing.assert_allclose(found, expected, rtol=1e-10)


@in_turn("open")
def test_open_sizes(f: Function) -> None:
    with allowed("open", f):
        compiled = mlc.compile(f, dynamic={"x": {0: "n"}})
        for x in (*POINTS, np.concatenate(POINTS)):
            np.testing.assert_allclose(quiet(compiled, x), quiet(f, x), rtol=1e-12)
        assert len(compiled.stats().artifacts) == 1


@needs_ptxas
@in_turn("gpu")
def test_instructions_of_a_gpu(f: Function, tmp_path: Path) -> None:
    with allowed("gpu", f):
        target = named_target("h200")
        assert isinstance(target, GpuTarget)
        code = mlc.compile(f, target="cuda:h200").lower(POINTS[0]).text("code")
        checked(emit_ptx(code, target), "sm_90a", tmp_path)


@in_turn("model")
def test_results_of_a_gpu(f: Function) -> None:
    """As the model of a device gives them."""
    if f.__name__ in NOT_IN_THE_MODEL:
        pytest.skip("not launches alone")
    with allowed("model", f):
        text = mlc.compile(f, target="cuda:sm_80").lower(POINTS[0]).text("loops")
        module = parse_text(text, "loops")
        (entry,) = [
            op
            for op in module.body.block.ops
            if isinstance(op, func.FuncOp) and "mlc.entry" in op.attributes
        ]
        results: list[Any] = list(entry.function_type.inputs)[2:]  # after the context and x
        shapes = [(t.get_shape(), dtype_of(t.element_type).numpy) for t in results]
        for x in POINTS:
            found, *_ = Model(module).call([x], shapes)
            np.testing.assert_allclose(found.reshape(()), quiet(f, x), rtol=1e-10)
