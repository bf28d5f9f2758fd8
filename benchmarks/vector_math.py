"""
Vector math of passes/loop against NumPy: nanoseconds per element on data in
the level-1 cache, one thread; then compiled functions on 10⁶ elements, with one thread and two.
Run: python -m benchmarks.vector_math
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, memref, scf, vector
from xdsl.parser import Parser

import mlc
from mlc.dialects.par import MlcPar
from mlc.dialects.target.attribute import ATTRIBUTE, TargetAttr
from mlc.dialects.vec import MlcVec
from mlc.lowering.emit import emit_kernel
from mlc.passes.loop.expand_math import ExpandMathPass
from mlc.runtime.jit import LoadedCode, load
from mlc.runtime.llvm import compile_object
from mlc.runtime.probe import host_target

DIALECTS = (
    *(builtin.Builtin, arith.Arith, func.Func, math.Math, memref.MemRef, scf.Scf, vector.Vector),
    *(MlcPar, MlcVec),
)
FUNCTIONS = {
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.log": np.log,
    "math.log2": np.log2,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tan": np.tan,
    "math.asin": np.arcsin,
    "math.acos": np.arccos,
    "math.atan": np.arctan,
    "math.sinh": np.sinh,
    "math.cosh": np.cosh,
    "math.tanh": np.tanh,
    "math.asinh": np.arcsinh,
    "math.acosh": np.arccosh,
    "math.atanh": np.arctanh,
    "math.cbrt": np.cbrt,
}
CHUNK_BYTES = 8192
"""Source and result together fill a third of a 48 KiB level-1 cache."""
SWEEPS = 64
"""Sweeps over the chunk inside one call, so that the call itself does not count."""


def compiled(name: str, dtype: str, lanes: int) -> LoadedCode:
    """The kernel: `sweeps` times out[i] = name(x[i]), i < n."""
    shape = f"vector<{lanes}x{dtype}>"
    memory = f"memref<?x{dtype}>"
    text = f"""
    func.func @k(%sweeps: index, %n: index, %x: {memory} {{mlc.readonly}},
                 %out: {memory} {{mlc.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %step = arith.constant {lanes} : index
      scf.for %s = %c0 to %sweeps step %c1 {{
        scf.for %i = %c0 to %n step %step {{
          %v = vector.load %x[%i] : {memory}, {shape}
          %r = {name} %v : {shape}
          vector.store %r, %out[%i] : {memory}, {shape}
        }}
      }}
      return
    }}"""
    context = Context()
    for dialect in DIALECTS:
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
    target = host_target()
    module.attributes[ATTRIBUTE] = TargetAttr(target)
    ExpandMathPass().apply(context, module)
    kernel = next(op for op in module.ops if isinstance(op, func.FuncOp))
    image = compile_object(emit_kernel(kernel, target), target)
    return load([image], imports={}, exports=["k"])


def best_seconds(run: Callable[[], object], repeats: int = 15) -> float:
    """The shortest of some runs: what the machine does when nobody disturbs it."""
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def aligned(size: int, dtype: type[np.floating], offset_bytes: int) -> np.ndarray:
    """An array `offset_bytes` after a page: source and result must not share low address bits."""
    raw = np.zeros(size * 8 + 8192, np.uint8)
    start = (-raw.ctypes.data) % 4096 + offset_bytes
    return raw[start : start + size * np.dtype(dtype).itemsize].view(dtype)


PROGRAMS = (*FUNCTIONS.values(), np.power, np.arctan2)
ELEMENTS = 1_000_000
ROUNDS, CALLS = 25, 6
"""Calls in a row, so that the threads of the first are still awake at the second."""


def whole_programs() -> None:
    """Prints NumPy's time and how much faster compiled functions are, one line each."""
    rng = np.random.default_rng(0)
    print(f"{'':14}{'NumPy':>10}{'1 thread':>11}{'2 threads':>11}")
    for scalar in (np.float32, np.float64):
        for function in PROGRAMS:
            inside = rng.uniform(0.01, 0.99, ELEMENTS)
            x = (inside + 1 if function is np.arccosh else inside).astype(scalar)
            exponents = rng.uniform(-2, 2, ELEMENTS).astype(scalar)
            theirs, one, two = _best_of_three(function, (x, exponents)[: function.nin])
            name = f"{function.__name__} f{8 * x.itemsize}"
            print(f"{name:14}{theirs * 1e3:7.3f} ms{theirs / one:10.1f}x{theirs / two:10.1f}x")


def _best_of_three(function: np.ufunc, x: tuple[np.ndarray, ...]) -> list[float]:
    """Shortest seconds of NumPy, of mlc with one thread, and with two; they take turns."""

    def program(*values: np.ndarray) -> np.ndarray:
        return function(*values)

    own = mlc.compile(program)
    out = np.empty_like(x[0])
    best = [float("inf")] * 3
    for _ in range(ROUNDS):
        best[0] = min(best[0], best_seconds(lambda: function(*x, out=out), CALLS))
        for threads in (1, 2):
            mlc.set_threads(threads)
            best[threads] = min(best[threads], best_seconds(lambda: own(*x), CALLS))
    return best


def main() -> None:
    """Prints one line per function and format."""
    target = host_target()
    print(f"{target.cpu_name}, {target.vector_bits}-bit vectors, one thread")
    print(f"{'':12}{'mlc':>10}{'per vector':>14}{'NumPy':>10}{'ratio':>8}")
    rng = np.random.default_rng(0)
    for dtype, scalar in (("f32", np.float32), ("f64", np.float64)):
        size = CHUNK_BYTES // np.dtype(scalar).itemsize
        lanes = target.lanes(8 * np.dtype(scalar).itemsize)
        x, out = aligned(size, scalar, 0), aligned(size, scalar, 2048)
        inside = rng.uniform(0.01, 0.99, size)  # where every function but acosh is defined
        for name, reference in FUNCTIONS.items():
            x[:] = inside + 1 if name == "math.acosh" else inside
            code = compiled(name, dtype, lanes)
            words = (ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
            call = ctypes.CFUNCTYPE(None, *words)(code.address("k"))
            arguments = (SWEEPS, size, x.ctypes.data, out.ctypes.data)
            own = best_seconds(lambda call=call, a=arguments: call(*a)) / (SWEEPS * size)
            theirs = best_seconds(
                lambda f=reference, a=x, o=out: [f(a, out=o) for _ in range(SWEEPS)]
            ) / (SWEEPS * size)
            print(
                f"{name[5:] + ' ' + dtype:12}{own * 1e9:7.3f} ns{own * lanes * 1e9:11.2f} ns"
                f"{theirs * 1e9:7.3f} ns{theirs / own:7.1f}x"
            )
    whole_programs()


if __name__ == "__main__":
    main()
