"""
The canonical form of a contraction: one tile that is the whole kernel, and no loop. Factors are
memory, or computed where they are read; what follows the product is one region of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, Shape, product, shape_of
from mlc.dialects.dtypes import DType, dtype_of
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.roles import ContractionRoles, contraction_roles
from mlc.dialects.tensor.control import INDEX as POSITION
from mlc.dialects.tensor.create import ConstantOp, dense
from mlc.dialects.tensor.element import Ix, Point
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp, tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tile.compute import ConvertOp, DotOp
from mlc.dialects.tile.element import ElementsOp, MapOp, ReadOp, scalar
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, Layout, view_type
from mlc.dialects.tile.words import Words, shared_by


@dataclass(frozen=True)
class _Place(Ix):
    """A position as an expression over a region's values."""

    dim: Dim


class _Region:
    """An `ElementBuilder` that writes a region of elements: the ops themselves, without axes."""

    def __init__(self, memory: dict[SSAValue, SSAValue], kinds: Sequence[Attribute]) -> None:
        self.memory = memory  # views of the plan kernel's arguments
        self.block = Block(arg_types=kinds)
        self.positions = Positions()
        self.bound: dict[SSAValue, SSAValue] = {}
        self.known: dict[tuple[SSAValue, Point], SSAValue] = {}

    def place(self, value: SSAValue) -> _Place:
        """A coordinate of the region."""
        return _Place(self.positions.of(value))

    def ends_with(self, values: Sequence[SSAValue]) -> Region:
        """The region that yields these."""
        self.block.add_op(YieldOp.of(*values))
        return Region(self.block)

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        if tensor in self.bound:
            return self.bound[tensor]
        if (tensor, at) not in self.known:
            self.known[tensor, at] = self._fetched(tensor, at)
        return self.known[tensor, at]

    def _fetched(self, tensor: SSAValue, at: Point) -> SSAValue:
        if isinstance(tensor, BlockArgument):
            own = Positions()
            dims = own.moved([p.dim for p in at if isinstance(p, _Place)], self.positions.values)
            return self._added(ReadOp.of(self.memory[tensor], ExpressionsAttr(dims), own.values))
        op = tensor.owner
        assert isinstance(op, TensorOp)
        if isinstance(op, ConstantOp):
            return self._added(self._constant(op))
        if not isinstance(op, Elementwise):
            return op.element(self, at)  # pyright: ignore[reportArgumentType] - see __getattr__
        operands = [self.fetch(x, at) for x in op.operands]
        return self._added(op.on(operands, scalar(tensor_of(tensor).element_type)))

    def _constant(self, op: ConstantOp) -> ConstantOp:
        array = op.array()
        first = array.reshape(-1)[:1]
        if not array.size or not (array == first).all():
            raise MlcError("plan to tiles: a constant with axes of its own; expected one number")
        new = ConstantOp.create(
            result_types=[scalar(tensor_of(op.result).element_type)],
            properties={"value": dense(first.reshape(()), op.dtype)},
        )
        new.location = op.location
        return new

    def _added(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        assert isinstance(at, _Place)
        return _Place(at.dim * scale + offset)

    def plus(self, a: Ix, b: Ix) -> Ix:
        assert isinstance(a, _Place)
        assert isinstance(b, _Place)
        return _Place(a.dim + b.dim)

    def __getattr__(self, name: str) -> object:
        raise MlcError(
            f"plan to tiles: an element of this kernel needs `{name}`, which regions of elements do"
            " not have yet; expected elementwise ops, broadcasts and slices around the product"
        )


# Kernels ----------------------------------------------------------------------------------------


def canonical(kernel: PlanKernel, name: str, words: Words, layouts: Sequence[Layout]) -> KernelOp:
    """The program of a contraction kernel whose arguments lie so."""
    op = next((x for x in kernel.block.ops if isinstance(x, ContractOp)), None)
    roles = contraction_roles(op) if op is not None else None
    if op is None or roles is None:
        raise MlcError(f"plan to tiles: {name} has a schedule of words; expected a matrix product")
    if len(roles.batch) > 1 or len(roles.m + roles.n + roles.k) != 3:
        raise MlcError(
            f"plan to tiles: {op.letters.data!r} has several letters in a role (batch"
            f" {roles.batch!r}, rows {roles.m!r}, columns {roles.n!r}, summed {roles.k!r});"
            " expected one in each"
        )
    return _Contraction(kernel, op, roles, layouts).program(name, words)


class _Contraction:
    """One contraction on its way to a tile program."""

    def __init__(
        self,
        kernel: PlanKernel,
        op: ContractOp,
        roles: ContractionRoles,
        layouts: Sequence[Layout],
    ) -> None:
        self.kernel, self.op, self.roles = kernel, op, roles
        names = {**dict.fromkeys(roles.batch, "g"), roles.m: "m", roles.n: "n", roles.k: "k"}
        self.names = names
        self.sizes: dict[str, Dim] = {names[c]: size for c, size in op.sizes().items()}
        inputs = [
            view_type(tensor_of(x).element_type, shape_of(x.type), layout)
            for x, layout in zip(kernel.inputs, layouts, strict=True)
        ]
        outputs = [view_type(tensor_of(x).element_type, shape_of(x.type)) for x in kernel.outs]
        self.block = Block(arg_types=[*inputs, *outputs])
        for argument, x in zip(self.block.args, (*kernel.inputs, *kernel.outs), strict=True):
            argument.name_hint = x.name_hint
        self.memory: dict[SSAValue, SSAValue] = dict(
            zip(kernel.block.args, self.block.args, strict=False)
        )
        self.axes = ("g" if roles.batch else "") + "mn"

    def program(self, name: str, words: Words) -> KernelOp:
        """The kernel; `grain` is applied, the other words are left."""
        dtype = self.op.summand()
        left, right = (1, 0) if self.roles.swapped else (0, 1)
        spelled = [self.word(k) for k in (left, right)]
        dot = DotOp.of(
            f"{','.join(spelled)}->{self.axes}",
            (self.factor(left), _at(spelled[0])),
            (self.factor(right), _at(spelled[1])),
            (("k", ExpressionsAttr((self.sizes["k"],))),),
            (),
            self.tile(dtype),
        )
        dot.location = self.op.location
        self.block.add_op(dot)
        self.finish(dot.result)
        self.block.add_op(YieldOp.of())
        grain = shared_by(words)
        work = None if grain is None else product(self.sizes.values())
        results = len(self.kernel.outs)
        program = KernelOp.of(name, Region(self.block), results, work, grain or 1)
        program.location = self.kernel.location
        return program

    def word(self, operand: int) -> str:
        """The letters of a factor, by their roles."""
        operands, _, _ = self.op.words()
        return "".join(self.names[c] for c in operands[operand])

    def tile(self, dtype: DType) -> FragType:
        """The tile that is the whole result."""
        return FragType(DimsAttr(tuple(self.sizes[c] for c in self.axes)), dtype.ir, NoneAttr())

    def factor(self, operand: int) -> SSAValue:
        """A factor where it lies, or computed from what does."""
        source = self.op.operands[operand]
        if isinstance(source, BlockArgument):
            return self.memory[source]
        shape: Shape = shape_of(source.type)
        region = _Region(self.memory, [POSITION] * len(shape))
        at = tuple(region.place(x) for x in region.block.args)
        value = region.fetch(source, at)
        kind = view_type(tensor_of(source).element_type, shape)
        return self._added(ElementsOp.of(kind, region.ends_with([value])))

    def _added(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def finish(self, sums: SSAValue) -> None:
        """What follows the product, and where it goes."""
        op, yielded = self.op, self.kernel.yielded.values
        if op.summand() is not op.dtype:
            convert = ConvertOp.create(operands=[sums], result_types=[self.tile(op.dtype)])
            sums = self._added(convert)
        results: Sequence[SSAValue] = [sums]
        _, result, _ = op.words()
        if list(yielded) != [op.results[0]]:
            kinds = [scalar(op.dtype.ir), *[POSITION] * len(self.axes)]
            region = _Region(self.memory, kinds)
            element, *coordinates = region.block.args
            region.bound[op.results[0]] = element
            place = dict(zip(self.axes, coordinates, strict=True))
            at = tuple(region.place(place[self.names[c]]) for c in result)
            values = [region.fetch(x, at) for x in yielded]
            tiles = [self.tile(dtype_of(tensor_of(x).element_type)) for x in yielded]
            none = [ExpressionsAttr(())] * len(self.axes)
            mapped = MapOp.of([sums], none, (), tiles, region.ends_with(values))
            self.block.add_op(mapped)
            results = mapped.outs
        word = "".join(self.names[c] for c in result)
        outputs = self.block.args[len(self.kernel.inputs) :]
        for value, view in zip(results, outputs, strict=True):
            self.block.add_op(StoreOp.of(value, view, _at(word), (), axes=self.axes))


def _at(word: str) -> ExpressionsAttr:
    """The subscripts of a whole tensor with these letters."""
    return ExpressionsAttr(tuple(map(letter, word)))
