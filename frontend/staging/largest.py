"""
How large ints from outside may be, so that what a program makes of them stays within 64 bits: in
Python integers have no end. Above it a value has a program of its own, in which they are Python's.

What is followed are numbers of no axes that are computed of ints among the arguments, of sizes and
of constants alone. What is computed of elements of arrays is NumPy's, and wraps around there too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.tensor.bitwise import AndOp
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import ForOp, IfOp, WhileOp, yield_of
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.division import ModOp
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.frontend.errors import SpecialiseSignal
from mlc.frontend.staging.magnitudes import grown
from mlc.frontend.trace.integer_rules import END, RULES, USUAL
from mlc.frontend.trace.paths import Guard
from mlc.frontend.trace.trace import Trace
from mlc.lazy_dataclass import dataclass

STEPS = (END - 1, 2**62, 2**30, 2**20, 2**10, 2**4)
"""What is tried, the largest first: of numbers, those that a 64-bit integer, or a size, may be."""
USUAL_SIZE = 2**30
MOST_ELEMENTS = 2**50
"""The product of different sizes, which are those of an array."""
TRIPS = 64
"""That are run; what grows too fast in them has no end in more."""
MOST_RUN = 100_000
"""Ops of trips that are run; a loop for which these are too few may leave 64 bits."""


@dataclass(frozen=True)
class Known:
    """
    A number: how large it may be, and the names of what it is made of. `sure`: no trip and no list
    has to do with it, of which it may have more than is usual.
    """

    most: int
    names: frozenset[str]
    sure: bool = True


class LeavesError(Exception):
    """A number made of these leaves 64 bits."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


def limited(trace: Trace) -> dict[str, int]:
    """
    How large ints among the arguments and sizes may be: a program that is traced is for those, and
    for no larger ones. Raises SpecialiseSignal where it must be for one value.
    """
    numbers: dict[SSAValue, str] = {}
    for x in (*trace.ints.arguments, *trace.arrays.values()):
        if x.origins and x.is_made_in([trace.block]) and x.origins <= trace.ints.known.keys():
            (name,) = x.origins
            numbers[x.value] = name
    if not (numbers or trace.ints.sizes):
        return {}
    blocks = [trace.block, *(f.body.block for f in trace.private)]
    try:
        found, within = largest(
            blocks, numbers, trace.ints.sizes, trace.ints.into_lists, trace.ints.from_lists
        )
    except LeavesError as error:
        because = f"whether an int of Python's made of {error} stays within 64 bits"
        symbols = error.names & trace.ints.sizes.keys()
        raise SpecialiseSignal(error.names - symbols, symbols, because) from None
    for name, most in found.items():
        if name in trace.ints.known:
            new = Guard("range", trace.ints.known[name][0], (-most, most))
            trace.guards.setdefault(new.key, new)
        elif name in trace.ints.ways:
            new = Guard("range", trace.ints.ways[name], (0, most))
            trace.guards.setdefault(new.key, new)
        else:
            trace.assume(Dim.const(most) - Dim.symbol(name), f"{name} within {most}")
    if trace.ints.guarded:
        trace.ints.look_no_more({value for value, surely in within.items() if surely})
    return found


def largest(
    blocks: Iterable[Block],
    numbers: Mapping[SSAValue, str],
    sizes: Iterable[str],
    into: Collection[SSAValue] = (),
    given: Mapping[SSAValue, Dim] | None = None,
) -> tuple[dict[str, int], dict[SSAValue, bool]]:
    """
    How large each of those may be that must not be as large as any; of the numbers that are
    followed then, whether they are surely within 64 bits. `numbers`: ints among the
    arguments, by their values; `sizes`: symbols; `into`, `given`: what lists get and give. Raises
    LeavesError where not even sixteen fits.
    """
    ends = dict.fromkeys(numbers.values(), END - 1) | dict.fromkeys(sizes, USUAL_SIZE)
    found: dict[str, int] = {}
    held = list(blocks)
    while True:
        followed = _Followed(ends, into, given or {})
        known = {value: Known(ends[name], frozenset({name})) for value, name in numbers.items()}
        try:
            for block in held:
                followed.block(block, dict(known))
        except LeavesError as error:
            for name in error.names:
                less = [step for step in STEPS if step < ends[name]]
                if not less:
                    raise
                ends[name] = found[name] = less[0]
            continue
        return found, followed.within


class _Followed:
    """The numbers of a program, from its beginning to its end."""

    def __init__(
        self, ends: Mapping[str, int], into: Collection[SSAValue], given: Mapping[SSAValue, Dim]
    ) -> None:
        self.ends, self.into, self.given = ends, into, given
        self.run = 0
        self.within: dict[SSAValue, bool] = {}

    def block(self, block: Block, known: dict[SSAValue, Known]) -> None:
        """What is known of the values of a block."""
        for op in block.ops:
            self.run += 1
            match op:
                case IfOp():
                    self._if(op, known)
                case ForOp():
                    self._for(op, known)
                case WhileOp():
                    self._while(op, known)
                case _:
                    for inner in (b for region in op.regions for b in region.blocks):
                        self.block(inner, dict(known))
                    found = self._number(op, known)
                    for x in op.results:
                        sure = found is not None and found.sure and found.most < END
                        self.within[x] = sure and self.within.get(x, True)
                    if found is not None:
                        known[op.results[0]] = _within(found)
        for x in self.into:
            if x in known and known[x].most > USUAL and known[x].names:
                raise LeavesError(known[x].names)

    def _number(self, op: Operation, known: Mapping[SSAValue, Known]) -> Known | None:
        if not isinstance(op, TensorOp) or len(op.results) != 1:
            return None
        value = op.results[0]
        if shape_of(value.type) or element_dtype(value) is not I64:
            return None
        if value in self.given:
            return Known(USUAL * self._size(self.given[value]), frozenset(self.ends), False)
        if isinstance(op, ConstantOp):
            return Known(abs(int(op.array()[()])), frozenset())
        if isinstance(op, SizeOp):
            sure = all(len(monomial) < 2 for monomial, _ in op.dim.terms)  # see MOST_ELEMENTS
            return Known(self._size(op.dim), op.dim.symbols() & self.ends.keys(), sure)
        operands = [known.get(x) for x in op.operands if element_dtype(x) is I64]
        if isinstance(op, ConvertOp) and element_dtype(op.x) is BOOL:
            return Known(1, frozenset())
        if isinstance(op, AndOp | ModOp) and (most := _constant(op)) is not None:
            return Known(most, frozenset())
        rule = RULES.get(type(op))
        found = [x for x in operands if x is not None]
        if rule is None or not found or len(found) < len(operands):
            return None
        several = len(operands) == len(op.operands)
        numbers = [x.most for x in found] if several else [1, *(x.most for x in found)]
        return Known(rule(numbers), _names(found), all(x.sure for x in found))

    def _size(self, dim: Dim) -> int:
        total = 0
        for monomial, coefficient in dim.terms:
            atoms = [
                self.ends.get(a, USUAL_SIZE) if isinstance(a, str) else self._size(a.numerator)
                for a in monomial
            ]
            product = 1
            for end in atoms:
                product *= end
            if len(set(monomial)) == len(monomial) and USUAL_SIZE in atoms:
                product = min(product, MOST_ELEMENTS)
            total += abs(coefficient) * product
        return total

    def _if(self, op: IfOp, known: dict[SSAValue, Known]) -> None:
        sides = [dict(known) for _ in op.blocks]
        for block, side in zip(op.blocks, sides, strict=True):
            self.block(block, side)
        ends = [
            [side.get(x) for x in yield_of(block).values]
            for block, side in zip(op.blocks, sides, strict=True)
        ]
        for result, *found in zip(op.results, *ends, strict=True):
            both = [x for x in found if x is not None]
            if both and len(both) == len(found):
                sure = all(x.sure for x in both)
                known[result] = Known(max(x.most for x in both), _names(both), sure)

    def _for(self, op: ForOp, known: dict[SSAValue, Known]) -> None:
        count = known.get(op.count)
        index, *carried = op.body.block.args
        if count is None:
            self.block(op.body.block, dict(known))
            return
        ends = self._trips(op.body.block, known | {index: count}, count, carried, op.inits)
        known.update({r: ends[x] for r, x in zip(op.results, carried, strict=True) if x in ends})

    def _while(self, op: WhileOp, known: dict[SSAValue, Known]) -> None:
        """One whose end such numbers decide has no more trips than the largest of them says."""
        test, body = op.condition.block, op.body.block
        asked = [known[x] for inner in test.walk() for x in inner.operands if x in known]
        inside = dict(known)
        self.block(test, inside)
        asked += [x for inner in test.walk() for r in inner.results if (x := inside.get(r))]
        if not _names(asked):
            self.block(body, dict(known))
            return
        count = Known(min(max(x.most for x in asked), USUAL_SIZE), _names(asked))
        ends = self._trips(body, known, count, body.args, op.inits)
        known.update({r: ends[x] for r, x in zip(op.results, body.args, strict=True) if x in ends})

    def _trips(
        self,
        body: Block,
        known: Mapping[SSAValue, Known],
        count: Known,
        carried: Sequence[SSAValue],
        starts: Sequence[SSAValue],
    ) -> dict[SSAValue, Known]:
        """What a loop carries, behind it; its body is followed with the largest that it may be."""
        now = {x: known[s] for x, s in zip(carried, starts, strict=True) if s in known}
        place = {x: k for k, x in enumerate(carried)}
        while True:
            try:
                found = self._carried(body, known, count, now, place)
            except _UnknownError as lost:
                del now[lost.value]
                continue
            self.block(body, {**known, **found})
            return found

    def _carried(
        self,
        body: Block,
        known: Mapping[SSAValue, Known],
        count: Known,
        now: dict[SSAValue, Known],
        place: Mapping[SSAValue, int],
    ) -> dict[SSAValue, Known]:
        first = self.run
        steps: list[dict[SSAValue, Known]] = [now]
        while now and len(steps) <= min(count.most, TRIPS):
            if self.run - first > MOST_RUN:
                raise LeavesError(_names([count, *now.values()]))
            now = self._trip(body, known, now, place)
            steps.append(now)
            rest = count.most - (len(steps) - 1)
            if rest > 0 and len(steps) > 3 and (end := _straight(steps, rest)) is not None:
                after = self._trip(body, known, end, place)
                added = {x: steps[-1][x].most - steps[-2][x].most for x in now}
                if all(after[x].most <= end[x].most + added[x] for x in now):
                    return {
                        x: _within(Known(end[x].most, after[x].names | count.names, False))
                        for x in now
                    }
        if count.most > TRIPS and now:
            half, times = steps[TRIPS // 2], count.most / TRIPS
            now = {x: Known(grown(now[x].most, half[x].most, times), now[x].names) for x in now}
        return {x: _within(Known(v.most, v.names | count.names, False)) for x, v in now.items()}

    def _trip(
        self,
        body: Block,
        known: Mapping[SSAValue, Known],
        now: Mapping[SSAValue, Known],
        place: Mapping[SSAValue, int],
    ) -> dict[SSAValue, Known]:
        inside = {**known, **now}
        self.block(body, inside)
        values = yield_of(body).values
        found: dict[SSAValue, Known] = {}
        for x, before in now.items():
            after = inside.get(values[place[x]])
            if after is None:
                raise _UnknownError(x)
            found[x] = Known(max(before.most, after.most), before.names | after.names)
        return found


class _UnknownError(Exception):
    """A number that a loop carries becomes one of which nothing is known."""

    def __init__(self, value: SSAValue) -> None:
        super().__init__()
        self.value = value


def _straight(steps: Sequence[Mapping[SSAValue, Known]], rest: int) -> dict[SSAValue, Known] | None:
    """What there is after more trips, where each has added as much as the one before."""
    before, last, now = steps[-3:]
    added = {x: now[x].most - last[x].most for x in now}
    if any(added[x] != last[x].most - before[x].most for x in now):
        return None
    return {x: Known(now[x].most + rest * added[x], now[x].names) for x in now}


def _constant(op: AndOp | ModOp) -> int | None:
    """A mask or divisor that is not negative, which the result does not exceed."""
    masks = op.operands if isinstance(op, AndOp) else op.operands[1:]
    found = [int(x.owner.array()[()]) for x in masks if isinstance(x.owner, ConstantOp)]
    return next((n for n in found if n >= 0), None)


def _names(found: Iterable[Known]) -> frozenset[str]:
    return frozenset[str]().union(*(x.names for x in found))


def _within(found: Known) -> Known:
    if found.most >= END and found.names:
        raise LeavesError(found.names)
    return found
