"""Layouts over threads: every element is held, where the instructions' manuals say."""

from __future__ import annotations

import itertools

import pytest

from mlc.dialects.tile.layout import LinearLayout, columns, mma_acc, rows, wgmma_acc


def _held(layout: LinearLayout) -> list[tuple[int, ...]]:
    counts = (range(1 << len(level)) for level in layout.bases)
    return sorted(layout.place(*numbers) for numbers in itertools.product(*counts))


@pytest.mark.parametrize(
    "layout", [wgmma_acc(16), wgmma_acc(64), mma_acc(8), rows(4, 64), rows(8, 16), columns(64, 4)]
)
def test_each_element_has_one_place(layout: LinearLayout) -> None:
    assert layout.covers
    assert _held(layout) == [*itertools.product(*map(range, layout.shape))]


def test_sums_of_wgmma_lie_as_its_manual_says() -> None:
    layout = wgmma_acc(32)
    for register, lane, warp in itertools.product(range(16), range(32), range(4)):
        row = 16 * warp + lane // 4 + 8 * (register // 2 % 2)
        column = 8 * (register // 4) + 2 * (lane % 4) + register % 2
        assert layout.place(register, lane, warp, 0) == (row, column)


def test_what_a_reduction_leaves_is_held_by_many() -> None:
    layout = wgmma_acc(16).sliced(1)
    assert layout.shape == (64,)
    assert layout.covers
    assert len(_held(layout)) == 64 * 16
