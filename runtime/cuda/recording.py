"""
A call of a GPU program as it was made once: the next one with arrays of the same shapes, of the
same library, checks its arguments and starts its kernels in native code (replay.ll).

SOURCE: dlpack.h, version 1.3 (`DLPackExchangeAPI`), for arguments and results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.dialects.dtypes import DType
from mlc.dialects.launch import TensorMap
from mlc.runtime.cuda.dlpack import CUDA, DeviceArray, dtype_word, row_major
from mlc.runtime.cuda.driver import Block, GpuError
from mlc.runtime.cuda.native import parameters
from mlc.runtime.layout import PYTHON, function_address

if TYPE_CHECKING:
    from mlc.runtime.cuda.driver import Device

MOST_LAUNCHES = 4096
"""Of a recording: unrolled loops of the host."""

_API = b"dlpack_exchange_api"
_TO_PY_OBJECT, _TENSOR_FROM_PY_OBJECT, _WORK_STREAM = 32, 40, 48  # offsets in DLPackExchangeAPI
_MANAGED_WORDS = 10  # DLManagedTensorVersioned, in words of 64 bits
_LAUNCH_WORDS = 9  # of replay.ll
_DATA = 4  # place of the address in it


def _as_number(name: str) -> Callable[..., Any]:
    """The method of int that makes something else of an address: the call is not repeatable."""

    def method(self: Address, *others: int) -> Any:
        self.recorder.repeatable = False
        return getattr(int, name)(int(self), *map(int, others))

    return method


class Address(int):
    """Where an argument or a result lies, and what is near it, told apart from other numbers."""

    recorder: Recorder
    place: int

    def __add__(self, other: int) -> int:
        return self.recorder.address(int(self) + int(other), self.place)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return self.recorder.address(int(self) - int(other), self.place)

    __mul__, __rmul__, __floordiv__, __and__, __rand__ = map(
        _as_number, ("__mul__", "__rmul__", "__floordiv__", "__and__", "__rand__")
    )
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(
        _as_number, ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")
    )
    __hash__ = int.__hash__


@dataclass(frozen=True)
class Launched:
    """A kernel as it was started."""

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int | TensorMap, ...]
    shared_bytes: int = 0


@dataclass
class Recorder:
    """What a call does while it runs: `repeatable` unless it depends on more than its shapes."""

    repeatable: bool = True
    launches: list[Launched] = field(default_factory=list[Launched])

    def address(self, value: int, place: int) -> Address:
        """The address of the `place`-th argument or result, or one near it."""
        found = Address(value)
        found.recorder, found.place = self, place
        return found

    def launch(self, launched: Launched) -> None:
        """Notes a launch."""
        self.launches.append(launched)
        self.repeatable = self.repeatable and len(self.launches) <= MOST_LAUNCHES


def exchange_api(kind: type) -> int | None:
    """The address of the type's DLPackExchangeAPI; None where its library has none."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None:
        return None
    get = PYTHON.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    try:
        api = get(capsule, _API)
    except ValueError:
        return None
    major = ctypes.c_uint32.from_address(api).value
    wanted = (_TO_PY_OBJECT, _TENSOR_FROM_PY_OBJECT, _WORK_STREAM)
    return api if major == 1 and all(_word(api + offset) for offset in wanted) else None


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


class _Native:
    """The functions of replay.ll."""

    def __init__(self) -> None:
        from mlc.runtime import jit
        from mlc.runtime.objects import object_of
        from mlc.runtime.probe import host_target

        names = ("mlc_replay_gather", "mlc_replay_start")
        text = Path(__file__).with_name("replay.ll").read_text()
        self._code = jit.load([object_of(text, host_target()).image], imports={}, exports=names)
        gather, start = (self._code.address(name) for name in names)
        # both under the interpreter's lock: the first asks Python objects, the second is short
        pointer = ctypes.c_void_p
        self.gather = ctypes.PYFUNCTYPE(ctypes.c_int64, pointer, pointer)(gather)
        self.start = ctypes.PYFUNCTYPE(ctypes.c_int64, pointer)(start)


@lru_cache(maxsize=1)
def _native() -> _Native:
    return _Native()


@dataclass(frozen=True)
class Made:
    """A result: in memory of its own, or where the argument `alias_of` lies."""

    dtype: DType
    shape: tuple[int, ...]
    size_bytes: int
    alias_of: int | None


class Recording:
    """One call, ready to be made again."""

    def __init__(
        self,
        device: Device,
        recorder: Recorder,
        arguments: Sequence[DeviceArray],
        bases: Sequence[int],
        results: Sequence[Made],
    ) -> None:
        """`bases`: addresses of the arguments, then of the results, in the call recorded."""
        self._device, self._results = device, results
        self._kinds = tuple(type(x.origin) for x in arguments)
        self._guarded = tuple(hasattr(kind, "is_neg") for kind in self._kinds)
        self._sizes = [_reach(x) for x in arguments]
        self._donated = [x.alias_of for x in results if x.alias_of is not None]
        self._keep: list[object] = []
        api = exchange_api(self._kinds[0])
        assert api is not None
        self._make = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
            _word(api + _TO_PY_OBJECT)
        )
        self._objects = ctypes.py_object * len(arguments)
        self._addresses = self._words([0] * len(bases))
        patches, launches = self._tables(recorder.launches, bases)
        driver = device.native
        self._call = self._words(
            [
                *(len(arguments), self._arguments(arguments)),
                *(len(patches) // 3, ctypes.addressof(self._words(patches))),
                *(len(launches) // _LAUNCH_WORDS, ctypes.addressof(self._words(launches))),
                *(ctypes.addressof(self._addresses), device.context),
                *(driver.launch_kernel, driver.push_context, driver.pop_context),
                *(_word(api + _WORK_STREAM), 0),
            ]
        )
        self._templates = [self._template(x) for x in results]
        self._at = ctypes.addressof(self._call)

    def _words(self, values: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
        """Words that live as long as the recording."""
        found = (ctypes.c_uint64 * max(1, len(values)))(*(x & 0xFFFFFFFFFFFFFFFF for x in values))
        self._keep.append(found)
        return found

    def _arguments(self, arguments: Sequence[DeviceArray]) -> int:
        words: list[int] = []
        for kind, x in zip(self._kinds, arguments, strict=True):
            api = exchange_api(kind)
            assert api is not None
            words += [id(kind), _word(api + _TENSOR_FROM_PY_OBJECT)]
            words += [len(x.shape) | dtype_word(x.row) << 32, CUDA]
            words += [ctypes.addressof(self._words(y)) for y in (x.shape, x.strides)]
            words += [int(x.strides == row_major(x.shape)), 0]
        return ctypes.addressof(self._words(words))

    def _tables(
        self, launched: Sequence[Launched], bases: Sequence[int]
    ) -> tuple[list[int], list[int]]:
        driver = self._device.native
        patches: list[int] = []
        launches: list[int] = []
        for one in launched:
            values, places = parameters(one.arguments, driver.encode)
            self._keep += [values, places]
            for k, x in enumerate(one.arguments):
                address = x.address if isinstance(x, TensorMap) else x
                if isinstance(address, Address):
                    patches += [places[k] or 0, address.place, int(address) - bases[address.place]]
            launches += [one.function, *one.grid, *one.block, ctypes.addressof(places)]
            launches += [one.shared_bytes]
        return patches, launches

    def _template(self, result: Made) -> bytes:
        """A DLManagedTensorVersioned (version 1.0) without its address."""
        rank = len(result.shape)
        shape, strides = self._words(result.shape), self._words(row_major(result.shape))
        words = [
            1,
            0,
            function_address(_release),
            0,
            0,
            CUDA,
            rank | dtype_word(result.dtype) << 32,
        ]
        words += [ctypes.addressof(shape), ctypes.addressof(strides), 0]
        return bytes((ctypes.c_uint64 * _MANAGED_WORDS)(*words))

    def run(self, args: tuple[object, ...]) -> tuple[object, ...] | None:
        """The results; None where an argument is not as it was, and nothing has been done."""
        if not self._takes(args):
            return None
        blocks: list[Block | None] = []
        first = len(args)
        for k, result in enumerate(self._results):
            if result.alias_of is not None:
                blocks.append(None)
                self._addresses[first + k] = self._addresses[result.alias_of]
            else:
                block = self._device.pool.kept(result.size_bytes) or self._new(result)
                blocks.append(block)
                self._addresses[first + k] = block.pointer
        status = _native().start(self._at)
        if status:
            raise GpuError(f"the driver could not start a kernel: error {status}")
        return tuple(
            args[result.alias_of or 0] if block is None else self._exported(block, template)
            for result, block, template in zip(self._results, blocks, self._templates, strict=True)
        )

    def _new(self, result: Made) -> Block:
        with self._device.active():
            return self._device.pool.take(result.size_bytes)

    def _takes(self, args: tuple[object, ...]) -> bool:
        if len(args) != len(self._kinds):
            return False
        for x, kind, guarded in zip(args, self._kinds, self._guarded, strict=True):
            if guarded and type(x) is kind and _is_lazy(x):
                return False
        if _native().gather(self._at, self._objects(*args)):
            return False
        return all(self._is_apart(k) for k in self._donated)

    def _is_apart(self, k: int) -> bool:
        """Whether a donated argument overlaps no other one."""
        low = self._addresses[k]
        high = low + self._sizes[k][1]
        return all(
            n == k or high <= self._addresses[n] + start or low >= self._addresses[n] + end
            for n, (start, end) in enumerate(self._sizes)
        )

    def _exported(self, block: Block, template: bytes) -> object:
        managed = (ctypes.c_uint64 * _MANAGED_WORDS).from_buffer_copy(template)
        managed[_DATA] = block.pointer
        address = ctypes.addressof(managed)
        _alive[address] = (managed, block, self)
        made = ctypes.c_void_p()
        self._make(address, ctypes.addressof(made))
        found: object = ctypes.cast(made, ctypes.py_object).value
        PYTHON.Py_DecRef(ctypes.py_object(found))  # `made` was a reference of ours
        return found


_alive: dict[int, tuple[object, ...]] = {}
"""Address of an exported tensor -> what it needs."""


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release(address: int) -> None:
    _alive.pop(address, None)


def _is_lazy(x: Any) -> bool:
    """Whether the array's library still has something to do before or after others may read it."""
    return bool(x.requires_grad or x.is_neg() or x.is_conj())


def _reach(array: DeviceArray) -> tuple[int, int]:
    """The first byte of an array and the one behind its last, from its address on."""
    low, high = array.bounds
    return low - array.pointer, high - array.pointer
