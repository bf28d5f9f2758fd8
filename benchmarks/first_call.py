"""
The first call: seconds per stage with an empty cache, with a full one, and of the import.

Every number is a median over fresh processes. `imports` are the parts of the compiler that `import
mlc` leaves out, `trace` makes the tensor-level program; then come the levels. `loops` makes one
function after the other, each of which `LLVM text` writes down and a thread compiles meanwhile;
`LLVM` is what that takes beyond both, `load` links the objects. `whole first call` is measured in
processes of its own, with nothing taken apart; `process` is all of such a process, from the start
of the interpreter to its end. `Passes` says what each pass takes of the largest program, `Lines`
how long the programs' loops are.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
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

given = x, w
if sys.argv[1] in ("mlp_step", "transformer_step"):
    from benchmarks.zoo.model import Draw
    from benchmarks.zoo.networks import _block, _perceptron, mlp_step, transformer_step
    given = _perceptron(Draw(), 64) if sys.argv[1] == "mlp_step" else _block(Draw(), 256)
    if sys.argv[1] == "transformer_step":
        given = *given, given[1]

compiled = mlc.compile(globals()[sys.argv[1]])
start = time.perf_counter()
if sys.argv[2] == "whole":
    compiled(*given)
    print(json.dumps({"whole": time.perf_counter() - start}))
else:
    import mlc.executable, mlc.frontend.call.lowered, mlc.frontend.call.program, mlc.frontend.numpy
    import mlc.lowering.plan_to_loops, mlc.registry
    for name in mlc.registry.PASSES:
        mlc.registry.load(name)
    imports = time.perf_counter() - start
    start = time.perf_counter()
    low = compiled.lower(*given)
    trace = time.perf_counter() - start
    executable = low.compile()
    executable(*low.arguments())
    s = {"emit": 0, "llvm": 0, **executable.times_s}
    levels = {name: s.get(name, 0) for name in ("tensor", "plan", "tiles", "loops")}
    passes = {f"pass {name}": 0.0 for name, _ in executable.passes_s}
    for name, seconds in executable.passes_s:
        passes[f"pass {name}"] += seconds
    print(json.dumps({"imports": imports, "trace": trace, **levels, "LLVM text": s["emit"],
        "LLVM": s["llvm"], "load": s["load"], **passes,
        "lines": low.text("loops").count(chr(10))}))
"""
FUNCTIONS = ("elementwise", "matmul", "softmax", "layers", "mlp_step", "transformer_step")
STAGES = ("imports", "trace", "tensor", "plan", "tiles", "loops", "LLVM text", "LLVM", "load")
ROOT = Path(__file__).parent.parent


def run(function: str, mode: str, cache: str) -> dict[str, float]:
    """Seconds of the first call in a fresh process, whole or by stages."""
    environment = {**os.environ, "MLC_CACHE_DIR": cache}
    command = [sys.executable, "-c", PROGRAM, function, mode]
    start = time.perf_counter()
    said = subprocess.check_output(command, env=environment, text=True, cwd=ROOT)
    process = {"process": time.perf_counter() - start} if mode == "whole" else {}
    return {**json.loads(said), **process}


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
        "First call in a fresh process",
        ["function", "cache", *STAGES, "whole first call", "process"],
    )
    passes, lines = Table("Passes", ["pass", "seconds"]), Table("Lines", ["function", "of loops"])
    for function in FUNCTIONS[:2] if options.quick else FUNCTIONS:
        cold, warm = medians(function, rounds)
        if function == FUNCTIONS[-1]:
            of_passes = [(n.removeprefix("pass "), v) for n, v in cold.items() if n[:5] == "pass "]
            for name, seconds in of_passes:
                passes.add(name, float(seconds))
        for cache, found in (("empty", cold), ("full", warm)):
            shown = (*STAGES, "whole", "process")
            table.add(function, cache, *(float(found[s]) for s in shown))
        lines.add(function, int(cold["lines"]))
    imports = Table("Import", ["statement", "seconds", "of NumPy's"])
    numpy_s = import_s("import numpy", rounds)
    for statement in ("import numpy", "import mlc", "import numpy, mlc"):
        seconds = import_s(statement, rounds)
        imports.add(statement, seconds, f"{seconds / numpy_s:.2f}")
    report(options, table, passes, lines, imports)


if __name__ == "__main__":
    main()
