"""The work that a search for plans adds up, beside that of the tile programs of its kernels."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.context import Context
from xdsl.ir import Block as IRBlock
from xdsl.ir import Region

import mlc
from benchmarks.zoo import ZOO
from mlc.dialects.dims import shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tile.kernel import CallOp, called
from mlc.dialects.tile.kernel import KernelOp as Program
from mlc.dialects.tile.nest import NestOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import view_type
from mlc.dialects.tile.words import Block, Edge, Strip
from mlc.knobs import Fusion
from mlc.passes.cost.walk import work_of
from mlc.passes.cost.work import ATTO, Work, level_of, moved, seconds
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.tensor.canonicalize import CanonicalizePass
from mlc.text import parse_text


def nest_program(kernel: KernelOp) -> Program:
    """
    The tile program that holds a kernel of the plan verbatim; where that writes over an input, this
    is the result's memory.
    """
    given = [x for k, x in enumerate(kernel.inputs) if k != kernel.overwritten]
    block = IRBlock(
        arg_types=[
            view_type(tensor_of(x).element_type, shape_of(x.type)) for x in (*given, *kernel.outs)
        ]
    )
    inputs, outputs = [*block.args[: len(given)]], block.args[len(given) :]
    if (over := kernel.overwritten) is not None:
        inputs.insert(over, outputs[0])
    nest = NestOp.of(kernel.template.data, inputs, outputs, kernel.body.clone())
    block.add_ops([nest, YieldOp.of()])
    program = Program.of("k", Region(block), len(kernel.outs))
    program.verify()
    return program


@pytest.mark.parametrize(("fusion", "target"), [("exact", "avx512"), ("fnr", "avx2")])
@pytest.mark.parametrize("name", ZOO)
def test_a_plan_costs_what_its_programs_do(name: str, fusion: Fusion, target: str) -> None:
    machine = named_target(target)
    assert isinstance(machine, CpuTarget)
    function: Any = mlc.compile(target=target, threads=1)(ZOO[name].function)
    module = function.lower(*ZOO[name].arrays("small")).levels.at("tensor").clone()
    searched = FormKernelsPass(fusion=fusion).form(module)
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    work = [work_of(nest_program(kernel), {}, machine) for kernel in kernels]
    formed = sum(seconds(x, machine) for x in work) / ATTO
    assert formed == searched


@pytest.mark.parametrize("name", ZOO)
def test_words_add_to_the_work_of_a_plan_what_their_edges_and_blocks_do(name: str) -> None:
    """A search knows no words: what it adds up is the product as it stands."""
    machine = named_target("avx512")
    assert isinstance(machine, CpuTarget)
    function: Any = mlc.compile(target="avx512", threads=1)(ZOO[name].function)
    levels = function.lower(*ZOO[name].arrays("small")).levels
    kernels = [op for op in levels.plan().walk() if isinstance(op, KernelOp)]
    calls = [op for op in levels.at("tiles").walk() if isinstance(op, KernelOp | CallOp)]
    for kernel, call in zip(kernels, calls, strict=True):
        if not isinstance(call, CallOp) or kernel.schedule is None:
            continue
        program = called(call)
        assert program is not None
        cut, whole = work_of(program, {}, machine), work_of(nest_program(kernel), {}, machine)
        words = kernel.schedule.data.words
        if any(
            isinstance(x, Edge | Strip) or (isinstance(x, Block) and x.axis == "k") for x in words
        ):
            assert cut.operations >= whole.operations
        else:
            assert cut.operations == whole.operations
        assert sum(cut.write) >= sum(whole.write)
        assert cut.starts == whole.starts == 1


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
