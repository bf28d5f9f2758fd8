"""A tensor within another one, region by region: before it, in it and behind it on each axis."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.placing import DynamicUpdateOp, PadOp
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.kernel import KernelScope, vector_loop
from mlc.lowering.loops.update import first_element

MOST_AXES = 4  # there are two regions for each axis, and a loop for each axis of a region

Framed = PadOp | DynamicUpdateOp


def framed_of(s: KernelScope) -> Framed | None:
    """The op that a kernel ends with, if it puts one tensor into another."""
    owner = s.kernel.yielded.values[0].owner
    if len(s.kernel.yielded.values) != 1 or not isinstance(owner, PadOp | DynamicUpdateOp):
        return None
    return owner if 1 <= len(owner.shape) <= MOST_AXES else None


class Frame:
    """
    The loops of one such kernel: no position is compared, and nothing is read that is not written.
    """

    def __init__(self, s: KernelScope, op: Framed) -> None:
        self.s, self.b, self.op = s, s.b, op
        b = s.b
        self.sizes = [b.dim(dim) for dim in shape_of(op.results[0].type)]
        if isinstance(op, PadOp):
            self.inner: SSAValue = op.x
            starts: list[Index] = [b.dim(dim) for dim in op.low.data]
        else:
            self.inner = op.update
            starts = [p.base for p in first_element(s.lanes(1), op)]
        counts = [b.dim(dim) for dim in shape_of(self.inner.type)]
        self.starts = starts
        # a negative padding takes elements away
        self.low = [b.min(b.max(x, 0), size) for x, size in zip(starts, self.sizes, strict=True)]
        ends = [b.add(start, count) for start, count in zip(starts, counts, strict=True)]
        limits = zip(ends, self.sizes, self.low, strict=True)
        self.high = [b.max(b.min(end, size), low) for end, size, low in limits]

    def run(self) -> None:
        """The first axis that has more than one element is shared by the threads."""
        shared = next((k for k, size in enumerate(self.sizes) if size != 1), len(self.sizes) - 1)
        work = self.b.product(self.sizes)
        self.s.parallel(work, lambda thread, count: self._walk([], True, shared, thread, count))

    def _walk(
        self, at: list[Index], inside: bool, shared: int, thread: Index, threads: Index
    ) -> None:
        """All points that begin with `at`, which is inside of the inner tensor or is not."""
        b, k = self.b, len(at)
        low, high = 0, self.sizes[k]
        if k == shared:
            multiple = self.s.schedule.lanes if k == len(self.sizes) - 1 else 1
            low, high = self.s.share(high, thread, threads, multiple)
        if not inside:
            self._region(at, low, high, False, shared, thread, threads)
            return
        first, last = b.max(low, self.low[k]), b.min(high, self.high[k])
        if self.low[k] != 0:
            self._region(at, low, b.min(high, self.low[k]), False, shared, thread, threads)
        self._region(at, first, last, True, shared, thread, threads)
        if self.high[k] != self.sizes[k]:
            behind = b.max(low, self.high[k])
            self._region(at, behind, high, False, shared, thread, threads)

    def _region(
        self,
        at: list[Index],
        low: Index,
        high: Index,
        inside: bool,
        shared: int,
        thread: Index,
        threads: Index,
    ) -> None:
        if len(at) + 1 < len(self.sizes):
            self.b.loop(
                low, high, 1, lambda i: self._walk([*at, i], inside, shared, thread, threads)
            )
            return
        lanes = self.s.schedule.lanes
        high = self.b.max(high, low)  # a thread's part may lie on one side of the region

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(lanes, mask)
            point = (*map(Position, at), Position(i, 1))
            e.store(self._value(e, point, inside), self.s.outputs[0], point)
            return []

        vector_loop(self.s, low, high, body, lanes=lanes, unroll=2 if inside else 1)

    def _value(self, e: Lanes, point: Sequence[Position], inside: bool) -> SSAValue:
        if inside:
            places = zip(point, self.starts, strict=True)
            moved = (Position(self.b.sub(p.base, start), p.step) for p, start in places)
            return e.fetch(self.inner, tuple(moved))
        if isinstance(self.op, PadOp):
            return e.fetch(self.op.value, ())
        return e.fetch(self.op.x, tuple(point))
