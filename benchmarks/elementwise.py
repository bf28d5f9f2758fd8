"""
E = D + (A + B) * C: one kernel or three, its arithmetic intensity, its time and its memory.

Fused, 3 operations touch 5 elements per point (4 read, 1 written); as three kernels each of them
does 1 operation for 3. Source: the lecture documents' "which program performs better?" (S24-S26).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

import mlc
from benchmarks.harness import Table, compare, compiled, report, settings
from mlc.dialects.target import named_target
from mlc.options import Options
from mlc.passes.report.report import plan_of, total
from mlc.pipeline import run_pipeline

SIZES = (10**4, 10**6, 10**7)
PLANS: dict[str, Literal["none", "exact"]] = {"unfused": "none", "fused": "exact"}
Array = np.ndarray[Any, np.dtype[np.float32]]


def fused(a: Array, b: Array, c: Array, d: Array) -> Array:
    """E = D + (A + B) * C, every operand (n,)."""
    return d + (a + b) * c


def intensities(size: int) -> Table:
    """Operations per element moved, as planned with and without fusion."""
    table = Table(
        f"Arithmetic intensity of E = D + (A + B) * C on {size:,} float32",
        ["plan", "kernels", "operations", "bytes", "per element", "per byte"],
    )
    spec = mlc.TensorSpec(size, dtype="f32")
    low = compiled(fused).lower(spec, spec, spec, spec)
    target = named_target("avx512")
    for name, fusion in PLANS.items():
        module = run_pipeline(low.module, Options(target=target, fusion=fusion), until="plan")
        plan = plan_of(module, target, {})
        work = total(plan)
        table.add(
            name,
            len(plan.kernels),
            f"{work.flops:,}",
            f"{work.bytes:,}",
            Fraction(work.flops, work.accesses),
            f"{work.intensity:.3f}",
        )
    return table


def candidates(size: int, threads: int) -> dict[str, Callable[[], object]]:
    """The ways to compute it. Every call returns a fresh array, as a user gets it."""
    rng = np.random.default_rng(1)
    a, b, c, d = (rng.standard_normal(size, np.float32) for _ in range(4))
    fast = compiled(fused)
    found: dict[str, Callable[[], object]] = {
        "mlc": lambda: fast(a, b, c, d),
        "NumPy": lambda: fused(a, b, c, d),
    }
    try:
        numexpr: Any = import_module("numexpr")  # it has no types
    except ImportError:
        print("numexpr is not installed (extra `test`): left out", file=sys.stderr)
    else:
        operands = {"a": a, "b": b, "c": c, "d": d}
        found["numexpr"] = lambda: numexpr.evaluate("d + (a + b) * c", local_dict=operands)
    if threads > 1:
        serial = compiled(fused, threads=1)
        found["mlc, 1 thread"] = lambda: serial(a, b, c, d)
    return found


MEMORY = """
import numpy as np, re, sys
import mlc
from benchmarks.elementwise import fused
def status(name):
    return int(re.search(name + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
size = int(sys.argv[1])
compiled = mlc.compile(dynamic=True)(fused)
compiled(*(np.ones(1000, np.float32) for _ in range(4)))
arrays = [np.ones(size, np.float32) for _ in range(4)]
try:
    open("/proc/self/clear_refs", "w").write("5")   # the high-water mark falls to what is used now
except OSError:
    pass
before = status("VmHWM")
result = compiled(*arrays)
growth = status("VmHWM") - before
arena = compiled.lower(*arrays).compile().memory().arena_bytes
print(growth, result.nbytes, arena)
"""


def memory(size: int) -> Table:
    """Growth of the process's peak memory (VmHWM) during one call, in a process of its own."""
    command = [sys.executable, "-c", MEMORY, str(size)]
    output = subprocess.check_output(command, text=True, cwd=Path(__file__).parent.parent)
    growth, result, arena = map(int, output.split())
    table = Table(
        f"Peak memory of one call on {size:,} float32",
        ["", "growth of VmHWM", "result + arena", "ratio"],
    )
    table.add("mlc", f"{growth:,} B", f"{result + arena:,} B", f"{growth / (result + arena):.3f}")
    return table


def main() -> None:
    """Print intensities, times and memory."""
    options = settings("E = D + (A + B) * C against NumPy and numexpr")
    sizes = SIZES[:2] if options.quick else SIZES
    times = compare(
        "E = D + (A + B) * C, float32",
        {f"{n:,}": candidates(n, options.threads) for n in sizes},
        options,
        notes={f"{n:,}": lambda s, n=n: f"{20 * n / s / 1e9:.1f} GB/s" for n in sizes},
    )
    report(options, intensities(sizes[-1]), times, memory(sizes[-1]))


if __name__ == "__main__":
    main()
