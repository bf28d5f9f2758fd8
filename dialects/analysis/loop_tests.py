"""What the test of a `while` asks: whether it counts to a number, and what a trip says of it."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from mlc.dialects.tensor.bitwise import AndOp
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.control import WhileOp, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import AddOp


def most_trips(loop: WhileOp) -> int | None:
    """The most trips of a loop that counts by one to a constant, whatever else ends it."""
    numbers, last = loop.condition.block.args, yield_of(loop.body.block).values
    for part in _parts(loop.test):
        match part.owner:
            case CompareOp() as op if op.predicate.data == "lt" and op.lhs in numbers:
                k = numbers.index(op.lhs)
                start, end, step = (
                    _constant(x) for x in (loop.inits[k], op.rhs, _added(loop, k, last[k]))
                )
                if start is not None and end is not None and step == 1:
                    return max(end - start, 0)
            case _:
                pass
    return None


def following_test(loop: WhileOp) -> CompareOp | None:
    """
    What a trip decides of the next test, if that is whether a number that it hands on is a
    constant: how a loop that `break` leaves says that it is left.
    """
    for part in _parts(loop.test):
        match part.owner:
            case CompareOp() as op if op.predicate.data in ("eq", "ne"):
                known = isinstance(op.rhs.owner, ConstantOp)
                if known and op.lhs in loop.condition.block.args:
                    return op
            case _:
                pass
    return None


def _parts(test: SSAValue) -> Iterator[SSAValue]:
    """Values that are all true where a test is."""
    match test.owner:
        case AndOp() as op:
            yield from _parts(op.lhs)
            yield from _parts(op.rhs)
        case SelectOp() as op if _constant(op.if_false) == 0:
            yield from _parts(op.condition)
            yield from _parts(op.if_true)
        case _:
            yield test


def _added(loop: WhileOp, k: int, last: SSAValue) -> SSAValue | None:
    """What a trip adds to the k-th number."""
    number = loop.body.block.args[k]
    match last.owner:
        case AddOp() as op if number in (op.lhs, op.rhs):
            return op.rhs if op.lhs is number else op.lhs
        case _:
            return None


def _constant(value: SSAValue | None) -> int | None:
    owner = None if value is None else value.owner
    return int(owner.array().reshape(-1)[0]) if isinstance(owner, ConstantOp) else None
