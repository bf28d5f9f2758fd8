"""
Derivatives that are written out while their function is traced, where something must know their ops
by then (private.py), and what is called later: the way back and the way forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, SSAValue

from mlc.frontend.errors import LeakError, at_user_lines, located
from mlc.frontend.trace.regions import Carry
from mlc.frontend.trace.subprogram import Subprogram, inline
from mlc.frontend.trace.trace import here
from mlc.frontend.transforms.derivative_arguments import like
from mlc.frontend.transforms.derivatives import Renamed, filled
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.active import Varied
from mlc.passes.tensor.derivative.emit import Emitter, read_inside
from mlc.passes.tensor.derivative.forward import push_forward
from mlc.passes.tensor.derivative.reverse import pull_back

Found = list[SSAValue | None]


def pulled(sub: Subprogram, count: int) -> tuple[Subprogram, list[SSAValue], Block, Found]:
    """
    What was traced, its outputs, and a block that makes of cotangents of the first `count` of them
    those of its arguments: None for zero.
    """
    sub = sub.written_out()
    outputs = sub.outputs
    into = Block(arg_types=[x.type for x in outputs[:count]])
    seeds = [*into.args, *(None for _ in outputs[count:])]
    with at_user_lines():
        values, found = pull_back(sub.block.ops, outputs, sub.block.args, into, seeds)
    return sub, values, into, found


def pushed(sub: Subprogram) -> tuple[Subprogram, list[SSAValue], list[SSAValue], Found]:
    """What was traced, its new arguments for tangents, its outputs and their tangents."""
    sub = sub.written_out()
    arguments = list(sub.block.args)
    tangents: list[SSAValue] = [
        sub.block.insert_arg(x.type, len(sub.block.args)) for x in arguments
    ]
    with at_user_lines():
        values, found = push_forward(sub.block, sub.outputs, arguments, tangents)
    return sub, tangents, values, found


def split(block: Block, tangents: Sequence[SSAValue]) -> tuple[Block, Renamed]:
    """
    Takes the ops that depend on the tangents out of the block, into one of their own. What results
    of theirs that do not depend on them are called in the block is given second.
    """
    kept: Renamed = {}
    linear = Block(arg_types=[x.type for x in tangents])
    depends = Varied(tangents).mark(block.ops)
    zeros = Emitter(Block())
    for op in list(block.ops):
        if not any(x in depends for x in op.results):
            continue
        if not all(x in depends for x in op.results):  # a loop: without tangents it stays, too
            read = [*op.operands, *read_inside(op)]
            renamed = {x: zeros.zeros(x.type) for x in read if x in depends}
            stays = op.clone(renamed)
            block.insert_op_before(stays, op)
            for old, new in zip(op.results, stays.results, strict=True):
                if old not in depends:
                    old.replace_all_uses_with(new)
                    kept[old] = new
        op.detach()
        linear.add_op(op)
    first = block.first_op
    for op in list(zeros.block.ops):
        op.detach()
        if first is None:
            block.add_op(op)
        else:
            block.insert_op_before(op, first)
    for old, new in zip(tangents, linear.args, strict=True):
        old.replace_all_uses_with(new)
    return linear, kept


@dataclass
class Later:
    """
    A linear function that is called later, and more than once: a pulled-back or pushed-forward
    block over values of the program.
    """

    name: str
    block: Block
    given: Carry  # what the block's arguments are like
    found: list[SSAValue | None]  # what it gives for each array of `gives`
    gives: Carry
    one: bool = False  # given as several arguments, gives one container

    def __call__(self, *values: Any) -> Any:
        """Its value, as ops of the program."""
        value = values if self.one else values[0]
        arguments = like(self.name, self.given, value)
        block, found = copy_of(self.block, self.found)
        _check_visible(self.name, block)
        return filled(self.gives, place(block, arguments, found))


def copy_of(block: Block, values: Sequence[SSAValue | None]) -> tuple[Block, list[SSAValue | None]]:
    """A copy of a block, and what values of it are called there."""
    new = Block(arg_types=[x.type for x in block.args])
    renamed: Renamed = dict(zip(block.args, new.args, strict=True))
    Emitter(new).copies(block.ops, renamed)
    return new, [None if x is None else renamed.get(x, x) for x in values]


def _check_visible(name: str, block: Block) -> None:
    trace = here()
    inside = {*block.args, *(x for op in block.ops for x in op.results)}
    for op in block.ops:
        for x in (*op.operands, *read_inside(op)):
            if x not in inside and not trace.visible(x):
                message = (
                    f"{name}: the function that it gave is called outside of the loop or branch"
                    " that it is from; expected a call inside, where its values are known."
                )
                remedy = f"Return what it gives, or call mlc.{name} where this call is."
                raise located(LeakError, message, remedy=remedy)


def place(
    block: Block, arguments: Sequence[SSAValue], values: Sequence[SSAValue | None]
) -> list[SSAValue | None]:
    """Puts a block into the program; its values as they are called afterwards."""
    renamed: Renamed = dict(zip(block.args, arguments, strict=True))
    inline(block, arguments, ())
    return [None if x is None else renamed.get(x, x) for x in values]
