"""Kernels written as loops-level text, compiled for this machine, called on NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, builtin, func, math, memref, scf, vector
from xdsl.parser import Parser

from mlc.dialects import abi
from mlc.dialects.functions import MlcMath
from mlc.dialects.par import MlcPar
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.vec import MlcVec
from mlc.lowering.emit import ENTRY_ATTRIBUTE, emit_kernel, emit_main
from mlc.runtime.jit import LoadedCode, load
from mlc.runtime.llvm import compile_object
from mlc.runtime.probe import host_target
from mlc.runtime.support import support
from mlc.runtime.threads import find_runtime

LOOPS_DIALECTS = (
    builtin.Builtin,
    arith.Arith,
    func.Func,
    math.Math,
    memref.MemRef,
    scf.Scf,
    vector.Vector,
    MlcPar,
    MlcVec,
    MlcMath,
)

GROW = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64)


def loops_context() -> Context:
    """A context with the dialects of the loops level."""
    context = Context()
    for dialect in LOOPS_DIALECTS:
        context.load_dialect(dialect)
    return context


def parse_loops(text: str) -> builtin.ModuleOp:
    """The verified module."""
    module = Parser(loops_context(), text).parse_module()
    module.verify()
    return module


def functions(module: builtin.ModuleOp) -> list[func.FuncOp]:
    """The functions of a module in order."""
    return [op for op in module.ops if isinstance(op, func.FuncOp)]


def emit_text(function: func.FuncOp, target: CpuTarget) -> str:
    """LLVM IR text of a kernel, or of the entry function."""
    if ENTRY_ATTRIBUTE in function.attributes:
        return emit_main(function, target)
    return emit_kernel(function, target)


def compile_module(module: builtin.ModuleOp, opt_level: int = 1) -> LoadedCode:
    """All functions of the module, each through an LLVM module of its own, linked."""
    target = host_target()
    texts = [emit_text(function, target) for function in functions(module)]
    objects = [compile_object(text, target, opt_level=opt_level) for text in texts]
    exports = [function.sym_name.data for function in functions(module)]
    return load(objects, imports=runtime_symbols(), exports=exports)


@lru_cache(maxsize=1)
def openmp_symbols() -> dict[str, int]:
    """Addresses of the OpenMP functions that generated code calls; empty without a runtime."""
    runtime = find_runtime()
    return {} if runtime is None else dict(runtime.symbols)


def runtime_symbols() -> dict[str, int]:
    """What generated code calls of the runtime: OpenMP's functions, and the team's barrier."""
    ours = (abi.BARRIER_SYMBOL, abi.TAKE_SYMBOL)
    return {**openmp_symbols(), **{name: support().symbols[name] for name in ours}}


class CallContext:
    """A context struct as the runtime would pass it."""

    def __init__(self, threads: int = 1, arena_bytes: int = 0, grow_status: int = 0) -> None:
        self.fields = np.zeros(abi.CTX_BYTES // 8, np.int64)
        self.counter = np.zeros(1, np.int64)
        self.arena = np.zeros(arena_bytes + 64, np.uint8)
        self.set(abi.CTX_ARENA, self.arena.ctypes.data)
        self.set(abi.CTX_ARENA_BYTES, arena_bytes)
        self.set(abi.CTX_THREADS, threads)
        self.set(abi.CTX_CANCEL, self.counter.ctypes.data)
        self._grow_status = grow_status
        self._callback = GROW(self._grow)
        self.set(abi.CTX_GROW, ctypes.cast(self._callback, ctypes.c_void_p).value or 0)

    def _grow(self, ctx: int, wanted: int) -> int:
        del ctx
        if self._grow_status == 0:
            self.arena = np.zeros(wanted + 64, np.uint8)
            self.set(abi.CTX_ARENA, self.arena.ctypes.data)
            self.set(abi.CTX_ARENA_BYTES, wanted)
        return self._grow_status

    def set(self, offset: int, value: int) -> None:
        self.fields[offset // 8] = value

    def get(self, offset: int) -> int:
        return int(self.fields[offset // 8])

    @property
    def address(self) -> int:
        return self.fields.ctypes.data


Argument = CallContext | np.ndarray | int


def kernel(text: str, name: str = "k", opt_level: int = 1) -> Callable[..., None]:
    """
    The kernel `name` of the module. Call it with the native arguments in order: an array stands for
    its data pointer, an int for an i64.
    """
    code = compile_module(parse_loops(text), opt_level)
    return bound(code, name)


def bound(code: LoadedCode, name: str) -> Callable[..., None]:
    """A loaded kernel as a Python function."""
    address = code.address(name)

    def call(*arguments: Argument) -> None:
        native: list[ctypes.c_void_p | ctypes.c_int64] = []
        for argument in arguments:
            if isinstance(argument, CallContext):
                native.append(ctypes.c_void_p(argument.address))
            elif isinstance(argument, np.ndarray):
                native.append(ctypes.c_void_p(argument.ctypes.data))
            else:
                native.append(ctypes.c_int64(argument))
        function = ctypes.CFUNCTYPE(None, *(type(value) for value in native))(address)
        function(*native)

    call.code = code  # pyright: ignore[reportFunctionMemberAccess]
    return call


def run_entry(
    code: LoadedCode, name: str, ctx: CallContext, args: list[np.ndarray], sizes: list[int],
    outs: list[np.ndarray],
) -> int:  # fmt: skip
    """Calls the C entry; its status."""
    pointers = [
        (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))
        for arrays in (args, outs)
    ]
    extents = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
    entry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(code.address(name))
    return entry(ctx.address, pointers[0], extents, pointers[1])
