"""The work that a search for plans adds up, beside that of the kernels which are formed."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.context import Context
from xdsl.ir import SSAValue

import mlc
from benchmarks.zoo import ZOO
from mlc.dialects.analysis.views import is_view
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import Target
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.op import TensorOp
from mlc.knobs import Fusion
from mlc.passes.cost.model import bytes_read
from mlc.passes.cost.ops import work_of_op
from mlc.passes.cost.sizes import elements_of, estimate, stored_bytes
from mlc.passes.cost.work import ATTO, Work, level_of, moved, seconds
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.tensor.canonicalize import CanonicalizePass
from mlc.text import parse_text

APART = {"mlp_step", "cnn_step"}
"""Two results over spaces of one shape, costed as one kernel, are formed as two."""
REPEATED = {"causal_attention", "transformer", "transformer_step"}
"""A value that is read along a row is charged at every point, and counted once."""


def work_of_kernel(kernel: KernelOp, target: Target) -> Work:
    """
    Each op at the points of its iteration space; a stream for each input and each result, at the
    level that holds its buffer.
    """

    def stream(value: SSAValue, size: int) -> tuple[int, int, int, int]:
        return moved(size, level_of(stored_bytes(value.type), target))

    total = Work(starts=1)
    for op in kernel.block.ops:
        if isinstance(op, TensorOp) and not is_view(op):
            total += work_of_op(type(op), op.dtype, elements_of(op.iteration()), target)
    for k, argument in enumerate(kernel.block.args):
        if k != kernel.overwritten:
            total += Work(read=stream(argument, estimate(bytes_read(argument))))
    for out in kernel.outs:
        total += Work(write=stream(out, stored_bytes(out.type)))
    return total


@pytest.mark.parametrize(("fusion", "target"), [("exact", "avx512"), ("fnr", "avx2")])
@pytest.mark.parametrize("name", ZOO)
def test_a_plan_costs_what_its_kernels_do(name: str, fusion: Fusion, target: str) -> None:
    machine = named_target(target)
    function: Any = mlc.compile(target=target, threads=1)(ZOO[name].function)
    module = function.lower(*ZOO[name].arrays("small")).levels.at("tensor").clone()
    searched = FormKernelsPass(fusion=fusion).form(module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    formed = sum(seconds(work_of_kernel(op, machine), machine) for op in kernels) / ATTO
    if name in APART | REPEATED:
        assert formed == pytest.approx(searched, rel=0.01)
    else:
        assert formed == searched


GATHER = """
func.func @f(%t: tensor<100000x64xf32>, %i: tensor<50xi64>) -> tensor<50x64xf32> {
  %0 = mlc.gather "0k,i->ik" %t[%i] : tensor<100000x64xf32>, tensor<50xi64> -> tensor<50x64xf32>
  func.return %0 : tensor<50x64xf32>
}
"""


def test_a_table_is_read_where_it_is_picked_from() -> None:
    machine = named_target("avx2")
    module = parse_text(GATHER, "gather")
    CanonicalizePass().apply(Context(), module)
    searched = FormKernelsPass().form(module)
    result, table, positions = 50 * 64 * 4, 100_000 * 64 * 4, 50 * 8
    read = Work(read=moved(result, level_of(table, machine)))
    read += Work(read=moved(positions, level_of(positions, machine)))
    written = Work(write=moved(result, level_of(result, machine)), starts=1)
    assert searched == seconds(read + written, machine) / ATTO
