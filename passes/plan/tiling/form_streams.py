"""Products of what is computed from products, whose values between them are never stored."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, Shape, as_tensor, shape_of, tensor_type
from mlc.dialects.dtypes import BF16, F16, F32, DType, dtype_of
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import gpu_of
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.control import YieldOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, full
from mlc.dialects.tensor.elementwise import DivOp, Elementwise, MulOp
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import OpBuilder, Tensor, TensorOp, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, TransposeOp
from mlc.dialects.tensor.stream import StreamOp
from mlc.passes.gpu.stream import choose_stream
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.dce import DcePass
from mlc.passes.tile.stream_form import stream_form

NARROW = (BF16, F16)
MOST_OPS = 64  # of a stream; bounds what is looked at


class FormStreamsPass(ModulePass):
    """
    softmax(q k) v  ->  stream (q, k, v) { softmax(q k) v }

    Where both products have factors of 16 bits, what lies between them is walked tile by tile along
    the second one's summed axis, and a target has a program for it. Values of 16 bits that are
    never stored are f32 in it: excess precision, as but for `strict` any value in a register has.
    """

    name = "mlc-form-streams"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = gpu_of(op, self.name)
        formed = False
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                for last in [x for x in function.walk() if isinstance(x, ContractOp)]:
                    formed = any(_form(last, end, target) for end in _ends(last)) or formed
        if formed:
            DcePass().apply(ctx, op)


def _ends(last: ContractOp) -> list[TensorOp]:
    """A product, or before it what its result is divided by or multiplied with."""
    uses = list(last.result.uses)
    if len(uses) == 1 and isinstance(user := uses[0].operation, DivOp | MulOp):
        return [user, last]
    return [last]


def _form(last: ContractOp, end: TensorOp, target: GpuTarget) -> bool:
    """Whether a stream takes the place of a product and of what its factor is computed from."""
    if is_strict(last) or last.dtype not in NARROW:
        return False
    ops = _between(last, end)
    if ops is None:
        return False
    widened = _Widened(last, end, ops)
    stream = widened.stream()
    try:
        found = choose_stream(stream_form(stream), target)
    except MlcError:
        found = ()
    (result,) = end.results
    back = ReshapeOp.make(stream.result, declared=tensor_of(result))
    made = [*widened.outside, stream, back]
    if not found:
        for op in reversed(made):
            op.erase()
        return False
    block = last.parent
    assert block is not None
    for op in made:
        op.location = last.location
        block.insert_op_before(op, end)
    found = stream.result if stream.result.type == result.type else back.results[0]
    found.name_hint = result.name_hint
    result.replace_all_uses_with(found)
    return True


def _between(last: ContractOp, end: TensorOp) -> list[TensorOp] | None:
    """
    What a factor of a product is computed from, down to one product and to what is stored, in
    order; None where another one reads any of it, or the factor is computed otherwise.
    """
    found: dict[Operation, None] = {last: None, end: None}
    pending = [*last.operands, *end.operands]
    products = 0
    while pending:
        op = pending.pop().owner
        if op in found or not isinstance(op, TensorOp) or op.parent is not last.parent:
            continue
        if isinstance(op, ContractOp):
            products += 1
        elif not _may_join(op):
            continue
        found[op] = None
        pending += op.operands if not isinstance(op, ContractOp) else _turned(op)
        if products > 1 or len(found) > MOST_OPS:
            return None
    if not products:
        return None
    block = last.parent
    assert block is not None
    ops = [op for op in block.ops if op in found and isinstance(op, TensorOp)]
    free = (ConstantOp, IotaOp, BroadcastOp, ReshapeOp, TransposeOp)
    for op in ops:
        shared = any(use.operation not in found for use in op.results[0].uses)
        if op is not end and shared and _is_dear(op, free):
            return None
    return ops


def _turned(op: ContractOp) -> list[SSAValue]:
    """The factors that are only turned, or lose an axis of one place."""
    return [x for x in op.operands if isinstance(x.owner, TransposeOp | ReshapeOp)]


def _may_join(op: TensorOp) -> bool:
    if isinstance(op, ConstantOp):
        return splat(op.results[0]) is not None
    if isinstance(op, ReshapeOp):
        return op.unit_axes_only()
    return isinstance(op, Elementwise | ReduceOp | BroadcastOp | TransposeOp | IotaOp)


def _is_dear(op: TensorOp, free: tuple[type[TensorOp], ...]) -> bool:
    """Whether nobody but the stream may compute it: masks are computed again."""
    return not isinstance(op, free) and dtype_of(tensor_of(op.results[0]).element_type).is_inexact


class _Widened:
    """
    Ops of one block as the region of a stream, in f32 where they are narrower. Axes of one place
    are left out, which products do not have; `outside`: what leaves out those of operands.
    """

    def __init__(self, last: ContractOp, end: TensorOp, ops: list[TensorOp]) -> None:
        self.last, self.end, self.ops = last, end, ops
        self.block = Block()
        self.inputs: list[SSAValue] = []
        self.outside: list[Operation] = []
        self.new: dict[SSAValue, SSAValue] = {}

    def stream(self) -> StreamOp:
        """The op, which stands nowhere yet."""
        for op in self.ops:
            whole = isinstance(op, ReshapeOp)
            self.new[op.results[0]] = self._read(op.x) if whole else self._clone(op)
        self._add(
            YieldOp.create(operands=[self._as(self.new[self.end.results[0]], self.last.dtype)])
        )
        return StreamOp.of(self.inputs, Region(self.block))

    def _add(self, op: Operation) -> Operation:
        self.block.add_op(op)
        return op

    def _clone(self, op: TensorOp) -> SSAValue:
        dtype = dtype_of(tensor_of(op.results[0]).element_type)
        kind = _wide(op.results[0].type)
        if isinstance(op, ConstantOp):
            value, wide = splat(op.results[0]), dtype_of(kind.element_type)
            assert value is not None
            return full(OpBuilder(self._add), value.item(), wide, shape_of(kind))
        operands = [self._read(x) for x in op.operands]
        if isinstance(op, ConvertOp):
            source = dtype_of(tensor_of(op.operands[0]).element_type)
            rounded = self._as(operands[0], dtype) if source is F32 else operands[0]
            return self._as(rounded, F32 if dtype in NARROW else dtype)
        if op is self.last:
            operands = [self._as(self._as(x, self.last.dtype), F32) for x in operands]
            return self._product(operands, _letters(self.last))
        made = op.on(operands, kind)
        if isinstance(op, ContractOp | ReduceOp | BroadcastOp | TransposeOp):
            made.properties["letters"] = StringAttr(_letters(op))
        elif isinstance(op, IotaOp):
            before = shape_of(op.result.type)[: op.axis.value.data]
            made.properties["axis"] = IntegerAttr(len(_squeezed(before)), i64)
        return self._add(made).results[0]

    def _product(self, operands: list[SSAValue], letters: str) -> SSAValue:
        """The last product, with rows before columns, and then as its axes are wanted."""
        words, result = split(letters)
        natural = "".join(c for c in dict.fromkeys("".join(words)) if c in result)
        b = OpBuilder(self._add)
        value = b(ContractOp, *operands, letters=f"{','.join(words)}->{natural}")
        return value if natural == result else b(TransposeOp, value, letters=f"{natural}->{result}")

    def _read(self, x: SSAValue) -> SSAValue:
        """An operand; what is not computed here is taken, once."""
        if x in self.new:
            return self.new[x]
        stored = x
        while isinstance(stored.owner, ReshapeOp) and stored.owner.unit_axes_only():
            stored = stored.owner.x
        if stored not in self.new:
            kind = tensor_of(stored)
            small = tensor_type(kind.element_type, _squeezed(shape_of(kind)))
            taken = stored
            if small != kind:
                self.outside.append(ReshapeOp.make(stored, declared=small))
                taken = self.outside[-1].results[0]
            self.inputs.append(taken)
            argument = self.block.insert_arg(small, len(self.block.args))
            argument.name_hint = stored.name_hint
            narrow = dtype_of(kind.element_type) in NARROW
            self.new[stored] = self._as(argument, F32) if narrow else argument
        self.new[x] = self.new[stored]
        return self.new[x]

    def _as(self, x: SSAValue, dtype: DType) -> SSAValue:
        if dtype_of(tensor_of(x).element_type) is dtype:
            return x
        owner = x.owner
        kind = tensor_type(dtype.ir, shape_of(x.type))
        if dtype in NARROW and isinstance(owner, ConvertOp) and owner.operands[0].type == kind:
            return owner.operands[0]  # what was widened is as it was
        made = ConvertOp.make(x, declared=kind)
        return self._add(made).results[0]


def _wide(kind: Attribute) -> Tensor:
    """A type without axes of one place, in f32 where it is narrower."""
    tensor = as_tensor(kind)
    dtype = dtype_of(tensor.element_type)
    return tensor_type(F32.ir if dtype in NARROW else dtype.ir, _squeezed(shape_of(kind)))


def _squeezed(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != Dim.const(1))


def _letters(op: ContractOp | ReduceOp | BroadcastOp | TransposeOp) -> str:
    """The letters of axes with more than one place."""
    words, result = split(op.letters.data)
    pairs = [(word, shape_of(x.type)) for word, x in zip(words, op.operands, strict=True)]
    pairs.append((result, shape_of(op.results[0].type)))
    found = [
        "".join(c for c, n in zip(word, shape, strict=True) if n != Dim.const(1))
        for word, shape in pairs
    ]
    return f"{','.join(found[:-1])}->{found[-1]}"
