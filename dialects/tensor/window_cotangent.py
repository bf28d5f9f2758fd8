"""
The derivative of windows with respect to what they are read from: sums over windows of stride 1.

Where windows are a stride apart, their cotangents are spread with zeros between them, or positions
are taken apart into quotients and remainders by the stride, and no zero is multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.letters import fresh
from mlc.dialects.tensor.op import OpBuilder, tensor_of
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.shape import ReshapeOp, SliceOp
from mlc.dialects.tensor.window_letters import Axis
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.dialects.tensor.window import Windowed

ZERO = Dim.const(0)
ONE = Dim.const(1)


def interior(b: OpBuilder, x: SSAValue, axis: int, factor: int) -> SSAValue:
    """`x` with factor - 1 zeros between neighbours along an axis."""
    if factor == 1:
        return x
    found = tensor_of(x)
    shape = shape_of(found)
    element = found.element_type
    zero = full(b, 0, dtype_of(element), ())
    lead, count, rest = shape[:axis], shape[axis], shape[axis + 1 :]
    apart = b(ReshapeOp, x, declared=tensor_type(element, (*lead, count, ONE, *rest)))
    low = (ZERO,) * (len(shape) + 1)
    high = (*low[: axis + 1], Dim.const(factor - 1), *low[axis + 2 :])
    wide = b(PadOp, apart, zero, low=low, high=high)
    flat = b(ReshapeOp, wide, declared=tensor_type(element, (*lead, count * factor, *rest)))
    ends = (*low[:axis], Dim.const(1 - factor), *low[axis + 1 : -1])
    return b(PadOp, flat, zero, low=low[:-1], high=ends)


def flip(b: OpBuilder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """`x` backwards along axes."""
    if not axes:
        return x
    shape = shape_of(x.type)
    offsets = tuple(d - 1 if k in axes else ZERO for k, d in enumerate(shape))
    steps = tuple(Dim.const(-1 if k in axes else 1) for k in range(len(shape)))
    return b(SliceOp, x, offsets=offsets, steps=steps, declared=tensor_of(x))


@dataclass(frozen=True)
class Phase:
    """
    An axis read at stride * outer + inner, as pairs (quotient, remainder) by the stride: the
    windows' positions then are pairs, too, and nothing lies between the quotients.
    """

    outer: str
    inner: str
    remainder: str  # a letter of its own
    stride: int
    window: int
    count: Dim  # of the outer positions

    @property
    def taps(self) -> int:
        """How many quotients a window reaches over."""
        return -(-self.window // self.stride)

    @property
    def size(self) -> Dim:
        """How many quotients the windows reach, all together."""
        return self.count + (self.taps - 1)

    def split_window(self, b: OpBuilder, x: SSAValue, word: str) -> tuple[SSAValue, str]:
        """Weights with their window's axis split, zeros where a remainder has a tap less."""
        k, shape = word.index(self.inner), shape_of(x.type)
        element = tensor_of(x).element_type
        high = [ZERO] * len(shape)
        high[k] = Dim.const(self.taps * self.stride - self.window)
        zero = full(b, 0, dtype_of(element), ())
        whole = b(PadOp, x, zero, low=(ZERO,) * len(shape), high=tuple(high))
        pair = (Dim.const(self.taps), Dim.const(self.stride))
        split = b(
            ReshapeOp, whole, declared=tensor_type(element, (*shape[:k], *pair, *shape[k + 1 :]))
        )
        return split, word[: k + 1] + self.remainder + word[k + 1 :]


@dataclass(frozen=True)
class Spread:
    """A cotangent of which the first operand's is a sum over windows of stride 1."""

    cotangent: SSAValue
    axes: tuple[Axis, ...]  # what it is read at
    backwards: tuple[str, ...]  # window letters that run backwards
    phases: tuple[Phase, ...]

    def letters(self, wanted: str) -> str:
        """The first operand's letters, remainders behind their quotients."""
        remainders = {phase.outer: phase.remainder for phase in self.phases}
        return "".join(c + remainders.get(c, "") for c in wanted)

    def sizes(self, wanted: str, shape: Shape) -> Shape:
        """The sizes of `letters`, where the first operand has this shape."""
        phases = {phase.outer: phase for phase in self.phases}
        found: list[Dim] = []
        for c, size in zip(wanted, shape, strict=True):
            phase = phases.get(c)
            found += [size] if phase is None else [phase.size, Dim.const(phase.stride)]
        return tuple(found)

    def joined(self, b: OpBuilder, x: SSAValue, wanted: str, shape: Shape) -> SSAValue:
        """The operand's cotangent of this shape, from one with the axes `letters`."""
        if not self.phases:
            return x
        element = tensor_of(x).element_type
        reached = {phase.outer: phase.size * phase.stride for phase in self.phases}
        flat = tuple(reached.get(c, size) for c, size in zip(wanted, shape, strict=True))
        high = tuple(size - found for size, found in zip(shape, flat, strict=True))
        zero = full(b, 0, dtype_of(element), ())
        x = b(ReshapeOp, x, declared=tensor_type(element, flat))
        return b(PadOp, x, zero, low=(ZERO,) * len(shape), high=high)


def spread_cotangent(
    b: OpBuilder, op: Windowed, cotangent: SSAValue, *, by_phases: bool = False
) -> Spread:
    """
    The result's cotangent with zeros around its elements, and between them where it must be.

    x[p] is read where p = s*y + d*i, so it gets g[(p - d*i) / s] wherever that is an element. With
    `by_phases`, for d = 1 and a known window: p = s*q + r gets g[q - t] for each i = s*t + r.
    """
    (words, result, _), sizes = op.words(), op.sizes()
    used = "".join((*words, result))
    axes: list[Axis] = [((1, c),) for c in result]
    low, high = [ZERO] * len(result), [ZERO] * len(result)
    backwards: list[str] = []
    phases: list[Phase] = []
    for axis, size in zip(op.axes[0], shape_of(op.operands[0].type), strict=True):
        if len(axis) == 1:
            continue
        (stride, outer), (dilation, inner) = sorted(axis, key=lambda term: term[1] not in result)
        k, window = result.index(outer), sizes[inner].constant
        backwards.append(inner)
        axes[k] = ((1, outer), (dilation, inner))
        if by_phases and window and stride > 1 and dilation == 1:
            phase = Phase(outer, inner, fresh(used), stride, window, sizes[outer])
            used += phase.remainder
            phases.append(phase)
            low[k] = high[k] = Dim.const(phase.taps - 1)
            continue
        cotangent = interior(b, cotangent, k, stride)
        low[k] = (sizes[inner] - 1) * dilation
        high[k] = size - 1 - (sizes[outer] - 1) * stride
    zero = full(b, 0, op.dtype, ())
    padded = b(PadOp, cotangent, zero, low=tuple(low), high=tuple(high))
    return Spread(padded, tuple(axes), tuple(backwards), tuple(phases))
