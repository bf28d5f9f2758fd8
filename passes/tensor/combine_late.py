"""
What a trip of a loop gets late is combined last: the next trip waits for less.

Of `min(up, left, corner)` in a loop along a row, `left` is what the trip before has stored. The
next trip waits for both steps if it is combined first, and for one if last. Whole numbers and bits
are the same in any order.

SOURCE: Kuck, Muraoka, Chen, "On the number of operations simultaneously executable in Fortran-like
programs", IEEE Trans. Computers C-21(12), 1972 (trees of least height).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.dependence import number_name
from mlc.dialects.analysis.nests import is_number
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.analysis.ranges import Ranges, linear_in
from mlc.dialects.tensor.bitwise import AndOp, OrOp, XorOp
from mlc.dialects.tensor.comparison import MaxOp, MinOp
from mlc.dialects.tensor.control import ControlOp, ForOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark

ANY_ORDER = (MinOp, MaxOp, AddOp, MulOp, AndOp, OrOp, XorOp)
"""Of whole numbers and bits, these give the same in any order."""

Late = dict[SSAValue, int]
"""The numbers of a trip that wait for the trip before, and for how many ops behind it."""


@dataclass(frozen=True)
class CombineLatePass(ModulePass):
    """
    for j … { l = x[i, j - 1]; x[i, j] = min(min(u, l), c) }  ->  … { x[i, j] = min(min(u, c), l) }
    """

    name = "mlc-combine-late"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if not isinstance(function, FuncOp) or not function.body.blocks:
                continue
            loops = [x for x in outside_kernels(function) if isinstance(x, ForOp)]
            ranges = Ranges()
            if loops:
                ranges.bind_all(function)
            for loop in loops:
                if not any(isinstance(x, ForOp) for x in loop.body.block.ops):
                    _combine(loop, ranges)


def _combine(loop: ForOp, ranges: Ranges) -> None:
    """Reorders chains of one innermost loop."""
    block = loop.body.block
    late = _late(loop, ranges)
    if not late:
        return
    _follow(block, late)
    for op in list(block.ops):
        if not isinstance(op, ANY_ORDER) or op.parent is None or _inner_of(op) is not None:
            continue
        chain = list(_chain(op))
        leaves = [x for each in chain for x in each.operands if _owner_in(x, chain) is None]
        wanted = sorted(leaves, key=lambda x: late.get(x, -1))
        if len(chain) > 1 and _wait(chain, late) > _wait_of(wanted, late):
            _rebuild(op, chain, wanted)


def _late(loop: ForOp, ranges: Ranges) -> Late:
    """Numbers that a loop carries, and elements that are read where the trip before has stored."""
    found: Late = {x: 0 for x in loop.carried if is_number(x)}
    ops = loop.body.block.ops
    writes = [x for x in ops if isinstance(x, DynamicUpdateOp) and is_number(x.update)]
    for read in ops:
        if not isinstance(read, DynamicSliceOp) or not is_number(read.result):
            continue
        if any(_meets(read, write, loop, ranges) for write in writes):
            found[read.result] = 0
    return found


def _base(array: SSAValue) -> SSAValue:
    """The array as the trip was given it."""
    array = root_of(array)
    while isinstance(array.owner, DynamicUpdateOp):
        array = root_of(array.owner.x)
    return array


def _meets(read: DynamicSliceOp, write: DynamicUpdateOp, loop: ForOp, ranges: Ranges) -> bool:
    """Whether the next trip reads where a trip writes."""
    name, number = number_name(loop, ranges), ranges.of(loop.body.block.args[0])
    if not name or _base(read.x) is not _base(write.x):
        return False
    for one, other in zip(read.offsets, write.offsets, strict=True):
        factor, rest = linear_in(ranges.of(one), name)
        if ranges.of(other) != factor * number + factor + rest:
            return False
    return True


def _follow(block: Block, late: Late) -> None:
    """What is made of late numbers is later by an op."""
    for op in block.ops:
        if isinstance(op, ControlOp):
            waits = [late[x] for x in op.operands if x in late]
            for result in op.results:
                if waits and is_number(result):
                    late[result] = max(waits) + 1
        elif isinstance(op, TensorOp) and op.results[0] not in late and is_number(op.results[0]):
            waits = [late[x] for x in op.operands if x in late]
            if waits:
                late[op.results[0]] = max(waits) + (not op.IS_FREE)


# Chains -----------------------------------------------------------------------------------------


def _inner_of(op: TensorOp) -> TensorOp | None:
    """The op of the same kind that alone reads what this one gives."""
    result = op.results[0]
    if not is_number(result) or op.dtype.is_inexact or not result.has_one_use():
        return None
    user = next(iter(result.uses)).operation
    return user if type(user) is type(op) and user.parent is op.parent else None


def _chain(op: TensorOp) -> Iterator[TensorOp]:
    """The ops that combine what the last of them gives, the last one first."""
    yield op
    if not is_number(op.results[0]) or op.dtype.is_inexact:
        return
    for x in op.operands:
        owner = x.owner
        if isinstance(owner, TensorOp) and _inner_of(owner) is op:
            yield from _chain(owner)


def _owner_in(x: SSAValue, chain: Sequence[TensorOp]) -> TensorOp | None:
    return next((op for op in chain if op.results[0] is x), None)


def _wait(chain: Sequence[TensorOp], late: Late) -> int:
    """How late a chain gives what it combines."""
    return late.get(chain[0].results[0], 0)


def _wait_of(leaves: Sequence[SSAValue], late: Late) -> int:
    """Likewise, one after the other."""
    found = late.get(leaves[0], -len(leaves))
    for x in leaves[1:]:
        found = max(found, late.get(x, -len(leaves))) + 1
    return found


def _rebuild(op: TensorOp, chain: Sequence[TensorOp], leaves: Sequence[SSAValue]) -> None:
    """Combines the leaves in their order, where the last op of the chain stands."""
    block, value = op.parent, leaves[0]
    assert block is not None
    for x in leaves[1:]:
        new = op.on([value, x])
        block.insert_op_before(new, op)
        value = new.results[0]
    remark(op, "what the trip before has made is combined last (exact)")
    op.results[0].replace_all_uses_with(value)
    for old in chain:
        block.erase_op(old)
