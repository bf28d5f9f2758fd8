"""A part of a block that repeats itself: what each trip reads, and the loop that computes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.tensor.control import ForOp, YieldOp, loop_region
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp, bytes_of, element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp
from mlc.dialects.tensor.shape import BroadcastOp, SliceOp, broadcast_to
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.derivative.emit import Emitter
from mlc.passes.tensor.periods import Run

MOST_BACK = 2
"""Trips behind the last one whose values something after the loop may read."""

Source = int | Literal["same", "number"]
"""
Of an operand: how many ops before its reader it is made, or what all trips read, or a number of
each trip's own.
"""


@dataclass(frozen=True, kw_only=True)
class Repeated:
    """ops[start : start + trips * period], in which every trip reads what `reads` says."""

    ops: Sequence[Operation]
    start: int
    period: int
    trips: int
    reads: Sequence[tuple[Source, ...]]  # of each op of a trip
    steps: Sequence[tuple[int, ...]]  # by which the offsets of its slices grow
    before: Mapping[tuple[int, int], SSAValue] = field(
        default_factory=dict[tuple[int, int], SSAValue]
    )
    """(op, n): what it has made n trips before the first one."""

    def op(self, trip: int, at: int) -> Operation:
        """An op of a trip."""
        return self.ops[self.start + trip * self.period + at]

    def made(self, at: int, distance: int) -> tuple[int, int]:
        """The op that stands so far before another one, and how many trips before it."""
        back, op = divmod(at - distance, self.period)
        return op, -back

    @property
    def is_elementwise(self) -> bool:
        """Whether what a trip makes of those before it is elementwise."""
        changing: set[int] = set()
        for at, sources in enumerate(self.reads):
            made = [self.made(at, s) for s in sources if isinstance(s, int)]
            if any(back or op in changing for op, back in made):
                changing.add(at)
                op = self.op(0, at)
                of_one = isinstance(op, BroadcastOp) and not shape_of(op.operands[0].type)
                if not isinstance(op, Elementwise) and not of_one:
                    return False
        return True


def repeated(ops: Sequence[Operation], run: Run) -> Repeated | None:
    """
    The whole trips of a run whose operands repeat, too, cut where least is carried from one to the
    next. None where there is none, or where its values are read that no loop keeps.
    """
    start, reads, steps = _Operands(ops, run).agree()
    period = run.period
    if run.end - start < period:
        return None
    costs = _carried_bytes(ops, run, reads)
    first = min(range(start, start + period), key=lambda at: (costs[at % period], at))
    for at in (first, first + period):  # without the first trip where its operands are special
        trips = (run.end - at) // period
        if trips < 1:
            return None
        turned = [(at + k) % period for k in range(period)]
        found = Repeated(
            ops=ops,
            start=at,
            period=period,
            trips=trips,
            reads=[reads[k] for k in turned],
            steps=[steps[k] for k in turned],
        )
        before = _before(found)
        if before is not None:
            return replace(found, before=before) if _left(found) is not None else None
    return None


class _Operands:
    """From which op on the trips of a run read alike, and what."""

    def __init__(self, ops: Sequence[Operation], run: Run) -> None:
        self.ops, self.run = ops, run
        self.at = {op: k for k, op in enumerate(ops)}
        self.start = run.start

    def agree(self) -> tuple[int, list[tuple[Source, ...]], list[tuple[int, ...]]]:
        """The first op, and by its index modulo the period what an op reads, and its steps."""
        period, end = self.run.period, self.run.end
        reads: list[tuple[Source, ...]] = [()] * period
        steps: list[tuple[int, ...]] = [()] * period
        for k in range(end - 1, end - 1 - period, -1):
            later, earlier = self.ops[k], self.ops[k - period]
            pairs = zip(later.operands, earlier.operands, strict=True)
            reads[k % period] = tuple(self._source(k, x, y) for x, y in pairs)
            steps[k % period] = _steps(later, earlier)
        k = end - 1
        while k - period >= self.start:
            self._compare(k, reads[k % period], steps[k % period])
            k -= 1
        return self.start, reads, steps

    def _source(self, k: int, later: SSAValue, earlier: SSAValue) -> Source:
        if later is earlier:
            return "same"
        if isinstance(later.owner, ConstantOp):
            return "number"
        made = self.at.get(later.owner) if isinstance(later.owner, Operation) else None
        return "same" if made is None else k - made

    def _compare(self, k: int, sources: Sequence[Source], steps: tuple[int, ...]) -> None:
        """Begins later where op `k` and the one a period before differ in what they read."""
        period = self.run.period
        later, earlier = self.ops[k], self.ops[k - period]
        if _steps(later, earlier) != steps or (steps and not _is_dense(later)):
            self.start = max(self.start, k - period + 1)
        for source, x, y in zip(sources, later.operands, earlier.operands, strict=True):
            made = self.at.get(x.owner, -1) if isinstance(x.owner, Operation) else -1
            if source == "same":
                agrees = x is y
                self.start = max(self.start, made + 1)
            elif source == "number":
                agrees = _is_number(x) and _is_number(y)
            elif made != k - source:
                agrees = False
            else:
                before = self.at.get(y.owner, -1) if isinstance(y.owner, Operation) else -1
                agrees = True
                if before != made - period:  # so `y` is made before the first trip
                    self.start = max(self.start, made - period + 1)
            if not agrees:
                self.start = max(self.start, k - period + 1)


def _is_number(x: SSAValue) -> bool:
    return isinstance(x.owner, ConstantOp) and splat(x) is not None


def _is_dense(op: Operation) -> bool:
    return isinstance(op, SliceOp) and all(step == 1 for _, step in op.starts())


def _steps(later: Operation, earlier: Operation) -> tuple[int, ...]:
    """By how much the offsets of two slices differ; nothing where they are equal."""
    if not isinstance(later, SliceOp) or not isinstance(earlier, SliceOp):
        return ()
    pairs = list(zip(later.offsets.data, earlier.offsets.data, strict=True))
    if all(x == y for x, y in pairs):
        return ()
    return tuple((x - y).evaluate({}) for x, y in pairs)


def _carried_bytes(
    ops: Sequence[Operation], run: Run, reads: Sequence[tuple[Source, ...]]
) -> list[int]:
    """By index modulo the period: the bytes that ops from there on read of those before."""
    period = run.period
    farthest = [0] * period
    for k in range(run.end - period, run.end):
        for source in reads[k % period]:
            if isinstance(source, int):
                maker = (k - source) % period
                farthest[maker] = max(farthest[maker], source)
    costs = [0] * period
    for k in range(run.end - period, run.end):
        size = bytes_of(ops[k].results[0].type).constant or 1
        for distance in range(1, farthest[k % period] + 1):
            costs[(k + distance) % period] += size
    return costs


def _before(found: Repeated) -> dict[tuple[int, int], SSAValue] | None:
    """What the first trips read of those before them; None where two values claim one place."""
    values: dict[tuple[int, int], SSAValue] = {}
    for at, sources in enumerate(found.reads):
        for k, source in enumerate(sources):
            if not isinstance(source, int):
                continue
            maker, back = found.made(at, source)
            for trip in range(min(back, found.trips)):
                x = found.op(trip, at).operands[k]
                if values.setdefault((maker, back - trip), x) is not x:
                    return None
    return values


def _left(found: Repeated) -> dict[Operation, tuple[int, int]] | None:
    """
    The ops whose values are read behind the loop: which of a trip, and of how many trips before its
    end. None if there are too many trips of which something is read.
    """
    span = found.trips * found.period
    inside = set(found.ops[found.start : found.start + span])
    left: dict[Operation, tuple[int, int]] = {}
    for k in range(span):
        op = found.ops[found.start + k]
        if any(use.operation not in inside for use in op.results[0].uses):
            trip, at = divmod(k, found.period)
            left[op] = at, found.trips - trip
            if found.trips - trip > MOST_BACK:
                return None
    return left


# The loop


def rolled(found: Repeated) -> ForOp:
    """Puts a loop where the trips stand."""
    first = found.op(0, 0)
    block = first.parent
    assert block is not None
    span = found.ops[found.start : found.start + found.trips * found.period]
    _move_out(span)
    left = _left(found)
    assert left is not None
    carried = _carried(found, left.values())
    outside = Emitter(block, first.location, before=first)
    kinds = [found.op(0, at).results[0].type for at, _ in carried]
    starts = [found.before.get(key) for key in carried]
    inits = [outside.zeros(t) if x is None else x for x, t in zip(starts, kinds, strict=True)]
    region = loop_region(kinds)
    arguments = dict(zip(carried, region.block.args[1:], strict=True))
    made = _Body(found, outside, Emitter(region.block), arguments).run()
    following = [made[at] if back == 1 else arguments[at, back - 1] for at, back in carried]
    region.block.add_op(YieldOp.create(operands=following))
    loop = ForOp(outside.integer(found.trips), inits, region)
    loop.location = first.location
    block.insert_op_before(loop, first)
    outs = dict(zip(carried, loop.outs, strict=True))
    for op, key in left.items():
        op.results[0].replace_all_uses_with(outs[key])
    for op in reversed(span):
        block.erase_op(op, safe_erase=False)
    return loop


def _move_out(span: Sequence[Operation]) -> None:
    """What stands between the trips, and belongs to none, goes before them."""
    inside, op = set(span), span[0]
    while op is not span[-1]:
        following = op.next_op
        assert following is not None
        if op not in inside:
            block = op.parent
            assert block is not None
            op.detach()
            block.insert_op_before(op, span[0])
        op = following


def _carried(found: Repeated, left: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(op, n): the value that it has made n trips before, for all that is read so."""
    wanted = set(left)
    for at, sources in enumerate(found.reads):
        wanted |= {found.made(at, s) for s in sources if isinstance(s, int)}
    return sorted({(at, n) for at, back in wanted for n in range(1, back + 1)})


class _Body:
    """Writes one trip."""

    def __init__(
        self,
        found: Repeated,
        outside: Emitter,
        inside: Emitter,
        arguments: Mapping[tuple[int, int], SSAValue],
    ) -> None:
        self.found, self.outside, self.inside = found, outside, inside
        self.arguments = arguments
        self.index = inside.block.args[0]
        self.index.name_hint = "i"
        self.made: list[SSAValue] = []
        self.places: dict[tuple[int, int], SSAValue] = {}

    def run(self) -> list[SSAValue]:
        """What each op of the trip makes."""
        for at, (sources, steps) in enumerate(zip(self.found.reads, self.found.steps, strict=True)):
            op = self.found.op(0, at)
            assert isinstance(op, TensorOp)
            self.inside.at(op)
            operands = [self._operand(at, k, source) for k, source in enumerate(sources)]
            if steps:
                assert isinstance(op, SliceOp)
                self.made.append(self._slice(op, operands[0], steps))
            else:
                new = op.on(operands)
                self.inside.block.add_op(new)
                self.made.append(new.results[0])
        return self.made

    def _operand(self, at: int, k: int, source: Source) -> SSAValue:
        if source == "same":
            return self.found.op(self.found.trips - 1, at).operands[k]
        if source == "number":
            return self._number(at, k)
        maker, back = self.found.made(at, source)
        return self.arguments[maker, back] if back else self.made[maker]

    def _number(self, at: int, k: int) -> SSAValue:
        """A trip's own number, from a table of all."""
        given = [self.found.op(trip, at).operands[k] for trip in range(self.found.trips)]
        table = np.asarray([splat(x) for x in given])
        kind = given[0].type
        dtype = element_dtype(given[0])
        all_of_them = self.outside(ConstantOp, value=dense(table, dtype))
        return broadcast_to(self.inside, self.inside.read(all_of_them, self.index), shape_of(kind))

    def _slice(self, op: SliceOp, x: SSAValue, steps: tuple[int, ...]) -> SSAValue:
        offsets = zip(op.offsets.data, steps, strict=True)
        places = [self._place(offset.evaluate({}), step) for offset, step in offsets]
        kind = tensor_type(op.dtype.ir, op.shape)
        value = self.inside(DynamicSliceOp, x, *places, declared=kind)
        value.name_hint = op.result.name_hint
        return value

    def _place(self, first: int, step: int) -> SSAValue:
        """first + trip * step"""
        found = self.places.get((first, step))
        if found is None:
            b, found = self.inside, self.index
            if step == 0:
                found = self.outside.integer(first)
            elif step != 1:
                found = b.multiply(found, self.outside.integer(step))
            if first and step:
                found = b.add(found, self.outside.integer(first))
            self.places[first, step] = found
        return found
