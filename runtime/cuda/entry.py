"""
The native entry of a GPU program: calls that were made before with such arrays (entry.ll).

SOURCE: dlpack.h, version 1.3 (`DLPackExchangeAPI`), for arguments and results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from mlc.dialects.dtypes import DType
from mlc.lazy_dataclass import dataclass
from mlc.runtime import jit, layout
from mlc.runtime.builtin import new_builtin
from mlc.runtime.cuda.dlpack import DeviceArray, View, dtype_word, row_major
from mlc.runtime.cuda.pool import CUDA, Pool, native
from mlc.runtime.cuda.replay import Replay, Words, not_started
from mlc.runtime.layout import PYTHON, python_symbols

MOST_RECORDS = 64  # calls of a program with different shapes, on different streams

_API = b"dlpack_exchange_api"
_TO_PY_OBJECT, _TENSOR_FROM_PY_OBJECT, _WORK_STREAM = 32, 40, 48  # offsets in DLPackExchangeAPI

NUMBER_DTYPES = ("f64", "f32", "i64", "i32", "bool")
"""That native code makes of Python numbers, by their places there."""

_SLOW, _RAISE, _CALLS, _BUSY, _ERROR, _ARGUMENTS, _RESULTS, _TUPLE, _RECORDS, _TABLE = range(10)


@dataclass(frozen=True)
class Exchange:
    """How native code speaks with arrays of a type: the addresses of functions."""

    to_object: int  # managed_tensor_to_py_object_no_sync
    tensor: int  # dltensor_from_py_object_no_sync
    stream: int  # current_work_stream


def exchange(kind: type) -> Exchange | None:
    """Of our own arrays, and of those of a library with a DLPackExchangeAPI; None of others."""
    if kind is DeviceArray:
        names = ("mlc_array_make", "mlc_array_tensor", "mlc_array_stream")
        return Exchange(*(native().symbols[name] for name in names))
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get = PYTHON.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        api = get(capsule, _API)
    except ValueError:
        return None
    if ctypes.c_uint32.from_address(api).value != 1:  # the major version
        return None
    offsets = (_TO_PY_OBJECT, _TENSOR_FROM_PY_OBJECT, _WORK_STREAM)
    found = [ctypes.c_uint64.from_address(api + offset).value for offset in offsets]
    return Exchange(*found) if all(found) else None


def work_stream(kind: type) -> int | None:
    """The stream that the type's library works on; None where it does not say."""
    functions = exchange(kind)
    if functions is None:
        return None
    ask = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)
    found = ctypes.c_void_p()
    if ask(functions.stream)(CUDA, 0, ctypes.addressof(found)):
        PYTHON.PyErr_Clear()
        return None
    return found.value or 0


@dataclass(frozen=True)
class Made:
    """A result: in memory of its own, or where the argument `alias_of` lies."""

    dtype: DType
    shape: tuple[int, ...]
    alias_of: int | None


@dataclass(frozen=True)
class Number:
    """A Python number, and what kernels take it for."""

    kind: type
    dtype: str

    def words(self) -> list[int]:
        """As native code has it."""
        places = NUMBER_DTYPES.index(self.dtype), (float, int, bool).index(self.kind)
        return [id(self.kind), 0, *places, *[0] * 7]


class Record(Words):
    """A call with such arguments, whose results are made by the library of the first array."""

    def __init__(
        self,
        pool: Pool,
        replay: Replay,
        arguments: Sequence[View | Number],
        results: Sequence[Made],
    ) -> None:
        super().__init__()
        self.replay = replay
        self.key = key_of(replay.stream, arguments)
        donated = {x.alias_of for x in results}
        specs = [
            word
            for k, x in enumerate(arguments)
            for word in (x.words() if isinstance(x, Number) else self._array(x, k in donated))
        ]
        made = [y for x in results for y in self._result(pool, x)]
        functions = exchange(type(next(x for x in arguments if isinstance(x, View)).origin))
        assert functions is not None
        self.address = self.at(
            [
                *(replay.address, len(arguments), self.at(specs)),
                *(len(results), self.at(made)),
                *(functions.stream, 0, functions.to_object),
            ]
        )

    def _array(self, x: View, donated: bool) -> list[int]:
        kind = type(x.origin)
        functions = exchange(kind)
        assert functions is not None
        lazy = 0
        if hasattr(kind, "is_neg"):
            lazy = 2 if x.row.kind == "complex" else 1
        low, high = x.bounds
        return [
            *(id(kind), functions.tensor),
            *(len(x.shape) | dtype_word(x.row) << 32, CUDA),
            *(self.at(x.shape), self.at(x.strides), int(x.strides == row_major(x.shape)), lazy),
            *(low - x.pointer, high - x.pointer, int(donated)),
        ]

    def _result(self, pool: Pool, x: Made) -> list[int]:
        alias = -1 if x.alias_of is None else x.alias_of
        size_bytes = x.dtype.bytes
        for size in x.shape:
            size_bytes *= size
        shelf = pool.shelf(size_bytes, self.replay.stream)
        kind = len(x.shape) | dtype_word(x.dtype) << 32
        return [alias, shelf, kind, self.at(x.shape), self.at(row_major(x.shape))]


def key_of(stream: int, arguments: Sequence[View | Number]) -> tuple[object, ...]:
    """What calls have in common that one record can make."""
    parts = (
        x if isinstance(x, Number) else (type(x.origin), x.shape, x.strides) for x in arguments
    )
    return stream, *parts


def recordable(arguments: Sequence[View | Number]) -> bool:
    """Whether native code can make such a call: arrays of libraries that share fast."""
    kinds = [type(x.origin) for x in arguments if isinstance(x, View)]
    return layout.layout_fault() is None and bool(kinds) and all(map(exchange, kinds))


class Entry:
    """The builtin of a program and what it reads."""

    def __init__(
        self, arguments: int, results: int, *, as_tuple: bool, error_at: int | None
    ) -> None:
        """`error_at`: where the error's site is, in memory of the host; None: there is none."""
        self._words = (ctypes.c_uint64 * 10)()
        self._no_error = ctypes.c_uint64(0)
        at = ctypes.addressof(self._no_error) if error_at is None else error_at
        self._words[:] = [0, id(_raise), 0, 0, at, arguments, results, int(as_tuple), 0, 0]
        self._records: list[Record] = []
        self._table: ctypes.Array[ctypes.c_uint64] | None = None
        self._code: jit.LoadedCode | None = None

    def builtin(self, name: str, owner: object, slow: Callable[..., object]) -> Callable[..., Any]:
        """What to call; keeps `owner`, which keeps `slow` and this."""
        if self._code is None:
            self._code = jit.load(
                [_entry_object()],
                imports=_imports() | {"mlc_gpu_state": ctypes.addressof(self._words)},
                exports=("mlc_gpu_call",),
            )
        self._words[_SLOW] = id(slow)
        return new_builtin(name, self._code.address("mlc_gpu_call"), owner)

    @property
    def calls(self) -> int:
        """Calls that native code has made."""
        return self._words[_CALLS]

    def set_busy(self, busy: bool) -> None:
        """While it is, native code makes no call."""
        self._words[_BUSY] = int(busy)

    def knows(self, key: tuple[object, ...]) -> bool:
        """Whether there is a record of such calls; it is the first from now on."""
        found = next((x for x in self._records if x.key == key), None)
        if found is not None and found is not self._records[0]:
            self._set([found, *(x for x in self._records if x is not found)])
        return found is not None

    def add(self, record: Record) -> None:
        """The next call with such arrays is made by native code."""
        self._set([record, *self._records][:MOST_RECORDS])

    def keep(self, replays: Sequence[Replay]) -> None:
        """Forgets the records of other calls than these."""
        self._set([x for x in self._records if x.replay in replays])

    def _set(self, records: list[Record]) -> None:
        table = (ctypes.c_uint64 * max(1, len(records)))(*(x.address for x in records))
        self._words[_RECORDS], self._words[_TABLE] = len(records), ctypes.addressof(table)
        self._records, self._table = records, table


def _raise(status: int) -> NoReturn:
    raise not_started(status)


def _entry_object() -> bytes:
    from mlc.runtime.objects import object_of
    from mlc.runtime.probe import host_target

    text = Path(__file__).with_name("entry.ll").read_text()
    return object_of(text, host_target()).image


def _imports() -> dict[str, int]:
    names = ("PyObject_Vectorcall", "PyObject_CallFunction", "PyTuple_New", "PyTuple_SetItem")
    names += ("PyErr_Clear", "Py_IncRef", "Py_DecRef", "_Py_NoneStruct")
    return native().symbols | {name: python_symbols()[name] for name in names}
