"""
What is known of the integers that loops carry, and of those that a place of the program is only
reached with: bounds that hold before a loop and that each of its trips keeps, and conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from mlc.dialects.analysis.ranges import ZERO, Ranges
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.bitwise import AndOp, NotOp, OrOp
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, SelectOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.division import FloorDivOp
from mlc.dialects.tensor.op import element_dtype

ONE = Dim.const(1)
FAR = Dim.const(2**20)
"""How far a trip may take a number that has one end only: it comes to no end of i64 then."""
ROUNDS = 6  # of bounds that are taken back
MOST_CARRIED = 12  # integers of one loop


Reading = Callable[[CompareOp, bool], list[Dim]]
"""What a comparison says where it holds, or does not."""


class _Carried(NamedTuple):
    """An integer that a loop carries: its number, and the bounds that may hold for it."""

    k: int
    lows: list[Dim]
    highs: list[Dim]


class LoopRanges(Ranges):
    """Ranges that also know what loops keep, and ask what holds where an op stands."""

    def __init__(self) -> None:
        super().__init__()
        self._open: set[ControlOp] = set()  # loops whose bounds are asked for

    def holds_inside(self, value: SSAValue, size: Dim, op: Operation) -> bool:
        """Whether a value is in [0, size) wherever an op of the program runs."""
        found, facts = self.of(value), self.facts(op)
        return self.follows(found, facts) and self.follows(size - ONE - found, facts)

    def follows(self, dim: Dim, facts: Sequence[Dim]) -> bool:
        """Whether a polynomial is >= 0 where these are."""
        return self.is_natural(dim) or any(self.is_natural(dim - fact) for fact in facts)

    def divides(self, value: SSAValue, op: Operation) -> bool:
        """Whether a number is another one than 0 wherever an op of the program runs."""
        number = value.owner
        if isinstance(number, ConvertOp) and _is_integer(number.x) and number.dtype.is_inexact:
            value = number.x
        if not _is_integer(value):
            return self.is_not_zero(value) or bool(self._around(op, partial(_parts, value)))
        found, facts = self.of(value), [*self.facts(op), *self._trips_around(op)]
        if self.follows(found - ONE, facts) or self.follows(-found - ONE, facts):
            return True
        return any(apart in (found, -found) for apart in self._around(op, self._differing))

    # conditions -------------------------------------------------------------------------------

    def facts(self, op: Operation) -> list[Dim]:
        """Polynomials that are >= 0 where an op runs: of the branches and loops around it."""
        return self._around(op, self._compared)

    def _trips_around(self, op: Operation) -> list[Dim]:
        """Polynomials that are >= 0 because each loop around an op has a trip."""
        found: list[Dim] = []
        for around, _ in _around(op):
            if isinstance(around, ForOp):
                found += [self.of(x) - ONE for x in _as_many(around.count)]
        return found

    def _around(self, op: Operation, reads: Reading) -> list[Dim]:
        """What comparisons say that branches and loops around an op have made."""
        found: list[Dim] = []
        for around, block in _around(op):
            if isinstance(around, IfOp):
                found += self._says(around.condition, block is around.then.block, reads)
            elif isinstance(around, WhileOp) and block is around.body.block:
                found += self._says(around.test, True, reads)
        return found

    def _says(self, condition: SSAValue, holds: bool, reads: Reading) -> list[Dim]:
        """What its comparisons say if a condition holds, or does not."""
        op = condition.owner
        match op:
            case CompareOp():
                return reads(op, holds)
            case NotOp():
                return self._says(op.operands[0], not holds, reads)
            case AndOp() | OrOp() if isinstance(op, AndOp) is holds:
                return [x for side in op.operands for x in self._says(side, holds, reads)]
            case SelectOp():
                return self._chosen(op.operands, holds, reads)
            case IfOp():
                assert isinstance(condition, OpResult)
                sides = (yield_of(block).values[condition.index] for block in op.blocks)
                return self._chosen((op.condition, *sides), holds, reads)
            case _:
                return []

    def _chosen(self, of: Sequence[SSAValue], holds: bool, reads: Reading) -> list[Dim]:
        """`then if test else other`, where one side says that it did not come from there."""
        test, then, other = of
        if _is_constant(other, not holds):
            return self._says(test, True, reads) + self._says(then, holds, reads)
        if _is_constant(then, not holds):
            return self._says(test, False, reads) + self._says(other, holds, reads)
        return []

    def _compared(self, op: CompareOp, holds: bool) -> list[Dim]:
        """What is >= 0."""
        if not _is_integer(op.lhs):
            return []
        x, y, how = self.of(op.lhs), self.of(op.rhs), op.predicate.data
        if not holds:
            how = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}[how]
        if how in ("gt", "ge"):
            x, y, how = y, x, {"gt": "lt", "ge": "le"}[how]
        if how == "eq":
            return [x - y, y - x]
        return {"lt": [y - x - ONE], "le": [y - x]}.get(how, [])

    def _differing(self, op: CompareOp, holds: bool) -> list[Dim]:
        """What is not 0."""
        if not _is_integer(op.lhs) or op.predicate.data != ("ne" if holds else "eq"):
            return []
        return [self.of(op.lhs) - self.of(op.rhs)]

    # values -----------------------------------------------------------------------------------

    def _made(self, value: SSAValue, depth: int) -> Dim | None:
        if isinstance(value.owner, FloorDivOp):  # what is known of it depends on where it stands
            return self._of(value, depth)
        return super()._made(value, depth)

    def _of(self, value: SSAValue, depth: int) -> Dim | None:
        found = super()._of(value, depth)
        if found is not None or not _is_integer(value):
            return found
        owner = value.owner
        if isinstance(value, BlockArgument):
            owner = value.owner.parent_op()
        if isinstance(owner, ForOp | WhileOp):
            self._keep(owner)
            return self._known.get(value)
        if isinstance(owner, IfOp) and isinstance(value, OpResult):
            x, y = (self.of(yield_of(b).values[value.index], depth + 1) for b in owner.blocks)
            if x == y:
                return x
            return self._number(self._below(x, y), [-end for end in self._below(-x, -y)])
        return self._half(owner, depth) if isinstance(owner, FloorDivOp) else None

    def _half(self, op: FloorDivOp, depth: int) -> Dim | None:
        """floor(x / c) for c > 0, between numbers that x is made of."""
        x, divisor = (self.of(y, depth + 1) for y in op.operands)
        if divisor.constant is None or divisor.constant < 1:
            return None
        facts = self.facts(op)
        parts = [Dim((((name,), 1),)) for name in sorted(x.symbols())]
        lows = [e for e in (ZERO, *parts) if self.follows(x - divisor * e, facts)]
        last = divisor - ONE
        ends = [end for p in parts for end in (p - ONE, p)]
        highs = [e for e in ends if self.follows(divisor * e + last - x, facts)]
        return self._number(lows[:2], highs[:2])

    # loops ------------------------------------------------------------------------------------

    def _keep(self, loop: ForOp | WhileOp) -> None:
        """Finds bounds of the integers that a loop carries: those that its trips keep."""
        numbers = [k for k, x in enumerate(loop.starts) if _is_integer(x)]
        if loop in self._open or not numbers or len(numbers) > MOST_CARRIED:
            return
        starts = {k: self.of(loop.starts[k]) for k in numbers}
        trip = self.of(loop.body.block.args[0]) if isinstance(loop, ForOp) else ZERO
        facts = self.facts(loop)
        carried = [self._candidates(k, starts, trip, facts) for k in numbers]
        if isinstance(loop, WhileOp):
            for value in _from_outside(loop):
                self.of(value)
            trial = self._copy(loop)
            trial._add_limits(loop, trial._assume(loop, carried), carried, starts, self)
        for _ in range(ROUNDS):
            trial = self._copy(loop)
            symbols = trial._assume(loop, carried)
            if trial._kept(loop, carried, symbols, trip):
                self._known, self._numbers = trial._known, trial._numbers
                self._same = trial._same
                return

    def _candidates(
        self, k: int, starts: dict[int, Dim], trip: Dim, facts: Sequence[Dim]
    ) -> _Carried:
        start = starts[k]
        others = dict.fromkeys((start, ZERO, Dim.const(-1), *starts.values()))
        lows = [e for e in others if self.follows(start - e, facts)]
        highs = [e for e in others if self.follows(e - start, facts)]
        return _Carried(k, lows, highs + ([start + trip] if trip != ZERO else []))

    def _copy(self, loop: ControlOp) -> LoopRanges:
        trial = LoopRanges()
        trial._known, trial._numbers = dict(self._known), dict(self._numbers)
        trial._same = dict(self._same)
        trial._open = {*self._open, loop}
        return trial

    def _assume(self, loop: ForOp | WhileOp, carried: Sequence[_Carried]) -> list[Dim]:
        """The carried integers have these bounds, in each trip and behind the last one."""
        symbols: list[Dim] = []
        for k, lows, highs in carried:
            symbol = self._number(lows, highs)
            for block in loop.blocks:
                self._known[loop.carried_in(block)[k]] = symbol
            if isinstance(loop, WhileOp):
                self._known[loop.results[k]] = symbol
            else:
                trips = self.of(loop.count)
                number = self.of(loop.body.block.args[0])
                last = [_replaced(end, number, trips) for end in highs]
                if not self.is_natural(trips):
                    last = [end for end in highs if number.symbols().isdisjoint(end.symbols())]
                self._known[loop.results[k]] = self._number(lows, last)
            symbols.append(symbol)
        return symbols

    def _add_limits(
        self,
        loop: WhileOp,
        symbols: Sequence[Dim],
        carried: Sequence[_Carried],
        starts: dict[int, Dim],
        before: LoopRanges,
    ) -> None:
        """
        Ends that the test sets: one trip beyond, and of 2 x + 2 where 2 x + 1 < n. They are made of
        numbers from before the loop: those of its trips are others in each trial.
        """
        facts = self._says(loop.test, True, self._compared)
        inside = {name for symbol in symbols for name in symbol.symbols()}
        values = yield_of(loop.body.block).values
        sides = [(k, *side) for k, lows, highs in carried for side in ((1, highs), (-1, lows))]
        beyond = [symbol * sign + ONE for symbol in symbols for sign in (1, -1)]
        made = [self._furthest(self.of(values[k]) * sign, inside) for k, sign, _ in sides]
        for reached, fact in product((beyond, made), facts):
            for most, (k, sign, ends) in zip(reached, sides, strict=True):
                end = most + fact
                ours = end.symbols() & self._numbers.keys() <= before._numbers.keys()
                if not ours or len(ends) >= MOST_CARRIED:
                    continue
                if end * sign not in ends and self.is_natural(end - starts[k] * sign):
                    ends.append(end * sign)

    def _furthest(self, dim: Dim, numbers: set[str]) -> Dim:
        """A polynomial of some numbers that is nowhere below another one, if one is known."""
        while (innermost := self._innermost(dim)) is not None:
            factor, rest, number = innermost
            ends = number.highs if self.is_natural(factor) else ()
            if self.is_natural(-factor):
                ends = number.lows
            if not ends or not numbers.isdisjoint((dim - rest).symbols()):
                break
            dim = factor * ends[0] + rest
        return dim

    def _kept(
        self,
        loop: ForOp | WhileOp,
        carried: Sequence[_Carried],
        symbols: Sequence[Dim],
        trip: Dim,
    ) -> bool:
        """Whether a trip keeps all bounds; those that it may not are taken away."""
        last = yield_of(loop.body.block)
        facts, kept = self.facts(last), True
        for symbol, (k, lows, highs) in zip(symbols, carried, strict=True):
            following = self.of(last.values[k])
            for end in list(lows):
                if not self.follows(following - end, facts):
                    lows.remove(end)
                    kept = False
            for end in list(highs):
                after = _replaced(end, trip, trip + ONE)
                if not self.follows(after - following, facts):
                    highs.remove(end)
                    kept = False
            step = following - symbol
            if (lows and not highs and not self.follows(FAR - step, facts)) or (
                highs and not lows and not self.follows(FAR + step, facts)
            ):
                lows.clear()
                highs.clear()
                kept = False
        return kept


def _from_outside(loop: WhileOp) -> list[SSAValue]:
    """The integers that a loop reads and does not make."""
    blocks = [block for op in loop.walk() for region in op.regions for block in region.blocks]
    own: set[SSAValue] = {x for block in blocks for x in block.args}
    own.update(x for block in blocks for op in block.ops for x in op.results)
    read = dict.fromkeys(x for op in loop.walk() for x in op.operands)
    return [x for x in read if x not in own and _is_integer(x)]


def _replaced(dim: Dim, number: Dim, by: Dim) -> Dim:
    """A polynomial with another one for a number that it is at most a sum with."""
    if number == ZERO or number.symbols().isdisjoint(dim.symbols()):
        return dim
    return dim - number + by


def _around(op: Operation) -> Iterator[tuple[Operation, Block]]:
    """The ops around one, from the inside, and the block of each in which it stands."""
    block = op.parent
    while block is not None and (around := block.parent_op()) is not None:
        yield around, block
        block = around.parent


def _is_integer(value: SSAValue) -> bool:
    return shape_of(value.type) == () and element_dtype(value) is I64


def _as_many(count: SSAValue) -> list[SSAValue]:
    """Numbers that are at least 1 where a number of trips is."""
    if not isinstance(op := count.owner, MaxOp):
        return [count]
    at_most_0 = [
        isinstance(x.owner, ConstantOp) and bool((x.owner.array() <= 0).all()) for x in op.operands
    ]
    return [x for x, no in zip(op.operands, at_most_0, strict=True) if not no and any(at_most_0)]


def _parts(value: SSAValue, op: CompareOp, holds: bool) -> list[Dim]:
    """Something, where a comparison parts a value from 0, or from all on one side of it."""
    bound = op.rhs.owner
    if op.lhs is not value or not isinstance(bound, ConstantOp) or bound.shape != ():
        return []
    end, how = bound.array()[()], op.predicate.data
    outside = {"ne": end == 0, "gt": end >= 0, "ge": end > 0, "lt": end <= 0, "le": end < 0}
    within = {"eq": end == 0, "le": end >= 0, "lt": end > 0, "ge": end <= 0, "gt": end < 0}
    return [ONE] if (outside if holds else within).get(how, False) else []


def _is_constant(value: SSAValue, wanted: bool) -> bool:
    owner = value.owner
    return isinstance(owner, ConstantOp) and owner.shape == () and bool(owner.array()[()]) is wanted
