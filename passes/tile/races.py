"""Where workers of a team touch what another writes, with no barrier between."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import BarrierOp, ForOp, IfOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp, MapOp, ReadOp
from mlc.dialects.tile.expression import Condition, ConditionsAttr, ExpressionsAttr, positions_in
from mlc.dialects.tile.kernel import CaseOp, KernelOp
from mlc.dialects.tile.memory import AllocOp, FillOp, LoadOp, StoreOp
from mlc.dialects.tile.nest import NestOp
from mlc.dialects.tile.types import ViewType
from mlc.lazy_dataclass import dataclass

Fault = tuple[Operation, str]
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "le": "gt", "gt": "le"}
_MOST_CONDITIONS = 8  # under which loops are dealt, all of whose combinations are looked at


@dataclass(frozen=True)
class Touch:
    """An op reads or writes shared memory; `dealt`: the op by which workers do so in parts."""

    view: SSAValue
    writes: bool
    dealt: Operation | None
    op: Operation
    moves: bool = True  # its place depends on the positions of the dealt loop


Touches = Callable[[Operation, Operation | None], Iterable[Touch]]


def race_faults(kernel: KernelOp) -> Iterator[Fault]:
    """Accesses that race, and barriers that not all workers reach."""
    if kernel.work is None:
        return
    whens = {
        op.deal.data.when
        for op in kernel.walk()
        if isinstance(op, ForOp) and op.deal is not None and op.deal.data.when is not None
    }
    known = sorted((w for w in whens if not any(map(_moves, w.dims))), key=str)[:_MOST_CONDITIONS]

    @cache
    def seen(op: Operation, dealt: Operation | None) -> tuple[Touch, ...]:
        return tuple(touches(op, dealt))

    for holding in itertools.product((True, False), repeat=len(known)):
        pairs = itertools.combinations(zip(known, holding, strict=True), 2)
        if any(_is_opposite(x, y) and a == b for (x, a), (y, b) in pairs):
            continue  # of two such conditions one holds
        walk = _Walk(kernel, dict(zip(known, holding, strict=True)), seen)
        walk.block(kernel.block, None)
        if walk.found is not None:
            yield walk.found
            return


def _is_opposite(one: ConditionsAttr, other: ConditionsAttr) -> bool:
    """Whether one condition holds exactly where the other does not."""
    if len(one.data) != 1 or len(other.data) != 1:
        return False
    (x,), (y,) = one.data, other.data
    same = (x.left, x.right) == (y.left, y.right)
    return same and _OPPOSITE.get(x.relation) == y.relation


def _moves(dim: object) -> bool:
    return any(s[0] == "%" for s in getattr(dim, "symbols", frozenset[str])())


class _Walk:
    """One way through a kernel: `pending` is what was touched since the last barrier."""

    def __init__(
        self, kernel: KernelOp, holding: dict[ConditionsAttr, bool], touches: Touches
    ) -> None:
        self.holding = holding
        self.touches = touches
        self.shared: set[SSAValue] = set(kernel.block.args)
        self.pending: dict[Touch, None] = {}
        self.found: Fault | None = None

    def block(self, block: Block, dealt: Operation | None) -> None:
        for op in block.ops:
            if self.found is not None:
                return
            match op:
                case ForOp():
                    self.loop(op, dealt)
                case IfOp():
                    self.branches(op, self.taken(op), dealt)
                case CaseOp():
                    self.branches(op, [body.block for body in op.bodies], dealt)
                case BarrierOp() if dealt is not None:
                    self.found = op, "stands in a loop whose trips differ from worker to worker"
                case BarrierOp():
                    self.pending = {}
                case AllocOp() if op.scope.data == "team":
                    self.shared.add(op.result)
                    if dealt is not None:
                        self.found = op, "memory of a team in a loop that is dealt"
                case _:
                    for touch in self.touches(op, dealt):
                        self.touch(touch)

    def loop(self, op: ForOp, dealt: Operation | None) -> None:
        if op.deal is not None and self.holding.get(op.deal.data.when or _NEVER, True):
            if dealt is not None:
                self.found = op, "is dealt in a loop that is dealt"
            self.block(op.body.block, op)
            if op.folds.data:
                self.pending = {}  # workers meet to combine what they have
            return
        before = None  # the next time sees what the trip before has touched
        while before != self.pending.keys():
            before = set(self.pending)
            self.block(op.body.block, dealt)

    def taken(self, op: IfOp) -> list[Block]:
        """The regions of a condition that may run."""
        both = [region.block for region in (op.then, op.otherwise) if region.blocks]
        for when, holds in self.holding.items():
            if op.conditions == when:
                return both[:1] if holds else both[1:]
            if holds and _contradicts(op.conditions, when):
                return both[1:]
        return both

    def branches(self, op: Operation, blocks: Sequence[Block], dealt: Operation | None) -> None:
        before, after = self.pending, dict[Touch, None]()
        for block in blocks:
            self.pending = dict(before)
            self.block(block, dealt)
            after |= self.pending
        complete = len(blocks) == len([r for r in op.regions if r.blocks]) > 1
        self.pending = after if complete else {**before, **after}

    def touch(self, new: Touch) -> None:
        if new.view not in self.shared:
            return
        for old in self.pending:
            if old.view is new.view and (old.writes or new.writes) and _apart(old, new):
                verbs = ["writes" if x.writes else "reads" for x in (new, old)]
                self.found = (
                    new.op,
                    f"{verbs[0]} what another worker {verbs[1]} in {old.op.name}"
                    f"{_line(old.op)}; expected an mlc_tile.barrier between",
                )
                return
        self.pending[new] = None


_NEVER = ConditionsAttr(())


def _line(op: Operation) -> str:
    at = getattr(op.location, "line", None)
    return "" if at is None else f" at line {at.data}"


def _contradicts(one: ConditionsAttr, other: ConditionsAttr) -> bool:
    opposite = {
        Condition(_OPPOSITE[c.relation], c.left, c.right)
        for c in other.data
        if c.relation in _OPPOSITE
    }
    return len(other.data) == 1 and not opposite.isdisjoint(one.data)


def _apart(old: Touch, new: Touch) -> bool:
    """Whether different workers may touch one element."""
    if old.dealt is None and new.dealt is None:
        return new.writes and not old.writes  # what all do alike harms those who are behind
    if old.dealt is new.dealt:
        return isinstance(old.dealt, ForOp) and not (old.moves and new.moves)
    return not _share_alike(old.dealt, new.dealt)


def _share_alike(one: Operation | None, other: Operation | None) -> bool:
    """Whether each worker has the same positions in two loops."""
    if not isinstance(one, ForOp) or not isinstance(other, ForOp):
        return False
    if any(positions_in(loop.extent.data) for loop in (*one.loops, *other.loops)):
        return False
    sizes = [[(x.extent, x.step) for x in op.loops] for op in (one, other)]
    return sizes[0] == sizes[1] and one.deal == other.deal


# what ops touch


def touches(op: Operation, dealt: Operation | None) -> Iterator[Touch]:
    """What an op reads and writes, memory that is computed by what it is computed from."""

    def touch(
        view: SSAValue, writes: bool, at: ExpressionsAttr | None, positions: Sequence[SSAValue]
    ) -> Iterator[Touch]:
        if isinstance(view.owner, ElementsOp):
            for read in view.owner.body.block.ops:
                if isinstance(read, ReadOp):
                    yield from touch(read.view, False, at, positions)
        elif isinstance(view.type, ViewType):
            moves = at is not None and _moves_with(dealt, at, positions)
            yield Touch(view, writes, dealt or _parts(op), op, moves)

    match op:
        case LoadOp():
            yield from touch(op.view, False, op.at, op.positions)
        case StoreOp():
            yield from touch(op.view, True, op.at, op.positions)
        case FillOp():
            yield from touch(op.view, True, None, ())
        case CopyOp():
            yield from touch(op.source, False, op.source_at, op.positions)
            yield from touch(op.target, True, op.target_at, op.positions)
        case DotOp():
            yield from touch(op.lhs, False, op.lhs_at, op.positions)
            yield from touch(op.rhs, False, op.rhs_at, op.positions)
        case MapOp():
            for read in op.body.block.ops:
                if isinstance(read, ReadOp):  # at places that are computed
                    yield Touch(read.view, False, dealt, op)
        case NestOp():
            for view in op.inputs:
                yield from touch(view, False, None, ())
            for view in op.outputs:
                yield from touch(view, True, None, ())
        case _:
            pass


def _parts(op: Operation) -> Operation | None:
    """An op that the workers of a team share by itself."""
    return (
        op if isinstance(op, NestOp) or (isinstance(op, CopyOp) and op.deal is not None) else None
    )


def _moves_with(
    dealt: Operation | None, at: ExpressionsAttr, positions: Sequence[SSAValue]
) -> bool:
    if not isinstance(dealt, ForOp):
        return True
    return any(positions[k] in dealt.indices for k in positions_in(at.data))
