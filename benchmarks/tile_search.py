"""
How far the schedule that the compiler picks for a product is from the best of all that it may pick.

For each shape every list of words that the chooser has, with shares of one size and one by one, is
compiled, but for those that are predicted to take more than twice as long as the best; they take
turns, and those that are clearly slower than the fastest leave before the last rounds.

```
python -m benchmarks.tile_search --threads 16
python -m benchmarks.tile_search --threads 1 1024x1024x1024 --json found.json
```
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.harness import Table, calls_per_sample, mean_seconds
from mlc.dialects.tile.words import Grain, Words, spell
from mlc.passes.tile.choose import choose_schedule, dynamic_schedules, split_schedule
from mlc.passes.tile.predict import Problem, predict
from mlc.passes.tile.products import WordsOf, shared
from mlc.runtime.probe import host_target
from mlc.schedules import SUMS, contraction_of, inputs_of, of_results, program_of, with_words

SHAPES = (
    "128x128x128", "256x256x256", "512x512x512", "1024x1024x1024", "2048x2048x2048",
    "1000x997x1003", "32x4096x1024", "100000x64x64", "1024x1024x1024 tn", "1024x1024x1024 nt",
    "64*128x128x64", "4096x768x3072",
)  # fmt: skip
"""batch * m x n x k, and which factors are given transposed."""
FORM = re.compile(r"(?:(\d+)\*)?(\d+)x(\d+)x(\d+)(?: ([nt])([nt]))?(?: (\w+))?")
ROUNDS = ((1, 1.5), (3, 1.2), (5, 1.08), (11, 1.0))
"""Samples of each round, and times the fastest of it what stays for the next."""


def problem_of(shape: str, threads: int) -> Problem:
    """The product that a text says; ValueError where it says none."""
    found = FORM.fullmatch(shape)
    if found is None:
        raise ValueError(f"{shape!r}: expected a product such as '1024x1024x1024 tn bf16'")
    batch, m, n, k, left, right, dtype = found.groups()
    dtype = dtype or "f32"
    return Problem(
        m=int(m), n=int(n), k=int(k), batch=int(batch or 1), threads=threads,
        dtypes=(dtype, dtype, SUMS.get(dtype, dtype)), **of_results(dtype),
        a_unit="m" if left == "t" else "k", b_unit="k" if right == "t" else "n",
    )  # fmt: skip


class Search:
    """One product, and every schedule that the chooser has for it."""

    def __init__(self, shape: str, threads: int, within: float) -> None:
        self.shape, self.problem = shape, problem_of(shape, threads)
        self.levels = program_of(self.problem, "host", threads)
        kernel = contraction_of(self.levels)
        assert kernel is not None
        assert kernel.schedule is not None
        self.cut = WordsOf(kernel, host_target())
        self.picked = tuple(w for w in kernel.schedule.data.cuts if not isinstance(w, Grain))
        predicted = {words: self.predicted(words) for words in self.offered()}
        most = within * min(predicted.values())
        self.schedules = {
            w: s for w, s in sorted(predicted.items(), key=lambda x: x[1]) if s < most
        }
        self.schedules.setdefault(self.picked, self.predicted(self.picked))

    def offered(self) -> Iterator[Words]:
        """All of them, as passes apply them."""
        cut, target = self.cut, self.cut.target
        for candidate in choose_schedule(cut.problem, target):
            words = candidate.words
            static = shared(words, cut.problem, target)
            parts = split_schedule(cut.problem, words, target)
            shares = (static, *dynamic_schedules(cut.problem, static, target))
            for x in shares if parts is None else (*shares, parts):
                if cut.unapplied(x) is None:
                    yield cut.applied(x)

    def predicted(self, words: Words) -> float:
        """Seconds of a call, by the cost."""
        return predict(self.problem, words, self.cut.target).seconds

    def function(self, words: Words) -> Callable[..., object]:
        """The product with this schedule, as code."""
        return with_words(self.levels, words)


def compile_part(shape: str, threads: int, within: float, part: int, parts: int) -> None:
    """Puts a part of a product's schedules into the cache of compiled code."""
    search = Search(shape, threads, within)
    for words in list(search.schedules)[part::parts]:
        search.function(words)


def fastest(calls: Mapping[Words, Callable[[], object]], stays: Words) -> dict[Words, float]:
    """Seconds of those that are left in the end, and of `stays`, in turn."""
    left, found = dict(calls), dict[Words, float]()
    counts = {words: calls_per_sample(call) for words, call in calls.items()}
    for rounds, most in ROUNDS:
        samples: dict[Words, list[float]] = {words: [] for words in left}
        order = list(left)
        for turn in range(rounds):
            for words in order[turn % len(order) :] + order[: turn % len(order)]:
                samples[words].append(mean_seconds(left[words], counts[words]))
        found = {words: median(seconds) for words, seconds in samples.items()}
        least = min(found.values())
        left = {w: call for w, call in left.items() if found[w] <= most * least or w == stays}
    return found


def main() -> None:
    """Print a row for each shape: what was picked, what is best, and how far they are apart."""
    parser = argparse.ArgumentParser(description="the schedule that is picked beside all others")
    parser.add_argument("shapes", nargs="*", default=SHAPES, help="such as '64*128x128x64 nt bf16'")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--within", type=float, default=2.0, help="times the best prediction")
    parser.add_argument("--show", type=int, default=1, help="so many of the best of each shape")
    parser.add_argument("--json", type=Path, help="also write seconds of all to this file")
    given = parser.parse_args()
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        jobs = [
            pool.submit(compile_part, shape, given.threads, given.within, part, workers)
            for shape in given.shapes
            for part in range(workers)
        ]
        for job in jobs:
            job.result()
    table = Table(
        f"the picked schedule beside all others, {given.threads} threads",
        ["product", "schedules", "picked", "best", "picked / best", "words"],
    )
    written: dict[str, dict[str, float]] = {}
    for shape in given.shapes:
        search = Search(shape, given.threads, given.within)
        arrays = inputs_of(search.problem)
        calls = {w: partial(search.function(w), *arrays) for w in search.schedules}
        found = sorted(fastest(calls, search.picked).items(), key=lambda x: x[1])
        picked, least = dict(found)[search.picked], found[0][1]
        print(shape, f"{picked / least:.3f}", spell(search.picked), flush=True)
        for words, seconds in found[: given.show]:
            table.add(shape, len(calls), picked, seconds, f"{picked / seconds:.3f}", spell(words))
        written[shape] = {spell(words): seconds for words, seconds in found}
    print(table.text())
    if given.json is not None:
        given.json.write_text(json.dumps(written, indent=1))


if __name__ == "__main__":
    main()
