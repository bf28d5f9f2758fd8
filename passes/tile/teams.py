"""
What words take of one worker and of all cores, by which lists of words compete whose shares are of
one size, or are taken one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import log, log2, prod, sqrt

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.target import CpuTarget
from mlc.dialects.tile.words import Block, Pack, Register, Words, only_word
from mlc.passes.cost.work import cycle_s
from mlc.passes.tile.predict import Problem, predict, row_of
from mlc.passes.tile.steps import step_cycles, step_shape

SPREAD = 0.25
"""Standard deviation of equal shares' times, to a share. Measured: docs/measurements.md."""
ROUNDED = 1 - 1e-9
"""Of a bound: what sums of floats may differ in when they are added in another order."""


def of_one_and_all(problem: Problem, words: Words, target: CpuTarget) -> float:
    """
    Seconds of one worker times those of all cores, with what shares of one size wait for the
    slowest.
    """
    team = predict(replace(problem, threads=target.cores), words, target)
    waits = 0.0 if _is_dynamic(words) else SPREAD * _largest_of(team.workers)
    return predict(problem, words, target).seconds * team.seconds * (1 + waits)


def best_first(
    offers: Iterable[tuple[float, Words]], problem: Problem, target: CpuTarget
) -> Iterator[tuple[float, Words]]:
    """
    Lists of words by `of_one_and_all`, the least first; of equal ones in the order given. With each
    comes its `least_seconds`, which is no more; so most of them are predicted once or not at all.
    """
    share = ROUNDED / target.cores
    queue: list[tuple[float, int, int, float, Words]] = [
        (least * least * share * ROUNDED, 0, place, least, words)
        for place, (least, words) in enumerate(offers)
    ]
    heapify(queue)
    while queue:
        seconds, known, place, least, words = heappop(queue)
        if known == 2:
            yield seconds, words
        elif known == 1:
            exact = of_one_and_all(problem, words, target)
            heappush(queue, (exact, 2, place, least, words))
        else:
            alone = predict(problem, words, target).seconds
            heappush(queue, (alone * least * share, 1, place, least, words))


def least_seconds(problem: Problem, words: Words, target: CpuTarget) -> float:
    """
    No more than one worker takes, and than a team takes times its workers: register tiles as if no
    loop cut them, copies as if all were vectors side by side, and nothing that is waited for.
    """
    row, tile = row_of(problem, words, target), only_word(words, Register)
    packs = {word.operand for word in words if isinstance(word, Pack)}
    step = step_cycles(row, *step_shape(row, tile), target, apart="a" not in packs)
    tiles = problem.batch * problem.m / tile.m * problem.n / tile.n
    cycles = tiles * (problem.k / row.shape[2] * step + target.loops.tile_start_cycles)
    sizes = {"g": problem.batch, "m": problem.m, "n": problem.n, "k": problem.k}
    again = {"a": 1.0, "b": 1.0}  # of blocks along the axis that an operand has not
    for word in words:
        if isinstance(word, Block) and word.axis in "mn":
            other = "b" if word.axis == "m" else "a"
            again[other] = max(again[other], sizes[word.axis] / word.step)
        elif isinstance(word, Pack):
            axes, unit = ("gmk", problem.a_unit) if word.operand == "a" else ("gkn", problem.b_unit)
            item = named_dtype(row.dtypes["ab".index(word.operand)]).bytes
            lanes = target.lanes(8 * item)
            turned = word.group == 1 and unit == "k"
            each = target.loops.pack_cycles + (log2(max(2, lanes)) if turned else 0.0)
            copied = prod(sizes[axis] for axis in axes) * again[word.operand]
            cycles += copied / lanes * each
    return cycles * cycle_s(target)


def _largest_of(n: int) -> float:
    """
    The largest of n normal numbers, on average: their quantile of (n - 3/8) / (n + 1/4). SOURCE:
    Blom, Transformed Beta-Variables, 1958; Abramowitz and Stegun, 26.2.22.
    """
    if n == 1:
        return 0.0
    t = sqrt(-2 * log(0.625 / (n + 0.25)))
    return t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t)


def _is_dynamic(words: Words) -> bool:
    return any(isinstance(word, Block) and word.dynamic for word in words)
