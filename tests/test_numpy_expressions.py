"""Single NumPy expressions in compiled functions: NumPy's value and dtype, or its exception."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.numpy_programs import sweep
from tests.numpy_programs.arrays import FAMILIES, arrays_of
from tests.numpy_programs.judge import Judge

TABLE = (sweep.FOLDER / "table.txt").read_text().splitlines()
PER_EXPRESSION = 2  # families that try each expression of the table in every run


def told(
    family: str, expressions: list[str], folder: Path, *, reference: bool = False
) -> list[str]:
    """What comes out differently."""
    verdicts = Judge(folder, reference=reference).judge(expressions, lambda: arrays_of(family))
    return [str(v) for v in verdicts if v.kind == "differs"]


@pytest.mark.parametrize("family", FAMILIES)
def test_expressions_of_the_table(family: str, tmp_path: Path) -> None:
    first = FAMILIES.index(family)
    count = len(FAMILIES)
    chosen = [t for k, t in enumerate(TABLE) if (first - k) % count < PER_EXPRESSION]
    assert not told(family, chosen, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_expression_of_the_table(family: str, tmp_path: Path) -> None:
    assert not told(family, TABLE, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_whole_namespace(family: str, tmp_path: Path) -> None:
    found = told(family, sweep.everything(), tmp_path, reference=True)
    assert not found
