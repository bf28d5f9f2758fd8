"""
Whether the trips of a loop may run in any order, or at once: what each reads and writes of the
arrays that it carries, and which of its numbers are sums (or products, …) over the trips.

Places are polynomials of sizes and trip numbers (`ranges.py`). Two accesses of an array meet in one
trip only if on some axis both are c i + f + [0, c) for the number i of the trip, with c and f the
same in all trips; and nowhere, if on some axis one lies behind the other.

Trips may also be run *op by op*: each op of the body for all trips, before the next one. Then two
accesses may meet, if they do so in the order in which the trips come: `y[i] = y[i + 1]` reads what
a later trip writes.

SOURCE: Allen, Kennedy, "Automatic Translation of FORTRAN Programs to Vector Form", TOPLAS 9(4),
1987.
"""

from __future__ import annotations

from dataclasses import field

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.added import Added, added_by
from mlc.dialects.analysis.ranges import Ranges, linear_in
from mlc.dialects.dims import Dim, Shape, shape_of
from mlc.dialects.tensor.comparison import CompareOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.control import (
    CHECKED,
    ControlOp,
    ForOp,
    IfOp,
    YieldOp,
    is_inside,
    loops_around,
    peeled_from,
    yield_of,
)
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import SliceOp
from mlc.dialects.tensor.within import WithinOp
from mlc.lazy_dataclass import dataclass

ZERO, ONE = Dim.const(0), Dim.const(1)
MOST_CONFLICTS = 8  # that are looked for


@dataclass(frozen=True)
class Access:
    """What an op does with an array that a loop carries: [start, start + extent) on each axis."""

    op: Operation
    starts: tuple[Dim, ...]
    extents: tuple[Dim, ...]
    writes: bool = False


@dataclass(frozen=True)
class Conflict:
    """
    Why trips are not independent. `second` reads or writes what `first` writes, or may; `trips`:
    two that do so; without a `second`, `first` hands something on from trip to trip. `accesses`:
    of both.
    """

    first: Operation
    second: Operation | None = None
    trips: tuple[int, int] | None = None
    accesses: tuple[Access, Access] | None = None


@dataclass
class Trips:
    """What the trips of a loop have to do with one another."""

    folds: dict[int, type[TensorOp]] = field(default_factory=dict[int, type[TensorOp]])
    """Carried values that are sums and the like over the trips, by place."""
    last: set[int] = field(default_factory=set[int])
    """Those that are what the last trip makes of itself alone."""
    arrays: dict[int, set[SSAValue]] = field(default_factory=dict[int, set[SSAValue]])
    """The values that an array takes in a trip that writes parts of it."""
    added: dict[int, Added] = field(default_factory=dict[int, Added])
    """Of arrays that are run op by op, what trips that meet add up."""
    conflicts: list[Conflict] = field(default_factory=list[Conflict])

    @property
    def conflict(self) -> Conflict | None:
        """The first one."""
        return next(iter(self.conflicts), None)


def trips_together(loop: ForOp, ranges: Ranges | None = None, *, op_by_op: bool = False) -> Trips:
    """
    Whether trips are independent but for folds: those that stand before the loop too. `op_by_op`:
    or may be run so.
    """
    if ranges is None:
        ranges, top = Ranges(), loop
        if peeled := peeled_from(loop):
            number, last = loop.body.block.args[0], ranges.of(loop.count) - 1
            ranges.let(number, Dim.const(-peeled), last)
        while (around := top.parent_op()) is not None and not isinstance(around, ModuleOp):
            top = around
        ranges.bind_all(top)
    return _Analysis(loop, ranges, op_by_op=op_by_op).run()


def number_name(loop: ForOp, ranges: Ranges) -> str:
    """The symbol that the number of a trip is; "" where it is none."""
    return next(iter(ranges.of(loop.body.block.args[0]).symbols()), "")


class _Analysis:
    def __init__(self, loop: ForOp, ranges: Ranges, *, op_by_op: bool) -> None:
        self.loop, self.ranges = loop, ranges
        self.order = {op: k for k, op in enumerate(loop.body.walk())} if op_by_op else None
        self.found = Trips()
        self.fixed: set[str] = set()  # symbols that are the same in all trips
        for op in loop.body.walk():
            for x in op.operands:
                if not is_inside(x, loop) and not shape_of(x.type):
                    self.fixed |= ranges.of(x).symbols()
        self.peeled = peeled_from(loop)
        self.count = ranges.of(loop.count) + self.peeled
        self.name = number_name(loop, ranges)
        first, last = Dim.const(-self.peeled), ranges.of(loop.count) - 1
        self.elsewhere = ranges.unknown(first, last)  # the number of another trip

    def run(self) -> Trips:
        loop = self.loop
        values = yield_of(loop.body.block).values
        for k, (argument, value) in enumerate(zip(loop.carried, values, strict=True)):
            if value is argument or len(self.found.conflicts) == MOST_CONFLICTS:
                continue
            if argument.first_use is None:
                self.found.last.add(k)
                continue
            versions = _Versions(argument)
            problem = versions.follow(loop.body.block, value)
            if problem is None:
                self.found.arrays[k] = versions.values
                self._array(k, versions)
            elif (fold := _Fold().of(argument, loop.body.block, k)) is not None:
                self.found.folds[k] = fold
            else:
                self.found.conflicts.append(Conflict(problem))
        return self.found

    def _array(self, k: int, versions: _Versions) -> None:
        found = self._conflicts(versions)
        added = added_by(versions.ops, versions.start) if self.order is not None else None
        if found and added is not None and added.write.parent is self.loop.body.block:
            self.found.added[k] = added
        else:
            self.found.conflicts += found[: MOST_CONFLICTS - len(self.found.conflicts)]

    def _conflicts(self, versions: _Versions) -> list[Conflict]:
        found: list[Conflict] = []
        accesses = [self._access(op, versions) for op in versions.ops]
        for write in accesses:
            if not write.writes:
                continue
            for other in accesses:
                if (conflict := self._meet(write, other)) is not None:
                    found.append(conflict)
                if len(found) == MOST_CONFLICTS:
                    return found
        return found

    def _access(self, op: TensorOp, versions: _Versions) -> Access:
        match op:
            case DynamicSliceOp():
                shape = shape_of(op.result.type)
                return Access(op, self._places(op, shape), shape)
            case DynamicUpdateOp() if op.result in versions.values:
                shape = shape_of(op.update.type)
                return Access(op, self._places(op, shape), shape, writes=True)
            case SliceOp() if all(step == ONE for step in op.steps.data):
                return Access(op, op.offsets.data, shape_of(op.result.type))
            case _:
                shape = shape_of(versions.start.type)
                return Access(op, (ZERO,) * len(shape), shape)

    def _places(self, op: DynamicSliceOp | DynamicUpdateOp, part: Shape) -> tuple[Dim, ...]:
        """
        Where a part begins on each axis: where the offset says, if it is checked (else the call
        fails) and does not count from the end, or known to fit; else anywhere.
        """
        found: list[Dim] = []
        for offset, size, extent in zip(op.offsets, shape_of(op.x.type), part, strict=True):
            owner = offset.owner
            if isinstance(owner, WithinOp) and self.ranges.is_natural(self.ranges.of(owner.x)):
                found.append(self.ranges.of(owner.x))
            elif op.fits is not None or self.ranges.is_inside(offset, size - extent + 1):
                found.append(self.ranges.of(offset))
            else:
                found.append(self.ranges.unknown(ZERO, size - extent))
        return tuple(found)

    def _meet(self, write: Access, other: Access) -> Conflict | None:
        """How an access meets a write of another trip; None where it cannot."""
        if self.ranges.is_natural(ONE - self.count):
            return None  # there is no other trip
        for k, (a, b) in enumerate(zip(write.starts, other.starts, strict=True)):
            if self._apart_in_trips(a, write.extents[k], b, other.extents[k]):
                return None
            if self._behind(a, write.extents[k], b) or self._behind(b, other.extents[k], a):
                return None
            if self._in_order(write, other, k):
                return None
        trips = self._example(write, other)
        parts = all(isinstance(x.op, DynamicSliceOp | DynamicUpdateOp) for x in (write, other))
        if CHECKED in self.loop.attributes and trips is None and parts:
            return None  # the call has seen that they do not
        return Conflict(write.op, other.op, trips, (write, other))

    def _in_order(self, write: Access, other: Access, axis: int) -> bool:
        """
        Whether trips that are run op by op meet on an axis as they do one after another: of two
        that come to one element, the earlier one does so by the op that stands first.
        """
        ops = (write.op, other.op)
        if self.order is None or any(any(loops_around(op, self.loop)) for op in ops):
            return False
        if write.extents[axis] != ONE or other.extents[axis] != ONE:
            return False
        name = self.name
        (factor, f), (same, g) = (linear_in(x.starts[axis], name) for x in (write, other))
        if not name or factor != same or not factor.constant or not self._is_fixed(g - f):
            return False
        later = g - f if factor.constant > 0 else f - g  # the trip of the write minus the other's
        first, second = (self.order[op] for op in ops)
        return self.ranges.is_natural(later if second < first else -later)

    def _apart_in_trips(self, a: Dim, size_a: Dim, b: Dim, size_b: Dim) -> bool:
        """Whether two parts of an axis lie in one stretch of it for each trip."""
        name = self.name
        factor, f = linear_in(a, name)
        other, g = linear_in(b, name)
        if not name or factor != other or not self._is_fixed(factor):
            return False
        if self.ranges.is_natural(-factor - 1):  # downwards: the same from the other end
            factor, f, g = -factor, -f - size_a, -g - size_b
        if size_a == size_b == ONE and self._never_same(factor, f - g):
            return True
        ends = ((f, size_a), (g, size_b))
        natural = self.ranges.is_natural
        lows = dict.fromkeys((f, g, ZERO, self.ranges.least(f), self.ranges.least(g)))
        return natural(factor - 1) and any(
            all(natural(x - low) and natural(low + factor - x - size) for x, size in ends)
            for low in lows
            if low is not None and self._is_fixed(low)
        )

    def _never_same(self, factor: Dim, distance: Dim) -> bool:
        """Whether places factor i + distance and factor j are the same for no trips i and j."""
        step, apart, count = factor.constant, distance.constant, self.count.constant
        if not step or not apart:
            return False
        return apart % step != 0 or (count is not None and abs(apart // step) >= count)

    def _is_fixed(self, dim: Dim) -> bool:
        return all(map(self._is_same, dim.symbols()))

    def _is_same(self, name: str) -> bool:
        return name in self.fixed or self.ranges.is_size(name)

    def _behind(self, a: Dim, size: Dim, b: Dim) -> bool:
        """Whether one part lies behind the other, whatever the trips of both."""
        if self._is_fixed(a) or self._is_fixed(b):
            return self.ranges.is_natural(b - a - size)
        for one, other in ((a, b), (b, a)):  # the number of one trip is not that of the other
            name = self.name
            factor, rest = linear_in(one, name)
            if name and self._is_fixed(factor) and self._is_fixed(rest):
                moved = factor * self.elsewhere + rest
                first, second = (moved, other) if one is a else (other, moved)
                return self.ranges.is_natural(second - first - size)
        return False

    def _example(self, write: Access, other: Access) -> tuple[int, int] | None:
        """
        Two trips that meet, where constants say so and every trip comes to both: i and i + 1 are
        tried first.
        """
        if not (self._in_every_trip(write.op) and self._in_every_trip(other.op)):
            return None
        name = self.name
        moving = {s for x in (*write.starts, *other.starts) for s in x.symbols()}
        if not all(s == name or self._is_same(s) for s in moving):
            return None
        count = self.count.constant
        for distance in (1, 2, 3, 4, -1, -2, -3, -4):
            found = count is None or abs(distance) < count
            trips = (0, distance) if distance > 0 else (-distance, 0)
            for a, b in zip(write.starts, other.starts, strict=True):
                factor, f = linear_in(a, name)
                other_factor, g = linear_in(b, name)
                first, second = (x - self.peeled for x in trips)
                difference = f + factor * first - g - other_factor * second
                found = found and difference == ZERO
            if found:
                return trips
        return None

    def _in_every_trip(self, op: Operation) -> bool:
        """Whether no branch, nor a loop inside that may have no trip, stands around an op."""
        around = op.parent_op()
        while around is not None and around is not self.loop:
            if not isinstance(around, ForOp):
                return False
            if not self.ranges.is_natural(self.ranges.of(around.count) - 1):
                return False
            around = around.parent_op()
        return True


@dataclass
class _Versions:
    """The values that an array takes in a trip, and the ops that read and write parts of it."""

    start: SSAValue
    values: set[SSAValue] = field(default_factory=set[SSAValue])
    ops: list[TensorOp] = field(default_factory=list[TensorOp])

    def follow(self, block: Block, end: SSAValue) -> Operation | None:
        """An op that does something else with it than writing parts of the one array."""
        self.values.add(self.start)
        problem = self._block(block)
        if problem is None and end not in self.values:
            owner = end.owner
            problem = owner if isinstance(owner, Operation) else self.start.owner.parent_op()
        return problem

    def _block(self, block: Block) -> Operation | None:
        for op in block.ops:
            if not any(x in self.values for x in op.operands) and not op.regions:
                continue
            problem = self._op(op)
            if problem is not None:
                return problem
        return None

    def _op(self, op: Operation) -> Operation | None:
        match op:
            case DynamicUpdateOp() if op.update not in self.values:
                self.values.add(op.result)
                self.ops.append(op)
            case ControlOp():
                return self._control(op)
            case TensorOp():
                self.ops.append(op)
            case _:
                return None if isinstance(op, YieldOp) else op
        return None

    def _control(self, op: ControlOp) -> Operation | None:
        first = len(op.operands) - len(op.starts)
        if any(x in self.values for x in op.operands[:first]):
            return op
        entered = [k for k, x in enumerate(op.starts) if x in self.values]
        if len(entered) > 1:
            return op
        for block in op.blocks:
            arguments = op.carried_in(block)
            self.values.update(arguments[k] for k in entered)
            problem = self._block(block)
            if problem is not None:
                return problem
        given = [yield_of(block).values for block in op.yielding()]
        for k, result in enumerate(op.results):
            kinds = {values[k] in self.values for values in given}
            wanted = k in entered or (isinstance(op, IfOp) and True in kinds)
            if kinds != {wanted}:
                return op
            if wanted:
                self.values.add(result)
        return None


class _Fold:
    """What makes the end of a carried value of its beginning, trip by trip."""

    def __init__(self) -> None:
        self.kinds: set[type[TensorOp]] = set()
        self.values: list[SSAValue] = []
        self.uses: set[tuple[Operation, int]] = set()  # of the values, by what adds up
        self.made: set[SSAValue] = set()  # of the carried value

    def of(self, start: SSAValue, block: Block, k: int) -> type[TensorOp] | None:
        """The op that adds up, if nothing else reads what it has so far."""
        self.made = _made_of(start, block)
        if not self._chain(start, block, k) or len(self.kinds) != 1:
            return None
        used = {(use.operation, use.index) for x in self.values for use in x.uses}
        return next(iter(self.kinds)) if used <= self.uses else None

    def _chain(self, start: SSAValue, block: Block, k: int) -> bool:
        """Whether the k-th value that a block yields is `start` and what is added to it."""
        self.values.append(start)
        last = yield_of(block)
        return self._adds(start, last.values[k], last, k)

    def _adds(self, start: SSAValue, value: SSAValue, user: Operation, index: int) -> bool:
        self.uses.add((user, index))
        if value is start:
            return True
        self.values.append(value)
        match value.owner:
            case SelectOp() as op if (kind := _extreme(op)) is not None:
                self.kinds.add(kind)
                n = 1 if op.operands[1] in self.made else 2
                self.uses.update((op.condition.owner, k) for k in range(2))  # pyright: ignore[reportArgumentType]
                return self._adds(start, op.operands[n], op, n)
            case SelectOp() as op:
                return all(self._adds(start, op.operands[n], op, n) for n in (1, 2))
            case SubOp() as op:
                self.kinds.add(AddOp)
                return self._adds(start, op.operands[0], op, 0)
            case AddOp() | MulOp() | MinOp() | MaxOp() as op:
                self.kinds.add(type(op))
                n = 0 if op.operands[0] in self.made else 1
                return self._adds(start, op.operands[n], op, n)
            case IfOp() as op:
                n = op.results.index(value)
                ends = [yield_of(block) for block in op.blocks]
                return all(self._adds(start, end.values[n], end, n) for end in ends)
            case ForOp() as op:
                n = op.results.index(value)
                inner = self._chain(op.carried[n], op.body.block, n)
                return inner and self._adds(start, op.inits[n], op, n + 1)
            case _:
                return False


def _extreme(op: SelectOp) -> type[TensorOp] | None:
    """MinOp or MaxOp where one of two numbers is chosen by comparing them, as Python does it."""
    test = op.condition.owner
    if not isinstance(test, CompareOp) or (test.lhs, test.rhs) != (op.if_true, op.if_false):
        return None
    return {"lt": MinOp, "gt": MaxOp}.get(test.predicate.data)


def _made_of(start: SSAValue, block: Block) -> set[SSAValue]:
    """The values of a block, and of those in it, that may depend on one."""
    found = {start}
    for op in block.walk():
        if any(x in found for x in op.operands):
            found.update(op.results)
            for inner in op.regions:
                found.update(x for b in inner.blocks for x in b.args)
            around = op.parent_op()
            if op is not block.last_op and isinstance(op, YieldOp) and around is not None:
                found.update(around.results)
    return found
