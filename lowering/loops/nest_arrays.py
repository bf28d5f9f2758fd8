"""
Arrays in a nest: elements are computed where they are read, a vector at a time; what is held, is
summed up or is written to a part of another array has loops of exactly its own size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, fields
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.analysis.nests import fold_axis
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.order import LANES
from mlc.dialects.tensor.reduce import Reduction
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import ORIGIN, Buffer, Position
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.in_lanes import LanesNest
from mlc.lowering.loops.kernel import Axes, KernelScope, vector_loop
from mlc.lowering.loops.reduce import ReductionNest, State
from mlc.lowering.loops.truth import in_bytes

ONE = Dim.const(1)
COPIES = 4
"""Independent states of a sum along a vector: an addition takes four cycles, two begin in each."""


@dataclass
class NestArrays(KernelScope):
    """A nest's scope, whose builders know its numbers."""

    numbers: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    @staticmethod
    def of(
        s: KernelScope, buffers: dict[SSAValue, Buffer], numbers: dict[SSAValue, SSAValue]
    ) -> NestArrays:
        """The scope of a nest whose values lie there."""
        known: dict[str, Any] = {f.name: getattr(s, f.name) for f in fields(KernelScope)}
        known["inputs"] = buffers
        return NestArrays(**known, numbers=numbers)

    def lanes(
        self,
        lanes: int,
        mask: SSAValue | None = None,
        bound: dict[SSAValue, SSAValue] | None = None,
    ) -> Lanes:
        e = super().lanes(lanes, mask, {} if lanes > 1 else self.numbers)
        if lanes > 1:
            e.share(super().lanes(1, None, self.numbers))
        return e

    def buffer(self, memref: SSAValue, value: SSAValue) -> Buffer:
        """Memory of its own for an array with one axis that has a size."""
        shape = shape_of(value.type)
        axis = next((k for k, dim in enumerate(shape) if dim != ONE), 0)
        sizes = tuple(self.b.dim(dim) for dim in shape)
        dtype = element_dtype(value)
        return Buffer(memref, dtype, ((axis,),), sizes, (1,))

    def write(self, op: TensorOp, buffer: Buffer) -> None:
        """All elements of what an op gives."""
        if isinstance(op, Reduction) and op.words()[2]:
            _fold(self, op).all_to(buffer)
        else:
            self._elements(op.shape, buffer, (), op.element)

    def summed(self, op: Reduction) -> SSAValue:
        """What a reduction to one element gives."""
        return _fold(self, op).number()

    def copy(self, value: SSAValue, target: Buffer, start: Sequence[Position]) -> None:
        """Writes an array to the target from a point on."""
        self._elements(shape_of(value.type), target, start, lambda e, at: e.fetch(value, at))

    def _elements(
        self,
        shape: Sequence[Dim],
        target: Buffer,
        start: Sequence[Position],
        value: Callable[[Lanes, tuple[Position, ...]], SSAValue],
    ) -> None:
        """A loop per axis; the last one in vectors, where the target is dense along it."""
        b = self.b
        axes = [k for k, dim in enumerate(shape) if dim != ONE]
        inner = axes[-1] if axes else -1
        dense = target.strides[-1] == 1 and target.groups[-1][-1] == inner
        lanes = self.schedule.lanes if dense else 1
        sizes = [b.dim(dim) for dim in shape]

        def write(e: Lanes, at: tuple[Position, ...]) -> None:
            moved = at
            if start:
                pairs = zip(start, at, strict=True)
                moved = tuple(Position(b.add(p.base, q.base), q.step) for p, q in pairs)
            e.store(value(e, at), target, moved)

        def nest(k: int, at: tuple[Position, ...]) -> None:
            if k == len(shape):
                write(self.lanes(1), at)
            elif k not in axes:
                nest(k + 1, (*at, ORIGIN))
            elif k != inner:
                b.loop(0, sizes[k], 1, lambda i: nest(k + 1, (*at, Position(i))))
            else:
                rest = (ORIGIN,) * (len(shape) - k - 1)

                def body(
                    i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]
                ) -> list[SSAValue]:
                    write(self.lanes(lanes, mask), (*at, Position(i, int(lanes > 1)), *rest))
                    return []

                vector_loop(self, 0, sizes[k], body, lanes=lanes, unroll=1)

        nest(0, ())


def _fold(s: NestArrays, op: Reduction) -> _Fold:
    if s.b.numerics == "strict" and op.order() == "in lanes":
        return _FoldInLanes(s, op)
    one_axis = len(op.iteration()) == len(op.shape) + 1
    is_fresh = s.b.numerics != "strict" and any(_is_written(s, x) for x in op.operands)
    return (_FoldOfFresh if is_fresh and one_axis else _Fold)(s, op)


def _is_written(s: NestArrays, value: SSAValue) -> bool:
    """Whether elements of a value are read where the nest writes."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        x = pending.pop()
        if x in s.inputs:
            if s.inputs[x] in s.outputs:
                return True
        elif x not in seen and isinstance(x.owner, TensorOp):
            pending += x.owner.operands
        seen.add(x)
    return False


class _Fold(ReductionNest):
    """A reduction among the ops of a nest: its axes one by one."""

    def __init__(self, s: NestArrays, op: Reduction) -> None:
        self.s, self.b, self.op = s, s.b, op
        self.dtype = op.summand()
        self.monoid = in_bytes(op.combiner(), self.dtype)
        self.states = self.monoid.state(self.dtype)
        self.siblings = []
        space, rank = op.iteration(), len(op.shape)
        groups = tuple((k,) for k in range(len(space)))
        self.axes = Axes(groups, tuple(s.b.dim(dim) for dim in space))
        self.kept, self.reduced = list(range(rank)), list(range(rank, len(space)))
        self.in_turn = op.order() == "in turn" and s.b.numerics == "strict"
        self.streamed = None
        self.counted = rank if len(self.states) > 1 else -1
        self.vector = fold_axis(op)
        self.lanes = s.schedule.lanes
        if space and (space[self.vector] == ONE or (self.in_turn and self.vector in self.reduced)):
            self.lanes = 1
        self.unroll = COPIES
        self.copies = COPIES if self.lanes > 1 else 1
        self.target: Buffer | None = None
        self.found: SSAValue | None = None

    def number(self) -> SSAValue:
        """The only element."""
        at = dict.fromkeys(self.kept, Position(0))
        self._reduced(at)
        assert self.found is not None
        return self.found

    def all_to(self, buffer: Buffer) -> None:
        """Writes all elements."""
        self.target = buffer
        b = self.b

        def nest(k: int, fixed: dict[int, Position]) -> None:
            if k == len(self.kept):
                self._reduced(fixed)
            elif k == self.vector:
                self.columns(fixed, 0, self.axes.sizes[k])
            elif self.op.shape[k] == ONE:
                nest(k + 1, {**fixed, k: Position(0)})
            else:
                b.loop(0, self.axes.sizes[k], 1, lambda i: nest(k + 1, {**fixed, k: Position(i)}))

        nest(0, {})

    def _reduced(self, fixed: dict[int, Position]) -> None:
        if not self.reduced:
            point = [fixed[k] for k in self.kept]
            state = self.step(self.s.lanes(1), point, tuple(self.identity(1, 1)))
        else:
            order = [k for k in self.reduced if k != self.vector]
            order += [self.vector] if self.vector in self.reduced else []
            if self.vector not in self.reduced:
                self.lanes = self.copies = 1
                self.vector = order[-1]
            state = self.state_of(fixed, order, 0, self.axes.sizes[order[0]])
        self.finish(self.s.lanes(1), [fixed[k] for k in self.kept], state)

    def finish(self, e: Lanes, at: Sequence[Position], state: State) -> None:
        result = self.monoid.result(self.dtype)
        found = e.convert(self.monoid.finalise(e, state), result, self.op.dtype)
        if self.target is None:
            self.found = found
        else:
            e.store(found, self.target, tuple(at))


class _FoldOfFresh(_Fold):
    """
    Along one axis, of what the nest has just written, an element at a time: the last elements are
    read so as well.
    A vector that holds such an element waits until all of it lies in level 1, and what is summed
    up before it would wait with it.
    """

    WHOLE_VECTORS = True

    def reduce_range(
        self, fixed: dict[int, Position], order: Sequence[int], low: Index, high: Index
    ) -> State:
        b, lanes = self.b, self.lanes
        if lanes == 1 or self.in_turn:
            return super().reduce_range(fixed, order, low, high)
        end = b.add(low, b.mul(b.div(b.sub(high, low), lanes), lanes))
        whole = super().reduce_range(fixed, order, low, end)

        def one(i: Index, *state: SSAValue) -> Sequence[SSAValue]:
            at = {**fixed, self.vector: Position(i)}
            return self.step(self.s.lanes(1), [at[g] for g in range(len(at))], state)

        return tuple(b.loop(end, high, 1, one, whole))


class _FoldInLanes(_Fold, LanesNest):
    """With the partial results of the reference."""

    def __init__(self, s: NestArrays, op: Reduction) -> None:
        super().__init__(s, op)
        self.partial_results = None
        last = self.axes.sizes[self.reduced[-1]]
        self.used = min(LANES, last) if isinstance(last, int) else LANES
        self.vector = self.reduced[-1]
        self.unroll = self.copies = max(LANES // self.lanes, 1)
