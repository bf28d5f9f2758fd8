"""
The loops over columns that are never stored, written: what a walk carries is one state of a monoid
(D18), and says how two states combine, so that its trips may be split.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.tensor.comparison import CompareOp, MinOp, SelectOp
from mlc.dialects.tensor.control import INDEX, IfOp, YieldOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp, ExpOp, MulOp, SubOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ReduceOp, Reduction
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, broadcast_to
from mlc.dialects.tensor.tile import tile_size
from mlc.dialects.tensor.tiles import TilesOp
from mlc.passes.plan.tiling.moments import Columns, between
from mlc.passes.plan.tiling.online_reduction import COMBINE, Shifted, Walks, spread_axes
from mlc.passes.plan.tiling.skipping import is_needed, masked_walk
from mlc.passes.plan.tiling.tile_groups import Group, finds_position, fold_of
from mlc.passes.plan.tiling.tile_scope import TileScope
from mlc.passes.plan.tiling.widths import converted, result_of, summand_of

Factors = dict[tuple[TensorOp, type[TensorOp]], SSAValue]
"""What sums so far are multiplied by, for each row value and each exponential of it."""

States = Mapping[TensorOp, Sequence[SSAValue]]
"""What each reduction of a walk carries: its value first."""


class Stream:
    """Writes the loops over columns of one tile of rows."""

    def __init__(self, scope: TileScope, group: Group, symbol: str) -> None:
        self.scope = scope
        self.group = group
        self.symbol = symbol
        self.walks = Walks(group, scope.maps)
        self._ones: dict[TensorOp, SSAValue] = {}

    def run(self) -> None:
        """One loop for each walk; the reductions' results are bound in the scope."""
        for number in range(1, self.walks.count + 1):
            self._walk(self.walks.sums(number))

    def _walk(self, folds: list[TensorOp]) -> None:
        group, column = self.group, self.group.column
        assert column is not None
        state = _State(self.scope, folds, self.walks)
        inits = list(state.starts())
        block = Block(arg_types=[INDEX, *(x.type for x in inits)])
        dim = tile_size(self.symbol, group.column_step)
        inner = state.scope_of(block, [dim], [block.args[0]])
        states = state.split(block.args[1:])
        masked = masked_walk(group, folds)
        if masked is None:
            following = state.after_trip(inner, states)
        else:
            needed = is_needed(inner, masked, lambda op: states[op][0])
            runs, rest = Block(), Block()
            inner.b, inner.block = OpBuilder(runs.add_op), runs
            runs.add_op(YieldOp.create(operands=state.after_trip(inner, states)))
            rest.add_op(YieldOp.create(operands=list(block.args[1:])))
            branch = IfOp(needed, Region(runs), Region(rest))
            block.add_op(branch)
            following = list(branch.outs)
        block.add_op(YieldOp.create(operands=following))
        names = state.names()
        combine = None if names else state.combining(inits)
        names = names or [""] * len(inits)
        steps, symbols = [group.column_step], [self.symbol]
        loop = TilesOp.make([column], steps, symbols, inits, names, [], [], Region(block), combine)
        loop.location = folds[-1].location
        self.scope.block.add_op(loop)
        for op, results in state.split(loop.results).items():
            result = results[-1] if finds_position(op) else results[0]
            result.name_hint = op.results[0].name_hint
            self.scope.bind(op, self._finished(op, result) if op in self.walks.merged else result)

    def _finished(self, op: TensorOp, total: SSAValue) -> SSAValue:
        """The sum over all columns, with what waited for it."""
        form, b = self.walks.merged[op], self.scope.b
        if form.power:
            return total
        known = _spread(self.scope, self._known(form), op, form.difference, form.runner)
        total = b(MulOp, total, known)
        for late in form.pending:
            factor = self.walks.factor_of(late)
            value = _spread(self.scope, self.scope.result(factor), op, late, factor)
            total = b(type(late), total, value)
        return total

    def _known(self, form: Shifted) -> SSAValue:
        """
        What a sum with a finite maximum in its c is multiplied by: 1, but where every column is
        -inf exp(c_finite - c), as exp(-inf - -inf) is not a number, and so is the sum.
        """
        found, runner, top = self._ones.get(form.runner), form.runner, form.top
        if found is None:
            b, value = self.scope.b, self.scope.result(top)
            finite = _finite(b, value)
            if runner is top:
                difference = b(SubOp, finite, value)
            else:
                self.scope.bind(top, finite)
                known = self.scope.result(runner)
                self.scope.bind(top, value)
                difference = b(SubOp, known, self.scope.result(runner))
                nothing = _all(b, 0.0, difference)
                difference = b(SelectOp, _is_lowest(b, value, difference), difference, nothing)
            found = self._ones[runner] = b(ExpOp, difference)
        return found


class _State:
    """What the reductions of one walk carry: one state of a monoid."""

    def __init__(self, scope: TileScope, folds: Sequence[TensorOp], walks: Walks) -> None:
        self.scope = scope
        self.folds = folds
        self.merged = walks.merged
        self.group = walks.group
        self.columns = walks.columns
        forms = [self.merged[op] for op in folds if op in self.merged]
        self.means = {form.top for form in forms if form.power}
        self.exponents = [form for form in forms if not form.power]

    def scope_of(
        self, block: Block, dims: Sequence[Dim], positions: Sequence[SSAValue]
    ) -> TileScope:
        """A scope inside that of the rows, over columns: none has a place where none are given."""
        rows, group = self.scope, self.group
        count = len(rows.dims)
        return TileScope(
            block,
            (*rows.dims, *(dims or (Dim.const(1),))),
            (*rows.positions, *positions),
            rows.members,
            lambda op: (*group.axes[op][:count], group.axes[op][-1]),
            rows.maps,
            rows,
        )

    def starts(self) -> Iterator[SSAValue]:
        """
        What the reductions begin with: the monoid's identity. One that finds a position has the
        element before it, squares of differences the number of columns behind them.
        """
        b = self.scope.b
        for op in self.folds:
            monoid, shape = MONOIDS[fold_of(op)], self.scope.shape(op)
            dtype = result_of(op)
            if isinstance(op, Reduction) and finds_position(op):
                dtype = summand_of(op)
            yield full(b, monoid.identity(dtype)[0], dtype, shape)
            if monoid.extreme is not None:
                yield full(b, 0, I64, shape)  # where no element is better than the identity
            elif self._counts(op):
                yield full(b, 0, I64, ())

    def _counts(self, op: TensorOp) -> bool:
        return op in self.merged and self.merged[op].power > 0

    def split(self, values: Sequence[SSAValue]) -> dict[TensorOp, list[SSAValue]]:
        """Each reduction's part of a state."""
        rest = iter(values)
        counts = (2 if finds_position(op) or self._counts(op) else 1 for op in self.folds)
        return {
            op: [next(rest) for _ in range(n)] for op, n in zip(self.folds, counts, strict=True)
        }

    def names(self) -> list[str] | None:
        """The reductions' monoids, where each is combined for itself, by the name of its monoid."""
        if any(op in self.merged or finds_position(op) for op in self.folds):
            return None
        return [fold_of(op) for op in self.folds]

    # The states of trips ------------------------------------------------------------------------

    def after_trip(self, inner: TileScope, states: States) -> list[SSAValue]:
        """The state with a tile of columns."""
        factors: Factors = {}
        apart: dict[TensorOp, SSAValue] = {}
        following: list[SSAValue] = []
        columns = Columns(self.columns or 0, self.group.column_step)
        own = columns.of_tile(inner.b, inner.positions[-1]) if self.means else None
        for op in self.folds:
            before, *others = states[op]
            form = self.merged.get(op)
            if finds_position(op):
                following += _better(inner.b, op, (before, *others), self._nearest(inner, op))
            elif form is None:
                part = inner.compute(op)
                after = inner.b(COMBINE[fold_of(op)], before, part)
                following.append(after)
                if op in self.means and own is not None:
                    counts = self._count_of(op, states), own
                    apart[op] = between(inner.b, (before, part), counts)
                    inner.bind(op, columns.grown(inner.b, part, own))  # the tile's mean
                factors |= self._factors(inner, op, before, after)
            elif form.power and own is not None:
                squares = inner.b(AddOp, inner.b(AddOp, before, inner.compute(op)), apart[form.top])
                following += [squares, inner.b(AddOp, others[0], own)]
            else:
                following.append(self._rescaled(inner, op, before, factors))
        return following

    def combining(self, inits: Sequence[SSAValue]) -> Region:
        """How the states of columns and of those behind them combine."""
        kinds = [x.type for x in inits]
        block = Block(arg_types=[*kinds, *kinds])
        scope = self.scope_of(block, [], [])
        states = [self.split(block.args[: len(kinds)]), self.split(block.args[len(kinds) :])]
        factors: list[Factors] = [{}, {}]
        apart: dict[TensorOp, SSAValue] = {}
        ends: list[SSAValue] = []
        for op in self.folds:
            (left, *before), (right, *behind) = (state[op] for state in states)
            form, b = self.merged.get(op), scope.b
            if finds_position(op):
                ends += _better(b, op, (left, *before), (right, *behind))
            elif form is None:
                after = b(COMBINE[fold_of(op)], left, right)
                ends.append(after)
                if op in self.means:
                    first, second = (self._count_of(op, state) for state in states)
                    apart[op] = between(b, (left, right), (first, second))
                for known, value in zip(factors, (left, right), strict=True):
                    known.update(self._factors(scope, op, value, after))
            elif form.power:
                squares = b(AddOp, b(AddOp, left, right), apart[form.top])
                ends += [squares, b(AddOp, before[0], behind[0])]
            else:
                parts = zip((left, right), factors, strict=True)
                ends.append(b(AddOp, *(self._scaled(scope, op, x, known) for x, known in parts)))
        block.add_op(YieldOp.create(operands=ends))
        return Region(block)

    def _factors(
        self, scope: TileScope, top: TensorOp, before: SSAValue, after: SSAValue
    ) -> Factors:
        """What sums are multiplied by that follow a maximum, when it has become another."""
        found: Factors = {}
        for runner in dict.fromkeys(f.runner for f in self.exponents if f.top is top):
            below = _difference(scope, runner, top, before, after)
            kinds = dict.fromkeys(f.exponential for f in self.exponents if f.runner is runner)
            found |= {(runner, kind): scope.b(kind, below) for kind in kinds if kind is not None}
        return found

    def _scaled(
        self, scope: TileScope, op: TensorOp, value: SSAValue, factors: Factors
    ) -> SSAValue:
        """A sum for another maximum."""
        form = self.merged[op]
        assert form.exponential is not None
        factor = factors[form.runner, form.exponential]
        factor = _spread(self.scope, factor, op, form.difference, form.runner, scope.b)
        return scope.b(MulOp, value, factor)

    def _rescaled(
        self, inner: TileScope, op: TensorOp, before: SSAValue, factors: Factors
    ) -> SSAValue:
        """The sum so far for the new maximum, and what this tile adds to it."""
        for late in self.merged[op].pending:
            (x,) = (x for x in late.operands if self._is_exponential(x))
            assert isinstance(x.owner, TensorOp)
            inner.bind(late, inner.result(x.owner))
        part = inner.compute(op)
        return inner.b(AddOp, self._scaled(inner, op, before, factors), part)

    def _is_exponential(self, value: SSAValue) -> bool:
        owner = value.owner
        return isinstance(owner, TensorOp) and self.group.is_wide(owner)

    def _nearest(self, inner: TileScope, op: TensorOp) -> tuple[SSAValue, SSAValue]:
        """The best element of a tile, and where it lies among all columns."""
        b, extreme = inner.b, _extreme(op)
        place = inner.compute(op)
        (tile,) = cast("ReduceOp", place.owner).operands
        letters = cast("ReduceOp", op).letters
        start = broadcast_to(b, inner.positions[-1], shape_of(place.type))
        found = b(ReduceOp, tile, monoid=StringAttr(extreme), letters=letters)
        return found, b(AddOp, place, start)

    def _count_of(self, top: TensorOp, states: States) -> SSAValue:
        """How many columns a state has seen, which stands beside its squares."""
        squares = next(op for op in self.folds if self._counts(op) and self.merged[op].top is top)
        return states[squares][1]


def _spread(
    rows: TileScope,
    value: SSAValue,
    fold: TensorOp,
    through: TensorOp,
    source: TensorOp,
    b: OpBuilder | None = None,
) -> SSAValue:
    """A row value in the shape of a reduction's result."""
    b = rows.b if b is None else b
    axes = spread_axes(fold, through, source, rows.maps)
    assert axes is not None
    dims, shape = shape_of(value.type), rows.shape(fold)
    kept = tuple(dims[a] for a in axes if a is not None)
    value = converted(b, value, result_of(fold))
    element = result_of(fold).ir
    if len(kept) != len(dims):
        value = b(ReshapeOp, value, declared=tensor_type(element, kept))
    word = ALPHABET[: len(shape)]
    source_word = "".join(c for c, a in zip(word, axes, strict=True) if a is not None)
    if source_word == word:
        return value
    letters = StringAttr(f"{source_word}->{word}")
    return b(BroadcastOp, value, letters=letters, declared=tensor_type(element, shape))


def _extreme(op: TensorOp) -> str:
    """Whether a position is that of the largest or of the smallest element."""
    extreme = cast("ReduceOp", op).combiner().extreme
    assert extreme is not None
    return extreme.name


def _better(
    b: OpBuilder, op: TensorOp, first: Sequence[SSAValue], second: Sequence[SSAValue]
) -> tuple[SSAValue, SSAValue]:
    """Of two elements and where they lie the second, if it is better or the first NaN."""
    (element, position), (found, place) = first, second
    better = b(CompareOp, found, element, predicate="gt" if _extreme(op) == "max" else "lt")
    if cast("ReduceOp", op).summand().is_inexact:
        is_nan, was_number = (
            b(CompareOp, x, x, predicate=p) for x, p in ((found, "ne"), (element, "eq"))
        )
        better = b(SelectOp, is_nan, was_number, better)
    return b(SelectOp, better, found, element), b(SelectOp, better, place, position)


def _difference(
    inner: TileScope, runner: TensorOp, top: TensorOp, before: SSAValue, after: SSAValue
) -> SSAValue:
    """
    c_before - c_now, -inf before there is anything to scale; the scope knows the new c.

    Differences must stay numbers while all columns so far are -inf: c is made of a finite maximum.
    """
    b, new_top = inner.b, _finite(inner.b, after)
    if runner is top:
        inner.bind(top, new_top)
        difference = b(SubOp, before, new_top)
        return b(MinOp, difference, _all(b, 0.0, difference))
    inner.bind(top, _finite(b, before))
    old = inner.result(runner)
    inner.bind(top, new_top)
    difference = b(SubOp, old, inner.result(runner))
    lowest = _all(b, -math.inf, difference)
    return b(SelectOp, _is_lowest(b, before, difference), lowest, difference)


def _finite(b: OpBuilder, top: SSAValue) -> SSAValue:
    """A maximum, 0 where it is -inf."""
    return b(SelectOp, _is_lowest(b, top, top), _all(b, 0.0, top), top)


def _all(b: OpBuilder, number: float, like: SSAValue) -> SSAValue:
    """A number, in the dtype and shape of a value."""
    return full(b, number, element_dtype(like), shape_of(like.type))


def _is_lowest(b: OpBuilder, top: SSAValue, like: SSAValue) -> SSAValue:
    """Whether a maximum is -inf, in the shape of what is made of it."""
    found = b(CompareOp, top, _all(b, -math.inf, top), predicate="eq")
    if shape_of(top.type) == shape_of(like.type):
        return found
    return b(ReshapeOp, found, declared=tensor_type(BOOL.ir, shape_of(like.type)))
