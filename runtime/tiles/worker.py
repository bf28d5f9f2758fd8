"""A worker of a tile program: loops, conditions, shares, barriers and what a team does together."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.errors import CompilerBug
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tile.access import number_of
from mlc.dialects.tile.control import BarrierOp, ForOp, IfOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.expression import ConditionsAttr, ExpressionsAttr
from mlc.dialects.tile.kernel import CaseOp
from mlc.dialects.tile.memory import AllocOp
from mlc.dialects.tile.nest import NestOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.shares import chunks, share
from mlc.dialects.tile.types import frag_of, view_of
from mlc.lazy_dataclass import dataclass
from mlc.runtime.tiles.memory import Stored, TileError, spot, unwritten
from mlc.runtime.tiles.places import along, bound_of, compared
from mlc.runtime.tiles.products import combined
from mlc.runtime.tiles.registers import Plan, Registers
from mlc.runtime.tiles.team import Team, Turn

Array = NDArray[Any]
Steps = Generator[Turn, None, list[Any]]


@dataclass(frozen=True)
class _Trip:
    """One trip of a loop: on each axis where, how much, and whether it is the first or last."""

    at: tuple[int, ...]
    sizes: tuple[int, ...]
    ends: tuple[tuple[bool, bool], ...]


class Worker(Registers):
    """One worker."""

    def __init__(self, team: Team, number: int, symbols: Mapping[str, int], plan: Plan) -> None:
        super().__init__(team, number, symbols, plan)
        self.times: Counter[Operation] = Counter()  # of ops at which workers meet
        self.ends: dict[SSAValue, tuple[bool, bool]] = {}  # of positions: in the first, last trip
        self.share: Operation | None = None  # the dealt loop whose trips it runs

    def block(self, block: Block) -> Steps:
        """Runs a block; the values with which it ends."""
        for op in block.ops:
            if isinstance(op, YieldOp):
                return [self.values[x] for x in op.values]
            found = self.compute(op)
            if found is None:
                found = yield from self.control(op)
            self.values.update(zip(op.results, found, strict=True))
        raise CompilerBug("a region of a tile program ends without mlc_tile.yield")

    def control(self, op: Operation) -> Steps:
        """An op that has regions, or that others may take turns at."""
        found: list[Any] = []
        match op:
            case ForOp():
                found = yield from self.loop(op)
            case IfOp():
                taken = op.then if self.holds(op.conditions, op.positions) else op.otherwise
                if taken.blocks:
                    found = yield from self.block(taken.block)
            case CaseOp():
                known = (self.holds(c, ()) for c in op.conditions)
                number = next((k for k, met in enumerate(known) if met), len(op.conditions))
                yield from self.block(op.bodies[number].block)
            case AllocOp():
                found = [self.alloc(op)]
            case CopyOp():
                yield None
                self.copy(op)
            case NestOp():
                yield None
                self.nest(op)
            case BarrierOp():
                yield from self.team.meet(op)
            case _:
                raise CompilerBug(f"the interpreter of tile programs does not know '{op.name}'")
        return found

    def holds(self, conditions: ConditionsAttr, positions: Sequence[SSAValue]) -> bool:
        """Whether all conditions hold."""
        atoms = self.atoms(positions)
        for condition in conditions.data:
            if condition.relation in ("first", "last"):
                (name,) = condition.left.symbols()
                ends = self.ends[positions[int(name[1:])]]
                met = ends[condition.relation == "last"]
            else:
                met = compared(condition, atoms)
            if not met:
                return False
        return True

    # memory ---------------------------------------------------------------------------------------

    def alloc(self, op: AllocOp) -> Stored:
        """Scratch: of the team one, in which nothing is known where a worker comes to it first."""
        kind = view_of(op.result)
        shape, team = self.shape(kind.shape), self.team
        if op.scope.data == "worker" or team.size == 1:
            return Stored(unwritten(shape, kind.dtype), kind.dtype)
        if self.share is not None:
            raise TileError(f"{spot(op)}: memory of a team in {spot(self.share)}, which is dealt")
        time = self._time(op)
        if op not in team.memory:
            team.memory[op] = Stored(unwritten(shape, kind.dtype), kind.dtype, shared=True)
        if team.first_at(op, time):
            team.memory[op].forget()
        return team.memory[op]

    def _time(self, op: Operation) -> int:
        """How often this worker has come to an op before."""
        self.times[op] += 1
        return self.times[op] - 1

    def copy(self, op: CopyOp) -> None:
        """Memory to memory; of a letter that is dealt, this worker's share."""
        atoms = self.atoms(op.positions)
        sizes = {c: bound_of(bound, atoms) for c, bound in self.once(_extents, op).items()}
        starts: dict[str, int] = {}
        if op.deal is not None and self.share is None:
            mine = share(sizes[op.deal.data], self.team.size, self.number)
            starts[op.deal.data], sizes[op.deal.data] = mine.start, len(mine)
        atoms |= along(sizes, starts)
        source, target = (self.places(dims, atoms) for dims in self.once(CopyOp.where, op))
        by = self.by(op)
        found = self.memory(op.source).read(source, number_of(op.fill), by)
        self.memory(op.target).write(target, found, by)

    def nest(self, op: NestOp) -> None:
        """Ops of the plan; where a team comes to them, the first of its workers runs them."""
        alone = self.team.size == 1 or self.share is not None
        if not alone and not self.team.first_at(op, self._time(op)):
            return
        by, inputs = self.by(op), list[Array]()
        for x in op.inputs:
            view = self.memory(x)
            inputs.append(np.broadcast_to(view.read(_everywhere(view.shape), 0, by), view.shape))
        results = self.plan.block(op.body.block, inputs, self.symbols)
        for x, result in zip(op.outputs, results, strict=True):
            view = self.memory(x)
            view.write(_everywhere(view.shape), result, by)

    # loops ----------------------------------------------------------------------------------------

    def loop(self, op: ForOp) -> Steps:
        """All trips, or a worker's share of them."""
        deal, carried = op.deal, [self.values[x] for x in op.inits]
        together = deal is not None and (
            deal.data.when is None or self.holds(deal.data.when, op.positions)
        )
        if not together:
            return (yield from self._trips(op, self._all(op), carried))
        if self.share is not None:
            raise TileError(f"{spot(op)}: dealt in {spot(self.share)}, which is dealt too")
        self.share = op
        if carried:
            carried = yield from self._chunks(op, carried)
        else:
            yield from self._trips(op, self._mine(op), [])
        self.share = None
        return carried

    def _trips(self, op: ForOp, trips: Iterable[_Trip], carried: list[Any]) -> Steps:
        for trip in trips:
            yield None
            self.values.update(zip(op.indices, trip.at, strict=True))
            self.ends.update(zip(op.indices, trip.ends, strict=True))
            for argument, size in zip(op.sizes, trip.sizes, strict=True):
                if argument is not None:
                    self.values[argument] = size
            self.values.update(zip(op.carried, carried, strict=True))
            carried = yield from self.block(op.body.block)
        return carried

    def _extents(self, op: ForOp) -> list[int]:
        atoms = self.atoms(op.positions)
        return [bound_of(loop.extent, atoms) for loop in op.loops]

    def _all(self, op: ForOp) -> list[_Trip]:
        """Every trip, the last axis fastest."""
        extents, steps = self._extents(op), [loop.step for loop in op.loops]
        least = 0 if op.once is None else 1
        ranges = (range(0, max(n, least), step) for n, step in zip(extents, steps, strict=True))
        return [_trip(at, steps, extents, extents) for at in itertools.product(*ranges)]

    def _mine(self, op: ForOp) -> Iterable[_Trip]:
        """This worker's trips of a loop that is dealt."""
        assert op.deal is not None
        unit, team = op.deal.data.unit, self.team
        if op.deal.data.scope == "dynamic":
            return team.left.setdefault((op, self._time(op)), iter(self._all(op)))
        if unit is None:
            trips = self._all(op)
            mine = share(len(trips), team.size, self.number)
            return trips[mine.start : mine.stop]
        (extent,), (loop,) = self._extents(op), op.loops
        units = share(-(-extent // unit), team.size, self.number)
        stop = min(units.stop * unit, extent)
        starts = range(units.start * unit, stop, loop.step)
        return [_trip((at,), [loop.step], [stop], [extent]) for at in starts]

    def _chunks(self, op: ForOp, carried: list[Any]) -> Steps:
        """Partial states of chunks of trips, whose number sizes alone decide, combined in turn."""
        trips, team, time = self._all(op), self.team, self._time(op)
        states = team.states.setdefault((op, time), {})
        bytes_ = sum(np.asarray(x).nbytes for x in carried)
        count = chunks(len(trips), bytes_)
        each = -(-len(trips) // max(count, 1))
        for number in share(count, team.size, self.number):
            begin = [_identity(op, k) for k in range(len(carried))]
            part = trips[number * each : (number + 1) * each]
            states[number] = yield from self._trips(op, part, begin)
        yield from team.meet(op)
        for number in range(count):
            carried = [
                combined(fold.data, left, right)
                for fold, left, right in zip(op.folds, carried, states[number], strict=True)
            ]
        return carried


def _extents(op: CopyOp) -> dict[str, ExpressionsAttr]:
    return op.extents


def _trip(
    at: tuple[int, ...], steps: Sequence[int], stops: Sequence[int], extents: Sequence[int]
) -> _Trip:
    sizes = tuple(min(step, stop - k) for k, step, stop in zip(at, steps, stops, strict=True))
    ends = tuple((k == 0, k + n >= stop) for k, n, stop in zip(at, sizes, extents, strict=True))
    return _Trip(at, sizes, ends)


def _identity(op: ForOp, number: int) -> Array:
    kind = frag_of(op.inits[number])
    (identity,) = MONOIDS[op.folds.data[number].data].identity(kind.dtype)
    return np.full(kind.shape, identity, kind.dtype.numpy)


def _everywhere(shape: Sequence[int]) -> list[Array]:
    return [*along({str(axis): size for axis, size in enumerate(shape)}).values()]
