"""
What elements of a are too much, summed once for all rows that meet a panel of b.

```
for %n in 1024 step 32 {                    for %n in 1024 step 32 {
  for %m in 351 step 13 {                     %z = dot "kc,kcn->n" 128, %b[%n …]
    %s = dot … %a[%m …], %b[%n …] zero(128)   store -%z, %beyond
    store %s, %c                          ->  for %m in 351 step 13 {
                                                %i = map { read %beyond }
                                                %s = dot … %a[%m …], %b[%n …] init %i
                                                store %s, %c
```

A product says `zero(128)` where its instruction takes unsigned elements for signed ones. As long as
it does, its loop sums 128·b as if a had a row more, in registers of its own.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from mlc.dialects.dims import Dim
from mlc.dialects.tensor.control import INDEX as POSITION
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.elementwise import AddOp, NegOp
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import ForOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp, MapOp, ReadOp, scalar
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter, position, positions_in
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import AllocOp, StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import frag_of, frag_type, view_of, view_type


def sum_shifts(kernel: KernelOp) -> None:
    """Takes the sums of what is too much out of products, and of loops over rows."""
    for dot in [op for op in kernel.walk() if isinstance(op, DotOp) and op.zero is not None]:
        if dot.via is not None and len(frag_of(dot.result).shape) == 2:
            _Shift(kernel, dot, _outside(dot)).write()


def _outside(dot: DotOp) -> DotOp | ForOp:
    """A product, or the outermost loop around it in which all trips read the same of b."""
    used = {dot.positions[k] for k in positions_in([*dot.rhs_at.data, *_bounds(dot)])}
    place: DotOp | ForOp = dot
    loop = dot.parent_op()
    while isinstance(loop, ForOp) and not used & {*loop.body.block.args}:
        if any(isinstance(op, CopyOp) and dot.rhs in op.operands for op in loop.walk()):
            break  # another b in each trip
        if loop.deal is not None:
            break  # what begins there, workers begin together
        place, loop = loop, loop.parent_op()
    return place


def _bounds(dot: DotOp) -> list[Dim]:
    return [dim for sizes in dot.summed.values() for dim in sizes.data]


class _Shift:
    """One product whose sums begin with what is taken off."""

    def __init__(self, kernel: KernelOp, dot: DotOp, place: DotOp | ForOp) -> None:
        self.kernel, self.dot, self.place = kernel, dot, place
        self.kind = frag_of(dot.result)
        self.column = "".join(dot.words.result[-1])
        self.columns = frag_type(self.kind.element, self.kind.shape[-1:])

    def write(self) -> None:
        """The sums, where they wait, and the product that begins with them."""
        dot, zeros = self.dot, self.dot.init
        alloc = AllocOp.of("worker", view_type(self.kind.element, self.columns.dims.data))
        alloc.result.name_hint = "beyond"
        first = self.kernel.block.first_op
        assert first is not None
        _put(alloc, first, dot)
        at = ExpressionsAttr((letter(self.column),))
        _put(StoreOp.of(self.taken(), alloc.result, at, (), axes=self.column), self.place, dot)
        block = Block(arg_types=[*([scalar(self.kind.element)] if zeros else []), *[POSITION] * 2])
        value = _element(
            block, ReadOp.of(alloc.result, ExpressionsAttr((position(0),)), [block.args[-1]])
        )
        if zeros is not None:
            value = _element(block, AddOp.make(block.args[0], value))
        block.add_op(YieldOp.of(value))
        inputs = [] if zeros is None else [zeros]
        begin = MapOp.of(inputs, [ExpressionsAttr(())] * 2, (), [self.kind], Region(block))
        _put(begin, dot, dot)
        new = DotOp.of(
            dot.letters.data, (dot.lhs, dot.lhs_at), (dot.rhs, dot.rhs_at), dot.over.data,
            dot.positions, dot.result.type, init=begin.outs[0],
        )  # fmt: skip
        kept = ("via", "clamp", "prefetch")
        new.properties |= {k: v for k, v in dot.properties.items() if k in kept}
        new.attributes |= dot.attributes
        new.location = dot.location
        Rewriter.replace_op(dot, new)

    def taken(self) -> SSAValue:
        """Of each column 0 less what elements of a are too much, times those of b."""
        dot = self.dot
        assert dot.zero is not None
        element, place = view_of(dot.lhs).dtype, [*dot.summed][-1]
        (size,) = dot.summed[place].data
        block = Block(arg_types=[POSITION])
        number = dense(np.full((), dot.zero.value.data, element.numpy), element)
        kinds = [scalar(element.ir)]
        op = ConstantOp.create(result_types=kinds, properties={"value": number})
        block.add_op(YieldOp.of(_element(block, op)))
        every = ElementsOp.of(view_type(element.ir, (size,)), Region(block))
        _put(every, self.place, dot)
        right = "".join(x if len(x) == 1 else f"({x})" for x in dot.words.operands[1])
        own = Positions()
        at = ExpressionsAttr(tuple(own.moved(dot.rhs_at.data, dot.positions)))
        over = [
            (c, ExpressionsAttr(tuple(own.moved(dims.data, dot.positions))))
            for c, dims in dot.summed.items()
        ]
        sums = DotOp.of(
            f"{place},{right}->{self.column}", (every.result, ExpressionsAttr((letter(place),))),
            (dot.rhs, at), tuple(over), own.values, self.columns,
            via=None if dot.via is None else dot.via.data,
        )  # fmt: skip
        _put(sums, self.place, dot)
        block = Block(arg_types=[scalar(self.kind.element)])
        block.add_op(YieldOp.of(_element(block, NegOp.make(block.args[0]))))
        less = MapOp.of([sums.result], (), (), [self.columns], Region(block))
        _put(less, self.place, dot)
        return less.outs[0]


def _element(block: Block, op: Operation) -> SSAValue:
    block.add_op(op)
    return op.results[0]


def _put(op: Operation, before: Operation, dot: DotOp) -> None:
    """In front of another op, as part of the product."""
    op.location = dot.location
    block = before.parent
    assert block is not None
    block.insert_op_before(op, before)
