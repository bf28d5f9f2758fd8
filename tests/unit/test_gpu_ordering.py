"""Ops that order, place and call libraries, on a GPU: their phases, and PTX for each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.ir import SSAValue

from mlc.dialects import launch
from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32, I64
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.elementwise import ExpOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import OpBuilder, tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp, PadOp
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.sort import ArgsortOp, SearchsortedOp, SortOp
from mlc.lowering.gpu.merge import TILE
from mlc.runtime.ptx import emit_ptx
from tests.every_op.native import Argument, Body, function_module, to_plan
from tests.gpu.native import gpu_program

M, N = Dim.symbol("m"), Dim.symbol("n")
ARGUMENTS = [
    Argument(F32, (M, N)),
    Argument(F32, (N,)),
    Argument(F32, ()),
    Argument(I64, ()),
    Argument(I64, (M,)),
    Argument(F32, (Dim.const(3), Dim.const(4))),
]


def _target() -> GpuTarget:
    target = named_target("h200")
    assert isinstance(target, GpuTarget)
    return target


def _placed(b: OpBuilder, v: Sequence[SSAValue]) -> list[SSAValue]:
    x, row, value, offset, *_ = v
    one = (Dim.const(1), Dim.const(2))
    return [
        b(PadOp, x, value, low=one, high=one),
        b(DynamicSliceOp, x, offset, offset, declared=tensor_of(x)),
        b(DynamicUpdateOp, x, x, offset, offset),
        b(SearchsortedOp, row, x, side="left"),
    ]


def test_placed_elements_have_ptx() -> None:
    program = gpu_program(to_plan(function_module(ARGUMENTS, _placed, ("m", "n"))), _target())
    for kernel in program.kernels:
        assert ".entry" in emit_ptx(kernel.llvm, _target())


def _cumsum(b: OpBuilder, x: SSAValue) -> SSAValue:
    return b(ScanOp, x, monoid="sum", direction="forward", kind="inclusive", axis=1)


WHOLE: dict[str, tuple[Body, int]] = {
    # of many rows at once; chunks, what comes before them, results
    "scan": (lambda b, v: [_cumsum(b, v[0])], 3),
    # tiles, merges, results
    "sort": (lambda b, v: [b(SortOp, v[0], order="ascending")], 3),
    "argsort": (lambda b, v: [b(ArgsortOp, v[0], order="ascending")], 3),
    # copy, tiles, merges, results
    "scatter": (lambda b, v: [b(ScatterOp, v[0], v[4], v[0], mode="add", letters="0n,m->mn")], 4),
    # a copy for the host
    "library": (lambda b, v: [b(LibraryOp, b(ExpOp, v[5]), routine="svd_values")], 1),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_written_as_a_whole_has_ptx(name: str) -> None:
    body, phases = WHOLE[name]
    module = function_module(ARGUMENTS, body, ("m", "n"))
    program = gpu_program(to_plan(module, fusion="exact"), _target())
    assert len(program.kernels) == phases
    for kernel in program.kernels:
        assert ".entry" in emit_ptx(kernel.llvm, _target())


def test_rows_that_fit_into_a_tile_are_sorted_at_once() -> None:
    def body(b: OpBuilder, v: Sequence[SSAValue]) -> list[SSAValue]:
        return [b(SortOp, v[0], order="ascending"), _cumsum(b, v[0])]

    shape = (Dim.const(5000), Dim.const(1000))
    module = function_module([Argument(F32, shape)], body)
    assert len(gpu_program(to_plan(module), _target()).kernels) == 2


def test_runs_are_merged_as_often_as_they_must_be() -> None:
    row = function_module(
        [Argument(F32, (Dim.const(TILE * 5),))], lambda b, v: [b(SortOp, v[0], order="ascending")]
    )
    plan = gpu_program(to_plan(row), _target()).plan
    (loop,) = [step for step in plan.steps if isinstance(step, launch.Loop)]
    assert dict(plan.known)[loop.high] == 3  # 5 runs, 3, 2, 1
