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

from dataclasses import replace

from xdsl.ir import SSAValue

from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.analysis.views import root
from mlc.dialects.dims import Dim
from mlc.dialects.tensor.comparison import ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.elementwise import AddOp, DivOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.tiling.moments import is_mean
from mlc.passes.plan.tiling.tile_groups import Group, fold_of
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
        one = Dim.const(1)
        seen = [[n for n in x.shape if n != one] for x in (runner, top)]
        is_row = runner is top or seen[0] == seen[1]  # of each row its own, and nothing else's
        return Shifted(op, runner, top) if fold_of(top) == "max" and is_row else None

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


def _is_zero(value: SSAValue) -> bool:
    found = splat(value)
    return found is not None and found == 0
