"""Random functions with control flow, beside NumPy: traced and interpreted, and some compiled."""

from __future__ import annotations

import pytest

from tests.random_control import Run, Writer, by_code, by_reference, judged, reduced

PROGRAMS = 120
CHUNK = 20


def check(seeds: range, run: Run) -> None:
    """Every program is answered as by NumPy, or refused; few are."""
    refused = 0
    for seed in seeds:
        text = Writer(seed).text()
        cases = range(seed % 5, seed % 5 + 2)
        verdict = judged(text, cases, run)
        refused += verdict.kind == "refused"
        if verdict.kind == "differs":
            small = reduced(text, lambda x: judged(x, cases, run).kind == "differs")  # noqa: B023
            pytest.fail(f"seed {seed}: {judged(small, cases, run).detail}\n{small}")
    assert refused <= max(2, len(seeds) // 5)


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_traced_programs(first: int) -> None:
    check(range(first, first + CHUNK), by_reference)


def test_compiled_programs() -> None:
    check(range(1000, 1006), by_code)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(2000, 4000, 100))
def test_many_programs(first: int) -> None:
    check(range(first, first + 100), by_reference)
