"""
scf: structured control flow becomes basic blocks. Blocks open and close in the order of the text;
phis whose incoming values are not written yet are filled in when they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.par import RARELY
from mlc.dialects.tile.control import NO_UNROLL
from mlc.lowering.emit.function import FunctionText, Rules
from mlc.lowering.emit.types import EmitError

RULES = Rules()


class Phis:
    """The phis at the head of a block, for values that may be memrefs."""

    def __init__(self, e: FunctionText, values: Sequence[SSAValue]) -> None:
        self.e = e
        self.values = values
        self.types = [text for value in values for text in e.flatten_types(value.type)]
        self.names: list[str] = []
        self.incoming: list[list[str]] = [[] for _ in self.types]
        self.first_line = 0

    def place(self) -> None:
        """Takes the lines at the current position (the block has just been opened)."""
        self.names = [self.e.fresh() for _ in self.types]
        self.first_line = len(self.e.lines)
        self.e.lines += [""] * len(self.types)
        names = iter(self.names)
        for value in self.values:
            self.e.bind(value, names)

    def come_from(self, values: Sequence[SSAValue]) -> None:
        """The current block jumps here and brings `values`."""
        parts = [part for value in values for part in self.e.flatten(value)]
        for part, sources in zip(parts, self.incoming, strict=True):
            sources.append(f"[ {part}, %{self.e.block} ]")

    def fill(self) -> None:
        """Writes the phis: all incoming edges are known."""
        for k, (name, spelled) in enumerate(zip(self.names, self.types, strict=True)):
            sources = ", ".join(self.incoming[k])
            self.e.lines[self.first_line + k] = f"  {name} = phi {spelled} {sources}"


def terminator(e: FunctionText, block: Block) -> Operation:
    """The last op of a block."""
    last = block.last_op
    if last is None:
        raise EmitError(f"emit: @{e.name}: a block without terminator")
    return last


def _for(e: FunctionText, op: scf.ForOp) -> None:
    lower, upper, step, *initial = op.operands
    body = op.regions[0].block
    induction, *carried = body.args
    spelled = e.type(induction.type)
    head, inside, done = e.labels("for", "body", "end")

    start, limit, stride = e[lower], e[upper], e[step]
    phis = Phis(e, carried)
    phis.come_from(initial)
    entered_from = e.block
    e.enter_loop()
    counter, following = e.fresh(), e.fresh()
    e.jump(head)
    e.open(head)
    counter_line = len(e.lines)
    e.lines.append("")
    phis.place()
    e[induction] = counter
    test = e.put(f"icmp slt {spelled} {counter}, {limit}")
    e.branch(test, inside, done)

    e.open(inside)
    accesses = e.vector_accesses
    e.run(body)
    phis.come_from(terminator(e, body).operands)
    # An index counts elements in memory, far below 2^62: the step past the end cannot overflow.
    safe = isinstance(induction.type, IndexType) or stride == "1"
    e.lines.append(f"  {following} = add {'nsw ' if safe else ''}{spelled} {counter}, {stride}")
    e.lines[counter_line] = (
        f"  {counter} = phi {spelled} [ {start}, %{entered_from} ], [ {following}, %{e.block} ]"
    )
    metadata = _loop_metadata(e, op, has_vectors=e.vector_accesses > accesses)
    e.do(f"br label %{head}, !llvm.loop {metadata}")
    phis.fill()
    e.leave_loop()

    e.open(done)
    for result, value in zip(op.results, carried, strict=True):
        _same(e, result, value)


def _loop_metadata(e: FunctionText, op: Operation, *, has_vectors: bool) -> str:
    properties = ['!{!"llvm.loop.mustprogress"}']
    if NO_UNROLL in op.attributes:
        properties.append('!{!"llvm.loop.unroll.disable"}')
    unroll = op.attributes.get("mlc.unroll")
    if unroll is not None:
        count = cast("IntegerAttr[IntegerType]", unroll).value.data
        properties.append(f'!{{!"llvm.loop.unroll.count", i32 {count}}}')
    if has_vectors:
        properties.append('!{!"llvm.loop.vectorize.enable", i1 false}')
    return e.module.loop_metadata(properties)


def _same(e: FunctionText, result: SSAValue, value: SSAValue) -> None:
    """`result` is another name of `value`."""
    buffer = e.buffers.get(id(value))
    if buffer is not None:
        e.buffers[id(result)] = buffer
    else:
        e[result] = e[value]


def _if(e: FunctionText, op: scf.IfOp) -> None:
    then_region, else_region = op.regions
    has_else = else_region.first_block is not None
    then, otherwise, done = e.labels("if", "else", "end")
    rarely = RARELY in op.attributes
    e.branch(e[op.operands[0]], then, otherwise if has_else else done, rarely=rarely)
    phis = Phis(e, op.results)

    e.open(then)
    e.run(then_region.block)
    phis.come_from(terminator(e, then_region.block).operands)
    e.jump(done)
    if has_else:
        e.open(otherwise)
        e.run(else_region.block)
        phis.come_from(terminator(e, else_region.block).operands)
        e.jump(done)
    e.open(done)
    phis.place()
    phis.fill()


def _while(e: FunctionText, op: scf.WhileOp) -> None:
    before, after = op.regions[0].block, op.regions[1].block
    head, inside, done = e.labels("while", "body", "end")
    phis = Phis(e, before.args)
    phis.come_from(op.operands)
    e.enter_loop()
    e.jump(head)
    e.open(head)
    phis.place()
    e.run(before)
    condition, *forwarded = terminator(e, before).operands
    e.branch(e[condition], inside, done)

    e.open(inside)
    for argument, value in zip(after.args, forwarded, strict=True):
        _same(e, argument, value)
    e.run(after)
    phis.come_from(terminator(e, after).operands)
    e.jump(head)
    phis.fill()
    e.leave_loop()

    e.open(done)
    for result, value in zip(op.results, forwarded, strict=True):
        _same(e, result, value)


def _index_switch(e: FunctionText, op: scf.IndexSwitchOp) -> None:
    default, *regions = op.regions
    cases = cast("DenseArrayBase[IntegerType]", op.properties["cases"]).get_values()
    stems = [f"case{k}" for k in range(len(cases))]
    first, *labels, done = e.labels("switch", *stems, "end")
    targets = " ".join(
        f"i64 {case}, label %{label}" for case, label in zip(cases, labels, strict=True)
    )
    e.do(f"switch i64 {e[op.operands[0]]}, label %{first} [ {targets} ]")
    phis = Phis(e, op.results)
    for label, region in zip((first, *labels), (default, *regions), strict=True):
        e.open(label)
        e.run(region.block)
        phis.come_from(terminator(e, region.block).operands)
        e.jump(done)
    e.open(done)
    phis.place()
    phis.fill()


def _execute_region(e: FunctionText, op: scf.ExecuteRegionOp) -> None:
    block = op.regions[0].block
    e.run(block)
    for result, value in zip(op.results, terminator(e, block).operands, strict=True):
        _same(e, result, value)


def nothing(e: FunctionText, op: Operation) -> None:
    """Terminators are written by the op that owns the region."""


RULES.on(scf.ForOp, _for)
RULES.on(scf.IfOp, _if)
RULES.on(scf.WhileOp, _while)
RULES.on(scf.IndexSwitchOp, _index_switch)
RULES.on(scf.ExecuteRegionOp, _execute_region)
RULES[scf.YieldOp] = nothing
RULES[scf.ConditionOp] = nothing
