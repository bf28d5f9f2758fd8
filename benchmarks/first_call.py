"""
The first call: seconds per stage with an empty cache, with a full one, and of the import.

Every row is the median over fresh processes. `trace` makes the tensor-level program, `passes` are
those of the levels tensor and plan, `lowering` goes from the plan to LLVM IR text, `LLVM` makes and
loads the object code. The rest of a first call is the call itself and the bookkeeping around it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.harness import Table, report, settings

PROGRAM = """
import json, sys, time
import numpy as np
start = time.perf_counter()
import mlc
imported = time.perf_counter() - start
rng = np.random.default_rng(5)
x = rng.standard_normal((256, 64), np.float32)
w = rng.standard_normal((64, 64), np.float32)

def elementwise(x, w):
    return x + x * x

def matmul(x, w):
    return x @ w

def softmax(x, w):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)

def layers(x, w):
    for _ in range(8):
        x = np.tanh(x @ w)
    return x

compiled = mlc.compile(globals()[sys.argv[1]])
start = time.perf_counter()
compiled(x, w)
first = time.perf_counter() - start
print(json.dumps({"import": imported, "first": first, **compiled.stats().stages()}))
"""
FUNCTIONS = ("elementwise", "matmul", "softmax", "layers")
STAGES = ("trace", "passes", "lowering", "LLVM")
ROOT = Path(__file__).parent.parent


def run(function: str, cache: str) -> dict[str, float]:
    """Seconds of each stage of the first call in a fresh process."""
    environment = {**os.environ, "MLC_CACHE_DIR": cache}
    command = [sys.executable, "-c", PROGRAM, function]
    return json.loads(subprocess.check_output(command, env=environment, text=True, cwd=ROOT))


def medians(function: str, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Medians with an empty cache and with the cache that such a process left."""
    cold: list[dict[str, float]] = []
    warm: list[dict[str, float]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(run(function, cache))
            warm.append(run(function, cache))
    names = ("first", *STAGES)
    first, second = (
        {name: statistics.median(found.get(name, 0.0) for found in runs) for name in names}
        for runs in (cold, warm)
    )
    return first, second


def import_s(statement: str, rounds: int) -> float:
    """Median wall-clock seconds of a process that runs the statement, less that of an empty one."""

    def process(program: str) -> float:
        timer = "import time; t = time.perf_counter()\n%s\nprint(time.perf_counter() - t)"
        command = [sys.executable, "-c", timer % program]
        return float(subprocess.check_output(command, text=True, cwd=ROOT))

    return statistics.median(process(statement) for _ in range(rounds))


def main() -> None:
    """Print the stages and the import."""
    options = settings("the first call, stage by stage")
    rounds = max(3, options.rounds // 3)
    table = Table(
        "First call in a fresh process", ["function", "cache", *STAGES, "whole first call"]
    )
    for function in FUNCTIONS[:2] if options.quick else FUNCTIONS:
        for cache, found in zip(("empty", "full"), medians(function, rounds), strict=True):
            table.add(function, cache, *(float(found[s]) for s in STAGES), float(found["first"]))
    imports = Table("Import", ["statement", "seconds", "of NumPy's"])
    numpy_s = import_s("import numpy", rounds)
    for statement in ("import numpy", "import mlc", "import numpy, mlc"):
        seconds = import_s(statement, rounds)
        imports.add(statement, seconds, f"{seconds / numpy_s:.2f}")
    report(options, table, imports)


if __name__ == "__main__":
    main()
