"""Windows that have one place on an axis are no windows there."""

from __future__ import annotations

from itertools import pairwise

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, DimsAttr, shape_of, tensor_type
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import ReshapeOp, SliceOp
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tensor.window_letters import Axis, flat_word, spell_axes
from mlc.passes.tensor.rules import Rewrite, Rules

WINDOW_RULES = Rules()
_ZERO, _ONE = Dim.const(0), Dim.const(1)


@WINDOW_RULES.on(ConvOp)
def window_with_one_place(op: ConvOp, b: Rewrite) -> SSAValue | None:
    """
    conv "nc(2y+i),fci->nfy" x, w  ->  contract "nci,fci->nf" x, w, where y has one place

    A product has schedules for few rows and for all letters in one; its sums have the same terms in
    the same order.
    """
    (left, right), result = op.axes, op.words()[1]
    sizes = op.sizes()
    single = {
        c for axis in left if len(axis) > 1 for _, c in axis if c in result and sizes[c] == _ONE
    }
    if not single:
        return None
    shape = shape_of(op.lhs.type)
    axes: list[Axis] = []
    steps, counts = [_ONE] * len(left), list(shape)
    for k, axis in enumerate(left):
        kept = tuple((scale, c) for scale, c in axis if c not in single)
        if len(kept) < len(axis):
            ((scale, c),) = kept
            steps[k], counts[k] = Dim.const(scale), sizes[c]
            kept = ((1, c),)
        axes.append(kept)
    x: SSAValue = op.lhs
    if tuple(counts) != shape or any(step != _ONE for step in steps):
        x = b(
            SliceOp,
            x,
            offsets=DimsAttr((_ZERO,) * len(shape)),
            steps=DimsAttr(tuple(steps)),
            declared=tensor_type(op.dtype.ir, tuple(counts)),
        )
    rest = "".join(c for c in result if c not in single)
    if any(len(axis) > 1 for axis in axes):
        letters = f"{spell_axes(axes)},{flat_word(right)}->{rest}"
        declared = tensor_type(op.dtype.ir, tuple(sizes[c] for c in rest))
        found = b(ConvOp, x, op.rhs, letters=letters, declared=declared, **op.rounding)
    else:
        found = _contracted(op, b, x, flat_word(axes), rest)
    return b(ReshapeOp, found, declared=tensor_of(op.result))


def _contracted(op: ConvOp, b: Rewrite, x: SSAValue, left: str, result: str) -> SSAValue:
    """The product, in which letters that lie together in both factors are one: one long sum."""
    right = flat_word(op.axes[1])
    factors = [(x, left), (op.rhs, right)]
    for first, second in pairwise(left):
        if first + second in right and not {first, second} & set(result):
            factors = [_joined(b, value, word, first, second) for value, word in factors]
    (x, left), (w, right) = factors
    return b(ContractOp, x, w, letters=f"{left},{right}->{result}", **op.rounding)


def _joined(
    b: Rewrite, value: SSAValue, word: str, first: str, second: str
) -> tuple[SSAValue, str]:
    """A factor in which two letters, one behind the other, are the second one."""
    shape, k = list(shape_of(value.type)), word.index(second)
    assert word[k - 1] == first
    shape[k - 1 : k + 1] = [shape[k - 1] * shape[k]]
    declared = tensor_type(tensor_of(value).element_type, tuple(shape))
    return b(ReshapeOp, value, declared=declared), word.replace(first, "")
