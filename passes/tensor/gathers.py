"""
What a gather reads is computed at its indices alone, where its source is not read from memory but
made up: the rows `np.eye(n)[y]` of an identity need no n × n matrix.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.tensor.create import IotaOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import TensorOp, tensor_of
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.passes.tensor.constants import splat, splat_constant
from mlc.passes.tensor.rules import Rewrite, Rules

GATHER_RULES = Rules()
MOST_OPS = 16
"""Of a source that is made up: each is computed for every element that is read."""


@GATHER_RULES.on(GatherOp)
def gather_of_made_up(op: GatherOp, b: Rewrite) -> SSAValue | None:
    """gather(compare(iota 0, iota 1), i)  ->  compare(gather(iota, i), iota 1)"""
    made: list[TensorOp] = []
    if not _make_up(op.source, made) or not made:
        return None
    words, _ = split(op.letters.data)
    leaves = dict.fromkeys(x for each in made for x in each.operands if x.owner not in made)
    read = {c for x in leaves for c in _word_of(x, words[0])}
    if any(c.isdigit() and c not in read for c in words[0]):
        return None  # an index that nothing is read with would be judged by nobody
    found = {x: _gathered(op, b, x) for x in leaves}
    for each in made:
        kind = tensor_type(tensor_of(each.results[0]).element_type, op.shape)
        operands = [found[x] for x in each.operands]
        found[each.results[0]] = b(type(each), *operands, declared=kind, **dict(each.properties))
    return found[op.source]


def _make_up(value: SSAValue, made: list[TensorOp], depth: int = 0) -> bool:
    """Whether positions, numbers and what has fewer axes make a value; by which cheap ops."""
    owner = value.owner
    if splat(value) is not None or isinstance(owner, IotaOp | BroadcastOp) or owner in made:
        return True
    if not isinstance(owner, Elementwise) or owner.CHECKS or not owner.is_cheap:
        return False
    if depth == MOST_OPS or not all(_make_up(x, made, depth + 1) for x in owner.operands):
        return False
    made.append(owner)
    return len(made) <= MOST_OPS


def _word_of(x: SSAValue, word: str) -> str:
    """The letters of the source's axes along which an operand of it changes."""
    owner = x.owner
    if splat(x) is not None:
        return ""
    if isinstance(owner, IotaOp):
        return word[owner.axis.value.data]
    if isinstance(owner, BroadcastOp):
        inner, outer = split(owner.letters.data)
        return "".join(word[outer.index(c)] for c in inner[0])
    return word


def _gathered(op: GatherOp, b: Rewrite, x: SSAValue) -> SSAValue:
    """The elements of an operand of the source that the gather's result has in their places."""
    words, result = split(op.letters.data)
    element = tensor_of(x).element_type
    kind = tensor_type(element, op.shape)
    value, owner = splat(x), x.owner
    if value is not None:
        return splat_constant(b, value, dtype_of(element), op.shape)
    word = _word_of(x, words[0])
    if isinstance(owner, IotaOp):
        if not word.isdigit():
            return b(IotaOp, declared=kind, axis=result.index(word))
        axis = owner.axis.value.data
        x = b(IotaOp, declared=tensor_type(element, (shape_of(x.type)[axis],)), axis=0)
    elif isinstance(owner, BroadcastOp):
        x = owner.x
    x, word = _read(op, b, x, word, words[1:], result)
    return x if word == result else b(BroadcastOp, x, letters=f"{word}->{result}", declared=kind)


def _read(
    op: GatherOp, b: Rewrite, x: SSAValue, word: str, indices: Sequence[str], result: str
) -> tuple[SSAValue, str]:
    """x with what its digits index, and the letters of its axes."""
    used = [int(c) for c in word if c.isdigit()]
    if not used:
        return x, word
    read = "".join(str(used.index(int(c))) if c.isdigit() else c for c in word)
    letters = {*word, *(c for k in used for c in indices[k])}
    kept = "".join(c for c in result if c in letters)
    text = ",".join([read, *(indices[k] for k in used)])
    return b(GatherOp, x, *(op.indices[k] for k in used), letters=f"{text}->{kept}"), kept
