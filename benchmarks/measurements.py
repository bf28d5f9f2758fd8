"""
The measurements behind constants in the source: docs/measurements.md holds their results.

    python -m benchmarks.measurements --threads 1
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import mlc.native
from benchmarks.harness import Table, compiled, medians, report, settings, time_text
from mlc import knobs
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.dialects.target import CpuTarget
from mlc.dialects.tile.nest_words import Unroll, Vector
from mlc.dialects.tile.words import Edge, Grain, Pack, Register, Via
from mlc.executable import compile_module
from mlc.levels import emit_units
from mlc.options import Options
from mlc.passes.plan.tiling.schedule import choose_register_tile
from mlc.passes.tensor.merge_siblings import MergeSiblingsPass
from mlc.pipeline import run_pipeline
from mlc.runtime.llvm import compile_object
from mlc.runtime.objects import object_of
from mlc.runtime.probe import host_target
from mlc.text import parse_text

Array = np.ndarray[Any, Any]
Change = Callable[[Schedule], Schedule]


def with_schedule(function: Callable[..., Any], change: Change, *arrays: Array) -> Any:
    """The function compiled for these arrays, every kernel's schedule changed first."""
    low = compiled(function).lower(*arrays)
    options = Options(target=host_target(), threads=1)
    module = run_pipeline(low.module, options, until="plan")
    for op in module.walk():
        if isinstance(op, KernelOp) and op.schedule is not None:
            op.properties["schedule"] = ScheduleAttr(change(op.schedule.data))
    return compile_module(module, low.signature, options).builtin


def packed(target: CpuTarget, item: int, tile: tuple[int, int] | None = None) -> Change:
    """The schedule with packing and the given register tile (rows, vectors), or the chosen one."""
    rows, vectors = tile or choose_register_tile(target, item)
    columns = vectors * target.lanes(8 * item)
    words = (
        Pack("b", columns), Register(rows, columns), Via("fma"), Edge("m", "clamp"),
        Edge("n", "mask"), Grain(1 << 30),
    )  # fmt: skip
    return lambda _: Schedule(words)


def unpacked(_: Schedule) -> Schedule:
    """The schedule of a reduction: no tile, no packing."""
    return Schedule((Vector(host_target().lanes(32), 1), Unroll(8), Grain(1 << 30)))


def matmul(a: Array, b: Array) -> Array:
    """a @ b."""
    return a @ b


def square(n: int) -> tuple[Array, Array]:
    """Two random matrices of n x n float32."""
    rng = np.random.default_rng(n)
    return rng.random((n, n), np.float32), rng.random((n, n), np.float32)


SMALL = (
    *((n, n, n) for n in (8, 12, 16, 20, 24, 32, 48, 64, 96)),
    *((64, 16, 10), (4, 64, 64), (128, 8, 16), (16, 64, 8), (64, 128, 10)),
)  # (m, k, n)


def packing(rounds: int) -> Table:
    """From which size on packing pays: dialects/analysis/matmul_axes.py."""
    table = Table(
        "Packing: products of m x k and k x n float32",
        ["m, k, n", "multiplications", "unpacked", "packed", "unpacked / packed", "NumPy"],
    )
    change = packed(host_target(), 4)
    rng = np.random.default_rng(5)
    for m, k, n in SMALL:
        a, b = rng.random((m, k), np.float32), rng.random((k, n), np.float32)
        calls = {
            "unpacked": partial(with_schedule(matmul, unpacked, a, b), a, b),
            "packed": partial(with_schedule(matmul, change, a, b), a, b),
            "NumPy": partial(matmul, a, b),
        }
        found = medians(calls, rounds)
        ratio = f"{found['unpacked'] / found['packed']:.2f}"
        cells = (found["unpacked"], found["packed"], ratio, found["NumPy"])
        table.add(f"{m}, {k}, {n}", f"{m * k * n:,}", *cells)
    return table


SIBLINGS = ((32, 256, 64), (64, 64, 64), (128, 256, 256), (128, 512, 64), (512, 512, 512))


def three(x: Array, a: Array, b: Array, c: Array) -> Array:
    """What reads the columns of three products."""
    return (x @ a).sum(axis=0) + (x @ b).sum(axis=0) + (x @ c).sum(axis=0)


def _nothing(*arguments: Any) -> None:
    """The pass, left out."""


def siblings(rounds: int) -> Table:
    """Products of one tensor with three factors, apart and as one: passes/tensor/merge_siblings."""
    table = Table(
        "Merged siblings: m x k with three k x n float32",
        ["m, k, n", "apart", "one", "one / apart"],
    )
    rng = np.random.default_rng(5)
    for m, k, n in SIBLINGS:
        arrays = [rng.random(s, np.float32) for s in ((m, k), (k, n), (k, n), (k, n))]
        calls: dict[str, Callable[[], Any]] = {}
        passes: dict[str, Any] = {"one": MergeSiblingsPass.apply, "apart": _nothing}
        for name, run in passes.items():
            with fresh_cache(), mock.patch.object(MergeSiblingsPass, "apply", run):
                function = compiled(three).lower(*arrays).compile().builtin
            calls[name] = partial(function, *arrays)
        found = medians(calls, rounds)
        ratio = f"{found['one'] / found['apart']:.2f}"
        table.add(f"{m}, {k}, {n}", found["apart"], found["one"], ratio)
    return table


TILES = ((4, 2), (8, 2), (12, 2), (14, 2), (4, 4), (6, 4), (8, 3), (9, 3), (5, 4), (13, 2))


def tiles(rounds: int) -> Table:
    """Which register tile is fastest: passes/plan/tiling/schedule.py."""
    target = host_target()
    lanes = target.lanes(32)
    chosen = choose_register_tile(target, 4)
    table = Table(
        "Register tiles: 768 x 768 float32 product, 1 thread",
        ["tile", "registers", "loads per FMA", "time", "GFLOP/s"],
    )
    a, b = square(768)
    fitting = [t for t in TILES if t[0] * t[1] + t[1] + 1 <= target.num_vector_registers]
    calls = {t: partial(with_schedule(matmul, packed(target, 4, t), a, b), a, b) for t in fitting}
    found = medians({str(t): call for t, call in calls.items()}, rounds)
    for rows, vectors in sorted(calls, key=lambda t: found[str(t)]):
        seconds = found[str((rows, vectors))]
        table.add(
            f"{rows} x {vectors * lanes}" + (" (chosen)" if (rows, vectors) == chosen else ""),
            str(rows * vectors + vectors + 1),
            f"{(rows + vectors) / (rows * vectors):.2f}",
            seconds,
            f"{2 * 768**3 / seconds / 1e9:.0f}",
        )
    return table


def softmax(x: Array) -> Array:
    """Along the last axis."""
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def multiply_add(a: Array, b: Array) -> Array:
    """a + b * a."""
    return a + b * a


def llvm_levels(rounds: int) -> Table:
    """LLVM's pipelines: time to compile, time of the code. runtime/llvm.py."""
    table = Table(
        "LLVM pipeline levels, 1 thread",
        [
            "function",
            *(f"compile, level {n}" for n in range(4)),
            *(f"run, level {n}" for n in range(4)),
        ],
    )
    a, b = square(512)
    cases: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
        "a @ b, 512": (matmul, (a, b)),
        "softmax, 512 x 512": (softmax, (a,)),
        "a + b * a": (multiply_add, (a, b)),
    }
    for name, (function, arrays) in cases.items():
        compile_s: list[float] = []
        calls: dict[str, Callable[[], object]] = {}
        for level in range(4):
            with (
                fresh_cache(),
                mock.patch.object(mlc.native, "object_of", partial(object_of, opt_level=level)),
            ):
                low = compiled(function).lower(*arrays)
                options = Options(target=host_target(), threads=1)
                exe = compile_module(low.module, low.signature, options)
                calls[str(level)] = partial(exe.builtin, *arrays)
                loops = run_pipeline(low.module, options)
                texts = emit_units(loops, host_target())
            start = time.perf_counter()
            for unit in texts:
                compile_object(unit.text, host_target(), opt_level=level)
            compile_s.append(time.perf_counter() - start)
        found = medians(calls, rounds)
        table.add(name, *compile_s, *(found[str(level)] for level in range(4)))
    return table


@contextmanager
def fresh_cache() -> Generator[None, None, None]:
    """No object of an earlier run is found."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder, knobs.scope(cache_dir=Path(folder)):
        yield


def one(x: Array) -> Array:
    """1 addition."""
    return x + 1.5


def nine(x: Array) -> Array:
    """9 additions, none of which may be joined with another."""
    return x + 1.5 + 1.5 + 1.5 + 1.5 + 1.5 + 1.5 + 1.5 + 1.5 + 1.5


OPS: dict[str, Callable[[Array], Array]] = {
    "x + c": one,
    "x * c": lambda x: x * 1.5,
    "c / x": lambda x: 1.5 / x,
    "sqrt": lambda x: np.sqrt(x),  # noqa: PLW0108 - a ufunc has no source
    "exp": lambda x: np.exp(x),  # noqa: PLW0108
    "log": lambda x: np.log(x),  # noqa: PLW0108
    "tanh": lambda x: np.tanh(x),  # noqa: PLW0108
    "gather": lambda x: x[INDEX],
}
INDEX = np.random.default_rng(7).permutation(4096)


def _sort(rows: int, columns: int) -> Any:
    """`mlc.sort` along the rows of a float32 matrix."""
    kind = f"tensor<{rows}x{columns}xf32>"
    text = f"""func.func @sort(%x: {kind}) -> {kind} {{
      %0 = mlc.sort "ascending" %x : {kind} -> {kind}
      func.return %0 : {kind}
    }}"""
    spec = ("f32", (rows, columns))
    signature = EntrySignature((ArgSpec("array", *spec, "c"),), (ResultSpec(*spec),), ())
    options = Options(target=host_target(), threads=1)
    return compile_module(parse_text(text, "sort"), signature, options).builtin


def weights(rounds: int) -> Table:
    """Time of an op relative to an addition: `WEIGHT`. Loads, stores and the call are taken off."""
    x = np.random.default_rng(6).random(4096, np.float32) + np.float32(0.5)
    functions = {**OPS, "nine": nine}
    calls: dict[str, Callable[[], object]] = {
        name: partial(compiled(function, threads=1, numerics="strict"), x)
        for name, function in functions.items()
    }
    calls["sort, rows of 64"] = partial(_sort(64, 64), x.reshape(64, 64))
    calls["sort, row of 4096"] = partial(_sort(1, 4096), x.reshape(1, 4096))
    found = medians(calls, rounds)
    addition = (found["nine"] - found["x + c"]) / 8
    table = Table("Op weights: 4,096 float32", ["op", "per element", "of an addition"])
    for name in (name for name in calls if name != "nine"):
        seconds = found[name] - found["x + c"] + addition
        table.add(name, f"{seconds / x.size * 1e12:.0f} ps", f"{seconds / addition:.1f}")
    return table


SPIN = """
import sys, time
import numpy as np
import mlc
f = mlc.compile(threads=2)(lambda a: a.sum(axis=1))
a = np.ones((1000, 1000), np.float32)
samples = []
for _ in range(int(sys.argv[1])):
    start = time.perf_counter()
    f(a)
    samples.append(time.perf_counter() - start)
print(sorted(samples)[len(samples) // 2], sorted(samples)[len(samples) * 95 // 100])
"""


def spinning(rounds: int) -> Table:
    """How long idle threads should spin, alone and beside as many busy processes as cores."""
    table = Table(
        "Spinning of idle threads: sum of 1000 x 1000 float32 over rows, 2 threads",
        ["GOMP_SPINCOUNT", "beside", "median", "95 % are below"],
    )
    for busy in (0, os.cpu_count() or 1):
        burners = [
            subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)
        ]
        try:
            for count in ("500", "300000"):
                environment = {**os.environ, "OMP_NUM_THREADS": "2", "GOMP_SPINCOUNT": count}
                command = [sys.executable, "-c", SPIN, str(100 * rounds)]
                output = subprocess.check_output(command, env=environment, text=True)
                table.add(count, f"{busy} busy processes", *map(float, output.split()))
        finally:
            for burner in burners:
                burner.kill()
    return table


def main() -> None:
    """Print every table."""
    options = settings("measurements behind constants in the source")
    tables = (weights, packing, siblings, tiles, llvm_levels, spinning)
    report(options, *(table(options.rounds) for table in tables))
    print(f"shortest sample {time_text(2e-3)}")


if __name__ == "__main__":
    main()
