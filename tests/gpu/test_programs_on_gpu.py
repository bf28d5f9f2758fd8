"""Whole programs: a block of GPT-2 and its gradient, the digits' training, schedules by clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import mlc
from benchmarks.gpu.networks import block
from examples.train_digits import BATCH, NETWORKS, Network, compiled, load, train
from mlc import knobs
from mlc.dialects.dtypes import named_dtype

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("guarded_memory")]
BF16 = named_dtype("bf16").numpy
RUNS = 20


def gradient(f: Any) -> Any:
    def loss(*arrays: Any) -> Any:
        y = f(*arrays).astype(np.float32)
        return (y * y).mean()

    return mlc.value_and_grad(loss, argnums=(0, 5, 8, 12))


def forward(f: Any) -> Any:
    return f


@pytest.mark.parametrize("length", [128, 100])
@pytest.mark.parametrize("of", [forward, gradient])
def test_a_block_of_gpt2(of: Any, length: int) -> None:
    """Against the same in f32 on this machine's processor; the same bits each time."""
    workload = block(2, length, 256, 4)
    rng = np.random.default_rng(5)
    arrays = [
        (rng.standard_normal(a.shape) * a.scale).astype(np.float32).astype(BF16)
        for a in workload.arrays
    ]
    f: Any = of(workload.f)
    compiled: Any = mlc.compile(f, target="cuda")
    expected: Any = mlc.compile(f)(*(a.astype(np.float32) for a in arrays))
    first = leaves(compiled(*arrays))
    for mine, theirs in zip(first, leaves(expected), strict=True):
        largest = np.abs(theirs).max()
        assert np.abs(mine.astype(np.float32) - theirs).max() <= 0.02 * largest
    for _ in range(RUNS - 1):
        for mine, before in zip(leaves(compiled(*arrays)), first, strict=True):
            np.testing.assert_array_equal(mine.view(np.uint8), before.view(np.uint8))


def leaves(tree: Any) -> list[Any]:
    """All arrays, in order; numbers as arrays of one."""
    if isinstance(tree, tuple):
        return [x for part in cast("tuple[Any, ...]", tree) for x in leaves(part)]
    return [np.atleast_1d(tree)]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.model.__name__)
def test_digits_are_learned(network: Network) -> None:
    """As well as on this machine's processor: five passes over all images but 360."""
    images, labels = load()
    seen, asked = slice(360, None), slice(360)
    accuracies: list[float] = []
    for target in ("cuda", None):
        step, classify = compiled(network.model, target=target)
        rng = np.random.default_rng(3)
        params = train(network, step, images[seen], labels[seen], 5, rng)
        found = np.asarray(classify(params, images[asked]))
        accuracies.append(float((found == labels[asked]).mean()))
        assert step.stats().compilations + step.stats().cache_hits == 1
    assert len(images[seen]) // BATCH > 20
    assert min(accuracies) > 0.9
    assert abs(accuracies[0] - accuracies[1]) < 0.03


def test_a_schedule_is_chosen_by_the_clock(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((512, 512)).astype(BF16) for _ in "ab")

    def product(a: Any, b: Any) -> Any:
        return a @ b

    with knobs.scope(cache_dir=tmp_path):
        tuned: Any = mlc.compile(product, target="cuda", tune=5)
        found = tuned(a, b).astype(np.float32)
        np.testing.assert_allclose(
            found, a.astype(np.float32) @ b.astype(np.float32), rtol=0.01, atol=0.5
        )
        assert "that were measured" in tuned.lower(a, b).explain()
