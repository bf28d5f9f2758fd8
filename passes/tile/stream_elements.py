"""What is computed element by element in a stream: exponents, sums of rows, what is left to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32, I64
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.comparison import MaxOp, MinOp
from mlc.dialects.tensor.element import Point
from mlc.dialects.tensor.elementwise import AddOp, DivOp, ExpOp, MulOp, SubOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.stream import Exp2EstimateOp
from mlc.dialects.tile.compute import ReduceOp
from mlc.dialects.tile.element import EXCESS, MapOp, scalar
from mlc.dialects.tile.expression import ExpressionsAttr, Positions
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.types import FragType, frag_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.axes import Axes, source
from mlc.passes.tile.elements import ElementRegion, Memory
from mlc.passes.tile.elements import Place as Spot
from mlc.passes.tile.pipelines import added
from mlc.passes.tile.stream_form import VALUE, StreamForm, reads


@dataclass
class State:
    """What a group carries: weights of the last trip, the sum of products, the largest, sums."""

    weights: SSAValue
    total: SSAValue  # a token
    top: SSAValue
    sums: list[SSAValue]

    @property
    def values(self) -> list[SSAValue]:
        """All, in order."""
        return [self.weights, self.total, self.top, *self.sums]

    @staticmethod
    def of(values: Sequence[SSAValue]) -> State:
        """As `values` gives them."""
        weights, total, top, *sums = values
        return State(weights, total, top, sums)


@dataclass(frozen=True)
class Place:
    """Where a role stands, by letter."""

    at: Mapping[str, SSAValue]
    group: SSAValue | None

    def first_row(self, named: Positions, row: str) -> Dim:
        """Of the block's tile."""
        return named.of(self.at[row])

    def outer(self, named: Positions, c: str) -> Dim:
        """Along a letter of which a tile has one place."""
        return named.of(self.at[c]) if c in self.at else Dim.const(0)


class _Region(ElementRegion):
    """Elements of a stream: sums are known, or the stream has another form."""

    form: StreamForm

    def op(self, kind: type[TensorOp], *operands: SSAValue) -> SSAValue:
        """An op on elements."""
        return self._added(kind.make(*operands))

    def power(self, x: SSAValue, y: SSAValue) -> SSAValue:
        """
        exp(x - y) of what is not scaled yet, estimated: weights are rounded to 16 bits. Scores that
        are scaled and then masked by -inf alone take one multiplication and addition. Others may
        be as large as numbers that stand for -inf: there only differences are right.
        """
        base = self._scale(1 / log(2))
        if self.form.scaling is None:
            return self.op(Exp2EstimateOp, self.op(MulOp, self.op(SubOp, x, y), base))
        left, right = (self.op(MulOp, z, base) for z in (x, y))
        return self.op(Exp2EstimateOp, self.op(SubOp, left, right))

    def scaled(self, x: SSAValue) -> SSAValue:
        """The largest as the stream has it."""
        return x if self.form.scale == 1.0 else self.op(MulOp, x, self._scale(1.0))

    def _scale(self, times: float) -> SSAValue:
        """So many times what scores are multiplied by."""
        known = self.form.scale
        if known is not None:
            return self.constant(known * times, F32)
        number = self.fetch(self.form.number, ())
        if isinstance(self.form.scaling, DivOp):
            return self.op(DivOp, self.constant(times, F32), number)
        return self.op(MulOp, number, self.constant(times, F32))

    def _fetched(self, tensor: SSAValue, at: Point) -> SSAValue:
        if isinstance(tensor.owner, Reduction):
            raise MlcError(f"stream: {tensor.owner.name} is not known where it is read")
        if isinstance(tensor.owner, ExpOp) and isinstance(tensor.owner.x.owner, SubOp):
            x, y = (self.fetch(z, at) for z in tensor.owner.x.owner.operands)
            return self.power(x, y)
        return super()._fetched(tensor, at)


class StreamElements:
    """Writes regions of one role's tiles."""

    def __init__(
        self,
        form: StreamForm,
        memory: Memory,
        place: Place,
        scores: FragType,
        sums: FragType,
        row: FragType,
    ) -> None:
        self.form, self.memory, self.place = form, memory, place
        self.scores, self.sums, self.row = scores, sums, row
        letters = {c: c for c in dict.fromkeys(form.word + VALUE)}
        self.axes = Axes(letters, form.sizes)

    # Maps -----------------------------------------------------------------------------------

    def _map(
        self,
        block: Block,
        kind: FragType,
        inputs: Sequence[SSAValue],
        outs: Sequence[FragType],
        compute: Callable[[_Region, Sequence[SSAValue]], list[SSAValue]],
        column: tuple[Dim, Positions] | None = None,
        *,
        excess: bool = True,
    ) -> Sequence[SSAValue]:
        """A map over tiles of one shape: of rows, of scores, or of results."""
        form = self.form
        along = [form.row]
        if len(kind.shape) > 1:
            along.append(form.column if column is not None else VALUE)
        region = _Region(
            self.memory, self.axes, along, [scalar(frag_of(x).element) for x in inputs]
        )
        region.form = form
        for c in form.word:
            if c not in along:
                region.places[c] = self.place.outer(region.positions, c)
        values = compute(region, region.block.args[: len(inputs)])
        named = Positions()
        assert self.place.group is not None
        rows = self.place.first_row(named, form.row) + named.of(self.place.group) * GROUP_ROWS
        starts = [rows]
        if len(along) > 1:
            dims = (
                (Dim.const(0),) if column is None else named.moved((column[0],), column[1].values)
            )
            starts += dims
        made = MapOp.of(
            inputs, [ExpressionsAttr((x,)) for x in starts], named.values, outs,
            region.ends_with(values),
        )  # fmt: skip
        if excess:
            made.attributes[EXCESS] = UnitAttr()
        block.add_op(made)
        return made.outs

    def _at(self, word: str) -> Point:
        return tuple(Spot(source(c)) for c in word)

    def constant(self, block: Block, value: float) -> SSAValue:
        """A number for each row."""
        (found,) = self._map(block, self.row, [], [self.row], lambda r, _: [r.constant(value, F32)])
        return found

    def _reduced(self, block: Block, monoid: str, value: SSAValue) -> SSAValue:
        return added(block, ReduceOp.of(monoid, [value], 1, [self.row]))

    # A trip ---------------------------------------------------------------------------------

    def follow(
        self,
        block: Block,
        scores: SSAValue,
        state: State,
        column: tuple[Dim, Positions],
        size: int | None,
        *,
        masked: bool,
    ) -> tuple[SSAValue, SSAValue, State]:
        """
        What sums so far are multiplied by, the weights of these scores, and the state after them.
        `size`: columns from which on there are none.
        """
        exponents = self._exponents(block, scores, column, size, masked=masked)
        largest = self._reduced(block, "max", exponents)
        # each product is rounded, as what weights subtract is: of equal rows the factor is 1
        top, shift, factor = self._map(
            block, self.row, [state.top, largest], [self.row] * 3, self._rescaled, excess=False
        )
        parts = self._map(
            block, self.scores, [exponents, shift], [self.scores] * (1 + len(self.form.sums)),
            self._weighted, column,
        )  # fmt: skip
        weights, *terms = parts
        sums: list[SSAValue] = []
        for before, term in zip(state.sums, terms, strict=True):
            part = self._reduced(block, "sum", term)
            (after,) = self._map(
                block, self.row, [before, factor, part], [self.row],
                lambda r, x: [r.op(AddOp, r.op(MulOp, x[0], x[1]), x[2])],
            )  # fmt: skip
            sums.append(after)
        return factor, weights, State(state.weights, state.total, top, sums)

    def _exponents(
        self,
        block: Block,
        scores: SSAValue,
        column: tuple[Dim, Positions],
        size: int | None,
        *,
        masked: bool,
    ) -> SSAValue:
        form = self.form
        at = self._at(form.word)

        def compute(region: _Region, x: Sequence[SSAValue]) -> list[SSAValue]:
            unscaled = form.scores if form.scaling is None else form.scaling
            region.bound[unscaled.results[0]] = x[0]
            for op in form.unmasked if not masked else ():
                region.bound[op.results[0]] = region.fetch(op.operands[1], at)
            value = region.fetch(form.exponents, at)
            if size is not None:
                where = region.position(Spot(source(form.column)))
                inside = region.compare("lt", where, region.constant(size, I64), I64)
                value = region.select(inside, value, region.constant(float("-inf"), F32))
            return [value]

        (found,) = self._map(block, self.scores, [scores], [self.scores], compute, column)
        return found

    def _rescaled(self, region: _Region, x: Sequence[SSAValue]) -> list[SSAValue]:
        """The largest so far, what is subtracted, and exp(what was - what is)."""
        form, at = self.form, self._at_row()
        before, largest = x
        top = region.op(MaxOp, before, largest)
        if form.shifted.runner is form.shifted.top:
            old, new = before, self._finite(region, top)
            shift = new
        else:
            runner = form.shifted.runner.results[0]
            old, new = (self._row_value(region, runner, y, at) for y in (before, top))
            shift = top
        factor = region.power(region.op(MinOp, old, new), new)
        return [top, shift, factor]

    def _row_value(self, region: _Region, value: SSAValue, top: SSAValue, at: Point) -> SSAValue:
        """A row's number that is made of the largest."""
        outer, region.known = region.known, {}
        region.bound[self.form.shifted.top.results[0]] = top
        found = region.fetch(value, at)
        region.known = outer
        return found

    def _finite(self, region: _Region, top: SSAValue) -> SSAValue:
        """0 where it is -inf."""
        lowest = region.constant(float("-inf"), F32)
        is_lowest = region.compare("eq", top, lowest, F32)
        return region.select(is_lowest, region.constant(0.0, F32), top)

    def _at_row(self) -> Point:
        return self._at(self.form.word.replace(self.form.column, ""))

    def _weighted(self, region: _Region, x: Sequence[SSAValue]) -> list[SSAValue]:
        """Weights, and what is summed along rows."""
        form, at = self.form, self._at(self.form.word)
        region.bound[form.exponents] = x[0]
        region.bound[form.shifted.top.results[0]] = x[1]
        for op in form.shifted.pending:
            (value,) = (y for y in op.operands if reads(y, form.scores.result))
            region.bound[op.results[0]] = region.fetch(value, at)
        return [region.fetch(y, at) for y in (form.weights, *(op.x for op in form.sums))]

    def scaled(self, block: Block, total: SSAValue, factor: SSAValue) -> SSAValue:
        """Sums of products times a number for each row."""
        (found,) = self._map(
            block, self.sums, [total, factor], [self.sums], lambda r, x: [r.op(MulOp, x[0], x[1])]
        )
        return found

    # The end --------------------------------------------------------------------------------

    def finish(
        self, block: Block, total: SSAValue, state: State
    ) -> tuple[SSAValue, Sequence[SSAValue]]:
        """The result: what waited for the end of sums is done; and what else is yielded."""
        form = self.form
        number = len(form.sums)

        def rows(region: _Region, x: Sequence[SSAValue]) -> list[SSAValue]:
            at = self._at_row()
            known = region.constant(1.0, F32)
            if form.shifted.runner is form.shifted.top:
                # exp(-inf - -inf) is not a number, and so is the sum where every column is -inf
                finite = self._finite(region, x[0])
                known = region.power(finite, x[0])
            sums = [region.op(MulOp, y, known) for y in x[1:]]
            for op, value in zip(form.sums, sums, strict=True):
                region.bound[op.results[0]] = value
            region.bound[form.shifted.top.results[0]] = region.scaled(x[0])
            scale = known
            for op in form.shifted.pending:
                value = region.fetch(form.walks.factor_of(op).results[0], at)
                scale = region.op(DivOp if isinstance(op, DivOp) else MulOp, scale, value)
            wanted = [region.fetch(x, at) for x in form.statistics]
            return [scale, *sums, *wanted]

        outs = [self.row] * (1 + number + len(form.statistics))
        scale, *found = self._map(block, self.row, [state.top, *state.sums], outs, rows)
        sums, statistics = found[:number], found[number:]
        kind = FragType(self.sums.dims, form.factors[0].dtype.ir, self.sums.layout)

        def results(region: _Region, x: Sequence[SSAValue]) -> list[SSAValue]:
            value, scale, top, *sums = x
            region.bound[form.values.result] = region.op(MulOp, value, scale)
            region.bound[form.shifted.top.results[0]] = region.scaled(top)
            for op, found in zip(form.sums, sums, strict=True):
                region.bound[op.results[0]] = found
            return [region.fetch(form.value, self._at(form.result))]

        (done,) = self._map(block, self.sums, [total, scale, state.top, *sums], [kind], results)
        return done, statistics
