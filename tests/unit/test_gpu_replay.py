"""Calls of GPU programs that are made again, with a library and a driver written in Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from mlc.dialects.dtypes import F32, F64, DType
from mlc.dialects.launch import TensorMap
from mlc.runtime.cuda.dlpack import DeviceArray, dtype_word, row_major
from mlc.runtime.cuda.driver import GpuError
from mlc.runtime.cuda.native import MAP_ALIGNMENT
from mlc.runtime.cuda.recording import (
    Launched,
    Made,
    Recorder,
    Recording,
    exchange_api,
)
from mlc.runtime.layout import PYTHON, function_address
from tests.unit.fake_gpu import FakeDevice

stream = 0  # that the library works on


@dataclass
class Shared:
    """An array of a library with an exchange API."""

    pointer: int
    shape: tuple[int, ...]
    dtype: DType = F32
    strides: tuple[int, ...] = ()
    words: Any = None

    __dlpack_c_exchange_api__: Any = None

    def __post_init__(self) -> None:
        self.strides = self.strides or row_major(self.shape)


class Derived(Shared):
    """Another type."""


def _tensor_of(x: Shared, out: int) -> int:
    rank = len(x.shape)
    x.words = (ctypes.c_int64 * (2 * rank))(*x.shape, *x.strides)
    first = ctypes.addressof(x.words)
    values = (x.pointer, 2, rank | dtype_word(x.dtype) << 32, first, first + 8 * rank, 0)
    (ctypes.c_uint64 * 6).from_address(out)[:] = values
    return 0


def _object_of(managed: int, out: int) -> int:
    words = (ctypes.c_uint64 * 10).from_address(managed)
    rank = words[6] & 0xFFFFFFFF
    shape = tuple((ctypes.c_int64 * rank).from_address(words[7]))
    result = Shared(words[4], shape)
    result.words = managed
    PYTHON.Py_IncRef(ctypes.py_object(result))
    ctypes.c_size_t.from_address(out).value = id(result)
    return 0


def _stream_of(kind: int, number: int, out: int) -> int:
    ctypes.c_size_t.from_address(out).value = stream
    return 0


_CALLBACKS = (
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(_object_of),
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(_tensor_of),
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)(_stream_of),
)
_API = (ctypes.c_uint64 * 7)(1, 0, 0, 0, *(function_address(f) for f in _CALLBACKS))
_NAME = ctypes.create_string_buffer(b"dlpack_exchange_api")


def _capsule() -> object:
    new = PYTHON.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    found: object = new(ctypes.addressof(_API), ctypes.addressof(_NAME), None)
    return found


Shared.__dlpack_c_exchange_api__ = _capsule()


@dataclass
class Driver:
    """Notes the launches; `status` is what it answers."""

    status: int = 0
    launches: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = field(
        default_factory=list[tuple[int, tuple[int, ...], tuple[int, ...]]]
    )
    contexts: list[int] = field(default_factory=list[int])
    keep: list[object] = field(default_factory=list[object])
    shared_bytes: int = 0

    def functions(self) -> SimpleNamespace:
        def launch(*x: Any) -> int:
            arguments = ctypes.cast(x[9], ctypes.POINTER(ctypes.POINTER(ctypes.c_int64)))
            self.launches.append((x[0], x[1:7], tuple(arguments[k][0] for k in range(3))))
            self.shared_bytes = x[7]
            return self.status

        def push(context: int) -> int:
            self.contexts.append(context)
            return 0

        def pop(_: int) -> int:
            self.contexts.append(0)
            return 0

        word, size = ctypes.c_void_p, ctypes.c_uint
        kinds: list[tuple[Callable[..., int], Any]] = [
            (launch, ctypes.PYFUNCTYPE(ctypes.c_int, word, *[size] * 7, *[word] * 3)),
            (push, ctypes.PYFUNCTYPE(ctypes.c_int, word)),
            (pop, ctypes.PYFUNCTYPE(ctypes.c_int, word)),
        ]
        self.keep = [kind(function) for function, kind in kinds]
        names = ("launch_kernel", "push_context", "pop_context")
        addresses = map(function_address, self.keep)
        known = dict(zip(names, addresses, strict=True))
        return SimpleNamespace(**known, encode=_encode)


def _encode(x: TensorMap, at: int) -> None:
    """128 bytes, the address first."""
    assert at % MAP_ALIGNMENT == 0
    (ctypes.c_uint64 * 16).from_address(at)[:] = (int(x.address), *[7] * 15)


def _array(x: Shared) -> DeviceArray:
    return DeviceArray(
        pointer=x.pointer, row=x.dtype, shape=x.shape, strides=x.strides, origin=x, owner=x
    )


def _recording(
    driver: Driver, x: Shared, y: Shared, alias_of: int | None = None, shared_bytes: int = 0
) -> Recording:
    """
    f(x, y): a kernel with a number, 64 bytes behind y, and the result; with shared memory y is
    described to it.
    """
    device: Any = FakeDevice()
    device.native, device.context = driver.functions(), 77
    recorder = Recorder()
    bases = [x.pointer, y.pointer, 4096 if alias_of is None else (x, y)[alias_of].pointer]
    places = [recorder.address(value, k) for k, value in enumerate(bases)]
    behind = places[1] + 64
    described = TensorMap(behind, 2, 3, 3, "f32", (1, 32)) if shared_bytes else behind
    arguments = (1000, described, places[2])
    recorder.launch(Launched(5, (1, 2, 3), (4, 5, 6), arguments, shared_bytes))
    assert recorder.repeatable
    result = Made(F32, (2, 3), 24, alias_of)
    return Recording(device, recorder, [_array(x), _array(y)], bases, [result])


def made(call: Recording, *arguments: Shared) -> Shared:
    """The only result."""
    found = call.run(arguments)
    assert found is not None
    return cast("Shared", found[0])


def test_the_same_launch_with_other_addresses() -> None:
    driver = Driver()
    call = _recording(driver, Shared(1024, (2, 3)), Shared(2048, (7,)))
    result = made(call, Shared(65536, (2, 3)), Shared(131072, (7,)))
    assert result.shape == (2, 3)
    assert result.pointer % 256 == 0
    assert driver.launches == [(5, (1, 2, 3, 4, 5, 6), (1000, 131072 + 64, result.pointer))]
    assert driver.contexts == [77, 0]


def test_a_described_matrix_elsewhere() -> None:
    driver = Driver()
    call = _recording(driver, Shared(1024, (2, 3)), Shared(2048, (7,)), shared_bytes=49152)
    result = made(call, Shared(65536, (2, 3)), Shared(131072, (7,)))
    assert driver.launches[0][2] == (1000, 131072 + 64, result.pointer)
    assert driver.shared_bytes == 49152


def test_what_is_not_as_recorded_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    call = _recording(driver, x, y)
    others = [
        Shared(1024, (3, 2)),
        Shared(1024, (2, 3), F64),
        Shared(1024, (6,)),
        Shared(1024, (2, 3), strides=(1, 2)),
        Shared(1024 + 4, (2, 3)),
        Derived(1024, (2, 3)),
        np.zeros((2, 3), np.float32),
        None,
    ]
    assert [call.run((other, y)) for other in others] == [None] * len(others)
    assert call.run((x,)) is None
    monkeypatch.setattr("tests.unit.test_gpu_replay.stream", 9)
    assert call.run((x, y)) is None
    assert driver.launches == []


def test_donated_arrays_lie_apart() -> None:
    driver = Driver()
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    call = _recording(driver, x, y, alias_of=0)
    assert made(call, x, y) is x
    assert driver.launches[0][2] == (1000, 2048 + 64, 1024)
    assert call.run((Shared(2048 + 16, (2, 3)), y)) is None
    assert call.run((Shared(2048 + 32, (2, 3)), y)) is not None


def test_an_error_of_the_driver() -> None:
    driver = Driver(status=2)
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    call = _recording(driver, x, y)
    with pytest.raises(GpuError, match="error 2"):
        call.run((x, y))
    assert driver.contexts == [77, 0]


def test_memory_of_results_is_used_again() -> None:
    driver = Driver()
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    call = _recording(driver, x, y)
    first = made(call, x, y)
    managed = first.words
    release = (ctypes.c_uint64 * 10).from_address(managed)[2]
    pointer = first.pointer
    second = made(call, x, y)
    assert second.pointer != pointer
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)(managed)
    third = made(call, x, y)
    assert third.pointer == pointer


@pytest.mark.parametrize("name", ["__mul__", "__rmul__", "__floordiv__", "__lt__", "__and__"])
def test_decisions_that_depend_on_addresses_are_not_repeated(name: str) -> None:
    recorder = Recorder()
    assert getattr(recorder.address(96, 0), name)(7) == getattr(96, name)(7)
    assert not recorder.repeatable


def test_types_without_the_interface() -> None:
    assert exchange_api(np.ndarray) is None
    assert exchange_api(Shared) == ctypes.addressof(_API)
