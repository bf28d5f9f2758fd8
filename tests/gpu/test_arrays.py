"""Arrays of other libraries on the device: used in place, results of the same library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

import mlc
from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BOOL, F32, I64
from mlc.dialects.tensor.comparison import CompareOp
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.op import OpBuilder
from mlc.runtime.cuda import LoadedProgram
from tests.every_op.native import Argument, function_module, signature_of, to_plan
from tests.gpu.native import load

pytestmark = pytest.mark.gpu
N = Dim.symbol("n")


def _program(arguments: Sequence[Argument], symbols: Sequence[str] = ("n",)) -> LoadedProgram:
    def body(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
        return [b(AddOp, x[0], x[1]), b(CompareOp, x[0], x[1], predicate="lt")]

    module = function_module(arguments, body, symbols)
    signature = signature_of(module)
    return load(to_plan(module), signature)


def test_torch_tensors_in_place_and_torch_results() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    call: Any = _program([Argument(F32, (N,)), Argument(F32, (N,))])
    for n in (1, 7, 1000, 4099):
        x, y = torch.randn(n, device="cuda"), torch.randn(n, device="cuda")
        total, less = call(x, y)
        assert total.device.type == "cuda"
        assert torch.equal(total, x + y)
        assert less.dtype == torch.bool
        assert torch.equal(less, x < y)


def test_a_view_that_begins_between_aligned_places() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    call: Any = _program([Argument(F32, (N,)), Argument(F32, (N,))])
    x = torch.randn(1001, device="cuda")
    total, _ = call(x[1:], x[:-1])
    assert torch.equal(total, x[1:] + x[:-1])


def test_any_strides() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    m = Dim.symbol("m")
    arguments = [Argument(F32, (m, N), strided=True), Argument(F32, (m, N), strided=True)]
    call: Any = _program(arguments, ("m", "n"))
    x, y = torch.randn(40, 50, device="cuda"), torch.randn(50, 40, device="cuda")
    total, _ = call(x, y.T)
    assert torch.equal(total, x + y.T)
    total, _ = call(x[::2, 1::3], y.T[::2, 1::3])
    assert torch.equal(total, x[::2, 1::3] + y.T[::2, 1::3])
    row = torch.randn(50, device="cuda").expand(40, 50)
    total, _ = call(row, x)
    assert torch.equal(total, row + x)


def test_another_stream_waits_for_the_result() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    call: Any = _program([Argument(F32, (N,)), Argument(F32, (N,))])
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.ones(1 << 22, device="cuda")
        for _ in range(20):
            x, _ = call(x, x)
        assert float(x[0]) == float(x[-1]) == 2.0**20


def test_numpy_in_numpy_out() -> None:
    call: Any = _program([Argument(I64, (N,)), Argument(I64, (N,))])
    x = np.arange(10)
    total, less = call(x, x[::-1])
    assert type(total) is np.ndarray
    np.testing.assert_array_equal(total, np.full(10, 9))
    np.testing.assert_array_equal(less, x < x[::-1])


def test_results_are_the_same_bits_each_time() -> None:
    from mlc.dialects.tensor.reduce import ReduceOp

    def body(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
        words = ("mn->", "mn->m", "mn->n")
        return [b(ReduceOp, x[0], monoid="sum", letters=w) for w in words]

    module = function_module([Argument(F32, (Dim.const(3001), Dim.const(999)))], body)
    signature = signature_of(module)
    call: Any = load(to_plan(module), signature)
    x = np.random.default_rng(1).standard_normal((3001, 999)).astype(np.float32)
    first = call(x)
    for _ in range(5):
        for a, b in zip(first, call(x), strict=True):
            assert a.tobytes() == b.tobytes()


def test_memory_that_is_not_there_is_named_in_numbers() -> None:
    from mlc.runtime.cuda import device

    gpu = device()
    with gpu.active(), pytest.raises(MemoryError, match=r"1,\d\d\d,\d\d\d,\d\d\d,\d\d\d bytes"):
        gpu.pool.take(1 << 40)
    assert BOOL.bytes == 1


def test_a_call_without_room_says_what_its_plan_takes() -> None:
    @mlc.compile(target="cuda")
    def repeated(x: Any) -> Any:
        return np.broadcast_to(x, (1 << 20, 1 << 20)) + 1

    @mlc.compile(target="cuda")
    def negated(x: Any) -> Any:
        return -x

    with pytest.raises(MemoryError, match=r"4,398,\d+,\d+,\d+ for results, .* between kernels"):
        repeated(np.zeros(1 << 20, np.float32))
    np.testing.assert_array_equal(negated(np.ones(3)), -np.ones(3))


def test_compiled_functions_take_arrays_of_torch_and_of_numpy() -> None:
    @mlc.compile(target="cuda")
    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    x = np.random.default_rng(0).standard_normal((40, 70)).astype(np.float32)
    want = np.exp(x - x.max(axis=1, keepdims=True))
    want /= want.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax(x), want, rtol=1e-5)
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    for n in (40, 41, 50):
        y = torch.randn(n, 70, device="cuda")
        found = softmax(y)
        assert found.device.type == "cuda"
        assert torch.allclose(found, torch.softmax(y, 1), rtol=1e-5)


def test_an_index_error_names_the_line() -> None:

    @mlc.compile(target="cuda")
    def pick(x: Any, i: Any) -> Any:
        return x[i] + 1.0

    x = np.arange(5.0)
    np.testing.assert_array_equal(pick(x, np.array([0, -1])), [1.0, 5.0])
    with pytest.raises(IndexError, match="index 7 is out of bounds for an axis of size 5"):
        pick(x, np.array([0, 7]))
    np.testing.assert_array_equal(pick(x, np.array([2])), [3.0])
