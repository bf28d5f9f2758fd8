"""Single NumPy expressions in compiled functions: NumPy's value and dtype, or its exception."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.numpy_programs import random_programs, sweep
from tests.numpy_programs.arrays import FAMILIES, arrays_of
from tests.numpy_programs.judge import Judge

TABLE = (sweep.FOLDER / "table.txt").read_text().splitlines()
KNOWN = re.compile(
    r"partition\(|eigvals\("  # an order that NumPy leaves open; a dtype that depends on the values
    r"|np\.uint16|\*\* |pow"  # floats beyond an integer dtype; infinite complex powers
    r"|where NumPy raises AttributeError|NumPy array or scalar"  # lists and numbers are arrays
    r"|__array_namespace__|axis=\(\)\)|matrix_power\(m, 0\)|pinv\(e\)|prod\(z"
)
"""Where a compiled function differs by its documents, or in a dtype of nothing."""
CANCELLING = re.compile(r"(mean|average)\(z")
"""Sums of the extreme numbers, of which little is left."""
PER_EXPRESSION = 2  # families that try each expression of the table in every run


def told(
    family: str, expressions: list[str], folder: Path, *, reference: bool = False
) -> list[str]:
    """What comes out differently."""
    extremes = np.abs(arrays_of(family)["z"].astype(np.complex128))
    # as of any order of the summands, beside their magnitudes
    away = 4 * np.finfo(np.float64).eps * np.sqrt(extremes.size) * float(extremes.mean())

    def tolerance(text: str) -> float:
        return away if np.isfinite(away) and CANCELLING.search(text) else 0.0

    judge = Judge(folder, reference=reference, tolerance=tolerance)
    verdicts = judge.judge(expressions, lambda: arrays_of(family))
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
    assert not [text for text in found if not KNOWN.search(text)]


def random_differences(seeds: range, folder: Path) -> list[str]:
    """What comes out differently in the random programs of these seeds."""
    names = random_programs.arrays()
    texts = dict.fromkeys(random_programs.program(seed, names) for seed in seeds)
    judge = Judge(folder, tolerance=random_programs.tolerance)
    verdicts = judge.judge(texts, random_programs.arrays)
    return [str(v) for v in verdicts if v.kind == "differs"]


def test_random_programs_of_several_dtypes(tmp_path: Path) -> None:
    assert not random_differences(range(100), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(10))
def test_five_thousand_random_programs_of_several_dtypes(shard: int, tmp_path: Path) -> None:
    assert not random_differences(range(shard * 500, shard * 500 + 500), tmp_path)
