"""A printed tile program whose loops somebody changes: other code, the same result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tests.test_tile_programs import (
    BLOCKED,
    BOTH,
    CASES,
    IN_PLACE,
    SPLIT,
    built,
    normal,
    sizes_of,
    text_of,
    with_words,
)

CASE = CASES["bias"]
OWN = """        mlc_tile.copy %w[%k + k, %n + 16*J + n] -> %packed_b "k(Jn) -> Jkn" over \
(J (%n_left + 15) floordiv 16, k %k_left)"""
BARRIER = "        mlc_tile.barrier\n"
COPY_A = """          mlc_tile.copy %x[%m + 4*J + m, %k + k] -> %packed_a "k(Jm) -> Jkm" over \
(J (%m_left + 3) floordiv 4, k %k_left)\n"""
ROWS = "deal(team 4 when 61 >= 8*workers)"
COLUMNS = " deal(team when 61 < 8*workers)"


@dataclass(frozen=True)
class Edit:
    """What is replaced in the program of some words; `sums`: whether sums are rounded the same."""

    words: str
    changes: tuple[tuple[str, str], ...]
    sums: bool = True


EDITS = {
    "a wider register tile": Edit(IN_PLACE, (("step 16", "step 24"), ("<4x16xf32", "<4x24xf32"))),
    "a taller register tile": Edit(
        IN_PLACE, (("step 4 ", "step 6 "), ("team 4 ", "team 6 "), ("<4x16xf32", "<6x16xf32"))
    ),
    "a smaller register tile": Edit(
        BLOCKED, (("%m_left step 4", "%m_left step 2"), ("<4x16xf32", "<2x16xf32"))
    ),
    "another instruction": Edit(BLOCKED, (("via fma", "via mul_add"),), sums=False),
    "b is not packed": Edit(
        BLOCKED,
        (
            ("    %packed_b = mlc_tile.alloc team : !mlc_tile.view<6x64x16xf32>\n", ""),
            (f"{BARRIER}{OWN} deal(team, J)\n{BARRIER}", ""),
            ("%packed_b[%n_1 floordiv 16, k, n]", "%w[%k + k, %n + %n_1 + n]"),
        ),
    ),
    "a is not packed": Edit(
        BOTH,
        (
            ("    %packed_a = mlc_tile.alloc worker : !mlc_tile.view<3x64x4xf32>\n", ""),
            (COPY_A, ""),
            ("%packed_a[%m_1 floordiv 4, k, m]", "%x[%m + %m_1 + m, %k + k]"),
            (" prefetch(0, 2)", " clamp(m)"),
        ),
    ),
    "panels of another width": Edit(
        BLOCKED,
        (
            ("6x64x16xf32", "12x64x8xf32"),
            ("16*J", "8*J"),
            ("+ 15) floordiv 16", "+ 7) floordiv 8"),
            ("%n_1 floordiv 16", "%n_1 floordiv 8"),
            ("%n_left step 16", "%n_left step 8"),
            ("<4x16xf32", "<4x8xf32"),
        ),
    ),
    "longer blocks of the sum": Edit(
        BLOCKED, (("131 step 64", "131 step 96"), ("6x64x16", "6x96x16")), sums=False
    ),
    "larger blocks of rows": Edit(BLOCKED, (("61 step 12", "61 step 24"),)),
    "each worker packs for itself": Edit(
        BLOCKED, (("alloc team", "alloc worker"), (" deal(team, J)", ""))
    ),
    "no prefetching": Edit(BOTH, ((" prefetch(0, 2)", ""),)),
    "rows one by one": Edit(
        IN_PLACE,
        (
            ("    mlc_tile.for %m in", "    mlc_tile.barrier\n    mlc_tile.for %m in"),
            (ROWS, "deal(dynamic)"),
            (COLUMNS, ""),
        ),
    ),
    "loops the other way round": Edit(
        SPLIT,
        (
            ("for %n in 109 step 16 {", "for %_ in 61 step 4 {"),
            ("for %m in 61 step 4 {", "for %n in 109 step 16 {"),
            ("for %_ in", "for %m in"),
        ),
    ),
}


def printed(words: str, folder: Path) -> str:
    """The tile program of a product with bias, whose words these are."""
    return built(with_words(text_of(CASE), words), folder, 1).levels.text("tiles")


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_changes_the_code_and_keeps_the_result(name: str, tmp_path: Path) -> None:
    edit, arguments = EDITS[name], [normal(*sizes_of(shape)) for shape in CASE.shapes]
    text = edited = printed(edit.words, tmp_path)
    for before, after in edit.changes:
        assert before in edited, f"{before!r} is not in\n{edited}"
        edited = edited.replace(before, after)
    wide = CASE.function(*(x.astype(np.float64) for x in arguments))
    for threads in (1, 3):
        programs = [built(x, tmp_path, threads) for x in (text, edited)]
        found, other = (np.asarray(x.builtin(*arguments)) for x in programs)
        np.testing.assert_allclose(other, wide, rtol=2e-4, atol=2e-4)
        if edit.sums:
            np.testing.assert_array_equal(found, other)
        one, two = (x.levels.text("code") for x in programs)
        assert one != two
