"""
A stream whose columns are walked once, as a program of blocks whose warps have roles. What is
summed in one trip is multiplied while the first product of the next one is.

```
roles producer(1) { work { put, copy q, g; for n { put, copy k, v } } }
      consumer(2) { work { for n { s = q·k; wait o; d = g·v; p = …s…; e = …p, d…; o += e·k }; … } }
```
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32, I64
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.element import Point
from mlc.dialects.tile.compute import INDEX, ConvertOp
from mlc.dialects.tile.control import ForOp, Loop
from mlc.dialects.tile.element import EXCESS, MapOp, scalar
from mlc.dialects.tile.expression import ExpressionsAttr, Positions, letter
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.pipeline import DotStartOp
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import FragType, Layout, TokenType, frag_of
from mlc.dialects.tile.words import Words
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.axes import Axes, source
from mlc.passes.tile.elements import ElementRegion
from mlc.passes.tile.elements import Place as Spot
from mlc.passes.tile.fold_form import (
    Fold,
    FoldForm,
    made_before,
    place_in,
    read_once,
)
from mlc.passes.tile.pipelines import added, got, ready, release, wait
from mlc.passes.tile.stream_elements import Place
from mlc.passes.tile.stream_form import VALUE, depends
from mlc.passes.tile.stream_program import Left, StreamProgram, tile
from mlc.passes.tile.sums import zeros

Column = Callable[[Positions], Dim]
"""Where the columns of a trip begin."""
Walk = Callable[[Block, Place, Sequence[SSAValue]], Sequence[SSAValue]]
"""What is done for one place: what it goes on from, and what it comes to."""


@dataclass(frozen=True)
class _Walk:
    """
    Trips over columns: from `first` on, so many columns; where nothing is masked, or where columns
    end within the last tile, or on the diagonal.
    """

    first: Dim
    extent: Dim
    on_diagonal: bool
    ends: bool


@dataclass(frozen=True)
class _Item:
    """What a group has of an item: where it is, its rows, and numbers for each of them."""

    place: Place
    rows: Sequence[SSAValue]
    given: Mapping[SSAValue, SSAValue]


@dataclass(frozen=True)
class _Trip:
    """Where a trip's columns begin, and whether some do not count."""

    column: Column
    on_diagonal: bool
    ends: bool


class _Region(ElementRegion):
    """Elements of tiles where selections take their first value."""

    unmasked: Sequence[SelectOp] = ()

    def _fetched(self, tensor: SSAValue, at: Point) -> SSAValue:
        op = tensor.owner
        if isinstance(op, SelectOp) and op in self.unmasked:
            return self.fetch(op.operands[1], at)
        return super()._fetched(tensor, at)


class Folds(StreamProgram):
    """Sums over columns of what is computed again."""

    def __init__(
        self, kernel: PlanKernel, form: FoldForm, words: Words, layouts: Sequence[Layout]
    ) -> None:
        super().__init__(kernel, form, words, layouts, form.factors[0].dtype)
        self.form = form
        m, n = self.tile.m, self.tile.n
        if self.overlaps:
            raise MlcError("tiles: overlap(items): expected a stream with a largest score")
        if self.tile.k != form.products[0].depth or m % n:
            raise MlcError(
                f"tiles: {self.tile}: expected the whole depth {form.products[0].depth}, and"
                f" columns that divide {m}"
            )
        self.kept = self.ring(1, [(m, form.width(x)) for x in form.kept], "rows")
        self.walked = self.ring(
            self.stages.depth, [(n, form.width(x)) for x in form.walked], "columns"
        )
        self.wide = tile(GROUP_ROWS, n)
        self.sums = [tile(GROUP_ROWS, fold.width) for fold in form.folds]
        letters = {c: c for c in dict.fromkeys(form.word + VALUE)}
        self.axes = Axes(letters, form.sizes)

    @property
    def down(self) -> bool:
        return self.form.diagonal and not self.form.upward

    def _walks(self, place: Place, named: Positions) -> list[_Walk]:
        """Tiles with masks first, then those without."""
        m, n, size = self.tile.m, self.tile.n, self.form.size(self.form.column)
        ragged = size % n > 0
        if not self.form.diagonal:
            whole = size // n * n
            walks = [_Walk(Dim.const(0), Dim.const(whole), False, False)] * (whole > 0)
            return [*[_Walk(Dim.const(whole), Dim.const(n), False, True)] * ragged, *walks]
        row = place.first_row(named, self.form.row)
        diagonal = _Walk(row, Dim.const(m), True, self.form.upward and ragged)
        if not self.form.upward:  # what lies behind the last column lies behind the diagonal
            return [diagonal, _Walk(Dim.const(0), row, False, False)]
        end = (size + n - 1) // n * n
        rest = Dim.const(end - m) - row  # less than 0 of the last rows: no trips
        return [diagonal, _Walk(row + m, rest, False, ragged)]

    def _loop(
        self, body: Block, place: Place, number: int, step: Block, inits: Sequence[SSAValue]
    ) -> ForOp:
        """Trips of a walk."""
        named = Positions()
        extent = self._walks(place, named)[number].extent
        step.args[0].name_hint = "n"
        loop = Loop(ExpressionsAttr((extent,)), self.tile.n)
        made = ForOp.of([loop], Region(step), named.values, inits)
        body.add_op(made)
        return made

    def _column(self, place: Place, number: int, trip: SSAValue) -> Column:
        """Where the columns of a trip of a walk begin."""

        def begin(named: Positions) -> Dim:
            return self._walks(place, named)[number].first + named.of(trip)

        return begin

    def _each(
        self, body: Block, place: Place, inits: Sequence[SSAValue], walk: Walk, done: int = 0
    ) -> Sequence[SSAValue]:
        """What is done at each place along letters that are summed too, one after the other."""
        if done == len(self.form.also):
            return walk(body, place, inits)
        c = self.form.also[done]
        step = Block(arg_types=[INDEX, *(x.type for x in inits)])
        step.args[0].name_hint = c
        at = Place({**place.at, c: step.args[0]}, place.group)
        step.add_op(YieldOp.of(*self._each(step, at, step.args[1:], walk, done + 1)))
        loop = Loop(ExpressionsAttr((Dim.const(self.form.size(c)),)), 1)
        made = ForOp.of([loop], Region(step), (), inits)
        body.add_op(made)
        return made.outs

    # Producer -------------------------------------------------------------------------------

    def produce(self, body: Block, place: Place, before: Place | None) -> None:
        form = self.form

        def rows(named: Positions) -> Dim:
            return place.first_row(named, form.row)

        for slot, factor in zip(self.put(body, self.kept), form.kept, strict=True):
            self.fill(body, slot, factor, place, {form.row: rows})

        def walk(block: Block, at: Place, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            for number in range(len(self._walks(at, Positions()))):
                step = Block(arg_types=[INDEX])
                self._copies(step, at, self._column(at, number, step.args[0]))
                step.add_op(YieldOp.of())
                self._loop(block, at, number, step, [])
            return []

        self._each(body, place, [], walk)

    def _copies(self, block: Block, place: Place, column: Column) -> None:
        """The next place of the ring of columns."""
        for slot, factor in zip(self.put(block, self.walked), self.form.walked, strict=True):
            self.fill(block, slot, factor, place, {self.form.column: column})

    # Consumers ------------------------------------------------------------------------------

    def consume(self, body: Block, place: Place, left: Left | None) -> list[SSAValue]:
        rows = got(body, self.kept)
        given = self._numbers(body, read_once(self.form)[0], place)
        totals: list[SSAValue] = []
        for kind in self.sums:
            zero = added(body, zeros(kind))
            totals.append(added(body, ready(zero)))

        def walk(block: Block, at: Place, before: Sequence[SSAValue]) -> Sequence[SSAValue]:
            return self._walk(block, _Item(at, rows, given), before)

        totals = [*self._each(body, place, totals, walk)]
        done = [added(body, wait(x, 0, kind)) for x, kind in zip(totals, self.sums, strict=True)]
        body.add_op(release(self.walked))
        body.add_op(release(self.kept))
        for number, (fold, total) in enumerate(zip(self.form.folds, done, strict=True)):
            result = self._result(body, fold, total, place)
            self.store(body, result, number, fold.width, fold.word, place)
        return []

    def _walk(self, body: Block, item: _Item, totals: Sequence[SSAValue]) -> Sequence[SSAValue]:
        """All trips; what a trip sums is multiplied while the next one begins."""
        form, count = self.form, len(self.form.products)
        for number, walk in enumerate(self._walks(item.place, Positions())):
            step = Block(arg_types=[INDEX, *(x.type for x in totals)])
            at = self._column(item.place, number, step.args[0])
            _, *before = step.args
            known = dict(item.given)
            columns = got(step, self.walked)
            started = [self._product(step, 0, item, columns)]
            for token in before:
                step.add_op(wait(token, 1))
            step.add_op(release(self.walked, 1))
            started += [self._product(step, k, item, columns) for k in range(1, count)]
            ahead = read_once(form)[1]
            for k, token in enumerate(started):
                trip = _Trip(at, walk.on_diagonal, walk.ends)
                self._follow(step, k, token, count - 1 - k, known, ahead, item, trip)
            step.add_op(YieldOp.of(*self._sum(step, before, columns, known)))
            totals = self._loop(body, item.place, number, step, totals).outs
        return totals

    def _follow(
        self,
        step: Block,
        k: int,
        token: SSAValue,
        pending: int,
        known: dict[SSAValue, SSAValue],
        ahead: Sequence[SSAValue],
        item: _Item,
        trip: _Trip,
    ) -> None:
        """What one more product makes known; numbers of columns are read before it is there."""
        wanted = [x for x in made_before(self.form, k + 1) if x not in known]
        needed = [x for x in ahead if any(depends(y, x) for y in wanted) and x not in known]
        known |= self._elements(step, needed, {}, item.place, trip)
        known[self.form.products[k].op.result] = added(step, wait(token, pending, self.wide))
        known |= self._elements(step, wanted, known, item.place, trip)

    def _sum(
        self,
        step: Block,
        totals: Sequence[SSAValue],
        columns: Sequence[SSAValue],
        known: Mapping[SSAValue, SSAValue],
    ) -> list[SSAValue]:
        """Starts the products that a trip adds to the sums."""
        form = self.form
        narrow = tile(GROUP_ROWS, self.tile.n, self.dtype)
        factors: dict[SSAValue, SSAValue] = {}
        for fold in form.folds:
            if fold.wide not in factors:
                made = ConvertOp.create(operands=[known[fold.wide]], result_types=[narrow])
                factors[fold.wide] = added(step, made)
        over = (("k", ExpressionsAttr((Dim.const(self.tile.n),))),)
        none = ExpressionsAttr(())
        following: list[SSAValue] = []
        for fold, total in zip(form.folds, totals, strict=True):
            slot = columns[place_in(form.walked, fold.factor)]
            dot = DotStartOp.of(
                "mk,kn->mn", (factors[fold.wide], none), (slot, none), over, (), total.type,
                init=total,
            )  # fmt: skip
            following.append(added(step, dot))
        return following

    def _product(self, block: Block, k: int, item: _Item, columns: Sequence[SSAValue]) -> SSAValue:
        form, named, place, rows = self.form, Positions(), item.place, item.rows
        assert place.group is not None
        product = form.products[k]
        group = named.of(place.group) * GROUP_ROWS + letter("m")
        lhs = (
            rows[place_in(form.kept, product.rows)], ExpressionsAttr((group, letter("k")))
        )  # fmt: skip
        rhs = (
            columns[place_in(form.walked, product.columns)],
            ExpressionsAttr((letter("n"), letter("k"))),
        )
        over = (("k", ExpressionsAttr((Dim.const(product.depth),))),)
        dot = DotStartOp.of("mk,nk->mn", lhs, rhs, over, named.values, TokenType(self.wide))
        return added(block, dot)

    # Elements -------------------------------------------------------------------------------

    def _numbers(
        self, block: Block, wanted: Sequence[SSAValue], place: Place
    ) -> dict[SSAValue, SSAValue]:
        """What is read for each row, once an item."""
        if not wanted:
            return {}
        form = self.form
        region = self._region([], [form.row], place)
        values = [region.fetch(x, self._at()) for x in wanted]
        named = Positions()
        starts = [self._rows(named, place)]
        outs = [self.row] * len(wanted)
        found = self._map(block, [], starts, named, outs, region, values)
        return dict(zip(wanted, found, strict=True))

    def _at(self) -> Point:
        return tuple(Spot(source(c)) for c in self.form.word)

    def _elements(
        self,
        block: Block,
        wanted: Sequence[SSAValue],
        known: Mapping[SSAValue, SSAValue],
        place: Place,
        trip: _Trip,
    ) -> dict[SSAValue, SSAValue]:
        """What is computed from products that are there, and from numbers."""
        form = self.form
        if not wanted:
            return {}
        inputs = [x for x in known if any(depends(y, x) for y in wanted)]
        region = self._region([known[x] for x in inputs], [form.row, form.column], place)
        region.bound |= dict(zip(inputs, region.block.args, strict=False))
        region.unmasked = () if trip.on_diagonal else form.masks
        values = [region.fetch(x, self._at()) for x in wanted]
        if trip.ends:
            where = region.position(Spot(source(form.column)))
            inside = region.compare("lt", where, region.constant(form.size(form.column), I64), I64)
            summed = [fold.wide for fold in form.folds]
            nothing = region.constant(0.0, F32)
            for number, x in enumerate(wanted):
                if x in summed:
                    values[number] = region.select(inside, values[number], nothing)
        named = Positions()
        starts = [self._rows(named, place), trip.column(named)]
        outs = [self.wide] * len(wanted)
        found = self._map(block, [known[x] for x in inputs], starts, named, outs, region, values)
        return dict(zip(wanted, found, strict=True))

    def _region(self, inputs: Sequence[SSAValue], along: Sequence[str], place: Place) -> _Region:
        kinds = [scalar(frag_of(x).element) for x in inputs]
        region = _Region(self.memory, self.axes, along, kinds)
        for c in self.form.word:
            if c not in along:
                region.places[c] = place.outer(region.positions, c)
        return region

    @staticmethod
    def _map(
        block: Block,
        inputs: Sequence[SSAValue],
        starts: Sequence[Dim],
        named: Positions,
        outs: Sequence[FragType],
        region: ElementRegion,
        values: Sequence[SSAValue],
    ) -> Sequence[SSAValue]:
        made = MapOp.of(
            inputs, [ExpressionsAttr((x,)) for x in starts], named.values, outs,
            region.ends_with(values),
        )  # fmt: skip
        made.attributes[EXCESS] = UnitAttr()
        block.add_op(made)
        return made.outs

    def _result(self, block: Block, fold: Fold, total: SSAValue, place: Place) -> SSAValue:
        """What is yielded, of sums that are done."""
        form = self.form
        region = self._region([total], [form.row, VALUE], place)
        region.bound[fold.op.result] = region.block.args[0]
        value = region.fetch(fold.value, tuple(Spot(source(c)) for c in fold.word))
        named = Positions()
        starts = [self._rows(named, place), Dim.const(0)]
        out = tile(GROUP_ROWS, fold.width, self.dtype)
        (found,) = self._map(block, [total], starts, named, [out], region, [value])
        return found
