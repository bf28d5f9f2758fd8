"""Products of a computed factor with what every element of it meets once are sums of elements."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.elementwise import DivOp, Elementwise, MulOp
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.constants import is_splat_of
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()


@dataclass(frozen=True)
class SumProductsPass(ModulePass):
    """
    d = sub x, y; contract "ab,b->a" d, v  ->  reduce "sum" "ab->a" (d * broadcast v)

    contract "ab,b->a" (x * q), v; contract "ab,b->a" (y * q), v
    ->  f = q * broadcast v; reduce "sum" "ab->a" (x * f); reduce "sum" "ab->a" (y * f)

    A kernel may then compute d where it reads it, and combine several such sums at once; a factor
    of a contraction is stored. What several sums multiply by is one factor of them: 1 / s with v is
    the quotient of both.
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
    factor = None if words[1 - k] == words[k] else f"{words[1 - k]}->{words[k]}"
    product = _with_shared(op, k, factor, b)
    if product is None:
        product = b(MulOp, matrix, _repeated(other, factor, matrix, b))
    return b(ReduceOp, product, monoid="sum", letters=f"{words[k]}->{result}")


def _repeated(value: SSAValue, letters: str | None, like: SSAValue, b: Rewrite) -> SSAValue:
    if letters is None:
        return value
    return b(BroadcastOp, value, letters=letters, declared=tensor_of(like))


def _with_shared(op: ContractOp, k: int, letters: str | None, b: Rewrite) -> SSAValue | None:
    """x * (q * v), where several sums with v have a factor q of their own matrices."""
    matrix, other = op.operands[k], op.operands[1 - k]
    if not isinstance(matrix.owner, MulOp):
        return None
    for x, q in (matrix.owner.operands, matrix.owner.operands[::-1]):
        known = _at_hand(q, other, letters)
        if known is None and x is not q and _sums_with(q, op, other) > 1:
            known = _together(q, op, other, letters, b)
        if known is not None:
            return b(MulOp, x, known)
    return None


def _together(
    q: SSAValue, op: ContractOp, other: SSAValue, letters: str | None, b: Rewrite
) -> SSAValue:
    """q * v, or v / s where q is 1 / s for such sums alone."""
    repeated = _repeated(other, letters, q, b)
    if isinstance(q.owner, DivOp) and is_splat_of(q.owner.lhs, 1):
        users = [use.operation for use in q.uses]
        if all(_sums_of(user, op, other) == len(list(user.results[0].uses)) for user in users):
            return b(DivOp, repeated, q.owner.rhs)
    return b(MulOp, q, repeated)


def _at_hand(q: SSAValue, other: SSAValue, letters: str | None) -> SSAValue | None:
    """q * v or v / s, made for another sum."""
    ways: list[tuple[SSAValue, type[Elementwise]]] = [(q, MulOp)]
    if isinstance(q.owner, DivOp) and is_splat_of(q.owner.lhs, 1):
        ways.append((q.owner.rhs, DivOp))
    for value, kind in ways:
        for use in value.uses:
            user = use.operation
            if isinstance(user, kind) and _is_repeated(
                user.operands[1 - use.index], other, letters
            ):
                return user.results[0]
    return None


def _is_repeated(value: SSAValue, other: SSAValue, letters: str | None) -> bool:
    if letters is None:
        return value is other
    owner = value.owner
    return isinstance(owner, BroadcastOp) and owner.x is other and owner.letters.data == letters


def _sums_with(q: SSAValue, op: ContractOp, other: SSAValue) -> int:
    """Products like this one whose matrix is one with q."""
    return sum(_sums_of(use.operation, op, other) for use in q.uses)


def _sums_of(user: Operation, op: ContractOp, other: SSAValue) -> int:
    """Products like this one whose matrix is what an op multiplies."""
    if not isinstance(user, MulOp) or user.parent is not op.parent:
        return 0
    sums = [use.operation for use in user.result.uses]
    return sum(
        isinstance(x, ContractOp) and x.words() == op.words() and other in x.operands for x in sums
    )


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
