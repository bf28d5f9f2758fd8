"""Regions of elements, written from ops of the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.dtypes import I64, DType
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.tensor.bitwise import AndOp, OrOp, XorOp
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.control import INDEX as POSITION
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.element import Ix, Point
from mlc.dialects.tensor.elementwise import AddOp, Elementwise, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp, tensor_of
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import ReshapeOp, TransposeOp
from mlc.dialects.tile.element import PositionOp, ReadOp, scalar
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, position
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import Layout, view_type
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.constants import splat
from mlc.passes.tile.axes import Axes, Groups, collapsed

_OPS: Mapping[type[Operation], type[Elementwise]] = {
    arith.AddiOp: AddOp,
    arith.SubiOp: SubOp,
    arith.MuliOp: MulOp,
    arith.AndIOp: AndOp,
    arith.OrIOp: OrOp,
    arith.XOrIOp: XorOp,
    arith.MinSIOp: MinOp,
    arith.MaxSIOp: MaxOp,
}
"""What computes positions and conditions, as ops of the plan."""


@dataclass(frozen=True)
class Place(Ix):
    """A position: an expression over letters of the plan's op and values of the region."""

    dim: Dim


class Memory:
    """What a kernel reads and writes, as views some of whose axes are one."""

    def __init__(
        self, kernel: PlanKernel, layouts: Sequence[Layout], groups: Groups | None = None
    ) -> None:
        self.tensors = [*kernel.inputs, *kernel.outs]
        self.shapes = [shape_of(x.type) for x in self.tensors]
        self.groups = groups or [tuple((k,) for k in range(len(s))) for s in self.shapes]
        self.whole = [not layout for layout in layouts]  # whether it lies row by row
        if not all(self.whole[len(kernel.inputs) :]):  # results are walked alike
            self.whole[len(kernel.inputs) :] = [False] * len(kernel.outs)
        self.seen: list[list[tuple[Dim, ...]]] = [[] for _ in self.shapes]
        self.block = Block(arg_types=[
            view_type(
                tensor_of(x).element_type,
                tuple(product(shape[axis] for axis in part) for part in parts),
                layout,
            )
            for x, layout, shape, parts in zip(
                self.tensors, layouts, self.shapes, self.groups, strict=True
            )
        ])  # fmt: skip
        for argument, x in zip(self.block.args, self.tensors, strict=True):
            argument.name_hint = x.name_hint

    def access(self, number: int, at: Sequence[Dim]) -> tuple[SSAValue, tuple[Dim, ...]]:
        """The view of an argument, and its subscripts where those of the tensor are these."""
        self.seen[number].append(tuple(at))
        return self.block.args[number], collapsed(at, self.shapes[number], self.groups[number])


class ElementRegion:
    """An `ElementBuilder` that writes a region of elements: the ops themselves, without axes."""

    def __init__(
        self, memory: Memory, axes: Axes, along: Sequence[str], kinds: Sequence[Attribute] = ()
    ) -> None:
        self.memory, self.axes = memory, axes
        self.block = Block(arg_types=[*kinds, *[POSITION] * len(along)])
        self.positions = Positions()
        arguments = self.block.args[len(kinds) :]
        self.places = {c: self.positions.of(x) for c, x in zip(along, arguments, strict=True)}
        self.bound: dict[SSAValue, SSAValue] = {}
        self.known: dict[object, SSAValue] = {}
        self.guard: SSAValue | None = None  # nothing is read where it is false

    def ends_with(self, values: Sequence[SSAValue]) -> Region:
        """The region that yields these."""
        self.block.add_op(YieldOp.of(*values))
        for op in reversed(list(self.block.ops)):
            if op.results and not any(any(True for _ in x.uses) for x in op.results):
                op.detach()
                op.erase()
        return Region(self.block)

    # elements -------------------------------------------------------------------------------

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        if tensor in self.bound:
            return self.bound[tensor]
        outer = self.guard
        if where is not None:
            self.guard = where if outer is None else self.apply(arith.AndIOp, outer, where)
        for guard in (self.guard, None):
            if (tensor, at, guard) in self.known:
                found = self.known[tensor, at, guard]
                break
        else:
            found = self.known[tensor, at, self.guard] = self._fetched(tensor, at)
        self.guard = outer
        return found

    def memory_of(self, tensor: SSAValue, at: Point) -> tuple[BlockArgument, Point] | None:
        """The argument in which an element lies, and where: axes changed for each other, or of
        size 1, are looked through. None where the element is computed."""
        look = _Look(self.memory, self.axes, ())
        look.fetch(tensor, at)
        return look.seen

    def _fetched(self, tensor: SSAValue, at: Point) -> SSAValue:
        if isinstance(tensor, BlockArgument):
            view, dims = self.memory.access(tensor.index, [_dim(p) for p in at])
            place = self._resolved(dims)
            return self._added(ReadOp.of(view, *place, where=self.guard))
        op = tensor.owner
        assert isinstance(op, TensorOp)
        if isinstance(op, ConstantOp):
            return self._number(op)
        if isinstance(op, Reduction) and op.words()[2]:
            raise MlcError(f"plan to tiles: {op.name} is read by element; expected a stored result")
        if not isinstance(op, Elementwise):
            return op.element(self, at)
        if op.may_fail:
            raise MlcError(
                f"plan to tiles: {op.name} may fail, which elements of a tile do not; expected it"
                " in a kernel of its own"
            )
        operands = [self.fetch(x, at) for x in op.operands]
        return self._added(op.on(operands, scalar(tensor_of(tensor).element_type)))

    def _number(self, op: ConstantOp) -> SSAValue:
        found = splat(op.result)
        if found is None:
            raise MlcError("plan to tiles: a constant with axes of its own; expected one number")
        return self._constant(found, op.dtype, op)

    def constant(self, value: complex, dtype: DType) -> SSAValue:
        return self._constant(np.asarray(value, dtype.numpy), dtype, None)

    def _constant(self, value: np.ndarray, dtype: DType, like: ConstantOp | None) -> SSAValue:
        key = ("constant", value.tobytes(), dtype.name)
        if key not in self.known:
            new = ConstantOp.create(
                result_types=[scalar(dtype.ir)], properties={"value": dense(value, dtype)}
            )
            if like is not None:
                new.location = like.location
            self.known[key] = self._added(new)
        return self.known[key]

    def apply(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        found = _OPS.get(op)
        if found is None:
            raise MlcError(
                f"plan to tiles: {op.name} on elements; expected what computes positions and"
                " conditions, or an elementwise op of the plan"
            )
        new = found.make(*operands)
        numbers = [x.owner.array() for x in operands if isinstance(x.owner, ConstantOp)]
        if len(numbers) == len(operands):
            return self._constant(np.asarray(new.reference(*numbers)), new.dtype, None)
        return self._added(new)

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        return self._added(CompareOp.make(lhs, rhs, predicate=predicate))

    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
        return self._added(SelectOp.make(condition, if_true, if_false))

    def convert(self, value: SSAValue, source: DType, target: DType) -> SSAValue:
        if source is target:
            return value
        return self._added(ConvertOp.make(value, declared=scalar(target.ir)))

    def _added(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    # positions ------------------------------------------------------------------------------

    def _resolved(self, dims: Sequence[Dim]) -> tuple[ExpressionsAttr, list[SSAValue]]:
        """Expressions over letters of the plan's op as an op of the region has them."""
        own = Positions()
        here = [self.axes.resolved(dim, self.places) for dim in dims]
        return ExpressionsAttr(own.moved(here, self.positions.values)), own.values

    def size(self, dim: Dim) -> SSAValue:
        return self.position(Place(dim))

    def position(self, at: Ix) -> SSAValue:
        if ("position", at) not in self.known:
            attribute, values = self._resolved([_dim(at)])
            (dim,) = attribute.data
            if dim.constant is not None:
                found = self.constant(dim.constant, I64)
            elif dim == position(0):
                (found,) = values
            else:
                found = self._added(PositionOp.of(attribute, values))
            self.known["position", at] = found
        return self.known["position", at]

    def at_element(self, value: SSAValue) -> Ix:
        if isinstance(value.owner, ConstantOp):
            return Place(Dim.const(int(value.owner.array())))
        return Place(self.positions.of(value))

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        return Place(offset if scale == 0 else _dim(at) * scale + offset)

    def shift(self, at: Ix, by: SSAValue) -> Ix:
        return Place(_dim(at) + _dim(self.at_element(by)))

    def plus(self, a: Ix, b: Ix) -> Ix:
        return Place(_dim(a) + _dim(b))

    def check(self, ok: SSAValue, site: Operation, value: SSAValue, extent: SSAValue) -> None:
        raise MlcError(
            f"plan to tiles: {site.name} may fail, which elements of a tile do not; expected it in"
            " a kernel of its own"
        )

    # parts of what only elementwise ops compute with

    def bitcast(self, value: SSAValue, element: Attribute) -> SSAValue:
        raise NotImplementedError("bits of an element outside elementwise ops")

    def real(self, value: SSAValue) -> SSAValue:
        raise NotImplementedError("parts of an element outside elementwise ops")

    def imag(self, value: SSAValue) -> SSAValue:
        raise NotImplementedError("parts of an element outside elementwise ops")

    def pair(self, real: SSAValue, imag: SSAValue) -> SSAValue:
        raise NotImplementedError("parts of an element outside elementwise ops")


class _Look(ElementRegion):
    """What an element is read from, through views; nothing is written."""

    seen: tuple[BlockArgument, Point] | None = None

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        owner = tensor.owner
        if isinstance(tensor, BlockArgument):
            self.seen = tensor, at
        elif isinstance(owner, ReshapeOp | TransposeOp):
            return owner.element(self, at)
        return tensor


def _dim(at: Ix) -> Dim:
    assert isinstance(at, Place)
    return at.dim
