"""
Two sums change places where the inner one is at hand already.

The gradient of a softmax that weights values sums the products of weights and their cotangents over
all columns; that is the product of the result and its cotangent, which has no columns.
SOURCE: Dao et al., FlashAttention, arXiv 2205.14135, 2022, appendix B.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import DType, holds
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.elementwise import MulOp, NegOp
from mlc.dialects.tensor.letters import ALPHABET, split_one
from mlc.dialects.tensor.op import element_dtype, tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()
MOST_FACTORS = 8


@dataclass(frozen=True)
class ExchangeSumsPass(ModulePass):
    """
    g = contract "ic,jc->ij" d, v; reduce "sum" "ij->i" (p * g)
    ->  contract "ic,ic->i" d, o,  where o = contract "ij,jc->ic" p, v is there already

    with numbers per row, and signs, that the summand is multiplied by. Sums are in another order:
    not with strict numerics. Where the products are of 16 bits and the sum is of f32, the weights
    are those that were rounded for their product, as g is.
    """

    name = "mlc-exchange-sums"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RULES.sweep(op)


@dataclass
class _Summand:
    """A product: its factors, of which those in `rows` do not have the summed axis."""

    wide: list[SSAValue] = field(default_factory=list[SSAValue])
    rows: list[tuple[BroadcastOp, str]] = field(default_factory=list[tuple[BroadcastOp, str]])
    """And the letters of what each repeats."""
    is_negative: bool = False


@RULES.on(ReduceOp, numerics="standard")
def sum_of_product_at_hand(op: ReduceOp, b: Rewrite) -> SSAValue | None:
    """
    sum_j P_ij (sum_c D_ic V_jc)  ->  sum_c D_ic (sum_j P_ij V_jc), computed before
    """
    (word,), result, reduced = op.words()
    kept = "".join(c for c in word if c not in reduced)
    if op.monoid.data != "sum" or op.dtype.kind != "float" or len(reduced) != 1 or kept != result:
        return None
    found = _summand(op.x, word, reduced)
    if found is None or len(found.wide) != 2:
        return None
    for product, weights in (found.wide, found.wide[::-1]):
        for factor, other, letters in _exchanged(op, product, weights, word, reduced):
            kept = "".join(c for c in result if c in letters)
            same = (as_dtype(b, x, op.dtype) for x in (factor, other))
            total = b(ContractOp, *same, letters=f"{letters}->{kept}")
            if kept != result:
                total = b(ReshapeOp, total, declared=tensor_of(op.result))
            for row, source in found.rows:
                value = row.x
                if source != result:
                    way = f"{source}->{result}"
                    value = b(BroadcastOp, value, letters=way, declared=tensor_of(op.result))
                total = b(MulOp, total, value)
            return b(NegOp, total) if found.is_negative else total
    return None


def _summand(value: SSAValue, word: str, reduced: str) -> _Summand | None:
    """The factors of a product of few."""
    found, pending = _Summand(), [value]
    while pending:
        x = pending.pop()
        owner = x.owner
        if isinstance(owner, MulOp):
            pending += owner.operands
        elif isinstance(owner, NegOp):
            found.is_negative = not found.is_negative
            pending.append(owner.x)
        elif isinstance(owner, BroadcastOp) and reduced not in (source := _source(owner, word)):
            found.rows.append((owner, source))
        else:
            found.wide.append(x)
        if len(found.wide) + len(found.rows) + len(pending) > MOST_FACTORS:
            return None
    return found


def _source(view: BroadcastOp, word: str) -> str:
    """The letters of what is repeated, when the result has the letters `word`."""
    source, result = split_one(view.letters.data)
    names = dict(zip(result, word, strict=True))
    return "".join(names[c] for c in source)


def _exchanged(
    op: ReduceOp, product: SSAValue, weights: SSAValue, word: str, reduced: str
) -> Iterator[tuple[SSAValue, SSAValue, str]]:
    """
    D, what the weights' sums are, and the letters of both, in those of the reduction. Axes of one
    place may come and go between.
    """
    product = widened(product)
    inner = unit_root(product).owner
    if not isinstance(inner, ContractOp) or not holds(op.dtype, inner.dtype):
        return
    words, result, summed = inner.words()
    names = named(inner.result, result, product, word)
    if names is None:
        return
    spare = iter(c for c in ALPHABET if c not in word)
    names |= {c: next(spare) for c in summed}
    mine = ["".join(names[c] for c in one) for one in words]
    for d, v in ((0, 1), (1, 0)):
        if reduced in mine[d] or reduced not in mine[v]:
            continue
        for at, outer in products_of(weights):
            if outer.parent is not op.parent:
                continue
            if outer.operands[1 - at] is not inner.operands[v] or outer.dtype is not inner.dtype:
                continue
            theirs, their_result, _ = outer.words()
            known = named(outer.operands[at], theirs[at], weights, word)
            if known is None:
                continue
            if any(known.get(c, n) != n for c, n in zip(theirs[1 - at], mine[v], strict=True)):
                continue
            known |= dict(zip(theirs[1 - at], mine[v], strict=True))
            letters = "".join(known[c] for c in their_result)
            same = len(set(known.values())) == len(known) and set(letters) == set(mine[d])
            if same and reduced not in letters and outer.is_before_in_block(op):
                yield inner.operands[d], outer.result, f"{mine[d]},{letters}"


def widened(value: SSAValue) -> SSAValue:
    """A value before a conversion that keeps all values."""
    op = value.owner
    return op.x if isinstance(op, ConvertOp) and holds(op.dtype, op.source) else value


def as_dtype(b: Rewrite, value: SSAValue, dtype: DType) -> SSAValue:
    """A value as a dtype that holds it."""
    if element_dtype(value) is dtype:
        return value
    return b(ConvertOp, value, declared=tensor_type(dtype.ir, shape_of(value.type)))


def unit_root(value: SSAValue) -> SSAValue:
    """What a value is but for axes of one place."""
    while isinstance(value.owner, ReshapeOp) and value.owner.unit_axes_only():
        value = value.owner.x
    return value


def products_of(value: SSAValue) -> Iterator[tuple[int, ContractOp]]:
    """The contractions of a value, as it is or rounded, with more or fewer axes of one place."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, ContractOp):
            yield use.index, user
        elif (isinstance(user, ReshapeOp) and user.unit_axes_only()) or (
            isinstance(user, ConvertOp) and user.dtype.kind == "float"
        ):
            yield from products_of(user.result)


def named(value: SSAValue, letters: str, view: SSAValue, word: str) -> dict[str, str] | None:
    """For each letter of a value that of a view on it; None where an axis of one place has none."""
    if value is view:
        return dict(zip(letters, word, strict=True))
    dims, one = shape_of(value.type), Dim.const(1)
    if one in dims:
        return None
    wide = (c for c, n in zip(word, shape_of(view.type), strict=True) if n != one)
    return dict(zip(letters, wide, strict=True))
