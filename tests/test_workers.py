"""The same bits for every number of workers, also where each packs for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.memory import memory_plan_of

COUNTS = (1, 2, 3, 16)


def random(*shape: int) -> Any:
    """Numbers around zero."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def same_bits(f: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """The result, which must not depend on the number of threads."""
    results = [mlc.compile(threads=n, **options)(f)(*arguments) for n in COUNTS]
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)
    return results[0]


def product(a: Any, b: Any) -> Any:
    return a @ b


@pytest.mark.parametrize("batches", [2, 5, 17, 48])
def test_batched_products(batches: int) -> None:
    a, b = random(batches, 40, 64), random(batches, 64, 130)
    np.testing.assert_allclose(same_bits(product, a, b), a @ b, atol=1e-4)


def test_batches_by_a_symbol() -> None:
    a, b = random(7, 40, 64), random(7, 64, 130)
    found = same_bits(product, a, b, dynamic={"a": {0: "B"}, "b": {0: "B"}})
    np.testing.assert_allclose(found, a @ b, atol=1e-4)


def test_columns_of_several_letters() -> None:
    def mixed(w: Any, x: Any) -> Any:
        return np.einsum("fc,ncyx->nfyx", w, x[:, :, 1:, 1:])

    w, x = random(32, 48), random(3, 48, 21, 30)
    np.testing.assert_allclose(same_bits(mixed, w, x), mixed(w, x), atol=1e-4)


def test_each_worker_has_memory_for_its_packed_block() -> None:
    compiled = (
        mlc.compile(threads=1)(product).lower(random(8, 40, 64), random(8, 64, 130)).compile()
    )
    plan = memory_plan_of(compiled.levels.at("loops"))
    one = plan.arena_bytes((), threads=1)
    assert one > 0
    found = [plan.arena_bytes((), threads=n) for n in (2, 8, 16)]
    assert found == [2 * one, 8 * one, 8 * one]
