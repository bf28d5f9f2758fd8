"""
What every benchmark shares: turns, medians, tables, and what the machine is.

Candidates take turns in small samples within one run, so that what else the machine does falls on
all of them alike. A sample repeats a short call until it lasts `SAMPLE_S`; its value is the mean of
its calls, and the reported time is the median over the samples. With several threads there is a
pause before each sample: the idle threads of some libraries spin for a while (OpenBLAS's for 2^26
cycles, some 20 ms), and would take a core from the candidate that follows.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import mlc

SAMPLE_S = 2e-3
"""Shortest sample: 10^5 times the clock's resolution, a tenth of a scheduler's time slice."""

SETTLE_S = 0.05
"""Pause before a sample where several threads are used: twice what OpenBLAS's threads spin."""

Call = Callable[[], object]
Clock = Callable[[], float]


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    """The function compiled; `Any` because what it has beside `__call__` is used here."""
    return mlc.compile(**options)(function)


@dataclass(frozen=True)
class Settings:
    """The command line that all benchmarks take."""

    quick: bool
    threads: int
    json: Path | None
    rounds: int  # samples per candidate

    @property
    def settle_s(self) -> float:
        """The pause before each sample."""
        return SETTLE_S if self.threads > 1 else 0.0


def settings(description: str, arguments: Sequence[str] | None = None) -> Settings:
    """
    Read the command line, and see to it that every library uses that many threads.

    BLAS libraries read the environment when NumPy is imported: the process starts anew with it.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller cases")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, help="samples per candidate (default 15; quick 5)")
    parser.add_argument("--json", type=Path, help="also write the tables to this file")
    given = parser.parse_args(arguments)
    count = str(given.threads)
    variables = (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
    )
    if any(os.environ.get(name) != count for name in variables):
        environment = {**os.environ, **dict.fromkeys(variables, count)}
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, environment)
    rounds = given.rounds or (5 if given.quick else 15)
    return Settings(given.quick, given.threads, given.json, rounds)


def medians(
    candidates: Mapping[str, Call],
    rounds: int,
    settle_s: float = 0.0,
    clock: Clock = time.perf_counter,
) -> dict[str, float]:
    """Median seconds of one call of each candidate; they take turns. Each is called once before."""
    repeats: dict[str, int] = {}
    for name, call in candidates.items():
        call()
        repeats[name] = calls_per_sample(call, clock)
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(rounds):
        names = list(candidates)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            if settle_s:
                time.sleep(settle_s)
                candidates[name]()  # wakes its own threads
            samples[name].append(mean_seconds(candidates[name], repeats[name], clock))
    return {name: statistics.median(found) for name, found in samples.items()}


def paired(
    ours: Call, theirs: Call, rounds: int, settle_s: float = 0.0, *, fastest: bool = False
) -> tuple[float, float, float]:
    """
    (median seconds of `ours`, of `theirs`, median of theirs / ours): two candidates, whose samples
    are compared turn by turn, so that what slows both down in one turn leaves the ratio alone.

    `fastest`: the least of each and their ratio, for a machine where other work takes turns away.
    """
    calls = (ours, theirs)
    repeats: list[int] = []
    for call in calls:
        call()
        repeats.append(calls_per_sample(call))
    samples: list[tuple[float, float]] = []
    for turn in range(rounds):
        found = [0.0, 0.0]
        for k in (0, 1) if turn % 2 else (1, 0):
            if settle_s:
                time.sleep(settle_s)
                calls[k]()  # wakes its own threads
            found[k] = mean_seconds(calls[k], repeats[k])
        samples.append((found[0], found[1]))
    if fastest:
        mine, other = (min(column) for column in zip(*samples, strict=True))
        return mine, other, other / mine
    mine, other = (statistics.median(column) for column in zip(*samples, strict=True))
    return mine, other, statistics.median(b / a for a, b in samples)


def calls_per_sample(call: Call, clock: Clock = time.perf_counter) -> int:
    """How many calls last `SAMPLE_S`."""
    count = 1
    while (seconds := mean_seconds(call, count, clock) * count) < SAMPLE_S:
        count = max(count * 2, min(count * 100, round(count * SAMPLE_S / max(seconds, 1e-9))))
    return count


def mean_seconds(call: Call, calls: int, clock: Clock = time.perf_counter) -> float:
    """Seconds of one of so many calls."""
    turns = range(calls)
    start = clock()
    for _ in turns:
        call()
    return (clock() - start) / calls


def time_text(seconds: float) -> str:
    """Three digits and a unit: `12.3 us`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.{2 if seconds < 10 * size else 1}f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


@dataclass
class Table:
    """Rows of text under a title, printed in columns."""

    title: str
    columns: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list[Sequence[str]])

    def add(self, *cells: object) -> None:
        """A row; numbers that are no text yet are seconds."""
        self.rows.append([time_text(c) if isinstance(c, float) else str(c) for c in cells])

    def text(self) -> str:
        """The table as it is printed: the first column to the left, the others to the right."""
        lines = [list(self.columns), *self.rows]
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.columns))]
        body = [
            "  ".join(
                cell.rjust(width) if k else cell.ljust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join(["", self.title, "", body[0], "-" * len(body[0]), *body[1:]])


def compare(
    title: str,
    cases: Mapping[str, Mapping[str, Call]],
    options: Settings,
    *,
    notes: Mapping[str, Callable[[float], str]] | None = None,
) -> Table:
    """
    A table with one row per case: the median of each candidate, and best peer / mlc.

    The candidate of each case that is called `mlc` is compared with the best of the others. `notes`
    give one more column, computed from mlc's seconds.
    """
    names: list[str] = []
    for candidates in cases.values():
        names.extend(name for name in candidates if name not in names)
    extra = ["note"] if notes else []
    table = Table(title, ["case", *names, "best peer / mlc", *extra])
    for case, candidates in cases.items():
        found = medians(candidates, options.rounds, options.settle_s)
        peers = [seconds for name, seconds in found.items() if not name.startswith("mlc")]
        ratio = f"{min(peers) / found['mlc']:.2f}" if peers else ""
        cells = [found.get(name, "") for name in names]
        note = [notes[case](found["mlc"]) if case in notes else ""] if notes else []
        table.add(case, *cells, ratio, *note)
    return table


def machine(threads: int) -> dict[str, str]:
    """What the numbers hold for: processor, threads, load, and the versions that took part."""
    names = ("mlc-compiler", "numpy", "numexpr", "llvmlite", "xdsl")
    versions = {name: found for name in names if (found := _version(name))}
    return {
        "processor": _processor(),
        "threads": f"{threads} of {os.cpu_count()}",
        "load": f"{os.getloadavg()[0]:.2f}",
        "python": platform.python_version(),
        **versions,
    }


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def report(options: Settings, *tables: Table) -> None:
    """Print the tables and the machine; write them where `--json` says."""
    where = machine(options.threads)
    for table in tables:
        print(table.text())
    print("\n" + ", ".join(f"{key} {value}" for key, value in where.items()))
    if options.json is not None:
        data = [{"title": t.title, "columns": list(t.columns), "rows": t.rows} for t in tables]
        options.json.write_text(json.dumps({"machine": where, "tables": data}, indent=1) + "\n")
