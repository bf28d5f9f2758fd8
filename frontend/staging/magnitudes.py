"""
Whether Python's integers, which have no end, stay within 64 bits in a loop of the program.

The trips are run on magnitudes: of a sum the sum, of a product the product. What grows with a power
of the trip's number is followed further than it is run; what grows as a power of two does is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import log2

from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.bitwise import ShlOp
from mlc.dialects.tensor.control import ForOp, IfOp, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.division import PowOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.frontend.trace.integer_rules import RULES, USUAL
from mlc.frontend.trace.trace import here

LIMIT = 2**62
TRIPS = 64
"""That are run; what has more than sixteen times the magnitude of half as many grows too fast."""
MOST_TRIPS = 2**30
"""Of a loop of which nobody knows how many it has."""
MOST_POWER = 4
INSIDE = 8  # trips of loops in the loop that are run


class _TooLargeError(Exception):
    """A number leaves 64 bits."""


def stays_within(
    body: Block, starts: Mapping[int, int], trips: int, *, carried: bool = False
) -> bool:
    """
    Whether the carried integers that begin as Python's, by their places among the block's carried
    arguments, and what is computed of them and of the trips' numbers, stay below 2^62 in so many
    trips. `carried`: what is carried alone is asked for.
    """
    try:
        ends = _run(body, starts, trips, {}, TRIPS)
        if carried:
            return True
        first = len(body.args) - len(yield_of(body).values)
        memo: dict[SSAValue, int] = dict.fromkeys(body.args[:first], trips)
        memo |= {body.args[first + k]: most for k, most in ends.items()}
        for value in _of_trips(body, set(memo)):
            _of(value, memo)
    except _TooLargeError:
        return False
    return True


def growing(body: Block, starts: Iterable[int]) -> Iterator[TensorOp]:
    """
    The ops that may make integers too large which a loop carries for ever, at these places among
    the block's carried arguments.
    """
    values = yield_of(body).values
    first = len(body.args) - len(values)
    grown = [k for k in starts if not _counts(values[k], body.args[first + k])]
    memo: dict[SSAValue, int] = dict.fromkeys((body.args[first + k] for k in grown), LIMIT - 1)
    for op in body.walk():
        if type(op) in _GROWING and op.results[0] in here().pythons:
            try:
                _of(op.results[0], memo)
            except _TooLargeError:
                memo[op.results[0]] = LIMIT - 1
                yield op  # pyright: ignore[reportReturnType]


def _counts(value: SSAValue, before: SSAValue) -> bool:
    """Whether a trip adds a constant to a number, or leaves it."""
    op = value.owner
    if isinstance(op, AddOp | SubOp):
        return op.lhs is before and isinstance(op.rhs.owner, ConstantOp)
    return value is before


def _of_trips(body: Block, known: set[SSAValue]) -> Iterator[SSAValue]:
    """What a body computes of numbers that Python knows where the trips stand one by one."""
    for op in body.walk():
        if isinstance(op, ForOp):
            known.add(op.body.block.args[0])
        if type(op) in RULES and op.results[0] in here().pythons:
            constants = (isinstance(x.owner, ConstantOp) or x in known for x in op.operands)
            if all(constants):
                known.update(op.results)
                yield op.results[0]


def _run(
    body: Block,
    starts: Mapping[int, int],
    trips: int,
    known: Mapping[SSAValue, int],
    most: int,
) -> dict[int, int]:
    """The magnitudes after the trips, of whose arguments the number may be the first."""
    values = yield_of(body).values
    first = len(body.args) - len(values)
    known = {**known, **dict.fromkeys(body.args[:first], trips)}
    now, half = dict(starts), dict(starts)
    for trip in range(min(trips, most)):
        if trip == most // 2:
            half = dict(now)
        memo = {**known, **{body.args[first + k]: now[k] for k in starts}}
        now = {k: max(now[k], _of(values[k], memo)) for k in starts}
    if trips <= most:
        return now
    return {k: _further(now[k], half[k], trips / most) for k in starts}


def _further(now: int, half: int, times: float) -> int:
    power = log2(max(now, 1) / max(half, 1))
    if now > 2**16 and power > MOST_POWER:
        raise _TooLargeError
    return _checked(int(now * times ** min(power, MOST_POWER)) + 1)


def grown(now: int, half: int, times: float) -> int:
    """A magnitude after so many times the trips; 2^63 where it has grown too fast to say."""
    try:
        return _further(now, half, times)
    except _TooLargeError:
        return 2 * LIMIT


def _checked(magnitude: int) -> int:
    if magnitude >= LIMIT:
        raise _TooLargeError
    return magnitude


def _of(value: SSAValue, memo: dict[SSAValue, int]) -> int:
    """The magnitude of a number."""
    if value not in memo:
        memo[value] = _checked(_computed(value, memo))
    return memo[value]


def _computed(value: SSAValue, memo: dict[SSAValue, int]) -> int:
    if shape_of(value.type) or element_dtype(value) is not I64:
        return USUAL
    match value.owner:
        case Block():
            most = here().bound.ranges.greatest(here().bound.ranges.of(value))
            return USUAL if most is None or most.constant is None else abs(most.constant)
        case PowOp() as op if not _is_natural(op.rhs):
            raise _TooLargeError  # a float of Python's where it is negative
        case ConstantOp() as op:
            return abs(int(op.array()[()]))
        case IfOp() as op:
            k = op.results.index(value)
            return max(_of(yield_of(block).values[k], memo) for block in op.blocks)
        case ForOp() as op:
            return _of_loop(op, op.results.index(value), memo)
        case TensorOp() as op if type(op) in RULES:
            return RULES[type(op)]([_of(x, memo) for x in op.operands])
        case _:
            return USUAL


def _is_natural(value: SSAValue) -> bool:
    ranges = here().bound.ranges
    return ranges.is_natural(ranges.of(value))


def _of_loop(loop: ForOp, k: int, memo: dict[SSAValue, int]) -> int:
    """A number that a loop in the loop carries."""
    kind = loop.results[k].type
    starts = {n: _of(x, memo) for n, x in enumerate(loop.inits) if x.type == kind}
    count = loop.count.owner
    trips = int(count.array()[()]) if isinstance(count, ConstantOp) else INSIDE
    found = _run(loop.body.block, starts, trips, memo, INSIDE)
    return found[k]


_GROWING = (AddOp, SubOp, MulOp, ShlOp, PowOp)
