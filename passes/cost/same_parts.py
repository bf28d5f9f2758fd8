"""Which parts of arrays a loop's kernels have touched just before: in the trip, or in the last."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import loops_around
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.within import WithinOp

Part = tuple[Hashable, tuple[Hashable, ...]]
"""Of which buffer, and where it begins."""


class SameParts:
    """Asked in program order, of every kernel."""

    def __init__(self) -> None:
        self._seen: dict[Block, set[Part]] = {}

    def again(self, kernel: KernelOp, value: SSAValue, buffer: Hashable) -> bool:
        """
        Whether a kernel's input or result is touched where an earlier kernel of the same block has
        touched it, or where the loop around stays; nothing is said of what is touched as a whole.
        """
        parts = [(buffer, at) for at in _places(kernel, value)]
        block = kernel.parent
        assert block is not None
        seen = self._seen.setdefault(block, set())
        found = bool(parts) and all(x in seen or _stays(x[1], kernel) for x in parts)
        seen.update(parts)
        return found


def _places(kernel: KernelOp, value: SSAValue) -> Iterator[tuple[Hashable, ...]]:
    """Where the parts of an input begin that are read, or of a result what is stored in it."""
    if isinstance(value, BlockArgument):
        uses = [use for use in value.uses if not isinstance(use.operation, DynamicUpdateOp)]
        slices = [x.operation for x in uses if isinstance(x.operation, DynamicSliceOp)]
        if len(slices) == len(uses):
            yield from (_place(kernel, x.offsets) for x in slices)
    elif isinstance(made := value.owner, DynamicUpdateOp):
        yield _place(kernel, made.offsets)


def _place(kernel: KernelOp, offsets: Sequence[SSAValue]) -> tuple[Hashable, ...]:
    return tuple(_number(kernel, x) for x in offsets)


def _number(kernel: KernelOp, offset: SSAValue) -> Hashable:
    """The number outside of the kernel, or a constant's; else the one inside."""
    while isinstance(offset.owner, ReshapeOp | WithinOp):
        offset = offset.owner.operands[0]
    if isinstance(offset, BlockArgument) and offset.block is kernel.block:
        return kernel.inputs[offset.index]
    if isinstance(offset.owner, ConstantOp):
        return int(offset.owner.array().reshape(-1)[0])
    return offset


def _stays(place: Sequence[Hashable], kernel: KernelOp) -> bool:
    """Whether it is the same in every trip of the loop around a kernel."""
    loop = next(loops_around(kernel), None)
    return loop is not None and not any(_is_in(x, loop) for x in place)


def _is_in(number: Hashable, loop: Operation) -> bool:
    if not isinstance(number, SSAValue):
        return False
    owner = number.owner
    around = owner if isinstance(owner, Operation) else owner.parent_op()
    return around is not None and loop.is_ancestor(around)
