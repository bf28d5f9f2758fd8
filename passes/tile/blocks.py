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
from typing import TypeVar

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntAttr,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, product
from mlc.dialects.dtypes import F32, I32
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.control import INDEX, ForOp, Loop
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import ElementsOp
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter
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
from mlc.dialects.tile.turns import PassOp, TurnOp
from mlc.dialects.tile.types import FragType, TokenType, frag_of, view_of, view_type
from mlc.dialects.tile.words import (
    Cluster,
    Overlap,
    Raster,
    Roles,
    SplitK,
    Stages,
    Tile,
    Word,
    Words,
)
from mlc.dialects.tile.work import WorkOp
from mlc.passes.tile.block_results import SLOT_COLUMNS, TURNS, Place, Results
from mlc.passes.tile.cut import dot_of, tile_of
from mlc.passes.tile.matrices import Matrices
from mlc.passes.tile.pipelines import added, got, ready, release, wait
from mlc.passes.tile.sums import zeros
from mlc.passes.tile.terms import plus, smaller

WordT = TypeVar("WordT", bound=Word)


def form_blocks(kernel: KernelOp, words: Words) -> None:
    """Rewrites a canonical product by all words together; MlcError for another program."""
    dot = dot_of(kernel)
    if dot.letters.data.split("->")[1] not in ("mn", "gmn") or dot.parent is not kernel.block:
        raise MlcError(
            f"tiles: {words[0]}: product {dot.letters.data!r}; expected one of mn or gmn, whole"
        )
    _Blocks(kernel, dot, words).form()


class _Blocks:
    def __init__(self, kernel: KernelOp, dot: DotOp, words: Words) -> None:
        self.kernel, self.dot = kernel, dot
        self.tile = self._word(words, Tile)
        self.stages = self._word(words, Stages)
        self.roles = self._word(words, Roles)
        self.cluster = next((w.blocks for w in words if isinstance(w, Cluster)), 1)
        raster = next((w.rows for w in words if isinstance(w, Raster)), 1)
        self.raster = -(-raster // self.cluster) * self.cluster
        self.shares = next((w for w in words if isinstance(w, SplitK)), None)
        self.in_turn = any(isinstance(w, Overlap) for w in words)
        known = (Tile, Stages, Roles, Raster, Cluster, SplitK, Overlap)
        if other := next((w for w in words if not isinstance(w, known)), None):
            names = ", ".join(word.NAME for word in known[1:])
            raise MlcError(f"tiles: {other} beside tile(…): expected {names}")
        rows = GROUP_ROWS * (1 if self.in_turn else self.roles.consumer)
        if self.tile.m != rows:
            raise MlcError(
                f"tiles: {self.tile}: {self.roles.consumer} groups have {GROUP_ROWS} rows each;"
                f" expected m {rows}"
            )
        if self.in_turn and (self.roles.consumer < 2 or self.shares or self.cluster > 1):
            raise MlcError(
                "tiles: overlap(items): expected several consumers, and neither split_k nor cluster"
            )
        self.rows = 0 if self.in_turn else GROUP_ROWS  # of a tile, between groups
        self.slots = 1 if self.in_turn else TURNS
        self.rest = tile_of(dot)[1:]
        self.results = Results(dot, self.rest, self.tile, self.slots)
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
                shape = (self.roles.consumer, self.slots, GROUP_ROWS, SLOT_COLUMNS)
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

    def _work(self, body: Block, *, in_turn: bool) -> WorkOp:
        """A walk over the items."""
        marks = {"in_turn": UnitAttr()} if in_turn else {}
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
                **marks,
            },
            regions=[Region(body)],
        )

    def _role(self, name: str, body: Block, role: Block) -> Region:
        role.args[0].name_hint = name
        role.add_op(self._work(body, in_turn=self.in_turn and name == "group"))
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
        place = Place(dict(zip(self.axes, body.args, strict=False)), group, self.rows)
        if self.shares is None:
            self.results.finish(body, done, place, slots)
        else:
            rest = Block(arg_types=[self.sums])
            rest.args[0].name_hint = "whole"
            self.results.finish(rest, rest.args[0], place, slots)
            rest.add_op(YieldOp.of())
            part = body.args[len(self.axes) :]
            operands = [done, group, *part, *self.partial]
            body.add_op(JoinOp.create(operands=operands, regions=[Region(rest)]))
        return self._role("group", body, role)

    def _add_steps(self, body: Block, channel: SSAValue, loop: ForOp) -> None:
        """The loop, in the group's turn."""
        if self.in_turn:
            body.add_op(self._turn(channel))
        body.add_op(loop)
        if self.in_turn:
            body.add_op(PassOp.create(operands=[channel]))

    def _turn(self, channel: SSAValue) -> TurnOp:
        """For the steps of an item."""
        depth = self.sizes["k"].constant
        if depth is None:
            raise MlcError(
                f"tiles: overlap(items): a depth of {self.sizes['k']}; expected a number"
            )
        places = IntegerAttr(-(-depth // self.tile.k), i64)
        return TurnOp.create(operands=[channel], properties={"places": places})

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
        self._add_steps(body, channel, loop)
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
        self._add_steps(body, channel, loop)
        return loop.outs[0]

    def _product(
        self, step: Block, lhs: SSAValue, rhs: SSAValue, group: SSAValue, init: SSAValue
    ) -> SSAValue:
        """Starts a product of a group's rows of one slot with another slot."""
        named = Positions()
        rows = named.of(group) * self.rows if self.rows else Dim.const(0)
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
