"""
Random loops at places c i + f of arrays, as programs of tensor ops: 1 to 3 deep, with branches,
rows and columns, places that data say, numbers that are added up, and what the last trip leaves.

The interpreter running one trip after another is the judge of what is made of them.
"""

from __future__ import annotations

import random

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FunctionType, ModuleOp, UnitAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import F64
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, SelectOp
from mlc.dialects.tensor.control import IfOp, YieldOp
from mlc.dialects.tensor.create import SizeOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.dialects.tensor.within import WithinOp
from mlc.passes.tensor.derivative.emit import Emitter

LONG, HIGH, WIDE = 40, 16, 12
LEAST = 20  # of a size that is a symbol
VECTOR, MATRIX = (Dim.const(LONG),), (Dim.const(HIGH), Dim.const(WIDE))
ONE = Dim.const(1)
INT = tensor_type(i64, ())


Numbers = list[tuple[SSAValue, int]]
"""
Of the loops around, with how often they run; 0 or less: as often as the symbol says, less so many
times.
"""
Values = list[SSAValue]
"""What loops carry: y, A, and a whole number."""


class Writer:
    """Writes one function of vectors x and y and matrices A and B, of which y and A are changed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.symbolic = self.random.random() < 0.25
        self.n = Dim.symbol("n") if self.symbolic else Dim.const(LONG)
        self.types = [tensor_type(F64.ir, s) for s in (VECTOR, (self.n,), MATRIX, MATRIX)]
        self.block = Block(arg_types=self.types)
        self.x, _, _, self.b = self.block.args

    def pick(self, *options: int) -> int:
        """One of them."""
        return self.random.choice(options)

    def module(self) -> ModuleOp:
        """The program."""
        e, (_, y, a, _) = Emitter(self.block), self.block.args
        carried: Values = [y, a, e.integer(3)]
        for _ in range(self.pick(1, 1, 2)):
            carried = self.loop(e, [], carried)
        self.block.add_op(ReturnOp(*carried))
        kind = FunctionType.from_lists(self.types, [x.type for x in carried])
        return ModuleOp([FuncOp("f", kind, Region(self.block))])

    def loop(self, e: Emitter, numbers: Numbers, carried: Values) -> Values:
        """A loop, with others in it or not; gives what it carries."""
        whole = self.symbolic and not numbers and self.pick(0, 1)
        count = self.pick(1, 2, 3, 5, 8) if not whole else -self.pick(0, 0, 1, 2)
        times = e(SizeOp, dims=(self.n + count,)) if whole else e.integer(count)

        def body(inner: Emitter, number: SSAValue, now: Values) -> Values:
            around = [*numbers, (number, count)]
            last = now[2]
            for _ in range(self.pick(1, 1, 1, 1, 2, 3)):
                if len(around) < 3 and not whole and self.random.random() < 0.35:
                    now = self.loop(inner, around, now)
                else:
                    now = self.statement(inner, around, now)
            if self.pick(0, 0, 0, 1):
                now = [*now[:2], self.number(inner, around, last)]
            return now

        return e.loop(times, carried, body)

    def number(self, e: Emitter, around: Numbers, total: SSAValue) -> SSAValue:
        """One that is added up, or the last trip's."""
        value = e(ConvertOp, self.element(e, around, []), declared=INT)
        kinds: tuple[type[TensorOp] | None, ...] = (AddOp, MaxOp, None)
        kind = self.random.choice(kinds)
        return value if kind is None else e(kind, total, value)

    def place(self, e: Emitter, around: Numbers, size: int) -> SSAValue:
        """c i + d j + f, inside an axis of so many elements."""
        if is_open(around):
            ((number, count), *_), start = around, e.integer(0)
            moved = [e.add(number, e.integer(k)) if k else number for k in range(1 - count)]
            return self.random.choice([*moved, *moved, *moved, start])
        while True:
            factors = [self.pick(1, 1, 1, 2, -1, 0, 3) for _ in around]
            if len(factors) > 1:
                factors[self.pick(*range(len(factors)))] = self.pick(0, 0, 1)
            ends = [sorted((0, c * (n - 1))) for c, (_, n) in zip(factors, around, strict=True)]
            low, high = -sum(x for x, _ in ends), size - 1 - sum(y for _, y in ends)
            if low <= high:
                break
        value = e.integer(self.pick(low, low, min(low + 1, high), min(low + 2, high), high))
        for factor, (number, _) in zip(factors, around, strict=True):
            if factor:
                value = e.add(value, e.multiply(number, e.integer(factor)))
        return value

    def element(self, e: Emitter, around: Numbers, now: Values) -> SSAValue:
        """A number that is read."""
        array = self.random.choice([self.x, self.b, *now[:2], *now[:2]])
        if array is not self.x and is_open(around):
            array = now[0] if now else self.x  # the others have another size
        places, part = self.part(e, around, array)
        found = e(DynamicSliceOp, array, *places, declared=tensor_type(F64.ir, part))
        return e(ReshapeOp, found, declared=tensor_type(F64.ir, ()))

    def part(self, e: Emitter, around: Numbers, array: SSAValue) -> tuple[Values, Shape]:
        """Where an element of an array lies, and its sizes."""
        if len(shape_of(array.type)) == 1:
            size = LEAST if self.symbolic and array is not self.x else LONG
            return [self.place(e, around, size)], (ONE,)
        return [self.place(e, around, HIGH), self.place(e, around, WIDE)], (ONE, ONE)

    def line(self, e: Emitter, around: Numbers, *, column: bool) -> tuple[Values, Shape]:
        """Where a row or a column of a matrix begins, and its sizes."""
        if column:
            return [e.integer(0), self.place(e, around, WIDE)], (MATRIX[0], ONE)
        return [self.place(e, around, HIGH), e.integer(0)], (ONE, MATRIX[1])

    def statement(self, e: Emitter, around: Numbers, now: Values) -> Values:
        """Writes an element, a row or a column, under a condition or not."""
        which = 0 if is_open(around) else self.pick(0, 0, 1)
        array = now[which]
        if self.random.random() < 0.15:
            result = self.added(e, around, array)
        elif which == 1 and self.pick(0, 0, 1):
            result = self.whole_line(e, around, array, column=self.random.random() < 0.4)
        else:
            result = self.cell(e, around, array, now)
        return [result if k == which else x for k, x in enumerate(now)]

    def whole_line(self, e: Emitter, around: Numbers, array: SSAValue, *, column: bool) -> SSAValue:
        """A[…] += B[…], or A[…]"""
        places, part = self.line(e, around, column=column)
        other, _ = self.line(e, around, column=column)
        kind, source = tensor_type(F64.ir, part), self.random.choice((self.b, array))
        new = e(DynamicSliceOp, source, *other, declared=kind)
        old = e(DynamicSliceOp, array, *places, declared=kind)
        return e(DynamicUpdateOp, array, e(AddOp, new, old), *places)

    def added(self, e: Emitter, around: Numbers, array: SSAValue) -> SSAValue:
        """y[k] += …, or A[k] += … of a row: data say where, from the end where negative."""
        dims, where = shape_of(array.type), self.element(e, around, [])
        index = e(ConvertOp, where, declared=INT)
        places = [e(WithinOp, index, size=(dims[0],)), *(e.integer(0) for _ in dims[1:])]
        kind = tensor_type(F64.ir, (ONE, *dims[1:]))
        old = e(DynamicSliceOp, array, *places, declared=kind, fits=UnitAttr())
        if len(dims) == 1:
            new = e(ReshapeOp, self.element(e, around, []), declared=kind)
        else:
            other, _ = self.line(e, around, column=False)
            new = e(DynamicSliceOp, self.b, *other, declared=kind)
        new = e(self.random.choice((AddOp, SubOp, MaxOp)), old, new)
        return e(DynamicUpdateOp, array, new, *places, fits=UnitAttr())

    def cell(self, e: Emitter, around: Numbers, array: SSAValue, now: Values) -> SSAValue:
        """y[…] = …, in a branch or not."""
        one, two = (self.element(e, around, now) for _ in range(2))
        new = e(self.random.choice((AddOp, SubOp, MulOp)), one, two)
        if self.pick(0, 0, 1):
            new = e(SelectOp, e(CompareOp, one, two, predicate="lt"), new, one)
        if self.pick(0, 0, 0, 1):
            return self.branch(e, around, new, array, now)
        return self.stored(e, around, array, new)

    def stored(self, e: Emitter, around: Numbers, array: SSAValue, new: SSAValue) -> SSAValue:
        """y[…] = a number"""
        places, part = self.part(e, around, array)
        kind = tensor_type(F64.ir, part)
        return e(DynamicUpdateOp, array, e(ReshapeOp, new, declared=kind), *places)

    def branch(
        self, e: Emitter, around: Numbers, new: SSAValue, array: SSAValue, now: Values
    ) -> SSAValue:
        """if … < …: y[…] = …; else: y[…] = …, or nothing"""
        asked = e(CompareOp, *(self.element(e, around, now) for _ in range(2)), predicate="lt")
        then, otherwise = Block(), Block()
        one, two = Emitter(then), Emitter(otherwise)
        then.add_op(YieldOp.create(operands=[self.stored(one, around, array, new)]))
        end = array
        if self.pick(0, 1):
            end = self.stored(two, around, array, self.element(two, around, now))
        otherwise.add_op(YieldOp.create(operands=[end]))
        made = IfOp(asked, Region(then), Region(otherwise))
        e.insert(made)
        return made.outs[0]


def is_open(around: Numbers) -> bool:
    """Whether the symbol says how often a loop around runs."""
    return any(count <= 0 for _, count in around)


def arguments(seed: int, n: int = LONG) -> list[NDArray[np.float64]]:
    """What the functions take: whole numbers, so that sums are exact."""
    rng = np.random.default_rng(seed)
    sizes: list[tuple[int, ...]] = [(LONG,), (n,), (HIGH, WIDE), (HIGH, WIDE)]
    return [rng.integers(-4, 5, size).astype(np.float64) for size in sizes]
