"""
Ops with regions over a batch.

What decides the way may be the same for all examples: then the op stays what it is. Where it
differs, every way that some example takes is gone, and a select per example keeps what it would
have: an `if` runs both branches, a `for` to the largest count, a `while` as long as any example
goes on. Code that an example would not have run must not fail, or loop without end, on its account;
see `Batcher.mask`, and `_branch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.comparison import CompareOp
from mlc.dialects.tensor.control import (
    ControlOp,
    ForOp,
    IfOp,
    WhileOp,
    YieldOp,
    loop_region,
    yield_of,
)
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.dialects.tensor.shape import broadcast_to

if TYPE_CHECKING:
    from mlc.passes.tensor.batching.block import Batcher
    from mlc.passes.tensor.batching.spread import Spread


class ControlRule(Protocol):
    """What one class of ops with regions does over a batch."""

    def spread(self, s: Spread, op: Any) -> None:
        """Marks what varies in its regions and of its results."""
        ...

    def emit(self, c: Batcher, op: Any) -> None:
        """Adds the batched op and binds the results."""
        ...


class IfRule:
    """`mlc.if`"""

    def spread(self, s: Spread, op: IfOp) -> None:
        for block in op.blocks:
            s.block(block)
        decided = s.varies(op.condition)
        ends = [yield_of(block).values for block in op.blocks]
        for result, then, otherwise in zip(op.outs, *ends, strict=True):
            if decided or s.varies(then) or s.varies(otherwise):
                s.mark([result])

    def emit(self, c: Batcher, op: IfOp) -> None:
        condition = c.now(op.condition)
        if not c.varies(op.condition):
            regions = [self._region(c, op, block) for block in op.blocks]
            new = IfOp(condition, *regions)
            _insert_like(c, new, op)
            return
        then, otherwise = (
            _branch(c, block, c.both(c.mask, taken))
            for block, taken in zip(op.blocks, (condition, c.others(condition)), strict=True)
        )
        pairs = zip(then, otherwise, strict=True)
        c.bind(op.outs, [c.choose(condition, x, y) for x, y in pairs])

    def _region(self, c: Batcher, op: IfOp, block: Block) -> Region:
        made = Block()
        with c.inside(made):
            c.block(block)
            pairs = zip(yield_of(block).values, op.outs, strict=True)
            c.insert(YieldOp.create(operands=[c.like(x, result) for x, result in pairs]))
        return Region(made)


def _branch(c: Batcher, block: Block, mask: SSAValue) -> list[SSAValue]:
    """
    What the block ends with, for each example; only what those in the mask get is used. Nothing of
    it runs where there are none, if it loops or may fail: so that a failure, or a loop without end,
    is always that of an example.
    """

    def run() -> list[SSAValue]:
        with c.masked(mask):
            c.block(block)
            return [c.lanes(x) for x in yield_of(block).values]

    if _only_computes(block):
        return run()
    then, otherwise = Block(), Block()
    with c.inside(then):
        c.insert(YieldOp.create(operands=run()))
    with c.inside(otherwise):
        c.insert(YieldOp.create(operands=[c.zeros(x) for x in yield_of(block).values]))
    op = IfOp(c.some(mask), Region(then), Region(otherwise))
    c.insert(op)
    return list(op.outs)


def _only_computes(block: Block) -> bool:
    """Whether the block neither loops nor fails, whatever the values."""
    return not any(
        (isinstance(op, ControlOp) and op.repeats) or (isinstance(op, TensorOp) and op.CHECKS)
        for outer in block.ops
        for op in outer.walk()
    )


class ForRule:
    """`mlc.for`"""

    def spread(self, s: Spread, op: ForOp) -> None:
        _index, *carried = op.body.block.args
        ends = op.yielded.values
        if s.varies(op.count):
            s.mark(x for x, end in zip(carried, ends, strict=True) if end is not x)
        _spread_carry(s, op, carried, (op.body.block,), ends)

    def emit(self, c: Batcher, op: ForOp) -> None:
        _index, *carried = op.body.block.args
        starts = [c.like(x, model) for x, model in zip(op.inits, carried, strict=True)]
        count, counts = c.now(op.count), None
        if c.varies(op.count):
            counts = count
            if c.mask is not None:
                counts = c.choose(c.mask, count, c.zeros(op.count))
            count = _largest(c, counts)
        region = loop_region([x.type for x in starts])
        block = region.block
        c.bind(op.body.block.args, block.args)
        with c.inside(block):
            active = c.mask
            if counts is not None:
                trip = broadcast_to(c.b, block.args[0], (c.size,))
                active = c.b(CompareOp, trip, counts, predicate="lt")
            with c.masked(active):
                c.block(op.body.block)
            following = [
                c.like(x, model) for x, model in zip(op.yielded.values, carried, strict=True)
            ]
            if counts is not None:
                following = _kept(c, active, following, carried)
            c.insert(YieldOp.create(operands=following))
        _insert_like(c, ForOp(count, starts, region), op)


def _largest(c: Batcher, counts: SSAValue) -> SSAValue:
    """The largest count, 0 for an empty batch."""
    if not c.size.constant:
        zero, one = Dim.const(0), Dim.const(1)
        counts = c.b(PadOp, counts, full(c.b, 0, I64, ()), low=(zero,), high=(one,))
    return c.b(ReduceOp, counts, monoid="max", letters="a->")


def _kept(
    c: Batcher,
    active: SSAValue | None,
    following: Sequence[SSAValue],
    carried: Sequence[SSAValue],
) -> list[SSAValue]:
    """The carried values of the next trip; an example that is not active keeps what it has."""
    assert active is not None
    pairs = zip(following, carried, strict=True)
    return [c.choose(active, new, c.now(x)) if c.varies(x) else new for new, x in pairs]


class WhileRule:
    """
    `mlc.while`. Where the condition varies, which examples go on is carried along, so that it is
    computed once in each trip.
    """

    def spread(self, s: Spread, op: WhileOp) -> None:
        test, body = op.blocks
        ends = yield_of(body).values
        while True:
            _spread_carry(s, op, body.args, (test, body), ends)
            if not s.varies(op.test):
                return
            if not s.mark(x for x, end in zip(body.args, ends, strict=True) if end is not x):
                return

    def emit(self, c: Batcher, op: WhileOp) -> None:
        pairs = zip(op.inits, op.body.block.args, strict=True)
        starts = [c.like(x, model) for x, model in pairs]
        if c.varies(op.test):
            self._by_example(c, op, starts)
            return
        regions: list[Region] = []
        for old in op.blocks:
            block = Block(arg_types=[x.type for x in starts])
            c.bind(old.args, block.args)
            with c.inside(block):
                c.block(old)
                models = op.body.block.args if old is op.body.block else [op.test]
                pairs = zip(yield_of(old).values, models, strict=True)
                c.insert(YieldOp.create(operands=[c.like(x, model) for x, model in pairs]))
            regions.append(Region(block))
        _insert_like(c, WhileOp(starts, *regions), op)

    def _by_example(self, c: Batcher, op: WhileOp, starts: list[SSAValue]) -> None:
        active = c.both(c.mask, self._test(c, op, starts))
        types = [active.type, *(x.type for x in starts)]
        test, body = Block(arg_types=types), Block(arg_types=types)
        with c.inside(test):
            c.insert(YieldOp.create(operands=[c.some(test.args[0])]))
        going, *values = body.args
        old = op.body.block
        c.bind(old.args, values)
        with c.inside(body), c.masked(going):
            c.block(old)
            pairs = zip(yield_of(old).values, old.args, strict=True)
            following = _kept(c, going, [c.like(x, model) for x, model in pairs], old.args)
            goes_on = c.both(going, self._test(c, op, following))
            c.insert(YieldOp.create(operands=[goes_on, *following]))
        loop = WhileOp([active, *starts], Region(test), Region(body))
        loop.attributes |= op.attributes
        c.insert(loop)
        c.bind(op.outs, loop.outs[1:])

    def _test(self, c: Batcher, op: WhileOp, values: Sequence[SSAValue]) -> SSAValue:
        """The condition for these carried values."""
        block = op.condition.block
        c.bind(block.args, values)
        c.block(block)
        return c.now(op.test)


class RuleRule:
    """
    `mlc.rule`: body and rules over the batch. All results of one with rules vary, so that each
    example has cotangents of its own; that of an operand which is the same for all examples is the
    sum of theirs.
    """

    def spread(self, s: Spread, op: RuleOp) -> None:
        kind = op.kind.data
        given = [s.varies(x) for x in op.inputs]
        self._enter(s, op.body.block, given)
        if kind == "checkpoint":
            ends = yield_of(op.body.block).values
            s.mark(x for x, end in zip(op.outs, ends, strict=True) if s.varies(end))
            return
        s.mark(op.outs)
        rules = [region.block for region in op.rules]
        self._enter(s, rules[0], given * 2 if kind == "jvp" else given)
        if kind == "vjp":
            residuals = yield_of(rules[0]).values[op.count :]
            self._enter(s, rules[1], [*map(s.varies, residuals), *[True] * op.count])

    def _enter(self, s: Spread, block: Block, flags: Sequence[bool]) -> None:
        s.mark(x for x, flag in zip(block.args, flags, strict=True) if flag)
        s.block(block)

    def emit(self, c: Batcher, op: RuleOp) -> None:
        kind, outs = op.kind.data, list(op.outs)
        regions = [self._region(c, op.body.block, outs)]
        rules = [region.block for region in op.rules]
        if kind == "jvp":
            regions.append(self._region(c, rules[0], outs[: op.count] * 2))
        if kind == "vjp":
            residuals = list(yield_of(rules[0]).values[op.count :])
            regions.append(self._region(c, rules[0], [*outs[: op.count], *residuals]))
            regions.append(self._backward(c, op, rules[1]))
        body, *others = regions
        new = RuleOp.create(
            operands=[c.now(x) for x in op.inputs],
            result_types=[x.type for x in yield_of(body.block).values],
            properties=op.properties,
            regions=[body, *others],
        )
        _insert_like(c, new, op)

    def _region(self, c: Batcher, old: Block, models: Sequence[SSAValue]) -> Region:
        block = c.fresh(old)
        with c.inside(block):
            c.block(old)
            pairs = zip(yield_of(old).values, models, strict=True)
            c.insert(YieldOp.create(operands=[c.like(x, model) for x, model in pairs]))
        return Region(block)

    def _backward(self, c: Batcher, op: RuleOp, old: Block) -> Region:
        block = c.fresh(old)
        with c.inside(block):
            c.block(old)
            pairs = zip(yield_of(old).values, op.inputs, strict=True)
            found = [(c.lanes(x), c.varies(operand)) for x, operand in pairs]
            ends = [x if varies else c.total(x) for x, varies in found]
            c.insert(YieldOp.create(operands=ends))
        return Region(block)


def _spread_carry(
    s: Spread,
    op: ForOp | WhileOp,
    carried: Sequence[SSAValue],
    blocks: Sequence[Block],
    ends: Sequence[SSAValue],
) -> None:
    """Marks the carried values that vary, until another trip marks none; then the results."""
    s.mark(x for x, start in zip(carried, op.inits, strict=True) if s.varies(start))
    while True:
        for block in blocks:
            pairs = zip(block.args[len(block.args) - len(carried) :], carried, strict=True)
            s.mark(x for x, model in pairs if s.varies(model))
            s.block(block)
        if not s.mark(x for x, end in zip(carried, ends, strict=True) if s.varies(end)):
            break
    s.mark(x for x, model in zip(op.outs, carried, strict=True) if s.varies(model))


def _insert_like(c: Batcher, new: ControlOp, op: ControlOp) -> None:
    new.attributes |= op.attributes
    c.insert(new)
    c.bind(op.results, new.results)


class BindRule:
    """`mlc.bind`: a size is one for all examples."""

    def spread(self, s: Spread, op: BindOp) -> None:
        pass

    def emit(self, c: Batcher, op: BindOp) -> None:
        raise ShapeError(
            "how many elements a mask picks differs from example to example of vmap; sums and"
            " extrema of x[mask] do, and x = np.where(mask, x, 0) keeps one size"
        )


RULES: dict[type[ControlOp], ControlRule] = {
    IfOp: IfRule(),
    ForOp: ForRule(),
    WhileOp: WhileRule(),
    RuleOp: RuleRule(),
    BindOp: BindRule(),
}
"""One line for each op with regions."""


def rule_of(op: ControlOp) -> ControlRule:
    """The op's rule; NotImplementedError where it has none."""
    rule = RULES.get(type(op))
    if rule is None:
        raise NotImplementedError(f"{op.name} does not state how it is batched")
    return rule
