"""
Reductions over columns that are never stored: loops over tiles of columns inside a tile of rows.

A reduction that reads another one's result over the same columns needs a second walk over them,
unless the two merge (D18): sum exp(s - m) w, with m = max s, is kept for the largest s so far, and
multiplied by exp(m_before - m_now) whenever that grows. So with any op that is an exponential.
Squares of differences from a mean are joined tile by tile (`moments.py`).
SOURCE: Milakov, Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018; Dao
et al., FlashAttention, arXiv 2205.14135, 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.analysis.views import root
from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import I64, dtype_of
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.control import INDEX, IfOp, YieldOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp, DivOp, ExpOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import OpBuilder, TensorOp, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp, Reduction
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, broadcast_to
from mlc.dialects.tensor.tiles import TilesOp, tile_size
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.tiling.moments import Columns, Moment, is_mean
from mlc.passes.plan.tiling.skipping import is_needed, masked_walk
from mlc.passes.plan.tiling.tile_groups import Group, finds_position, fold_of
from mlc.passes.plan.tiling.tile_scope import TileScope
from mlc.passes.tensor.constants import splat

COMBINE: dict[str, type[TensorOp]] = {"sum": AddOp, "prod": MulOp, "max": MaxOp, "min": MinOp}


@dataclass(frozen=True)
class Shifted:
    """
    A value with columns of the form x - c, or f(x - c) times what does not change, where the row
    value c is made of the largest of some columns, `top`; f: `exponential`. Or x - c, or its
    square, where c is the mean of the columns of x, whose sum is `top`: `power` is 1 or 2.

    `pending`: multiplications and divisions by row values that wait until all columns are summed.
    """

    difference: TensorOp
    runner: TensorOp
    top: TensorOp
    exponential: type[TensorOp] | None = None
    power: int = 0
    pending: tuple[TensorOp, ...] = ()


class Walks:
    """How many walks over the columns each value needs, and which reductions merge."""

    def __init__(self, group: Group, maps: AxisMaps) -> None:
        self.group = group
        self.maps = maps
        self.members = set(group.ops)
        self.number: dict[TensorOp, int] = {}
        self.merged: dict[TensorOp, Shifted] = {}
        self._forms: dict[TensorOp, Shifted] = {}
        for op in group.ops:
            self.number[op] = self._visit(op)

    @property
    def columns(self) -> int | None:
        """How many columns there are, where that is known."""
        return None if self.group.column is None else self.group.column.constant

    @property
    def count(self) -> int:
        """Walks over the columns."""
        return max(self.number.values())

    def sums(self, number: int) -> list[TensorOp]:
        """The reductions over the columns that a walk makes, in program order."""
        return [
            op for op in self.group.ops if self.group.sums_columns(op) and self.number[op] == number
        ]

    def of(self, value: SSAValue) -> int:
        """The walk at whose end a value is known; 0 for what comes from outside."""
        owner = root(value).owner
        return self.number.get(owner, 0) if isinstance(owner, TensorOp) else 0

    def _visit(self, op: TensorOp) -> int:
        known = max((self.of(read.value) for read in self.maps.sources_of(op)), default=0)
        if not self.group.sums_columns(op):
            if self.group.is_wide(op) and known and (form := self._form(op, known)) is not None:
                self._forms[op] = form
            return known
        form = self._merges(op, known)
        if form is None:
            return known + 1
        self.merged[op] = form
        return known

    def _merges(self, op: TensorOp, known: int) -> Shifted | None:
        """The form of what a sum over columns adds up, where it can follow the running maximum."""
        if not isinstance(op, ReduceOp | ContractOp) or fold_of(op) != "sum":
            return None
        found = [form for x in op.operands if (form := self._form_of(x)) is not None]
        if len(found) == 1 and found[0].power == 2:
            same = isinstance(op, ReduceOp) and op.letters == found[0].top.properties["letters"]
            return found[0] if same and op.dtype is found[0].top.dtype else None
        others = [x for x in op.operands if self._form_of(x) is None]
        if len(found) != 1 or found[0].exponential is None:
            return None
        if any(self.of(x) >= known for x in others):
            return None
        form = found[0]
        spreads = [(form.difference, form.runner), *((q, self.factor_of(q)) for q in form.pending)]
        if any(spread_axes(op, q, c, self.maps) is None for q, c in spreads):
            return None
        return form

    def _form_of(self, value: SSAValue) -> Shifted | None:
        owner = root(value).owner
        return self._forms.get(owner) if isinstance(owner, TensorOp) else None

    def _form(self, op: TensorOp, known: int) -> Shifted | None:
        if isinstance(op, SubOp):
            return self._difference(op, known)
        forms = [
            self._forms.get(x.owner) if isinstance(x.owner, TensorOp) else None for x in op.operands
        ]
        if op.IS_EXPONENTIAL and (form := forms[0]) is not None:
            known_form = form.exponential or form.power
            return None if known_form else replace(form, exponential=type(op))
        if isinstance(op, MulOp) and op.lhs is op.rhs and (form := forms[0]) is not None:
            return replace(form, power=2) if form.power == 1 else None
        found = [form for form in forms if form is not None]
        if len(found) != 1 or not found[0].exponential:  # exp(s - m) (s - m) has another factor
            return None
        (form,) = found
        others = [x for x, f in zip(op.operands, forms, strict=True) if f is None]
        fixed = all(self.of(x) < known for x in others)
        rounds = isinstance(op, ConvertOp) and op.dtype.is_inexact
        if rounds or isinstance(op, NegOp) or (isinstance(op, MulOp) and fixed):
            return form
        if isinstance(op, SelectOp):
            rest = op.operands[2 if forms[1] is not None else 1]
            return form if fixed and forms[0] is None and _is_zero(rest) else None
        if isinstance(op, MulOp) or (isinstance(op, DivOp) and forms[0] is not None):
            if fixed:
                return form
            if not self.group.is_wide(self.factor_of(op)):
                return replace(form, pending=(*form.pending, op))
        return None

    def factor_of(self, op: TensorOp) -> TensorOp:
        """The member whose row value a pending op multiplies or divides by."""
        (factor,) = (
            owner
            for x in op.operands
            if isinstance(owner := root(x).owner, TensorOp) and owner not in self._forms
        )
        return factor

    def _difference(self, op: SubOp, known: int) -> Shifted | None:
        runner = root(op.rhs).owner
        if not isinstance(runner, TensorOp) or runner not in self.members:
            return None
        if self.group.is_wide(runner) or self.of(op.lhs) >= known:
            return None
        tops = self._tops(runner, known)
        if len(tops) != 1:
            return None
        (top,) = tops
        if not isinstance(top, ReduceOp) or top in self.merged:
            return None
        if fold_of(top) == "sum":
            mean = root(top.x) is root(op.lhs) and is_mean(runner, top, self.columns)
            return Shifted(op, runner, top, power=1) if mean else None
        return Shifted(op, runner, top) if fold_of(top) == "max" else None

    def _tops(self, op: TensorOp, known: int) -> set[TensorOp]:
        """The reductions of the walk that a row value is made of."""
        found: set[TensorOp] = set()
        pending, seen = [op], {op}
        while pending:
            op = pending.pop()
            if self.number[op] < known:
                continue
            if self.group.sums_columns(op):
                found.add(op)
                continue
            for read in self.maps.sources_of(op):
                owner = read.value.owner
                if isinstance(owner, TensorOp) and owner in self.members and owner not in seen:
                    seen.add(owner)
                    pending.append(owner)
        return found


Factors = dict[tuple[TensorOp, type[TensorOp]], SSAValue]
"""What sums so far are multiplied by, for each row value and each exponential of it."""


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
        scope, group = self.scope, self.group
        assert group.column is not None
        inits: list[SSAValue] = []
        for op in folds:
            inits += self._state(op)
        block = Block(arg_types=[INDEX, *(x.type for x in inits)])
        dim = tile_size(self.symbol, group.column_step)
        inner = TileScope(
            block,
            (*scope.dims, dim),
            (*scope.positions, block.args[0]),
            scope.members,
            lambda op: (*group.axes[op][: len(scope.dims)], group.axes[op][-1]),
            scope.maps,
            scope,
        )
        merged = self.walks.merged
        states = self._states(folds, block.args[1:])
        masked = masked_walk(group, folds)
        if masked is None:
            following = self._trip(inner, folds, states)
        else:
            needed = is_needed(inner, masked, lambda op: states[op][0])
            runs, rest = Block(), Block()
            inner.b, inner.block = OpBuilder(runs.add_op), runs
            runs.add_op(YieldOp.create(operands=self._trip(inner, folds, states)))
            rest.add_op(YieldOp.create(operands=list(block.args[1:])))
            branch = IfOp(needed, Region(runs), Region(rest))
            block.add_op(branch)
            following = list(branch.outs)
        block.add_op(YieldOp.create(operands=following))
        alone = not any(f in merged or finds_position(f) for f in folds)
        names = [fold_of(op) for op in folds] if alone else [""] * len(inits)
        loop = TilesOp.make(
            [group.column], [group.column_step], [self.symbol], inits, names, [], [], Region(block)
        )
        loop.location = folds[-1].location
        scope.block.add_op(loop)
        results = iter(loop.results)
        for op in folds:
            result = next(results)
            if finds_position(op):
                result = next(results)
            result.name_hint = op.results[0].name_hint
            scope.bind(op, self._finished(op, result) if op in merged else result)

    def _states(
        self, folds: Sequence[TensorOp], carried: Sequence[SSAValue]
    ) -> dict[TensorOp, list[SSAValue]]:
        """What each reduction has come to in the trips before."""
        rest = iter(carried)
        return {op: [next(rest) for _ in range(2 if finds_position(op) else 1)] for op in folds}

    def _trip(
        self,
        inner: TileScope,
        folds: Sequence[TensorOp],
        states: Mapping[TensorOp, Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """The states with a tile of columns."""
        merged = self.walks.merged
        forms = [merged[op] for op in folds if op in merged]
        means = {form.top for form in forms if form.power}
        moments: dict[TensorOp, Moment] = {}
        runners = {form.runner: form.top for form in forms if not form.power}
        factors: Factors = {}
        following: list[SSAValue] = []
        for op in folds:
            before, *places = states[op]
            if places:
                following += _nearer(inner, cast("ReduceOp", op), before, *places)
                continue
            if op in merged and merged[op].power:
                part = inner.compute(op)
                following.append(moments[merged[op].top].joined(inner.b, before, part))
                continue
            if op in merged:
                following.append(self._rescaled(inner, op, before, factors))
                continue
            part = inner.compute(op)
            after = inner.b(COMBINE[fold_of(op)], before, part)
            following.append(after)
            if op in means:
                columns = Columns(self.walks.columns or 0, self.group.column_step)
                moments[op] = Moment.of(inner, cast("ReduceOp", op), columns, before, part)
            for runner, top in runners.items():
                if top is op:
                    below = _difference(inner, runner, top, before, after)
                    for kind in dict.fromkeys(f.exponential for f in forms if f.runner is runner):
                        assert kind is not None
                        factors[runner, kind] = inner.b(kind, below)
        return following

    def _state(self, op: TensorOp) -> Iterator[SSAValue]:
        """What a reduction begins with; one that finds a position has the element before it."""
        monoid, shape = MONOIDS[fold_of(op)], self.scope.shape(op)
        dtype = op.summand() if finds_position(op) and isinstance(op, Reduction) else op.dtype
        yield full(self.scope.b, monoid.identity(dtype)[0], dtype, shape)
        if monoid.extreme is not None:
            yield full(self.scope.b, 0, I64, shape)  # where no element is better than the identity

    def _rescaled(
        self, inner: TileScope, op: TensorOp, before: SSAValue, factors: Factors
    ) -> SSAValue:
        """The sum so far for the new maximum, and what this tile adds to it."""
        form = self.walks.merged[op]
        for late in form.pending:
            (x,) = (x for x in late.operands if self._is_exponential(x))
            assert isinstance(x.owner, TensorOp)
            inner.bind(late, inner.result(x.owner))
        part = inner.compute(op)
        assert form.exponential is not None
        factor = factors[form.runner, form.exponential]
        factor = self._spread(inner.b, factor, op, form.difference, form.runner)
        return inner.b(AddOp, inner.b(MulOp, before, factor), part)

    def _is_exponential(self, value: SSAValue) -> bool:
        owner = value.owner
        return isinstance(owner, TensorOp) and self.group.is_wide(owner)

    def _finished(self, op: TensorOp, total: SSAValue) -> SSAValue:
        """The sum over all columns, with what waited for it."""
        form, b = self.walks.merged[op], self.scope.b
        if form.power:
            return total
        if form.runner is form.top:
            # exp(-inf - -inf) is not a number, and so is the sum where every column is -inf
            known = self._known(form.top)
            total = b(MulOp, total, self._spread(b, known, op, form.difference, form.runner))
        for late in form.pending:
            factor = self.walks.factor_of(late)
            value = self._spread(b, self.scope.result(factor), op, late, factor)
            total = b(type(late), total, value)
        return total

    def _known(self, top: TensorOp) -> SSAValue:
        """1 where the maximum is a number, else NaN."""
        found = self._ones.get(top)
        if found is None:
            b, value = self.scope.b, self.scope.result(top)
            found = self._ones[top] = b(ExpOp, b(SubOp, _finite(b, value), value))
        return found

    def _spread(
        self, b: OpBuilder, value: SSAValue, fold: TensorOp, through: TensorOp, source: TensorOp
    ) -> SSAValue:
        """A row value in the shape of a reduction's result."""
        axes = spread_axes(fold, through, source, self.scope.maps)
        assert axes is not None
        dims, shape = shape_of(value.type), self.scope.shape(fold)
        kept = tuple(dims[a] for a in axes if a is not None)
        element = fold.dtype.ir
        if len(kept) != len(dims):
            value = b(ReshapeOp, value, declared=tensor_type(element, kept))
        word = ALPHABET[: len(shape)]
        source_word = "".join(c for c, a in zip(word, axes, strict=True) if a is not None)
        if source_word == word:
            return value
        letters = StringAttr(f"{source_word}->{word}")
        return b(BroadcastOp, value, letters=letters, declared=tensor_type(element, shape))


def _nearer(
    inner: TileScope, op: ReduceOp, element: SSAValue, position: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """The best element so far and where it lies: a tile's, if it is better or the first NaN."""
    b, extreme = inner.b, op.combiner().extreme
    assert extreme is not None
    place = inner.compute(op)
    (tile,) = cast("ReduceOp", place.owner).operands
    found = b(ReduceOp, tile, monoid=StringAttr(extreme.name), letters=op.letters)
    better = b(CompareOp, found, element, predicate="gt" if extreme.name == "max" else "lt")
    if op.summand().is_inexact:
        is_nan, was_number = (
            b(CompareOp, x, x, predicate=p) for x, p in ((found, "ne"), (element, "eq"))
        )
        better = b(SelectOp, is_nan, was_number, better)
    start = broadcast_to(b, inner.positions[-1], shape_of(place.type))
    return (
        b(SelectOp, better, found, element),
        b(SelectOp, better, b(AddOp, place, start), position),
    )


def spread_axes(
    fold: TensorOp, through: TensorOp, source: TensorOp, maps: AxisMaps
) -> tuple[int | None, ...] | None:
    """
    For each axis of a reduction's result that of a row value which `through` reads, where what is
    reduced has the axes of `through`; None where it cannot be spread along them.
    """
    inner = [r for r in maps.sources_of(through) if r.value is source.results[0]]
    outer = [
        r
        for r in maps.sources_of(fold)
        if isinstance(r.value.owner, TensorOp) and r.value.owner.shape == through.shape
    ]
    if len(inner) != 1 or not outer:
        return None
    places = [outer[0].axes[q] for q in range(len(fold.shape))]
    axes = [None if p is None or p < 0 else inner[0].axes[p] for p in places]
    found = [a for a in axes if a is not None]
    one = Dim.const(1)
    missing = [a for a, n in enumerate(source.shape) if a not in found and n != one]
    if missing or found != sorted(found) or any(a < 0 for a in found):
        return None
    return tuple(axes)


def _difference(
    inner: TileScope, runner: TensorOp, top: TensorOp, before: SSAValue, after: SSAValue
) -> SSAValue:
    """
    c_before - c_now, -inf before there is anything to scale; the scope knows the new c.

    With c = m the differences must stay numbers while all columns so far are -inf.
    """
    if runner is top:
        old, new = before, _finite(inner.b, after)
        inner.bind(top, new)
    else:
        inner.bind(top, before)
        old = inner.result(runner)
        inner.bind(top, after)
        new = inner.result(runner)
    difference = inner.b(SubOp, old, new)
    zero = full(inner.b, 0.0, runner.dtype, shape_of(difference.type))
    return inner.b(MinOp, difference, zero)


def _finite(b: OpBuilder, top: SSAValue) -> SSAValue:
    """A maximum, 0 where it is -inf."""
    dtype, shape = dtype_of(tensor_of(top).element_type), shape_of(top.type)
    lowest = full(b, -math.inf, dtype, shape)
    is_lowest = b(CompareOp, top, lowest, predicate="eq")
    return b(SelectOp, is_lowest, full(b, 0.0, dtype, shape), top)


def _is_zero(value: SSAValue) -> bool:
    found = splat(value)
    return found is not None and found == 0
