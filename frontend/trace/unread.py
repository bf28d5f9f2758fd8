"""
Checks whose values nothing reads: `x[n]` raises IndexError also where the element is not used.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import partial, reduce

from xdsl.ir import Block, Operation, OpResult, SSAValue, SSAValues

from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.tensor.calls import DerivativeUse, FunctionUse, uses_of_functions
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import INDEX, ControlOp, WhileOp, YieldOp, yield_of
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import ALPHABET, split
from mlc.dialects.tensor.library import TRANSFORMS, LibraryOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.frontend.trace.trace import Trace, here

Question = tuple[object, ...]
"""What a check asks."""


def unread_checks(trace: Trace, results: Sequence[SSAValue]) -> tuple[list[SSAValue], bool]:
    """
    What no result needs of what may fail: a number that is made of it, as a result to have; and
    whether there is more, which passes drop.
    """
    if not trace.checks:
        return [], False
    from mlc.passes.tensor.dce import needed

    unread = _Unread(needed(trace.block, results), trace)
    total = unread.total(trace.block, frozenset())
    return [] if total is None else [total], unread.left


def asked_in(blocks: Sequence[Block]) -> list[SSAValue]:
    """Numbers that are made of what may fail in blocks, one for each; none where nothing may."""
    totals = [_Unread((), here()).total(block, frozenset()) for block in blocks]
    if all(x is None for x in totals):
        return []
    return [_sum(block, [*filter(None, [x])]) for block, x in zip(blocks, totals, strict=True)]


class _Unread:
    """Of one program; `read`: what its results need."""

    def __init__(self, read: Container[SSAValue], trace: Trace) -> None:
        self.read = read
        self.trace = trace
        self.left = False  # whether something stays unread

    def total(self, block: Block, asked: frozenset[Question]) -> SSAValue | None:
        """
        The sum of what a block and the regions in it ask and nobody reads. `asked`: what has been
        asked wherever the block runs.
        """
        for op in list(block.ops):
            if isinstance(op, WhileOp) and self._asks(op.condition.block):
                _ask_behind(op)
        own = [op for op in block.ops if may_raise(op)]
        asked |= {_question(op) for op in own if op.results[0] in self.read}
        once = {_question(op): op for op in reversed(own)}
        unread = {question: op for question, op in once.items() if question not in asked}
        asked |= unread.keys()
        inside = [self._of_regions(op, asked) for op in block.ops if isinstance(op, ControlOp)]
        values: list[SSAValue] = [op.results[0] for op in unread.values()]
        values += [x for op in block.ops if isinstance(op, FunctionUse) for x in self._given(op)]
        values += filter(None, inside)
        return _sum(block, values) if values else None

    def _given(self, use: FunctionUse) -> Sequence[SSAValue]:
        """
        What a function gives that may fail before it is there, and nobody reads; a derivative asks
        itself what it is a derivative of.
        """
        if not _is_unread_in(use, self.read, self.trace):
            return []
        ends = self.trace.block_of(use).last_op
        assert ends is not None
        asked = use.numbers("of") if isinstance(use, DerivativeUse) else ()
        self.left = self.left or bool(asked)
        given = enumerate(use.results[: len(ends.operands)])
        return [x for k, x in given if k not in asked and x not in self.read]

    def _of_regions(self, op: ControlOp, asked: frozenset[Question]) -> SSAValue | None:
        """A result more of an op: the sum of what its regions ask, in all trips."""
        if op.IS_RIGID:
            self.left = self.left or any(map(self._asks, op.blocks))
            return None
        totals = [self.total(block, asked) for block in op.yielding()]
        if all(x is None for x in totals):
            return None
        if op.repeats:
            op.operands = [*op.operands, full(_before(op), 0, I64, ())]
            for block in op.blocks:
                block.insert_arg(INDEX, len(block.args))
        for block, x in zip(op.yielding(), totals, strict=True):
            end = yield_of(block)
            found = [*filter(None, [x]), *(block.args[-1:] if op.repeats else ())]
            end.operands = [*end.operands, _sum(block, found)]
        op.results = SSAValues([*op.results, OpResult(INDEX, op, len(op.results))])
        return op.results[-1]

    def _asks(self, block: Block) -> bool:
        return any(may_raise(op) and op.results[0] not in self.read for op in block.walk())


def _ask_behind(loop: WhileOp) -> None:
    """
    A loop of which the test is a value that it carries: it is computed before the loop and behind
    each trip, where what it asks besides can be added up.
    """
    test, body = loop.condition.block, loop.body.block
    last, before = yield_of(body), _before(loop)
    first = _copied(test, loop.inits, before)
    following = _copied(test, last.values, _before(last))
    last.operands = [*last.operands, following]
    for op in reversed(list(test.ops)):
        test.erase_op(op)
    loop.operands = [*loop.operands, first]
    for block in loop.blocks:
        block.insert_arg(first.type, len(block.args))
    test.add_op(YieldOp.create(operands=[test.args[-1]]))
    loop.results = SSAValues([*loop.results, OpResult(first.type, loop, len(loop.results))])


def _copied(test: Block, values: Sequence[SSAValue], b: OpBuilder) -> SSAValue:
    """What a test gives of other values."""
    known: dict[SSAValue, SSAValue] = dict(zip(test.args, values, strict=True))
    for op in test.ops:
        if isinstance(op, YieldOp):
            return known.get(op.operands[0], op.operands[0])
        b.insert(op.clone(known))
    raise AssertionError("a block ends with what it yields")


def _is_unread_in(use: FunctionUse, read: Container[SSAValue], trace: Trace) -> bool:
    """Whether something may fail in a function that is used, and its results do not need it."""
    from mlc.passes.tensor.dce import needed

    block = trace.block_of(use)
    assert block.last_op is not None
    ends = zip(block.last_op.operands, use.results, strict=False)
    own = needed(block, [value for value, result in ends if result in read])
    checks = (op for op in block.walk() if may_raise(op))
    return any(op.results[0] not in own for op in checks) or any(
        _is_unread_in(inner, own, trace) for inner in uses_of_functions(block)
    )


def _question(op: Operation) -> Question:
    """What is asked: two ops that ask the same fail together."""
    if isinstance(op, GatherOp | ScatterOp):  # whether places lie on axes of the first operand
        word, shape = split(op.letters.data)[0][0], shape_of(op.operands[0].type)
        asked = [(op.indices[int(c)], d) for c, d in zip(word, shape, strict=True) if c.isdigit()]
        return GatherOp, frozenset((_number(x), d) for x, d in asked)
    routine = op.routine if isinstance(op, LibraryOp) else None
    return type(op), routine, *map(_number, op.operands), *(x.type for x in op.results)


def _number(value: SSAValue) -> object:
    """A value; of a size or a constant what it is, wherever it was asked for."""
    op = value.owner
    if isinstance(op, Block) or op.operands or op.regions:
        return value
    return type(op), *sorted(op.properties.items(), key=lambda x: x[0])


def may_raise(op: Operation) -> bool:
    """Whether an op may end the call with an error."""
    if isinstance(op, LibraryOp):
        return op.routine.data not in (*TRANSFORMS, "tell")
    return isinstance(op, TensorOp) and op.may_fail


def _before(op: Operation) -> OpBuilder:
    block = op.parent
    assert block is not None
    return OpBuilder(lambda new: block.insert_op_before(new, op))


def _sum(block: Block, values: Sequence[SSAValue]) -> SSAValue:
    """An integer that is made of all of the values, at the end of their block."""
    end = block.last_op
    b = _before(end) if isinstance(end, YieldOp) else OpBuilder(block.add_op)
    if not values:
        return full(b, 0, I64, ())
    return reduce(partial(b, AddOp), (_whole(b, x) for x in values))


def _whole(b: OpBuilder, x: SSAValue) -> SSAValue:
    """An integer that is made of all elements."""
    shape = shape_of(x.type)
    dtype = element_dtype(x)
    for kind in () if dtype is I64 else (I64,) if dtype.kind == "int" else (BOOL, I64):
        x = x if dtype is kind else b(ConvertOp, x, declared=tensor_type(kind.ir, shape))
    letters = ALPHABET[: len(shape)]
    return b(ReduceOp, x, monoid="sum", letters=f"{letters}->") if shape else x
