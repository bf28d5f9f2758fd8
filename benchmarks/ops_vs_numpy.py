"""
Every op on a million elements against the NumPy call that a user writes, slowest first.

    python -m benchmarks.ops_vs_numpy                    with all threads and with one
    python -m benchmarks.ops_vs_numpy --threads 1        with that many alone
    python -m benchmarks.ops_vs_numpy --only sort,take   cases whose name contains one of these

A row's figure is NumPy's time over mlc's: the fastest of the samples of each, taken in turn. The
numbers of threads are measured in processes of their own, since BLAS libraries read theirs once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Settings, Table, compiled, paired, report, settings, time_text
from benchmarks.op_cases import Array, Case, cases_of
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.registry import OPS

DTYPES = ("float32", "float64", "int32", "int64")
BEHIND = 0.95
"""A ratio below this is marked: repeated runs of one row differ by some percent."""


@dataclass(frozen=True)
class Row:
    """What was measured of a case."""

    name: str
    dtype: str
    mlc_s: float
    numpy_s: float
    ratio: float  # NumPy's time over mlc's


@dataclass(frozen=True)
class Choice:
    """Which rows to measure."""

    only: tuple[str, ...]
    dtypes: tuple[str, ...]

    def holds(self, case: Case) -> bool:
        """Whether the case was asked for."""
        return not self.only or any(part in case.name for part in self.only)


def of_arrays(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The function of its arrays alone: NumPy's own have more parameters, and some no signature."""

    def none() -> Any:
        return function()

    def one(a: Array) -> Any:
        return function(a)

    def two(a: Array, b: Array) -> Any:
        return function(a, b)

    def three(a: Array, b: Array, c: Array) -> Any:
        return function(a, b, c)

    return (none, one, two, three)[count]


def measure(case: Case, dtype: str, options: Settings, seen: set[str]) -> Row:
    """One row; the names of the case's tensor ops are added to `seen`."""
    function, arrays = case.function, case.arrays
    theirs = case.numpy or function
    fast = compiled(of_arrays(function, len(arrays)))
    seen.update(op.name for op in fast.lower(*arrays).module.walk() if isinstance(op, TensorOp))
    settle_s = options.settle_s if case.blas else 0.0
    with np.errstate(all="ignore"):
        calls = lambda: fast(*arrays), lambda: theirs(*arrays)
        found = paired(*calls, options.rounds, settle_s, fastest=True)
    return Row(case.name, dtype, *found)


def rows(choice: Choice, options: Settings) -> Iterator[Row]:
    """All rows asked for. What cannot be compiled is said, and left out."""
    seen: set[str] = set()
    for dtype in choice.dtypes:
        for case in cases_of(dtype):
            if not choice.holds(case):
                continue
            try:
                yield measure(case, dtype, options, seen)
            except (TypeError, ValueError, NotImplementedError) as error:
                print(f"{case.name}, {dtype}: {str(error).splitlines()[0]}", file=sys.stderr)
    if not choice.only:
        missing = [op.name for op in OPS if op.name not in seen]
        print("ops without a row: " + (", ".join(missing) or "none"), file=sys.stderr)


def table_of(found: Mapping[int, Sequence[Row]]) -> Table:
    """One line per case and dtype, the one that is furthest behind first."""
    columns = ["case", "dtype"]
    for threads in found:
        columns += [f"mlc, {threads} thr.", "NumPy", "NumPy / mlc"]
    by_case: dict[tuple[str, str], dict[int, Row]] = {}
    for threads, measured in found.items():
        for row in measured:
            by_case.setdefault((row.name, row.dtype), {})[threads] = row
    table = Table(f"Ops on 10^6 elements; < marks ratios under {BEHIND}", columns)
    worst = {case: min(row.ratio for row in of.values()) for case, of in by_case.items()}
    for case in sorted(by_case, key=worst.__getitem__):
        cells: list[str] = [*case]
        for threads in found:
            row = by_case[case].get(threads)
            mark = "<" if row and row.ratio < BEHIND else ""
            times = [time_text(row.mlc_s), time_text(row.numpy_s)] if row else ["", ""]
            cells += [*times, f"{mark}{row.ratio:.2f}" if row else ""]
        table.add(*cells)
    return table


def _in_processes(arguments: Sequence[str]) -> dict[int, list[Row]]:
    """The rows for all threads and for one, each number of threads in a process of its own."""
    found: dict[int, list[Row]] = {}
    for threads in sorted({len(os.sched_getaffinity(0)), 1}, reverse=True):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.json"
            command = [sys.executable, "-m", "benchmarks.ops_vs_numpy", *arguments]
            command += ["--threads", str(threads), "--rows", str(path)]
            subprocess.run(command, check=True)
            found[threads] = [Row(**row) for row in json.loads(path.read_text("utf-8"))]
    return found


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", default="", help="parts of names, with commas")
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--rows", type=Path, help="write the rows to this file, print nothing")
    given, rest = parser.parse_known_args()
    choice = Choice(tuple(filter(None, given.only.split(","))), tuple(given.dtypes.split(",")))
    several = not any(argument.startswith("--threads") for argument in rest)
    options = settings("every op against NumPy", [*rest, *(["--threads", "1"] if several else [])])
    if several:
        found = _in_processes([a for a in sys.argv[1:] if not a.startswith("--json")])
    else:
        found = {options.threads: list(rows(choice, options))}
    if given.rows is not None:
        data: list[dict[str, Any]] = [asdict(row) for row in found[options.threads]]
        given.rows.write_text(json.dumps(data), encoding="utf-8")
        return
    report(options, table_of(found))


if __name__ == "__main__":
    main()
