"""Kernels that change a part of an array that nobody reads as it was: the part alone is written."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.aliases import Aliases, root_of
from mlc.dialects.plan import BufferAttr, KernelOp
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.model import kernel_cost
from mlc.passes.plan.memory.in_place.sharing import (
    copied,
    may_keep_the_rest,
    write_over,
)


@dataclass(frozen=True)
class WritePartsInPlacePass(ModulePass):
    """
    %y = mlc.kernel (%x) { concat(a part of %x, new elements, the rest) }  ->  … {over, buffers}

    Also a nest whose array starts as %x, which nobody copies then.

    Where a kernel or a loop of the block makes %x and nobody reads it after the kernel, %y lies in
    its memory, and only the new elements are written: not where a branch or a loop without trips
    may hand on an argument or a constant. Of what the function returns, a copy is made at the end,
    which `mlc-plan-buffers` takes away again where all of it may lie in the result.
    """

    name = "mlc-write-parts-in-place"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                _InPlace(function).run()


class _InPlace:
    """The kernels of one function."""

    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.places = Aliases(function)
        self.joined: dict[SSAValue, SSAValue] = {}  # groups, by those that they have become part of
        self.members = {group: list(found) for group, found in self.places.members.items()}
        self.changed: set[KernelOp] = set()

    def run(self) -> None:
        """Each that may, in program order."""
        for op in self.places.kernels:
            found = self._replaced(op)
            if found is not None:
                write_over(op, 0, found)
                op.properties["buffers"] = ArrayAttr([BufferAttr(("input", (found,)))])
                if not op.is_nest:
                    op.properties["cost"] = kernel_cost(op)
                part, whole = self._group(op.outs[0]), self._group(op.inputs[found])
                self.joined[part] = whole
                self.members[whole] += self.members.pop(part)
                self.changed.add(op)
        self._copy_results()

    def _group(self, value: SSAValue) -> SSAValue:
        group = self.places.group(value)
        while (into := self.joined.get(group)) is not None:
            group = into
        return group

    def _replaced(self, op: KernelOp) -> int | None:
        """The input that the kernel may write its new elements into."""
        if len(op.outs) != 1 or op.overwritten is not None or _is_in_tiles(op):
            return None
        return next((k for k in range(len(op.inputs)) if self._may_replace(op, k)), None)

    def _may_replace(self, op: KernelOp, number: int) -> bool:
        value, out = op.inputs[number], op.outs[0]
        root = root_of(value)
        owner = root.owner
        made = isinstance(owner, KernelOp) or (
            isinstance(owner, ControlOp) and not isinstance(owner, TilesOp)
        )
        if not made or owner.parent is not op.parent or value.type != out.type:
            return False
        if self.places.is_read_after(op, root) or not may_keep_the_rest(op, number):
            return False
        groups = {self._group(value), self._group(out)}
        if any(self._is_given(x) for group in groups for x in self.members[group]):
            return False
        others = (x for group in groups for x in self.members[group] if x is not root)
        return len(groups) == 2 and not any(self.places.is_live(op, x) for x in others)

    def _is_given(self, value: SSAValue) -> bool:
        """Whether the memory is the caller's, or a constant's."""
        owner = value.owner
        return owner is self.function.body.block or isinstance(owner, ConstantOp)

    def _copy_results(self) -> None:
        """What is returned is written by a kernel of its own."""
        last = self.function.body.block.last_op
        assert last is not None
        for k, value in enumerate(last.operands):
            kernel = root_of(value).owner
            if isinstance(kernel, KernelOp) and kernel in self.changed:
                copy = copied(value, kernel.location)
                self.function.body.block.insert_op_before(copy, last)
                last.operands[k] = copy.outs[0]


def _is_in_tiles(op: Operation) -> bool:
    around = op.parent_op()
    while around is not None and not isinstance(around, TilesOp):
        around = around.parent_op()
    return around is not None
