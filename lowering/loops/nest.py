"""
A nest: loops and branches over numbers in registers, and elements of arrays read and written in
turn. One worker runs it, or each has a share of the trips of its loop where these are independent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.ir import Block, BlockArgument, Region, SSAValue

from mlc.dialects import par
from mlc.dialects.analysis.loop_tests import following_test, most_trips
from mlc.dialects.analysis.nests import HELD, Place, is_number, loop_of, ops_in, places_of
from mlc.dialects.analysis.trips import trips_of
from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import U64
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, YieldOp, yield_of
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.within import WithinOp
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.buffer import ORIGIN, Buffer, Position
from mlc.lowering.loops.deferred import deferred
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.kernel import KernelScope, write_piece
from mlc.lowering.loops.nest_arrays import NestArrays
from mlc.lowering.loops.update import first_element, moved

POLL_TRIPS = 1 << 16
"""Trips between two looks at whether the call must stop: they take less than a millisecond."""

Values = Sequence[SSAValue]
Trip = Callable[..., Values]


def lower_nest(s: KernelScope) -> None:
    """What the arrays start from, the loop, and the numbers that are left at its end."""
    loop = loop_of(s.kernel.block)
    assert loop is not None
    nest = _Nest(s, places_of(s.kernel.block))
    nest.begin(loop)
    if s.workers == 1:
        nest.control(loop)
        nest.end(loop)
    else:
        assert isinstance(loop, ForOp)
        s.barrier()  # where arrays start from, others may have written
        nest.deal(loop)
        s.alone(lambda: nest.end(loop))


class _Nest:
    """The values of one nest: numbers are SSA values, arrays lie in buffers."""

    def __init__(self, s: KernelScope, places: dict[SSAValue, Place]) -> None:
        self.s, self.b = s, s.b
        self.b.unchanging = frozenset()  # what nobody writes is LLVM's to move: it may not be there
        self.numbers: dict[SSAValue, SSAValue] = {}
        self.places = places
        self.buffers: dict[SSAValue, Buffer] = {}
        for value, place in places.items():
            if isinstance(place, int):
                self.buffers[value] = s.outputs[place]
            elif isinstance(place, BlockArgument):
                self.buffers[value] = s.inputs[place]
        held = (x for x in ops_in(s.kernel.block) if HELD in x.attributes)
        self.scratch = dict(zip(held, s.scratch, strict=True))
        self.arrays = NestArrays.of(s, self.buffers, self.numbers)
        self.left: Index = POLL_TRIPS  # trips until the next look
        self.never = self.b.constant(IntegerAttr(0, i1), i1)

    def lanes(self) -> Lanes:
        """A builder of single elements, which knows nothing of what was read before."""
        return self.arrays.lanes(1)

    def begin(self, loop: ControlOp) -> None:
        """Numbers among the inputs, what is computed before the loop, and where arrays start."""
        block = self.s.kernel.block
        for argument in block.args:
            if is_number(argument):
                at = (ORIGIN,) * len(shape_of(argument.type))
                self.numbers[argument] = self.lanes().load(self.s.inputs[argument], at)
        for op in block.ops:
            if isinstance(op, TensorOp) and is_number(op.results[0]):
                self._number(op)
        for k, start in enumerate(loop.starts):
            if not is_number(start):
                self._start(k, start)

    def _start(self, k: int, start: SSAValue) -> None:
        """Writes what the k-th result starts from, unless it lies there already."""
        s, shared = self.s, self.s.kernel.shared_inputs[k]
        apart: SSAValue | bool = True
        if shared >= 0 and s.kernel.block.args[shared] is start:
            apart = self.b.lie_apart(s.inputs[start].memref, s.outputs[k].memref)
        self.b.when(apart, lambda: write_piece(s, start, s.outputs[k]))

    def end(self, loop: ControlOp) -> None:
        """Numbers among the results."""
        for result, buffer in zip(loop.results, self.s.outputs, strict=True):
            if is_number(result):
                at = (ORIGIN,) * len(shape_of(result.type))
                self.lanes().store(self.numbers[result], buffer, at)

    # ops --------------------------------------------------------------------------------------

    def block(self, block: Block) -> list[SSAValue]:
        """Lowers a block's ops in order: the numbers that it ends with."""
        later = deferred(block)
        left_out = {op for ops in later.values() for op in ops}
        for op in block.ops:
            if op in left_out:
                continue
            if isinstance(op, SelectOp) and op in later:
                self._choose(op, later[op])
            elif isinstance(op, BindOp):
                self.b.symbols[op.symbol.data] = self._index(op.x)
            elif isinstance(op, ControlOp):
                self.control(op)
            elif isinstance(op, DynamicUpdateOp) and not is_number(op.result):
                self._store(op)
            elif op in self.scratch:
                assert isinstance(op, TensorOp)
                self._hold(op)
            elif isinstance(op, TensorOp):
                self._number(op)
            else:
                assert isinstance(op, YieldOp)
        return self._of(yield_of(block).values)

    def _hold(self, op: TensorOp) -> None:
        """An array with memory of its own: of this value, and of its later versions."""
        result = op.results[0]
        buffer = self.arrays.buffer(self.scratch[op], result)
        for value, place in self.places.items():
            if place is result:
                self.buffers[value] = buffer
        self.arrays.write(op, buffer)

    def _number(self, op: TensorOp) -> None:
        result = op.results[0]
        if not is_number(result):
            return  # whoever reads an element computes it
        if isinstance(op, Reduction):
            self.numbers[result] = self.arrays.summed(op)
            return
        if isinstance(op, WithinOp):
            self.numbers[result] = self._within(op)
            return
        at = (ORIGIN,) * len(shape_of(result.type))
        self.numbers[result] = op.element(self.lanes(), at)

    def _choose(self, op: SelectOp, first: Sequence[TensorOp]) -> None:
        """A choice whose first side is computed where it is chosen."""

        def chosen() -> Values:
            for x in first:
                self._number(x)
            return [self.numbers[op.if_true]]

        condition, other = self.numbers[op.condition], self.numbers[op.if_false]
        (self.numbers[op.result],) = self.b.pick_all(
            condition, chosen, lambda: [other], rarely=True
        )

    def _within(self, op: WithinOp) -> SSAValue:
        """An index: itself in the axis; whether it counts from the end is asked only beyond it."""
        e = self.lanes()
        x = e.fetch(op.x, (ORIGIN,) * len(op.shape))
        if op.holds is not None:
            return x
        beyond = e.compare("ge", x, e.size(op.extent), U64)
        (found,) = self.b.pick_all(
            beyond, lambda: [op.scalar(self.lanes(), x)], lambda: [x], rarely=True
        )
        return found

    def _store(self, op: DynamicUpdateOp) -> None:
        e = self.lanes()
        start, buffer = first_element(e, op), self.buffers[op.result]
        if is_number(op.update):
            at = moved(self.s, start, (ORIGIN,) * len(op.shape))
            e.store(self.numbers[op.update], buffer, tuple(at))
        else:
            self.arrays.copy(op.update, buffer, start)

    def _leave(self, block: Block, arguments: Sequence[SSAValue]) -> None:
        """What a trip ends with is written to its place, unless it lies there."""
        for argument, value in zip(arguments, yield_of(block).values, strict=True):
            if not is_number(value) and value not in self.places:
                buffer = self.buffers[argument]
                self.arrays.copy(value, buffer, (ORIGIN,) * len(buffer.sizes))

    def _of(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """The numbers among values, in registers."""
        return [self.numbers[x] for x in values if is_number(x)]

    def _bind(self, values: Sequence[SSAValue], parts: Sequence[SSAValue]) -> None:
        numbers = [x for x in values if is_number(x)]
        self.numbers.update(zip(numbers, parts, strict=True))

    # control ----------------------------------------------------------------------------------

    def control(self, op: ControlOp) -> None:
        """A loop or a branch: numbers go round as values."""
        match op:
            case ForOp():
                self._for(op)
            case WhileOp():
                self._while(op)
            case _:
                assert isinstance(op, IfOp)
                self._if(op)

    def deal(self, op: ForOp) -> None:
        """A share of the trips, which pass no number on."""
        s, inits = self.s, self._of(op.inits)
        count = self.b.max(self._count(op.count), 0)

        def some(thread: Index, threads: Index) -> None:
            self._trips(op, *s.share(count, thread, threads), inits)

        s.parallel(count, some)
        self._bind(op.outs, inits)

    def _trip(self, op: ForOp) -> Callable[..., list[SSAValue]]:
        number, *arguments = op.body.block.args

        def trip(i: Index, *parts: SSAValue) -> list[SSAValue]:
            if number.first_use is not None:
                self.numbers[number] = self._as_number(i)
            self._bind(arguments, parts)
            found = self.block(op.body.block)
            self._leave(op.body.block, arguments)
            return found

        return trip

    def _for(self, op: ForOp) -> None:
        inits, count = self._of(op.inits), self._count(op.count)
        if (trips := _trips_in(op)) is not None and trips <= POLL_TRIPS:
            left = self.left
            found = self.b.loop(0, count, 1, self._trip(op), inits)
            self.left = self.b.sub(left, trips)
        else:
            found = self._trips(op, 0, self.b.max(count, 0), inits)
        self._bind(op.outs, found)

    def _trips(self, op: ForOp, low: Index, high: Index, inits: Values) -> Values:
        """
        Trips of a loop that are left out where the call must stop: it is asked between blocks of
        as many as take a while, where it is known how many there are inside of each, so that
        nothing stands in the way of LLVM's vectors.
        """
        inside = _trips_inside(op)
        if inside is None or (block := POLL_TRIPS // (1 + inside)) < 2:
            return self._looking(low, high, self._trip(op), inits)
        left = self.left
        found = self._in_blocks(low, high, block, self._trip(op), inits)
        self.left = self.b.sub(left, self.b.mul(self.b.sub(high, low), 1 + inside))
        return found

    def _looking(self, low: Index, high: Index, trip: Trip, inits: Values) -> Values:
        """Trips that are left out where the call must stop."""
        b = self.b

        def checked(i: Index, *carried: SSAValue) -> Values:
            before, *parts = carried
            stop, left = self._look(before)

            def run() -> Values:
                self.left = b.sub(left, 1)
                found = trip(i, *parts)
                return [b.index(self.left), *found]

            return b.pick_all(b.negated(stop), run, lambda: [b.index(0), *parts])

        self.left, *found = b.loop(low, high, 1, checked, [b.index(self.left), *inits])
        return found

    def _look(self, left: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Whether to stop, and the trips until the next look; `left`: those that were left."""
        b = self.b
        looks = b.compare("le", left, 0)
        assert not isinstance(looks, bool)
        stop, left = b.pick_all(
            looks,
            lambda: [b.value(par.StoppedOp.of(self.s.context)), b.index(POLL_TRIPS)],
            lambda: [self.never, left],
            rarely=True,
        )
        return stop, left

    def _in_blocks(
        self, first: Index, count: Index, block: int, trip: Trip, inits: Values
    ) -> Values:
        """Trips in blocks, after each of which the nest may end."""
        b = self.b

        def body(low: SSAValue, *parts: SSAValue) -> tuple[SSAValue, Values]:
            high = b.min(b.add(low, block), count)
            found = b.loop(low, high, 1, trip, parts)
            more = b.compare("lt", high, count)
            assert not isinstance(more, bool)
            stop = par.StoppedOp.of(self.s.context)
            goes_on = b.pick(more, lambda: b.negated(b.value(stop)), lambda: self.never)
            return goes_on, [b.index(high), *found]

        _, *found = self._while_loop([b.index(first), *inits], body, lambda *parts: parts)
        return found

    def _while(self, op: WhileOp) -> None:
        """
        A loop whose body stands behind its test, so that what a trip says of the next one is asked
        where the trip ends: in a loop that looks whether the call must stop, unless its trips are
        known to be few.
        """
        b, inits = self.b, self._of(op.inits)
        if (trips := _trips_in(op)) is not None and trips <= POLL_TRIPS:
            left = self.left

            def trip(*parts: SSAValue) -> tuple[SSAValue, Values]:
                goes_on, _, *following = self._while_trip(op, parts)
                return goes_on, following

            found = self._while_loop(inits, trip, lambda *parts: parts)
            self.left = b.sub(left, trips)
        else:
            inits = [b.index(self.left), *inits]
            self.left, *found = self._while_loop(
                inits, lambda *before: self._while_block(op, before), lambda *parts: parts
            )
        self._bind(op.outs, found)

    def _while_trip(self, op: WhileOp, parts: Values) -> Values:
        """The test and a trip: whether another test follows, the trips left, and the numbers."""
        b, following = self.b, following_test(op)
        self._bind(op.condition.block.args, parts)
        self.block(op.condition.block)

        def run() -> Values:
            self.left = b.sub(self.left, 1)
            self._bind(op.body.block.args, parts)
            found = self.block(op.body.block)
            self._leave(op.body.block, op.body.block.args)
            left, goes_on = b.index(self.left), self.b.constant(IntegerAttr(1, i1), i1)
            if following is not None:
                self._bind(op.condition.block.args, found)
                self._number(following)
                goes_on = self.numbers[following.result]
            return [goes_on, left, *found]

        left = b.index(self.left)
        return b.pick_all(self.numbers[op.test], run, lambda: [self.never, left, *parts])

    def _while_block(self, op: WhileOp, before: Values) -> tuple[SSAValue, Values]:
        """As many trips as are left until the next look, and that."""
        b = self.b

        def test(before: SSAValue, *parts: SSAValue) -> tuple[SSAValue, Values]:
            def ask() -> Values:
                self.left = before
                return self._while_trip(op, parts)

            some = b.compare("gt", before, 0)
            assert not isinstance(some, bool)
            goes_on, *found = b.pick_all(some, ask, lambda: [self.never, before, *parts])
            return goes_on, found

        left, *parts = self._while_loop(before, test, lambda *parts: parts)
        looks = b.compare("le", left, 0)
        assert not isinstance(looks, bool)
        stop = par.StoppedOp.of(self.s.context)
        goes_on, left = b.pick_all(
            looks,
            lambda: [b.negated(b.value(stop)), b.index(POLL_TRIPS)],
            lambda: [self.never, left],
            rarely=True,
        )
        return goes_on, [left, *parts]

    def _while_loop(
        self,
        inits: Values,
        test: Callable[..., tuple[SSAValue, Values]],
        body: Callable[..., Values],
    ) -> Values:
        """scf.while: `test` says whether to go on, and with what; `body` what is tested next."""
        b, types = self.b, [x.type for x in inits]
        before, after = Block(arg_types=types), Block(arg_types=types)
        with b.inside(before):
            goes_on, parts = test(*before.args)
            b.add_op(scf.ConditionOp.create(operands=[goes_on, *parts]))
        with b.inside(after):
            b.add_op(scf.YieldOp.create(operands=body(*after.args)))
        regions = [Region(before), Region(after)]
        loop = scf.WhileOp.create(operands=inits, result_types=types, regions=regions)
        b.add_op(loop)
        return loop.results

    def _if(self, op: IfOp) -> None:
        b, before, loops = self.b, self.left, _holds_loops(op)

        def arm(block: Block) -> Callable[[], Values]:
            def run() -> Values:
                self.left = before
                found = self.block(block)
                return [b.index(self.left), *found] if loops else found

            return run

        then, otherwise = map(arm, op.blocks)
        found: Values = b.pick_all(self.numbers[op.condition], then, otherwise)
        if loops:
            self.left, *found = found
        self._bind(op.outs, found)

    def _count(self, value: SSAValue) -> Index:
        owner = value.owner
        if isinstance(owner, ConstantOp):
            return int(owner.array().reshape(())[()])
        if isinstance(owner, SizeOp):
            return self.b.dim(owner.dim)
        return self._index(value)

    def _index(self, value: SSAValue) -> Index:
        cast = arith.IndexCastOp.create(operands=[self.numbers[value]], result_types=[INDEX])
        return self.b.value(cast)

    def _as_number(self, index: Index) -> SSAValue:
        """A trip's number as an i64 element."""
        return self.lanes().position(Position(index))


def _holds_loops(op: ControlOp) -> bool:
    """Whether there are loops in an op's regions."""
    return any(isinstance(x, ForOp | WhileOp) for x in op.walk() if x is not op)


def _trips_in(op: ControlOp) -> int | None:
    """The most trips of an op and of the loops in it; None where data decide."""
    inside = _trips_inside(op)
    if inside is None or isinstance(op, IfOp):
        return inside
    count = trips_of(op)
    known = None if count is None else count.constant
    known = most_trips(op) if isinstance(op, WhileOp) else known
    return None if known is None else known * (1 + inside)


def _trips_inside(op: ControlOp) -> int | None:
    """The most trips of the loops in an op, each time that its regions run; None as above."""
    found = [_trips_in(x) for block in op.blocks for x in block.ops if isinstance(x, ControlOp)]
    return None if None in found else sum(x for x in found if x is not None)
