"""Gradients through an LSTM of 256 steps and a transformer of stacked blocks, and their memory."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

import mlc
from tests.deep_models import (
    lstm_inputs,
    lstm_loss,
    transformer_inputs,
    transformer_loss,
    written_out,
)
from tests.gradients import compiled_grad, differences, same


def test_lstm_over_256_steps_equals_the_one_written_out() -> None:
    args = lstm_inputs(256, 2, 4)
    found = compiled_grad(lstm_loss)(*args)
    expected = compiled_grad(lambda p, x, y: lstm_loss(p, x, y, written_out)).reference(*args)
    same(found, expected, rtol=1e-10, atol=1e-15)


def test_lstm_in_f32() -> None:
    args = lstm_inputs(64, 8, 16)
    narrow = lstm_inputs(64, 8, 16, np.float32)
    found: dict[str, Any] = compiled_grad(lstm_loss)(*narrow)
    expected: dict[str, Any] = compiled_grad(lstm_loss)(*args)
    for name, x in found.items():
        assert x.dtype == np.float32
        assert np.abs(x - expected[name]).max() < 1e-5 * np.abs(expected[name]).max()


def test_transformer_blocks_in_a_scan_equal_those_written_out() -> None:
    args = transformer_inputs(4, 2, 5, 8)
    found = compiled_grad(transformer_loss)(*args)
    plain = compiled_grad(lambda p, x, y: transformer_loss(p, x, y, written_out))(*args)
    same(found, plain, rtol=1e-10, atol=1e-15)
    few = transformer_inputs(2, 1, 3, 2)
    same(compiled_grad(transformer_loss)(*few), differences(transformer_loss, few), rtol=1e-5)


def test_the_program_is_the_same_size_for_more_blocks() -> None:
    lowered = [
        compiled_grad(transformer_loss).lower(*transformer_inputs(blocks, 2, 8, 16))
        for blocks in (20, 40)  # constants of no other kind, which programs would share
    ]
    sizes = [[x.text(level).count("\n") for level in ("tensor", "plan", "loops")] for x in lowered]
    assert sizes[0] == sizes[1]


WIDTH, BATCH = 16, 8
STATE_BYTES = 8 * BATCH * WIDTH


def recurrent(checkpoint: bool) -> Any:
    """The gradient of a recurrent net whose outputs are one number per trip."""

    def loss(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> tuple[Any, Any]:
            h = np.tanh(h @ w + x)
            return h, (h * h).sum()

        h, ys = mlc.scan(step, h, xs, checkpoint=checkpoint)
        return (h**3).sum() + (ys**2).sum()

    return compiled_grad(loss, (0, 1, 2))


def recurrent_inputs(trips: int) -> tuple[Any, Any, Any]:
    """w, h, xs"""
    rng = np.random.default_rng(3)
    w = rng.standard_normal((WIDTH, WIDTH)) / 8
    return w, rng.standard_normal((BATCH, WIDTH)), rng.standard_normal((trips, BATCH, WIDTH))


@pytest.mark.parametrize("trips", [0, 1, 2, 7, 16, 50])
def test_checkpoints_change_no_number(trips: int) -> None:
    args = recurrent_inputs(trips)
    same(recurrent(True)(*args), recurrent(False)(*args), rtol=1e-10, atol=1e-9)


def arena_bytes(gradient: Any, trips: int) -> int:
    """Planned memory, without arguments and results."""
    return gradient.lower(*recurrent_inputs(trips)).compile().memory().arena_bytes


def test_checkpoints_keep_twice_the_square_root_of_the_states() -> None:
    """Two stacks of ceil(sqrt n) states, and n outputs of 8 bytes; else three states per trip."""
    gradient, plain = recurrent(True), recurrent(False)
    few, many = 16, 400
    for n in (64, 100, 256, many):
        slots = math.isqrt(n - 1) + 1
        grown = 2 * (slots - 4) * STATE_BYTES + 8 * (n - few)
        assert arena_bytes(gradient, n) - arena_bytes(gradient, few) == pytest.approx(grown, abs=64)
    assert arena_bytes(plain, many) - arena_bytes(plain, few) >= 2 * (many - few) * STATE_BYTES
    assert arena_bytes(gradient, many) < arena_bytes(plain, many) / 8


def test_a_checkpointed_body_keeps_its_arguments_alone() -> None:
    """`mlc.checkpoint` on what a trip does: of each trip the carried value, and nothing between."""

    def gradient(wrap: Any) -> Any:
        def loss(w: Any, h: Any, xs: Any) -> Any:
            def step(h: Any, x: Any) -> tuple[Any, None]:
                for _ in range(4):
                    h = np.tanh(np.exp(np.sin(h)) @ w + x)
                return h, None

            return (mlc.scan(wrap(step), h, xs)[0] ** 2).sum()

        return compiled_grad(loss)

    plain, kept = gradient(functools.partial), gradient(mlc.checkpoint)
    args = recurrent_inputs(30)
    same(kept(*args), plain(*args), rtol=1e-11, atol=1e-13)
    per_trip = [
        (arena_bytes(g, 130) - arena_bytes(g, 30)) / 100 / STATE_BYTES for g in (plain, kept)
    ]
    assert per_trip[0] > 8
    assert per_trip[1] == pytest.approx(1, abs=0.2)
