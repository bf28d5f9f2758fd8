"""Calls of GPU programs that are made again, with a library and a driver written in Python."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from mlc.dialects.dtypes import F32, F64, DType
from mlc.dialects.launch import TensorMap
from mlc.runtime.cuda.dlpack import View, dtype_word, row_major
from mlc.runtime.cuda.entry import Entry, Made, Record, exchange
from mlc.runtime.cuda.native import GpuError
from mlc.runtime.cuda.recording import Launched, Recorder
from mlc.runtime.cuda.replay import MOST_GRAPHS, Replay
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
    requires_grad: bool = False

    __dlpack_c_exchange_api__: Any = None

    def __post_init__(self) -> None:
        self.strides = self.strides or row_major(self.shape)

    def is_neg(self) -> bool:
        """Whether its sign is to be turned."""
        return False

    def __del__(self) -> None:
        """Gives back memory that was exported to it."""
        if isinstance(self.words, int):
            release = (ctypes.c_uint64 * 10).from_address(self.words)[2]
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(release)(self.words)


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


ENOUGH = 3  # launches of one replay, with an argument's address in the second and third


def _view(x: Shared) -> View:
    return View(
        pointer=x.pointer,
        row=x.dtype,
        shape=x.shape,
        strides=x.strides,
        origin=x,
        owner=x,
        ready_on=0,
    )


class Program:
    """
    f(x, y): kernels with a number, 64 bytes behind y, and the result; with shared memory y is
    described to them. `slow`: the calls that native code does not make.
    """

    def __init__(
        self,
        x: Shared,
        y: Shared,
        alias_of: int | None = None,
        *,
        graph: bool = False,
        as_tuple: bool = False,
        shared_bytes: int = 0,
    ) -> None:
        self.device: Any = FakeDevice()
        self.driver = self.device.native
        self.slow: list[tuple[object, ...]] = []
        recorder = Recorder()
        bases = [x.pointer, y.pointer, 4096 if alias_of is None else (x, y)[alias_of].pointer]
        places = [recorder.address(value, k) for k, value in enumerate(bases)]
        kernels = [self.driver.function(f"k{k}", 3) for k in range(ENOUGH)]
        behind = places[1] + 64
        described = TensorMap(behind, (2, 3), (3,), "f32", (1, 32)) if shared_bytes else behind
        arguments = [
            (1000, described, places[2]),
            (1000, places[1] + 64, 1),
            (1000, places[0], 1),
        ]
        for kernel, passed in zip(kernels, arguments if graph else arguments[:1], strict=False):
            one = Launched(kernel.handle, (1, 2, 3), (4, 5, 6), passed, shared_bytes)
            recorder.launch(one)
        assert recorder.repeatable
        self.replay = Replay(self.device, recorder.launches, bases, stream)
        if not graph:  # else Python would make one for each set of addresses first
            for k in range(MOST_GRAPHS):
                self.replay.start([256 * (k + 1)] * 3)
            self.driver.launches.clear()
        result = Made(F32, (2, 3), alias_of)
        self.error = ctypes.c_uint64(0)
        at = ctypes.addressof(self.error)
        self.entry = Entry(2, 1, as_tuple=as_tuple, error_at=at)
        self.entry.add(Record(self.device.pool, self.replay, [_view(x), _view(y)], [result]))
        self.call = self.entry.builtin("f", self, self)
        self.stock(4)

    def __call__(self, *args: object) -> object:
        self.slow.append(args)
        return None

    def stock(self, count: int) -> None:
        """Free memory for results."""
        blocks = [self.device.pool.take(24, stream) for _ in range(count)]
        del blocks


def test_the_same_launch_with_other_addresses() -> None:
    f = Program(Shared(1024, (2, 3)), Shared(2048, (7,)))
    result = f.call(Shared(65536, (2, 3)), Shared(131072, (7,)))
    assert (result.shape, result.pointer % 256) == ((2, 3), 0)
    passed = (1000, 131072 + 64, result.pointer)
    assert f.driver.launches == [("k0", (1, 2, 3), (4, 5, 6), passed)]
    assert (f.driver.contexts, f.entry.calls, f.slow) == ([], 1, [])
    g = Program(Shared(1024, (2, 3)), Shared(2048, (7,)), as_tuple=True)
    (result,) = g.call(Shared(65536, (2, 3)), Shared(131072, (7,)))
    assert result.shape == (2, 3)


def test_a_described_matrix_elsewhere() -> None:
    f = Program(Shared(1024, (2, 3)), Shared(2048, (7,)), shared_bytes=49152)
    result = f.call(Shared(65536, (2, 3)), Shared(131072, (7,)))
    assert f.driver.launches[0][3] == (1000, 131072 + 64, result.pointer)
    assert f.driver.shared_bytes == 49152


def test_what_is_not_as_recorded_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    f = Program(x, y)
    others = [
        Shared(1024, (3, 2)),
        Shared(1024, (2, 3), F64),
        Shared(1024, (6,)),
        Shared(1024, (2, 3), strides=(1, 2)),
        Shared(1024 + 4, (2, 3)),
        Shared(1024, (2, 3), requires_grad=True),
        Derived(1024, (2, 3)),
        np.zeros((2, 3), np.float32),
        None,
    ]
    for other in others:
        f.call(other, y)
    f.call(x)
    f.entry.set_busy(True)
    f.call(x, y)
    f.entry.set_busy(False)
    f.error.value = 1
    f.call(x, y)
    f.error.value = 0
    monkeypatch.setattr("tests.unit.test_gpu_replay.stream", 9)
    f.call(x, y)
    assert len(f.slow) == len(others) + 4
    assert f.driver.launches == []


def test_axes_of_one_element_have_no_stride() -> None:
    f = Program(Shared(1024, (2, 1)), Shared(2048, (7,)))
    f.call(Shared(1024, (2, 1), strides=(1, 9)), Shared(2048, (7,)))
    assert f.entry.calls == 1


def test_donated_arrays_lie_apart() -> None:
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    f = Program(x, y, alias_of=0)
    assert f.call(x, y) is x
    assert f.driver.launches[0][3] == (1000, 2048 + 64, 1024)
    f.call(Shared(2048 + 16, (2, 3)), y)
    assert f.entry.calls == 1
    f.call(Shared(2048 + 32, (2, 3)), y)
    assert f.entry.calls == 2


def test_an_error_of_the_driver() -> None:
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    f = Program(x, y)
    f.driver.status = 2
    for _ in range(6):  # memory for results is given back
        with pytest.raises(GpuError, match="error 2"):
            f.call(x, y)
    assert (f.driver.contexts, f.slow) == ([], [])


def test_memory_of_results_is_used_again() -> None:
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    f = Program(x, y)
    held = [f.call(x, y) for _ in range(4)]
    assert len({r.pointer for r in held}) == 4
    f.call(x, y)
    assert len(f.slow) == 1  # no memory is left: Python takes some
    freed = held.pop().pointer
    assert f.call(x, y).pointer == freed
    del held
    used = f.driver.used_bytes
    assert f.device.pool.trim() == used
    assert f.driver.used_bytes == 0


def test_a_graph_for_each_of_a_few_sets_of_addresses() -> None:
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    f = Program(x, y, alias_of=0, graph=True)
    sets = [(Shared(65536 * k, (2, 3)), Shared(4096 * k, (7,))) for k in range(1, MOST_GRAPHS + 2)]
    for x, y in sets[:MOST_GRAPHS]:
        assert f.call(x, y) is None  # Python makes a graph
        f.replay.start([x.pointer, y.pointer, x.pointer])
    assert f.driver.changes == 0
    f.driver.launches.clear()
    for x, y in 2 * sets[:MOST_GRAPHS]:
        assert f.call(x, y) is x
    assert f.driver.changes == 0
    last = [(n, p) for n, _, _, p in f.driver.launches[-ENOUGH:]]
    behind, first = y.pointer + 64, x.pointer
    assert last == [
        ("k0", (1000, behind, first)),
        ("k1", (1000, behind, 1)),
        ("k2", (1000, first, 1)),
    ]
    assert len(f.driver.launches) == 2 * MOST_GRAPHS * ENOUGH


def test_a_graph_whose_addresses_differ_is_changed_where_they_do() -> None:
    x, y = Shared(1024, (2, 3)), Shared(2048, (7,))
    f = Program(x, y, alias_of=0, graph=True)
    for k in range(MOST_GRAPHS):
        f.replay.start([4096 + 256 * k, 2048, 4096 + 256 * k])
    f.driver.launches.clear()
    f.call(x, y)
    assert f.driver.changes == 2  # the second kernel reads y alone, which is where it was
    assert [p for _, _, _, p in f.driver.launches] == [
        (1000, 2112, 1024),
        (1000, 2112, 1),
        (1000, 1024, 1),
    ]
    f.call(x, y)
    assert f.driver.changes == 2
    f.call(Shared(8192, (2, 3)), y)
    assert f.driver.changes == 4
    f.call(x, y)  # another graph has given way
    assert f.driver.changes == 4


def test_graphs_go_with_their_replay() -> None:
    f = Program(Shared(1024, (2, 3)), Shared(2048, (7,)), graph=True)
    f.replay.start([1024, 2048, 4096])
    driver = f.driver
    assert len(driver.graphs) == 1
    f.entry.keep([])
    del f.replay
    assert driver.graphs == {}


@pytest.mark.parametrize("name", ["__mul__", "__rmul__", "__floordiv__", "__lt__", "__and__"])
def test_decisions_that_depend_on_addresses_are_not_repeated(name: str) -> None:
    recorder = Recorder()
    assert getattr(recorder.address(96, 0), name)(7) == getattr(96, name)(7)
    assert not recorder.repeatable


def test_types_without_the_interface() -> None:
    assert exchange(np.ndarray) is None
    found = exchange(Shared)
    assert found is not None
    assert (found.to_object, found.tensor, found.stream) == tuple(_API[4:])
