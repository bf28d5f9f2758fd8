"""Steps of a random program: `for`, `while` and `if`, nested, whose regions are made of steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.tensor.bitwise import AndOp
from mlc.dialects.tensor.comparison import CompareOp
from mlc.dialects.tensor.control import INDEX, ForOp, IfOp, WhileOp, YieldOp, loop_region
from mlc.dialects.tensor.create import ConstantOp, SizeOp, dense
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.reduce import ReduceOp
from tests.differential.elementwise import certain, converted
from tests.differential.programs import SYMBOLS, Program
from tests.differential.values import Known, Traced

MOST_DEPTH = 3
Steps = Callable[[Program, int], None]


def control(p: Program, steps: Steps) -> None:
    """Any op with regions, whose values are certain; not too deep."""
    if p.depth < MOST_DEPTH:
        p.choose.pick((counted, conditional, branching))(p, steps)


def carried_values(p: Program) -> list[Traced]:
    """One to three values that a region carries; rather of one type, so that they may change
    places."""
    first = p.any(certain)
    if first is None:
        return []
    found = [first]
    for _ in range(p.choose.number(0, 2)):
        same = p.any(lambda v: certain(v) and v.value.type == first.value.type)
        other = same if p.choose.number(0, 2) else p.any(certain)
        found += [x for x in (other,) if x is not None]
    return found


def inner(p: Program, block: Block, carried: Sequence[Traced], steps: Steps) -> list[Traced]:
    """Steps in a block; its values, then the carried ones as they are by now, then older ones."""
    outer, p.values = p.values, [*p.values, *carried]
    before, p.b = p.b, OpBuilder(block.add_op)
    inside, p.inside = p.inside, list(carried)
    p.depth += 1
    start = len(p.values)
    steps(p, p.choose.number(0, 4))
    found = [*p.values[start:], *p.inside, *p.inside, *outer[-3:]]
    p.depth -= 1
    p.values, p.b, p.inside = outer, before, inside
    return found


def argument(x: Traced, value: SSAValue) -> Traced:
    """The carried value in a region: nothing is known of it but that its bits are certain."""
    return Traced(value, x.dtype, x.word, Known(signed=x.known.signed))


def following(p: Program, x: Traced, made: Sequence[Traced]) -> Traced:
    """A value of the carried one's type of which no less is known."""
    fitting = [
        y
        for y in made
        if y.value.type == x.value.type and certain(y) and (y.known.signed or not x.known.signed)
    ]
    return p.choose.pick(fitting) if fitting else x


def limit(p: Program, builder: OpBuilder) -> SSAValue:
    """A trip count: a number, or outside of everything a symbolic size."""
    if p.depth == 0 and p.choose.number(0, 3) == 0:
        return builder(SizeOp, dims=(Dim.symbol(p.choose.pick(SYMBOLS)),))
    return builder(ConstantOp, value=dense(np.asarray(p.choose.pick((2, 0, 1, 3, -1))), I64))


def finished(p: Program, op: ForOp | WhileOp | IfOp, like: Sequence[Traced]) -> None:
    """The op stands in the program, and its results are values."""
    p.b.insert(op)
    for x, out in zip(like, op.outs, strict=False):
        p.add(out, x.dtype, x.word, Known(signed=x.known.signed))


def counted(p: Program, steps: Steps) -> None:
    """`for`; its trip number is a value like others."""
    carried = carried_values(p)
    if not carried:
        return
    count = limit(p, p.b)
    region = loop_region([x.value.type for x in carried])
    block = region.block
    mine = [argument(x, a) for x, a in zip(carried, block.args[1:], strict=True)]
    trip = Traced(block.args[0], I64, "", Known(40, whole=True))
    p.values.append(trip)
    made = inner(p, block, mine, steps)
    p.values = [x for x in p.values if x is not trip]
    block.add_op(YieldOp.create(operands=[following(p, x, made).value for x in mine]))
    finished(p, ForOp(count, [x.value for x in carried], region), carried)


def conditional(p: Program, steps: Steps) -> None:
    """`while`, which counts, and may also look at what it carries."""
    carried = carried_values(p)
    if not carried:
        return
    types = [*(x.value.type for x in carried), INDEX]
    test, body = (Block(arg_types=types) for _ in range(2))
    b = OpBuilder(test.add_op)
    going = b(CompareOp, test.args[-1], limit(p, b), predicate="lt")
    mine = [argument(x, a) for x, a in zip(carried, test.args[:-1], strict=True)]
    flags = [x for x in mine if x.dtype is BOOL]
    if flags and p.choose.number(0, 1):
        letters = f"{flags[0].word}->"
        going = b(AndOp, going, b(ReduceOp, flags[0].value, monoid="sum", letters=letters))
    test.add_op(YieldOp.create(operands=[going]))
    mine = [argument(x, a) for x, a in zip(carried, body.args[:-1], strict=True)]
    made = inner(p, body, mine, steps)
    b = OpBuilder(body.add_op)
    one = b(ConstantOp, value=dense(np.asarray(1), I64))
    following_count = b(AddOp, body.args[-1], one)
    yielded = [*(following(p, x, made).value for x in mine), following_count]
    body.add_op(YieldOp.create(operands=yielded))
    start = p.emit(ConstantOp, value=dense(np.asarray(0), I64))
    inits = [*(x.value for x in carried), start]
    finished(p, WhileOp(inits, Region(test), Region(body)), carried)


def branching(p: Program, steps: Steps) -> None:
    """`if`, by the smallest element of a value or whether there is any."""
    flag = p.any(certain)
    if flag is None or (flag := converted(p, flag, BOOL)) is None:
        return
    monoid = "prod" if p.choose.number(0, 1) else "sum"  # all, or any
    condition = p.emit(ReduceOp, flag.value, monoid=monoid, letters=f"{flag.word}->")
    like = carried_values(p)
    if not like:
        return
    blocks = [Block(), Block()]
    weakest = [Traced(x.value, x.dtype, x.word, Known(signed=False)) for x in like]
    for block in blocks:
        made = inner(p, block, (), steps)
        found = [following(p, x, made).value for x in weakest]
        block.add_op(YieldOp.create(operands=found))
    finished(p, IfOp(condition, Region(blocks[0]), Region(blocks[1])), weakest)
