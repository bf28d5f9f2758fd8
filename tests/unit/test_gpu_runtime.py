"""The GPU's runtime without a GPU: what is said where there is none, memory, copies, the plan."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NoReturn, cast

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mlc.dialects import launch
from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import DTYPES, F32, F64, I64
from mlc.dialects.faults import LIBRARY_FAULTS
from mlc.dialects.signature import EntrySignature
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.library import ROUTINES
from mlc.dialects.tensor.op import OpBuilder
from mlc.runtime.cuda import driver, load, program
from mlc.runtime.cuda.driver import nearest_row
from mlc.runtime.cuda.interpret import ProgramError, run_steps
from tests.every_op.native import Argument, function_module, signature_of, to_plan
from tests.gpu.native import gpu_program, not_taken, ptx_of
from tests.unit.fake_gpu import FakeDevice

N = Dim.symbol("n")


def _target(name: str) -> GpuTarget:
    target = named_target(name)
    assert isinstance(target, GpuTarget)
    return target


H200 = _target("h200")


# No GPU


def _driver(init: Any = None, count: int = 0) -> Any:
    def start() -> None:
        if init is not None:
            raise init

    return SimpleNamespace(
        init=start, Error=RuntimeError, Device=SimpleNamespace(count=lambda: count)
    )


def test_without_pycuda(monkeypatch: pytest.MonkeyPatch) -> None:
    driver.device.cache_clear()
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with pytest.raises(driver.GpuError, match=r"needs an NVIDIA GPU and PyCUDA.*pip install"):
        driver.device()


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> NoReturn:
        raise ImportError("libcuda.so.1: cannot open shared object file")

    driver.device.cache_clear()
    monkeypatch.setattr(driver, "import_module", fail)
    with pytest.raises(driver.GpuError, match=r"libcuda.so.1.*`mlc build --emit ptx` works"):
        driver.device()


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (_driver(RuntimeError("cuInit failed: no CUDA-capable device")), "no CUDA-capable device"),
        (_driver(), "found a driver and no device"),
    ],
)
def test_without_a_device(found: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def import_module(name: str) -> Any:
        return found

    driver.device.cache_clear()
    monkeypatch.setattr(driver, "import_module", import_module)
    with pytest.raises(driver.GpuError, match=words):
        driver.device()


# Programs on a device that runs no kernels


def _raise(site: int, value: int, extent: int) -> NoReturn:
    raise IndexError(f"site {site}: {value} of {extent}")


def _load(monkeypatch: pytest.MonkeyPatch, device: FakeDevice, module: Any) -> Any:
    monkeypatch.setattr(load, "device", lambda: device)
    signature = signature_of(module)
    compiled = gpu_program(to_plan(module), H200)
    ptx = ptx_of(compiled, H200)
    return load.load_program(
        compiled.plan,
        ptx,
        signature,
        H200,
        slow=not_taken,
        on_error=_raise,
        arena_bytes=lambda sizes: 7 * sizes[0],
    )


def _sum(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(AddOp, x[0], x[1])]


def test_one_launch_with_sizes_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice()
    module = function_module([Argument(F32, (N,)), Argument(F32, (N,))], _sum, ("n",))
    call = _load(monkeypatch, device, module)
    call(np.zeros(1000, np.float32), np.zeros(1000, np.float32))
    ((_, grid, block, arguments),) = device.native.launches
    assert grid == (1, 1, 1)  # 250 threads with four elements each
    assert block == (256, 1, 1)
    assert arguments[1] == 1000
    assert all(pointer % 16 == 0 for pointer in arguments[2:])
    device.native.launches.clear()
    call(np.zeros(0, np.float32), np.zeros(0, np.float32))
    assert device.native.launches == []


def test_small_arrays_travel_together(monkeypatch: pytest.MonkeyPatch) -> None:
    device = FakeDevice()
    module = function_module([Argument(F32, (N,)), Argument(F32, (N,))], _sum, ("n",))
    call = _load(monkeypatch, device, module)
    before = device.native.copies_in, device.native.copies_out
    call(np.zeros(10, np.float32), np.zeros(10, np.float32))
    assert (device.native.copies_in - before[0], device.native.copies_out - before[1]) == (1, 1)
    call(np.zeros(1 << 20, np.float32), np.zeros(1 << 20, np.float32))
    assert device.native.copies_in - before[0] == 3


def test_any_host_strides(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = [Argument(F32, (N, N), strided=True), Argument(F32, (N, N), strided=True)]
    device = FakeDevice()
    call = _load(monkeypatch, device, function_module(arguments, _sum, ("n",)))
    x = np.zeros((6, 6), np.float32)
    call(x.T, x[::-1])
    ((_, _, _, passed),) = device.native.launches
    assert passed[1] == 6


def test_an_error_word_raises_and_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
        return [b(GatherOp, x[0], x[1], letters="0,n->n")]

    arguments = [Argument(F32, (Dim.const(5),)), Argument(I64, (N,))]
    device = FakeDevice()
    call = _load(monkeypatch, device, function_module(arguments, body, ("n",)))
    inputs = np.zeros(5, np.float32), np.zeros(3, np.int64)
    call(*inputs)
    word = device.native.launches[0][3][0]
    for offset, number in ((40, 1), (48, 7), (72, 5)):
        ctypes.c_int64.from_address(word + offset).value = number
    with pytest.raises(IndexError, match="site 1: 7 of 5"):
        call(*inputs)
    call(*inputs)


def test_a_program_for_another_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    module = function_module([Argument(F32, (N,)), Argument(F32, (N,))], _sum, ("n",))
    with pytest.raises(driver.GpuError, match=r"compiled for sm_90a, the GPU .* capability 80"):
        _load(monkeypatch, FakeDevice(compute_capability=80), module)


# Memory


def test_blocks_are_used_again_and_missing_memory_is_said_in_numbers() -> None:
    device = FakeDevice(memory_bytes=10_000)
    block = device.pool.take(3000)
    pointer = block.pointer
    del block
    again = device.pool.take(3000)
    assert again.pointer == pointer
    with pytest.raises(MemoryError, match=r"8,192 bytes are needed .* 6,928 of 10,000 are free"):
        device.pool.take(8000)
    del again
    assert device.pool.take(8000).size_bytes == 8192  # what was free went back to the driver


def test_a_call_without_room_says_what_its_plan_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    module = function_module([Argument(F32, (N,)), Argument(F32, (N,))], _sum, ("n",))
    call = _load(monkeypatch, FakeDevice(memory_bytes=10_000), module)
    parts = "8,000 bytes for arguments of the host, 4,000 for results, 7,000 between kernels"
    with pytest.raises(MemoryError, match=rf"of 10,000 are free.*; the call takes {parts}"):
        call(np.zeros(1000, np.float32), np.zeros(1000, np.float32))


# The launch plan


class _Notes:
    """A machine that notes what steps ask of it."""

    def __init__(self) -> None:
        self.launches: list[tuple[int, ...]] = []
        self.numbers: dict[int, int] = {}

    def reserve(self, size_bytes: int) -> int:
        return 4096 + size_bytes

    def launch(
        self, kernel: str, grid: Any, block: Any, arguments: Sequence[Any], shared_bytes: int = 0
    ) -> None:
        self.launches.append(tuple(arguments))

    def read_number(self, address: int, size_bytes: int) -> int:
        return self.numbers[address] % 256**size_bytes

    def write_number(self, address: int, value: int) -> None:
        self.numbers[address] = value

    def library(
        self, routine: int, dtype: int, operands: Sequence[int], output: int, sizes: Sequence[int]
    ) -> int:
        self.launches.append((routine, dtype, *operands, output, *sizes))
        return 3


def test_a_loop_rotates_its_buffers() -> None:
    machine, registers = _Notes(), [0] * 12
    registers[2:7] = [0, 1, 3, 100, 200]  # 0, 1, trips, two buffers
    kernel = launch.Launch("k", (3, 3, 3), (3, 3, 3), (8, 9))
    loop = launch.Loop(7, 2, 4, 3, (8, 9), (5, 6), (9, 8), (launch.WriteNumber(7, 3), kernel))
    run_steps([loop], registers, machine)
    assert machine.launches == [(100, 200), (200, 100), (100, 200)]
    assert machine.numbers == {1: 2}
    assert registers[8:10] == [200, 100]


def test_while_tests_before_every_trip() -> None:
    machine, registers = _Notes(), [0] * 10
    registers[2:6] = [1, 3, 40, 5]  # 1, limit, two numbers
    loop = launch.While(
        carried=(6, 7),
        inits=(4, 5),
        test=(launch.Compute("add", 8, (8, 2)), launch.Compute("lt", 9, (8, 3))),
        condition=9,
        body=(launch.WriteNumber(6, 8),),
        yields=(7, 6),
    )
    run_steps([loop], registers, machine)
    assert machine.numbers == {1: 40, 2: 5}
    assert registers[6:8] == [40, 5]


def test_branches_arithmetic_and_errors() -> None:
    machine, registers = _Notes(), [0] * 8
    registers[2:4] = [7, 2]
    steps = (
        launch.Reserve(2),
        launch.Compute("div", 4, (2, 3)),
        launch.Compute("gt", 5, (4, 3)),
        launch.Branch(5, (launch.Fail(2, 4, 3),), ()),
    )
    with pytest.raises(ProgramError) as caught:
        run_steps(steps, registers, machine)
    assert registers[launch.ARENA] == 4103
    assert (caught.value.site, caught.value.value, caught.value.extent) == (2, 3, 2)


def test_the_status_of_a_library_routine_is_a_number() -> None:
    machine, registers = _Notes(), [0] * 9
    registers[2:8] = [10, 20, 30, 40, 50, 60]
    run_steps([launch.Library(8, 1, 11, (2, 3), 4, (5, 6, 7))], registers, machine)
    assert machine.launches == [(1, 11, 10, 20, 30, 40, 50, 60)]
    assert registers[8] == 3


def test_the_host_computes_library_routines() -> None:
    device = FakeDevice()
    signature = EntrySignature((), (), ())
    empty = launch.LaunchPlan(2, 0, 0, 0, (), (), (), fails=False)
    call = program.LoadedProgram(
        cast("driver.Device", device), empty, {}, signature, slow=not_taken, on_error=not_taken
    )
    routine, dtype, sizes = list(ROUTINES).index("inv"), DTYPES.index(F64), [2, 3, 3, 1, 1]
    x = np.stack([np.eye(3) * 2.0, np.diag([1.0, 2.0, 4.0])])
    given, taken = device.pool.take(x.nbytes), device.pool.take(x.nbytes)
    device.native.copy_in(given.pointer, x.ctypes.data, x.nbytes, 0)
    addresses = [given.pointer] * 3  # a call always passes three
    assert call.library(routine, dtype, addresses, taken.pointer, sizes) == 0
    found = np.empty_like(x)
    device.native.copy_out(found.ctypes.data, taken.pointer, found.nbytes, 0)
    np.testing.assert_array_equal(found, np.linalg.inv(x))
    device.native.copy_in(given.pointer, np.zeros_like(x).ctypes.data, x.nbytes, 0)
    status = call.library(routine, dtype, addresses, taken.pointer, sizes)
    assert LIBRARY_FAULTS[status - 1] == "Singular matrix"


@pytest.mark.parametrize(
    ("capability", "row"),
    [(70, None), (75, "sm_75"), (87, "sm_86"), (90, "sm_90a"), (95, "sm_90"), (100, "sm_100a")],
)
def test_the_row_of_a_gpu_has_what_it_alone_has(capability: int, row: str | None) -> None:
    found = nearest_row(capability)
    assert (None if found is None else found.name.replace("h200", "sm_90a")) == row
