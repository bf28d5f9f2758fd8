"""
The words of a GPU's blocks: `tile`, `stages`, `roles`, `raster`, `cluster`. Together they make of a
whole product one in which warps copy steps of both factors into a ring, and groups of warps
multiply them and finish what hangs on the sums.

```
tile(m 128, n 256, k 64), stages(4), roles(producer 1, consumer 2), raster(16)

dot "mk,kn->mn" …      %ring = channel 4 x [128x64, 64x256]
map …                  roles producer(1) { work { for k { put; copy a; copy b } } }
store …            ->        consumer(2) { work { for k { get; dot_start; wait; release }
                                                  wait; map …; store; copy } }
```

Of numbers in terms the ring holds all terms of both factors, and the products of terms that count
are added up from the smallest on. Instructions cut the sums of bf16 off instead of rounding them,
so those of a step begin at 0, and what they give is added by the cores:

```
for k carry(sums) { get; low = dot a0 b2, a1 b1, a2 b0; low = dot a0 b1, a1 b0 onto low / 256
                    sums + dot a0 b0 onto low / 256 }
```
SOURCE: Ootomo and Yokota, "Recovering single precision accuracy from tensor cores", IJHPCA 2022.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from xdsl.dialects.builtin import ArrayAttr, IntAttr, IntegerAttr, NoneAttr, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, product
from mlc.dialects.dtypes import F32, I32
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.compute import ConvertOp, DotOp, ExtractOp
from mlc.dialects.tile.control import INDEX, ForOp, Loop
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp, MapOp, ReadOp
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter, position
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.memory import AllocOp, StoreOp
from mlc.dialects.tile.over import Over
from mlc.dialects.tile.pipeline import (
    GROUP_WARPS,
    ChannelOp,
    ChannelType,
    DotStartOp,
    JoinOp,
    PutOp,
    RolesOp,
)
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.slots import ATOM_ROWS
from mlc.dialects.tile.types import FragType, TokenType, frag_of, view_of, view_type
from mlc.dialects.tile.words import Cluster, Raster, Roles, SplitK, Stages, Tile, Word, Words
from mlc.dialects.tile.work import WorkOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.cut import bind, dot_of, tile_of
from mlc.passes.tile.matrices import Matrices
from mlc.passes.tile.pipelines import added, got, ready, release, wait
from mlc.passes.tile.sums import zeros
from mlc.passes.tile.terms import plus, smaller

SLOT_COLUMNS = 64
"""Results of 16 bits in a row of a slot."""
TURNS = 2
"""Slots of results that a group uses in turn."""

WordT = TypeVar("WordT", bound=Word)


def form_blocks(kernel: KernelOp, words: Words) -> None:
    """Rewrites a canonical product by all words together; MlcError for another program."""
    dot = dot_of(kernel)
    if dot.letters.data.split("->")[1] not in ("mn", "gmn") or dot.parent is not kernel.block:
        raise MlcError(
            f"tiles: {words[0]}: product {dot.letters.data!r}; expected one of mn or gmn, whole"
        )
    _Blocks(kernel, dot, words).form()


@dataclass
class _Place:
    """Where a consumer stands."""

    item: dict[str, SSAValue]
    group: SSAValue
    first: int = 0  # of the columns that are finished together

    def at(self, column: int = 0) -> tuple[tuple[Dim, Dim], list[SSAValue]]:
        """Row and column of the group's tile, or of columns of it."""
        named = Positions()
        rows = named.of(self.item["m"]) + named.of(self.group) * GROUP_ROWS
        return (rows, named.of(self.item["n"]) + self.first + column), list(named.values)


def _reads_elements(op: Operation) -> bool:
    """Whether what is computed with sums wants registers for elements of a matrix in memory."""
    reads = (x for x in op.walk() if isinstance(x, ReadOp)) if isinstance(op, MapOp) else ()
    return any(len(view_of(x.view).shape) > 1 for x in reads)


class _Blocks:
    """
    `width`: columns that are finished together. Where a matrix is read they are a slot's, or its
    elements would spill: 120 us instead of 78 of 4000 x 512 x 4000, 0.97 to 1.2 of whole tiles.
    """

    def __init__(self, kernel: KernelOp, dot: DotOp, words: Words) -> None:
        self.kernel, self.dot = kernel, dot
        self.tile = self._word(words, Tile)
        self.stages = self._word(words, Stages)
        self.roles = self._word(words, Roles)
        self.cluster = next((w.blocks for w in words if isinstance(w, Cluster)), 1)
        raster = next((w.rows for w in words if isinstance(w, Raster)), 1)
        self.raster = -(-raster // self.cluster) * self.cluster
        self.shares = next((w for w in words if isinstance(w, SplitK)), None)
        self.stored = 0  # slots of results, in turn
        known = (Tile, Stages, Roles, Raster, Cluster, SplitK)
        if other := next((w for w in words if not isinstance(w, known)), None):
            names = ", ".join(word.NAME for word in known[1:])
            raise MlcError(f"tiles: {other} beside tile(…): expected {names}")
        if self.tile.m != GROUP_ROWS * self.roles.consumer:
            raise MlcError(
                f"tiles: {self.tile}: {self.roles.consumer} groups have {GROUP_ROWS} rows each;"
                f" expected m {GROUP_ROWS * self.roles.consumer}"
            )
        self.rest = tile_of(dot)[1:]
        self.width = self.tile.n
        if any(map(_reads_elements, self.rest)):
            self.width = min(SLOT_COLUMNS, self.tile.n)
        self.factors = [
            Matrices.all_of(view, dims)
            for view, dims in zip((dot.lhs, dot.rhs), dot.where(), strict=True)
        ]
        self.letters = [terms[0].word for terms in self.factors]
        self.matrices = [x for terms in self.factors for x in terms]
        self.axes = "mgn" if "g" in dot.words.letters else "mn"  # of items: rows, batches, columns
        self.result = "".join(sorted(self.axes))
        self.sizes = dict(zip(self.result, frag_of(dot.result).dims.data, strict=True))
        self.sizes["k"] = dict(dot.over.data)["k"].data[0]
        steps = self.steps = {"m": self.tile.m, "n": self.tile.n, "k": self.tile.k, "g": 1}
        slots = [
            view_type(view_of(x.view).element, tuple(Dim.const(steps[c]) for c in x.word), "sw128")
            for x in self.matrices
        ]
        self.ring = ChannelType(IntAttr(self.stages.depth), ArrayAttr(slots))
        self.sums = FragType(
            DimsAttr((Dim.const(GROUP_ROWS), Dim.const(self.tile.n))), F32.ir, NoneAttr()
        )

    @staticmethod
    def _word(words: Words, kind: type[WordT]) -> WordT:
        found = next((w for w in words if isinstance(w, kind)), None)
        if found is None:
            raise MlcError(f"tiles: tile(…) without {kind.NAME}(…); expected both")
        return found

    def form(self) -> None:
        """Channel, slots for results, roles; nothing of the product stays."""
        block, kernel = self.kernel.block, self.kernel
        kernel.properties["work"] = DimsAttr((product(self.sizes[c] for c in self.axes),))
        kernel.properties["grain"] = IntegerAttr(self.tile.m * self.tile.n, i64)
        channel = ChannelOp.create(result_types=[self.ring])
        channel.result.name_hint = "ring"
        slots: dict[Attribute, SSAValue] = {}  # which results of one dtype use in turn
        made: list[Operation] = [channel]
        for op in self.rest:
            kind = view_of(op.view) if isinstance(op, StoreOp) else None
            if kind is not None and kind.dtype.bytes == 2 and kind.element not in slots:
                shape = (self.roles.consumer, TURNS, GROUP_ROWS, SLOT_COLUMNS)
                slot = view_type(kind.element, tuple(map(Dim.const, shape)), "sw128")
                alloc = AllocOp.of("worker", slot)
                alloc.result.name_hint = "out"
                slots[kind.element] = alloc.result
                made.append(alloc)
        self._meeting(made)
        counts = (self.roles.producer, self.roles.consumer)
        registers = (self.roles.fill, self.roles.sums)
        regions = [self._producer(channel.result), self._consumer(channel.result, slots)]
        made.append(
            RolesOp.create(
                properties={
                    "kinds": ArrayAttr([StringAttr("producer"), StringAttr("consumer")]),
                    "counts": ArrayAttr([IntegerAttr(n, i64) for n in counts]),
                    "registers": ArrayAttr([IntegerAttr(n, i64) for n in registers]),
                },
                regions=regions,
            )
        )
        computed = [x.owner for x in dict.fromkeys((self.dot.lhs, self.dot.rhs))]
        for op in reversed([self.dot, *self.rest]):
            op.detach()
            op.erase()
        for op in computed:
            if isinstance(op, ElementsOp):
                op.detach()
                op.erase()
        last = block.last_op
        assert last is not None
        for op in made:
            op.location = self.dot.location
            block.insert_op_before(op, last)

    def _meeting(self, made: list[Operation]) -> None:
        """Memory through which blocks that share an item add their sums."""
        self.partial: list[SSAValue] = []
        if self.shares is None:
            return
        blocks, groups = self.shares.blocks, self.roles.consumer
        tiles = (blocks, groups, GROUP_ROWS, self.tile.n)
        for hint, dtype, shape in (
            ("partial", F32, tiles), ("arrived", I32, (blocks, GROUP_WARPS * groups)),
        ):  # fmt: skip
            alloc = AllocOp.of("team", view_type(dtype.ir, tuple(map(Dim.const, shape))))
            alloc.result.name_hint = hint
            made.append(alloc)
            self.partial.append(alloc.result)

    def _region(self) -> Block:
        """The region of an item: its positions, and which part of it there is."""
        body = Block(arg_types=[INDEX] * (len(self.axes) + 2 * (self.shares is not None)))
        names = [{"m": "i", "n": "j"}.get(c, c) for c in self.axes]
        for x, hint in zip(body.args, [*names, "from", "to"], strict=False):
            x.name_hint = hint
        return body

    def _work(self, body: Block) -> WorkOp:
        """A walk over the items."""
        body.add_op(YieldOp.of())
        parts: dict[str, Attribute] = {}
        if self.shares is not None:
            numbers = (self.tile.k, self.shares.blocks, self.shares.parts)
            parts["depth"] = ExpressionsAttr((self.sizes["k"],))
            parts["shares"] = ArrayAttr([IntegerAttr(n, i64) for n in numbers])
        return WorkOp.create(
            properties={
                "extents": ArrayAttr([ExpressionsAttr((self.sizes[c],)) for c in self.axes]),
                "steps": ArrayAttr([IntegerAttr(self.steps[c], i64) for c in self.axes]),
                "raster": IntegerAttr(self.raster, i64),
                **({"cluster": IntegerAttr(self.cluster, i64)} if self.cluster > 1 else {}),
                **parts,
            },
            regions=[Region(body)],
        )

    def _role(self, name: str, body: Block, role: Block) -> Region:
        role.args[0].name_hint = name
        role.add_op(self._work(body))
        role.add_op(YieldOp.of())
        return Region(role)

    def _steps(self, item: Block, body: Block, inits: Sequence[SSAValue] = ()) -> ForOp:
        """A loop along the summed axis, or the part of it that there is."""
        body.args[0].name_hint = "k"
        named, extent = Positions(), self.sizes["k"]
        if self.shares is not None:
            first, end = item.args[len(self.axes) :]
            extent = named.of(end) - named.of(first)
        loop = Loop(ExpressionsAttr((extent,)), self.tile.k)
        return ForOp.of([loop], Region(body), named.values, inits)

    def _producer(self, channel: SSAValue) -> Region:
        role, body, step = Block(arg_types=[INDEX]), self._region(), Block(arg_types=[INDEX])
        put = PutOp.create(operands=[channel], result_types=[*self.ring.slots])
        step.add_op(put)
        at = {c: [x] for c, x in zip(self.axes, body.args, strict=False)}
        at["k"] = [step.args[0], *body.args[len(self.axes) :][:1]]
        of_a = len(self.factors[0])
        for number, (factor, slot) in enumerate(zip(self.matrices, put.slots, strict=True)):
            named = Positions()
            begin = factor.begin({c: sum(map(named.of, xs), Dim.const(0)) for c, xs in at.items()})
            spelled = " ".join(factor.word)
            over = self._few(factor.word)
            step.add_op(
                CopyOp.of(
                    (factor.view, begin), (slot, ExpressionsAttr(())), f"{spelled} -> {spelled}",
                    named.values, over=over, via="tma", part=bool(over),
                    multicast=self.cluster > 1 and number >= of_a,
                )
            )  # fmt: skip
        step.add_op(YieldOp.of())
        body.add_op(self._steps(body, step))
        return self._role("warp", body, role)

    def _few(self, word: str) -> Over:
        """The rows of a slot that there are, where a tile has more: the others are not used."""
        row = word[-2]
        size, step = self.sizes[row].constant, self.steps[row]
        if row == "k" or size is None or -(-size // ATOM_ROWS) * ATOM_ROWS >= step:
            return ()
        rows = Dim.const(-(-size // ATOM_ROWS) * ATOM_ROWS)
        return ((row, ExpressionsAttr((rows,))),)

    def _consumer(self, channel: SSAValue, slots: dict[Attribute, SSAValue]) -> Region:
        role, body = Block(arg_types=[INDEX]), self._region()
        group = role.args[0]
        if len(self.matrices) == 2:
            done = self._sums(body, channel, group)
        else:
            done = self._sums_of_terms(body, channel, group)
        place = _Place(dict(zip(self.axes, body.args, strict=False)), group)
        if self.shares is None:
            self._finish(body, done, place, slots)
        else:
            rest = Block(arg_types=[self.sums])
            rest.args[0].name_hint = "whole"
            self._finish(rest, rest.args[0], place, slots)
            rest.add_op(YieldOp.of())
            part = body.args[len(self.axes) :]
            operands = [done, group, *part, *self.partial]
            body.add_op(JoinOp.create(operands=operands, regions=[Region(rest)]))
        return self._role("group", body, role)

    def _sums(self, body: Block, channel: SSAValue, group: SSAValue) -> SSAValue:
        """Products of steps that follow one another without a wait."""
        token = TokenType(self.sums)
        begin = added(body, ready(added(body, zeros(self.sums))))
        step = Block(arg_types=[INDEX, token])
        lhs, rhs = got(step, channel)
        sums = self._product(step, lhs, rhs, group, step.args[1])
        step.add_op(wait(sums, 1))
        step.add_op(release(channel, 1))
        step.add_op(YieldOp.of(sums))
        loop = self._steps(body, step, [begin])
        body.add_op(loop)
        done = added(body, wait(loop.outs[0], 0, self.sums))
        body.add_op(release(channel))
        return done

    def _sums_of_terms(self, body: Block, channel: SSAValue, group: SSAValue) -> SSAValue:
        """Products of terms; those of a step begin at 0."""
        step = Block(arg_types=[INDEX, self.sums])
        slots, count = got(step, channel), len(self.factors[0])
        left, right = slots[:count], slots[count:]
        sums = added(step, zeros(self.sums))
        for order in reversed(range(max(count, len(right)))):
            token = added(step, ready(sums))
            for k, lhs in enumerate(left):
                if 0 <= order - k < len(right):
                    token = self._product(step, lhs, right[order - k], group, token)
            sums = added(step, wait(token, 0, self.sums))
            if order:
                sums = added(step, smaller(sums, self.sums))
        step.add_op(release(channel))
        step.add_op(YieldOp.of(added(step, plus(step.args[1], sums, self.sums))))
        loop = self._steps(body, step, [added(body, zeros(self.sums))])
        body.add_op(loop)
        return loop.outs[0]

    def _product(
        self, step: Block, lhs: SSAValue, rhs: SSAValue, group: SSAValue, init: SSAValue
    ) -> SSAValue:
        """Starts a product of a group's rows of one slot with another slot."""
        named = Positions()
        rows = named.of(group) * GROUP_ROWS
        starts = {"m": rows + letter("m"), "n": letter("n"), "k": letter("k")}
        left, right = (
            (slot, ExpressionsAttr(tuple(starts[c] for c in word)))
            for slot, word in zip((lhs, rhs), self.letters, strict=True)
        )
        over = (("k", ExpressionsAttr((Dim.const(self.tile.k),))),)
        started = DotStartOp.of(
            f"{','.join(self.letters)}->mn", left, right, over, named.values,
            TokenType(self.sums), init=init,
        )  # fmt: skip
        started.location = self.dot.location
        return added(step, started)

    def _finish(
        self, body: Block, sums: SSAValue, place: _Place, slots: dict[Attribute, SSAValue]
    ) -> None:
        """What follows the product, on the group's tile."""
        for first in range(0, self.tile.n, self.width):
            part = sums
            if self.width < self.tile.n:
                columns = (first, first + self.width)
                kind = self._tile(self.dot.result)
                part = added(body, ExtractOp.of(sums, ((0, GROUP_ROWS), columns), kind))
            self._finish_columns(body, part, replace(place, first=first), slots)

    def _finish_columns(
        self, body: Block, sums: SSAValue, place: _Place, slots: dict[Attribute, SSAValue]
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
        self, body: Block, op: MapOp, values: dict[SSAValue, SSAValue], place: _Place
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

    def _item(self, place: _Place, at: tuple[Dim, Dim], named: Positions) -> dict[str, Dim]:
        """Where a tile of the result begins, by letter."""
        batch = {"g": named.of(place.item["g"])} if "g" in place.item else {}
        return {"m": at[0], "n": at[1], **batch}

    def _store(
        self, body: Block, op: StoreOp, value: SSAValue, place: _Place, slot: SSAValue | None
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
            number_of_slot = Dim.const(self.stored % TURNS)
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
