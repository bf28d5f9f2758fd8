"""
Paddings cancel and compose, and what would be taken away again is not computed.

Derivatives of padded convolutions are full of both: the gradient with respect to a padded array is
computed for the padding, too, from a cotangent that is padded itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tensor.window_letters import Axis
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.rules import Rewrite, Rules

PAD_RULES = Rules()


def _grows(width: Dim) -> bool:
    """Whether elements may be added; symbolic widths may be anything."""
    return width.constant is None or width.constant > 0


def _shrinks(width: Dim) -> bool:
    """Whether elements may be taken away."""
    return width.constant is None or width.constant < 0


@PAD_RULES.on(PadOp)
def pad_with_nothing(op: PadOp, b: Rewrite) -> SSAValue | None:
    """pad x, v [<-1>, <0>]  ->  pad x, 0 [<-1>, <0>]: nobody reads v"""
    widths = (*op.low.data, *op.high.data)
    if any(map(_grows, widths)) or splat(op.value) is not None:
        return None
    return b(PadOp, op.x, full(b, 0, op.dtype, ()), low=op.low, high=op.high)


@PAD_RULES.on(PadOp)
def pad_twice(op: PadOp, b: Rewrite) -> SSAValue | None:
    """
    pad(pad x [<2>, <2>]) [<-1>, <-1>]  ->  pad x [<1>, <1>]

    unless the outer one puts another value beside the inner one's, or in place of elements that the
    inner one took away.
    """
    inner = op.x.owner
    if not isinstance(inner, PadOp):
        return None
    pairs = list(
        zip(
            (*inner.low.data, *inner.high.data),
            (*op.low.data, *op.high.data),
            strict=True,
        )
    )
    if any(_grows(outer) and _shrinks(before) for before, outer in pairs):
        return None
    adds = any(_grows(outer) for _, outer in pairs)
    if adds and any(_grows(before) for before, _ in pairs) and not _same(op.value, inner.value):
        return None
    return b(
        PadOp,
        inner.x,
        op.value if adds else inner.value,
        low=_sums(inner.low.data, op.low.data),
        high=_sums(inner.high.data, op.high.data),
    )


@PAD_RULES.on(PadOp)
def crop_of_convolution(op: PadOp, b: Rewrite) -> SSAValue | None:
    """pad(conv(x, w)) [<-1>, <-1>]  ->  conv(pad x [<-1>, <-1>], w), if nobody else reads it"""
    inner = op.x.owner
    widths = (*op.low.data, *op.high.data)
    if not isinstance(inner, ConvOp) or not op.x.has_one_use() or any(map(_grows, widths)):
        return None
    _, result, _ = inner.words()
    low, high = (dict(zip(result, ends, strict=True)) for ends in (op.low.data, op.high.data))
    cropped = [
        b(PadOp, x, full(b, 0, op.dtype, ()), low=_along(axes, low), high=_along(axes, high))
        for x, axes in zip(inner.operands, inner.axes, strict=True)
    ]
    declared = tensor_type(op.dtype.ir, op.shape)
    return b(ConvOp, *cropped, letters=inner.letters, declared=declared)


def _along(axes: Sequence[Axis], widths: dict[str, Dim]) -> tuple[Dim, ...]:
    """What a change of the letters' ends is for the axes that are read at sums of them."""
    zero = Dim.const(0)
    return tuple(sum((widths.get(c, zero) * scale for scale, c in axis), zero) for axis in axes)


def _sums(first: Sequence[Dim], second: Sequence[Dim]) -> tuple[Dim, ...]:
    return tuple(a + c for a, c in zip(first, second, strict=True))


def _same(x: SSAValue, y: SSAValue) -> bool:
    """Whether two values are known to be one element, bit by bit."""
    left, right = splat(x), splat(y)
    if left is None or right is None:
        return x is y
    return left.tobytes() == right.tobytes()
