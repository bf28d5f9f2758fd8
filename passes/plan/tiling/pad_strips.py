"""
Pass `mlc-pad-strips`: a convolution in strips pads what it copies.

```
p = kernel "copy"   { pad x }          ->   y = kernel "window" { conv (pad x), w }
y = kernel "window" { conv p, w }
```

A strip is a copy of what its windows read: what lies outside is zeros in it, as `pad` says, and the
padded tensor is stored nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument
from xdsl.passes import ModulePass

from mlc.dialects.analysis.views import is_splat
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.placing import PadOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.merging import Group, blocks_of, may_join
from mlc.passes.plan.tiling.grain import least_share_s
from mlc.passes.tile.canonical import product_of
from mlc.passes.tile.strips import words_of_strips
from mlc.passes.tile.windows import windows_of


@dataclass(frozen=True)
class PadStripsPass(ModulePass):
    """Merges what pads into what reads it in strips, with `fusion="none"` nothing."""

    name = "mlc-pad-strips"

    fusion: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.fusion == "none":
            return
        target = cpu_of(op, self.name)
        for function in op.body.block.ops:
            if isinstance(function, FuncOp):
                for block in blocks_of(function):
                    for group in list(_groups(block, target)):
                        group.merge("window")


def _groups(block: Block, target: CpuTarget) -> Iterator[Group]:
    """Convolutions, each with what pads the factor that it reads in strips."""
    for op in block.ops:
        padding = _padding(op) if isinstance(op, KernelOp) else None
        if isinstance(op, KernelOp) and padding is not None and padding.parent is block:
            group = Group(block, [padding, op])
            made = padding.outs[0]
            alone = all(use.operation is op for use in made.uses)
            if alone and group.is_convex() and may_join(op) and may_join(padding):
                merged = group.kernel("window", list(op.outs))
                strips = words_of_strips(merged, target, least_share_s(target))
                merged.erase()  # what it reads counts its readers
                if strips is not None:
                    yield group


def _padding(kernel: KernelOp) -> KernelOp | None:
    """The kernel that pads what a convolution would read in strips."""
    op = product_of(kernel)
    if op is None or windows_of(op) is None:
        return None
    read = op.operands[0]
    maker = kernel.inputs[read.index].owner if isinstance(read, BlockArgument) else None
    return maker if isinstance(maker, KernelOp) and _only_pads(maker) else None


def _only_pads(kernel: KernelOp) -> bool:
    """Whether a kernel pads one tensor with one number and does nothing else."""
    ops = [op for op in kernel.block.ops if not isinstance(op, YieldOp | ConstantOp)]
    return (
        len(ops) == len(kernel.outs) == 1 and isinstance(ops[0], PadOp) and is_splat(ops[0].value)
    )
