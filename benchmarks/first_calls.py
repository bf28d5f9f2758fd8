"""
First calls beside JAX's: a table of fresh processes, which take turns.

`call` is the first call, with what of the compiler it imports (JAX imports its compiler before);
`process` the whole process, and `processor` its processor time; `cached` a first call whose program
another process has compiled; `second` the first call of `x - 2 * x` behind it. `--peers` names an
interpreter that has JAX, where this one has not; `--only` some of the programs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.first_call_cases import CASES
from benchmarks.harness import Table

ROOT = Path(__file__).parent.parent
PROGRAM = """
import json, sys, time
import numpy as np
from benchmarks.first_call_cases import CASES
if sys.argv[1] == "JAX":
    import jax
    start = time.perf_counter()
    function, given = CASES[sys.argv[2]](jax.numpy, jax.value_and_grad)
    def compiled(f):
        made = jax.jit(f)
        return lambda *args: jax.block_until_ready(made(*args))
else:
    import mlc
    start = time.perf_counter()
    function, given = CASES[sys.argv[2]](np, lambda f: mlc.value_and_grad(f))
    compiled = lambda f: mlc.compile(f)
compiled(function)(*given)
call = time.perf_counter() - start
start = time.perf_counter()
compiled(lambda x: x - 2 * x)(np.ones((256, 64), np.float32))
print(json.dumps({"call": call, "second": time.perf_counter() - start}))
"""


def run(python: str, library: str, case: str, cache: str) -> dict[str, float]:
    """Seconds of one fresh process."""
    environment = {**os.environ, "MLC_CACHE_DIR": cache}
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [python, "-c", PROGRAM, library, case]
    said = subprocess.check_output(command, env=environment, text=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    whole = {"process": time.perf_counter() - start, "processor": processor}
    return {**whole, **json.loads(said.splitlines()[-1])}


def medians(case: str, peers: str, rounds: int) -> dict[str, float]:
    """Of one program, by library and what is measured."""
    samples: dict[str, list[float]] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            found = {name: run(sys.executable, "mlc", case, cache) for name in ("mlc", "cached")}
        found["JAX"] = run(peers, "JAX", case, "")
        for name, seconds in found.items():
            for kind, value in seconds.items():
                samples.setdefault(f"{name} {kind}", []).append(value)
    return {name: statistics.median(values) for name, values in samples.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="first calls beside JAX's")
    parser.add_argument("--peers", default=sys.executable, help="an interpreter that has JAX")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", help="a part of a program's name")
    given = parser.parse_args(arguments)
    kinds = ("call", "process", "processor", "second")
    columns = [f"{name} {kind}" for kind in kinds for name in ("mlc", "JAX")]
    table = Table("First calls in fresh processes", ["program", "mlc cached call", *columns])
    for case in CASES:
        if given.only is None or any(part in case for part in given.only):
            found = medians(case, given.peers, given.rounds)
            table.add(case, found["cached call"], *(found[name] for name in columns))
            print(*table.rows[-1], sep="  ", flush=True)
    print(table.text())


if __name__ == "__main__":
    main()
