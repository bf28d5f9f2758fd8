"""What every plan must obey, on random programs: the plan level's rules (decisions D12, D16)."""

import random

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ContractOp, Reduction
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, ReshapeOp, SliceOp, TransposeOp
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.plan.memory.plan_buffers import PlanBuffersPass
from mlc.passes.tensor.canonicalize import CanonicalizePass
from mlc.runtime.interpret import entry_function
from tests.programs import random_program
from tests.sweeps import leading

INDEX_MAPS = (BroadcastOp, TransposeOp, SliceOp, ReshapeOp, ConstantOp, IotaOp, SizeOp)


def planned(seed: int, fusion: str) -> ModuleOp:
    """A random program at the plan level."""
    module = random_program(random.Random(seed), length=20).module
    CanonicalizePass().apply(Context(), module)
    FormKernelsPass(fusion=fusion).apply(Context(), module)
    PlanBuffersPass().apply(Context(), module)
    return module


@pytest.mark.parametrize("seed", leading(40, range(100)))
@pytest.mark.parametrize("fusion", ["exact", "greedy", "all", "fnr", "none"])
def test_kernels_obey_the_plan_level(seed: int, fusion: str) -> None:
    module = planned(seed, fusion)
    for op in module.walk():
        if isinstance(op, KernelOp):
            check_kernel(op, fusion)
        elif isinstance(op, TensorOp) and isinstance(op.parent_op(), ControlOp):
            assert isinstance(op, ReshapeOp | ConstantOp | SizeOp)
    results = entry_function(module).body.block.last_op
    assert results is not None
    roots = [root(x) for x in results.operands]
    assert all(isinstance(r.owner, KernelOp | ControlOp) for r in roots)
    assert len(set(roots)) == len(roots), "two results share a buffer"


def root(value: SSAValue) -> SSAValue:
    """The buffer behind reshapes."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.x
    return value


def check_kernel(op: KernelOp, fusion: str) -> None:
    """One iteration space, one reduction; factors are index maps and conversions of buffers."""
    inner = [x for x in op.block.ops if isinstance(x, TensorOp)]
    reductions = [x for x in inner if isinstance(x, Reduction)]
    assert len(reductions) <= 1
    assert len({shape_of(x.type) for x in op.outs}) == 1
    computing = [x for x in inner if not isinstance(x, INDEX_MAPS)]
    if fusion == "none":
        assert len(computing) <= 1
    for x in inner:
        if isinstance(x, ReshapeOp):
            assert x.unit_axes_only()
        if isinstance(x, GatherOp):
            assert isinstance(x.source, BlockArgument)
        if isinstance(x, ConcatOp):
            assert x.result in op.yielded.values
        if isinstance(x, ContractOp):
            pending = list(x.operands)
            while pending:
                owner = pending.pop().owner
                if isinstance(owner, TensorOp):
                    assert isinstance(owner, (*INDEX_MAPS, ConvertOp))
                    pending += owner.operands


@pytest.mark.parametrize("seed", range(100))
def test_no_kernel_writes_over_what_it_reads(seed: int) -> None:
    module = planned(seed, "none")
    for block in (b for op in module.walk() for r in op.regions for b in r.blocks):
        kernels = [op for op in block.ops if isinstance(op, KernelOp)]
        for op in kernels:
            assert op.buffers is not None
            written = {b.data for b in op.buffers.data}
            assert len(written) == len(op.outs)
            sources = [root(x) for x in op.inputs]
            owners = [(x, x.owner) for x in sources if isinstance(x.owner, KernelOp)]
            read = {
                owner.buffers.data[list[SSAValue](owner.outs).index(x)].data
                for x, owner in owners
                if owner.buffers is not None
            }
            assert not written & read
