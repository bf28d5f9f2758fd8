"""
Vector math of passes/math against NumPy: nanoseconds per element on data in the level-2 cache, one
thread; then compiled functions on 10⁶ elements, with one thread and two. Both take turns, and the
shortest of many short samples counts: what the machine does when nobody disturbs it.
Run: python -m benchmarks.vector_math
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, memref, scf, vector
from xdsl.parser import Parser

from benchmarks import harness
from mlc.dialects.par import MlcPar
from mlc.dialects.target.attribute import ATTRIBUTE, TargetAttr
from mlc.dialects.vec import MlcVec
from mlc.lowering.emit import emit_kernel
from mlc.passes.math.expand_math import ExpandMathPass
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
    "math.atan2": np.arctan2,
    "math.powf": np.power,
}
CHUNK_BYTES = 1 << 17
"""Sources and result fit in a level-2 cache; of less, half of NumPy's time would be its call."""
SWEEPS = 2
"""Sweeps over the chunk inside one call, so that the call itself does not count."""
TURNS = 1000
"""Samples of some 50 us: most end within one time slice, also on a busy machine."""


def compiled(name: str, operands: int, dtype: str, lanes: int) -> LoadedCode:
    """The kernel: `sweeps` times out[i] = name(x[i]) or name(x[i], y[i]), i < n."""
    shape = f"vector<{lanes}x{dtype}>"
    memory = f"memref<?x{dtype}>"
    names = ["x", "y"][:operands]
    sources = "".join(f"%{x}: {memory} {{mlc.readonly}}, " for x in names)
    loads = "\n".join(f"%v{x} = vector.load %{x}[%i] : {memory}, {shape}" for x in names)
    text = f"""
    func.func @k(%sweeps: index, %n: index, {sources} %out: {memory} {{mlc.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %step = arith.constant {lanes} : index
      scf.for %s = %c0 to %sweeps step %c1 {{
        scf.for %i = %c0 to %n step %step {{
          {loads}
          %r = {name} {", ".join(f"%v{x}" for x in names)} : {shape}
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


def aligned(size: int, dtype: type[np.floating], offset_bytes: int) -> np.ndarray:
    """An array `offset_bytes` after a page: source and result must not share low address bits."""
    raw = np.zeros(size * 8 + 8192, np.uint8)
    start = (-raw.ctypes.data) % 4096 + offset_bytes
    return raw[start : start + size * np.dtype(dtype).itemsize].view(dtype)


def best_seconds(candidates: Sequence[Callable[[], object]], turns: int, calls: int) -> list[float]:
    """The shortest single call of each, in turns of some calls in a row."""
    best = [float("inf")] * len(candidates)
    for _ in range(turns):
        for k, run in enumerate(candidates):
            for _ in range(calls):
                start = time.perf_counter()
                run()
                best[k] = min(best[k], time.perf_counter() - start)
    return best


ELEMENTS = 1_000_000
ROUNDS, CALLS = 40, 6
"""Calls in a row, so that the threads of the first are still awake at the second."""


def arguments(function: np.ufunc, scalar: type[np.floating], size: int) -> list[np.ndarray]:
    """Where every function is defined; exponents from -2 to 2. None shares low address bits."""
    rng = np.random.default_rng(0)
    found: list[np.ndarray] = []
    for k in range(function.nin):
        x = aligned(size, scalar, 1024 * k)
        low, high = (1.01, 1.99) if function is np.arccosh else (-2, 2) if k else (0.01, 0.99)
        x[:] = rng.uniform(low, high, size)
        found.append(x)
    return found


def _program(function: np.ufunc) -> Callable[..., np.ndarray]:
    """The function as a user writes it."""

    def unary(x: np.ndarray) -> np.ndarray:
        return function(x)

    def binary(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return function(x, y)

    return unary if function.nin == 1 else binary


def whole_programs() -> None:
    """Prints NumPy's time and how much faster compiled functions are, one line each."""
    print(f"{'':14}{'NumPy':>10}{'1 thread':>11}{'2 threads':>11}")
    for scalar in (np.float32, np.float64):
        for function in FUNCTIONS.values():
            x = arguments(function, scalar, ELEMENTS)
            out = np.empty_like(x[0])
            program = _program(function)
            one, two = (harness.compiled(program, threads=threads) for threads in (1, 2))
            theirs, alone, both = best_seconds(
                (
                    lambda f=function, x=x, out=out: f(*x, out=out),
                    lambda f=one, x=x: f(*x),
                    lambda f=two, x=x: f(*x),
                ),
                ROUNDS,
                CALLS,
            )
            name = f"{function.__name__} f{8 * out.itemsize}"
            print(f"{name:14}{theirs * 1e3:7.3f} ms{theirs / alone:10.1f}x{theirs / both:10.1f}x")


def main() -> None:
    """Prints one line per function and format."""
    target = host_target()
    print(f"{target.cpu_name}, {target.vector_bits}-bit vectors, one thread")
    print(f"{'':12}{'mlc':>10}{'per vector':>14}{'NumPy':>10}{'ratio':>8}")
    for dtype, scalar in (("f32", np.float32), ("f64", np.float64)):
        size = CHUNK_BYTES // np.dtype(scalar).itemsize
        lanes = target.lanes(8 * np.dtype(scalar).itemsize)
        for name, reference in FUNCTIONS.items():
            x, out = arguments(reference, scalar, size), aligned(size, scalar, 2048)
            code = compiled(name, reference.nin, dtype, lanes)
            words = [ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * (reference.nin + 1)]
            call = ctypes.CFUNCTYPE(None, *words)(code.address("k"))
            places = (SWEEPS, size, *(v.ctypes.data for v in x), out.ctypes.data)
            own, theirs = best_seconds(
                (
                    lambda call=call, places=places: call(*places),
                    lambda f=reference, x=x, out=out: [f(*x, out=out) for _ in range(SWEEPS)],
                ),
                TURNS,
                1,
            )
            own, theirs = own / (SWEEPS * size), theirs / (SWEEPS * size)
            print(
                f"{name[5:] + ' ' + dtype:12}{own * 1e9:7.3f} ns{own * lanes * 1e9:11.2f} ns"
                f"{theirs * 1e9:7.3f} ns{theirs / own:7.1f}x"
            )
    whole_programs()


if __name__ == "__main__":
    main()
