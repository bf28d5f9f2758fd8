"""Where the loops level reads: places as others and a distance, and what places there may be."""

from __future__ import annotations

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, BlockArgument, SSAValue

from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Place:
    """`base` + `distance`; a base of None is 0."""

    base: SSAValue | None
    distance: int

    @staticmethod
    def of(index: SSAValue) -> Place:
        """An index as what it is a constant away from."""
        distance = 0
        while isinstance(owner := index.owner, arith.AddiOp):
            known = [constant_of(x) for x in owner.operands]
            if known[1] is not None:
                index, distance = owner.operands[0], distance + known[1]
            elif known[0] is not None:
                index, distance = owner.operands[1], distance + known[0]
            else:
                break
        constant = constant_of(index)
        return Place(index, distance) if constant is None else Place(None, distance + constant)


@dataclass(frozen=True)
class Walk:
    """
    The values of an index: `first`, every `step`-th up to `last`; None where data decide, and of
    what is no number of a loop.
    """

    first: int | None = None
    last: int | None = None
    step: int | None = None

    @staticmethod
    def of(base: SSAValue | None) -> Walk:
        """Of a number of a loop, or of 0."""
        if base is None:
            return Walk(0, 0, 1)
        block = base.owner
        loop = block.parent_op() if isinstance(block, Block) else None
        if not isinstance(loop, scf.ForOp) or base is not loop.body.block.args[0]:
            return Walk()
        low, high, step = (constant_of(x) for x in (loop.lb, loop.ub, loop.step))
        if low is None or high is None or step is None:
            return Walk(low, None, step)
        return Walk(low, low + max(high - low - 1, 0) // step * step, step)


def constant_of(value: SSAValue) -> int | None:
    """A number that is written in the program."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def lie_apart(x: SSAValue, y: SSAValue) -> bool:
    """Whether two buffers share no element: others than one that is alone where it lies."""
    roots = [_root(x), _root(y)]
    return roots[0] is not roots[1] and any(map(_is_alone, roots))


def _root(buffer: SSAValue) -> SSAValue:
    while isinstance(owner := buffer.owner, memref.ReinterpretCastOp | memref.CastOp):
        buffer = owner.operands[0]
    return buffer


def _is_alone(buffer: SSAValue) -> bool:
    """Whether nobody reaches a buffer's elements by another name, or writes them."""
    if isinstance(buffer.owner, memref.AllocaOp):
        return True
    if not isinstance(buffer, BlockArgument):
        return False
    function = buffer.owner.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return False
    return "mlc.noalias" in function.arg_attrs.data[buffer.index].data
