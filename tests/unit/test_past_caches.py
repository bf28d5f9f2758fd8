"""Results that leave the caches before they are complete are stored past them."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.passes.plan.tiling import past_caches
from tests.plans import RUNNABLE, planned, spec

Array = Any
WORD = "nontemporal(50331648)"  # level 3 of the machine avx512, less than 8 MiB for each of 8 cores


def plan(f: Callable[..., Any], *arguments: Any) -> str:
    return planned(f, *arguments, target="avx512").text("plan")


def test_what_moves_more_than_level_3() -> None:
    assert WORD in plan(lambda x: x + 1, spec(10_000_000))
    assert WORD in plan(lambda x, b: np.tanh(x) + b, spec(4096, 4096), spec(4096))
    assert "nontemporal" not in plan(lambda x: x + 1, spec(1_000_000))


def test_what_others_read_stays() -> None:
    """A sorted array is written for its reader; sums and turned tiles have loops of their own."""
    assert "nontemporal" not in plan(lambda x: np.sort(x * 2, axis=0)[0], spec(10_000_000, 2))
    assert "nontemporal" not in plan(lambda x: x.sum(0), spec(10_000_000, 2))
    assert "nontemporal" not in plan(lambda x: x.T + 1, spec(4096, 4096))


def test_narrow_results_fill_no_register() -> None:
    assert "nontemporal" not in plan(lambda x: x > 0, spec(40_000_000))


def test_open_sizes_ask_when_they_run() -> None:
    """Light loops stand there twice; heavy ones once, as ever."""
    assert WORD in plan(lambda x: x + 1, spec("n"))
    assert "nontemporal" not in plan(np.tanh, spec("n"))
    code = planned(lambda x: x + 1, spec("n"), target="avx512").text("code")
    assert "!nontemporal" in code
    assert "call void @llvm.x86.sse.sfence()" in code
    arm = planned(lambda x: x + 1, spec("n"), target="neon").text("code")
    assert "!nontemporal" in arm
    assert "sfence" not in arm


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("skipped", [0, 1, 16])
def test_values_wherever_results_begin(
    threads: int, skipped: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written into arguments that begin at any element, with any end, and rows of any length."""
    monkeypatch.setattr(past_caches, "SHARE_BYTES", 0)  # whatever the number of cores
    r = np.random.default_rng(0)
    for shape in ((100_003,), (300, 128), (300, 131), (0,), (1,)):

        def scaled(x: Array, y: Array) -> Array:
            return x * 3 + y * 0.5

        f = mlc.compile(donate="x", threads=threads)(scaled)
        whole = r.random(skipped + int(np.prod(shape)), dtype=np.float32)
        x, y = whole[skipped:].reshape(shape), r.random(shape, dtype=np.float32)
        expected = scaled(x, y)
        assert f(x, y) is x
        np.testing.assert_array_equal(x, expected)
        assert ("nontemporal" in f.lower(x, y).text("plan")) == (x.size > 0)


def normed(x: Array, g: Array) -> Array:
    d = x - x.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * g


def test_tiles_of_what_leaves_the_caches() -> None:
    """The last phase of a loop stores past the caches what all trips together write."""
    text = plan(normed, spec(16384, 1024), spec(1024))
    assert "mlc.tiles" in text
    assert text.count("nontemporal(0)") == 1
    assert "nontemporal" not in plan(normed, spec(1024, 1024), spec(1024))
    assert "nontemporal" not in plan(
        lambda x, g: normed(x, g).sum(0), spec(16384, 1024), spec(1024)
    )


@pytest.mark.parametrize("threads", [1, 3])
def test_values_of_tiles(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_caches, "SHARE_BYTES", 0)
    r = np.random.default_rng(0)
    x, g = r.random((2063, 512), dtype=np.float32), r.random(512, dtype=np.float32)
    f = mlc.compile(threads=threads, target=RUNNABLE)(normed)
    np.testing.assert_allclose(f(x, g), normed(x, g), rtol=1e-5, atol=1e-6)
    text = f.lower(x, g).text("plan")
    assert "mlc.tiles" in text
    assert "nontemporal(0)" in text
