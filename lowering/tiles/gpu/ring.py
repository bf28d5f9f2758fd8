"""Rings as barriers: which place a role has next, and which places it has to give back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from xdsl.ir import Block, SSAValue

from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import (
    BarrierArriveOp,
    BarrierExpectOp,
    BarrierInitOp,
    BarrierWaitOp,
)
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.pipeline import (
    ChannelOp,
    GetOp,
    PutOp,
    ReleaseOp,
    RolesOp,
)
from mlc.dialects.tile.slots import (
    BARRIERS,
    OFFSET,
    RING_BARRIERS_BYTES,
    filled_elements,
    kind_of,
    number_of,
    place_bytes,
    slot_bytes,
)
from mlc.dialects.tile.turns import TurnOp, takers_of
from mlc.dialects.tile.types import ViewType, view_of
from mlc.dialects.tile.work import work_around
from mlc.lazy_dataclass import dataclass
from mlc.lowering.tiles.gpu.words import Word, Words

_FREE = RING_BARRIERS_BYTES // 2


@dataclass(frozen=True)
class Slot:
    """A tile of shared memory; `full`: the barrier that counts what is copied to it."""

    address: Word
    view: ViewType
    full: SSAValue | None = None


@dataclass(frozen=True)
class Ring:
    """A channel: places from an address on, a pair of barriers for each from another one on."""

    depth: int
    place: int
    slots: tuple[ViewType, ...]
    at: Word
    barriers: Word
    readers: int
    expected: int  # bytes that fill a place
    blocks: int = 1  # of a cluster, which fill each other's places
    takers: int = 0  # groups that get places in turn

    @staticmethod
    def of(op: ChannelOp, shared: Word, words: Words) -> Ring:
        """The ring of a channel in the block's memory."""
        kind = kind_of(op)
        offset, barriers = number_of(op, OFFSET), number_of(op, BARRIERS)
        if offset is None or barriers is None:
            raise MlcError("tiles to GPU: a channel has no place: run mlc-place-slots first")
        at, ends = (words.add(shared, n) for n in (offset, barriers))
        slots = kind.slots.data
        blocks, filled = _blocks(op), _filled(op)
        readers = _readers(op) * blocks
        return Ring(
            kind.depth.data,
            place_bytes(kind),
            slots,
            at,
            ends,
            readers,
            filled,
            blocks,
            takers_of(op),
        )

    def init(self, words: Words) -> None:
        """Makes the barriers."""
        for number in range(self.depth):
            full = words.add(self.barriers, number * RING_BARRIERS_BYTES)
            for barrier, count in ((full, 1), (words.add(full, _FREE), self.readers)):
                words.b.add_op(BarrierInitOp.of(words.value(barrier), count))
        for number in range(self.takers):
            words.b.add_op(BarrierInitOp.of(words.value(self.passing(number, words)), 1))

    def passing(self, group: Word, words: Words) -> Word:
        """The barrier at which a group passes."""
        return self.full(words.add(group, self.depth), words)

    def full(self, number: Word, words: Words) -> Word:
        """The barrier of a place that counts what is copied there."""
        return words.add(self.barriers, words.mul(number, RING_BARRIERS_BYTES))

    def slots_of(self, number: Word, full: Word, words: Words) -> list[Slot]:
        """The slots of a place."""
        at = words.add(self.at, words.mul(number, self.place))
        found: list[Slot] = []
        for view in self.slots:
            found.append(Slot(at, view, words.value(full)))
            at = words.add(at, slot_bytes(view))
        return found


def _filled(op: ChannelOp) -> int:
    """Bytes that one role copies to a place."""
    for put in (x.operation for x in op.result.uses):
        if isinstance(put, PutOp):
            return sum(filled_elements(x) * view_of(x).dtype.bytes for x in put.slots)
    return 0


def _blocks(op: ChannelOp) -> int:
    """Of the cluster that takes items together, if a place has what one of them copies for all."""
    slots = (x for use in op.result.uses for x in use.operation.results)
    users = (use.operation for slot in slots for use in slot.uses)
    return max((makers_of(x) for x in users if isinstance(x, CopyOp)), default=1)


def makers_of(op: CopyOp) -> int:
    """Blocks of a cluster that make a copy together."""
    work = work_around(op) if op.is_multicast else None
    return 1 if work is None else work.blocks


def _readers(op: ChannelOp) -> int:
    """Groups that get a place."""
    found = 0
    for roles in {x.operation.parent_op() for x in op.result.uses}:
        above = roles
        while above is not None and not isinstance(above, RolesOp):
            above = above.parent_op()
        if above is None:
            raise MlcError("tiles to GPU: a channel is used outside of roles")
        for number, body in enumerate(above.bodies):
            if any(isinstance(x, GetOp) and x.channel is op.result for x in body.walk()):
                found = max(found, 1 if takers_of(op) else above.copies(number))
    return max(found, 1)


@dataclass
class Turn:
    """
    Where a role stands in a ring: the next place, the parity of its phase, and the barriers of the
    places that it has not given back, the first ones first; 0 where there is none.
    """

    ring: Ring
    number: Word
    parity: Word
    behind: int  # places that it keeps from trip to trip
    held: list[Word] = field(default_factory=list[Word])
    group: Word = 0
    order: Word | None = None  # the parity of the group's phase before which others pass

    @staticmethod
    def begin(ring: Ring, channel: SSAValue, role: Block, group: Word, words: Words) -> Turn:
        """At the role's start: all places are free, none is full."""
        puts = any(isinstance(x, PutOp) and x.channel is channel for x in role.walk())
        behind = (
            x.behind.value.data
            for x in role.walk()
            if isinstance(x, ReleaseOp) and x.channel is channel and x.behind is not None
        )
        found = Turn(ring, 0, int(puts), max(behind, default=0))
        for x in role.walk():
            if isinstance(x, TurnOp) and x.channel is channel:
                found._take_turns(group, x.places.value.data, words)
        return found

    def _take_turns(self, group: Word, places: int, words: Words) -> None:
        """From the item before a group's first one on, which is nobody's of the first group."""
        self.group = group
        self.order = words.value(words.choose(words.equal(group, 0), 1, 0))
        for number in range(self.ring.takers):
            item = number - (self.ring.takers - 1)
            rounds, rest = divmod(item * places, self.ring.depth)
            mine = words.equal(group, number)
            self.number = words.choose(mine, rest, self.number)
            self.parity = words.choose(mine, rounds & 1, self.parity)

    def carried(self, words: Words) -> list[SSAValue]:
        """What a loop carries."""
        if len(self.held) > self.behind:
            raise MlcError(
                f"tiles to GPU: {len(self.held)} places are kept from trip to trip; expected"
                f" {self.behind}, as the role's releases say"
            )
        held = [0] * (self.behind - len(self.held)) + self.held
        order = [] if self.order is None else [self.order]
        return [words.value(x) for x in (self.number, self.parity, *order, *held)]

    def resume(self, values: Sequence[SSAValue]) -> None:
        """What a loop has carried here."""
        self.number, self.parity, *held = values
        if self.order is not None:
            self.order, *held = held
        self.held = list(held)

    def _next(self, words: Words) -> None:
        last = words.equal(self.number, self.ring.depth - 1)
        turned = words.differ(self.parity, 1)
        self.parity = words.choose(last, turned, self.parity)
        self.number = words.choose(last, 0, words.add(self.number, 1))

    def put(self, words: Words) -> list[Slot]:
        """The next place, once it is free: one thread fills it."""
        full = self.ring.full(self.number, words)
        free = words.value(words.add(full, _FREE))
        words.b.add_op(BarrierWaitOp.of(free, words.value(self.parity)))
        words.b.add_op(BarrierExpectOp.of(words.value(full), self.ring.expected))
        found = self.ring.slots_of(self.number, full, words)
        self._next(words)
        return found

    def get(self, words: Words) -> list[Slot]:
        """The next place, once it is full."""
        full = self.ring.full(self.number, words)
        words.b.add_op(BarrierWaitOp.of(words.value(full), words.value(self.parity)))
        self.held.append(words.add(full, _FREE))
        found = self.ring.slots_of(self.number, full, words)
        self._next(words)
        return found

    def take(self, places: int, words: Words) -> None:
        """Waits for the group of the item before; its places are behind."""
        assert self.order is not None
        before = words.choose(
            words.equal(self.group, 0), self.ring.takers - 1, words.add(self.group, -1)
        )
        words.b.add_op(
            BarrierWaitOp.of(words.value(self.ring.passing(before, words)), words.value(self.order))
        )
        self.order = words.differ(self.order, 1)
        rounds, rest = divmod(places * (self.ring.takers - 1), self.ring.depth)
        self._move(rounds & 1, rest, words)

    def pass_on(self, member: Word, words: Words) -> None:
        """The next group's turn."""
        barrier = words.value(self.ring.passing(self.group, words))
        words.b.add_op(BarrierArriveOp.of(barrier, words.equal(member, 0), None))

    def _move(self, turned: Word, rest: Word, words: Words) -> None:
        """On by fewer places than there are, in a phase that is turned or not."""
        self.parity = words.differ(self.parity, turned)
        if rest == 0:
            return
        number = words.add(self.number, rest)
        inside = words.less(number, self.ring.depth)
        self.parity = words.choose(inside, self.parity, words.differ(self.parity, 1))
        self.number = words.choose(inside, number, words.add(number, -self.ring.depth))

    def release(self, behind: int, member: Word, words: Words) -> None:
        """
        Gives back all but the last places; of a group, by their numbers in it, the first thread
        says so, or one to each block that fills them.
        """
        count = max(len(self.held) - behind, 0)
        given, self.held = self.held[:count], self.held[count:]
        shared = self.ring.blocks > 1
        for barrier in given:
            value = words.value(barrier)
            leads = words.less(member, self.ring.blocks) if shared else words.equal(member, 0)
            if not self._is_there(value):
                leads = words.both_hold(leads, words.differs(value, 0))
            block = words.value(member) if shared else None
            words.b.add_op(BarrierArriveOp.of(value, leads, block))

    def drain(self, words: Words) -> None:
        """Waits until all places are free: a block stays while others of its cluster read them."""
        for _ in range(self.ring.depth):
            free = words.add(self.ring.full(self.number, words), _FREE)
            words.b.add_op(BarrierWaitOp.of(words.value(free), words.value(self.parity)))
            self._next(words)

    @staticmethod
    def _is_there(value: SSAValue) -> bool:
        """Whether it is known to be a barrier: no loop has carried it."""
        return not isinstance(value.owner, Block) and value.owner.name != "scf.for"
