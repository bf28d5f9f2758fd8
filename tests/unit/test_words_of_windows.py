# pyright: basic
"""Convolutions of small images: rows are places, columns filters, whose weights are packed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.tile.words import Block, Pack, Sums, cases_of
from tests.plans import HOSTED, planned, spec
from tests.unit.test_words_of_products import words_of


def convolution(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w)


def test_sums_wait_where_vectors_of_them_lie_side_by_side() -> None:
    """Filters are columns of the tile and rows of the result, which holds no sums meanwhile."""
    words = words_of(convolution, spec(2, 512, 6, 6), spec(256, 512, 3, 3), target="avx512")
    assert any(isinstance(x, Block) and x.axis == "k" for x in words)
    assert Sums("scratch") in words


@pytest.mark.parametrize("target", HOSTED)
@pytest.mark.parametrize("channels", [3, 14, 33])
def test_weights_are_packed_as_one_axis(target: str, channels: int) -> None:
    """Of channels and window together whole squares are turned, and the last ends where they do."""
    schedule = "block(k, 16), pack(b, panels 16), register(m 4, n 16), via(fma), edge(m, clamp)"
    compiled: Any = mlc.compile(target=target, schedule=schedule)(convolution)
    random = np.random.default_rng(channels)
    x = random.standard_normal((2, channels, 7, 6)).astype(np.float32)
    w = random.standard_normal((32, channels, 3, 3)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    wanted = np.einsum("ncyxij,fcij->nfyx", windows, w)
    np.testing.assert_allclose(compiled(x, w), wanted, rtol=1e-4, atol=1e-4)
    text = compiled.lower(x, w).levels.llvm()
    assert "shufflevector" in text  # squares: lines alone are read element by element


def test_places_in_windows_leave_registers_to_sums() -> None:
    """Eight rows of a tile are neighbours, which meet the same elements at the next places."""
    levels = planned(
        convolution, spec(2, 64, 10, 10), spec(64, 64, 3, 3), target="avx512",
        schedule="pack(b, panels 32), register(m 8, n 32), via(fma)",
    )  # fmt: skip
    assert "%rsp" not in "".join(
        line for line in levels.asm().splitlines() if re.search(r"\tvmovups\t.*zmm", line)
    )


def turned_rows(x: Any, w: Any) -> Any:
    return np.einsum("btc,cd->tbd", x, w)


@pytest.mark.parametrize("target", HOSTED)
def test_rows_of_two_axes_of_which_one_is_open(target: str) -> None:
    """Rows are counted so that each axis is known by division by a number."""
    words = words_of(turned_rows, spec("B", 17, 64), spec(64, 96), target=target)
    assert any(isinstance(x, Pack) for x in words)
    random = np.random.default_rng(1)
    w = random.standard_normal((64, 96)).astype(np.float32)
    run = mlc.compile(turned_rows, target=target, dynamic={"x": {0: "B"}})
    for batch in (2, 5, 40):
        x = random.standard_normal((batch, 17, 64)).astype(np.float32)
        np.testing.assert_allclose(run(x, w), turned_rows(x, w), rtol=1e-4, atol=1e-4)


def steps(x: Any, w: Any) -> Any:
    def step(h: Any, row: Any) -> Any:
        h = np.tanh(h + row @ w)
        return h, h

    return mlc.scan(step, np.zeros((x.shape[1], w.shape[1]), np.float32), x)[0]


@pytest.mark.parametrize("target", HOSTED)
def test_a_computed_factor_of_few_rows_leaves_the_other_where_it_lies(target: str) -> None:
    """A step of a sequence is read at a place that is known late: it alone is copied."""
    words = words_of(steps, spec("T", "B", 80), spec(80, 160), target=target)
    for _, own in cases_of(words)[1][:2]:
        assert {x.operand for x in own if isinstance(x, Pack)} == {"a"}
