"""
A stream as a program of blocks whose warps have roles. Tiles of columns are walked from the last
one on; while the scores of one are multiplied, the weights of the one before are.

```
roles producer(1) { work { put, copy q; for n { put, copy k; put, copy v } } }
      consumer(2) { work { s = q·k; m, e = …; for n { s = q·k; o += p·v; m, e = … }; o += p·v; … } }
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, DimsAttr
from mlc.dialects.dtypes import F32, DType
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.tensor.stream import StreamOp
from mlc.dialects.tile.compute import INDEX, ConvertOp, ExtractOp
from mlc.dialects.tile.control import ForOp, Loop
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.memory import AllocOp, StoreOp
from mlc.dialects.tile.pipeline import (
    ChannelOp,
    ChannelType,
    DotStartOp,
    GetOp,
    PutOp,
    ReadyOp,
    RolesOp,
    WorkOp,
)
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, Layout, TokenType, view_type
from mlc.dialects.tile.words import Raster, Roles, Stages, Tile, Word, Words
from mlc.passes.tile.blocks import SLOT_COLUMNS, TURNS, added, release, wait
from mlc.passes.tile.stream_elements import Place, State, StreamElements, StreamMemory
from mlc.passes.tile.stream_form import VALUE, Factor, StreamForm, stream_form
from mlc.passes.tile.sums import zeros

QUERIES, WIDE = 2, 128
"""Blocks of rows that a block of threads holds, where their depth is at most so much."""

WordT = TypeVar("WordT", bound=Word)


def stream_program(
    kernel: PlanKernel, name: str, words: Words, layouts: Sequence[Layout]
) -> KernelOp:
    """The program of a kernel that holds a stream, by all words together."""
    stream = kernel.yielded.values[0].owner
    assert isinstance(stream, StreamOp)
    if not all(x in kernel.block.args for x in stream.inputs):
        raise MlcError(f"plan to tiles: {name}: expected a stream of the kernel's inputs")
    return _Streams(kernel, stream_form(stream), words, layouts).program(name)


def tile(rows: int, columns: int, dtype: DType = F32) -> FragType:
    """A group's tile."""
    return FragType(DimsAttr((Dim.const(rows), Dim.const(columns))), dtype.ir, NoneAttr())


class _Streams:
    def __init__(
        self, kernel: PlanKernel, form: StreamForm, words: Words, layouts: Sequence[Layout]
    ) -> None:
        self.kernel, self.form = kernel, form
        self.tile = _word(words, Tile)
        self.stages = _word(words, Stages)
        self.roles = _word(words, Roles)
        self.raster = next((w for w in words if isinstance(w, Raster)), Raster(1))
        if self.tile.m != GROUP_ROWS * self.roles.consumer:
            raise MlcError(
                f"tiles: {self.tile}: {self.roles.consumer} groups have {GROUP_ROWS} rows each;"
                f" expected m {GROUP_ROWS * self.roles.consumer}"
            )
        self.memory = StreamMemory(kernel, form.stream, layouts)
        self.block = self.memory.block
        self.dtype = form.factors[0].dtype
        m, n, k, v = self.tile.m, self.tile.n, form.size(form.depth), form.size(VALUE)
        if self.tile.k != k:
            raise MlcError(f"tiles: {self.tile}: expected the whole depth {k}")
        queries = QUERIES if max(k, v) <= WIDE else 1
        shapes = ((queries, m, k), (self.stages.depth, n, k), (self.stages.depth, n, v))
        self.channels: list[SSAValue] = []
        for depth, rows, columns in shapes:
            kind = view_type(self.dtype.ir, (Dim.const(rows), Dim.const(columns)), "sw128")
            ring = ChannelType(IntAttr(depth), ArrayAttr([kind]))
            self.channels.append(added(self.block, ChannelOp.create(result_types=[ring])))
        for channel, hint in zip(self.channels, ("q", "k", "v"), strict=True):
            channel.name_hint = hint
        self.scores, self.sums = tile(GROUP_ROWS, n), tile(GROUP_ROWS, v)
        self.row = FragType(DimsAttr((Dim.const(GROUP_ROWS),)), F32.ir, NoneAttr())

    def program(self, name: str) -> KernelOp:
        """Rings, slots for results, roles."""
        roles, form = self.roles, self.form
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
        program = KernelOp.of(name, Region(self.block), 1, work, self.tile.m)
        for op in program.walk():
            op.location = self.kernel.location
        return program

    # Aliases ---------------------------------------------------------------------------------

    def _role(self, name: str) -> Region:
        """One role's walk over the items: outer places, those of one raster together, and rows."""
        outer = [*reversed(self.form.outer)]
        letters = [*outer, self.form.row]
        role, body = Block(arg_types=[INDEX]), Block(arg_types=[INDEX] * len(letters))
        role.args[0].name_hint = name
        at: dict[str, SSAValue] = dict(zip(letters, body.args, strict=True))
        for x, c in zip(body.args, letters, strict=True):
            x.name_hint = c
        if name == "warp":
            self._produce(body, Place(at, self._top, None))
        else:
            self._consume(body, Place(at, self._top, role.args[0]))
        body.add_op(YieldOp.of())
        steps = [*[1] * len(outer), self.tile.m]
        extents = [ExpressionsAttr((Dim.const(self.form.size(c)),)) for c in letters]
        role.add_op(
            WorkOp.create(
                properties={
                    "extents": ArrayAttr(extents),
                    "steps": ArrayAttr([IntegerAttr(n, i64) for n in steps]),
                    "raster": IntegerAttr(self.raster.rows if outer else 1, i64),
                    **({"paired": UnitAttr()} if self.raster.paired else {}),
                },
                regions=[Region(body)],
            )
        )
        role.add_op(YieldOp.of())
        return Region(role)

    @property
    def _top(self) -> int | None:
        """Where the last rows begin, if those with most columns come first."""
        if not self._follows:
            return None
        return (self.form.size(self.form.row) - 1) // self.tile.m * self.tile.m

    @property
    def _follows(self) -> bool:
        """Whether the columns that are walked end with the rows'."""
        return self.form.diagonal and self.tile.m % self.tile.n == 0

    def _last(self, place: Place, named: Positions) -> Dim:
        """Where the last tile of columns begins."""
        n = self.tile.n
        if self._follows:
            return place.first_row(named, self.form.row) + (self.tile.m - n)
        return Dim.const((self.form.size(self.form.column) - 1) // n * n)

    def _trips(self, body: Block, place: Place, inits: Sequence[SSAValue], step: Block) -> ForOp:
        """A loop over all tiles of columns but the last, from there down."""
        named = Positions()
        loop = Loop(ExpressionsAttr((self._last(place, named),)), self.tile.n)
        step.args[0].name_hint = "n"
        made = ForOp.of([loop], Region(step), named.values, inits)
        body.add_op(made)
        return made

    def _column(self, place: Place, named: Positions, back: SSAValue | None) -> Dim:
        """Where a trip's columns begin."""
        last = self._last(place, named)
        return last if back is None else last - self.tile.n - named.of(back)

    # Producer -------------------------------------------------------------------------------

    def _produce(self, body: Block, place: Place) -> None:
        query, key, value = self.form.factors
        step = Block(arg_types=[INDEX])
        self._fill(body, 0, query, place)
        self._fill(body, 1, key, place, lambda named: self._column(place, named, None))
        back = step.args[0]
        self._fill(step, 1, key, place, lambda named: self._column(place, named, back))
        before = self.tile.n
        self._fill(step, 2, value, place, lambda named: self._column(place, named, back) + before)
        step.add_op(YieldOp.of())
        self._trips(body, place, [], step)
        self._fill(body, 2, value, place)

    def _fill(
        self,
        block: Block,
        number: int,
        factor: Factor,
        place: Place,
        column: Callable[[Positions], Dim] = lambda _: Dim.const(0),
    ) -> None:
        """One place of a ring, with rows or columns of scores from one on."""
        form, channel = self.form, self.channels[number]
        assert isinstance(channel.type, ChannelType)
        slot = added(block, PutOp.create(operands=[channel], result_types=[*channel.type.slots]))
        named = Positions()
        rows = form.row if number == 0 else form.column
        begin = {
            form.row: lambda: place.first_row(named, form.row) + letter("m"),
            form.column: lambda: column(named) + letter("m"),
            factor.word[-1]: lambda: letter("d"),
        }
        at = [begin[c]() if c in begin else place.outer(named, c) for c in factor.word]
        if rows not in factor.word:
            raise MlcError(f"tiles: a factor {factor.word} without {rows}")
        block.add_op(
            CopyOp.of(
                (self.memory.view_of(factor.argument), ExpressionsAttr(tuple(at))),
                (slot, ExpressionsAttr(())), "m d -> m d", named.values, via="tma",
            )
        )  # fmt: skip

    # Consumers ------------------------------------------------------------------------------

    def _consume(self, body: Block, place: Place) -> None:
        elements = StreamElements(self.form, self.memory, place, self.scores, self.sums, self.row)
        query = self._get(body, 0)
        state = self._begin(body, elements)
        scores = self._scores(body, query, self._get(body, 1), place)
        found = added(body, wait(scores, 0, self.scores))
        body.add_op(release(self.channels[1]))
        named = Positions()
        column = self._column(place, named, None), named
        _, weights, state = elements.follow(body, found, state, column, self._ragged, masked=True)
        state.weights = self._narrow(body, weights)
        step = Block(arg_types=[INDEX, *(x.type for x in state.values)])
        self._trip(step, elements, query, place)
        loop = self._trips(body, place, state.values, step)
        body.add_op(release(self.channels[0]))
        state = State.of(loop.outs)
        products = self._products(body, state, self._get(body, 2))
        total = added(body, wait(products, 0, self.sums))
        body.add_op(release(self.channels[2]))
        result = elements.finish(body, total, state)
        self._store(body, result, place)

    def _begin(self, body: Block, elements: StreamElements) -> State:
        """Before the first trip."""
        zero = added(body, zeros(self.sums))
        token = added(body, ReadyOp.create(operands=[zero], result_types=[TokenType(self.sums)]))
        top = elements.constant(body, float("-inf"))
        sums = [elements.constant(body, 0.0) for _ in self.form.sums]
        return State(zero, token, top, sums)

    @property
    def _ragged(self) -> int | None:
        """How many columns there are, if the last tile has less."""
        size = self.form.size(self.form.column)
        return size if size % self.tile.n else None

    def _trip(self, step: Block, elements: StreamElements, query: SSAValue, place: Place) -> None:
        back, *carried = step.args
        state = State.of(carried)
        scores = self._scores(step, query, self._get(step, 1), place)
        products = self._products(step, state, self._get(step, 2))
        found = added(step, wait(scores, 1, self.scores))
        step.add_op(release(self.channels[1]))
        named = Positions()
        column = self._column(place, named, back), named
        masked = not self._follows or self.tile.m != self.tile.n
        factor, weights, state = elements.follow(step, found, state, column, None, masked=masked)
        total = added(step, wait(products, 0, self.sums))
        step.add_op(release(self.channels[2]))
        total = elements.scaled(step, total, factor)
        ready = ReadyOp.create(operands=[total], result_types=[TokenType(self.sums)])
        state.total = added(step, ready)
        state.weights = self._narrow(step, weights)
        step.add_op(YieldOp.of(*state.values))

    def _narrow(self, block: Block, weights: SSAValue) -> SSAValue:
        """Weights as the second product multiplies them."""
        kind = tile(GROUP_ROWS, self.tile.n, self.dtype)
        return added(block, ConvertOp.create(operands=[weights], result_types=[kind]))

    def _get(self, block: Block, number: int) -> SSAValue:
        channel = self.channels[number]
        assert isinstance(channel.type, ChannelType)
        return added(block, GetOp.create(operands=[channel], result_types=[*channel.type.slots]))

    def _scores(self, block: Block, query: SSAValue, key: SSAValue, place: Place) -> SSAValue:
        named = Positions()
        assert place.group is not None
        rows = named.of(place.group) * GROUP_ROWS + letter("m")
        at = ExpressionsAttr((rows, letter("k"))), ExpressionsAttr((letter("n"), letter("k")))
        over = (("k", ExpressionsAttr((Dim.const(self.tile.k),))),)
        token = TokenType(self.scores)
        started = DotStartOp.of(
            "mk,nk->mn", (query, at[0]), (key, at[1]), over, named.values, token
        )
        return added(block, started)

    def _products(self, block: Block, state: State, value: SSAValue) -> SSAValue:
        over = (("k", ExpressionsAttr((Dim.const(self.tile.n),))),)
        none = ExpressionsAttr(())
        started = DotStartOp.of(
            "mk,kn->mn", (state.weights, none), (value, none), over, (), TokenType(self.sums),
            init=state.total,
        )  # fmt: skip
        return added(block, started)

    def _store(self, block: Block, value: SSAValue, place: Place) -> None:
        """Results by slots of so many columns, which are copied while the next ones are stored."""
        form, group = self.form, place.group
        assert group is not None
        part = tile(GROUP_ROWS, SLOT_COLUMNS, self.dtype)
        over = tuple(
            (c, ExpressionsAttr((Dim.const(n),)))
            for c, n in (("m", GROUP_ROWS), ("n", SLOT_COLUMNS))
        )
        for number in range(form.size(VALUE) // SLOT_COLUMNS):
            first = number * SLOT_COLUMNS
            columns = (first, first + SLOT_COLUMNS)
            piece = added(block, ExtractOp.of(value, ((0, GROUP_ROWS), columns), part))
            named = Positions()
            turn = ExpressionsAttr((named.of(group), Dim.const(number % TURNS)))
            block.add_op(StoreOp.of(piece, self.out, turn, named.values))
            named = Positions()
            slot = (named.of(group), Dim.const(number % TURNS), letter("m"), letter("n"))
            rows = place.first_row(named, form.row) + named.of(group) * GROUP_ROWS
            ends = {form.row: rows + letter("m"), VALUE: letter("n") + first}
            at = tuple(ends[c] if c in ends else place.outer(named, c) for c in form.result)
            block.add_op(
                CopyOp.of(
                    (self.out, ExpressionsAttr(slot)), (self.block.args[-1], ExpressionsAttr(at)),
                    "m n -> m n", named.values, over=over, via="tma",
                )
            )  # fmt: skip


def _word(words: Words, kind: type[WordT]) -> WordT:
    found = next((w for w in words if isinstance(w, kind)), None)
    if found is None:
        raise MlcError(f"tiles: a stream without {kind.NAME}(…); expected tile, stages, roles")
    return found
