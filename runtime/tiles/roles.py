"""A block of threads: roles in a random order, rings between them, products that are done later."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from numpy.typing import NDArray
from xdsl.ir import Operation

from mlc.dialects.tile.fences import DrainOp, FenceOp
from mlc.dialects.tile.parts import Integers
from mlc.dialects.tile.pipeline import (
    ChannelOp,
    ChannelType,
    DotStartOp,
    GetOp,
    JoinOp,
    PutOp,
    ReadyOp,
    ReleaseOp,
    RolesOp,
    WaitOp,
)
from mlc.dialects.tile.region import yielded
from mlc.dialects.tile.turns import PassOp, TurnOp
from mlc.dialects.tile.work import WorkOp
from mlc.runtime.tiles.memory import TileError, spot
from mlc.runtime.tiles.places import bound_of
from mlc.runtime.tiles.registers import Plan
from mlc.runtime.tiles.ring import Ring, Slot
from mlc.runtime.tiles.team import Team, Turn, Wait
from mlc.runtime.tiles.worker import Steps, Worker

Array = NDArray[Any]


class Token:
    """A product that is done when somebody has to know it, and no sooner."""

    def __init__(self, value: Any = None, run: Callable[[Any], Array] | None = None) -> None:
        self.value, self.run = value, run  # the value with which it begins until it is done

    def done(self) -> Array:
        """The tile."""
        begin = self.value.done() if isinstance(self.value, Token) else self.value
        if self.run is not None:
            self.value, self.run = self.run(begin), None
        else:
            self.value = begin
        return self.value


class Block(Worker):
    """A worker that may have roles."""

    def __init__(
        self, team: Team, number: int, symbols: Mapping[str, int], plan: Plan, random: Random
    ) -> None:
        super().__init__(team, number, symbols, plan)
        self.random = random
        self.name = "the block"
        self.flying: list[Token] = []  # products that are not done, in order
        self.turn = (0, 1)  # of a role: which of how many groups this is
        self.item = (0, 0)  # which it has a part of, and all steps of it

    def control(self, op: Operation) -> Steps:
        found: list[Any] = []
        match op:
            case ChannelOp():
                assert isinstance(op.result.type, ChannelType)
                found = [Ring(op.result.type)]
            case PutOp():
                ring: Ring = self.values[op.channel]
                yield Wait(ring.may_put, spot(op))
                found = [*ring.next_put(op)]
            case GetOp():
                ring = self.values[op.channel]
                yield Wait(lambda: ring.may_get(self.name), spot(op))
                found = [*ring.next_get(self.name)]
            case ReleaseOp():
                behind = 0 if op.behind is None else op.behind.value.data
                self.values[op.channel].release(self.name, behind, op)
                yield None
            case TurnOp():
                ring = self.values[op.channel]
                yield Wait(lambda: ring.may_turn(self.name), spot(op))
            case PassOp():
                self.values[op.channel].next_turn()
                yield None
            case DotStartOp():
                start = None if op.init is None else self.values[op.init]
                found = [Token(start, self.started(op))]
                self.flying += found
                yield None
            case ReadyOp():
                found = [Token(self.values[op.value])]
            case WaitOp():
                pending = op.pending.value.data
                for token in self.flying[: len(self.flying) - pending]:
                    token.done()
                self.flying = self.flying[len(self.flying) - pending :] if pending else []
                token = self.values[op.token]
                if op.value is not None and token in self.flying:
                    raise TileError(
                        f"{spot(op)}: gives a tile that is one of the {pending} not done"
                    )
                found = [] if op.value is None else [token.done()]
            case FenceOp() | DrainOp():
                yield None  # copies are done at once
            case WorkOp():
                found = yield from self.work(op)
            case JoinOp():
                found = yield from self.join(op)
            case RolesOp():
                yield from self.roles(op)
            case _:
                found = yield from super().control(op)
        return found

    def started(self, op: DotStartOp) -> Callable[[Any], Array]:
        """A product whose operands must stay until it is done."""
        run = self.product(op)
        slots = [m for m in map(self.memory, (op.lhs, op.rhs)) if isinstance(m, Slot)]
        turns = [slot.turn for slot in slots]

        def done(begin: Any) -> Array:
            if [slot.turn for slot in slots] != turns:
                raise TileError(f"{spot(op)}: its slots are released before it is waited for")
            return run(begin)

        return done

    def work(self, op: WorkOp) -> Steps:
        """This block's items, in turn with the other blocks'."""
        atoms = self.atoms(())
        extents = [bound_of(extent, atoms) for extent in op.extents]
        counts = [range(0, n, step.value.data) for n, step in zip(extents, op.steps, strict=True)]
        if op.down is not None:
            counts[-1] = counts[-1][::-1]
        if op.blocks > 1:  # items past the end have nothing to write
            step = op.steps.data[0].value.data
            last = -(-extents[0] // (step * op.blocks)) * step * op.blocks
            counts[0] = range(0, last, step)
        first, rest, raster = counts[0], counts[1:], op.raster.value.data
        items: list[tuple[int, ...]] = []
        for start in range(0, len(first), raster):
            rows = first[start : start + raster]
            items += [(row, *at) for at in itertools.product(*rest) for row in rows]
        beyond = [
            -(-n // step.value.data) * step.value.data
            for n, step in zip(extents, op.steps, strict=True)
        ]
        if op.depth is not None:
            return (yield from self._parts(op, items, bound_of(op.depth, atoms)))
        before, carried = tuple(beyond), [self.values[x] for x in op.inits]
        mine = items[self.number :: self.team.size]
        if op.in_turn is not None:
            mine = mine[self.turn[0] :: self.turn[1]]
        for item in mine:
            yield None
            self.values.update(zip(op.positions, item, strict=True))
            self.values.update(zip(op.before, before, strict=False))
            self.values.update(zip(op.carried, carried, strict=True))
            yield from self.block(op.body.block)
            before, carried = item, [self.values[x] for x in yielded(op.body.block)]
        return [*(before if op.before else ()), *carried]

    def _parts(self, op: WorkOp, items: Sequence[tuple[int, ...]], depth: int) -> Steps:
        """This block's items, and parts of items: as many blocks share them as there are."""
        part = op.part
        assert part is not None
        steps = -(-depth // op.step_size)
        parts = op.parts(Integers(), len(items), depth, self.team.size)
        for visit in range(parts.visits(self.number)):
            yield None
            piece = parts.part(visit, self.number)
            item, ends = int(piece.item), (int(piece.first), int(piece.end))
            self.values.update(zip(op.positions, items[item], strict=True))
            self.values.update(zip(part, (x * op.step_size for x in ends), strict=True))
            self.item = item, steps * op.step_size
            yield from self.block(op.body.block)
        return []

    def join(self, op: JoinOp) -> Steps:
        """If this part of an item has its last steps: adds the others, in the order of steps."""
        item, depth = self.item
        found = self.team.parts.setdefault((op, item, self.values[op.group]), {})
        first, end = self.values[op.first], self.values[op.end]
        own = self.values[op.value]
        if end < depth:
            found[first] = end - first, own
            yield None
            return []
        yield Wait(lambda: sum(steps for steps, _ in found.values()) == first, spot(op))
        for _, tile in (part for _, part in sorted(found.items())):
            own = own + tile
        self.values[op.body.block.args[0]] = own
        return (yield from self.block(op.body.block))

    def roles(self, op: RolesOp) -> Steps:
        """All roles, until all have ended."""
        strands: dict[str, Steps] = {}
        rings = {id(x): x for x in self.values.values() if isinstance(x, Ring)}
        for number, body in enumerate(op.bodies):
            got = {x.channel: 0 for x in body.walk() if isinstance(x, GetOp)}
            got |= {x.channel: x.places.value.data for x in body.walk() if isinstance(x, TurnOp)}
            for copy in range(op.copies(number)):
                role = Block(self.team, self.number, self.symbols, self.plan, self.random)
                role.turn = copy, op.copies(number)
                role.name = f"{op.kinds.data[number].data} {copy}"
                role.values.update(self.values)
                role.values[body.block.args[0]] = copy
                strands[f"{role.name} of block {self.number}"] = role.block(body.block)
                for channel, places in got.items():
                    self.values[channel].join(role.name, (*role.turn, places) if places else None)
        yield from self._together(strands)
        for ring in rings.values():
            ring.check_end(op)
        return []

    def _together(self, strands: dict[str, Steps]) -> Steps:
        waits: dict[str, Turn] = dict.fromkeys(strands)

        def able() -> list[str]:
            return [name for name, wait in waits.items() if wait is None or wait.ready()]

        while waits:
            found = able()
            if not found:
                stuck = "; ".join(f"{name} at {w.what}" for name, w in waits.items() if w)
                yield Wait(lambda: bool(able()), f"its roles ({stuck})")
                continue
            name = self.random.choice(found)
            try:
                waits[name] = next(strands[name])
            except StopIteration:
                del waits[name]
            yield None
        return []
