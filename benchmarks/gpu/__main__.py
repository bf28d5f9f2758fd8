"""`python -m benchmarks.gpu`: see the package."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.gpu import __doc__ as about
from benchmarks.gpu.candidates import CANDIDATES, Candidate, Stopwatch
from benchmarks.gpu.plot import bars
from benchmarks.gpu.workloads import WORKLOADS, Workload
from benchmarks.harness import Table

WARM = 3  # calls before the first that is timed


def _arrays(torch: Any, workload: Workload) -> Sequence[Any]:
    kinds = {"bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
    generator = torch.Generator(device="cuda").manual_seed(7)
    return [
        torch.randn(*shape, generator=generator, device="cuda").to(kinds[workload.dtype])
        for shape in workload.shapes
    ]


def _error(torch: Any, workload: Workload, found: Any, expected: Any) -> float:
    """Relative, of the norm."""
    mine = found if isinstance(found, torch.Tensor) else torch.from_dlpack(found)
    return float((mine.double() - expected).norm() / (expected.norm() + 1e-300))


def _ready(
    torch: Any, workload: Workload, names: Sequence[str], arrays: Any
) -> dict[str, Candidate]:
    """Those that compute the workload; a line for each that does not, or not right."""
    expected = workload.peers["torch"](torch, *(x.double() for x in arrays))
    found: dict[str, Candidate] = {}
    for name in names:
        if name == "jax" and name not in workload.peers:
            continue
        try:
            candidate = CANDIDATES[name](workload)
            error = _error(torch, workload, candidate.call(*arrays), expected)
        except ModuleNotFoundError:
            continue
        except Exception as failure:  # noqa: BLE001 - whatever a peer raises, the others go on
            print(f"  {workload.name}: {name} failed: {type(failure).__name__}: {failure}"[:200])
            continue
        if not error <= max(workload.error, 1e-7 if workload.dtype != "f64" else 1e-15):
            print(f"  {workload.name}: {name} is wrong: relative error {error:.1e}")
        for _ in range(WARM):
            candidate.call(*arrays)
        found[name] = candidate
    return found


def _medians(
    found: Mapping[str, Candidate], arrays: Sequence[Any], watch: Stopwatch, rounds: int
) -> dict[str, float]:
    samples: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name in random.sample([*found], len(found)):
            samples[name].append(watch.seconds(found[name], arrays))
    return {name: statistics.median(x) for name, x in samples.items()}


def _rate(workload: Workload, seconds: float) -> str:
    if workload.flops:
        return f"{workload.flops / seconds * 1e-12:.1f} TFLOP/s"
    return f"{workload.bytes / seconds * 1e-12:.2f} TB/s"


def main() -> int:
    """Measures; a table, and the geometric mean of the best peer's time to mlc's."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("names", nargs="*", default=["*"], help="patterns of workloads")
    parser.add_argument("--peers", default="torch,compile,jax")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="an SVG of the ratios")
    given = parser.parse_args()
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError:
        print("benchmarks.gpu needs PyTorch with CUDA: it holds the arrays and the clock")
        return 1
    watch, names = Stopwatch(), [*given.peers.split(","), "mlc"]
    table = Table(torch.cuda.get_device_name(), ["workload", *names, "best peer / mlc", "rate"])
    ratios: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for workload in WORKLOADS:
        if not any(fnmatch(workload.name, pattern) for pattern in given.names):
            continue
        arrays = _arrays(torch, workload)
        found = _ready(torch, workload, names, arrays)
        medians = _medians(found, arrays, watch, given.rounds)
        peers = [x for name, x in medians.items() if name != "mlc"]
        ratio, rate = math.nan, ""
        if "mlc" in medians:
            rate = _rate(workload, medians["mlc"])
            ratio = min(peers, default=math.nan) / medians["mlc"]
            ratios[workload.name] = ratio
        table.add(workload.name, *(medians.get(name, "") for name in names), f"{ratio:.2f}", rate)
        print(" ".join(map(str, table.rows[-1])), flush=True)
        rows.append({"name": workload.name, "seconds": medians})
        del arrays, found
        torch.cuda.empty_cache()
    print(table.text())
    known = [x for x in ratios.values() if not math.isnan(x)]
    if known:
        mean = math.exp(statistics.mean(map(math.log, known)))
        print(f"\ngeometric mean of best peer / mlc: {mean:.3f} of {len(known)}")
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")
    if given.plot is not None:
        shown = {name: x for name, x in ratios.items() if not math.isnan(x)}
        given.plot.write_text(bars(shown, f"best peer / mlc, {torch.cuda.get_device_name()}"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
