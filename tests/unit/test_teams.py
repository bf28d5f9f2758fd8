"""Which lists of words compete: the best first, although most of them are not predicted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import AMX, AVX2, AVX512
from mlc.passes.tile.choose import choose_schedule, dynamic_schedules
from mlc.passes.tile.predict import Problem, predict
from mlc.passes.tile.teams import best_first, least_seconds, of_one_and_all

PROBLEMS = (
    (AVX512, Problem(m=512, n=256, k=1024)),
    (AVX2, Problem(m=1000, n=997, k=1003, a_unit="m")),
    (AVX512, Problem(m=2048, n=128, k=96, b_unit="k")),
    (AMX, Problem(m=1024, n=1024, k=512, dtypes=("bf16", "bf16", "f32"))),
)


@pytest.mark.parametrize(("target", "problem"), PROBLEMS)
@pytest.mark.parametrize("cores", [2, 16])
def test_the_best_is_found_without_predicting_all(
    target: CpuTarget, problem: Problem, cores: int
) -> None:
    target = replace(target, cores=cores)
    offers = [c.words for c in choose_schedule(problem, target)]
    for static in offers[:8]:
        offers += dynamic_schedules(problem, static, target)
    offers = list(dict.fromkeys(offers))
    all_of_them = sorted(
        ((of_one_and_all(problem, words, target), words) for words in offers), key=lambda x: x[0]
    )
    bounds = [(least_seconds(problem, words, target), words) for words in offers]
    assert list(best_first(bounds, problem, target)) == all_of_them
    predict.cache_clear()
    assert next(best_first(bounds, problem, target)) == all_of_them[0]
    assert predict.cache_info().misses < 2 * len(offers)


@pytest.mark.parametrize(("target", "problem"), PROBLEMS)
def test_no_team_is_faster_than_arithmetic_and_copies(target: CpuTarget, problem: Problem) -> None:
    for threads in (1, 4):
        for c in choose_schedule(replace(problem, threads=threads), target):
            least = least_seconds(problem, c.words, target) / threads
            assert least <= c.seconds * (1 + 1e-9)
            assert least > 0.02 * c.seconds, "says nothing"
