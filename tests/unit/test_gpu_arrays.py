"""Arrays on the device and calls with them, on a device that runs no kernels."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

import mlc
from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BF16, DTYPES, F8E4M3FN, F8E5M2, F32, I64, named_dtype
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import OpBuilder
from mlc.runtime.cuda import driver, load
from mlc.runtime.cuda.dlpack import dtype_word, view_of
from tests.every_op.native import Argument, function_module, signature_of, to_plan
from tests.gpu.native import gpu_program, not_taken, on_error, ptx_of
from tests.unit.fake_gpu import FakeDevice

N = Dim.symbol("n")
PAIR = [Argument(F32, (N,)), Argument(F32, (N,))]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """The only device."""
    device = FakeDevice()
    device.name = "NVIDIA H200"
    monkeypatch.setattr(driver, "device", lambda: device)
    monkeypatch.setattr(load, "device", lambda: device)
    return device


def _load(arguments: Sequence[Argument], body: Any) -> load.LoadedProgram:
    target = named_target("h200")
    assert isinstance(target, GpuTarget)
    module = function_module(arguments, body, ("n",))
    signature = signature_of(module)
    compiled = gpu_program(to_plan(module), target)
    ptx = ptx_of(compiled, target)
    return load.load_program(
        compiled.plan, ptx, signature, target, slow=not_taken, on_error=on_error
    )


def _sum(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(AddOp, x[0], x[1])]


@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.int8, np.bool_, np.float64, BF16.numpy, F8E4M3FN.numpy, F8E5M2.numpy],
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (1,) * 20])
def test_there_and_back(gpu: FakeDevice, dtype: Any, shape: tuple[int, ...]) -> None:
    x: np.ndarray[Any, Any] = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    there = mlc.device_put(x[::-1] if shape else x)
    assert isinstance(there, mlc.DeviceArray)
    assert (there.shape, there.dtype, there.ndim) == (x.shape, x.dtype, x.ndim)
    assert (there.size, there.nbytes) == (x.size, x.nbytes)
    np.testing.assert_array_equal(np.asarray(there), x[::-1] if shape else x)
    assert np.asarray(there, np.float64).dtype == np.float64


def test_what_an_array_says_to_others(gpu: FakeDevice) -> None:
    there = mlc.device_put(np.ones((2, 3), np.float32))
    said = there.__cuda_array_interface__
    assert (said["shape"], said["typestr"], said["data"]) == ((2, 3), "<f4", (there.pointer, False))
    assert said["stream"] == 1
    assert len(there) == 2
    assert repr(there) == "DeviceArray(shape=(2, 3), dtype=float32)"
    with pytest.raises(ValueError, match="only by a copy"):
        np.asarray(there, copy=False)
    with pytest.raises(TypeError, match="no len"):
        len(mlc.device_put(1.0))
    pointer, capsule = there.pointer, there.__dlpack__(stream=1)
    del there
    assert mlc.device_put(np.ones((2, 3), np.float32)).pointer != pointer  # the capsule holds it
    del capsule
    assert mlc.device_put(np.ones((2, 3), np.float32)).pointer == pointer
    assert gpu.native.followed == []


def test_every_dtype_has_its_own_code() -> None:
    packed = [dtype for dtype in DTYPES if dtype.name in ("f4e2m1fn", "i2", "u2", "i4", "u4")]
    own = [dtype for dtype in DTYPES if dtype not in packed]
    assert len({dtype_word(dtype) for dtype in own}) == len(own)
    for dtype in packed:
        with pytest.raises(BufferError, match=r"expected x.view\(np.uint8\)"):
            dtype_word(dtype)


def test_an_array_of_another_device_is_refused(gpu: FakeDevice) -> None:
    there = mlc.device_put(np.ones(3, np.float32))
    capsule = there.__dlpack__(stream=-1)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    device_id = get(capsule, b"dltensor") + 12
    ctypes.c_int32.from_address(device_id).value = 1
    other = SimpleNamespace(__dlpack__=lambda stream: capsule)  # pyright: ignore[reportUnknownLambdaType]
    with pytest.raises(TypeError, match="x lies on cuda:1; expected cuda:0"):
        view_of(other, "x")


def test_a_reader_on_another_stream_follows(gpu: FakeDevice) -> None:
    with mlc.stream(9):
        there = mlc.device_put(np.ones(3))
    assert there.stream == 9
    there.__dlpack__(stream=9)
    there.__dlpack__(stream=-1)
    assert gpu.native.followed == []
    there.__dlpack__(stream=1)
    assert gpu.native.followed == [(0, 9)]


def test_streams_of_libraries() -> None:
    for given in (
        7,
        SimpleNamespace(cuda_stream=7),
        SimpleNamespace(ptr=7),
        SimpleNamespace(__cuda_stream__=lambda: (0, 7)),
    ):
        with mlc.stream(given):
            assert driver.current_stream() == 7
    assert driver.current_stream() == 0
    with pytest.raises(TypeError, match="expected a number or a stream"), mlc.stream("fast"):
        pass


def test_producers_are_followed(gpu: FakeDevice) -> None:
    there = mlc.device_put(np.ones(8, np.float32))
    said = there.__cuda_array_interface__

    def foreign(stream: int | None) -> Any:
        members = {"__cuda_array_interface__": {**said, "stream": stream}}
        return type("Foreign", (), members)()

    call = _load(PAIR, _sum)
    call(foreign(None), foreign(1))
    assert gpu.native.followed == []
    call(foreign(5), foreign(None))
    assert gpu.native.followed == [(0, 5)]
    with mlc.stream(5):
        call(foreign(5), foreign(None))
    assert gpu.native.streams == [0, 0, 5]
    assert gpu.native.followed == [(0, 5)]
    assert view_of(foreign(2), "x").ready_on == 2


def test_calls_like_those_before_are_native(gpu: FakeDevice) -> None:
    call = _load(PAIR, _sum)
    f: Any = call.builtin
    x, y = (mlc.device_put(np.ones(1000, np.float32)) for _ in range(2))
    (found,) = f(x, y)
    assert isinstance(found, mlc.DeviceArray)
    python_calls = call.calls
    for k in range(5):
        found = None
        (found,) = f(x, y)
        assert (found.shape, found.dtype) == ((1000,), np.float32)
        name, _, _, passed = gpu.native.launches[-1]
        assert name == gpu.native.launches[0][0]
        assert {x.pointer, y.pointer, found.pointer} <= set(passed)
        assert call.calls == python_calls + k + 1
    assert call._entry.calls == 4  # pyright: ignore[reportPrivateUsage]
    f(mlc.device_put(np.ones(9, np.float32)), mlc.device_put(np.ones(9, np.float32)))
    assert call._entry.calls == 4  # pyright: ignore[reportPrivateUsage]
    found = None
    f(x, y)
    assert call._entry.calls == 5  # pyright: ignore[reportPrivateUsage]


def test_each_stream_has_memory_of_its_own(gpu: FakeDevice) -> None:
    f: Any = _load(PAIR, _sum).builtin
    x, y = (mlc.device_put(np.ones(1000, np.float32)) for _ in range(2))
    places: dict[int, set[int]] = {0: set(), 5: set()}
    for _ in range(3):
        for stream, seen in places.items():
            with mlc.stream(stream):
                (found,) = f(x, y)
            assert (found.stream, gpu.native.streams[-1]) == (stream, stream)
            seen.add(found.pointer)
            del found
    assert [len(seen) for seen in places.values()] == [1, 1]
    assert not places[0] & places[5]


def test_many_shapes_keep_memory_flat(gpu: FakeDevice) -> None:
    f: Any = _load(PAIR, _sum).builtin
    arrays = [mlc.device_put(np.ones(n, np.float32)) for n in range(1, 40)]
    for x in 3 * arrays:
        f(x, x)
    used = gpu.native.used_bytes
    for x in 3 * arrays:
        f(x, x)
    assert gpu.native.used_bytes == used


def test_a_late_error_is_raised_where_the_host_waits(gpu: FakeDevice) -> None:
    def body(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
        return [b(GatherOp, x[0], x[1], letters="0,n->n")]

    call = _load([Argument(F32, (Dim.const(5),)), Argument(I64, (N,))], body)
    f: Any = call.builtin
    x, k = mlc.device_put(np.ones(5, np.float32)), mlc.device_put(np.zeros(3, np.int64))
    (found,) = f(x, k)
    word = gpu.native.launches[0][3][0]

    def fail() -> None:
        for offset, number in ((40, 1), (48, 7), (72, 5)):
            ctypes.c_int64.from_address(word + offset).value = number

    fail()
    with pytest.raises(IndexError, match="index 7 is out of bounds for size 5"):
        np.asarray(found)
    np.asarray(found)
    fail()
    with pytest.raises(IndexError, match="index 7"):
        f(x, k)
    f(x, k)


def test_host_arrays_make_the_same_launches_again(gpu: FakeDevice) -> None:
    call = _load(PAIR, _sum)
    x = np.ones(1000, np.float32)
    for _ in range(3):
        call(x, x)
    first, *others = gpu.native.launches
    assert [(n, g, b, a[:2]) for n, g, b, a in others] == 2 * [(*first[:3], first[3][:2])]
    assert len(gpu.native.contexts) == 0


def test_functions_of_containers_have_a_short_way(gpu: FakeDevice) -> None:
    def step(params: Any, x: Any) -> Any:
        return {"w": params["w"] - 0.5 * x, "b": params["b"] + 1.0}, x * params["w"]

    compiled: Any = mlc.compile(target="cuda", donate="params")(step)
    params = {k: mlc.device_put(np.ones(64, np.float32)) for k in "wb"}
    x = mlc.device_put(np.ones(64, np.float32))
    for _ in range(6):
        new, product = compiled(params, x)
        assert new["w"] is params["w"]
        assert new["b"] is params["b"]
        assert (product.shape, product.dtype) == ((64,), np.float32)
    (ready,) = (r for group in compiled._dispatcher.ready.values() for r in group)
    native = ready.executable.entry._entry.calls
    assert native >= 3
    compiled(params, x)
    assert ready.executable.entry._entry.calls == native + 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_numbers_are_stored_by_the_call(gpu: FakeDevice, dtype: Any) -> None:
    def scaled(x: Any, a: Any) -> Any:
        return x * a

    compiled: Any = mlc.compile(target="cuda")(scaled)
    x = mlc.device_put(np.ones(64, dtype))
    numbers: list[Any] = [3, -7, 0, 2**24 + 1]
    if np.dtype(dtype).kind == "f":
        numbers += [0.1, -2.5, float("inf")]
    for kind in (int, float):
        given = [a for a in numbers if type(a) is kind]
        for a in 3 * given:
            compiled(x, a)
            (name, _, _, (place, bits)), (_, _, _, passed) = gpu.native.launches[-2:]
            assert name == "mlc_write_number"
            assert place in passed
            (ready, *_) = next(iter(reversed(compiled._dispatcher.ready.values())))
            row = named_dtype(ready.program.signature.args[1].dtype)
            assert np.frombuffer(bytes(ctypes.c_int64(bits)), row.numpy)[0] == row.numpy.type(a)
    entries = [r.executable.entry for g in compiled._dispatcher.ready.values() for r in g]
    assert all(entry._entry.calls >= 5 for entry in entries)
    if dtype is np.int32:
        with pytest.raises(OverflowError):
            compiled(x, 2**40)


def test_free_memory_is_given_back(gpu: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "device", lru_cache(lambda: gpu))
    kept = mlc.device_put(np.ones(1000, np.float32))
    assert mlc.device_put(np.ones(5000, np.float32)).size == 5000
    before = gpu.native.used_bytes
    freed = mlc.clear_pool()
    assert 0 < before - gpu.native.used_bytes <= freed
    assert float(np.asarray(kept).sum()) == 1000.0
