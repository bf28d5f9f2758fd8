"""
Random tensor-level programs, with inputs, for tests that compare two ways to run one.

Every op but floor_div, log, prod and argmin; all dtypes; static and symbolic sizes, 0 and 1 among
them; results that are arguments, constants, views or values returned twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, Shape, product, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, F32, F64, I32, I64, DType, dtype_of
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.control import ForOp, YieldOp, loop_region
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp, dense
from mlc.dialects.tensor.elementwise import AddOp, DivOp, ExpOp, MulOp, NegOp, SqrtOp, SubOp, TanhOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, ReshapeOp, SliceOp, TransposeOp

Array = NDArray[Any]
LETTERS = "abcdefgh"
SIZES = (1, 2, 3, 5)
DTYPES = (F32, F64, I32, I64)


@dataclass
class RandomProgram:
    """A program, the values of its symbols, and inputs."""

    module: ModuleOp
    sizes: dict[str, int]
    inputs: list[Array]


def random_program(rng: random.Random, *, length: int = 14) -> RandomProgram:
    """A program of `length` choices. Values stay small: floats go through tanh before they grow."""
    return _Generator(rng).program(length)


class _Generator:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sizes = {"B": rng.choice((0, 1, 3, 7)), "N": rng.choice((1, 2, 17))}
        self.symbols = ["B", "N"]
        self.values: list[SSAValue] = []

    def program(self, length: int) -> RandomProgram:
        rng = self.rng
        types = [tensor_type(rng.choice(DTYPES).ir, self.shape()) for _ in range(rng.randint(1, 3))]
        used = {name for kind in types for dim in shape_of(kind) for name in dim.symbols()}
        self.symbols = sorted(used)  # the entry reads symbols off its arguments
        self.block = block = Block(arg_types=types)
        self.b = OpBuilder(block.add_op)
        self.values = list(block.args)
        makers = self.makers()
        for _ in range(length):
            value = rng.choice(makers)()
            if value is not None:
                self.values.append(value)
        results = rng.sample(self.values, k=min(len(self.values), rng.randint(1, 3)))
        block.add_op(ReturnOp(*results))
        function = FuncOp("f", (types, [x.type for x in results]), Region(block))
        inputs = [self.array(t) for t in types]
        module = ModuleOp([function], attributes={"mlc.numerics": StringAttr("standard")})
        return RandomProgram(module, self.sizes, inputs)

    def makers(self) -> Sequence[Callable[[], SSAValue | None]]:
        return (
            *(self.unary, self.binary, self.binary, self.binary, self.select, self.convert),
            *(self.broadcast, self.transpose, self.reshape, self.slice, self.concat, self.gather),
            *(self.contract, self.reduce, self.reduce, self.constant, self.iota, self.loop),
        )

    def shape(self) -> Shape:
        rng = self.rng
        rank = rng.choice((0, 1, 1, 2, 2, 3))
        names = [*map(str, SIZES), *self.symbols]
        return tuple(Dim.of(int(s) if s.isdigit() else s) for s in rng.choices(names, k=rank))

    def array(self, kind: Any) -> Array:
        dtype, shape = dtype_of(kind.element_type), [d.evaluate(self.sizes) for d in shape_of(kind)]
        generator = np.random.default_rng(self.rng.randrange(10**6))
        if dtype.kind == "float":
            return np.asarray(generator.uniform(-2, 2, shape)).astype(dtype.numpy)
        return np.asarray(generator.integers(-3, 4, shape)).astype(dtype.numpy)

    def pick(self, allowed: Callable[[SSAValue], bool] = lambda _: True) -> SSAValue | None:
        found = [x for x in self.values if allowed(x)]
        return self.rng.choice(found[-6:]) if found else None

    def is_small(self, value: SSAValue) -> bool:
        """Whether a tensor is worth growing."""
        return product(shape_of(value.type)).evaluate(self.sizes) <= 400

    def partner(self, x: SSAValue) -> SSAValue:
        """A value of the same type, made by a broadcast or a conversion if need be."""
        same = [y for y in self.values if y.type == x.type]
        if same and self.rng.random() < 0.6:
            return self.rng.choice(same)
        scalar = self.b(
            ConstantOp, value=dense(np.asarray(self.rng.choice((0, 1, 2, -1))), kind_of(x))
        )
        word = LETTERS[: len(shape_of(x.type))]
        return self.b(BroadcastOp, scalar, letters=f"->{word}", declared=tensor_of(x))

    def unary(self) -> SSAValue | None:
        x = self.pick(lambda v: kind_of(v) is not BOOL)
        if x is None:
            return None
        if kind_of(x).kind == "int":
            return self.b(NegOp, x)
        op = self.rng.choice((NegOp, ExpOp, SqrtOp, TanhOp, TanhOp))
        return self.b(op, self.b(TanhOp, x) if op is ExpOp else x)

    def binary(self) -> SSAValue | None:
        x = self.pick()
        if x is None:
            return None
        ops: list[type[TensorOp]] = [AddOp, MulOp, MaxOp, MinOp]
        if kind_of(x) is not BOOL:
            ops.append(SubOp)
        if kind_of(x).kind == "float":
            ops.append(DivOp)
        pair = [x, self.partner(x)]
        self.rng.shuffle(pair)
        value = self.b(self.rng.choice(ops), *pair)
        return self.b(TanhOp, value) if kind_of(value).kind == "float" else value

    def select(self) -> SSAValue | None:
        x = self.pick(lambda v: kind_of(v) is not BOOL)
        if x is None:
            return None
        y = self.partner(x)
        condition = self.b(CompareOp, x, y, predicate=self.rng.choice(("lt", "eq", "ne", "ge")))
        return self.b(SelectOp, condition, x, y)

    def convert(self) -> SSAValue | None:
        x = self.pick()
        if x is None:
            return None
        target = self.rng.choice((F32, F64, I32, I64, BOOL))
        return self.b(ConvertOp, x, declared=tensor_type(target.ir, shape_of(x.type)))

    def broadcast(self) -> SSAValue | None:
        x = self.pick(lambda v: len(shape_of(v.type)) < 3 and self.is_small(v))
        if x is None:
            return None
        shape = list(shape_of(x.type))
        word = LETTERS[: len(shape)]
        at = self.rng.randint(0, len(shape))
        shape.insert(at, Dim.of(self.rng.choice((2, 3, *self.symbols))))
        result = word[:at] + "z" + word[at:]
        declared = tensor_type(tensor_of(x).element_type, tuple(shape))
        return self.b(BroadcastOp, x, letters=f"{word}->{result}", declared=declared)

    def transpose(self) -> SSAValue | None:
        x = self.pick(lambda v: len(shape_of(v.type)) > 1)
        if x is None:
            return None
        word = LETTERS[: len(shape_of(x.type))]
        order = "".join(self.rng.sample(word, len(word)))
        return self.b(TransposeOp, x, letters=f"{word}->{order}")

    def reshape(self) -> SSAValue | None:
        x = self.pick()
        if x is None:
            return None
        shape = shape_of(x.type)
        choices: list[Shape] = [(product(shape),), (*shape, Dim.const(1)), (Dim.const(1), *shape)]
        if len(shape) > 1:
            choices.append((shape[0] * shape[1], *shape[2:]))
        new = self.rng.choice(choices)
        if len(new) > 4:
            return None
        return self.b(ReshapeOp, x, declared=tensor_type(tensor_of(x).element_type, new))

    def slice(self) -> SSAValue | None:
        x = self.pick(lambda v: any((d.constant or 0) > 1 for d in shape_of(v.type)))
        if x is None:
            return None
        shape = shape_of(x.type)
        starts = [(Dim.const(0), 1, d) for d in shape]
        axis = self.rng.choice([k for k, d in enumerate(shape) if (d.constant or 0) > 1])
        size = shape[axis].constant or 0
        starts[axis] = self.rng.choice(
            (
                (Dim.const(1), 1, Dim.const(size - 1)),
                (Dim.const(size - 1), -1, Dim.const(size)),
                (Dim.const(0), 2, Dim.const((size + 1) // 2)),
            )
        )
        return self.b(
            SliceOp,
            x,
            offsets=tuple(o for o, _, _ in starts),
            steps=tuple(Dim.const(s) for _, s, _ in starts),
            declared=tensor_type(tensor_of(x).element_type, tuple(d for _, _, d in starts)),
        )

    def concat(self) -> SSAValue | None:
        x = self.pick(lambda v: len(shape_of(v.type)) > 0 and self.is_small(v))
        if x is None:
            return None
        axis = self.rng.randrange(len(shape_of(x.type)))
        return self.b(ConcatOp, x, self.partner(x), axis=axis)

    def gather(self) -> SSAValue | None:
        x = self.pick(lambda v: any((d.constant or 0) > 0 for d in shape_of(v.type)))
        if x is None:
            return None
        shape = shape_of(x.type)
        axis = self.rng.choice([k for k, d in enumerate(shape) if (d.constant or 0) > 0])
        size = shape[axis].constant or 1
        index = np.asarray([self.rng.randrange(-size, size) for _ in range(3)], dtype=np.int64)
        rows = self.b(ConstantOp, value=dense(index, I64))
        word = LETTERS[: len(shape)]
        source = word[:axis] + "0" + word[axis + 1 :]
        result = word[:axis] + "z" + word[axis + 1 :]
        return self.b(GatherOp, x, rows, letters=f"{source},z->{result}")

    def contract(self) -> SSAValue | None:
        x = self.pick(lambda v: len(shape_of(v.type)) == 2 and self.is_small(v))
        if x is None:
            return None
        m, k = shape_of(x.type)
        others = [
            y
            for y in self.values
            if tensor_of(y).element_type == tensor_of(x).element_type
            and len(shape_of(y.type)) in (1, 2)
            and k in shape_of(y.type)
            and self.is_small(y)
        ]
        del m
        if not others:
            return self.b(ContractOp, x, x, letters="mk,nk->mn")
        y = self.rng.choice(others)
        shape = shape_of(y.type)
        if len(shape) == 1:
            value = self.b(ContractOp, x, y, letters="mk,k->m")
        else:
            word = "kn" if shape[0] == k else "nk"
            value = self.b(ContractOp, x, y, letters=f"mk,{word}->{self.rng.choice(('mn', 'nm'))}")
        return self.b(TanhOp, value) if kind_of(value).kind == "float" else value

    def reduce(self) -> SSAValue | None:
        x = self.pick(lambda v: len(shape_of(v.type)) > 0)
        if x is None:
            return None
        word = LETTERS[: len(shape_of(x.type))]
        kept = "".join(c for c in word if self.rng.random() < 0.5)
        monoid = self.rng.choice(("sum", "sum", "max", "min", "argmax"))
        if monoid == "argmax":
            gone = self.rng.randrange(len(word))
            kept = word[:gone] + word[gone + 1 :]
        zero = any(
            d.evaluate(self.sizes) == 0
            for c, d in zip(word, shape_of(x.type), strict=True)
            if c not in kept
        )
        if monoid != "sum" and zero:
            return None
        value = self.b(ReduceOp, x, monoid=monoid, letters=f"{word}->{kept}")
        return self.b(TanhOp, value) if kind_of(value).kind == "float" else value

    def constant(self) -> SSAValue | None:
        dtype = self.rng.choice(DTYPES)
        shape = [self.rng.choice(SIZES) for _ in range(self.rng.choice((0, 1, 2)))]
        values = np.asarray([self.rng.randint(-2, 2) for _ in range(int(np.prod(shape)))])
        return self.b(ConstantOp, value=dense(values.reshape(shape), dtype))

    def iota(self) -> SSAValue | None:
        if self.symbols and self.rng.random() < 0.3:
            return self.b(SizeOp, dims=(Dim.of(self.symbols[0]) * 2 + 1,))
        shape = self.shape()
        if not shape:
            return None
        declared = tensor_type(self.rng.choice(DTYPES).ir, shape)
        return self.b(IotaOp, axis=self.rng.randrange(len(shape)), declared=declared)

    def loop(self) -> SSAValue | None:
        x = self.pick(lambda v: kind_of(v).kind == "float" and self.is_small(v))
        if x is None:
            return None
        region = loop_region([x.type, x.type])
        inner = OpBuilder(region.block.add_op)
        _, a, c = region.block.args
        outside = self.rng.choice([y for y in self.values if y.type == x.type])
        step = inner(TanhOp, inner(AddOp, inner(MulOp, a, outside), c))
        swapped = self.rng.random() < 0.5
        region.block.add_op(YieldOp(operands=[[step, a] if swapped else [step, c]]))
        count = self.b(ConstantOp, value=dense(np.asarray(self.rng.choice((0, 1, 3))), I64))
        loop = ForOp(count, [x, self.partner(x)], region)
        self.block.add_op(loop)
        self.values.append(loop.results[1])
        return loop.results[0]


def kind_of(value: SSAValue) -> DType:
    """The dtype of a value."""
    return element_dtype(value)


F32_TOLERANCE = 2e-4
"""
Values are below 1 in magnitude, sums have at most 1,000 terms and a chain has 14 steps whose
derivatives are at most 4: 14 * 4 * eps * sqrt(1000).
"""
TOLERANCE = {"float32": F32_TOLERANCE, "float64": F32_TOLERANCE}  # f64 may come from f32


def agree(
    found: list[Array], expected: list[Array], what: str, tolerance: Mapping[str, float]
) -> None:
    """Equal dtypes and shapes; integers and bools equal, floats up to the tolerance."""
    assert len(found) == len(expected), what
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), what
        if a.dtype.kind == "f":
            limit = tolerance[str(a.dtype)]
            np.testing.assert_allclose(a, b, rtol=limit, atol=limit, err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)
