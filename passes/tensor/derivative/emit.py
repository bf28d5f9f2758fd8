"""What derivatives are built with: ops at the end of a block, zeros, loops, copies of ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue, SSAValues

from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.tensor.comparison import ConvertOp, MinOp
from mlc.dialects.tensor.control import ControlOp, ForOp, YieldOp, loop_region, yield_of
from mlc.dialects.tensor.create import ConstantOp, SizeOp, full
from mlc.dialects.tensor.division import FloorDivOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp, SubOp
from mlc.dialects.tensor.op import OpBuilder, as_tensor, element_dtype, tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp

ONE = Dim.const(1)
Values = list[SSAValue]


class Emitter(OpBuilder):
    """
    Adds ops to the end of a block, or before one of its ops, each at the source location of what it
    is derived from.
    """

    def __init__(
        self, block: Block, location: object = None, *, before: Operation | None = None
    ) -> None:
        super().__init__(self._insert)
        self.block = block
        self.location = location
        self.before = before
        self._numbers: dict[tuple[Attribute, float], SSAValue] = {}

    def _insert(self, op: Operation) -> None:
        if self.location is not None:
            op.location = self.location  # pyright: ignore[reportAttributeAccessIssue]
        self._place(op)

    def _place(self, op: Operation) -> None:
        if self.before is None:
            self.block.add_op(op)
        else:
            self.block.insert_op_before(op, self.before)

    def at(self, op: Operation) -> Emitter:
        """Ops from here on come from `op`."""
        self.location = op.location
        return self

    def number(self, value: float, kind: Attribute) -> SSAValue:
        """One number everywhere, in a tensor's type."""
        found = self._numbers.get((kind, value))
        if found is None:
            dtype = dtype_of(as_tensor(kind).element_type)
            number = value if dtype.is_inexact else int(value)
            found = full(self, number, dtype, shape_of(kind))
            self._numbers[kind, value] = found
        return found

    def zeros(self, kind: Attribute) -> SSAValue:
        """Zeros of a tensor's type."""
        return self.number(0.0, kind)

    def or_zeros(
        self, values: Iterable[SSAValue | None], like: Iterable[SSAValue]
    ) -> list[SSAValue]:
        """The values; for None zeros, typed as that of `like` in its place."""
        pairs = zip(values, like, strict=True)
        return [self.zeros(x.type) if found is None else found for found, x in pairs]

    def sum(self, values: Sequence[SSAValue]) -> SSAValue:
        """The sum of one or more values of one type, as a balanced tree in their order."""
        if len(values) == 1:
            return values[0]
        half = (len(values) + 1) // 2
        return self(AddOp, self.sum(values[:half]), self.sum(values[half:]))

    # 0-d integers

    def integer(self, value: int) -> SSAValue:
        """A constant of type i64."""
        return self.number(value, tensor_type(i64, ()))

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """x + y"""
        return self(AddOp, x, y)

    def subtract(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """x - y"""
        return self(SubOp, x, y)

    def multiply(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """x * y"""
        return self(MulOp, x, y)

    def smaller(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """min(x, y)"""
        return self(MinOp, x, y)

    def divide_up(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """ceil(x / y), for y > 0."""
        return self(FloorDivOp, self.add(x, self.subtract(y, self.integer(1))), y)

    def from_end(self, count: SSAValue, number: SSAValue) -> SSAValue:
        """count - 1 - number"""
        return self.subtract(self.subtract(count, self.integer(1)), number)

    # one of many along a first axis

    def read(self, stack: SSAValue, at: SSAValue) -> SSAValue:
        """stack[at]"""
        kind = tensor_of(stack)
        dims = shape_of(kind)[1:]
        row = tensor_type(kind.element_type, (ONE, *dims))
        found = self(DynamicSliceOp, stack, *self._offsets(at, dims), declared=row)
        return self(ReshapeOp, found, declared=tensor_type(kind.element_type, dims))

    def write(self, stack: SSAValue, value: SSAValue, at: SSAValue) -> SSAValue:
        """`stack` with stack[at] = value"""
        kind = tensor_of(value)
        dims = shape_of(kind)
        row = self(ReshapeOp, value, declared=tensor_type(kind.element_type, (ONE, *dims)))
        return self(DynamicUpdateOp, stack, row, *self._offsets(at, dims))

    def _offsets(self, at: SSAValue, dims: Shape) -> Values:
        return [at, *(self.integer(0) for _ in dims)]

    def stack(self, count: Dim, kind: Attribute) -> SSAValue:
        """Room for `count` values of a type."""
        found = as_tensor(kind)
        return self.zeros(tensor_type(found.element_type, (count, *shape_of(found))))

    # ops with regions

    def loop(
        self,
        count: SSAValue,
        starts: Sequence[SSAValue],
        body: Callable[[Emitter, SSAValue, Values], Sequence[SSAValue]],
    ) -> Values:
        """`mlc.for` with a body that gets (emitter, trip number, carried values)."""
        region = loop_region([x.type for x in starts])
        inner = Emitter(region.block, self.location)
        index, *carried = region.block.args
        outcome = body(inner, index, list(carried))
        region.block.add_op(YieldOp.create(operands=outcome))
        loop = ForOp(count, starts, region)
        self.insert(loop)
        return list(loop.outs)

    def copies(
        self, ops: Iterable[Operation], renamed: dict[SSAValue, SSAValue]
    ) -> list[Operation]:
        """Copies of ops, whose results are added to `renamed`."""
        found: list[Operation] = []
        for op in ops:
            new = op.clone(renamed)
            self._place(new)
            found.append(new)
        return found


def before(op: Operation) -> Emitter:
    """Adds ops before one in a block, at its source location."""
    assert op.parent is not None
    return Emitter(op.parent, op.location, before=op)


def before_yield(block: Block, location: object) -> Emitter:
    """Adds ops before the `mlc.yield` of a region's block."""
    return Emitter(block, location, before=yield_of(block))


def body_ops(block: Block) -> list[Operation]:
    """The ops of a region's block before its `mlc.yield`."""
    return [op for op in block.ops if not isinstance(op, YieldOp)]


def read_inside(op: Operation) -> list[SSAValue]:
    """The values that an op's regions read from outside of it, each once."""
    inside: set[SSAValue] = set()
    for region in op.regions:
        for block in region.blocks:
            inside.update(block.args)
            for inner in block.walk():
                inside.update(inner.results)
                inside.update(x for r in inner.regions for b in r.blocks for x in b.args)
    every = (x for inner in op.walk() if inner is not op for x in inner.operands)
    return list(dict.fromkeys(x for x in every if x not in inside))


def trips_of(count: SSAValue) -> Dim | None:
    """How often a loop runs, where sizes and constants say it."""
    found: dict[SSAValue, Dim] = {}
    pending = [count]
    while pending:
        value = pending[-1]
        owner = value.owner
        if value in found:
            pending.pop()
            continue
        if not isinstance(owner, SizeOp | ConstantOp | ConvertOp | AddOp | SubOp):
            return None
        unknown = [x for x in owner.operands if x not in found]
        pending += unknown
        if not unknown:
            found[value] = _size_of(owner, [found[x] for x in owner.operands])
    return found[count]


def _size_of(op: SizeOp | ConstantOp | ConvertOp | AddOp | SubOp, operands: Sequence[Dim]) -> Dim:
    match op:
        case SizeOp():
            return op.dim
        case ConstantOp():
            return Dim.const(max(int(op.array()[()]), 0))
        case ConvertOp():
            return operands[0]
        case AddOp():
            return operands[0] + operands[1]
        case SubOp():
            return operands[0] - operands[1]


def extend_results(op: Operation, kinds: Sequence[Attribute]) -> Values:
    """New last results of an op; those it has stay the same values."""
    first = len(op.results)
    new = [OpResult(kind, op, first + k) for k, kind in enumerate(kinds)]
    op.results = SSAValues((*op.results, *new))
    return list(new)


def extend_yield(block: Block, values: Sequence[SSAValue]) -> None:
    """`mlc.yield` of more values."""
    last = yield_of(block)
    last.operands = [*last.operands, *values]


def extend_carried(op: ControlOp, starts: Sequence[SSAValue]) -> list[Values]:
    """
    More carried values of a loop, which begin as `starts`; for each block the new arguments. The
    blocks do not yield them yet; the results are there.
    """
    extend_results(op, [x.type for x in starts])
    return extend_arguments(op, starts)


def extend_arguments(op: ControlOp, starts: Sequence[SSAValue]) -> list[Values]:
    """More values that go into an op's regions: for each block the new arguments."""
    op.operands = [*op.operands, *starts]
    return [[b.insert_arg(x.type, len(b.args)) for x in starts] for b in op.blocks]


def is_differentiable(value: SSAValue) -> bool:
    """Whether the dtype has derivatives: floats that compute, and complex numbers."""
    return element_dtype(value).is_inexact
