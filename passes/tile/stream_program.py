"""What programs of streams have in common: roles that walk the same items, rings, and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Protocol, TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, DimsAttr
from mlc.dialects.dtypes import F32, DType
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.tile.compute import INDEX, ExtractOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.memory import AllocOp, StoreOp
from mlc.dialects.tile.pipeline import ChannelOp, ChannelType, PutOp, RolesOp, WorkOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, Layout, view_type
from mlc.dialects.tile.words import Overlap, Raster, Roles, Stages, Tile, Word, Words
from mlc.passes.tile.block_results import SLOT_COLUMNS, TURNS
from mlc.passes.tile.elements import Memory
from mlc.passes.tile.pipelines import added
from mlc.passes.tile.stream_elements import Place
from mlc.passes.tile.stream_form import FIXED, VALUE, Factor

WordT = TypeVar("WordT", bound=Word)
Left = tuple[Place, Sequence[SSAValue]]
"""Of an item that is not done: where it is, and what a group has of it."""


class Form(Protocol):
    """What a form says of items."""

    @property
    def row(self) -> str: ...
    @property
    def column(self) -> str: ...
    @property
    def outer(self) -> tuple[str, ...]: ...
    def size(self, c: str) -> int: ...


def tile(rows: int, columns: int, dtype: DType = F32) -> FragType:
    """A group's tile."""
    return FragType(DimsAttr((Dim.const(rows), Dim.const(columns))), dtype.ir, NoneAttr())


class StreamProgram:
    """A program whose roles walk tiles of rows, and in each tiles of columns."""

    NAME: ClassVar[str] = "stream"

    def __init__(
        self, kernel: PlanKernel, form: Form, words: Words, layouts: Sequence[Layout], dtype: DType
    ) -> None:
        self.kernel, self.items = kernel, form
        self.tile = _word(words, Tile)
        self.stages = _word(words, Stages)
        self.roles = _word(words, Roles)
        self.raster = next((w for w in words if isinstance(w, Raster)), Raster(1))
        self.overlaps = any(isinstance(w, Overlap) for w in words)
        if self.tile.m != GROUP_ROWS * self.roles.consumer:
            raise MlcError(
                f"tiles: {self.tile}: {self.roles.consumer} groups have {GROUP_ROWS} rows each;"
                f" expected m {GROUP_ROWS * self.roles.consumer}"
            )
        self.memory = Memory(kernel, layouts)
        self.block = self.memory.block
        self.dtype = dtype
        self.row = FragType(DimsAttr((Dim.const(GROUP_ROWS),)), F32.ir, NoneAttr())

    def ring(self, depth: int, shapes: Sequence[tuple[int, int]], hint: str) -> SSAValue:
        """A channel whose places have such slots."""
        kinds = [
            view_type(self.dtype.ir, tuple(map(Dim.const, shape)), "sw128") for shape in shapes
        ]
        ring = ChannelType(IntAttr(depth), ArrayAttr(kinds))
        channel = added(self.block, ChannelOp.create(result_types=[ring]))
        channel.name_hint = hint
        return channel

    def produce(self, body: Block, place: Place, before: Place | None) -> None:
        """What fills rings, for one item, and for what is left of the one before."""
        raise NotImplementedError(self.NAME)

    def produce_last(self, role: Block, before: Place) -> None:
        """What is left of the last item, where items overlap."""
        raise NotImplementedError(self.NAME)

    def begin(self, role: Block) -> list[SSAValue]:
        """What an overlapping item has of the one before, if there is none."""
        raise NotImplementedError(self.NAME)

    def consume(self, body: Block, place: Place, left: Left | None) -> list[SSAValue]:
        """What a group computes of one item; and what it leaves, where items overlap."""
        raise NotImplementedError(self.NAME)

    def consume_last(self, role: Block, left: Left) -> None:
        """What is left of the last item, where items overlap."""
        raise NotImplementedError(self.NAME)

    @property
    def down(self) -> bool:
        """Whether the last rows come first: they have most columns."""
        raise NotImplementedError(self.NAME)

    def program(self, name: str) -> KernelOp:
        """Rings, slots for results, roles."""
        roles, form = self.roles, self.items
        shape = (roles.consumer, TURNS, GROUP_ROWS, SLOT_COLUMNS)
        kind = view_type(self.dtype.ir, tuple(map(Dim.const, shape)), "sw128")
        self.out = added(self.block, AllocOp.of("worker", kind))
        self.out.name_hint = "out"
        made = RolesOp.create(
            properties={
                "kinds": ArrayAttr([StringAttr("producer"), StringAttr("consumer")]),
                "counts": ArrayAttr(
                    [IntegerAttr(n, i64) for n in (roles.producer, roles.consumer)]
                ),
                "registers": ArrayAttr([IntegerAttr(n, i64) for n in (roles.fill, roles.sums)]),
            },
            regions=[self._role("warp"), self._role("group")],
        )
        self.block.add_op(made)
        self.block.add_op(YieldOp.of())
        work = Dim.const(form.size(form.row))
        for c in form.outer:
            work = work * form.size(c)
        program = KernelOp.of(name, Region(self.block), len(self.kernel.outs), work, self.tile.m)
        for op in program.walk():
            op.location = self.kernel.location
        return program

    def _role(self, name: str) -> Region:
        """One role's walk over the items: outer places, those of one raster together, and rows."""
        outer = [*reversed(self.items.outer)]
        letters = [*outer, self.items.row]
        role = Block(arg_types=[INDEX])
        role.args[0].name_hint = name
        group = None if name == "warp" else role.args[0]
        inits = self.begin(role) if self.overlaps and group is not None else []
        axes = len(letters)
        body = Block(arg_types=[*[INDEX] * axes * (1 + self.overlaps), *(x.type for x in inits)])
        for x, hint in zip(body.args, [*letters, *(f"{c}_before" for c in letters)], strict=False):
            x.name_hint = hint
        work = self._work(letters, body, inits)
        place = Place(dict(zip(letters, work.positions, strict=True)), group)
        before = Place(dict(zip(letters, work.before, strict=False)), group)
        left: list[SSAValue] = []
        if group is None:
            self.produce(body, place, before if self.overlaps else None)
        else:
            left = self.consume(body, place, (before, work.carried) if self.overlaps else None)
        body.add_op(YieldOp.of(*left))
        role.add_op(work)
        last = Place(dict(zip(letters, work.last, strict=False)), group)
        if self.overlaps and group is None:
            self.produce_last(role, last)
        elif self.overlaps:
            self.consume_last(role, (last, work.left))
        role.add_op(YieldOp.of())
        return Region(role)

    def _work(self, letters: Sequence[str], body: Block, inits: Sequence[SSAValue]) -> WorkOp:
        """The walk over the items."""
        steps = [*[1] * (len(letters) - 1), self.tile.m]
        extents = [ExpressionsAttr((Dim.const(self.items.size(c)),)) for c in letters]
        positions = [INDEX] * (len(letters) if self.overlaps else 0)
        return WorkOp.create(
            operands=inits,
            result_types=[*positions, *(x.type for x in inits)],
            properties={
                "extents": ArrayAttr(extents),
                "steps": ArrayAttr([IntegerAttr(n, i64) for n in steps]),
                "raster": IntegerAttr(self.raster.rows if len(letters) > 1 else 1, i64),
                **({"paired": UnitAttr()} if self.raster.paired else {}),
                **({"down": UnitAttr()} if self.down else {}),
                **({"after": UnitAttr()} if self.overlaps else {}),
            },
            regions=[Region(body)],
        )

    def put(self, block: Block, channel: SSAValue) -> Sequence[SSAValue]:
        """The slots of a ring's next place, to be filled."""
        assert isinstance(channel.type, ChannelType)
        op = PutOp.create(operands=[channel], result_types=[*channel.type.slots])
        block.add_op(op)
        return op.slots

    def fill(
        self,
        block: Block,
        slot: SSAValue,
        factor: Factor,
        place: Place,
        begin: Mapping[str, Callable[[Positions], Dim]],
    ) -> None:
        """Copies a matrix of a factor, whose rows begin somewhere along one letter."""
        named = Positions()
        if not any(c in factor.word for c in begin):
            raise MlcError(f"tiles: a factor {factor.word} without {' and '.join(begin)}")
        at = [
            (
                Dim.const(start) if c == FIXED
                else begin[c](named) + letter("m") if c in begin
                else place.outer(named, c) + start
            )
            for c, start in zip(factor.word[:-1], factor.starts, strict=False)
        ]  # fmt: skip
        at.append(letter("d"))
        block.add_op(
            CopyOp.of(
                (self.memory.block.args[factor.argument.index], ExpressionsAttr(tuple(at))),
                (slot, ExpressionsAttr(())), "m d -> m d", named.values, via="tma",
            )
        )  # fmt: skip

    def store(
        self, block: Block, value: SSAValue, number: int, width: int, word: str, place: Place
    ) -> None:
        """Results by slots of so many columns, which are copied while the next ones are stored."""
        form, group = self.items, place.group
        assert group is not None
        part = tile(GROUP_ROWS, SLOT_COLUMNS, self.dtype)
        over = tuple(
            (c, ExpressionsAttr((Dim.const(n),)))
            for c, n in (("m", GROUP_ROWS), ("n", SLOT_COLUMNS))
        )
        for turn_number in range(width // SLOT_COLUMNS):
            first = turn_number * SLOT_COLUMNS
            columns = (first, first + SLOT_COLUMNS)
            piece = added(block, ExtractOp.of(value, ((0, GROUP_ROWS), columns), part))
            named = Positions()
            turn = ExpressionsAttr((named.of(group), Dim.const(turn_number % TURNS)))
            block.add_op(StoreOp.of(piece, self.out, turn, named.values))
            named = Positions()
            slot = (named.of(group), Dim.const(turn_number % TURNS), letter("m"), letter("n"))
            ends = {
                form.row: self._rows(named, place) + letter("m"), VALUE: letter("n") + first
            }  # fmt: skip
            at = tuple(ends[c] if c in ends else place.outer(named, c) for c in word)
            block.add_op(
                CopyOp.of(
                    (self.out, ExpressionsAttr(slot)), (self.result(number), ExpressionsAttr(at)),
                    "m n -> m n", named.values, over=over, via="tma",
                )
            )  # fmt: skip

    def store_rows(
        self, block: Block, value: SSAValue, number: int, word: str, place: Place
    ) -> None:
        """A number for each row."""
        named = Positions()
        ends = {self.items.row: self._rows(named, place) + letter("m")}
        at = tuple(ends[c] if c in ends else place.outer(named, c) for c in word)
        block.add_op(
            StoreOp.of(value, self.result(number), ExpressionsAttr(at), named.values, axes="m")
        )

    def _rows(self, named: Positions, place: Place) -> Dim:
        """Where a group's rows begin."""
        assert place.group is not None
        return place.first_row(named, self.items.row) + named.of(place.group) * GROUP_ROWS

    def result(self, number: int) -> SSAValue:
        """The view of a result."""
        return self.block.args[len(self.kernel.inputs) + number]


def _word(words: Words, kind: type[WordT]) -> WordT:
    found = next((w for w in words if isinstance(w, kind)), None)
    if found is None:
        raise MlcError(f"tiles: a stream without {kind.NAME}(…); expected tile, stages, roles")
    return found
