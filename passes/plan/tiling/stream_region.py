"""Ops of one block as the region of a stream, in f32 where they are narrower."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects.dims import Dim, Shape, as_tensor, shape_of, tensor_type
from mlc.dialects.dtypes import BF16, F16, F32, DType, dtype_of
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, full
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import OpBuilder, Tensor, TensorOp, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, TransposeOp
from mlc.dialects.tensor.stream import StreamOp
from mlc.passes.tensor.constants import splat

NARROW = (BF16, F16)


class StreamRegion:
    """
    The region, which grows. Axes of one place are left out, which products do not have; `outside`:
    what leaves out those of operands.
    """

    def __init__(self) -> None:
        self.block = Block()
        self.b = OpBuilder(self._add)
        self.inputs: list[SSAValue] = []
        self.outside: list[Operation] = []
        self.new: dict[SSAValue, SSAValue] = {}

    def ends_with(self, value: SSAValue) -> StreamOp:
        """The op that yields a value, which stands nowhere yet."""
        self._add(YieldOp.create(operands=[value]))
        return StreamOp.of(self.inputs, Region(self.block))

    def _add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def clone(self, op: TensorOp) -> SSAValue:
        """An op on what its operands are in the region."""
        dtype = dtype_of(tensor_of(op.results[0]).element_type)
        kind = wide(op.results[0].type)
        if isinstance(op, ReshapeOp):
            return self.read(op.x)
        if isinstance(op, ConstantOp):
            value, widened = splat(op.results[0]), dtype_of(kind.element_type)
            assert value is not None
            return full(self.b, value.item(), widened, shape_of(kind))
        operands = [self.read(x) for x in op.operands]
        if isinstance(op, ConvertOp):
            source = dtype_of(tensor_of(op.operands[0]).element_type)
            rounded = self.as_(operands[0], dtype) if source is F32 else operands[0]
            return self.as_(rounded, F32 if dtype in NARROW else dtype)
        made = op.on(operands, kind)
        if isinstance(op, ContractOp | ReduceOp | BroadcastOp | TransposeOp):
            made.properties["letters"] = StringAttr(squeezed_letters(op))
        elif isinstance(op, IotaOp):
            before = shape_of(op.result.type)[: op.axis.value.data]
            made.properties["axis"] = IntegerAttr(len(squeezed(before)), i64)
        return self._add(made).results[0]

    def product(self, op: ContractOp, operands: list[SSAValue]) -> SSAValue:
        """The last product of rounded factors, rows before columns, then as its axes are wanted."""
        operands = [self.as_(self.as_(x, op.dtype), F32) for x in operands]
        words, result = split(squeezed_letters(op))
        natural = "".join(c for c in dict.fromkeys("".join(words)) if c in result)
        value = self.b(ContractOp, *operands, letters=f"{','.join(words)}->{natural}")
        if natural == result:
            return value
        return self.b(TransposeOp, value, letters=f"{natural}->{result}")

    def read(self, x: SSAValue) -> SSAValue:
        """An operand; what is not computed here is taken, once."""
        if x in self.new:
            return self.new[x]
        stored = x
        while isinstance(stored.owner, ReshapeOp) and stored.owner.unit_axes_only():
            stored = stored.owner.x
        if stored not in self.new:
            kind = tensor_of(stored)
            small = tensor_type(kind.element_type, squeezed(shape_of(kind)))
            taken = stored
            if small != kind:
                self.outside.append(ReshapeOp.make(stored, declared=small))
                taken = self.outside[-1].results[0]
            self.inputs.append(taken)
            argument = self.block.insert_arg(small, len(self.block.args))
            argument.name_hint = stored.name_hint
            narrow = dtype_of(kind.element_type) in NARROW
            self.new[stored] = self.as_(argument, F32) if narrow else argument
        self.new[x] = self.new[stored]
        return self.new[x]

    def as_(self, x: SSAValue, dtype: DType) -> SSAValue:
        """A value in another dtype."""
        if dtype_of(tensor_of(x).element_type) is dtype:
            return x
        owner = x.owner
        kind = tensor_type(dtype.ir, shape_of(x.type))
        if dtype in NARROW and isinstance(owner, ConvertOp) and owner.operands[0].type == kind:
            return owner.operands[0]  # what was widened is as it was
        made = ConvertOp.make(x, declared=kind)
        return self._add(made).results[0]


def wide(kind: Attribute) -> Tensor:
    """A type without axes of one place, in f32 where it is narrower."""
    tensor = as_tensor(kind)
    dtype = dtype_of(tensor.element_type)
    return tensor_type(F32.ir if dtype in NARROW else dtype.ir, squeezed(shape_of(kind)))


def squeezed(shape: Shape) -> Shape:
    """Without axes of one place."""
    return tuple(n for n in shape if n != Dim.const(1))


def squeezed_letters(op: ContractOp | ReduceOp | BroadcastOp | TransposeOp) -> str:
    """The letters of axes with more than one place."""
    words, result = split(op.letters.data)
    pairs = [(word, shape_of(x.type)) for word, x in zip(words, op.operands, strict=True)]
    pairs.append((result, shape_of(op.results[0].type)))
    found = [
        "".join(c for c, n in zip(word, shape, strict=True) if n != Dim.const(1))
        for word, shape in pairs
    ]
    return f"{','.join(found[:-1])}->{found[-1]}"
