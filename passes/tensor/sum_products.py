"""Products of a computed factor with what every element of it meets once are sums of elements."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.elementwise import Elementwise, MulOp
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()
ONE = Dim.const(1)


@dataclass(frozen=True)
class SumProductsPass(ModulePass):
    """
    d = sub x, y; contract "ab,b->a" d, v  ->  reduce "sum" "ab->a" (d * broadcast v)

    A kernel may then compute d where it reads it, and combine several such sums at once; a factor
    of a contraction is stored.
    """

    name = "mlc-sum-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RULES.sweep(op)


@RULES.on(ContractOp, numerics="standard")
def product_with_vector(op: ContractOp, b: Rewrite) -> SSAValue | None:
    """sum_j D_ij v_j, where nothing but such sums and element by element reads D."""
    k = next((k for k in _matrices(op) if _is_computed(op.operands[k])), None)
    if k is None:
        return None
    (word, thin, kept), matrix, other = _words(op, k), op.operands[k], op.operands[1 - k]
    if thin != op.words()[0][1 - k]:
        sizes = dict(zip(op.words()[0][1 - k], shape_of(other.type), strict=True))
        declared = tensor_type(op.dtype.ir, tuple(sizes[c] for c in thin))
        other = b(ReshapeOp, other, declared=declared)
    if thin != word:
        other = b(BroadcastOp, other, letters=f"{thin}->{word}", declared=tensor_of(matrix))
    total = b(ReduceOp, b(MulOp, matrix, other), monoid="sum", letters=f"{word}->{kept}")
    return (
        total
        if total.type == op.result.type
        else b(ReshapeOp, total, declared=tensor_of(op.result))
    )


def _words(op: ContractOp, k: int) -> tuple[str, str, str]:
    """
    The letters of an operand, of the other one and of the result: of a column, which has an axis of
    one place for itself, those of a vector.
    """
    words, result, _ = op.words()
    sizes = zip(words[1 - k], shape_of(op.operands[1 - k].type), strict=True)
    ones = {c for c, dim in sizes if dim == ONE and c not in words[k] and c in result}
    thin, kept = ("".join(c for c in x if c not in ones) for x in (words[1 - k], result))
    return words[k], thin, kept


def _matrices(op: ContractOp) -> Iterator[int]:
    """The operands that have every axis once, where the other has some of them in its order."""
    if op.dtype.kind != "float" or op.summand() is not op.dtype:
        return
    for k in range(2):
        word, *others = _words(op, k)
        if len({*word}) == len(word) and all(
            x == "".join(c for c in word if c in x) for x in others
        ):
            yield k


def _is_computed(value: SSAValue) -> bool:
    """Whether arithmetic makes a value for such sums and for others element by element alone."""
    owner = value.owner
    if not isinstance(owner, Elementwise) or isinstance(owner, ConvertOp):
        return False
    for use in value.uses:
        user = use.operation
        if user.parent is not owner.parent:
            return False
        if isinstance(user, ContractOp):
            if use.index not in _matrices(user):
                return False
        elif not isinstance(user, Elementwise | ReduceOp):
            return False
    return True
