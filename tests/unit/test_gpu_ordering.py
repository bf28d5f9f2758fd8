"""Ops that order and place, on a GPU: PTX where a template exists, else an error that says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32, I64
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.op import OpBuilder, tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp, PadOp
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.sort import ArgsortOp, SearchsortedOp, SortOp
from mlc.lowering.gpu.lower import NoGpuTemplateError
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
]


def _target() -> GpuTarget:
    target = named_target("h200")
    assert isinstance(target, GpuTarget)
    return target


def _placed(b: OpBuilder, v: Sequence[SSAValue]) -> list[SSAValue]:
    x, row, value, offset, _ = v
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


WITHOUT: dict[str, Body] = {
    "scan": lambda b, v: [
        b(ScanOp, v[0], monoid="sum", direction="forward", kind="inclusive", axis=1)
    ],
    "sort": lambda b, v: [b(SortOp, v[0], order="ascending")],
    "argsort": lambda b, v: [b(ArgsortOp, v[0], order="ascending")],
    "scatter": lambda b, v: [b(ScatterOp, v[0], v[4], v[0], mode="add", letters="0n,m->mn")],
}


@pytest.mark.parametrize("name", WITHOUT)
def test_what_has_no_template_says_so(name: str) -> None:
    module = to_plan(function_module(ARGUMENTS, WITHOUT[name], ("m", "n")))
    with pytest.raises(NoGpuTemplateError, match=f"mlc.{name}: .* compile this function for a CPU"):
        gpu_program(module, _target())
