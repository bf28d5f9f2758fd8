"""
Mutated texts of every level for every target: no traceback, no crash, no hang, and what is accepted
computes what the reference does. `python -m tests.fuzz --seed N --only K` shows one text.
"""

from __future__ import annotations

import pytest

from tests.fuzz.pool import Result, results


def _faults(kind: str, seed: int, count: int, workers: int) -> list[Result]:
    return [found for found in results(kind, seed, range(count), workers) if found.fault]


def test_500_mutated_texts() -> None:
    assert _faults("lit", 0, 500, workers=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_20000_mutated_texts(seed: int) -> None:
    assert _faults("all", seed, 5000, workers=2) == []
