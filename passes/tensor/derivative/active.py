"""Which values vary with the inputs of a derivative: for the others, zeros never enter a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tensor.control import ControlOp, yield_of
from mlc.dialects.tensor.markers import StopGradientOp
from mlc.dialects.tensor.op import TensorOp
from mlc.passes.tensor.derivative.emit import is_differentiable
from mlc.passes.tensor.derivative.shifts import Shifts


class Varied:
    """
    Values that depend on the inputs through ops on differentiable dtypes. Where all `outputs` of
    the program are given, extremes by which they do not change are left out.
    """

    def __init__(
        self, inputs: Iterable[SSAValue], outputs: Sequence[SSAValue] | None = None
    ) -> None:
        self.values: set[SSAValue] = {x for x in inputs if is_differentiable(x)}
        self.shifts = None if outputs is None else Shifts(outputs)

    def __contains__(self, value: SSAValue) -> bool:
        return value in self.values

    def add(self, value: SSAValue) -> None:
        """Notes a value, unless its dtype has no derivative."""
        if is_differentiable(value):
            self.values.add(value)

    def mark(self, ops: Iterable[Operation]) -> Varied:
        """Goes through ops in order, regions included."""
        for op in ops:
            if isinstance(op, ControlOp):
                self._control(op)
            elif isinstance(op, TensorOp) and self._passes_on(op):
                self.add(op.results[0])
        return self

    def _passes_on(self, op: TensorOp) -> bool:
        given = any(x in self.values for x in op.operands)
        if not given or isinstance(op, StopGradientOp):
            return False
        return self.shifts is None or not self.shifts.cancels(op)

    def _control(self, op: ControlOp) -> None:
        """Round after round, until what a trip gives makes no carried value vary that did not."""
        before = -1
        while before != len(self.values):
            before = len(self.values)
            for block in op.blocks:
                self._enter(op, block)
            for block in op.yielding():
                for position, value in enumerate(yield_of(block).values):
                    if value in self.values:
                        self._leave(op, position)

    def _enter(self, op: ControlOp, block: Block) -> None:
        """A loop's start goes into the first trip; it is the result where there is none."""
        for k, (argument, start) in enumerate(zip(op.carried_in(block), op.starts, strict=False)):
            if start in self.values:
                self.add(argument)
                if op.repeats:
                    self.add(op.results[k])
        self.mark(block.ops)

    def _leave(self, op: ControlOp, position: int) -> None:
        self.add(op.results[position])
        if op.repeats:
            for block in op.blocks:
                self.add(op.carried_in(block)[position])
