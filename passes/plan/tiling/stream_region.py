"""Ops of one block as the region of a stream, in f32 where they are narrower."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, Shape, as_tensor, shape_of, tensor_type
from mlc.dialects.dtypes import BF16, F16, F32, DType, dtype_of
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, full
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import OpBuilder, Tensor, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, SliceOp, TransposeOp
from mlc.dialects.tensor.stream import StreamOp
from mlc.passes.plan.tiling.stream_views import PartOf, part_of
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
        self._arguments: dict[tuple[SSAValue, Shape], SSAValue] = {}

    def ends_with(self, value: SSAValue) -> StreamOp:
        """The op that yields a value, which stands nowhere yet."""
        self._add(YieldOp.create(operands=[value]))
        return StreamOp.of(self.inputs, Region(self.block))

    def _add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def clone(self, op: TensorOp) -> SSAValue:
        """An op on what its operands are in the region."""
        dtype = element_dtype(op.results[0])
        kind = wide(op.results[0].type)
        if isinstance(op, ReshapeOp):
            return self.read(op.x)
        if isinstance(op, ConstantOp):
            value, widened = splat(op.results[0]), dtype_of(kind.element_type)
            assert value is not None
            return full(self.b, value.item(), widened, shape_of(kind))
        operands = [self.read(x) for x in op.operands]
        if isinstance(op, ConvertOp):
            source = element_dtype(op.operands[0])
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
            taken = self._taken(stored, shape_of(stored.type))
            narrow = element_dtype(stored) in NARROW
            self.new[stored] = self.as_(taken, F32) if narrow else taken
        self.new[x] = self.new[stored]
        return self.new[x]

    def factor(self, op: ContractOp, number: int) -> bool:
        """Whether a factor is a part of what is in memory: it is read there."""
        x = op.operands[number]
        part = part_of(op, number) if x not in self.new else None
        if part is not None:
            self.new[x] = self.as_(self._part(part, squeezed(shape_of(x.type))), F32)
        return part is not None

    def _part(self, part: PartOf, shape: Shape) -> SSAValue:
        """Of an array: the places that count, then the axes of several, as they are wanted."""
        value = self._taken(part.array, part.shape)
        kept = [axis for axis, n in enumerate(part.shape) if n != Dim.const(1)]
        sizes = dict(zip(part.axes, shape, strict=True))
        kind = tensor_of(value).element_type
        value = self.b(
            SliceOp,
            value,
            offsets=DimsAttr(tuple(Dim.const(part.starts[axis]) for axis in kept)),
            steps=DimsAttr((Dim.const(1),) * len(kept)),
            declared=tensor_type(kind, tuple(sizes.get(axis, Dim.const(1)) for axis in kept)),
        )
        order = [axis for axis in kept if axis in sizes]
        small = tensor_type(kind, tuple(sizes[axis] for axis in order))
        if small != value.type:
            value = self.b(ReshapeOp, value, declared=small)
        if order == list(part.axes):
            return value
        names = dict(zip(order, "abcdefgh", strict=False))
        letters = f"{''.join(names[a] for a in order)}->{''.join(names[a] for a in part.axes)}"
        return self.b(TransposeOp, value, letters=letters)

    def _taken(self, stored: SSAValue, seen: Shape) -> SSAValue:
        """The argument for an array that is seen in a shape, but for axes of one place."""
        shape = squeezed(seen)
        if (stored, shape) not in self._arguments:
            small = tensor_type(tensor_of(stored).element_type, shape)
            taken = stored
            if small != stored.type:
                self.outside.append(ReshapeOp.make(stored, declared=small))
                taken = self.outside[-1].results[0]
            self.inputs.append(taken)
            argument = self.block.insert_arg(small, len(self.block.args))
            argument.name_hint = stored.name_hint
            self._arguments[stored, shape] = argument
        return self._arguments[stored, shape]

    def as_(self, x: SSAValue, dtype: DType) -> SSAValue:
        """A value in another dtype."""
        if element_dtype(x) is dtype:
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
