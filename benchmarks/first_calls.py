"""
First calls beside JAX's: fresh processes in turns, medians; a second function of the same process.

`call` is the first call without `import mlc, numpy` or `import jax` (which imports its compiler),
`process` the whole process, `cached` a first call whose program an earlier process has compiled,
`second` the first call of `x - 2 * x` after it. mlc's `unrolled` has no loops that are rolled.
`--peers` names an interpreter that has JAX, where this one has not.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import Table, report, settings

ROOT = Path(__file__).parent.parent
PROGRAM = """
import json, sys, time
begin = time.perf_counter()
import numpy as np
if sys.argv[1] == "jax":
    import jax
    import jax.numpy as xp
    compiled, grad = lambda f: (lambda *a, g=jax.jit(f): jax.block_until_ready(g(*a))), jax.value_and_grad
else:
    import mlc
    compiled, grad, xp = mlc.compile, mlc.value_and_grad, np
imports = time.perf_counter() - begin
sys.path.insert(0, {root!r})
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("cases", {root!r} + "/benchmarks/first_call_cases.py")
cases = module_from_spec(spec)
sys.modules["cases"] = cases
spec.loader.exec_module(cases)
function, given = cases.CASES[sys.argv[2]](xp, grad)
start, cpu = time.perf_counter(), time.process_time()
compiled(function)(*given)
call, cpu = time.perf_counter() - start, time.process_time() - cpu
start = time.perf_counter()
compiled(lambda x: x - 2 * x)(np.ones((256, 64), np.float32))
second = time.perf_counter() - start
print(json.dumps(dict(imports=imports, call=call, cpu=cpu, second=second)))
"""


def run(python: str, library: str, case: str, cache: str) -> dict[str, float]:
    """Seconds of one fresh process."""
    environment = {**os.environ, "MLC_CACHE_DIR": cache}
    command = [python, "-c", PROGRAM.format(root=str(ROOT)), library, case]
    start = time.perf_counter()
    said = subprocess.check_output(command, env=environment, text=True, cwd=ROOT)
    return {"process": time.perf_counter() - start, **json.loads(said.splitlines()[-1])}
