"""
Loading an entry: its objects and shim become a builtin that Python calls.

The builtin keeps its code loaded; the code, its contexts and arenas go when the builtin dies.
A user-facing callable is an instance of a class whose `__call__` is the builtin itself, so that a
call costs no Python frame: ``type(f).__call__ = entry.builtin``.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from mlc.dialects import abi
from mlc.dialects.errors import MlcError
from mlc.dialects.signature import EntrySignature
from mlc.runtime import jit, layout, signals, threads
from mlc.runtime.builtin import new_builtin
from mlc.runtime.slow_entry import SlowEntry
from mlc.runtime.support import support

if TYPE_CHECKING:
    import numpy as np

OnError = Callable[[int, int, int], NoReturn]
"""(site, value, extent) of the error word; raises what NumPy raises, at the user's line."""

_states: weakref.WeakSet[EntryState] = weakref.WeakSet()


class EntryState:
    """What the shim of one entry reads, and what must live as long as its builtin."""

    def __init__(
        self, slow: Callable[..., object], on_error: OnError, thread_count: int | None
    ) -> None:
        self._support = support()
        self._words = (ctypes.c_size_t * (abi.STATE_BYTES // 8))()
        self._own_threads = ctypes.c_int64(0)
        self.raise_status = _status_raiser(on_error)
        self.code: jit.LoadedCode | None = None
        self._set(abi.STATE_ON_STATUS, id(self.raise_status))
        self.set_slow(slow)
        self.set_threads(thread_count)
        _states.add(self)

    def _set(self, offset: int, value: int) -> None:
        self._words[offset // 8] = value

    @property
    def address(self) -> int:
        """Where the shim reads."""
        return ctypes.addressof(self._words)

    @property
    def calls(self) -> int:
        """Calls that the shim, or the entry in Python, has taken."""
        return self._words[abi.STATE_CALLS // 8]

    def count_call(self) -> None:
        """One call more, for the entry in Python."""
        self._words[abi.STATE_CALLS // 8] += 1

    def set_slow(self, slow: Callable[..., object]) -> None:
        """What is called with the same arguments when the entry does not take them."""
        self._set(abi.STATE_SLOW, id(slow))
        self.slow = slow

    def set_threads(self, thread_count: int | None) -> None:
        """The thread count of this entry; None follows `mlc.set_threads`."""
        if thread_count is None:
            self._set(abi.STATE_THREADS, ctypes.addressof(self._support.threads))
            return
        self._own_threads.value = threads.checked_count(thread_count)
        self._set(abi.STATE_THREADS, ctypes.addressof(self._own_threads))

    @contextmanager
    def context(self) -> Generator[int, None, None]:
        """The address of a fresh context, for the slow entry."""
        own = self.new_context()
        in_main_thread = signals.in_main_thread()
        counter = self._support.symbols["mlc_interrupts" if in_main_thread else "mlc_never"]
        ctypes.c_size_t.from_address(own + abi.CTX_CANCEL).value = counter
        base = ctypes.c_int64.from_address(counter).value
        ctypes.c_int64.from_address(own + abi.CTX_CANCEL_BASE).value = base
        flags = self._support.float_state()
        try:
            with signals.interruptible(self._support) if in_main_thread else nullcontext():
                yield own
        finally:
            self._support.restore_float_state(flags)
            self.free_context(own)

    def new_context(self) -> int:
        """The address of a fresh context, which `free_context` frees."""
        context = self._support.context_new() or 0
        if not context:
            raise MemoryError
        ctypes.c_int64.from_address(context + abi.CTX_THREADS).value = self.threads.value
        return context

    @property
    def threads(self) -> ctypes.c_int64:
        """Where the thread count of calls stands."""
        return ctypes.c_int64.from_address(self._words[abi.STATE_THREADS // 8])

    def free_context(self, context: int) -> None:
        """Free a context, with its arena."""
        head = ctypes.c_size_t(context)  # it must live until the call is over
        self._support.contexts_free(ctypes.addressof(head))

    def raise_from(self, status: int, context: int) -> NoReturn:
        """Raise what a status other than 0 means, with the context's error word."""
        site, value, extent = (
            ctypes.c_int64.from_address(context + offset).value
            for offset in (abi.CTX_ERROR_SITE, abi.CTX_ERROR_VALUE, abi.CTX_ERROR_EXTENT)
        )
        self.raise_status(status, site, value, extent)
        raise AssertionError

    def release_idle(self) -> None:
        """Free the contexts, with their arenas, that no call is using."""
        self._support.contexts_free(self.address + abi.STATE_FREE_CONTEXTS)

    def __del__(self) -> None:
        if ctypes:  # else Python is ending: modules go before what they hold
            self.release_idle()


def _status_raiser(on_error: OnError) -> Callable[[int, int, int, int], NoReturn]:
    """What raises for a status other than 0; holds no state: the builtin is in no cycle."""

    def raise_status(status: int, site: int, value: int, extent: int) -> NoReturn:
        if status == abi.STATUS_RUN_TIME_ERROR:
            on_error(site, value, extent)
        if status == abi.STATUS_OUT_OF_MEMORY:
            raise MemoryError(
                f"{value:,} bytes for intermediate values could not be allocated; use smaller "
                "inputs, or peak_bytes= to trade time for memory"
            )
        if status == abi.STATUS_CANCELLED:
            raise KeyboardInterrupt
        raise SystemError(f"a compiled entry returned status {status}, which means nothing")

    return raise_status


class LoadedEntry:
    """A loaded entry: `builtin` is the callable, `address` its native function."""

    def __init__(
        self, builtin: Callable[..., object], state: EntryState, address: int, native: bool
    ) -> None:
        self.builtin = builtin
        self.address = address
        self.native = native
        self._state: EntryState | None = state

    def set_slow(self, slow: Callable[..., object]) -> None:
        """Replace the callable that takes what this entry does not."""
        self._alive().set_slow(slow)

    @property
    def calls(self) -> int:
        """How many calls the native entry has taken."""
        return self._alive().calls

    def set_threads(self, thread_count: int | None) -> None:
        """Threads of this entry; None follows `mlc.set_threads`."""
        self._alive().set_threads(thread_count)

    @property
    def threads(self) -> ctypes.c_int64:
        """Where the thread count of calls stands."""
        return self._alive().threads

    def new_context(self) -> int:
        """The address of a context for calls by address, which do not see Ctrl-C."""
        return self._alive().new_context()

    def free_context(self, context: int) -> None:
        """Free a context of `new_context`, with its arena."""
        self._alive().free_context(context)

    def raise_status(self, status: int, context: int) -> NoReturn:
        """Raise what a call's status and its context's error word say."""
        self._alive().raise_from(status, context)

    def close(self) -> None:
        """Drop this object's hold; the code is unloaded when the last copy of `builtin` is gone."""
        if self._state is not None:
            self._state.release_idle()
        self._state = None
        del self.builtin

    def _alive(self) -> EntryState:
        if self._state is None:
            raise ValueError("this entry is closed; load its objects again")
        return self._state


def load_entry(
    objects: Sequence[bytes],
    name: str,
    signature: EntrySignature,
    *,
    slow: Callable[..., object],
    on_error: OnError,
    thread_count: int | None = None,
    imports: Mapping[str, int] | None = None,
) -> LoadedEntry:
    """
    Link `objects`, which define entry `name` and its shim, and make the builtin.

    `slow` gets the arguments that the entry does not take. `on_error` raises for a run-time error
    of the kernels. `imports` adds symbols of the caller's to the runtime's own.
    """
    state = EntryState(slow, on_error, thread_count)
    loaded = support()
    signals.prepare_interrupts()
    if any(b"GOMP_parallel" in image for image in objects):
        threads.bind_for(thread_count)
    symbols = {**loaded.symbols, abi.STATE_SYMBOL: state.address, **_type_numbers(signature)}
    native = layout.layout_fault() is None
    shim = abi.shim_symbol(name)
    exports = (name, shim) if native else (name,)
    state.code = jit.load(objects, imports={**symbols, **(imports or {})}, exports=exports)
    address = state.code.address(name)
    if not native:
        return LoadedEntry(SlowEntry(address, signature, state), state, address, False)
    # the builtin keeps the state, and with it the code, alive
    builtin = new_builtin(name, state.code.address(shim), state)
    return LoadedEntry(builtin, state, address, True)


def _type_numbers(signature: EntrySignature) -> dict[str, int]:
    """Cells with NumPy's numbers of dtypes that get theirs at run time (bf16, fp8)."""
    wanted = {spec.dtype for spec in (*signature.args, *signature.results)} - abi.TYPE_NUMS.keys()
    return {abi.dtype_symbol(dtype): ctypes.addressof(_type_cell(dtype)) for dtype in wanted}


_type_cells: dict[str, ctypes.c_int32] = {}


def _type_cell(dtype: str) -> ctypes.c_int32:
    if dtype not in _type_cells:
        if dtype not in abi.ML_DTYPES:
            raise ValueError(
                f"dtype {dtype!r} has no NumPy type; expected one of "
                f"{', '.join((*abi.TYPE_NUMS, *abi.ML_DTYPES))}"
            )
        kind = dtype_of_ml_dtypes(abi.ML_DTYPES[dtype])
        _type_cells[dtype] = ctypes.c_int32(kind.num)
    return _type_cells[dtype]


def dtype_of_ml_dtypes(name: str) -> np.dtype[Any]:
    """NumPy's dtype of one that has a name there."""
    import numpy as np

    try:
        return np.dtype(getattr(import_module("ml_dtypes"), name))
    except ModuleNotFoundError:
        raise MlcError(f"arrays of {name} are those of ml_dtypes: pip install ml-dtypes") from None


def release_idle_arenas() -> None:
    """Free the arenas of all loaded entries that no call is using."""
    for state in list(_states):
        state.release_idle()
