"""
The first call: seconds per stage with an empty cache, with a full one, and of the import.

Every number is a median over fresh processes. `imports` are the parts of the compiler that `import
mlc` leaves out, `trace` makes the tensor-level program, `passes` are those of the levels tensor and
plan, `lowering` goes from the plan to LLVM IR text, `LLVM` to object code, `load` links it.
`whole first call` is measured in processes of its own, with nothing taken apart.
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
import mlc
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
if sys.argv[2] == "whole":
    compiled(x, w)
    print(json.dumps({"whole": time.perf_counter() - start}))
else:
    import mlc.executable, mlc.frontend.call.lowered, mlc.frontend.call.program, mlc.frontend.numpy
    import mlc.lowering.plan_to_loops, mlc.registry
    for name in mlc.registry.PASSES:
        mlc.registry.load(name)
    imports = time.perf_counter() - start
    start = time.perf_counter()
    low = compiled.lower(x, w)
    trace = time.perf_counter() - start
    executable = low.compile()
    executable(x, w)
    s = {"tensor": 0, "plan": 0, "loops": 0, "emit": 0, "llvm": 0, **executable.times_s}
    print(json.dumps({"imports": imports, "trace": trace, "passes": s["tensor"] + s["plan"],
        "lowering": s["loops"] + s["emit"], "LLVM": s["llvm"], "load": s["load"]}))
"""
FUNCTIONS = ("elementwise", "matmul", "softmax", "layers")
STAGES = ("imports", "trace", "passes", "lowering", "LLVM", "load")
ROOT = Path(__file__).parent.parent


def run(function: str, mode: str, cache: str) -> dict[str, float]:
    """Seconds of the first call in a fresh process, whole or by stages."""
    environment = {**os.environ, "MLC_CACHE_DIR": cache}
    command = [sys.executable, "-c", PROGRAM, function, mode]
    return json.loads(subprocess.check_output(command, env=environment, text=True, cwd=ROOT))


def medians(function: str, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Medians with an empty cache and with the cache that such a process left."""
    samples: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    for _ in range(rounds):
        for mode in ("whole", "stages"):
            with tempfile.TemporaryDirectory() as cache:
                for runs in samples:
                    for name, seconds in run(function, mode, cache).items():
                        runs.setdefault(name, []).append(seconds)
    cold, warm = samples
    return (
        {name: statistics.median(found) for name, found in cold.items()},
        {name: statistics.median(found) for name, found in warm.items()},
    )


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
            table.add(function, cache, *(float(found[s]) for s in STAGES), float(found["whole"]))
    imports = Table("Import", ["statement", "seconds", "of NumPy's"])
    numpy_s = import_s("import numpy", rounds)
    for statement in ("import numpy", "import mlc", "import numpy, mlc"):
        seconds = import_s(statement, rounds)
        imports.add(statement, seconds, f"{seconds / numpy_s:.2f}")
    report(options, table, imports)


if __name__ == "__main__":
    main()
