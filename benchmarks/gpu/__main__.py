"""`python -m benchmarks.gpu`: see the package."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import math
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu import __doc__ as about
from benchmarks.gpu.candidates import CANDIDATES, installed
from benchmarks.gpu.measure import Row, Stopwatch, measured
from benchmarks.gpu.plot import bars
from benchmarks.gpu.workload import Workload
from benchmarks.gpu.workloads import GROUPS
from benchmarks.harness import Table, time_text

PEERS = "torch,graph,compile,cudnn,flash,jax,triton"


def chosen(pattern: str) -> list[tuple[str, Workload]]:
    """The workloads whose `group/name` has the pattern, with their groups."""
    pairs = [(group.name, workload) for group in GROUPS for workload in group.workloads]
    return [(name, w) for name, w in pairs if re.search(pattern, f"{name}/{w.name}")]


def present(peers: str) -> list[str]:
    """Those that are installed, and mlc; a line for each of the others."""
    names = [name for name in peers.split(",") if name]
    if unknown := [name for name in names if name not in CANDIDATES]:
        raise SystemExit(f"--peers: {', '.join(unknown)}; expected some of {', '.join(CANDIDATES)}")
    for name in names:
        if not installed(name):
            print(f"{name} is left out: {CANDIDATES[name].library} is not installed")
    return [*(name for name in names if name != "mlc" and installed(name)), "mlc"]


def results(title: str, names: Sequence[str], rows: Sequence[Row]) -> Table:
    """A row for each workload; `!` marks what is wrong."""
    shown = [name for name in names if any(name in row.seconds for row in rows)]
    table = Table(title, ["workload", *shown, "best peer / mlc", "rate"])
    for row in rows:
        cells = [
            f"{time_text(row.seconds[name])}{'' if row.right(name) else ' !'}"
            if name in row.seconds
            else ""
            for name in shown
        ]
        table.add(row.workload.name, *cells, _number(row.ratio), _rate(row))
    return table


def _line(table: Table) -> str:
    """The last row, each cell with its column."""
    pairs = zip(table.columns[1:], table.rows[-1][1:], strict=True)
    return f"{table.rows[-1][0]}: " + ", ".join(f"{name} {x}" for name, x in pairs if x)


def _number(ratio: float) -> str:
    return "" if math.isnan(ratio) else f"{ratio:.3f}"


def _rate(row: Row) -> str:
    seconds = row.seconds.get("mlc")
    if seconds is None:
        return ""
    if row.workload.flops:
        return f"{row.workload.flops / seconds * 1e-12:.1f} TFLOP/s"
    return f"{row.workload.bytes / seconds * 1e-12:.2f} TB/s" if row.workload.bytes else ""


def by_group(rows: Sequence[Row]) -> Table:
    """The geometric mean and the least ratio of each group, and of all."""
    table = Table("best peer / mlc", ["group", "workloads", "geometric mean", "least"])
    for name in [*dict.fromkeys(row.group for row in rows), "all"]:
        ratios = [row.ratio for row in rows if name in ("all", row.group)]
        known = [x for x in ratios if not math.isnan(x)]
        if known:
            mean = math.exp(statistics.mean(map(math.log, known)))
            table.add(name, f"{len(known)} of {len(ratios)}", _number(mean), _number(min(known)))
    return table


def as_json(rows: Sequence[Row]) -> str:
    """Names, seconds and errors."""
    entries = [
        {
            "group": row.group, "name": row.workload.name, "seconds": row.seconds,
            "errors": row.errors, "ratio": None if math.isnan(row.ratio) else row.ratio,
        }
        for row in rows
    ]  # fmt: skip
    return json.dumps(entries, indent=1) + "\n"


def options() -> argparse.Namespace:
    """The command line."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, formatter_class=form)
    parser.add_argument("--only", default="", help="a regular expression that group/name has")
    parser.add_argument("--peers", default=PEERS, help=f"some of {', '.join(CANDIDATES)}")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=math.inf, help="no workload begins after")
    parser.add_argument("--json", type=Path, help="written after each workload")
    parser.add_argument("--plot", type=Path, help="an SVG of the ratios")
    parser.add_argument("--list", action="store_true", help="names, and nothing is measured")
    return parser.parse_args()


def main() -> int:
    """Measures; a table, and the geometric means of the best peer's time to mlc's."""
    given, start = options(), time.monotonic()
    todo = chosen(given.only)
    if given.list:
        print("\n".join(f"{group}/{workload.name}" for group, workload in todo))
        return 0
    if importlib.util.find_spec("torch") is None:
        print("benchmarks.gpu needs PyTorch with CUDA: it holds the arrays and the clock")
        return 1
    names, watch, rows = present(given.peers), Stopwatch(), list[Row]()
    title = str(watch.torch.cuda.get_device_name())
    for number, (group, workload) in enumerate(todo):
        if time.monotonic() - start > given.seconds:
            print(f"  time is up: {len(todo) - number} workloads are left out")
            break
        try:
            rows.append(measured(group, workload, names, watch, given.rounds))
        except Exception as failure:  # noqa: BLE001 - no memory for one is no end of the others
            print(f"  {workload.name} is left out: {type(failure).__name__}: {failure}"[:300])
            continue
        print(_line(results("", names, rows[-1:])), flush=True)
        if given.json is not None:
            given.json.write_text(as_json(rows))
    print(results(title, names, rows).text())
    print(by_group(rows).text())
    if given.plot is not None:
        shown = {row.workload.name: row.ratio for row in rows if not math.isnan(row.ratio)}
        given.plot.write_text(bars(shown, f"best peer / mlc, {title}"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
