"""
Divisions of what a product gives or takes are those of what is smaller, and a constant that a
factor is multiplied by is the result's.

Weights of a softmax are divided by the sums of their rows, each of them, and so are the cotangents
of all scores; a product with them may be divided in their place, or what they are multiplied with.
`1.5 * a @ b` copies a before the product; what follows a product is computed where its sums are.
SOURCE: Dao et al., FlashAttention, arXiv 2205.14135, 2022, appendix B.
"""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.tensor.elementwise import DivOp, MulOp
from mlc.dialects.tensor.letters import ALPHABET, split_one
from mlc.dialects.tensor.op import Array, tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.sizes import stored_bytes
from mlc.passes.tensor.constants import splat, splat_constant
from mlc.passes.tensor.exchange_sums import named, products_of, unit_root
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()
SMALLER = 2
"""So many times as small is what is divided instead: the division may need a kernel of its own."""
LARGER = 4
"""So many times as large as the factor may results be that a constant multiplies instead."""
MOST_SCALE = 2.0**10
"""Of such a constant and of its inverse: sums come no nearer to the ends of the range than that."""


@dataclass(frozen=True)
class DivideFactorsPass(ModulePass):
    """
    contract "ij,jc->ic" (e / l_i), v  ->  (contract "ij,jc->ic" e, v) / l_i
    contract "ij,ic->jc" (e / l_i), d  ->  contract "ij,ic->jc" e, (d / l_i)
    (contract "ic,jc->ij" d, v) / l_i  ->  contract "ic,jc->ij" (d / l_i), v

    where fewer elements are divided, and

    contract "ij,jk->ik" (c a), b  ->  c (contract "ij,jk->ik" a, b)

    where nothing computes a. Terms are rounded as often, elsewhere: not with strict numerics, and
    floats of 32 or 64 bits.
    """

    name = "mlc-divide-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RULES.sweep(op)


@dataclass(frozen=True)
class _Divisor:
    """What an array is divided by, repeated along some axes: its letters in a product's."""

    value: SSAValue
    letters: tuple[str | None, ...]  # None: of an axis of one place, which the product has not

    def divides(self, word: str) -> bool:
        """Whether something with these letters can be divided by it."""
        found = [c for c in self.letters if c is not None]
        return found == [c for c in word if c in found]

    def of(self, b: Rewrite, x: SSAValue, word: str) -> SSAValue:
        """A value with these letters, divided."""
        value, found = self.value, "".join(c for c in self.letters if c is not None)
        kind = tensor_of(x)
        if len(found) != len(self.letters):
            pairs = zip(shape_of(value.type), self.letters, strict=True)
            dims = tuple(n for n, c in pairs if c is not None)
            value = b(ReshapeOp, value, declared=tensor_type(kind.element_type, dims))
        if found != word:
            value = b(BroadcastOp, value, letters=f"{found}->{word}", declared=kind)
        return b(DivOp, x, value)


def _divisor(op: DivOp, value: SSAValue, letters: str) -> _Divisor | None:
    """Of an array that is a product's operand or result, with its letters, but for axes of one
    place."""
    view, word = op.rhs.owner, ALPHABET[: len(op.shape)]
    if not isinstance(view, BroadcastOp) or op.dtype.kind != "float" or op.dtype.bytes <= 2:
        return None
    names = named(value, letters, op.result, word)
    if names is None:
        return None
    theirs = {name: c for c, name in names.items()}
    source, result = split_one(view.letters.data)
    found = tuple(theirs.get(word[result.index(c)]) for c in source)
    return _Divisor(view.x, found) if any(found) else None


def _is_smaller(x: SSAValue, y: SSAValue) -> bool:
    here, there = stored_bytes(x.type), stored_bytes(y.type)
    return SMALLER * here <= there and here != there  # of two empty arrays neither is


@RULES.on(DivOp, numerics="standard")
def result_divided(op: DivOp, b: Rewrite) -> SSAValue | None:
    """(x y) / l  ->  (x / l) y"""
    value = unit_root(op.lhs)
    product = value.owner
    if not isinstance(product, ContractOp) or not (value.has_one_use() and op.lhs.has_one_use()):
        return None
    words, result, _ = product.words()
    divisor = _divisor(op, value, result)
    if divisor is None:
        return None
    for k, word in enumerate(words):
        operands = list(product.operands)
        if divisor.divides(word) and _is_smaller(operands[k], value):
            operands[k] = divisor.of(b, operands[k], word)
            new = b(ContractOp, *operands, letters=product.letters)
            return _like(b, new, op.result)
    return None


@RULES.on(ContractOp, numerics="standard")
def factor_divided(op: ContractOp, b: Rewrite) -> SSAValue | None:
    """(x / l) y  ->  (x y) / l, or x (y / l), where all who read x / l are such products"""
    for k, operand in enumerate(op.operands):
        division = unit_root(operand).owner
        if not isinstance(division, DivOp) or not _all_move(division):
            continue
        words, result, _ = op.words()
        divisor = _divisor(division, operand, words[k])
        assert divisor is not None
        operands = list(op.operands)
        operands[k] = _like(b, division.lhs, operand)
        if _takes(op, k, divisor):
            operands[1 - k] = divisor.of(b, operands[1 - k], words[1 - k])
            return b(ContractOp, *operands, letters=op.letters)
        return divisor.of(b, b(ContractOp, *operands, letters=op.letters), result)
    return None


@RULES.on(ContractOp, numerics="standard")
def factor_scaled(op: ContractOp, b: Rewrite) -> SSAValue | None:
    """(c x) y  ->  c (x y), where all who read c x are products"""
    for k, operand in enumerate(op.operands):
        multiplied = unit_root(operand).owner
        found = _scaled(multiplied) if isinstance(multiplied, MulOp) else None
        if found is None:
            continue
        x, scale = found
        operands = list(op.operands)
        operands[k] = _like(b, x, operand)
        product = b(ContractOp, *operands, letters=op.letters)
        return b(MulOp, product, splat_constant(b, scale, op.dtype, op.shape))
    return None


def _scaled(op: MulOp) -> tuple[SSAValue, Array] | None:
    """What is multiplied by a constant for products alone, though nobody computes it; and that."""
    if op.dtype.kind != "float" or op.dtype.bytes <= 2:
        return None
    for x, y in (op.operands, reversed(op.operands)):
        scale = splat(y)
        if scale is None or not 1 / MOST_SCALE <= abs(scale) <= MOST_SCALE:
            continue
        readers = list(products_of(op.result))
        alone = len(readers) == _uses(op.result) and all(
            unit_root(product.operands[k]) is op.result for k, product in readers
        )
        size = stored_bytes(op.result.type)
        few = all(stored_bytes(p.result.type) <= LARGER * size for _, p in readers)
        given = isinstance(x, BlockArgument) or isinstance(x.owner, ContractOp)
        return (x, scale) if alone and few and given else None
    return None


def _like(b: Rewrite, x: SSAValue, y: SSAValue) -> SSAValue:
    """A value with the other's axes of one place."""
    return x if x.type == y.type else b(ReshapeOp, x, declared=tensor_of(y))


def _takes(op: ContractOp, k: int, divisor: _Divisor) -> bool:
    """Whether the other operand can be divided, and is smaller."""
    other = op.operands[1 - k]
    return divisor.divides(op.words()[0][1 - k]) and _is_smaller(other, op.operands[k])


def _all_move(division: DivOp) -> bool:
    """Whether all who read it are products that divide fewer elements otherwise."""
    readers = list(products_of(division.result))
    if len(readers) != _uses(division.result):
        return False
    for k, product in readers:
        words, result, _ = product.words()
        divisor = _divisor(division, product.operands[k], words[k])
        if divisor is None or product.operands[0] is product.operands[1]:
            return False
        fewer = _is_smaller(product.result, division.result) and divisor.divides(result)
        if not fewer and not _takes(product, k, divisor):
            return False
    return True


def _uses(value: SSAValue) -> int:
    """How often a value is read, seen with more or fewer axes of one place too."""
    total = 0
    for use in value.uses:
        user = use.operation
        view = isinstance(user, ReshapeOp) and user.unit_axes_only()
        total += _uses(user.results[0]) if view else 1
    return total
