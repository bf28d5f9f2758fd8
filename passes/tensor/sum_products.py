"""Products of a computed factor with what every element of it meets once are sums of elements."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.elementwise import Elementwise, MulOp
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()


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
    words, result, _ = op.words()
    matrix, other = op.operands[k], op.operands[1 - k]
    if words[1 - k] != words[k]:
        letters = f"{words[1 - k]}->{words[k]}"
        other = b(BroadcastOp, other, letters=letters, declared=tensor_of(matrix))
    return b(ReduceOp, b(MulOp, matrix, other), monoid="sum", letters=f"{words[k]}->{result}")


def _matrices(op: ContractOp) -> Iterator[int]:
    """The operands that have every axis once, where the other has some of them in its order."""
    words, result, _ = op.words()
    if op.dtype.kind != "float" or op.summand() is not op.dtype:
        return
    for k, word in enumerate(words):
        others = (words[1 - k], result)
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
