"""
Products of what is computed again: the region of a stream whose columns are walked once, because
what all columns of a row have come to is known.

```
e = exp(s - m), l = sum e    ->    e = l p,    p = 2^(s log2 e - L),    L = (m + log l) log2 e
(g / l + r) e                ->    (g + r l) p
```

What is computed is a product of three: a number, numbers of rows, and the rest. Numbers of rows
cancel, or are computed before; numbers are multiplied where sums are done.
SOURCE: Dao et al., FlashAttention, arXiv 2205.14135, 2022, algorithm 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import product, shape_of, tensor_type
from mlc.dialects.dtypes import F32
from mlc.dialects.tensor.comparison import ConvertOp, SelectOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, full
from mlc.dialects.tensor.elementwise import (
    AddOp,
    DivOp,
    Elementwise,
    ExpOp,
    LogOp,
    MulOp,
    NegOp,
    SubOp,
)
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, TransposeOp
from mlc.dialects.tensor.stream import Exp2EstimateOp, StreamOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.merging import looked_at
from mlc.passes.plan.tiling.stream_region import (
    NARROW,
    StreamRegion,
    squeezed,
    squeezed_letters,
)
from mlc.passes.tensor.constants import splat

MOST_OPS = 64  # of a region; bounds what is looked at
LOG2E = 1 / math.log(2)


class UnsuitedError(Exception):
    """What no region is made of."""


@dataclass(frozen=True)
class Term:
    """
    A number times numbers of rows, each so often, times a value of the region; of what only rows
    have, times a value before the stream, whose letters and those of all that is computed `rows`
    says. None: 1.
    """

    number: float = 1.0
    sums: Mapping[ReduceOp, int] = field(default_factory=dict[ReduceOp, int])
    core: SSAValue | None = None
    rows: str | None = None

    @property
    def is_number(self) -> bool:
        """Whether nothing else is in it."""
        return self.core is None and not self.sums

    def times(self, other: Term, way: int = 1) -> Term:
        """Number and numbers of rows multiplied by another one's, or divided; the core stays."""
        sums = dict(self.sums)
        for op, count in other.sums.items():
            sums[op] = sums.get(op, 0) + way * count
        return replace(
            self,
            number=self.number * other.number**way,
            sums={op: count for op, count in sums.items() if count},
        )


def expands(op: Operation) -> bool:
    """Whether a product of 16 bits has more elements than its factors."""
    if not isinstance(op, ContractOp) or op.dtype not in NARROW:
        return False
    sizes = [product(shape_of(x.type)).constant for x in (op.result, *op.operands)]
    whole, *factors = (n or 0 for n in sizes)
    return all(0 < n < whole for n in factors)


def wide_operand(last: ContractOp) -> int | None:
    """Which factor of a product is computed from products that have more elements."""
    sizes = [product(shape_of(x.type)).constant or 0 for x in last.operands]
    larger = int(sizes[1] > sizes[0])
    if sizes[0] == sizes[1] or last.dtype not in NARROW:
        return None
    pending, seen = [last.operands[larger]], set[SSAValue]()
    while pending and len(seen) < MOST_OPS:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.owner
        if isinstance(op, ContractOp):
            if expands(op) and value is not last.operands[larger]:
                return larger
        elif isinstance(op, Elementwise | TransposeOp | ReshapeOp) and _may_pass(op):
            pending += op.operands
    return None


def _may_pass(op: TensorOp) -> bool:
    return not isinstance(op, ReshapeOp) or op.unit_axes_only()


def _is_unit_view(op: Operation | Block) -> bool:
    return isinstance(op, ReshapeOp) and op.unit_axes_only()


class Rows:
    """What is known of rows before streams that walk their columns, each value once."""

    def __init__(self) -> None:
        self.here: Operation | None = None  # before which ops are put
        self.terms: dict[SSAValue, Term] = {}
        self.saved: dict[ReduceOp, SSAValue] = {}
        self.b = OpBuilder(self._put)

    def _put(self, op: Operation) -> Operation:
        assert self.here is not None
        assert self.here.parent is not None
        op.location = self.here.location
        self.here.parent.insert_op_before(op, self.here)
        return op

    def term(self, value: SSAValue) -> Term:
        """Of a value that has no columns."""
        value = looked_at(value)
        if value not in self.terms:
            self.terms[value] = self._term(value)
        return self.terms[value]

    def _term(self, value: SSAValue) -> Term:
        op = value.owner
        number = splat(value)
        if number is not None:
            return Term(float(number))
        if isinstance(op, ReduceOp) and _sums_exponentials(op):
            return Term(sums={op: 1})
        if isinstance(op, NegOp):
            term = self.term(op.x)
            return replace(term, number=-term.number)
        if isinstance(op, MulOp | DivOp):
            found = self._multiplied(op)
            if found is not None:
                return found
        if isinstance(op, ConvertOp) and element_dtype(op.x) in NARROW:
            return self.term(op.x)
        if isinstance(op, ContractOp | ReduceOp) and not any(_is_computed(x) for x in op.operands):
            operands = [self._exact(x) for x in op.operands]
            kind = tensor_type(F32.ir, shape_of(value.type))
            return Term(core=self._put(op.on(operands, kind)).results[0])
        if isinstance(op, ContractOp | ReduceOp):
            raise UnsuitedError("sums of what is computed again")
        return Term(core=self._exact(value))

    def _multiplied(self, op: MulOp | DivOp) -> Term | None:
        left, right = (self.term(x) for x in op.operands)
        if right.core is None:
            return left.times(right, 1 if isinstance(op, MulOp) else -1)
        if left.core is None and isinstance(op, MulOp):
            return right.times(left)
        return None

    def _exact(self, x: SSAValue) -> SSAValue:
        """In f32."""
        kind = tensor_type(F32.ir, shape_of(x.type))
        return x if x.type == kind else self.b(ConvertOp, x, declared=kind)

    def value(self, term: Term) -> SSAValue:
        """What a term of rows comes to."""
        assert term.core is not None
        if term.number == 1:
            return term.core
        shape = shape_of(term.core.type)
        return self.b(MulOp, term.core, full(self.b, term.number, F32, shape))

    def log_sum(self, op: ReduceOp) -> SSAValue:
        """
        Of a sum of exponentials log2 of what it would be with nothing taken off the exponents: the
        result of a stream.
        """
        if op not in self.saved:
            self.saved[op] = self._log_sum(op)
        return self.saved[op]

    def _log_sum(self, op: ReduceOp) -> SSAValue:
        region = _Plain()
        total = region.of(op.result)
        difference = op.x.owner
        assert isinstance(difference, ExpOp)
        assert isinstance(difference.x.owner, SubOp)
        view = difference.x.owner.rhs.owner
        assert isinstance(view, BroadcastOp)
        total = region.b(AddOp, region.of(view.x), region.b(LogOp, total))
        total = region.b(MulOp, total, full(region.b, LOG2E, F32, shape_of(total.type)))
        stream = region.ends_with(total)
        block, after = op.parent, op
        assert block is not None
        for made in (*region.outside, stream):
            made.location = op.location
            block.insert_op_after(made, after)
            after = made
        stream.result.name_hint = "log"
        return stream.result


def _sums_exponentials(op: ReduceOp) -> bool:
    """Whether it is the sum of exp(x - the largest x) along one axis."""
    if op.monoid.data != "sum" or len(op.axes()) != 1 or not isinstance(op.x.owner, ExpOp):
        return False
    difference = op.x.owner.x.owner
    if not isinstance(difference, SubOp) or not isinstance(
        view := difference.rhs.owner, BroadcastOp
    ):
        return False
    largest = looked_at(view.x).owner
    return (
        isinstance(largest, ReduceOp)
        and largest.monoid.data == "max"
        and largest.x is difference.lhs
        and largest.axes() == op.axes()
    )


def _is_computed(x: SSAValue) -> bool:
    """Whether a value is computed, element by element, from a product that has more elements."""
    op = x.owner
    if isinstance(op, ContractOp):
        return expands(op)
    return isinstance(op, Elementwise) and any(map(_is_computed, op.operands))


class _Plain(StreamRegion):
    """A region of ops as they are."""

    def of(self, x: SSAValue) -> SSAValue:
        """A value, with what it is computed from down to products."""
        op = x.owner
        if x not in self.new and isinstance(op, TensorOp) and _may_join(op):
            for number, operand in enumerate(op.operands):
                self.turned(op, number) if isinstance(op, ContractOp) else self.of(operand)
            self.new[x] = self.clone(op)
        return self.read(x)

    def turned(self, op: ContractOp, number: int) -> SSAValue:
        """A factor in memory, which may be a part, turned, or lose an axis of one place."""
        x = op.operands[number]
        return self.read(x) if self.factor(op, number) else self._turned(x)

    def _turned(self, x: SSAValue) -> SSAValue:
        op = x.owner
        if x not in self.new and (isinstance(op, TransposeOp) or _is_unit_view(op)):
            assert isinstance(op, TensorOp)
            self._turned(op.operands[0])
            self.new[x] = self.clone(op)
        return self.read(x)


def _may_join(op: TensorOp) -> bool:
    if isinstance(op, ConstantOp):
        return splat(op.results[0]) is not None
    known = (Elementwise, ReduceOp, BroadcastOp, TransposeOp, IotaOp)
    return isinstance(op, known) or _is_unit_view(op) or expands(op)


class Factored(_Plain):
    """The region of a product one of whose factors is computed again."""

    def __init__(self, last: ContractOp, number: int, rows: Rows) -> None:
        super().__init__()
        self.last, self.number, self.rows = last, number, rows
        self.rank = len(squeezed(shape_of(last.operands[number].type)))
        self.terms: dict[SSAValue, Term] = {}

    def stream(self, turns: Sequence[TransposeOp]) -> StreamOp:
        """The op, which stands nowhere yet, turned so; UnsuitedError where there is none."""
        last = self.last
        self.rows.here = last
        term = self.term(last.operands[self.number])
        other = self.turned(last, 1 - self.number)
        wide = self.as_(self._whole(replace(term, number=1.0)), last.dtype)
        words, result = split(squeezed_letters(last))
        mine, theirs = words[self.number], words[1 - self.number]
        natural = "".join(c for c in dict.fromkeys(mine + theirs) if c in result)
        factors = [self.as_(x, F32) for x in (wide, self.as_(other, last.dtype))]
        value = self.b(ContractOp, *factors, letters=f"{mine},{theirs}->{natural}")
        if term.number != 1:
            value = self.b(MulOp, value, full(self.b, term.number, F32, shape_of(value.type)))
        value = self.as_(value, last.dtype)
        for op in turns:  # of the result as it is stored
            (before,), after = split(squeezed_letters(op))
            result = "".join(result[before.index(c)] for c in after)
        if natural != result:
            value = self.b(TransposeOp, value, letters=f"{natural}->{result}")
        return self.ends_with(value)

    def term(self, x: SSAValue) -> Term:
        """Of a value with rows and columns."""
        if x not in self.terms:
            if len(self.terms) > MOST_OPS:
                raise UnsuitedError("too many ops")
            self.terms[x] = self._term(x)
        return self.terms[x]

    def _term(self, x: SSAValue) -> Term:
        op = x.owner
        number = splat(x)
        if number is not None:
            return Term(float(number))
        if not isinstance(op, TensorOp) or not _may_join(op):
            return Term(core=self.read(x))
        rule = _RULES.get(type(op))
        found = rule(self, op) if rule is not None else None
        if found is not None:
            return found
        if isinstance(op, ContractOp):
            return Term(core=self.of(x))
        if isinstance(op, ReduceOp):
            raise UnsuitedError("a sum with as many axes")
        return Term(core=self._generic(op))

    def _generic(self, op: TensorOp) -> SSAValue:
        """An op on all of its operands."""
        for operand in op.operands:
            if element_dtype(operand).is_inexact:
                self.new[operand] = self._whole(self.term(operand), operand)
            else:
                self.of(operand)
        return self.clone(op)

    # Ops ------------------------------------------------------------------------------------

    def negated(self, op: NegOp) -> Term:
        """-x"""
        term = self.term(op.x)
        return replace(term, number=-term.number)

    def multiplied(self, op: MulOp | DivOp) -> Term | None:
        """x y, or x / y where y is one for each row."""
        left, right = (self.term(x) for x in op.operands)
        if isinstance(op, DivOp):
            return left.times(right, -1) if right.core is None else None
        if left.core is None or right.core is None:
            return right.times(left) if left.core is None else left.times(right)
        if left.rows is not None and right.rows is not None:
            return None
        cores = [self._core(x, op.result) for x in (left, right)]
        return replace(left.times(right), core=self.b(MulOp, *cores), rows=None)

    def added(self, op: AddOp | SubOp) -> Term | None:
        """n l (x + y / (n l))"""
        left, right = (self.term(x) for x in op.operands)
        if isinstance(op, SubOp):
            right = replace(right, number=-right.number)
        if left.rows is not None or left.core is None:
            left, right = right, left
        if left.rows is not None or left.core is None or right.core is None or not left.number:
            return None
        ratio = right.times(left, -1)
        if ratio.sums:
            return None
        kind = AddOp
        if ratio.number < 0:
            kind, ratio = SubOp, replace(ratio, number=-ratio.number)
        other = self._whole(ratio, op.result)
        return replace(left, core=self.b(kind, left.core, other))

    def converted(self, op: ConvertOp) -> Term | None:
        """What was rounded, in f32."""
        return self.term(op.x) if element_dtype(op.x) in NARROW else None

    def looked_at(self, op: ReshapeOp) -> Term:
        """With other axes of one place, of which regions have none."""
        return self.term(op.x)

    def selected(self, op: SelectOp) -> Term | None:
        """A value or nothing: 0, or -inf where numbers are above 0."""
        term, other = self.term(op.operands[1]), splat(op.operands[2])
        if other is None or term.core is None or term.rows is not None:
            return None
        if other != 0 and not (other == -math.inf and term.number > 0 and not term.sums):
            return None
        nothing = full(self.b, float(other), F32, shape_of(term.core.type))
        return replace(term, core=self.b(SelectOp, self.of(op.operands[0]), term.core, nothing))

    def exponential(self, op: ExpOp) -> Term | None:
        """exp(x - m) = l 2^(x log2 e - L)"""
        totals = [use.operation for use in op.result.uses]
        total = next((x for x in totals if isinstance(x, ReduceOp) and _sums_exponentials(x)), None)
        if total is None or not isinstance(op.x.owner, SubOp):
            return None
        term = self.term(op.x.owner.lhs)
        view = op.x.owner.rhs.owner
        if term.sums or term.core is None or term.rows is not None:
            return None
        assert isinstance(view, BroadcastOp)
        scaled = self._whole(replace(term, number=term.number * LOG2E))
        shift = self._repeated(self.rows.log_sum(total), squeezed_letters(view), op.result)
        power = self.b(Exp2EstimateOp, self.b(SubOp, scaled, shift))
        return Term(sums={total: 1}, core=power)

    def repeated(self, op: BroadcastOp) -> Term:
        """Numbers of rows."""
        term = self.rows.term(op.x)
        return replace(term, rows=squeezed_letters(op))

    # Values ---------------------------------------------------------------------------------

    def _repeated(self, value: SSAValue, letters: str, like: SSAValue) -> SSAValue:
        """Numbers of rows that are known before."""
        kind = tensor_type(F32.ir, squeezed(shape_of(like.type)))
        return self.b(BroadcastOp, self.read(value), letters=StringAttr(letters), declared=kind)

    def _core(self, term: Term, like: SSAValue) -> SSAValue:
        assert term.core is not None
        if term.rows is None:
            return term.core
        return self._repeated(term.core, term.rows, like)

    def _whole(self, term: Term, like: SSAValue | None = None) -> SSAValue:
        """What a term comes to."""
        if term.rows is not None and like is not None and not term.sums and term.core is not None:
            return self._repeated(self.rows.value(term), term.rows, like)
        if term.sums or term.core is None or term.rows is not None:
            raise UnsuitedError("numbers of rows that do not cancel")
        if term.number == 1:
            return term.core
        shape = shape_of(term.core.type)
        return self.b(MulOp, term.core, full(self.b, term.number, F32, shape))


_RULES: Mapping[type[TensorOp], Callable[[Factored, TensorOp], Term | None]] = {
    NegOp: Factored.negated,
    MulOp: Factored.multiplied,
    DivOp: Factored.multiplied,
    AddOp: Factored.added,
    SubOp: Factored.added,
    ConvertOp: Factored.converted,
    SelectOp: Factored.selected,
    ExpOp: Factored.exponential,
    BroadcastOp: Factored.repeated,
    ReshapeOp: Factored.looked_at,
}  # pyright: ignore[reportAssignmentType]
