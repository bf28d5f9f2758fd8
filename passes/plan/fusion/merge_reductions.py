"""
Pass `mlc-merge-reductions`: reductions of the same points, which read the same memory, become one
kernel that reads it once.

```
s = kernel "row" { sum of x * y }       ->     s, t = kernel "row" {
t = kernel "row" { largest of x - y }            sum of x * y, largest of x - y }
```

Their states stand beside one another in registers. Equal ops of both are one. What one kernel wrote
for several of them, and the one alone reads now where it stands, is computed there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.access import Access, Affine, Nest, is_single, nest_of
from mlc.dialects.numerics import is_strict
from mlc.dialects.plan import KernelOp, Template
from mlc.dialects.tensor.tiles import is_phase
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.merging import Group, blocks_of, looked_at, may_join
from mlc.passes.plan.tiling.schedule import vector_axis

LEAST = 64
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
                    nests: dict[KernelOp, Nest | None] = {}
                    while (group := next(_groups(block, nests), None)) is not None:
                        group.merge(cast("Template", group.members[0].template.data))
                    while (group := next(_with_makers(block), None)) is not None:
                        group.merge(cast("Template", group.members[-1].template.data))


def _groups(block: Block, nests: dict[KernelOp, Nest | None]) -> Iterator[Group]:
    """Pairs that become one, the first ones first. `nests`: those that are known by now."""
    kernels = [op for op in block.ops if isinstance(op, KernelOp)]
    nests |= {op: _nest(op) for op in kernels if op not in nests}
    found = [nest for op in kernels if (nest := nests[op]) is not None]
    points = [_points(nest) for nest in found]
    behind: dict[Hashable, deque[Nest]] = {}
    for key, nest in zip(points, found, strict=True):
        behind.setdefault(key, deque()).append(nest)
    for key, nest in zip(points, found, strict=True):
        behind[key].popleft()
        for other in behind[key]:
            if _walk_alike(nest, other):
                group = Group(block, [nest.kernel, other.kernel])
                if group.is_convex() and _is_free(group, other):
                    yield group


def _with_makers(block: Block) -> Iterator[Group]:
    """Kernels of several reductions, each with one that made what it alone reads."""
    for op in block.ops:
        nest = _nest(op) if isinstance(op, KernelOp) else None
        if nest is None or not nest.siblings:
            continue
        for x in nest.kernel.inputs:
            maker = x.owner
            if isinstance(maker, KernelOp) and maker.parent is block and _is_part(maker, nest):
                group = Group(block, [maker, nest.kernel])
                if group.is_convex():
                    yield group


def _is_part(maker: KernelOp, nest: Nest) -> bool:
    """Whether a kernel makes what one reader alone reads, once at each of the same points."""
    made = set(maker.outs)
    its = nest_of(maker) if may_join(maker) else None
    if its is None or its.reduction is not None or its.sizes != nest.sizes:
        return False
    if any(use.operation is not nest.kernel for x in made for use in x.uses):
        return False
    if len([*maker.block.ops, *nest.kernel.block.ops]) > OPS:
        return False
    return all(
        not access.per_result and _is_here(access, len(nest.sizes))
        for access in nest.accesses
        if nest.kernel.inputs[access.argument] in made
    )


def _is_here(access: Access, axes: int) -> bool:
    """Whether it reads the element at the very point."""
    return [x.is_axis for x in access.point] == list(range(axes))


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


def _points(nest: Nest) -> Hashable:
    """Which points a nest walks, and how."""
    return nest.sizes, nest.rank, nest.kernel.template, vector_axis(nest)


def _walk_alike(one: Nest, other: Nest) -> bool:
    """Whether nests of the same points walk something that has all of them in the same way."""
    if len(one.reductions) + len(other.reductions) > MOST:
        return False
    if not _walked(one) & _walked(other):
        return False
    return len([*one.kernel.block.ops, *other.kernel.block.ops]) <= OPS


def _walked(nest: Nest) -> set[tuple[SSAValue, tuple[Affine, ...]]]:
    """What a nest reads at each point, and where."""
    inputs = nest.kernel.inputs
    return {
        (inputs[access.argument], access.point)
        for access in nest.accesses
        if not access.per_result and len(access.point) == len(nest.sizes)
    }


def _is_free(group: Group, last: Nest) -> bool:
    """Whether the last needs no other's result while it walks, nor another element of it behind."""
    return all(
        access.per_result and _is_here(access, last.rank)
        for access in last.accesses
        if looked_at(last.kernel.inputs[access.argument]) in group.made
    )
