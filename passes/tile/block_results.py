"""What a block does with the sums of its product: the results of a group's tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects.dims import Dim, DimsAttr
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.compute import ConvertOp, DotOp, ExtractOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import MapOp, ReadOp
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, position
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.memory import StoreOp
from mlc.dialects.tile.types import FragType, frag_of, view_of
from mlc.dialects.tile.words import Tile
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.cut import bind
from mlc.passes.tile.matrices import Matrices
from mlc.passes.tile.pipelines import added

SLOT_COLUMNS = 64
"""Results of 16 bits in a row of a slot."""
TURNS = 2
"""Slots of results that a group uses in turn; one where others multiply meanwhile."""


@dataclass
class Place:
    """Where a consumer stands."""

    item: dict[str, SSAValue]
    group: SSAValue
    rows: int  # between groups
    first: int = 0  # of the columns that are finished together

    def at(self, column: int = 0) -> tuple[tuple[Dim, Dim], list[SSAValue]]:
        """Row and column of the group's tile, or of columns of it."""
        named = Positions()
        rows = named.of(self.item["m"])
        if self.rows:
            rows += named.of(self.group) * self.rows
        return (rows, named.of(self.item["n"]) + self.first + column), list(named.values)


def _reads_elements(op: Operation) -> bool:
    """Whether what is computed with sums wants registers for elements of a matrix in memory."""
    reads = (x for x in op.walk() if isinstance(x, ReadOp)) if isinstance(op, MapOp) else ()
    return any(len(view_of(x.view).shape) > 1 for x in reads)


class Results:
    """
    What follows the product `dot`, by `rest`, in so many slots of each group. `width`: columns that
    are finished together. Where a matrix is read, or several are stored, they are a slot's, or
    elements would spill: 120 us instead of 78 of 4000 x 512 x 4000, 0.97 to 1.2 of whole tiles.
    """

    def __init__(self, dot: DotOp, rest: Sequence[Operation], tile: Tile, slots: int) -> None:
        self.dot, self.rest, self.tile, self.slots = dot, rest, tile, slots
        self.stored = 0  # slots of results, in turn
        self.width = tile.n
        if any(map(_reads_elements, rest)) or sum(isinstance(x, StoreOp) for x in rest) > 1:
            self.width = min(SLOT_COLUMNS, tile.n)

    def finish(
        self, body: Block, sums: SSAValue, place: Place, slots: dict[Attribute, SSAValue]
    ) -> None:
        """What follows the product, on the group's tile."""
        for first in range(0, self.tile.n, self.width):
            part = sums
            if self.width < self.tile.n:
                columns = (first, first + self.width)
                kind = self._tile(self.dot.result)
                part = added(body, ExtractOp.of(sums, ((0, GROUP_ROWS), columns), kind))
            self._columns(body, part, replace(place, first=first), slots)

    def _columns(
        self, body: Block, sums: SSAValue, place: Place, slots: dict[Attribute, SSAValue]
    ) -> None:
        values: dict[SSAValue, SSAValue] = {self.dot.result: sums}
        for op in self.rest:
            match op:
                case ConvertOp():
                    kind = self._tile(op.result)
                    made = ConvertOp.create(operands=[values[op.value]], result_types=[kind])
                    values[op.result] = added(body, made)
                case MapOp():
                    values.update(zip(op.outs, self._map(body, op, values, place), strict=True))
                case StoreOp():
                    slot = slots.get(view_of(op.view).element)
                    self._store(body, op, values[op.value], place, slot)
                case _:
                    raise MlcError(f"tiles: {self.tile}: {op.name} follows the product")

    def _tile(self, value: SSAValue) -> FragType:
        dims = DimsAttr((Dim.const(GROUP_ROWS), Dim.const(self.width)))
        return FragType(dims, frag_of(value).element, NoneAttr())

    def _map(
        self, body: Block, op: MapOp, values: dict[SSAValue, SSAValue], place: Place
    ) -> Sequence[SSAValue]:
        at, positions = place.at()
        if op.positions:
            raise MlcError(f"tiles: {self.tile}: a region that stands somewhere; expected a whole")
        region = op.body.clone()
        if "g" in place.item and op.starts.data:
            batch = region.block.args[len(op.inputs)]
            bind(batch, position(0), [place.item["g"]])
            region.block.erase_arg(batch)
        starts = [ExpressionsAttr((dim,)) for dim in at]
        made = MapOp.of(
            [values[x] for x in op.inputs],
            starts if op.starts.data else [],
            positions if op.starts.data else (),
            [self._tile(x) for x in op.outs],
            region,
        )
        made.location = op.location
        body.add_op(made)
        return made.outs

    def _item(self, place: Place, at: tuple[Dim, Dim], named: Positions) -> dict[str, Dim]:
        """Where a tile of the result begins, by letter."""
        batch = {"g": named.of(place.item["g"])} if "g" in place.item else {}
        return {"m": at[0], "n": at[1], **batch}

    def _store(
        self, body: Block, op: StoreOp, value: SSAValue, place: Place, slot: SSAValue | None
    ) -> None:
        result = Matrices.of(op.view, op.where())
        if result.word != "mn":
            raise MlcError(f"tiles: {self.tile}: a result that is turned; expected rows, columns")
        if slot is None:
            at, positions = place.at()
            named = Positions(positions)
            moved = result.begin(self._item(place, at, named), whole=True)
            body.add_op(StoreOp.of(value, op.view, moved, named.values, axes="mn"))
            return
        width = min(SLOT_COLUMNS, self.width)
        part = FragType(
            DimsAttr((Dim.const(GROUP_ROWS), Dim.const(width))), frag_of(value).element, NoneAttr()
        )
        sizes = (("m", GROUP_ROWS), ("n", width))
        over = tuple((c, ExpressionsAttr((Dim.const(n),))) for c, n in sizes)
        for number in range(self.width // width):
            columns = (number * width, (number + 1) * width)
            piece = value
            if width < self.width:
                piece = added(body, ExtractOp.of(value, ((0, GROUP_ROWS), columns), part))
            named = Positions()
            number_of_slot = Dim.const(self.stored % self.slots)
            self.stored += 1
            turn = ExpressionsAttr((named.of(place.group), number_of_slot))
            body.add_op(StoreOp.of(piece, slot, turn, named.values))
            at, positions = place.at(columns[0])
            named = Positions(positions)
            target = result.begin(self._item(place, at, named))
            turn = ExpressionsAttr((named.of(place.group), number_of_slot))
            body.add_op(
                CopyOp.of(
                    (slot, turn), (op.view, target), "m n -> m n", named.values, over=over,
                    via="tma",
                )
            )  # fmt: skip
