"""What a strand of a tile program does with tiles: in registers, and between them and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.tensor.comparison import cast
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tile.access import number_of
from mlc.dialects.tile.compute import ConvertOp, DotOp, ExtractOp, Product, ReduceOp, ScanOp
from mlc.dialects.tile.element import ElementsOp, MapOp, PositionOp, ReadOp
from mlc.dialects.tile.expression import WORKERS, letters_in
from mlc.dialects.tile.memory import FillOp, LoadOp, PrefetchOp, StoreOp, axes_word
from mlc.dialects.tile.types import FragType, ViewType, frag_of, view_of
from mlc.runtime.tiles.elements import elements
from mlc.runtime.tiles.memory import Access, Computed, Memory, whole
from mlc.runtime.tiles.places import along, bound_of, compared, value_of
from mlc.runtime.tiles.products import Multiply, multiplication, product, reduced, scanned, shifted
from mlc.runtime.tiles.team import Team

Array = NDArray[Any]


class Plan(Protocol):
    """What runs ops of the plan, for the values that sizes have."""

    def block(
        self, block: Block, arguments: Sequence[Array], symbols: Mapping[str, int]
    ) -> list[Array]:
        """What a block of ops yields."""
        ...

    def op(self, op: TensorOp, operands: Sequence[Array], symbols: Mapping[str, int]) -> Array:
        """One op's result."""
        ...


class Registers:
    """The values of one strand, and ops that need nobody else."""

    def __init__(self, team: Team, number: int, symbols: Mapping[str, int], plan: Plan) -> None:
        self.team, self.number, self.symbols, self.plan = team, number, symbols, plan
        self.values: dict[SSAValue, Any] = {}

    def once(self, find: Callable[[Any], Any], op: Operation) -> Any:
        """What a function says of an op, found out once."""
        if (op, find) not in self.team.found:
            self.team.found[op, find] = find(op)
        return self.team.found[op, find]

    def compute(self, op: Operation) -> list[Any] | None:
        """The results of an op; None of one that is not computed here."""
        run = _COMPUTED.get(type(op))
        return None if run is None else run(self, op)

    # what ops name --------------------------------------------------------------------------------

    def atoms(self, positions: Sequence[SSAValue]) -> dict[str, Any]:
        """What the expressions of an op are made of."""
        named = {f"%{k}": self.values[x] for k, x in enumerate(positions)}
        return {**self.symbols, **named, f".{WORKERS}": self.team.size}

    def shape(self, dims: Shape) -> tuple[int, ...]:
        """Sizes as numbers."""
        return tuple(dim.evaluate(self.symbols) for dim in dims)

    def memory(self, value: SSAValue) -> Memory:
        """What an operand's elements are read from: a view, or a tile as it is."""
        found = self.values[value]
        if isinstance(value.type, FragType):
            return whole(found, frag_of(value).dtype)
        assert isinstance(found, Memory)
        return found

    def by(self, op: Operation) -> Access:
        """This strand, now."""
        return Access(self.number, self.team.epoch, op)

    @staticmethod
    def places(dims: Sequence[Dim], atoms: Mapping[str, Any]) -> list[Any]:
        """Subscripts."""
        return [value_of(dim, atoms) for dim in dims]

    # registers and memory -------------------------------------------------------------------------

    def load(self, op: LoadOp) -> list[Any]:
        """A tile of memory."""
        shape = frag_of(op.result).shape
        letters = along(dict(zip(_letters(op.axes, shape), shape, strict=True)))
        atoms = self.atoms(op.positions) | letters
        places = self.places(self.once(LoadOp.where, op), atoms)
        found = self.memory(op.view).read(places, number_of(op.fill), self.by(op))
        return [np.broadcast_to(found, shape).copy()]

    def store(self, op: StoreOp) -> list[Any]:
        """A tile to memory."""
        shape = frag_of(op.value).shape
        letters = along(dict(zip(_letters(op.axes, shape), shape, strict=True)))
        atoms = self.atoms(op.positions) | letters
        conditions = () if op.where_ is None else op.where_.data
        where = np.asarray(True)
        for condition in conditions:
            where = where & compared(condition, atoms)
        places = self.places(self.once(StoreOp.where, op), atoms)
        self.memory(op.view).write(places, self.values[op.value], self.by(op), where=where)
        return []

    def fill(self, op: FillOp) -> list[Any]:
        """One number to all elements."""
        view = self.memory(op.view)
        letters = along({str(axis): size for axis, size in enumerate(view.shape)})
        view.write([*letters.values()], np.asarray(op.number.value.data), self.by(op))
        return []

    def prefetch(self, op: PrefetchOp) -> list[Any]:
        """Nothing that can be seen."""
        return []

    # element by element ---------------------------------------------------------------------------

    def map(self, op: MapOp) -> list[Any]:
        """Tiles element by element."""
        shape, atoms = frag_of(op.outs[0]).shape, self.atoms(op.positions)
        letters = along({str(axis): size for axis, size in enumerate(shape)})
        coordinates = [
            at + sum(self.places(start.data, atoms))
            for start, at in zip(op.starts.data, letters.values(), strict=False)
        ]
        repeated = [self.values[x] for x in op.inputs]
        repeated = [x.reshape((*x.shape, *[1] * (len(shape) - x.ndim))) for x in repeated]
        arguments = [*repeated, *coordinates]
        found = self._elements(op.body.block, arguments, self.by(op))
        return [
            np.broadcast_to(x, shape).astype(frag_of(out).dtype.numpy)
            for x, out in zip(found, op.outs, strict=True)
        ]

    def computed(self, op: ElementsOp) -> list[Any]:
        """Memory whose elements are computed where they are read."""
        kind, block = view_of(op.result), op.body.block

        def compute(places: tuple[Array, ...], inside: Array, by: Access) -> Array:
            (found,) = self._elements(block, places, by, inside)
            return np.broadcast_to(found, inside.shape)

        return [Computed(self.shape(kind.shape), kind.dtype, compute)]

    def _elements(
        self, block: Block, arguments: Sequence[Array], by: Access, inside: Any = True
    ) -> list[Array]:
        def named(positions: Sequence[Any]) -> dict[str, Any]:
            return {**self.symbols, **{f"%{k}": x for k, x in enumerate(positions)}}

        def read(op: ReadOp, positions: Sequence[Any], where: Any) -> Array:
            atoms = named(positions)
            view, counts = self.memory(op.view), np.asarray(inside) & where
            places = np.broadcast_arrays(*self.places(op.at.data, atoms), counts)
            *at, counts = places
            at += [np.zeros_like(at[0] if at else counts, np.int64)] * (len(view.shape) - len(at))
            # nothing is read at a place before the first
            return view.read([np.where(counts, x, -1) for x in at], 0, by)

        def place(op: PositionOp, positions: Sequence[Any]) -> Any:
            return value_of(op.at.data[0], named(positions))

        def evaluate(op: TensorOp, operands: Sequence[Array]) -> Array:
            return self.plan.op(op, operands, self.symbols)

        return elements(block, arguments, self.values.__getitem__, read, place, evaluate)

    # tiles ----------------------------------------------------------------------------------------

    def dot(self, op: DotOp) -> list[Any]:
        """A product."""
        start = None if op.init is None else self.values[op.init]
        return [self.product(op)(start)]

    def product(self, op: Product) -> Callable[[Any], Array]:
        """What a product gives for the sums with which it begins, when it is asked for."""
        kind, atoms = op.tile, self.atoms(op.positions)
        sizes = dict(zip("".join(op.words.result), kind.shape, strict=True))
        summed = {c: bound_of(bound, atoms) for c, bound in op.over.data}
        sizes |= summed
        wheres, by = self.once(type(op).where, op), self.once(_multiplication, op)
        words = [*map("".join, op.words.operands)]
        operands = [*map(self.memory, (op.lhs, op.rhs))]

        def run(start: Any) -> Array:
            factors: list[Array] = []
            for memory, where, letters in zip(operands, wheres, words, strict=True):
                own = {c: sizes[c] for c in letters}
                found = self._factor(op, memory, where, atoms | along(own))
                factors.append(np.broadcast_to(found, tuple(own.values())))
            begin = np.zeros(kind.shape, kind.dtype.numpy) if start is None else start
            (left, right), (a, b) = words, factors
            result = "".join(op.words.result)
            return product((left, right, result), "".join(summed), begin, a, b, by)

        return run

    def _factor(
        self, op: Product, memory: Memory, where: Sequence[Dim], atoms: Mapping[str, Any]
    ) -> Array:
        repeated = set("" if op.clamp is None else op.clamp.data)
        clamped = [k for k, dim in enumerate(where) if letters_in((dim,)) & repeated]
        places = self.places(where, atoms)
        return memory.read(places, 0, self.by(op), clamped=clamped)

    def reduce(self, op: ReduceOp) -> list[Any]:
        """The combination along an axis."""
        found = reduced(op.monoid.data, [self.values[x] for x in op.inputs], op.axis.value.data)
        return self._as_declared(found, op)

    def scan(self, op: ScanOp) -> list[Any]:
        """Running combinations along an axis."""
        found = scanned(op.monoid.data, [self.values[x] for x in op.inputs], op.axis.value.data)
        return self._as_declared(found, op)

    @staticmethod
    def _as_declared(found: Sequence[Array], op: Operation) -> list[Any]:
        pairs = zip(found, op.results, strict=True)
        return [x.astype(frag_of(out).dtype.numpy) for x, out in pairs]

    def extract(self, op: ExtractOp) -> list[Any]:
        """A part."""
        part = tuple(a if b == -1 else slice(a, b) for a, b in op.parts)
        return [self.values[op.value][part]]

    def convert(self, op: ConvertOp) -> list[Any]:
        """Another dtype."""
        return [cast(self.values[op.value], dtype_of(frag_of(op.result).element))]


def _multiplication(op: Product) -> Multiply:
    kinds = (op.lhs.type, op.rhs.type, op.tile)
    a, b, c = (kind.dtype for kind in kinds if isinstance(kind, ViewType | FragType))
    by = multiplication(None if op.via is None else op.via.data, (a, b, c))
    return by if op.zero is None else shifted(by, op.zero.value.data)


def _letters(axes: Any, shape: Sequence[int]) -> str:
    return "".join(axes_word(len(shape))) if axes is None else axes.data


_COMPUTED: dict[type[Operation], Callable[[Registers, Any], list[Any]]] = {
    LoadOp: Registers.load,
    StoreOp: Registers.store,
    FillOp: Registers.fill,
    PrefetchOp: Registers.prefetch,
    MapOp: Registers.map,
    ElementsOp: Registers.computed,
    DotOp: Registers.dot,
    ReduceOp: Registers.reduce,
    ScanOp: Registers.scan,
    ExtractOp: Registers.extract,
    ConvertOp: Registers.convert,
}
