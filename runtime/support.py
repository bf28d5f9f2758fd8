"""
The loaded form of support.ll: its symbols, and its globals as Python attributes.

It is loaded once, at the first compiled function, and never unloaded: result arrays and the signal
handler point into it for as long as the process lives.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from mlc.dialects import abi
from mlc.fork import RenewedLock
from mlc.runtime import jit, layout, library
from mlc.runtime.layout import PYTHON
from mlc.runtime.threads import allowed_cpus

if TYPE_CHECKING:
    from mlc.dialects.target.cpu import CpuTarget

_EXPORTS = (
    "mlc_context_new",
    "mlc_contexts_free",
    "mlc_grow",
    "mlc_pool_array",
    "mlc_pool_clear",
    "mlc_pool_handler",
    "mlc_pool_capsule",
    "mlc_pool_bytes",
    "mlc_pool_limit",
    "mlc_pool_reused",
    "mlc_interrupts",
    "mlc_never",
    "mlc_main_thread",
    "mlc_chained_sigint",
    "mlc_on_sigint",
    "mlc_sigint_action",
    "mlc_sigint_number",
    "mlc_getsignal",
    "mlc_default_handler",
    "mlc_interruptible",
    "mlc_uninterruptible",
    "mlc_float_state",
    "mlc_restore_float_state",
    "mlc_threads",
    "mlc_parallel",
    "mlc_parallel_target",
    "mlc_settle",
    "mlc_thread_num",
    "mlc_thread_num_target",
    "mlc_num_threads",
    "mlc_num_threads_target",
    abi.BARRIER_SYMBOL,
    abi.TAKE_SYMBOL,
    abi.TEAM_SYMBOL,
    abi.LIBRARY_SYMBOL,
    abi.LAPACK_SYMBOL,
    "mlc_library_target",
    "mlc_lapack",
    "mlc_lapack_finder",
    "mlc_awake_ns",
    "mlc_late",
    "mlc_cpus",
    "mlc_patience",
    "mlc_max_threads_target",
)

_LIBC = (
    *("aligned_alloc", "free", "malloc_usable_size", "madvise", "memcpy", "memset", "memmove"),
    *(
        "sigaction",
        "syscall",
        "sched_getcpu",
        "sched_getaffinity",
        "sched_setaffinity",
        "clock_gettime",
    ),
)

_READ_FLOAT_STATE = {
    "x86_64": """%at = alloca i32, align 4
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  %flags = load i32, ptr %at, align 4
  %wide = zext i32 %flags to i64
  ret i64 %wide""",
    "aarch64": """%flags = call i64 @llvm.aarch64.get.fpsr()
  ret i64 %flags""",
}
_WRITE_FLOAT_STATE = {
    "x86_64": """%at = alloca i32, align 4
  %flags = trunc i64 %old to i32
  store i32 %flags, ptr %at, align 4
  call void @llvm.x86.sse.ldmxcsr(ptr %at)""",
    "aarch64": "call void @llvm.aarch64.set.fpsr(i64 %old)",
}
"""The register with the sticky flags: MXCSR (control bits too, which no kernel changes), FPSR."""

_FUTEX = {"x86_64": "202", "aarch64": "98"}
"""The number of the system call. SOURCE: Linux, asm/unistd.h."""
_PAUSE = {
    "x86_64": "call void @llvm.x86.sse2.pause()",
    "aarch64": "call void @llvm.aarch64.isb(i32 15)",
}

# what LLVM makes of frem, and of fma and rounding where the target has no instruction for them
_LIBM = ("fmod", "fma", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven")

_PARTS = ("support", "team", "barrier", "stops")
"""Files of the support code."""

_OPENMP = {  # the symbols generated code uses (decisions.md D5) -> ours, which lead to the runtime
    "GOMP_parallel": "mlc_parallel",
    "omp_get_thread_num": "mlc_thread_num",
    "omp_get_num_threads": "mlc_num_threads",
}


class Support:
    """Symbols and globals of the loaded support code."""

    def __init__(self, code: jit.LoadedCode, libc: Mapping[str, int]) -> None:
        self._code = code
        own = {symbol: code.address(symbol) for symbol in _EXPORTS}
        openmp = {name: own[symbol] for name, symbol in _OPENMP.items()}
        self.symbols: dict[str, int] = {**layout.python_symbols(), **libc, **own, **openmp}
        self._integer("mlc_library_target").value = library.address()
        self._integer("mlc_lapack_finder").value = library.address_of_finder()
        self.threads = self._integer("mlc_threads")
        self.cpus = self._integer("mlc_cpus")
        self.patience = self._integer("mlc_patience")
        self.interrupts = self._integer("mlc_interrupts")
        self.main_thread = self._integer("mlc_main_thread")
        self.chained_sigint = self._integer("mlc_chained_sigint")
        self.pool_limit = self._integer("mlc_pool_limit")
        self.pool_bytes = self._integer("mlc_pool_bytes")
        self.pool_reused = self._integer("mlc_pool_reused")
        # PYFUNCTYPE keeps the GIL, which guards the lists of contexts
        contexts_free = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
        self.contexts_free = contexts_free(self.symbols["mlc_contexts_free"])
        self.interruptible = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(own["mlc_interruptible"])
        self.uninterruptible = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(own["mlc_uninterruptible"])
        self.float_state = ctypes.CFUNCTYPE(ctypes.c_int64)(own["mlc_float_state"])
        restore = ctypes.CFUNCTYPE(None, ctypes.c_int64)
        self.restore_float_state = restore(own["mlc_restore_float_state"])
        self.context_new = ctypes.CFUNCTYPE(ctypes.c_void_p)(self.symbols["mlc_context_new"])
        self.pool_clear = ctypes.CFUNCTYPE(ctypes.c_int64)(self.symbols["mlc_pool_clear"])

    def _integer(self, symbol: str) -> ctypes.c_int64:
        return ctypes.c_int64.from_address(self.symbols[symbol])

    def bind_lapack(self, addresses: Sequence[int]) -> None:
        """Lead factorisations to LAPACK's routines, in the order of `abi.LAPACK`."""
        table = (ctypes.c_int64 * len(addresses)).from_address(self.symbols["mlc_lapack"])
        table[:] = addresses

    def bind_openmp(self, targets: Mapping[str, int]) -> None:
        """Lead the OpenMP symbols to these addresses; an absent one means one thread."""
        for name, symbol in (
            ("omp_get_thread_num", "mlc_thread_num_target"),
            ("omp_get_num_threads", "mlc_num_threads_target"),
            ("omp_get_max_threads", "mlc_max_threads_target"),
            ("GOMP_parallel", "mlc_parallel_target"),
        ):
            self._integer(symbol).value = targets.get(name, 0)


_one_at_a_time = RenewedLock()


def support() -> Support:
    """The support code of this process."""
    with _one_at_a_time():
        return _loaded()


def is_loaded() -> bool:
    """Whether this process has used it."""
    return _loaded.cache_info().currsize > 0


@contextmanager
def loaded_meanwhile() -> Generator[None, None, None]:
    """Another thread loads the support code, and LLVM, while the caller prepares what needs it."""
    from mlc.runtime.objects import meanwhile

    with nullcontext() if is_loaded() or allowed_cpus() == 1 else meanwhile(support):
        yield


def reserved_names() -> frozenset[str]:
    """The symbols that there may be."""
    own = (*_EXPORTS, *_OPENMP, *_LIBC, *_LIBM, *(f"{name}f" for name in _LIBM))
    return frozenset((*own, *layout.python_symbols()))


_offered: list[bytes] = []
"""The support code's object, where a saved program brought it along."""


def offer(image: bytes) -> None:
    """An object of this support code, which saves compiling it where nobody has loaded it yet."""
    _offered[:] = [image]


@lru_cache(maxsize=1)
def support_digest() -> str:
    """What the support code is: programs run with the one they were compiled for."""
    return hashlib.sha256(support_text(platform.machine()).encode()).hexdigest()


def support_object(target: CpuTarget) -> bytes:
    """The support code compiled for a machine."""
    from mlc.runtime.objects import object_of

    return object_of(support_text(target.arch), target).image


@lru_cache(maxsize=1)
def _loaded() -> Support:
    image = _offered[0] if _offered else None
    if image is None:
        from mlc.runtime.probe import host_target

        image = support_object(host_target())
    libc = _c_library()
    code = jit.load([image], imports={**layout.python_symbols(), **libc}, exports=_EXPORTS)
    loaded = Support(code, libc)
    _never_unload(loaded)
    _set_up_pool(loaded)
    return loaded


def support_text(arch: str) -> str:
    """LLVM IR of the support code for "x86_64" or "aarch64"."""
    parts = (Path(__file__).with_name(f"{name}.ll") for name in _PARTS)
    return spelled_for(arch, "\n".join(part.read_text() for part in parts))


def spelled_for(arch: str, text: str) -> str:
    """LLVM IR with what each architecture says in its own way."""
    for word, spelled in (
        ("READ_FLOAT_STATE", _READ_FLOAT_STATE),
        ("WRITE_FLOAT_STATE", _WRITE_FLOAT_STATE),
        ("FUTEX", _FUTEX),
        ("PAUSE", _PAUSE),
    ):
        text = text.replace(word, spelled[arch])
    return text.replace("LAPACK_COUNT", str(len(abi.LAPACK)))


def _c_library() -> dict[str, int]:
    """Functions of libc and libm that LLVM itself may call: `_LIBC` must be there."""
    process = ctypes.CDLL(None)
    found = {name: layout.function_address(getattr(process, name)) for name in _LIBC}
    try:
        libm = ctypes.CDLL("libm.so.6")
    except OSError:
        libm = process
    for name in (*_LIBM, *(f"{name}f" for name in _LIBM)):
        function: object = getattr(libm, name, None)
        if function is not None:
            found[name] = layout.function_address(function)
    return found


def _never_unload(loaded: Support) -> None:
    """Arrays are freed, and signals arrive, after modules are torn down: leak on purpose."""
    PYTHON.Py_IncRef(ctypes.py_object(loaded))


def _set_up_pool(loaded: Support) -> None:
    import os

    new_capsule = PYTHON.PyCapsule_New
    new_capsule.restype = ctypes.py_object
    new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    name = ctypes.create_string_buffer(b"mem_handler")  # the capsule keeps the pointer
    handler = loaded.symbols["mlc_pool_handler"]
    label = b"mlc_result_pool"
    ctypes.memmove(handler, label, len(label))
    capsule = new_capsule(handler, ctypes.addressof(name), None)
    for item in (name, capsule):
        PYTHON.Py_IncRef(ctypes.py_object(item))
    ctypes.c_size_t.from_address(loaded.symbols["mlc_pool_capsule"]).value = id(capsule)
    # an eighth of the memory: a training step's results, released each step, fit on most machines
    loaded.pool_limit.value = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 8


def clear_pool() -> int:
    """
    Give the memory of released results and idle arenas back, on a GPU too; returns the results'
    bytes.
    """
    from mlc.runtime import entry

    found = _clear_gpu_pool()
    if not is_loaded():
        return found
    entry.release_idle_arenas()
    return found + int(support().pool_clear())


def _clear_gpu_pool() -> int:
    """Of a GPU that this process uses."""
    driver = sys.modules.get("mlc.runtime.cuda.driver")
    if driver is None or driver.device.cache_info().currsize == 0:
        return 0
    gpu = driver.device()
    with gpu.active():
        return int(gpu.pool.trim())
