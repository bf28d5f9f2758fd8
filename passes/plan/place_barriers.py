"""One team for a whole call, and where its workers wait for each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.access import nest_of, nests_stay
from mlc.dialects.analysis.aliases import Aliases, donations_of, root_of, values_from_outside
from mlc.dialects.analysis.shares import TEAM, WAIT, is_dealt, shares_columns
from mlc.dialects.dims import Dim
from mlc.dialects.plan import BufferAttr, KernelOp
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.lazy_dataclass import dataclass

Place = tuple[str, int]
"""Memory that ops may share: a slot of the arena, a result, an argument, the kernels' scratch."""
SCRATCH: Place = ("scratch", 0)
Who = Literal["first", "all"]


@dataclass(frozen=True)
class Access:
    """What some workers have done with a place since all met."""

    place: Place
    writes: bool
    who: Who


Accesses = frozenset[Access]


@dataclass(frozen=True)
class PlaceBarriersPass(ModulePass):
    """
    Gives a function one team where workers share several kernels, or one in a loop: `mlc.team`. All
    workers go through its loops and branches; what is too small to share, the first one does.

    They wait for each other before an op that reads what another worker may have written, or writes
    what another may still read or write: `mlc.wait`. Ops that touch other memory, and ops that the
    first worker does one after the other, need no barrier. At a loop the condition waits, which is
    memory that all read. A loop in which workers share something has a barrier, so that it ends
    when the call is cancelled.
    """

    name = "mlc-place-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        with nests_stay():
            for function in op.body.block.ops:
                if isinstance(function, FuncOp) and function.body.blocks and _repays_team(function):
                    function.attributes[TEAM] = UnitAttr()
                    _Placing(function).block(function.body.block, frozenset())


def _repays_team(function: FuncOp) -> bool:
    """
    Whether workers share work more than once, and every decision is about work that they share: one
    about the first worker's alone would make all of them wait for nothing.
    """
    shared = [op for op in function.walk() if _is_shared(op)]
    if len(shared) < 2 and not any(_in_loop(op) for op in shared):
        return False
    for op in function.walk():
        decides = isinstance(op, WhileOp | IfOp) or (isinstance(op, TilesOp) and not op.spreads)
        if decides and not _in_tiles(op) and not any(map(_is_shared, op.walk())):
            return False
    return True


def _is_shared(op: Operation) -> bool:
    if isinstance(op, TilesOp):
        return op.spreads
    return isinstance(op, KernelOp) and op.unwritten is None and is_dealt(op)


def _around(op: Operation) -> Iterator[Operation]:
    parent = op.parent_op()
    while parent is not None:
        yield parent
        parent = parent.parent_op()


def _in_loop(op: Operation) -> bool:
    return any(isinstance(x, ForOp | WhileOp) for x in _around(op))


def _in_tiles(op: Operation) -> bool:
    return any(isinstance(x, TilesOp) for x in _around(op))


class _Placing:
    """Marks the ops of one function before which workers wait."""

    def __init__(self, function: FuncOp) -> None:
        self.groups = Aliases(function)
        self.places: dict[SSAValue, set[Place]] = {}
        donated = donations_of(function)
        for k, argument in enumerate(function.body.block.args):
            self._lies(argument, ("out", donated[k]) if k in donated else ("argument", k))
        for op in function.walk():
            for value, buffer in _made(op):
                place, numbers = buffer.data
                for number in numbers if place in ("arena", "out") else ():
                    self._lies(value, (place, number))

    def _lies(self, value: SSAValue, place: Place) -> None:
        self.places.setdefault(self.groups.group(value), set()).add(place)

    def _of(self, values: Iterable[SSAValue]) -> set[Place]:
        found: set[Place] = set()
        for value in values:
            found |= self.places.get(self.groups.group(root_of(value)), set())
        return found

    # the walk ---------------------------------------------------------------------------------

    def block(self, block: Block, state: Accesses) -> Accesses:
        """What has been done since all met, at the end of a block; `state`: at its beginning."""
        for op in block.ops:
            if isinstance(op, KernelOp):
                if op.unwritten is None:
                    state = self._kernel(op, state)
            elif isinstance(op, TilesOp):
                read = self._of((*values_from_outside(op), *op.operands))
                written = self._of((*op.results, *op.carried))
                state = self._access(op, read, written, "all" if op.spreads else "first", state)
            elif isinstance(op, ControlOp):
                state = self._control(op, state)
        return state

    def _kernel(self, op: KernelOp, state: Accesses) -> Accesses:
        written = self._of(op.outs)
        if _may_have_scratch(op):
            written.add(SCRATCH)
        reads: Who = "all" if is_dealt(op) else "first"
        writes: Who = "first" if _ends_alone(op) else reads
        return self._access(op, self._of(op.inputs), written, reads, state, writes)

    def _control(self, op: ControlOp, state: Accesses) -> Accesses:
        match op:
            case IfOp():
                state = self._decision(op, op.condition, state)
                ends = [self.block(block, state) for block in op.blocks]
                return frozenset[Access]().union(*ends)
            case WhileOp():
                return self._while(op, state)
            case BindOp():
                return self._decision(op, op.x, state)
            case _:
                assert isinstance(op, ForOp)
                state = self._decision(op, op.count, state)
                while (end := state | self.block(op.body.block, state)) != state:
                    state = end
                self._ends(op)
                return state

    def _while(self, op: WhileOp, state: Accesses) -> Accesses:
        while True:
            tested = self._decision(op, op.test, self.block(op.condition.block, state))
            end = state | self.block(op.body.block, tested)
            if end == state:
                return tested
            state = end

    def _ends(self, op: ForOp) -> None:
        """A loop of shared work without any barrier gets one."""
        inside = [x for x in op.walk() if x is not op]
        shared = [x for x in inside if _is_shared(x)]
        if shared and not any(WAIT in x.attributes for x in inside):
            shared[0].attributes[WAIT] = UnitAttr()

    def _decision(self, op: Operation, value: SSAValue, state: Accesses) -> Accesses:
        """A number in memory that all workers read."""
        if isinstance(value.owner, SizeOp | ConstantOp):
            return state
        return self._access(op, self._of([value]), set(), "all", state)

    def _access(
        self,
        op: Operation,
        read: set[Place],
        written: set[Place],
        who: Who,
        state: Accesses,
        writer: Who | None = None,
    ) -> Accesses:
        """The state after an op, before which all meet where that is needed."""
        for past in state:
            apart = "all" in (who, past.who)
            meets = past.place in written or (past.writes and past.place in read)
            if apart and meets:
                op.attributes[WAIT] = UnitAttr()
        if WAIT in op.attributes:
            state = frozenset()
        done = {Access(place, False, who) for place in read}
        return state | done | {Access(place, True, writer or who) for place in written}


def _made(op: Operation) -> Iterator[tuple[SSAValue, BufferAttr]]:
    """The values that an op writes to memory of its own, and where."""
    if isinstance(op, KernelOp):
        yield from zip(op.outs, op.buffers or (), strict=False)
    elif isinstance(op, TilesOp):
        buffers = cast("ArrayAttr[Attribute]", op.attributes["buffers"])
        values = (*op.own, *(op.carried if op.spreads else ()))
        for value, buffer in zip(values, buffers, strict=True):
            assert isinstance(buffer, BufferAttr)
            yield value, buffer


def _ends_alone(op: KernelOp) -> bool:
    """Whether the first worker writes the result, from what all have left for it."""
    nest = nest_of(op)
    return nest is not None and nest.reduction is not None and nest.rank == 0


def _may_have_scratch(op: KernelOp) -> bool:
    """Whether a kernel may keep something in the memory that serves each kernel in turn."""
    nest = nest_of(op)
    packs = op.schedule is not None and bool(op.schedule.data.packed)
    if nest is None or packs:
        return True
    one = nest.reduction is not None and all(n == Dim.const(1) for n in nest.sizes[: nest.rank])
    return one or shares_columns(nest)
