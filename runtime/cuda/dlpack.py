"""
Arrays on the device in and out: the DLPack protocol, and __cuda_array_interface__ beside it.

SOURCE: dlpack.h (version 0.8 structs, which every producer and consumer still speaks).
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from mlc.dialects.dtypes import DTYPES, DType
from mlc.lazy_dataclass import dataclass
from mlc.runtime.cuda.pool import CUDA, KIND, SIZES, STREAM, STRIDES, Block, current_stream
from mlc.runtime.interop import DLPackArray

if TYPE_CHECKING:
    import numpy as np

CUDA_MANAGED = 13
ORDINAL = 0
"""Of the device that programs run on."""
LEGACY_STREAM = 1  # what __dlpack__(stream=) calls the default stream
_CODES = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}
_CODES_BY_NAME = {
    "bf16": 4, "f8e4m3fn": 10, "f8e4m3fnuz": 11, "f8e5m2": 12, "f8e5m2fnuz": 13, "f8e8m0fnu": 14,
}  # fmt: skip
"""DLDataTypeCode of a kind of dtype, and of dtypes that have their own. SOURCE: dlpack.h 1.1"""


_Integers = ctypes.POINTER(ctypes.c_int64)


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", _Integers),
        ("strides", _Integers),
        ("byte_offset", ctypes.c_uint64),
    )


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))


_PYTHON = ctypes.pythonapi
_NAME, _USED = b"dltensor", b"used_dltensor"


@dataclass(frozen=True, kw_only=True)
class View:
    """An array on the device, whoever owns it: where it is, `strides` in elements.

    `origin` is the caller's object, `owner` keeps the memory alive.
    """

    __mlc_leaf__: ClassVar[bool] = True  # no container of arrays

    pointer: int
    row: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    origin: object
    owner: object
    ready_on: int | None  # the stream on which it is ready; None: it is ready

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The element type, as NumPy has it."""
        return self.row.numpy

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def contiguous(self) -> bool:
        """Whether it is row-major without gaps."""
        plain = row_major(self.shape)
        if self.strides == plain or 0 in self.shape:
            return True
        pairs = zip(self.shape, self.strides, plain, strict=True)
        return all(n == 1 or have == want for n, have, want in pairs)

    @property
    def bounds(self) -> tuple[int, int]:
        """The addresses of its first byte and of the one behind its last."""
        if 0 in self.shape:
            return self.pointer, self.pointer
        reaches = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        low = sum(reach for reach in reaches if reach < 0)
        high = sum(reach for reach in reaches if reach > 0)
        size = self.row.bytes
        return self.pointer + low * size, self.pointer + (high + 1) * size


@lru_cache(maxsize=1024)
def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of an array without gaps."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


_ours: dict[type, bool | None] = {}
"""Type of an argument -> whether it is always on the device; None where the object must say."""


def on_device(value: object) -> bool:
    """Whether an argument lies on a CUDA device."""
    kind: type[object] = type(value)
    if kind not in _ours:
        asks = hasattr(kind, "__dlpack_device__") or hasattr(kind, "__cuda_array_interface__")
        _ours[kind] = True if kind in (DeviceArray, View) else None if asks else False
    always = _ours[kind]
    if always is not None:
        return always
    if hasattr(kind, "__dlpack_device__"):
        place = cast("DLPackArray", value).__dlpack_device__()
        return int(place[0]) in (CUDA, CUDA_MANAGED)
    return hasattr(value, "__cuda_array_interface__")


def view_of(value: Any, where: str) -> View:
    """An argument on the device, in place. TypeError for a dtype that the compiler has not."""
    if isinstance(value, View):
        return value
    if isinstance(value, DeviceArray):
        return value.view
    if hasattr(value, "__dlpack__"):
        try:
            capsule = value.__dlpack__(stream=LEGACY_STREAM)
        except (BufferError, RuntimeError, TypeError) as error:
            raise TypeError(
                f"{where} cannot be shared: {error}; pass a plain array, such as x.detach()"
            ) from error
        return _from_capsule(value, capsule, where)
    return _from_interface(value, where)


def _from_capsule(value: object, capsule: object, where: str) -> View:
    get = _PYTHON.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = _Managed.from_address(get(capsule, _NAME))
    tensor = managed.tensor
    if tensor.device_type == CUDA and tensor.device_id != ORDINAL:
        raise TypeError(
            f"{where} lies on cuda:{tensor.device_id}; expected cuda:{ORDINAL}, where programs run"
        )
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = row_major(shape)
    if tensor.strides:
        strides = tuple(tensor.strides[k] for k in range(tensor.ndim))
    code, bits = tensor.dtype.code, tensor.dtype.bits
    dtype = _rows().get(code | bits << 8 | tensor.dtype.lanes << 16)
    if dtype is None:
        raise TypeError(f"{where} has a dtype of code {code} and {bits} bits; {_expected()}")
    # the capsule stays unconsumed: when it dies, its producer takes the array back
    return View(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        row=dtype,
        shape=shape,
        strides=strides,
        origin=value,
        owner=capsule,
        ready_on=0,
    )


def _code_of(dtype: DType) -> int | None:
    return _CODES_BY_NAME.get(dtype.name, _CODES.get(dtype.kind))


def _code(dtype: DType) -> int:
    code = _code_of(dtype)
    if code is None:  # it packs elements of less than a byte
        raise BufferError(f"DLPack has no {dtype.numpy}; expected x.view(np.uint8)")
    return code


def dtype_word(dtype: DType) -> int:
    """A DLDataType as its four bytes."""
    return _code(dtype) | (8 * dtype.bytes) << 8 | 1 << 16


def _from_interface(value: Any, where: str) -> View:
    import numpy as np

    found: dict[str, Any] = value.__cuda_array_interface__
    kind = np.dtype(found["typestr"])
    dtype = next((d for d in DTYPES if d.numpy == kind), None)
    if dtype is None:
        raise TypeError(f"{where} has dtype {kind}; {_expected()}")
    shape = tuple(int(n) for n in found["shape"])
    strides = row_major(shape)
    if found.get("strides") is not None:
        strides = tuple(int(s) // dtype.bytes for s in found["strides"])
    stream: int | None = found.get("stream")
    return View(
        pointer=int(found["data"][0]),
        row=dtype,
        shape=shape,
        strides=strides,
        origin=value,
        owner=value,
        ready_on=None if stream is None else stream_handle(stream),
    )


def _expected() -> str:
    return f"expected one of {', '.join(str(d.numpy) for d in DTYPES)}"


@lru_cache(maxsize=1)
def _rows() -> dict[int, DType]:
    """Rows of dtypes by their DLDataType, of those that have one."""
    rows = [row for row in DTYPES if _code_of(row) is not None]
    return {dtype_word(row): row for row in rows}


def stream_handle(number: int) -> int:
    """The driver's handle of a stream, as protocols number them: 1 is the default stream."""
    return 0 if number == LEGACY_STREAM else number


class DeviceArray(Block):
    """
    An array on the device, for any library that speaks DLPack or the CUDA array interface;
    `np.asarray` copies it to the host.
    """

    __slots__ = ()

    @staticmethod
    def of_node(node: int) -> DeviceArray:
        """The array that a node describes."""
        return DeviceArray(node)

    @staticmethod
    def of(block: Block, row: DType, shape: tuple[int, ...]) -> DeviceArray:
        """The row-major array in a block, which is the array's from now on."""
        words, rank = block.words, len(shape)
        words[KIND] = rank | dtype_word(row) << 32
        words[SIZES : SIZES + rank] = shape
        words[STRIDES : STRIDES + rank] = row_major(shape)
        return DeviceArray(block.moved())

    @property
    def view(self) -> View:
        """Where it is."""
        return View(
            pointer=self.pointer,
            row=self._row,
            shape=self.shape,
            strides=row_major(self.shape),
            origin=self,
            owner=self,
            ready_on=self.stream,
        )

    @property
    def stream(self) -> int:
        """What comes later on this stream finds the array ready."""
        return self.words[STREAM]

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        words = self.words
        return tuple(words[SIZES : SIZES + (words[KIND] & 0xFFFFFFFF)])

    @property
    def _row(self) -> DType:
        return _rows()[self.words[KIND] >> 32]

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The element type, as NumPy has it."""
        return self._row.numpy

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self._row.bytes

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array of no axes has no len()")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype})"

    def __array__(
        self, dtype: object = None, *, copy: bool | None = None
    ) -> np.ndarray[Any, np.dtype[Any]]:
        import numpy as np

        from mlc.runtime.cuda.driver import device

        if copy is False:
            raise ValueError("an array on the device becomes one of NumPy only by a copy")
        found = np.empty(self.shape, self.dtype)
        gpu = device()
        with gpu.active():
            gpu.staging.download(self.pointer, [0], [found], self.stream)
        gpu.check_errors()
        return found if dtype is None else found.astype(dtype)  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        from mlc.runtime.cuda.driver import device

        reader = 0 if stream is None else stream_handle(stream)
        if stream != -1 and reader != self.stream:
            gpu = device()
            with gpu.active():
                gpu.native.follow(reader, self.stream)
        return _to_capsule(self, self._row, self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
            "stream": self.stream or LEGACY_STREAM,
        }


def device_put(x: object) -> DeviceArray:
    """
    A copy of an array on this process's GPU, for calls of functions with ``target="cuda"``, whose
    results are then of the same kind. GpuError where there is no GPU.
    """
    import numpy as np

    from mlc.dialects.dtypes import numpy_dtype
    from mlc.runtime.cuda.driver import device
    from mlc.runtime.interop import as_array

    given = np.asarray(x) if isinstance(x, bool | int | float | complex) else x
    array = as_array(given, "the argument of device_put")
    row, gpu = numpy_dtype(array.dtype), device()
    plain = np.ascontiguousarray(array).reshape(array.shape)
    keep: list[Block] = []
    with gpu.active():
        gpu.staging.upload([plain], keep, current_stream())
    return DeviceArray.of(keep[0], row, plain.shape)


_exported: dict[int, tuple[object, ...]] = {}
"""Address of a managed tensor -> what it needs alive."""


@_Deleter
def _release(address: int) -> None:
    _exported.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _drop_capsule(capsule: int) -> None:
    """A capsule that nobody took: its tensor goes with it."""
    valid = _PYTHON.PyCapsule_IsValid
    valid.restype, valid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
    if valid(capsule, _NAME):
        get = _PYTHON.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
        _exported.pop(get(capsule, _NAME), None)


def _to_capsule(block: Block, dtype: DType, shape: tuple[int, ...]) -> object:
    rank = len(shape)
    sizes = (ctypes.c_int64 * max(1, rank))(*shape)
    strides = (ctypes.c_int64 * max(1, rank))(*row_major(shape))
    tensor = _Tensor(
        block.pointer,
        CUDA,
        0,
        rank,
        _DataType(_code(dtype), 8 * dtype.bytes, 1),
        ctypes.cast(sizes, _Integers),
        ctypes.cast(strides, _Integers),
        0,
    )
    managed = _Managed(tensor, None, _release)
    address = ctypes.addressof(managed)
    _exported[address] = (managed, sizes, strides, block)
    new = _PYTHON.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return new(address, _NAME, ctypes.cast(_drop_capsule, ctypes.c_void_p))


def exporter(origin: object) -> Callable[[DeviceArray], object]:
    """What makes an array of `origin`'s library from a result, sharing memory."""
    if isinstance(origin, View):
        origin = origin.origin
    kind = type(origin)
    if kind not in _exporters:
        _exporters[kind] = _exporter(origin)
    return _exporters[kind]


_exporters: dict[type, Callable[[DeviceArray], object]] = {}


def _exporter(origin: object) -> Callable[[DeviceArray], object]:
    if isinstance(origin, DeviceArray):
        return lambda result: result
    root = type(origin).__module__.partition(".")[0].removesuffix("lib")
    namespace = getattr(origin, "__array_namespace__", None)
    candidates: list[object] = [namespace()] if callable(namespace) else []
    candidates += [sys.modules.get(name) for name in (f"{root}.numpy", root, f"{root}.dlpack")]
    for candidate in candidates:
        function: object = getattr(candidate, "from_dlpack", None)
        if callable(function):
            return function
    return lambda result: result
