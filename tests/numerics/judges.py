# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false
"""
Vector math on arrays, the same functions in long double, and how far they lie apart.

NumPy computes most functions in long double (glibc: within an ulp of its 64 bits, f64 has 53);
those it lacks are called from libm by a few lines of LLVM IR.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from mlc.dialects.target.attribute import ATTRIBUTE, TargetAttr
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.bitwise import ClampOp
from mlc.dialects.tensor.comparison import Extremum
from mlc.dialects.tensor.rounding import Numeric
from mlc.passes.math.expand_math import ExpandMathPass
from tests.emitted import bound, compile_module, loops_context, parse_loops

Array = np.ndarray[Any, Any]
FORMATS: dict[str, type[np.floating[Any]]] = {"f32": np.float32, "f64": np.float64}
LANES = 8
OPEN_ZEROS = (Extremum, Numeric, ClampOp)
"""Ops of whose results numerics "strict" alone fixes the sign of a zero: docs/numerics.md."""


@dataclass(frozen=True)
class Function:
    """A function of vector math: its op, what computes it in long double, its bounds in ulp."""

    op: str
    judge: str | Callable[..., Array]
    f32: float
    f64: float
    operands: int = 1

    def bound(self, dtype: str) -> float:
        """The stated bound."""
        return self.f32 if dtype == "f32" else self.f64

    def exact(self, *x: Array) -> Array:
        """The function in long double."""
        with np.errstate(all="ignore"):
            wide = [v.astype(np.longdouble) for v in x]
            return libm(self.judge)(*wide) if isinstance(self.judge, str) else self.judge(*wide)


def _sigmoid(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    return np.where(x < 0, z, 1) / (1 + z)


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


FUNCTIONS: dict[str, Function] = {
    "exp": Function("math.exp", np.exp, 1.75, 1.65),
    "exp2": Function("math.exp2", np.exp2, 1.4, 1.4),
    "expm1": Function("math.expm1", np.expm1, 1.4, 1.75),
    "sigmoid": Function("mlc_math.sigmoid", _sigmoid, 1.1, 1.0),
    "log": Function("math.log", np.log, 0.9, 0.9),
    "log2": Function("math.log2", np.log2, 1.3, 1.3),
    "log10": Function("math.log10", np.log10, 1.5, 1.5),
    "log1p": Function("math.log1p", np.log1p, 1.0, 1.0),
    "sin": Function("math.sin", np.sin, 1.0, 1.1),
    "cos": Function("math.cos", np.cos, 1.0, 1.1),
    "tan": Function("math.tan", np.tan, 1.3, 1.4),
    "asin": Function("math.asin", np.arcsin, 0.8, 0.9),
    "acos": Function("math.acos", np.arccos, 0.8, 0.9),
    "atan": Function("math.atan", np.arctan, 0.9, 0.9),
    "atan2": Function("math.atan2", np.arctan2, 1.5, 1.5, 2),
    "sinh": Function("math.sinh", np.sinh, 1.6, 1.75),
    "cosh": Function("math.cosh", np.cosh, 1.4, 1.4),
    "tanh": Function("math.tanh", np.tanh, 1.55, 1.65),
    "asinh": Function("math.asinh", np.arcsinh, 1.1, 1.1),
    "acosh": Function("math.acosh", np.arccosh, 1.1, 1.1),
    "atanh": Function("math.atanh", np.arctanh, 1.1, 1.1),
    "erf": Function("math.erf", "erf", 1.2, 1.4),
    "erfc": Function("mlc_math.erfc", "erfc", 0.8, 1.7),
    "lgamma": Function("mlc_math.lgamma", "lgamma", 0.6, 1.75),
    "cbrt": Function("math.cbrt", np.cbrt, 0.51, 0.51),
    "rsqrt": Function("math.rsqrt", _rsqrt, 1.5, 1.5),
    "pow": Function("math.powf", "pow", 0.6, 1.4, 2),
    "hypot": Function("mlc_math.hypot", np.hypot, 0.51, 1.1, 2),
}
"""Bounds as the docstrings in passes/math state them; all below the promised 2."""

BY_TABLE: dict[str, Function] = {
    "exp": Function("math.exp", np.exp, 1.1, 1.15),
    "exp2": Function("math.exp2", np.exp2, 1.1, 1.1),
    "log": Function("math.log", np.log, 1.6, 1.6),
    "log2": Function("math.log2", np.log2, 1.4, 1.4),
    "log10": Function("math.log10", np.log10, 1.6, 1.6),
    "log1p": Function("math.log1p", np.log1p, 1.6, 1.6),
    "expm1": Function("math.expm1", np.expm1, 1.75, 1.75),
    "cosh": Function("math.cosh", np.cosh, 1.6, 1.6),
    "atanh": Function("math.atanh", np.arctanh, 1.7, 1.75),
    "asinh": Function("math.asinh", np.arcsinh, 1.75, 1.9),
    "acosh": Function("math.acosh", np.arccosh, 1.6, 1.7),
    "asin": Function("math.asin", np.arcsin, 1.75, 1.75),
    "acos": Function("math.acos", np.arccos, 1.25, 1.25),
    "sin": Function("math.sin", np.sin, 1.996, 1.1),
    "cos": Function("math.cos", np.cos, 1.996, 1.1),
    "cbrt": Function("math.cbrt", np.cbrt, 0.51, 0.51),
    "tan": Function("math.tan", np.tan, 1.75, 1.95),
    "atan": Function("math.atan", np.arctan, 1.75, 1.5),
    "atan2": Function("math.atan2", np.arctan2, 1.75, 1.6, 2),
    "tanh": Function("math.tanh", np.tanh, 1.4, 1.95),
    "pow": Function("math.powf", "pow", 1.2, 1.5, 2),
}
"""As passes/math/lane_*.py state them, for targets that look up tables in registers."""

BY_UNIT: dict[str, Function] = {
    "exp": Function("math.exp", np.exp, 1.95, 1.65),
    "exp2": Function("math.exp2", np.exp2, 1.7, 1.4),
    "log": Function("math.log", np.log, 0.95, 0.9),
    "log1p": Function("math.log1p", np.log1p, 1.45, 1.0),
    "tanh": Function("math.tanh", np.tanh, 1.85, 1.65),
}
"""As passes/math/by_unit.py states them for f32, for GPUs."""

EXACT = {"fmod": ("mlc_math.fmod", np.fmod), "nextafter": ("mlc_math.nextafter", np.nextafter)}
"""Functions without rounding."""


@lru_cache
def apply(
    op: str,
    dtype: str,
    operands: int = 1,
    *,
    vector: bool = True,
    target: str = "avx2",
    lanes: int = LANES,
) -> Callable[..., Array]:
    """The op, expanded for the target and compiled for this machine, on arrays of one length."""
    shape = f"vector<{lanes}x{dtype}>" if vector else dtype
    load, store = (f"{'vector' if vector else 'memref'}.{x}" for x in ("load", "store"))
    types = f"memref<?x{dtype}>" + (f", {shape}" if vector else "")
    names = [f"x{k}" for k in range(operands)]
    arguments = "".join(f"%{x}: memref<?x{dtype}> {{mlc.readonly}}, " for x in names)
    loads = "\n".join(f"%v{x} = {load} %{x}[%i] : {types}" for x in names)
    text = f"""
    func.func @k(%n: index, {arguments} %out: memref<?x{dtype}> {{mlc.noalias}}) {{
      %c0 = arith.constant 0 : index
      %step = arith.constant {lanes if vector else 1} : index
      scf.for %i = %c0 to %n step %step {{
        {loads}
        %r = {op} {", ".join(f"%v{x}" for x in names)} : {shape}
        {store} %r, %out[%i] : {types}
      }}
      return
    }}"""
    module = parse_loops(text)
    module.attributes[ATTRIBUTE] = TargetAttr(named_target(target))
    ExpandMathPass().apply(loops_context(), module)
    module.verify()
    call = bound(compile_module(module), "k")

    def function(*x: Array) -> Array:
        count = len(x[0])
        padded = [np.resize(v, -(-count // lanes) * lanes) for v in x]
        out = np.empty_like(padded[0])
        call(len(out), *padded, out)
        return out[:count]

    return function


@lru_cache
def libm(name: str) -> Callable[..., Array]:
    """A long double function of libm on arrays."""
    operands = {"pow": 2}.get(name, 1)
    kind = "x86_fp80" if np.finfo(np.longdouble).nmant == 63 else "fp128"
    loads = "\n".join(
        f"%p{k} = getelementptr {kind}, ptr %x{k}, i64 %i\n%v{k} = load {kind}, ptr %p{k}"
        for k in range(operands)
    )
    text = f"""
    declare {kind} @{name}l({", ".join([kind] * operands)})
    define void @k(i64 %n, ptr %out, {", ".join(f"ptr %x{k}" for k in range(operands))}) {{
    entry:
      br label %head
    head:
      %i = phi i64 [ 0, %entry ], [ %next, %head ]
      {loads}
      %r = call {kind} @{name}l({", ".join(f"{kind} %v{k}" for k in range(operands))})
      %p = getelementptr {kind}, ptr %out, i64 %i
      store {kind} %r, ptr %p
      %next = add i64 %i, 1
      %more = icmp slt i64 %next, %n
      br i1 %more, label %head, label %done
    done:
      ret void
    }}"""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    kinds = [ctypes.c_int64, *[ctypes.c_void_p] * (operands + 1)]
    native = ctypes.CFUNCTYPE(None, *kinds)(engine.get_function_address("k"))

    def function(*x: Array) -> Array:
        flat = [np.ascontiguousarray(v) for v in x]
        out = np.empty(x[0].shape, np.longdouble)
        native(out.size, out.ctypes.data, *(v.ctypes.data for v in flat))
        return out

    function.__dict__["engine"] = engine  # the code lives as long as the function
    return function


def errors_ulp(got: Array, true: Array) -> Array:
    """
    |got - true| in units in the last place of the true value (subnormals: the smallest one); inf
    where one is NaN, or one rounds to infinity, and the other is not.
    """
    limits = np.finfo(got.dtype)
    exponent = np.maximum(np.frexp(true)[1] - 1, limits.minexp)
    unit = np.ldexp(np.ones((), true.dtype), exponent - limits.nmant)
    with np.errstate(all="ignore"):
        rounded = true.astype(got.dtype)
        error = np.abs(got.astype(true.dtype) - true) / unit
    finite = np.isfinite(rounded)
    agree = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    # At the edge of overflow the neighbour of the right answer is infinite or the largest number.
    edge = np.abs(true) >= limits.max
    error = np.where(finite & np.isfinite(got), error, np.where(agree | edge, 0, np.inf))
    return error.astype(np.float64)
