"""
Derivatives that are written out while their function is traced, where something must know their ops
by then (private.py), and what is called later: the way back and the way forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, SSAValue

from mlc.frontend.errors import at_user_lines
from mlc.frontend.trace.regions import Carry
from mlc.frontend.trace.subprogram import Subprogram, inline
from mlc.frontend.transforms.derivative_arguments import like
from mlc.frontend.transforms.later import check_visible, filled
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.emit import Emitter, read_inside
from mlc.passes.tensor.derivative.forward import push_forward
from mlc.passes.tensor.derivative.reverse import pull_back
from mlc.passes.tensor.made_of import linearized

Found = list[SSAValue | None]
Renamed = dict[SSAValue, SSAValue]


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


def linear(sub: Subprogram) -> tuple[Subprogram, list[SSAValue], Block, Found]:
    """What was traced, its outputs, a block for tangents of its arguments, and those it gives."""
    sub = sub.written_out()
    with at_user_lines():
        values, block, found = linearized(sub.block, sub.outputs, list(sub.block.args))
    return sub, values, block, found


@dataclass
class LaterAtOnce:
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
        inside = {*block.args, *(x for op in block.ops for x in op.results)}
        read = (x for op in block.ops for x in (*op.operands, *read_inside(op)))
        check_visible(self.name, [x for x in read if x not in inside])
        return filled(self.gives, place(block, arguments, found))


def copy_of(block: Block, values: Sequence[SSAValue | None]) -> tuple[Block, list[SSAValue | None]]:
    """A copy of a block, and what values of it are called there."""
    new = Block(arg_types=[x.type for x in block.args])
    renamed: Renamed = dict(zip(block.args, new.args, strict=True))
    Emitter(new).copies(block.ops, renamed)
    return new, [None if x is None else renamed.get(x, x) for x in values]


def place(
    block: Block, arguments: Sequence[SSAValue], values: Sequence[SSAValue | None]
) -> list[SSAValue | None]:
    """Puts a block into the program; its values as they are called afterwards."""
    renamed: Renamed = dict(zip(block.args, arguments, strict=True))
    inline(block, arguments, ())
    return [None if x is None else renamed.get(x, x) for x in values]
