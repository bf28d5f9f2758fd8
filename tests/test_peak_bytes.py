"""`peak_bytes=`: values are computed again until the planned peak keeps to the limit."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.backends import backend_of
from mlc.dialects.errors import MemoryLimitError
from mlc.dialects.target import named_target
from mlc.frontend.errors import NotSupportedError
from mlc.knobs import scope
from tests.deep_models import transformer_inputs, transformer_loss, written_out
from tests.plans import planned, spec

LAYERS = 16


def deep_loss(weights: list[Any], x: Any) -> Any:
    """The sum of squares behind 16 layers."""
    for w in weights:
        x = np.tanh(x @ w)
    return (x * x).sum()


def attention_loss(q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T / np.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return ((weights / weights.sum(axis=1, keepdims=True) @ v) ** 2).sum()


def deep_inputs() -> tuple[list[Any], Any]:
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal((64, 64)) / 8 for _ in range(LAYERS)]
    return weights, rng.standard_normal((1024, 64))


def lowered(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    chosen: dict[str, Any] = {"threads": 2, **options}  # whatever runs it
    return mlc.compile(**chosen)(function).lower(*args)


def same(found: Any, expected: Any) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_deep_gradient_takes_half_the_memory_for_a_few_more_operations() -> None:
    gradient = mlc.grad(deep_loss)
    program = lowered(gradient, *deep_inputs())
    free = program.compile()
    limit = free.memory().peak_bytes // 2
    limited_program = lowered(gradient, *deep_inputs(), peak_bytes=limit)
    limited = limited_program.compile()
    assert limited.memory().peak_bytes <= limit
    assert free.cost().flops < limited.cost().flops <= 1.4 * free.cost().flops
    same(limited.builtin(*limited_program.arguments()), free.builtin(*program.arguments()))
    (said,) = [line for line in limited.remarks() if "computed again" in line]
    assert f"the peak falls from {free.memory().peak_bytes:,} to" in said
    assert "by the Lagrange bound" in said


ATTENTION = mlc.grad(attention_loss, argnums=(0, 1, 2))
SMALL = (spec(512, 64, dtype="f64"),) * 3
"""Attention whose scores are not larger than a cache: storing them takes less time."""


def test_attention_is_tiled_where_storing_the_scores_would_take_less_time(cpu: str) -> None:
    """On every processor, however large its caches are, and for the tiles of several threads."""
    levels = planned(ATTENTION, *SMALL, target=cpu, threads=4, peak_bytes="2MiB")
    assert levels.memory({}).peak_bytes <= 2**21


def test_the_figures_in_the_documents() -> None:
    free = planned(ATTENTION, *SMALL, target="avx2", threads=1)
    limited = planned(ATTENTION, *SMALL, target="avx2", threads=1, peak_bytes="2MiB")
    said = (Path(__file__).parents[1] / "docs" / "plan.md").read_text()
    for levels in (free, limited):
        assert f"{levels.memory({}).peak_bytes:,}" in said


def test_tiled_attention_is_numpys() -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((512, 64)) for _ in range(3)]
    free = lowered(ATTENTION, *inputs, fusion="none").compile()
    limited = lowered(ATTENTION, *inputs, peak_bytes="2MiB").compile()
    assert limited.memory().peak_bytes <= 2**21 < free.memory().peak_bytes
    same(limited.builtin(*inputs), free.builtin(*inputs))


@pytest.mark.parametrize("blocks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_transformers_keep_to_the_limit(blocks: int) -> None:
    def loss(p: Any, x: Any, y: Any) -> Any:
        return transformer_loss(p, x, y, written_out)

    inputs = transformer_inputs(blocks, 4, 64, 64)
    free = lowered(mlc.grad(loss), *inputs)
    compiled = free.compile()
    memory = compiled.memory()
    limit = memory.results_bytes + int(0.85 * memory.arena_bytes)
    program = lowered(mlc.grad(loss), *inputs, peak_bytes=limit)
    limited = program.compile()
    assert limited.memory().peak_bytes <= limit < memory.peak_bytes
    same(limited.builtin(*program.arguments()), compiled.builtin(*free.arguments()))


def test_a_generous_limit_changes_nothing() -> None:
    gradient = mlc.grad(deep_loss)
    free = lowered(gradient, *deep_inputs()).text("plan")
    limited = lowered(gradient, *deep_inputs(), peak_bytes="1GiB").text("plan")
    assert "mlc.peak_bytes" in limited
    assert free.partition("func.func")[2] == limited.partition("func.func")[2]


def chain(x: Any) -> Any:
    return np.cumsum(np.cumsum(x, axis=0), axis=0)


def test_an_impossible_limit_names_what_holds_the_memory() -> None:
    with pytest.raises(MemoryLimitError) as caught:
        lowered(chain, np.ones((8, 4)), peak_bytes=300, target="avx2").compile()
    here = Path(__file__)
    first = inspect.getsourcelines(chain)[1]
    said = str(caught.value).replace(str(here), here.name)
    assert said == (
        f"{here.name}:{first}: chain: peak_bytes=300 cannot be kept: the least peak that was found"
        " is 512 bytes, with nothing computed again.\n"
        "  Results take 256 bytes, the arena 256; most is live here:\n"
        f"  256 bytes: f64[8, 4] of scan ({here.name}:{first + 1})\n"
        f"  256 bytes: f64[8, 4] of scan ({here.name}:{first + 1})\n"
        "Remedy: raise the limit, put mlc.checkpoint around parts of the function, or take a"
        " smaller batch."
    )
    with pytest.raises(MemoryError):
        mlc.compile(peak_bytes=300)(chain)(np.ones((8, 4)))


def test_each_size_has_a_program() -> None:
    f = mlc.compile(peak_bytes="1MiB")(chain)
    for rows in (3, 5, 7):
        np.testing.assert_array_equal(f(np.ones((rows, 2))), chain(np.ones((rows, 2))))
    assert len(f.stats().artifacts) == 3
    with pytest.raises(NotSupportedError, match="peak_bytes= needs sizes that are known"):
        mlc.compile(peak_bytes=1, dynamic={"x": {0: "B"}})(chain)(np.ones((3, 2)))


@pytest.mark.parametrize("wrong", [-1, True, "many", 1.5])
def test_what_is_no_number_of_bytes(wrong: Any) -> None:
    with pytest.raises(ValueError, match="expected bytes such as"):
        mlc.compile(peak_bytes=wrong)


def test_plans_are_tried_with_the_passes_of_the_pipeline() -> None:
    from mlc.passes.plan.memory.rematerialise import plan_passes

    for name in ("avx2", "h200"):
        target = named_target(name)
        steps = backend_of(target).stage("plan").steps
        assert [each.name for each in plan_passes("exact", target)] == [x.name for x in steps]


def test_the_limit_is_part_of_the_key(tmp_path: Path) -> None:
    with scope(cache_dir=tmp_path):
        first = lowered(mlc.grad(deep_loss), *deep_inputs()).compile()
        again = lowered(mlc.grad(deep_loss), *deep_inputs(), peak_bytes="1GiB").compile()
    assert (first.cache_hits, again.cache_hits) == (0, 0)
