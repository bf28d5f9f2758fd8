"""Random programs of nested `if`, `for` and `while` over small integer tensors."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.comparison import CompareOp
from mlc.dialects.tensor.control import (
    INDEX,
    ForOp,
    IfOp,
    WhileOp,
    YieldOp,
    loop_region,
)
from mlc.dialects.tensor.create import ConstantOp, SizeOp, dense, full
from mlc.dialects.tensor.elementwise import AddOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import ReshapeOp, TransposeOp, broadcast_to

ROWS, COLUMNS = Dim.const(2), Dim.const(3)
SHAPE = (ROWS, COLUMNS)
MATRIX = tensor_type(I64.ir, SHAPE)
FLAT = tensor_type(I64.ir, (ROWS * COLUMNS,))
ROW = tensor_type(I64.ir, (Dim.const(1), COLUMNS))
TYPES = (MATRIX, MATRIX, FLAT)
MAX_DEPTH = 3


class Regions:
    """Builds one program. All values of one type may meet in one group of buffers."""

    def __init__(self, rng: random.Random, block: Block, symbol: str) -> None:
        self.rng = rng
        self.symbol = symbol
        self.values: list[SSAValue] = list(block.args[:3])
        self.scalar = block.args[3]
        self.b = OpBuilder(block.add_op)
        self.depth = 0
        self.carried: list[SSAValue] = []  # of the innermost region, as they are by now

    def any(self, kind: object = MATRIX) -> SSAValue:
        """A value of the type; rather a late one."""
        fitting = [x for x in self.values if x.type == kind]
        if not fitting:
            source = self.any(FLAT if kind == MATRIX else MATRIX)
            return self.b(ReshapeOp, source, declared=kind)  # pyright: ignore[reportArgumentType]
        return self.rng.choice(fitting[-5:] if self.rng.random() < 0.7 else fitting)

    def steps(self, count: int) -> None:
        """So many ops."""
        for _ in range(count):
            makers: list[Callable[[], object]] = [self.arithmetic] * 4
            makers += [self.view, self.update, self.update]
            if self.depth < MAX_DEPTH:
                makers += [self.for_, self.while_, self.if_] * 2
            self.rng.choice(makers)()

    def arithmetic(self) -> None:
        """x + y, x - y, x * y, -x."""
        op: type[TensorOp] = self.rng.choice((AddOp, SubOp, MulOp, NegOp))
        operands = [self.any()] if op is NegOp else [self.any(), self.any()]
        self.values.append(self.b(op, *operands))

    def view(self) -> None:
        """The same elements in another shape, or turned over; or equal ones."""
        kind = self.rng.choice((MATRIX, FLAT))
        draw = self.rng.randrange(3)
        if draw == 0:
            source = self.any(FLAT if kind == MATRIX else MATRIX)
            self.values.append(self.b(ReshapeOp, source, declared=kind))
        elif draw == 1:
            turned = self.b(TransposeOp, self.any(), letters="ab->ba")
            self.values.append(self.b(ReshapeOp, turned, declared=FLAT))
        else:
            self.values.append(full(self.b, self.rng.randrange(3), I64, SHAPE))

    def position(self) -> SSAValue:
        """A row's number, which may be out of range."""
        if self.rng.random() < 0.5:
            return self.number(self.rng.randrange(-1, 3))
        return self.scalar

    def update(self) -> None:
        """One row of a matrix is replaced, by a row of another or of itself."""
        zero = self.number(0)
        mine = [x for x in self.carried if x.type == MATRIX]
        target = self.rng.choice(mine) if mine and self.rng.random() < 0.7 else self.any()
        source = target if self.rng.random() < 0.3 else self.any()
        row = self.b(DynamicSliceOp, source, self.position(), zero, declared=ROW)
        if self.rng.random() < 0.5:
            row = self.b(AddOp, row, row)
        self.values.append(self.b(DynamicUpdateOp, target, row, self.position(), zero))
        if target in self.carried:
            self.carried = [self.values[-1] if x is target else x for x in self.carried]

    def number(self, value: int) -> SSAValue:
        """A constant number."""
        return self.b(ConstantOp, value=dense(np.asarray(value), I64))

    def count(self) -> SSAValue:
        """A trip count: a constant, a size, an argument."""
        draw = self.rng.randrange(4)
        if draw == 0:
            return self.b(SizeOp, dims=(Dim.symbol(self.symbol),))
        return self.scalar if draw == 1 else self.number(self.rng.randrange(-1, 4))

    def condition(self) -> SSAValue:
        """Whether some value's sum is negative."""
        letters = "ab->"
        total = self.b(ReduceOp, self.any(), monoid="sum", letters=letters)
        return self.b(CompareOp, total, self.number(self.rng.randrange(-3, 4)), predicate="lt")

    def inside(self, block: Block, arguments: Sequence[SSAValue]) -> list[SSAValue]:
        """Steps in another block; gives the values that are visible at its end."""
        outer, self.values = self.values, [*self.values, *arguments]
        before, self.b = self.b, OpBuilder(block.add_op)
        carried, self.carried = self.carried, list(arguments)
        self.depth += 1
        self.steps(self.rng.randrange(0, 4))
        found = [*self.values, *self.carried, *self.carried]
        self.carried = carried
        self.depth -= 1
        self.b, self.values = before, outer
        return found

    def ending(self, block: Block, visible: Sequence[SSAValue], kinds: Sequence[object]) -> None:
        """A yield of visible values of these types: new ones, arguments, ones from outside."""
        outer, self.values = self.values, list(visible)
        before, self.b = self.b, OpBuilder(block.add_op)
        values = [self.any(kind) for kind in kinds]
        self.b, self.values = before, outer
        block.add_op(YieldOp.create(operands=values))

    def kinds(self) -> list[object]:
        """The types of what goes round."""
        return [self.rng.choice(TYPES) for _ in range(self.rng.randrange(1, 4))]

    def for_(self) -> None:
        """A counted loop; its trip number is a value like others."""
        inits = [self.any(kind) for kind in self.kinds()]
        types = [x.type for x in inits]
        count = self.count()
        region = loop_region(types)
        index, *carried = region.block.args
        outer, self.scalar = self.scalar, self.rng.choice((self.scalar, index))
        b = OpBuilder(region.block.add_op)
        filled = broadcast_to(b, index, SHAPE)
        visible = self.inside(region.block, [*carried, filled])
        self.ending(region.block, visible, types)
        self.scalar = outer
        self.finish(ForOp(count, inits, region))

    def while_(self) -> None:
        """A loop that counts and tests its count first."""
        inits = [self.any(kind) for kind in self.kinds()]
        types = [x.type for x in inits]
        test, body = (Block(arg_types=[*types, INDEX]) for _ in range(2))
        self.inside(test, test.args[:-1])
        b = OpBuilder(test.add_op)
        limit = b(ConstantOp, value=dense(np.asarray(self.rng.randrange(0, 4)), I64))
        test.add_op(YieldOp.create(operands=[b(CompareOp, test.args[-1], limit, predicate="lt")]))
        visible = self.inside(body, body.args[:-1])
        self.ending(body, visible, types)
        last = body.last_op
        assert last is not None
        one = ConstantOp.make(value=dense(np.asarray(1), I64))
        following = AddOp.make(body.args[-1], one.results[0])
        body.insert_ops_before([one, following], last)
        last.operands = [*last.operands, following.results[0]]
        start = self.number(0)
        op = WhileOp([*inits, start], Region(test), Region(body))
        self.finish(op)

    def if_(self) -> None:
        """Two branches."""
        kinds = self.kinds()
        condition = self.condition()
        blocks = [Block(), Block()]
        for block in blocks:
            self.ending(block, self.inside(block, []), kinds)
        self.finish(IfOp(condition, Region(blocks[0]), Region(blocks[1])))

    def finish(self, op: ForOp | WhileOp | IfOp) -> None:
        """The op stands in the program, and its results are values."""
        self.b.insert(op)
        self.values += [x for x in op.outs if x.type in (MATRIX, FLAT)]
