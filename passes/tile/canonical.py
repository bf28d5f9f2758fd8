"""
The canonical form of a contraction: one tile that is the whole kernel, and no loop. Factors are
memory, or computed where they are read; what follows the product is one region of elements.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Operation, Region, SSAValue

from mlc.dialects.analysis.matmul_axes import ContractionRoles, contraction_roles
from mlc.dialects.dims import Dim, DimsAttr, product, shape_of
from mlc.dialects.dtypes import DType
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.target.intrinsics import INTRINSICS
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tile.compute import ConvertOp, DotOp
from mlc.dialects.tile.element import ElementsOp, MapOp, scalar
from mlc.dialects.tile.expression import ExpressionsAttr, letter
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, Layout, view_type
from mlc.dialects.tile.words import Via, Words, shared_by
from mlc.passes.tile.axes import Axes, apart, joined, source
from mlc.passes.tile.elements import ElementRegion, Memory, Place
from mlc.passes.tile.sums import OVER
from mlc.passes.tile.windows import in_strips, windows_of


def product_of(kernel: PlanKernel) -> Product | None:
    """The product that a kernel computes, if it does."""
    return next((x for x in kernel.block.ops if isinstance(x, Product)), None)


def canonical(kernel: PlanKernel, name: str, words: Words, layouts: Sequence[Layout]) -> KernelOp:
    """The program of a contraction kernel whose arguments, then results, lie so."""
    op = product_of(kernel)
    windows = windows_of(op) if in_strips(words) else None
    if windows is not None:
        roles = windows.roles
    else:
        roles = contraction_roles(op) if op is not None else None
    if op is None or roles is None:
        raise MlcError(f"plan to tiles: {name} has a schedule of words; expected a matrix product")
    if op.dtype.kind == "bool":
        raise MlcError(f"plan to tiles: {op.name} of bool; expected numbers, which are added up")
    if empty := [letter for letter, dim in op.sizes().items() if dim.constant == 0]:
        raise MlcError(
            f"plan to tiles: {op.name} of size 0 along {empty[0]!r} has a schedule of words;"
            " expected at least one element to cut: leave the schedule out"
        )
    via = next((x.row for x in words if isinstance(x, Via)), None)
    memory = Memory(kernel, layouts)
    if windows is not None:
        axes = windows.axes
    else:
        if any(len(word) > 1 for word in (roles.batch, roles.m, roles.n, roles.k)):
            # once with an axis for each letter, to see by which letters memory is read
            _Contraction(kernel, op, roles, apart(roles, op.sizes()), memory, via).write()
        axes, groups = joined(roles, op.sizes(), memory.shapes, memory.whole, memory.seen)
        memory = Memory(kernel, layouts, groups)
    strips = windows is not None
    _Contraction(kernel, op, roles, axes, memory, via, in_strips=strips).write()
    grain = shared_by(words)
    work = None if grain is None else product(op.sizes().values())
    program = KernelOp.of(name, Region(memory.block), len(kernel.outs), work, grain or 1)
    if any(number >= 0 for number in kernel.shared_inputs):
        program.attributes[OVER] = kernel.properties["over"]
    program.location = kernel.location
    return program


class _Contraction:
    """One contraction on its way to a tile program."""

    def __init__(
        self,
        kernel: PlanKernel,
        op: Product,
        roles: ContractionRoles,
        axes: Axes,
        memory: Memory,
        via: str | None,
        *,
        in_strips: bool = False,
    ) -> None:
        self.kernel, self.op, self.roles = kernel, op, roles
        # in which factors come to the instruction: as they are, or in the dtype of the sums
        dtypes = (op.dtype.name, op.dtype.name, op.summand().name)
        takes = via is None or any(row.name == via and row.dtypes == dtypes for row in INTRINSICS)
        self.dtype = op.dtype if takes else op.summand()
        self.axes, self.memory, self.block = axes, memory, memory.block
        self.in_strips = in_strips
        self.places = {axis: letter(axis) for axis in axes.letters}
        self.result = axes.of(op.words()[1])

    def write(self) -> None:
        """The program."""
        left, right = (1, 0) if self.roles.swapped else (0, 1)
        factors = [self.factor(left), self.factor(right)]
        words = ["".join(axes) for axes, _, _ in factors]
        summed = self.axes.of(self.roles.k)
        dot = DotOp.of(
            f"{','.join(words)}->{''.join(self.result)}",
            factors[0][1:],
            factors[1][1:],
            tuple((c, ExpressionsAttr((self.axes.size(c),))) for c in summed),
            (),
            self.tile(self.op.summand()),
        )
        dot.location = self.op.location
        self.block.add_op(dot)
        self.finish(dot.result)
        self.block.add_op(YieldOp.of())

    def tile(self, dtype: DType) -> FragType:
        """The tile that is the whole result."""
        sizes = tuple(self.axes.size(c) for c in self.result)
        return FragType(DimsAttr(sizes), dtype.ir, NoneAttr())

    def factor(self, operand: int) -> tuple[list[str], SSAValue, ExpressionsAttr]:
        """The axes of a factor, and where it lies, or from what it is computed."""
        op, tensor = self.op, self.op.operands[operand]
        mine = self.axes.of(op.words()[0][operand])
        summed = self.axes.of(self.roles.k)
        free = [c for c in mine if c not in summed]
        axes = [*free, *summed] if "m" in free else [*free[:-1], *summed, free[-1]]
        region = ElementRegion(self.memory, self.axes, axes)
        letters = {c: Place(source(c)) for c in op.sizes()}
        at = op.operand_point(region, operand, letters)
        lies = region.memory_of(tensor, at) if self.dtype is op.dtype else None
        if lies is not None:
            dims = [p.dim for p in lies[1] if isinstance(p, Place)]
            view, dims = self.memory.access(lies[0].index, dims)
            return axes, view, self.resolved(dims)
        if self.in_strips:
            # by its own positions, which windows share: a strip copies each once
            dims = [p.dim for p in at if isinstance(p, Place)]
            return axes, self.computed(tensor), self.resolved(dims)
        value = region.convert(region.fetch(tensor, at), op.dtype, self.dtype)
        kind = view_type(self.dtype.ir, tuple(map(self.axes.size, axes)))
        elements = self._added(ElementsOp.of(kind, region.ends_with([value])))
        return axes, elements, ExpressionsAttr(tuple(map(letter, axes)))

    def computed(self, tensor: SSAValue) -> SSAValue:
        """All elements of a tensor that the kernel computes."""
        own = dict(zip(string.ascii_letters, shape_of(tensor.type), strict=False))
        region = ElementRegion(self.memory, Axes({c: c for c in own}, own), list(own))
        value = region.fetch(tensor, tuple(Place(source(c)) for c in own))
        value = region.convert(value, self.op.dtype, self.dtype)
        kind = view_type(self.dtype.ir, tuple(own.values()))
        return self._added(ElementsOp.of(kind, region.ends_with([value])))

    def resolved(self, dims: Sequence[Dim]) -> ExpressionsAttr:
        """Subscripts in the letters of the tile."""
        return ExpressionsAttr(tuple(self.axes.resolved(dim, self.places) for dim in dims))

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
        at = tuple(source(c) for c in op.words()[1])
        if list(yielded) != [op.results[0]]:
            region = ElementRegion(self.memory, self.axes, self.result, [scalar(op.dtype.ir)])
            region.bound[op.results[0]] = region.block.args[0]
            values = [region.fetch(x, tuple(map(Place, at))) for x in yielded]
            tiles = [self.tile(element_dtype(x)) for x in yielded]
            none = [ExpressionsAttr(())] * len(self.result)
            mapped = MapOp.of([sums], none, (), tiles, region.ends_with(values))
            self.block.add_op(mapped)
            results = mapped.outs
        for k, value in enumerate(results):
            view, dims = self.memory.access(len(self.kernel.inputs) + k, at)
            store = StoreOp.of(value, view, self.resolved(dims), (), axes="".join(self.result))
            store.location = self.kernel.location
            self.block.add_op(store)
