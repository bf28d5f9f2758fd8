"""
50 batch sizes: how often is compiled, with and without `dynamic=`, and in a second process.

Without `dynamic=`, the first call specialises on its shapes and the second, which differs in one,
leaves that size open: two compilations. With it, one. A second process finds both on the disk.
The sizes are 2 … 51: without `dynamic=`, an axis of size 1 is another signature, since it may
broadcast.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import Table, report, settings

PROGRAM = """
import json, sys, time
import numpy as np
import mlc

def layer(x, w, b):
    return np.tanh(x @ w + b)

options = {"dynamic": {"x": {0: "B"}}} if sys.argv[1] == "dynamic" else {}
compiled = mlc.compile(**options)(layer)
rng = np.random.default_rng(4)
w, b = rng.standard_normal((64, 32), np.float32), rng.standard_normal(32, np.float32)
batches = [rng.standard_normal((n, 64), np.float32) for n in range(2, 52)]
start = time.perf_counter()
worst = max(float(np.abs(compiled(x, w, b) - layer(x, w, b)).max()) for x in batches)
stats = compiled.stats()
print(json.dumps({"seconds": time.perf_counter() - start, "worst": worst, "calls": stats.calls,
    "compilations": stats.compilations, "cache_hits": stats.cache_hits}))
"""


def run(mode: str, cache: str) -> dict[str, Any]:
    """Statistics of a fresh process that calls the function with 50 batch sizes."""
    environment = {**os.environ, "MLC_CACHE_DIR": cache}
    command = [sys.executable, "-c", PROGRAM, mode]
    root = Path(__file__).parent.parent
    return json.loads(subprocess.check_output(command, env=environment, text=True, cwd=root))


def main() -> None:
    """Print the table."""
    options = settings("compilations for 50 batch sizes")
    table = Table(
        "tanh(x @ w + b) for 50 batch sizes",
        ["sizes", "process", "compilations", "from the cache", "50 calls", "largest difference"],
    )
    for mode in ("dynamic", "static"):
        with tempfile.TemporaryDirectory() as cache:
            for process in ("first", "second"):
                found = run(mode, cache)
                label = 'dynamic={"x": {0: "B"}}' if mode == "dynamic" else "not announced"
                table.add(
                    label,
                    process,
                    found["compilations"],
                    found["cache_hits"],
                    float(found["seconds"]),
                    f"{found['worst']:.1e}",
                )
    report(options, table)


if __name__ == "__main__":
    main()
