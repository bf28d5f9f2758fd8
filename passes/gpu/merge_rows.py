"""
Pass `mlc-merge-rows`: kernels that walk the same rows one after another become one, whose blocks of
threads read a row once and keep it in registers until all is done to it.

```
m = kernel "row" { max x }
s = kernel "row" { sum exp(x - m) }     ->     y = kernel "rows" { max, exp, sum, divide }
y = kernel "cell" { exp(x - m) / s }
```
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.layouts import layouts_of
from mlc.dialects.dims import Dim, Shape, shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import gpu_of
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.lazy_dataclass import dataclass
from mlc.passes.gpu.rows import rows_of
from mlc.passes.plan.fusion.merging import Group, blocks_of, looked_at, may_join
from mlc.passes.plan.fusion.splitting import split_epilogue
from mlc.passes.tile.rows import canonical_rows, space_of

OPS = 96  # of a merged kernel; bounds the compile time of one
RESULTS = 8
ONE = Dim.const(1)


@dataclass(frozen=True)
class MergeRowsPass(ModulePass):
    """Merges what may be, with `fusion="none"` nothing."""

    name = "mlc-merge-rows"

    fusion: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = gpu_of(op, self.name)
        if self.fusion == "none":
            return
        for function in op.body.block.ops:
            if isinstance(function, FuncOp):
                for block in blocks_of(function):
                    _merge_in(block, target)


def _merge_in(block: Block, target: GpuTarget) -> None:
    """Groups grow from each reduction in order."""
    for op in list(block.ops):
        if isinstance(op, KernelOp) and may_join(op):
            _set_checks_apart(block, op)
    tried: set[KernelOp] = set()
    while (seed := _seed(block, tried)) is not None:
        tried.add(seed)
        space = space_of(seed)
        if space is None:
            continue
        members = [seed]
        grown = True
        while grown:
            grown = False
            for op in _candidates(block, members, space):
                group = Group(block, [*members, op])
                if group.is_convex() and _has_program(group, target):
                    members, grown = group.members, True
        if len(members) > 1:
            Group(block, members).merge("rows")


def _set_checks_apart(block: Block, kernel: KernelOp) -> None:
    """What may fail behind a reduction of rows that others walk gets a kernel of its own."""
    space = space_of(kernel)
    if space is None or not all(space) or not _candidates(block, [kernel], space):
        return
    reduction = next(op for op in kernel.block.ops if isinstance(op, Reduction))
    failing = {op for op in kernel.block.ops if isinstance(op, TensorOp) and op.may_fail}
    before: set[Operation] = set()
    pending: list[Operation] = [reduction]
    while pending:
        op = pending.pop()
        before.add(op)
        pending += [x.owner for x in op.operands if isinstance(x.owner, Operation)]
    if failing and not failing & before:
        split_epilogue(kernel, reduction)


def _seed(block: Block, tried: Collection[KernelOp]) -> KernelOp | None:
    for op in block.ops:
        if isinstance(op, KernelOp) and op not in tried and may_join(op):
            space = space_of(op)
            if space is not None and all(space):
                return op
    return None


def _candidates(
    block: Block, members: Sequence[KernelOp], space: tuple[Shape, Shape]
) -> list[KernelOp]:
    """Kernels over the same rows that read or make what the members do."""
    rows, columns = space
    shapes = {_units_left_out(rows), _units_left_out((*rows, *columns))}
    near: set[SSAValue] = set()
    for op in members:
        near |= {looked_at(x) for x in (*op.inputs, *op.outs)}
    found: list[KernelOp] = []
    for op in block.ops:
        if not isinstance(op, KernelOp) or op in members or not may_join(op):
            continue
        own = space_of(op)
        if own is not None and own != space:
            continue
        if not {_units_left_out(shape_of(x.type)) for x in op.outs} <= shapes:
            continue
        wide = {looked_at(x) for x in (*op.inputs, *op.outs) if len(shape_of(x.type)) >= len(rows)}
        if wide & near:
            found.append(op)
    return found


def _units_left_out(shape: Shape) -> Shape:
    return tuple(size for size in shape if size != ONE)


def _has_program(group: Group, target: GpuTarget) -> bool:
    """Whether the kernel of all members has a tile program; it is made, and goes."""
    results = group.leaving()
    if not results or len(results) > RESULTS:
        return False
    kernel = group.kernel("rows", results)
    group.block.insert_op_before(kernel, group.last)
    try:
        large = len(list(kernel.block.ops)) > OPS
        if large or any(layouts_of(kernel)) or not next(rows_of(kernel, target)):
            return False
        canonical_rows(kernel, "rows", layouts_of(kernel))
    except MlcError:
        return False
    finally:
        kernel.detach()
        kernel.erase()
    return True
