"""A reduction apart from what is computed from it: two kernels where one would be the slower."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.dims import product
from mlc.dialects.plan import KernelOp, Template
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.reduce import ContractOp, Reduction
from mlc.passes.cost.model import kernel_cost

DEEP = 512
"""Summed elements from which partial sums wait in memory between blocks: the largest `block_k`."""


def deep_contraction(kernel: KernelOp) -> ContractOp | None:
    """
    A contraction whose sums are longer than a block, with an epilogue in the same kernel: it could
    not leave partial sums in the result's memory if the epilogue read what lies there.
    """
    op = next((op for op in kernel.block.ops if isinstance(op, ContractOp)), None)
    if op is None or list(kernel.yielded.values) == [op.results[0]]:
        return None
    sizes, (_, _, reduced) = op.sizes(), op.words()
    depth = product(sizes[c] for c in reduced).constant
    return op if depth is None or depth > DEEP else None


def split_epilogue(kernel: KernelOp, reduction: Reduction) -> KernelOp:
    """Puts what follows the reduction into a kernel of its own, which is given back."""
    block = kernel.parent
    assert block is not None
    total = reduction.results[0]
    outer: dict[SSAValue, SSAValue] = dict(zip(kernel.block.args, kernel.inputs, strict=True))
    first = _part(kernel, [total], outer, cast("Template", kernel.template.data))
    outer[total] = first.outs[0]
    later = _ops_of(kernel, kernel.yielded.values, outer)
    template: Template = "gather" if any(isinstance(op, GatherOp) for op in later) else "cell"
    second = _part(kernel, kernel.yielded.values, outer, template)
    for part in (first, second):
        block.insert_op_before(part, kernel)
    for old, new in zip(kernel.outs, second.outs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    block.erase_op(kernel)
    return second


def _part(
    kernel: KernelOp,
    results: Sequence[SSAValue],
    outer: Mapping[SSAValue, SSAValue],
    template: Template,
) -> KernelOp:
    """A kernel of the ops that compute some values of the body; `outer`: what it may read."""
    ops = _ops_of(kernel, results, outer)
    read = dict.fromkeys(x for op in ops for x in op.operands if x in outer)
    read |= dict.fromkeys(x for x in results if x in outer)
    block = Block(arg_types=[x.type for x in read])
    local: dict[SSAValue, SSAValue] = dict(zip(read, block.args, strict=True))
    for op in ops:
        copy = op.clone(local)
        copy.location = op.location
        block.add_op(copy)
    block.add_op(YieldOp.create(operands=[local[x] for x in results]))
    part = KernelOp(template, [outer[x] for x in read], [x.type for x in results], Region(block))
    part.location = kernel.location
    part.properties["cost"] = kernel_cost(part)
    return part


def _ops_of(
    kernel: KernelOp, results: Sequence[SSAValue], outer: Mapping[SSAValue, SSAValue]
) -> list[Operation]:
    """The ops of the body that compute some values from what is read, in order."""
    needed: set[Operation] = set()
    pending = list(results)
    while pending:
        value = pending.pop()
        owner = value.owner
        if value not in outer and isinstance(owner, Operation) and owner not in needed:
            needed.add(owner)
            pending += owner.operands
    return [op for op in kernel.block.ops if op in needed]
