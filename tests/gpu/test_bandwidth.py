"""Kernels that only move memory reach 60 % of the device's copy bandwidth, on 512 MiB arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32, DType
from mlc.dialects.tensor.elementwise import AddOp, DivOp, ExpOp, MulOp, SubOp
from mlc.dialects.tensor.op import OpBuilder, tensor_of
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, TransposeOp
from tests.every_op.native import Argument, function_module, signature_of, to_plan
from tests.gpu.native import load

pytestmark = pytest.mark.gpu

MIB = 1 << 20
ELEMENTS = 128 * MIB  # f32: 512 MiB, ten times the level-2 cache of an H200
Body = Callable[[OpBuilder, Sequence[SSAValue]], list[SSAValue]]


def device_result(dtype: DType, shape: tuple[int, ...]) -> Any:
    """Random data on the device."""
    import mlc

    rng = np.random.default_rng(0)
    data = np.resize(rng.random(1 << 20, np.float32), shape).astype(dtype.numpy, copy=False)
    return mlc.device_put(data)


def seconds(call: Callable[[], object], repeat: int = 7, calls: int = 10) -> float:
    """Median time on the device of one of several calls in a row, which hide the host's part."""
    from mlc.runtime.cuda import device

    gpu = device()
    times: list[float] = []
    for k in range(2 + repeat):
        with gpu.active():
            start, end = gpu.native.event(timed=True), gpu.native.event(timed=True)
            gpu.native.record(start, 0)
            for _ in range(calls):
                call()
            gpu.native.record(end, 0)
            time = gpu.native.seconds_between(start, end) / calls
            times.append(time if k >= 2 else 0.0)
    return median(times[2:])


def copy_bytes_per_s() -> float:
    """The device's copy, read and written."""
    from mlc.runtime.cuda import device

    gpu = device()
    size = 4 * ELEMENTS
    with gpu.active():
        source, target = gpu.pool.take(size), gpu.pool.take(size)
    return 2 * size / seconds(lambda: gpu.native.copy(target.pointer, source.pointer, size, 0))


def _spread(b: OpBuilder, x: SSAValue, like: SSAValue) -> SSAValue:
    return b(BroadcastOp, x, letters="m->mn", declared=tensor_of(like))


def add(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(AddOp, x[0], b(MulOp, x[1], x[1]))]


def row_sum(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(ReduceOp, x[0], monoid="sum", letters="mn->m")]


def column_sum(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(ReduceOp, x[0], monoid="sum", letters="mn->n")]


def full_sum(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(ReduceOp, x[0], monoid="sum", letters="mn->")]


def argmax(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(ReduceOp, x[0], monoid="argmax", letters="mn->m")]


def softmax(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    largest = b(ReduceOp, x[0], monoid="max", letters="mn->m")
    e = b(ExpOp, b(SubOp, x[0], _spread(b, largest, x[0])))
    total = b(ReduceOp, e, monoid="sum", letters="mn->m")
    return [b(DivOp, e, _spread(b, total, x[0]))]


def exp(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(ExpOp, x[0])]


def transpose(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(TransposeOp, x[0], letters="mn->nm")]


def row_bias(b: OpBuilder, x: Sequence[SSAValue]) -> list[SSAValue]:
    return [b(AddOp, x[0], b(BroadcastOp, x[1], letters="n->mn", declared=tensor_of(x[0])))]


# body, shapes of the arguments, arrays of full size that the kernels move at least, floor
CASES: dict[str, tuple[Body, list[tuple[int, ...]], float, float]] = {
    "x + y*y": (add, [(ELEMENTS,), (ELEMENTS,)], 3, 0.6),
    "exp": (exp, [(ELEMENTS,)], 2, 0.6),
    "row bias 4096": (row_bias, [(ELEMENTS // 4096, 4096), (4096,)], 2, 0.6),
    "row bias 10": (row_bias, [(ELEMENTS // 10, 10), (10,)], 2, 0.6),
    "row sum 4096": (row_sum, [(ELEMENTS // 4096, 4096)], 1, 0.6),
    "row sum 1000": (row_sum, [(ELEMENTS // 1000, 1000)], 1, 0.6),
    "row sum 64": (row_sum, [(ELEMENTS // 64, 64)], 1, 0.6),
    "row sum 10": (row_sum, [(ELEMENTS // 10, 10)], 1, 0.6),
    "row argmax 4096": (argmax, [(ELEMENTS // 4096, 4096)], 1, 0.0),
    "column sum 4096": (column_sum, [(ELEMENTS // 4096, 4096)], 1, 0.6),
    "sum": (full_sum, [(ELEMENTS // 4096, 4096)], 1, 0.6),
    "softmax 4096": (softmax, [(ELEMENTS // 4096, 4096)], 4, 0.6),
    "transpose": (transpose, [(16384, 8192)], 2, 0.6),
}


def test_bandwidth(capsys: pytest.CaptureFixture[str]) -> None:
    ceiling = copy_bytes_per_s()
    below: list[str] = []
    lines = [f"copy: {ceiling / 1e9:.0f} GB/s"]
    for name, (body, shapes, arrays, floor) in CASES.items():
        arguments = [Argument(F32, tuple(map(Dim.const, shape))) for shape in shapes]
        module = function_module(arguments, body)
        signature = signature_of(module)
        call = load(to_plan(module, fusion="exact"), signature)
        inputs = [device_result(F32, shape) for shape in shapes]
        rate = arrays * 4 * np.prod(shapes[0]) / seconds(lambda c=call, x=inputs: c(*x))
        lines.append(f"{name:>16}: {rate / 1e9:6.0f} GB/s, {rate / ceiling:4.0%} of a copy")
        if rate < floor * ceiling:
            below.append(lines[-1])
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert not below, "\n".join(below)
