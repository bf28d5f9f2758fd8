"""
Writing at computed positions. The array is copied; the places that the update is written to are
sorted, stable, and whoever holds the first of several that are equal combines them in their order.
So the result has the same bits as one thread's, whatever meets (D1).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.dtypes import BOOL, I32, I64, DType
from mlc.dialects.plan import Schedule
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.monoid import Monoid
from mlc.dialects.tensor.scatter import MODES, ScatterOp
from mlc.dialects.tile.nest_words import Vector
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder, Grid
from mlc.lowering.gpu.cell import PiecePhase, walk, walk_grid
from mlc.lowering.gpu.merge import Order, sorting_phases
from mlc.lowering.gpu.phase import Work, device_builder
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.opaque.scatter import ScatterNest
from mlc.lowering.loops.opaque.sort import as_integer


@dataclass(frozen=True)
class Letters:
    """Which letters of a scatter are walked by whom.

    Two elements of the update meet where their `written` letters lead to one place; along the
    `free` ones nothing meets.
    """

    op: ScatterOp
    written: str  # of the update, in its order: those that index tensors have
    free: str  # the others
    placed: str  # of the array, in its order: digits, and letters of `written`

    @staticmethod
    def of(op: ScatterOp) -> Letters:
        """The letters of a scatter."""
        words, order = split(op.letters.data)
        indexed = "".join(words[1:])
        written = "".join(c for c in order if c in indexed)
        return Letters(
            op,
            written,
            "".join(c for c in order if c not in indexed),
            "".join(c for c in words[0] if c.isdigit() or c in indexed),
        )

    def sizes(self, letters: str) -> list[Dim]:
        """Sizes of axes of the update."""
        _, order = split(self.op.letters.data)
        known = dict(zip(order, shape_of(self.op.update.type), strict=True))
        return [known[c] for c in letters]

    def places(self) -> list[Dim]:
        """Sizes of the `placed` axes."""
        words, _ = split(self.op.letters.data)
        known = dict(zip(words[0], self.op.shape, strict=True))
        return [known[c] for c in self.placed]

    def order(self) -> Order:
        """What is sorted: for every element of the `written` axes its place, and its number."""
        count = product(self.sizes(self.written))
        return Order(Dim.const(1), count, _integer(product(self.places())), _integer(count))


def _integer(size: Dim) -> DType:
    """A dtype for numbers below `size`, which leaves the largest unsigned one free."""
    known = size.constant
    return I32 if known is not None and known < 2**31 else I64


def scatter_work(op: ScatterOp, schedule: Schedule) -> Work:
    """Copy, sort, write."""
    letters = Letters.of(op)
    order = letters.order()
    phases = sorting_phases(order, _Places(letters))
    copy = PiecePhase(op.x, schedule)
    return Work(
        (
            copy,
            *phases,
            MeetPhase(letters, order, schedule.having(Vector(1, schedule.vector_axis))),
        ),
        order.scratch(),
    )


@dataclass(frozen=True)
class _Places:
    """Where elements are written to, as keys: the largest one where an index is out of range."""

    letters: Letters

    def enabled(self, b: LoopBuilder) -> Index:
        """No index is looked at where nothing is written."""
        count: Index = 1
        for size in self.letters.sizes(self.letters.free):
            count = b.min(count, b.dim(size))
        return count

    def key(self, s: KernelScope, row: Index, i: Index) -> SSAValue:
        """The place of the i-th element of the `written` axes, as a number."""
        assert isinstance(s.b, GpuBuilder)
        b, letters, e = s.b, self.letters, s.lanes(1)
        places = b.split(i, [b.dim(d) for d in letters.sizes(letters.written)])
        at = dict(zip(letters.written, map(Position, places), strict=True))
        found, ok = ScatterNest(s).place(e, at)
        key: Index = 0
        for c, size in zip(letters.placed, letters.places(), strict=True):
            key = b.add(b.mul(key, b.dim(size)), found[c].base)
        dtype = letters.order().keys
        return e.select(ok, as_integer(e, key, dtype), e.constant(-1, dtype))


@dataclass(frozen=True)
class MeetPhase:
    """A thread for each sorted element and each place of the free axes."""

    letters: Letters
    order: Order
    schedule: Schedule

    @property
    def threads(self) -> int:
        """The most threads that a block has."""
        return self.schedule.threads

    def sizes(self, b: LoopBuilder) -> list[Index]:
        """Sorted elements, then the free axes."""
        free = self.letters.sizes(self.letters.free)
        return [b.dim(d) for d in (self.order.length, *free)]

    def grid(self, b: LoopBuilder) -> Grid:
        """Neighbouring threads write neighbours."""
        return walk_grid(b, self.sizes(b), self.schedule)

    def write(self, s: KernelScope) -> None:
        """Those that are written to one place, by the thread of the first or of the last."""
        b = device_builder(s)
        mode = MODES[self.letters.op.mode.data]

        def point(_: int, at: list[Position]) -> None:
            m = _Meeting(s, b, self, at)
            neighbour = b.sub(m.slot, 1) if mode is not None else b.add(m.slot, 1)
            chosen = b.both(m.exists(m.slot), m.differs(neighbour))
            b.when(chosen, m.write_last if mode is None else partial(m.combine, mode))

        walk(b, self.sizes(b), Schedule(), point)


class _Meeting:
    """The elements that are written to one place, for one thread."""

    def __init__(
        self, s: KernelScope, b: GpuBuilder, phase: MeetPhase, at: Sequence[Position]
    ) -> None:
        self.s, self.b, self.phase = s, b, phase
        self.letters = phase.letters
        self.free = dict(zip(phase.letters.free, at[1:], strict=True))
        self.half = phase.order.half(b, phase.order.merges(b))
        self.length = b.dim(phase.order.length)
        self.slot = at[0].base
        self.key = self.key_at(self.slot)

    def key_at(self, slot: Index) -> SSAValue:
        """A sorted key."""
        return self.b.load(self.s.scratch[0], [self.b.add(self.half, slot)])

    def exists(self, slot: Index) -> SSAValue:
        """Whether the key is a place."""
        e, dtype = self.s.lanes(1), self.phase.order.keys
        return e.compare("ne", self.key_at(slot), e.constant(-1, dtype), dtype)

    def differs(self, slot: Index) -> SSAValue:
        """Whether there is no such slot, or another place in it."""
        b, e = self.b, self.s.lanes(1)
        inside = b.both(b.compare("ge", slot, 0), b.compare("lt", slot, self.length))
        near = b.max(b.min(slot, b.sub(self.length, 1)), 0)
        other = e.compare("ne", self.key_at(near), self.key, self.phase.order.keys)
        if isinstance(inside, bool):
            return other if inside else e.constant(True, BOOL)
        return e.apply(arith.OrIOp, b.negated(inside), other)

    def target(self) -> tuple[Position, ...]:
        """Where the elements are written to."""
        b, letters = self.b, self.letters
        key = self.index(self.key)
        places = b.split(key, [b.dim(d) for d in letters.places()])
        known = {**self.free, **dict(zip(letters.placed, map(Position, places), strict=True))}
        words, _ = split(letters.op.letters.data)
        return tuple(known[c] for c in words[0])

    def value(self, slot: Index) -> SSAValue:
        """The element of the update that was sorted into a slot."""
        b, letters = self.b, self.letters
        number = self.index(b.load(self.s.scratch[1], [b.add(self.half, slot)]))
        places = b.split(number, [b.dim(d) for d in letters.sizes(letters.written)])
        known = {**self.free, **dict(zip(letters.written, map(Position, places), strict=True))}
        _, order = split(letters.op.letters.data)
        return self.s.lanes(1).fetch(letters.op.update, tuple(known[c] for c in order))

    def index(self, value: SSAValue) -> Index:
        """A key or a number as an index."""
        return self.b.value(arith.IndexCastOp.create(operands=[value], result_types=[INDEX]))

    def write_last(self) -> None:
        """The last one stays."""
        self.s.lanes(1).store(self.value(self.slot), self.s.outputs[0], self.target())

    def combine(self, monoid: Monoid) -> None:
        """What is there, then all in their order."""
        b, output, target = self.b, self.s.outputs[0], self.target()
        dtype = self.letters.op.dtype
        start = self.s.lanes(1).load(output, target)
        kinds = [INDEX, start.type]
        before, after = Block(arg_types=kinds), Block(arg_types=kinds)
        with b.inside(before):
            slot, _ = before.args
            goes = b.negated(self.differs(slot))
            b.add_op(scf.ConditionOp.create(operands=[goes, *before.args]))
        with b.inside(after):
            slot, so_far = after.args
            e = self.s.lanes(1)
            (total,) = monoid.combine(e, dtype, (so_far,), (self.value(slot),))
            b.add_op(scf.YieldOp.create(operands=[b.index(b.add(slot, 1)), total]))
        loop = scf.WhileOp.create(
            operands=[b.index(self.slot), start],
            result_types=kinds,
            regions=[Region(before), Region(after)],
        )
        b.add_op(loop)
        self.s.lanes(1).store(loop.results[1], output, target)
