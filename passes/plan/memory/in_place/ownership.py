"""
Which updates write over what they update: legality, as facts about the graph (D22).

`mlc.dynamic_update` gives a new tensor. It may write into the old one's memory if nobody reads that
any more and nobody else holds it. Memory is held by several values where regions hand it on: so a
carried value is exclusive only if every trip ends with memory that no other value has been given.
What a loop starts from is copied once, before the loop, where it is not the loop's alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.homes import block_of
from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.analysis.views import STORED, is_stored_constant
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, YieldOp, yield_of
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.tiles import TileOp, is_position

Handed = tuple[ControlOp, int]
"""A value that a region op hands on: result and carried value of that number."""


class Ownership:
    """The decisions for one function."""

    def __init__(self, function: FuncOp) -> None:
        self.in_place: set[Operation] = set()
        self.copied: set[tuple[Operation, int]] = set()
        """Starts of loops, by op and operand, that must be copies."""
        updates: list[DynamicUpdateOp] = []
        self._order: dict[Operation, int] = {}
        self._exclusive: dict[Handed, bool] = {}
        for op in outside_kernels(function):
            self._order[op] = len(self._order)
            if isinstance(op, ControlOp):
                self._exclusive.update({(op, k): not op.IS_RIGID for k in range(len(op.results))})
            elif isinstance(op, DynamicUpdateOp):
                updates.append(op)
        if not self._exclusive or not updates:
            return
        self._settle()
        for op in updates:  # in program order: one may update what another has made
            if self._may_overwrite(op):
                self.in_place.add(op)
        self._written: set[Handed] = set()
        for op in list(self.in_place):
            self._write(root_of(op.operands[0]))

    def _settle(self) -> None:
        """Strikes values off that are not exclusive until nothing changes."""
        changed = True
        while changed:
            changed = False
            for (op, k), exclusive in self._exclusive.items():
                if exclusive and not all(
                    self._is_given(root_of(yield_of(block).values[k]), op, block)
                    for block in op.yielding()
                ):
                    self._exclusive[op, k] = False
                    changed = True

    def _is_given(self, value: SSAValue, op: ControlOp, block: Block) -> bool:
        """Whether a region ends with memory that is nobody else's."""
        if block_of(value) is block:
            return self._is_exclusive(value) and _times_handed_on(value) == 1
        if not isinstance(op, IfOp):
            return False  # from outside: the next trip finds it there again
        inside = [user for user in handing(value) if user.parent_op() is op]
        return (
            self._is_exclusive(value)
            and len(inside) == _times_handed_on(value)
            and len({user.parent for user in inside}) == len(inside)
            and self._is_dead_after(value, op, inside=True)
        )

    def _is_exclusive(self, value: SSAValue) -> bool:
        """Whether memory is one value's alone, as far as it came to it."""
        owner = value.owner
        if isinstance(owner, TensorOp):
            return not is_stored_constant(owner)
        if isinstance(owner, KernelOp):
            return True  # a nest that has been formed: of its own, or of what it writes over
        if isinstance(owner, ControlOp):
            return self._exclusive[owner, owner.results.index(value)]
        handed = _argument(value)
        if handed is None:
            return _is_trip_number(value)  # copied, where it is handed on
        return self._exclusive[handed]

    def _may_overwrite(self, op: DynamicUpdateOp) -> bool:
        target = root_of(op.x)
        known = target.owner in self.in_place or isinstance(target.owner, ControlOp | KernelOp)
        if not known and _argument(target) is None:
            return False  # what kernels compute on their way is not worth a place of its own
        if (
            _is_part(op.x)
            or _is_condition_argument(target)
            or any(op.x is x for x in op.operands[1:])
        ):
            return False
        return (
            self._is_exclusive(target)
            and all(_exclude_each_other(user, op) for user in handing(target))
            and self._is_dead_after(target, op)
            and not any(isinstance(user, ReturnOp) for user in _readers(op.result))
        )

    def _is_dead_after(self, value: SSAValue, op: Operation, *, inside: bool = False) -> bool:
        """Whether nobody reads the value after `op` (nor in its regions, unless `inside`)."""
        home = block_of(value)
        path: dict[Block, Operation] = {}
        here = op
        while here.parent is not None:
            path[here.parent] = here
            if here.parent is home:
                break
            above = here.parent_op()
            if not isinstance(above, IfOp):
                return False  # a loop that finds the value again in its next trip
            here = above
        return all(
            reader is op or self._is_before(reader, path, op if inside else None)
            for reader in _readers(value)
        )

    def _is_before(self, reader: Operation, path: Mapping[Block, Operation], op: object) -> bool:
        here = reader
        while (meets := path.get(here.parent) if here.parent is not None else None) is None:
            above = here.parent_op()
            if above is None:
                return False
            here = above
        if here is meets:  # another branch, or inside of `op` itself
            return here is op or (isinstance(here, IfOp) and reader is not here)
        return self._order[here] < self._order[meets]

    # what is written, from where it is written backwards ----------------------------------------

    def _write(self, value: SSAValue) -> None:
        """Memory that comes to `value` is written: it must be somebody's own from the start."""
        owner = value.owner
        if isinstance(owner, TensorOp | KernelOp):
            return  # of its own, or of what it updates, which has been seen
        if isinstance(owner, ControlOp):
            handed = (owner, owner.results.index(value))
        else:
            found = _argument(value)
            if found is None:
                return
            handed = found
        if handed in self._written:
            return
        self._written.add(handed)
        op, k = handed
        for block in op.yielding():
            self._write(root_of(yield_of(block).values[k]))
        if starts := op.starts:
            start = root_of(starts[k])
            if self._may_take(start, op):
                self._write(start)
            else:
                self.copied.add((op, len(op.operands) - len(starts) + k))

    def _may_take(self, value: SSAValue, op: ControlOp) -> bool:
        """Whether what the loop starts from is the loop's alone."""
        made = isinstance(value.owner, TensorOp | ControlOp | KernelOp)
        known = made or _argument(value) is not None
        return (
            known
            and block_of(value) is op.parent
            and not _is_condition_argument(value)
            and self._is_exclusive(value)
            and _times_handed_on(value) == 1
            and self._is_dead_after(value, op)
        )


def _is_part(value: SSAValue) -> bool:
    """Whether the value is a part of a larger one."""
    while isinstance(value.owner, ReshapeOp):
        value = value.owner.x
    return isinstance(value.owner, TileOp)


def _argument(value: SSAValue) -> Handed | None:
    """The carried value that an argument of a loop's region is."""
    if not isinstance(value, BlockArgument):
        return None
    op = value.owner.parent_op()
    if not isinstance(op, ControlOp):
        return None
    carried = op.carried_in(value.owner)
    first = op.first_carried
    return next(((op, first + k) for k, x in enumerate(carried) if x is value), None)


def _is_trip_number(value: SSAValue) -> bool:
    op = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    return is_position(value) or (isinstance(op, ForOp) and _argument(value) is None)


def _is_condition_argument(value: SSAValue) -> bool:
    """The body will read what the condition has read."""
    op = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    return isinstance(op, WhileOp) and value.owner is op.condition.block


def _exclude_each_other(x: Operation, y: Operation) -> bool:
    """Whether the ops are in different branches of one `if`."""
    above: dict[Operation, Block | None] = {}
    here: Operation | None = x
    while here is not None:
        if (parent := here.parent_op()) is not None:
            above[parent] = here.parent
        here = parent
    here = y
    while here is not None:
        parent = here.parent_op()
        if parent in above:
            return isinstance(parent, IfOp) and above[parent] is not here.parent
        here = parent
    return False


def _readers(value: SSAValue) -> Iterator[Operation]:
    """The ops that read the value, or a view of it."""
    pending, seen = [value], set[Operation]()
    while pending:
        for use in pending.pop().uses:
            reader = use.operation
            if not isinstance(reader, TensorOp) or not reader.MOVES or STORED in reader.attributes:
                yield reader
            elif reader not in seen:
                seen.add(reader)
                pending.append(reader.results[0])


def handing(value: SSAValue) -> Iterator[Operation]:
    """The ops that hand the value's memory on, once for each time."""
    pending = [value]
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if isinstance(user, ReshapeOp):
                pending.append(user.result)
            elif isinstance(user, YieldOp) or (
                isinstance(user, ControlOp) and use.index >= len(user.operands) - len(user.starts)
            ):
                yield user


def _times_handed_on(value: SSAValue) -> int:
    return sum(1 for _ in handing(value))
