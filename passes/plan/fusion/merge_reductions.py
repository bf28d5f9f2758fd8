"""
Pass `mlc-merge-reductions`: reductions of the same points, which read the same memory, become one
kernel that reads it once.

```
s = kernel "row" { sum of x * y }       ->     s, t = kernel "row" {
t = kernel "row" { largest of x - y }            sum of x * y, largest of x - y }
```

Their states stand beside one another in registers. Equal ops of both are one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from mlc.dialects.analysis.access import Nest, is_single, nest_of
from mlc.dialects.numerics import is_strict
from mlc.dialects.plan import KernelOp, Template
from mlc.dialects.tensor.tiles import is_phase
from mlc.passes.plan.fusion.merging import Group, blocks_of, may_join
from mlc.passes.plan.tiling.schedule import vector_axis

LEAST = 256
"""Points of a row from which rows are walked one by one, not several at once."""
MOST = 4
"""Reductions of one kernel: their states, each several times, stay in registers."""
OPS = 96
"""Of a merged kernel; bounds the compile time of one."""


@dataclass(frozen=True)
class MergeReductionsPass(ModulePass):
    """Merges what may be, with `fusion="none"` nothing."""

    name = "mlc-merge-reductions"

    fusion: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.fusion == "none":
            return
        for function in op.body.block.ops:
            if isinstance(function, FuncOp):
                for block in blocks_of(function):
                    while (group := next(_groups(block), None)) is not None:
                        group.merge(cast("Template", group.members[0].template.data))


def _groups(block: Block) -> Iterator[Group]:
    """Pairs that become one, the first ones first."""
    found = [(op, nest) for op in block.ops if isinstance(op, KernelOp) and (nest := _nest(op))]
    for k, (one, nest) in enumerate(found):
        for other, its in found[k + 1 :]:
            if _are_alike(nest, its):
                group = Group(block, [one, other])
                if _is_free(group):
                    yield group


def _nest(op: KernelOp) -> Nest | None:
    """The points of a kernel that may be merged: its reductions combine one value each."""
    if not may_join(op) or is_strict(op) or is_phase(op):
        return None
    nest = nest_of(op)
    if nest is None or nest.reduction is None or nest.order != "any":
        return None
    if not all(map(is_single, nest.reductions)):
        return None
    lanes = vector_axis(nest)
    size = nest.sizes[lanes].constant if lanes >= nest.rank else 0
    return nest if size is None or size >= LEAST else None


def _are_alike(one: Nest, other: Nest) -> bool:
    """Whether both walk the same points, and something that has all of them, in the same way."""
    if one.sizes != other.sizes or one.rank != other.rank:
        return False
    if one.kernel.template != other.kernel.template:
        return False
    if len(one.reductions) + len(other.reductions) > MOST:
        return False
    if len([*one.kernel.block.ops, *other.kernel.block.ops]) > OPS:
        return False
    if vector_axis(one) != vector_axis(other):
        return False
    walked = [
        {
            (nest.kernel.inputs[access.argument], access.point)
            for access in nest.accesses
            if not access.per_result and len(access.point) == len(nest.sizes)
        }
        for nest in (one, other)
    ]
    return bool(walked[0] & walked[1])


def _is_free(group: Group) -> bool:
    """Whether neither needs the other's result, nor what is made of it."""
    made = group.made
    return group.is_convex() and not any(x in made for op in group.members for x in op.inputs)
