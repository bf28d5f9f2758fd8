"""
Arrays on the device in and out: the DLPack protocol, and __cuda_array_interface__ beside it.

SOURCE: dlpack.h (version 0.8 structs, which every producer and consumer still speaks).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from mlc.dialects.dtypes import DTYPES, DType
from mlc.runtime.cuda.driver import Block, Device
from mlc.runtime.interop import DLPackArray

if TYPE_CHECKING:
    import numpy as np

CUDA = 2  # DLDeviceType
CUDA_MANAGED = 13
LEGACY_STREAM = 1  # what __dlpack__(stream=) calls the default stream
_CODES = {"int": 0, "uint": 1, "float": 2, "complex": 5, "bool": 6}  # DLDataTypeCode
_BFLOAT_CODE = 4


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
class DeviceArray:
    """An array on the device, whoever owns it: where it is, `strides` in elements.

    `origin` is the caller's object, `owner` keeps the memory alive.
    """

    pointer: int
    row: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    origin: object
    owner: object

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
        _ours[kind] = True if kind in (Result, DeviceArray) else None if asks else False
    always = _ours[kind]
    if always is not None:
        return always
    if hasattr(kind, "__dlpack_device__"):
        place = cast("DLPackArray", value).__dlpack_device__()
        return int(place[0]) in (CUDA, CUDA_MANAGED)
    return hasattr(value, "__cuda_array_interface__")


def device_array(value: Any, where: str) -> DeviceArray:
    """An argument on the device, in place. TypeError for a dtype that the compiler has not."""
    if isinstance(value, DeviceArray):
        return value
    if isinstance(value, Result):
        return value.array
    if hasattr(value, "__dlpack__"):
        try:
            capsule = value.__dlpack__(stream=LEGACY_STREAM)
        except (BufferError, RuntimeError, TypeError) as error:
            raise TypeError(
                f"{where} cannot be shared: {error}; pass a plain array, such as x.detach()"
            ) from error
        return _from_capsule(value, capsule, where)
    return _from_interface(value, where)


def _from_capsule(value: object, capsule: object, where: str) -> DeviceArray:
    get = _PYTHON.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    managed = _Managed.from_address(get(capsule, _NAME))
    tensor = managed.tensor
    shape = tuple(tensor.shape[k] for k in range(tensor.ndim))
    strides = row_major(shape)
    if tensor.strides:
        strides = tuple(tensor.strides[k] for k in range(tensor.ndim))
    code, bits = tensor.dtype.code, tensor.dtype.bits
    dtype = next((d for d in DTYPES if _code(d) == code and 8 * d.bytes == bits), None)
    if dtype is None or tensor.dtype.lanes != 1:
        raise TypeError(f"{where} has a dtype of code {code} and {bits} bits; {_expected()}")
    # the capsule stays unconsumed: when it dies, its producer takes the array back
    return DeviceArray(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        row=dtype,
        shape=shape,
        strides=strides,
        origin=value,
        owner=capsule,
    )


def _code(dtype: DType) -> int:
    return _BFLOAT_CODE if dtype.name == "bf16" else _CODES.get(dtype.kind, -1)


def dtype_word(dtype: DType) -> int:
    """A DLDataType as its four bytes."""
    return _code(dtype) | (8 * dtype.bytes) << 8 | 1 << 16


def _from_interface(value: Any, where: str) -> DeviceArray:
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
    return DeviceArray(
        pointer=int(found["data"][0]),
        row=dtype,
        shape=shape,
        strides=strides,
        origin=value,
        owner=value,
    )


def _expected() -> str:
    return f"expected one of {', '.join(str(d.numpy) for d in DTYPES)}"


class Result:
    """A result on the device, for any library that speaks DLPack or the CUDA array interface."""

    def __init__(self, device: Device, block: Block, dtype: DType, shape: tuple[int, ...]) -> None:
        self._device = device
        self._block = block
        self.dtype = dtype
        self.shape = shape
        self.array = DeviceArray(
            pointer=block.pointer,
            row=dtype,
            shape=shape,
            strides=row_major(shape),
            origin=self,
            owner=block,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        if stream is not None and stream > 2:
            self._device.synchronize()  # another stream: it must not read too early
        return _to_capsule(self._block, self.dtype, self.shape)

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.numpy.str,
            "data": (self._block.pointer, False),
            "strides": None,
            "version": 3,
            "stream": LEGACY_STREAM,
        }


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


def exporter(origin: object) -> Callable[[Result], object]:
    """What makes an array of `origin`'s library from a result, sharing memory."""
    if isinstance(origin, DeviceArray):
        origin = origin.origin
    kind = type(origin)
    if kind not in _exporters:
        _exporters[kind] = _exporter(origin)
    return _exporters[kind]


_exporters: dict[type, Callable[[Result], object]] = {}


def _exporter(origin: object) -> Callable[[Result], object]:
    if isinstance(origin, Result):
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
