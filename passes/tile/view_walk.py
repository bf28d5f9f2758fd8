"""Where the places of a view lie in its array: slices, turned or not, with axes of one place."""

from __future__ import annotations

from xdsl.ir import Block, Operation

from mlc.dialects.dims import Dim, Shape, shape_of
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.shape import ReshapeOp, SliceOp, TransposeOp

ONE = Dim.const(1)


class ViewWalk:
    """
    From a view of a shape to its array, op by op: for each axis of the view with more than one
    place `axes` names that of what is looked at; places begin at `starts`, an entry for each axis.
    """

    def __init__(self, shape: Shape) -> None:
        self.axes = [axis for axis, n in enumerate(shape) if n != ONE]
        self.starts = [0] * len(shape)

    def through(self, op: Operation | Block) -> bool:
        """Goes on to the operand of an op whose places lie side by side, from known ones on."""
        if isinstance(op, TransposeOp):
            (before,), after = split(op.letters.data)
            self.axes = [before.index(after[axis]) for axis in self.axes]
            self.starts = [self.starts[after.index(c)] for c in before]
            return True
        if isinstance(op, SliceOp):
            return self._slice(op)
        if isinstance(op, ReshapeOp) and op.unit_axes_only():
            self._reshape(op)
            return True
        return False

    def _slice(self, op: SliceOp) -> bool:
        starts = list(self.starts)
        for axis, ((offset, step), n) in enumerate(zip(op.starts(), op.shape, strict=True)):
            if offset.constant is None or (step != 1 and n != ONE):
                return False
            starts[axis] += offset.constant
        self.starts = starts
        return True

    def _reshape(self, op: ReshapeOp) -> None:
        """Axes of one place come and go."""
        sizes = shape_of(op.x.type)
        outer = [axis for axis, n in enumerate(sizes) if n != ONE]
        inner = [axis for axis, n in enumerate(op.shape) if n != ONE]
        to = dict(zip(inner, outer, strict=True))
        starts = [0] * len(sizes)
        for axis, place in to.items():
            starts[place] = self.starts[axis]
        self.axes, self.starts = [to[axis] for axis in self.axes], starts
