"""
The canonical form of a kernel of several phases over the same rows: each input that is walked row
by row is loaded once, reductions along the rows give a number of each, and what several phases want
is a fragment. Nothing is computed twice, and no phase goes back to memory.

```
m = max x; e = exp(x - m); e / sum e

%0 = load %x[m, n] as "mn"      %1 = reduce "max" %0 along 1
%2 = map(%0, %1) { exp(x - m) } %3 = reduce "sum" %2 along 1
%4 = map(%2, %3) { e / s }      store %4, %y[m, n] as "mn"
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import BlockArgument, Operation, Region, SSAValue

from mlc.dialects.analysis.matmul_axes import ContractionRoles
from mlc.dialects.dims import Dim, DimsAttr, Shape, product, shape_of
from mlc.dialects.dtypes import BF16, F16, F32, DType
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.element import Point
from mlc.dialects.tensor.elementwise import (
    AddOp,
    DivOp,
    Elementwise,
    ExpOp,
    LogOp,
    MulOp,
    NegOp,
    SqrtOp,
    SubOp,
    TanhOp,
)
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp, Reduction
from mlc.dialects.tile.compute import ConvertOp as ConvertTile
from mlc.dialects.tile.compute import ReduceOp as ReduceTile
from mlc.dialects.tile.element import MapOp, scalar
from mlc.dialects.tile.expression import ExpressionsAttr, letter
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.memory import LoadOp, StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, Layout, frag_of
from mlc.passes.tile.axes import Axes, apart, joined, source
from mlc.passes.tile.elements import ElementRegion, Memory, Place

LETTERS = "abcdefghij"
COMBINED = ("sum", "prod", "max", "min")
"""Monoids whose state is one number, which is the result."""
NARROW = (BF16, F16)
WIDENED = (
    AddOp, SubOp, MulOp, DivOp, NegOp, ExpOp, LogOp, TanhOp, SqrtOp, MaxOp, MinOp, SelectOp,
    CompareOp,
)  # fmt: skip
"""Ops that mean the same of a wider dtype, but for rounding."""
ONE = Dim.const(1)
SMALL = 2.0**-100
"""Divisors below it are scaled up before they are inverted."""


def space_of(kernel: PlanKernel) -> tuple[Shape, Shape] | None:
    """
    The rows of a kernel, and what each of its reductions combines of one; None without any, and of
    those that walk something in another order.
    """
    spaces = [_space(op) for op in kernel.block.ops if isinstance(op, Reduction)]
    return spaces[0] if spaces and all(x == spaces[0] for x in spaces) else None


def _space(op: Reduction) -> tuple[Shape, Shape] | None:
    """Of one reduction."""
    rank, (words, result, summed) = len(op.shape), op.words()
    simple = isinstance(op, ReduceOp | ContractOp)
    if not simple or result + summed not in words or not result or not summed:
        return None
    return op.iteration()[:rank], op.iteration()[rank:]


def canonical_rows(kernel: PlanKernel, name: str, layouts: Sequence[Layout]) -> KernelOp:
    """The program of a kernel whose arguments, then results, lie so; MlcError if it has none."""
    space = space_of(kernel)
    if space is None or not all(space):
        raise MlcError(f"plan to tiles: {name}: expected reductions along rows")
    rows, columns = space
    letters = LETTERS[: len(rows) + len(columns)]
    m, n = letters[: len(rows)], letters[len(rows) :]
    sizes = dict(zip(letters, (*rows, *columns), strict=True))
    roles = ContractionRoles(batch="", m=m, n=n, k="", swapped=False)
    memory = Memory(kernel, layouts)
    if len(letters) > 2:
        # once with an axis for each letter, to see by which letters memory is read
        _Rows(kernel, (m, n), apart(roles, sizes), memory).write()
    axes, groups = joined(roles, sizes, memory.shapes, memory.whole, memory.seen)
    axes = Axes({c: word for c, word in axes.letters.items() if word}, sizes)
    if set(axes.letters) != {"m", "n"}:
        raise MlcError(f"plan to tiles: {name}: columns lie apart; expected them side by side")
    memory = Memory(kernel, layouts, groups)
    _Rows(kernel, (m, n), axes, memory).write()
    return KernelOp.of(name, Region(memory.block), len(kernel.outs))


class _Rows:
    """One kernel on its way to a tile program."""

    def __init__(
        self, kernel: PlanKernel, letters: tuple[str, str], axes: Axes, memory: Memory
    ) -> None:
        self.kernel, self.axes, self.memory = kernel, axes, memory
        self.rows, self.columns = letters
        self.block = memory.block
        self.along = {
            "m": axes.of(self.rows),
            "n": axes.of(self.rows + self.columns),
        }
        self.fragments: dict[SSAValue, SSAValue] = {}
        self.reciprocals: dict[SSAValue, Sequence[SSAValue]] = {}
        self.widens = not is_strict(kernel)
        self.kept = frozenset(_kept(kernel, tuple(axes.sizes[c] for c in self.rows + self.columns)))

    def write(self) -> None:
        """The program."""
        for op in self.kernel.block.ops:
            if isinstance(op, Reduction):
                self.reduce(op)
        for number, value in enumerate(self.kernel.yielded.values):
            self.store(number, value)
        self.block.add_op(YieldOp.of())

    def levels(self) -> Iterator[tuple[str, list[str]]]:
        """Of whole rows, and of a number of each, the letters that move."""
        for level, word in (("n", self.rows + self.columns), ("m", self.rows)):
            yield level, [c for c in word if self.axes.sizes[c] != ONE]

    def identity(self, shape: Shape) -> tuple[str, Point] | None:
        """Whether a tensor is of whole rows, or has a number of each, and an element's place."""
        for level, letters in self.levels():
            if [size for size in shape if size != ONE] == [self.axes.sizes[c] for c in letters]:
                rest = (Place(source(c)) for c in letters)
                return level, tuple(Place(Dim.const(0)) if n == ONE else next(rest) for n in shape)
        return None

    def tile(self, along: str, dtype: DType) -> FragType:
        """A fragment that is all rows, or a number of each."""
        sizes = tuple(self.axes.size(c) for c in self.along[along])
        return FragType(DimsAttr(sizes), dtype.ir, NoneAttr())

    def reduce(self, op: Reduction) -> None:
        """One number of each row."""
        name = op.combiner().name
        dtype = op.summand()
        if self.widens and dtype in NARROW:
            dtype = F32
        simple = isinstance(op, ReduceOp | ContractOp) and name in COMBINED
        words, result, _ = op.words()
        fits = op.iteration() == tuple(self.axes.sizes[c] for c in self.rows + self.columns)
        if not simple or not fits or dtype.kind not in ("float", "int", "uint"):
            raise MlcError(f"plan to tiles: {op.name} {words}->{result}; expected one along rows")
        if is_strict(op) and op.order() != "any":
            raise MlcError(f"plan to tiles: {op.name} in the reference's order; expected any")
        region = _Region(self, "n")
        at = tuple(Place(source(c)) for c in self.rows + self.columns)
        value = region.narrowed(op.element(region, at), dtype)
        mapped = self.mapped(region, [value])[0]
        kind = self.tile("m", dtype)
        found = ReduceTile.of(name, [mapped], len(self.along["m"]), [kind])
        found.location = op.location
        self.block.add_op(found)
        state = found.outs[0]
        target = op.dtype
        if target is not dtype and not (self.widens and target in NARROW):
            convert = ConvertTile.create(operands=[state], result_types=[self.tile("m", target)])
            self.block.add_op(convert)
            state = convert.results[0]
        self.fragments[op.results[0]] = state

    def store(self, number: int, value: SSAValue) -> None:
        """One result."""
        found = self.identity(shape_of(value.type))
        if found is None:
            raise MlcError(f"plan to tiles: a result {value.type}; expected rows")
        along, at = found
        region = _Region(self, along)
        dtype = element_dtype(value)
        element = region.narrowed(region.fetch(value, at), dtype)
        (tile,) = self.mapped(region, [element])
        dims = [p.dim for p in at if isinstance(p, Place)]
        view, dims = self.memory.access(len(self.kernel.inputs) + number, dims)
        store = StoreOp.of(tile, view, self.resolved(dims), (), axes="".join(self.along[along]))
        store.location = self.kernel.location
        self.block.add_op(store)

    def resolved(self, dims: Sequence[Dim]) -> ExpressionsAttr:
        """Subscripts in the letters of the tile."""
        places = {c: letter(c) for c in self.axes.letters}
        return ExpressionsAttr(tuple(self.axes.resolved(dim, places) for dim in dims))

    def mapped(self, region: _Region, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """What a region computes; nothing is done for what it takes as it is."""
        inputs = list(region.inputs)
        arguments: list[SSAValue] = list(region.block.args[: len(inputs)])
        kinds = [self.tile(region.level, element_dtype(x)) for x in values]
        if all(x in arguments for x in values):
            taken = [inputs[arguments.index(x)] for x in values]
            if [x.type for x in taken] == kinds:
                return taken
        none = [ExpressionsAttr(())] * len(self.along[region.level])
        made = MapOp.of(inputs, none, (), kinds, region.ends_with(values))
        made.location = self.kernel.location
        self.block.add_op(made)
        return made.outs

    def fragment(self, tensor: SSAValue, at: Point, level: str) -> SSAValue | None:
        """A value that phases share as the fragment that holds it; None of what is not shared."""
        found = self.place_of(tensor, at)
        if found is None and isinstance(tensor, BlockArgument):
            self.check_small(tensor)
        if found is None or (found == "n" and level == "m"):
            return None
        if tensor in self.fragments:
            return self.fragments[tensor]
        owner = tensor.owner
        if isinstance(owner, Reduction):
            raise MlcError("plan to tiles: a reduction is read before it is computed")
        of_row = found == "m" and level == "n" and isinstance(owner, Elementwise | BlockArgument)
        if isinstance(tensor, BlockArgument) and found == "n":
            self.fragments[tensor] = self.loaded(tensor, at)
        elif of_row or isinstance(tensor, BlockArgument) or tensor in self.kept:
            if found == level and tensor not in self.kept:
                return None
            region = _Region(self, found)
            value = region.computed(tensor, at)
            (self.fragments[tensor],) = self.mapped(region, [value])
        else:
            return None
        return self.fragments[tensor]

    def reciprocal(self, divisor: SSAValue) -> Sequence[SSAValue]:
        """
        Of a number of each row: what it is multiplied by so that its reciprocal is no infinity, and
        the reciprocal of that.
        """
        if divisor not in self.reciprocals:
            region = _Region(self, "m")
            s = region.wide(region.taken(divisor))
            least, scale, one = (region.constant(x, F32) for x in (SMALL, 1 / SMALL, 1.0))
            size = region.add(MaxOp.make(s, region.add(NegOp.make(s))))
            small = region.add(CompareOp.make(size, least, predicate="lt"))
            factor = region.add(SelectOp.make(small, scale, one))
            whole = region.add(MulOp.make(s, factor))
            found = region.add(DivOp.make(one, whole))
            self.reciprocals[divisor] = self.mapped(region, [factor, found])
        return self.reciprocals[divisor]

    def check_small(self, tensor: BlockArgument) -> None:
        """MlcError for an input that is as large as all rows, and is not walked along them."""
        whole = product(self.axes.sizes[c] for c in self.rows + self.columns)
        if product(shape_of(tensor.type)) == whole:
            raise MlcError(f"plan to tiles: {tensor.type} is walked another way than rows are")

    def place_of(self, tensor: SSAValue, at: Point) -> str | None:
        """Whether an element is that of this row, or of this place in the row."""
        shape = shape_of(tensor.type)
        sizes = [n for n in shape if n != ONE]
        dims = [p.dim for p, n in zip(at, shape, strict=True) if isinstance(p, Place) and n != ONE]
        for level, letters in self.levels():
            if dims == [source(c) for c in letters] and sizes == [
                self.axes.sizes[c] for c in letters
            ]:
                return level
        return None

    def loaded(self, tensor: BlockArgument, at: Point) -> SSAValue:
        """An input, as it is read where the rows are."""
        view, dims = self.memory.access(tensor.index, [p.dim for p in at if isinstance(p, Place)])
        dtype = element_dtype(tensor)
        load = LoadOp.of(
            view, self.resolved(dims), (), self.tile("n", dtype), axes="".join(self.along["n"])
        )
        load.location = self.kernel.location
        self.block.add_op(load)
        return load.result


class _Region(ElementRegion):
    """
    A region of elements of rows, or of numbers of each row, that takes what phases share. Narrow
    floats are f32 in it, unless every op must round; an `astype` to one rounds all the same.
    """

    def __init__(self, form: _Rows, level: str) -> None:
        super().__init__(form.memory, form.axes, form.along[level])
        self.form, self.level = form, level
        self.inputs: list[SSAValue] = []

    def add(self, op: Operation) -> SSAValue:
        """An op's result."""
        return self._added(op)

    def computed(self, tensor: SSAValue, at: Point) -> SSAValue:
        """A value that is to be held: not taken, but for its operands."""
        return self._fetched(tensor, at)

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        if where is None and self.guard is None and tensor not in self.bound:
            found = self.form.fragment(tensor, at, self.level)
            if found is not None:
                return self.wide(self.taken(found))
        return super().fetch(tensor, at, where)

    def taken(self, fragment: SSAValue) -> SSAValue:
        """The region's argument for a fragment."""
        if fragment not in self.inputs:
            kind = scalar(frag_of(fragment).element)
            argument = self.block.insert_arg(kind, len(self.inputs))
            argument.name_hint = fragment.name_hint
            self.inputs.append(fragment)
        return self.block.args[self.inputs.index(fragment)]

    def wide(self, value: SSAValue) -> SSAValue:
        """A narrow float as f32."""
        dtype = element_dtype(value)
        if not self.form.widens or dtype not in NARROW:
            return value
        key = ("wide", value)
        if key not in self.known:
            self.known[key] = super().convert(value, dtype, F32)
        return self.known[key]

    def narrowed(self, value: SSAValue, dtype: DType) -> SSAValue:
        """A value in a dtype, rounded to it."""
        return super().convert(value, element_dtype(value), dtype)

    def convert(self, value: SSAValue, source: DType, target: DType) -> SSAValue:
        return self.wide(value if source is target else self.narrowed(value, target))

    def by_reciprocal(self, x: SSAValue, divisor: SSAValue) -> SSAValue | None:
        """
        x / s as (x * c) * (1 / (s * c)), rounded to less than f32 later on; None where the divisor
        is not a number of the row.
        """
        place = list[SSAValue](self.block.args).index(divisor) if divisor in self.block.args else -1
        if self.level != "n" or not 0 <= place < len(self.inputs):
            return None
        if len(frag_of(self.inputs[place]).shape) > 1:
            return None
        for factor in self.form.reciprocal(self.inputs[place]):
            x = self.add(MulOp.make(x, self.taken(factor)))
        return x

    def apply(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        if op is arith.MulfOp:
            return self._added(MulOp.make(*operands))
        return super().apply(op, *operands)

    def _fetched(self, tensor: SSAValue, at: Point) -> SSAValue:
        op = tensor.owner
        if not self.form.widens or not isinstance(op, Elementwise) or isinstance(op, ConstantOp):
            return self.wide(super()._fetched(tensor, at))
        operands = [self.fetch(x, at) for x in op.operands]
        dtype = element_dtype(tensor)
        if isinstance(op, ConvertOp):
            return self.wide(self.narrowed(operands[0], dtype))
        dtypes = {element_dtype(x) for x in op.operands}
        if not {dtype, *dtypes} & {*NARROW}:
            return super()._fetched(tensor, at)
        if isinstance(op, DivOp) and (found := self.by_reciprocal(*operands)) is not None:
            return found
        if isinstance(op, WIDENED):
            kind = F32 if dtype in NARROW else dtype
            return self._added(op.on(operands, scalar(kind.ir)))
        narrow = [
            self.narrowed(x, element_dtype(y)) for x, y in zip(operands, op.operands, strict=True)
        ]
        if op.may_fail:
            raise MlcError(f"plan to tiles: {op.name} may fail; expected a kernel of its own")
        return self.wide(self._added(op.on(narrow, scalar(dtype.ir))))


def _kept(kernel: PlanKernel, space: Shape) -> Iterator[SSAValue]:
    """The values with columns that several phases want, each from there on."""
    phases = [op for op in kernel.block.ops if isinstance(op, Reduction)]
    ends: list[list[SSAValue]] = [list(op.operands) for op in phases]
    ends += [[x] for x in kernel.yielded.values]
    seen: dict[SSAValue, int] = {}
    shared: set[SSAValue] = set()

    def wide(value: SSAValue) -> bool:
        return isinstance(value.owner, Elementwise) and shape_of(value.type) == space

    def walk(values: Sequence[SSAValue], stop: set[SSAValue]) -> Iterator[SSAValue]:
        pending, known = list(values), set[SSAValue]()
        while pending:
            value = pending.pop()
            op = value.owner
            if value in known or not isinstance(op, TensorOp) or isinstance(op, Reduction):
                continue
            known.add(value)
            if wide(value):
                yield value
            if value not in stop:
                pending += op.operands

    for values in ends:
        for value in walk(values, set()):
            seen[value] = seen.get(value, 0) + 1
    shared = {value for value, count in seen.items() if count > 1}
    met: set[SSAValue] = set()
    for values in ends:
        for value in walk(values, shared & met):
            if value in shared and value in met:
                yield value
        met |= set(walk(values, set()))
