"""What a call allocates, before there is code for it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.artifact import CONSTANT, SIZE, THREADS, MemoryPlan
from mlc.backends import at_tiles, backend_of
from mlc.dialects import par
from mlc.dialects.analysis.trips import sizes_at
from mlc.dialects.plan import KernelOp
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.bind import with_limits
from mlc.dialects.tensor.tiles import TilesOp
from mlc.lowering.loops.scratch import reserved_bytes
from mlc.lowering.plan_to_loops import lower_plan
from mlc.passes.report.timeline import Memory, memory_of


def memory_plan_of(loops: ModuleOp) -> MemoryPlan:
    """What the entry of a loops-level module asks for."""
    entries = (f for f in loops.body.block.ops if "mlc.entry" in f.attributes)
    for op in chain.from_iterable(entry.walk() for entry in entries):
        if isinstance(op, par.ReserveOp):
            steps: list[tuple[str, tuple[int, ...]]] = []
            _number(op.arena_bytes, steps, {})
            return MemoryPlan(tuple(steps))
    return MemoryPlan()


def _number(
    value: SSAValue, steps: list[tuple[str, tuple[int, ...]]], known: dict[SSAValue, int]
) -> int:
    """The number of the step that computes an index of the entry."""
    if value in known:
        return known[value]
    owner = value.owner
    if isinstance(value, BlockArgument):  # the context, then the symbols
        step = SIZE, (value.index - 1,)
    elif isinstance(owner, par.ThreadsOp):
        step = THREADS, ()
    elif isinstance(owner, arith.ConstantOp):
        attribute = owner.value
        assert isinstance(attribute, IntegerAttr)
        step = CONSTANT, (attribute.value.data,)
    else:
        assert isinstance(owner, Operation)
        step = owner.name, tuple(_number(x, steps, known) for x in owner.operands)
    known[value] = len(steps)
    steps.append(step)
    return known[value]


def memory_of_plan(
    module: ModuleOp, sizes: Mapping[str, int], threads: int, *, plan: MemoryPlan | None = None
) -> Memory:
    """
    What a call of a planned module allocates, and what lies where while each kernel runs. `plan`:
    the module's own, where it is known.
    """
    sizes = with_limits(module, sizes)
    scratch_of = backend_of(target_of(module)).scratch
    kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
    needed = {op: reserved_bytes(scratch_of(op), sizes_at(op, sizes), threads) for op in kernels}
    reserved = None
    if any(isinstance(op, TilesOp) for op in module.walk()):
        known = memory_plan_of(lower_plan(at_tiles(module))) if plan is None else plan
        reserved = known.arena_bytes(list(sizes.values()), threads)
    return memory_of(module, sizes, needed, reserved_bytes=reserved, threads=threads)
