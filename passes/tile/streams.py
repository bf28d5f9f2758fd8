"""
A stream as a program of blocks whose warps have roles. Tiles of columns are walked from the last
one on; while the scores of one are multiplied, the weights of the one before are.

```
roles producer(1) { work { put, copy q; for n { put, copy k; put, copy v } } }
      consumer(2) { work { s = q·k; m, e = …; for n { s = q·k; o += p·v; m, e = … }; o += p·v; … } }
```

With `overlap(items)` the last product of an item stands behind the first one of the next:

```
work carry(p, o) { s = q·k; o += p·v; m, e = …; store o; o = 0; for n { … } }; o += p·v; store o
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.tile.compute import INDEX, ConvertOp
from mlc.dialects.tile.control import ForOp, Loop
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.pipeline import DotStartOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import Layout, TokenType
from mlc.dialects.tile.words import Words
from mlc.passes.tile.pipelines import added, got, ready, release, wait
from mlc.passes.tile.stream_elements import Place, State, StreamElements
from mlc.passes.tile.stream_form import VALUE, StreamForm
from mlc.passes.tile.stream_program import Left, StreamProgram, tile
from mlc.passes.tile.sums import zeros

QUERIES, WIDE = 2, 128
"""Blocks of rows that a block of threads holds, where their depth is at most so much."""


class Streams(StreamProgram):
    """Sums that are kept for the largest score so far."""

    def __init__(
        self, kernel: PlanKernel, form: StreamForm, words: Words, layouts: Sequence[Layout]
    ) -> None:
        super().__init__(kernel, form, words, layouts, form.factors[0].dtype)
        self.form = form
        m, n, k, v = self.tile.m, self.tile.n, form.size(form.depth), form.size(VALUE)
        if self.tile.k != k:
            raise MlcError(f"tiles: {self.tile}: expected the whole depth {k}")
        queries = QUERIES if max(k, v) <= WIDE else 1
        shapes = (
            (queries, (m, k), "q"), (self.stages.depth, (n, k), "k"),
            (self.stages.depth, (n, v), "v"),
        )  # fmt: skip
        self.channels = [self.ring(depth, [shape], hint) for depth, shape, hint in shapes]
        self.scores, self.sums = tile(GROUP_ROWS, n), tile(GROUP_ROWS, v)

    @property
    def down(self) -> bool:
        return self._follows

    @property
    def _follows(self) -> bool:
        """Whether the columns that are walked end with the rows'."""
        return self.form.diagonal and self.tile.m % self.tile.n == 0

    def _last_column(self, place: Place, named: Positions) -> Dim:
        """Where the last tile of columns begins."""
        n = self.tile.n
        if self._follows:
            return place.first_row(named, self.form.row) + (self.tile.m - n)
        return Dim.const((self.form.size(self.form.column) - 1) // n * n)

    def _trips(self, body: Block, place: Place, inits: Sequence[SSAValue], step: Block) -> ForOp:
        """A loop over all tiles of columns but the last, from there down."""
        named = Positions()
        loop = Loop(ExpressionsAttr((self._last_column(place, named),)), self.tile.n)
        step.args[0].name_hint = "n"
        made = ForOp.of([loop], Region(step), named.values, inits)
        body.add_op(made)
        return made

    def _column(self, place: Place, named: Positions, back: SSAValue | None) -> Dim:
        """Where a trip's columns begin."""
        last = self._last_column(place, named)
        return last if back is None else last - self.tile.n - named.of(back)

    # Producer -------------------------------------------------------------------------------

    def produce(self, body: Block, place: Place, before: Place | None) -> None:
        step = Block(arg_types=[INDEX])
        back = step.args[0]
        self._copy(body, 0, place)
        self._copy(body, 1, place)
        if before is not None:
            self._copy(body, 2, before, 0)
        self._copy(step, 1, place, back)
        self._copy(step, 2, place, back, self.tile.n)
        step.add_op(YieldOp.of())
        self._trips(body, place, [], step)
        if before is None:
            self._copy(body, 2, place, 0)

    def produce_last(self, role: Block, before: Place) -> None:
        self._copy(role, 2, before, 0)

    def _copy(
        self, block: Block, number: int, place: Place, back: SSAValue | int | None = None,
        before: int = 0,
    ) -> None:  # fmt: skip
        """One place of a ring, with rows, or columns of a trip; 0: the first columns."""
        form = self.form
        (slot,) = self.put(block, self.channels[number])

        def rows(named: Positions) -> Dim:
            return place.first_row(named, form.row)

        def columns(named: Positions) -> Dim:
            if isinstance(back, int):
                return Dim.const(0)
            return self._column(place, named, back) + before

        begin = {form.column: columns} if number else {form.row: rows}
        self.fill(block, slot, form.factors[number], place, begin)

    # Consumers ------------------------------------------------------------------------------

    def begin(self, role: Block) -> list[SSAValue]:
        zero, row = added(role, zeros(self.sums)), added(role, zeros(self.row))
        weights = added(role, zeros(tile(GROUP_ROWS, self.tile.n, self.dtype)))
        return State(weights, added(role, ready(zero)), row, [row] * len(self.form.sums)).values

    def consume(self, body: Block, place: Place, left: Left | None) -> list[SSAValue]:
        elements = self._elements(place)
        (query,) = got(body, self.channels[0])
        state = self._begin(body, elements)
        scores = self._scores(body, query, got(body, self.channels[1])[0], place)
        products = None if left is None else self._last(body, State.of(left[1]))
        found = added(body, wait(scores, 0 if products is None else 1, self.scores))
        body.add_op(release(self.channels[1]))
        named = Positions()
        column = self._column(place, named, None), named
        _, weights, state = elements.follow(body, found, state, column, self._ragged, masked=True)
        total = None if products is None else self._total(body, products)
        state.weights = self._narrow(body, weights)
        if left is not None and total is not None:
            self._finish(body, left, total)
        step = Block(arg_types=[INDEX, *(x.type for x in state.values)])
        self._trip(step, elements, query, place)
        loop = self._trips(body, place, state.values, step)
        body.add_op(release(self.channels[0]))
        if self.overlaps:
            return list(loop.outs)
        self.consume_last(body, (place, loop.outs))
        return []

    def consume_last(self, role: Block, left: Left) -> None:
        self._finish(role, left, self._total(role, self._last(role, State.of(left[1]))))

    def _elements(self, place: Place) -> StreamElements:
        return StreamElements(self.form, self.memory, place, self.scores, self.sums, self.row)

    def _last(self, block: Block, state: State) -> SSAValue:
        """Starts the last product of an item."""
        return self._products(block, state, got(block, self.channels[2])[0])

    def _total(self, block: Block, products: SSAValue) -> SSAValue:
        """The last product, once it is there."""
        total = added(block, wait(products, 0, self.sums))
        block.add_op(release(self.channels[2]))
        return total

    def _finish(self, block: Block, left: Left, total: SSAValue) -> None:
        """Stores what an item gives."""
        form, (place, state) = self.form, left
        result, statistics = self._elements(place).finish(block, total, State.of(state))
        values = form.stream.values
        self.store(block, result, values.index(form.value), form.size(VALUE), form.result, place)
        word = form.word.replace(form.column, "")
        for value, found in zip(form.statistics, statistics, strict=True):
            self.store_rows(block, found, values.index(value), word, place)

    def _begin(self, body: Block, elements: StreamElements) -> State:
        """Before the first trip."""
        zero = added(body, zeros(self.sums))
        token = added(body, ready(zero))
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
        scores = self._scores(step, query, got(step, self.channels[1])[0], place)
        products = self._products(step, state, got(step, self.channels[2])[0])
        found = added(step, wait(scores, 1, self.scores))
        step.add_op(release(self.channels[1]))
        named = Positions()
        column = self._column(place, named, back), named
        masked = not self._follows or self.tile.m != self.tile.n
        factor, weights, state = elements.follow(step, found, state, column, None, masked=masked)
        total = added(step, wait(products, 0, self.sums))
        step.add_op(release(self.channels[2]))
        state.total = added(step, ready(elements.scaled(step, total, factor)))
        state.weights = self._narrow(step, weights)
        step.add_op(YieldOp.of(*state.values))

    def _narrow(self, block: Block, weights: SSAValue) -> SSAValue:
        """Weights as the second product multiplies them."""
        kind = tile(GROUP_ROWS, self.tile.n, self.dtype)
        return added(block, ConvertOp.create(operands=[weights], result_types=[kind]))

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
