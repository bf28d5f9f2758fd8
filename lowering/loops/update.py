"""Writing a part of a tensor where it lies: only the part's elements are computed and written."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import ORIGIN
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.kernel import KernelScope, innermost, vector_loop


def update_of(kernel: KernelOp) -> DynamicUpdateOp:
    """The update that the kernel writes in place."""
    op = kernel.yielded.values[0].owner
    assert isinstance(op, DynamicUpdateOp)
    return op


def first_element(e: Lanes, op: DynamicUpdateOp) -> list[Position]:
    """Where the part begins in the tensor."""
    found: list[Position] = []
    for start in op.starts(e, op.offsets, op.shape, shape_of(op.update.type)):
        position = e.at_element(start)
        assert isinstance(position, Position)
        found.append(position)
    return found


def moved(s: KernelScope, start: Sequence[Position], at: Sequence[Position]) -> list[Position]:
    """A point of the part as a point of the tensor."""
    pairs = zip(start, at, strict=True)
    return [Position(s.b.add(first.base, p.base), p.step) for first, p in pairs]


def lower_update(s: KernelScope) -> None:
    """A loop per axis of the part; the first that has more than one element is shared."""
    b, op, lanes = s.b, update_of(s.kernel), s.schedule.lanes
    start = first_element(s.lanes(1), op)
    sizes = [b.dim(dim) for dim in shape_of(op.update.type)]
    inner = innermost(sizes)
    behind = [ORIGIN] * (len(sizes) - 1 - inner)
    shared = next((k for k, size in enumerate(sizes) if size != 1), inner)

    def write(lanes: int, mask: SSAValue | None, at: list[Position]) -> None:
        e = s.lanes(lanes, mask)
        e.store(e.fetch(op.update, tuple(at)), s.outputs[0], tuple(moved(s, start, at)))

    def nest(k: int, fixed: list[Position], thread: Index, threads: Index) -> None:
        if k > inner:
            write(1, None, fixed)  # a single number
            return
        low, high = 0, sizes[k]
        if k == shared:
            low, high = s.share(high, thread, threads, lanes if k == inner else 1)
        if k < inner:
            b.loop(low, high, 1, lambda i: nest(k + 1, [*fixed, Position(i)], thread, threads))
            return

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            write(lanes, mask, [*fixed, Position(i, 1), *behind])
            return []

        vector_loop(s, low, high, body, lanes=lanes, unroll=1)

    s.parallel(b.product(sizes), lambda thread, threads: nest(0, [], thread, threads))
