"""
Trips over columns that need not run: a mask is false in all of the tile, and what stands in place
of masked elements is so far below the maximum that its exponential is 0. Sums stay as they are.

What masked columns are multiplied by is not looked at then, as in any library's attention: NaN and
infinities there do not spread. A row all of whose columns are masked is never skipped.
SOURCE: Dao et al., FlashAttention, arXiv 2205.14135, 2022, section 3.3 (tiles without a mask's
elements).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from mlc.dialects.analysis.views import root
from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import F32
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, SelectOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp, DivOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.letters import ALPHABET, split
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.tiling.tile_groups import Group, fold_of
from mlc.passes.plan.tiling.tile_scope import TileScope
from mlc.passes.plan.tiling.widths import converted
from mlc.passes.plan.widen import NARROW
from mlc.passes.tensor.constants import splat

Terms = dict[tuple[float, SSAValue], TensorOp]
"""
exp(number - value), which is 0 where masked, by the number and by what the value looks at: that has
rows or columns, not both. The exponentials that say so.
"""


@dataclass(frozen=True)
class Masked:
    """
    What a walk over columns is where a mask is false: `terms` are what its sums are multiplied by,
    where no selection of 0 says so; `tops` the maxima of columns that are the number there.
    """

    mask: SelectOp
    keeps: bool  # elements where the condition is so are no masked ones
    terms: Terms
    tops: tuple[tuple[TensorOp, float], ...]


def masked_walk(group: Group, folds: Sequence[TensorOp]) -> Masked | None:
    """The mask by which trips of a walk that makes these may be skipped, if there is one."""
    if not folds or is_strict(folds[0]):
        return None
    for op in group.ops:
        if isinstance(op, SelectOp) and group.is_wide(op):
            for keeps in (True, False):
                if (found := _Absent(group, op, keeps).walk(folds)) is not None:
                    return found
    return None


class _Absent:
    """What is known of a group's values where the mask of a selection is false."""

    def __init__(self, group: Group, mask: SelectOp, keeps: bool) -> None:
        self.group, self.mask, self.keeps = group, mask, keeps
        self.terms: Terms = {}

    def walk(self, folds: Sequence[TensorOp]) -> Masked | None:
        """All that the walk sums is 0 there, and what it is the largest of is a number."""
        tops: list[tuple[TensorOp, float]] = []
        for op in folds:
            fold = fold_of(op)
            if fold == "max" and isinstance(op, ReduceOp):
                number = self.number(op.operands[0])
                if number is None:
                    return None
                tops.append((op, number))
            elif fold != "sum" or not any(self.is_zero(x) for x in op.operands):
                return None
        if (tops and not self.terms) or not isinstance(folds[0], ReduceOp | ContractOp):
            return None
        return Masked(self.mask, self.keeps, self.terms, tuple(tops))

    def number(self, value: SSAValue) -> float | None:
        """The number that is there, if it is known."""
        op = value.owner
        if isinstance(op, ConvertOp) and op.dtype.is_inexact:
            found = self.number(op.x)
            return None if found is None else float(op.dtype.numpy.type(found))
        if isinstance(op, SelectOp) and op.condition is self.mask.condition:
            found = splat(op.operands[2 if self.keeps else 1])
            return None if found is None else float(found)
        return None

    def is_zero(self, value: SSAValue) -> bool:
        """Whether 0 is there, or a product with what the trip's condition finds to be 0."""
        op = root(value).owner
        if not isinstance(op, TensorOp) or op not in self.group.axes:
            return False
        if isinstance(op, SelectOp):
            return self.number(op.result) == 0.0
        if op.IS_EXPONENTIAL:
            return self._is_term(op)
        if isinstance(op, ConvertOp):
            return op.dtype.is_inexact and self.is_zero(op.x)
        if isinstance(op, NegOp) or (isinstance(op, DivOp) and self.group.is_wide(op)):
            return self.is_zero(op.operands[0])
        return isinstance(op, MulOp) and any(self.is_zero(x) for x in op.operands)

    def _is_term(self, op: TensorOp) -> bool:
        difference = op.operands[0].owner
        if not isinstance(difference, SubOp):
            return False
        number = self.number(difference.lhs)
        if number is None or not self._is_narrow(difference):
            return False
        return type(self.terms.setdefault((number, root(difference.rhs)), op)) is type(op)

    def _is_narrow(self, op: SubOp) -> bool:
        """Whether what is subtracted is one value for all columns, or for all rows."""
        view, value = op.rhs.owner, root(op.rhs).owner
        if isinstance(value, TensorOp) and self.group.is_wide(value):
            return False
        if not isinstance(view, BroadcastOp):
            return False
        (word,), result = split(view.letters.data)
        return any(a is not None and result[a] not in word for a in self.group.axes[op][-2:])


def is_needed(scope: TileScope, masked: Masked, before: Callable[[TensorOp], SSAValue]) -> SSAValue:
    """
    Whether a trip has to run, as bool: an element of the mask's tile is true, or a term is not 0
    for some row, or a maximum not above the number that stands for masked elements (NaN never is).

    `before`: what a reduction of this walk has come to in the trips before.
    """
    b = scope.b
    mask = _source_tile(scope, masked.mask, 0)
    found = [_any(b, mask if masked.keeps else _is(b, mask, "eq", 0))]
    for top, _ in masked.tops:
        scope.bind(top, before(top))
    for (number, _), exponential in masked.terms.items():
        difference = cast("SubOp", exponential.operands[0].owner)
        value = _source_tile(scope, difference, 1)
        if element_dtype(value) in NARROW:  # as the trip reads it
            value = converted(b, value, F32)
        given = full(b, number, element_dtype(value), shape_of(value.type))
        term = b(type(exponential), b(SubOp, given, value))
        found.append(_any(b, _is(b, term, "ne", 0.0)))
    for top, number in masked.tops:
        if (number, top.results[0]) not in masked.terms:  # which says so, too
            above = _is(b, before(top), "ge", number)
            found.append(_any(b, _is(b, above, "eq", 0)))
    needed = found[0]
    for other in found[1:]:
        needed = b(AddOp, needed, other)  # or
    return needed


def _source_tile(scope: TileScope, op: TensorOp, number: int) -> SSAValue:
    """A tile of what an operand repeats, each element once."""
    value, maps = op.operands[number], scope.maps
    moves, axes = maps.moves_of(op), scope.axes_of(op)
    rows = tuple(None if a is None else moves[a][number] for a in axes[: len(scope.dims)])
    while isinstance(value.owner, BroadcastOp):
        rows = maps.axes_in(value.owner, 0, rows)
        value = value.owner.x
    return scope.tile(value, rows)


def _is(b: OpBuilder, x: SSAValue, predicate: str, number: float) -> SSAValue:
    return b(CompareOp, x, full(b, number, element_dtype(x), shape_of(x.type)), predicate=predicate)


def _any(b: OpBuilder, x: SSAValue) -> SSAValue:
    """Whether an element is true."""
    letters = StringAttr(f"{ALPHABET[: len(shape_of(x.type))]}->")
    return b(ReduceOp, x, monoid=StringAttr("max"), letters=letters)
