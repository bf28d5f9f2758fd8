"""
Views disappear into the index letters of the ops that read them, where reading in another order or
reading one element again costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, TransposeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.rules.load import deferred
from mlc.passes.rules.vocabulary import same_sums
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules(deferred("fold_views", "exact"))
"""
Those of `passes/rules/fold_views.rules`, and what no pattern states: axes that are repeated or of
one place, of which any operand may have any number.
"""
ONE = Dim.const(1)


@dataclass(frozen=True)
class FoldViewsPass(ModulePass):
    """
    contract "mk,kn->mn" x, transpose "nk->kn" w  ->  contract "mk,nk->mn" x, w
    reduce "max" "nm->n" (transpose "mn->nm" x)   ->  reduce "max" "mn->n" x
    """

    name = "mlc-fold-views"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RULES.sweep(op)


def _through(word: str, view: BroadcastOp | TransposeOp) -> str:
    """The letters of the view's operand, when its result has the letters `word`."""
    (source,), result = split(view.letters.data)
    renamed = dict(zip(result, word, strict=True))
    return "".join(renamed[c] for c in source)


@dataclass(frozen=True)
class _Folded:
    """A contraction that reads what is behind a view: letters of its operands and its result."""

    words: tuple[str, ...]
    operands: tuple[SSAValue, ...]
    result: str

    def keeps_order(self, op: ContractOp) -> bool:
        """Whether each sum has the same terms in the same order as the op's."""
        words, result, _ = op.words()
        return same_sums(op.result, *words, result, *self.words, self.result)

    def build(self, op: ContractOp, b: Rewrite) -> SSAValue:
        """The contraction, with the axes that its result lacks."""
        _, result, _ = op.words()
        letters = f"{','.join(self.words)}->{self.result}"
        small = b(ContractOp, *self.operands, letters=letters)
        if self.result == result:
            return small
        sizes, kind = op.sizes(), tensor_of(op.result)
        if all(sizes[c] == ONE for c in result if c not in self.result):
            return b(ReshapeOp, small, declared=kind)
        return b(BroadcastOp, small, letters=f"{self.result}->{result}", declared=kind)


def _folded(op: ContractOp, k: int, word: str, x: SSAValue, result: str) -> _Folded:
    words, operands = list(op.words()[0]), list(op.operands)
    words[k], operands[k] = word, x
    return _Folded(tuple(words), tuple(operands), result)


def _of_broadcast(op: ContractOp) -> _Folded | None:
    """
    contract "mk,kn->mn" (broadcast "k->mk" x), y  ->  broadcast "n->mn" (contract "k,kn->n" x, y)

    unless a repeated axis is summed and the other operand lacks it: the sum counts it.
    """
    words, result, _ = op.words()
    for k, x in enumerate(op.operands):
        view = x.owner
        if not isinstance(view, BroadcastOp):
            continue
        word = _through(words[k], view)
        lost = [c for c in words[k] if c not in word and c not in words[1 - k]]
        if all(c in result for c in lost):
            return _folded(op, k, word, view.x, "".join(c for c in result if c not in lost))
    return None


def _of_new_axis(op: ContractOp) -> _Folded | None:
    """contract "mk,kn->mn" (reshape x : (k) -> (1, k)), y  ->  reshape (contract "k,kn->n" x, y)"""
    words, result, _ = op.words()
    for k, x in enumerate(op.operands):
        view = x.owner
        if not isinstance(view, ReshapeOp) or not view.unit_axes_only():
            continue
        if ONE in shape_of(view.x.type):
            continue
        word = "".join(c for c, dim in zip(words[k], view.shape, strict=True) if dim != ONE)
        kept = "".join(c for c in result if c in word or c in words[1 - k])
        return _folded(op, k, word, view.x, kept)
    return None


def _found(op: ContractOp) -> Iterator[_Folded]:
    for find in (_of_broadcast, _of_new_axis):
        if (folded := find(op)) is not None:
            yield folded


@RULES.on(ContractOp)
def contract_of_view(op: ContractOp, b: Rewrite) -> SSAValue | None:
    """contract(repeated x, y)  ->  contract(x, y), where its sums keep their order"""
    folded = next((x for x in _found(op) if x.keeps_order(op)), None)
    return None if folded is None else folded.build(op, b)


RULES.include(deferred("fold_views", "reassociating"))


@RULES.on(ContractOp, numerics="standard")
def contract_of_any_view(op: ContractOp, b: Rewrite) -> SSAValue | None:
    """contract(repeated x, y)  ->  contract(x, y)"""
    folded = next(_found(op), None)
    return None if folded is None else folded.build(op, b)


@RULES.on(ContractOp, numerics="standard")
def contract_without_unit_axes(op: ContractOp, b: Rewrite) -> SSAValue | None:
    """
    contract "amk,akn->mn" x, y  ->  contract "mk,kn->mn" (reshape x), (reshape y), where a is 1:
    the depth that blocks cut is one axis
    """
    words, result, summed = op.words()
    sizes = op.sizes()
    ones = {c for c in summed if sizes[c] == ONE and all(c in word for word in words)}
    if not ones or ones.issuperset(summed):
        return None
    kept, operands = list[str](), list[SSAValue]()
    for word, x in zip(words, op.operands, strict=True):
        kept.append("".join(c for c in word if c not in ones))
        dims = tuple(sizes[c] for c in kept[-1])
        operands.append(b(ReshapeOp, x, declared=tensor_type(tensor_of(x).element_type, dims)))
    return b(ContractOp, *operands, letters=f"{','.join(kept)}->{result}")


@RULES.on(GatherOp)
def gather_of_view(op: GatherOp, b: Rewrite) -> SSAValue | None:
    """gather(transpose(x), i)  ->  gather(x, i) with the letters in x's order; indices likewise"""
    words, result = split(op.letters.data)
    for k, x in enumerate(op.operands):
        view = x.owner
        if not isinstance(view, TransposeOp) and not (k and isinstance(view, BroadcastOp)):
            continue
        word = _through(words[k], view)
        rest = "".join(w for i, w in enumerate(words) if i != k)
        if any(c not in word and c not in rest for c in result):
            continue  # nobody else says how long the axis is
        both, operands = list(words), list(op.operands)
        both[k], operands[k] = word, view.x
        value = b(GatherOp, *operands, letters=f"{','.join(both)}->{result}")
        assert value.type == tensor_type(op.dtype.ir, op.shape)
        return value
    return None
