"""The loops of one kernel: its nest over groups of axes, its vectors, the shares of workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial

from xdsl.ir import Operation, SSAValue

from mlc.dialects import par, vec
from mlc.dialects.analysis.access import Nest, kept_pieces
from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.tensor.shape import ConcatOp
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import ORIGIN, Buffer, Position
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.element import Lanes

SHORT_ROW = 4
"""Vectors of a row up to which it has no loop: neighbours are read once by all of them."""


@dataclass
class KernelScope:
    """What the lowering of one kernel's body needs to know."""

    b: LoopBuilder
    kernel: KernelOp
    nest: Nest | None
    schedule: Schedule
    context: SSAValue
    inputs: dict[SSAValue, Buffer]
    outputs: list[Buffer]
    sites: dict[Operation, int]
    strided: frozenset[int]
    scratch: tuple[SSAValue, ...] = ()
    number: Index = 0  # of the run, where the kernel runs several times
    worker: Index = 0
    workers: Index = 1
    bound: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def lanes(
        self,
        lanes: int,
        mask: SSAValue | None = None,
        bound: dict[SSAValue, SSAValue] | None = None,
    ) -> Lanes:
        """A fresh element builder for the current block."""
        return Lanes(
            self.b,
            self.inputs,
            lanes,
            mask=mask,
            context=self.context,
            sites=self.sites,
            bound=bound,
        )

    def store_results(self, e: Lanes, at: tuple[Position, ...]) -> None:
        """Computes every yielded value at a point of the result and writes it."""
        values = [e.fetch(value, at) for value in self.kernel.yielded.values]
        for value, buffer in zip(values, self.outputs, strict=True):
            e.store(value, buffer, at)

    def parallel(self, work: Index, body: Callable[[Index, Index], None]) -> None:
        """
        `body(thread, threads)` on every worker: as many threads as the work repays have a share.
        """
        b, grain = self.b, max(self.schedule.grain, 1)
        if self.workers == 1 or (isinstance(work, int) and work < 2 * grain):
            self.alone(lambda: body(0, 1))
            return
        body(self.worker, b.min(self.workers, b.max(b.div(work, grain), 1)))

    def alone(self, body: Callable[[], object]) -> None:
        """`body` on the first worker."""
        self.b.when(self.b.compare("eq", self.worker, 0), body)

    def share(
        self, size: Index, thread: Index, threads: Index, multiple: int = 1
    ) -> tuple[Index, Index]:
        """The part [low, high) of `size` that belongs to a thread, cut at multiples."""
        b = self.b
        if threads == 1:
            return 0, size
        each = b.round_up(b.ceil_div(size, threads), multiple)
        low = b.min(b.mul(thread, each), size)
        return low, b.min(b.add(low, each), size)

    def barrier(self, threads: Index | None = None) -> None:
        """
        The workers wait for each other, where `threads` of them share something; where the call
        must stop, all end here.
        """
        b = self.b
        several = b.compare("gt", self.workers if threads is None else threads, 1)
        b.when(several, lambda: b.wait(self.context, self.worker, self.workers))

    def unless_cancelled(self, body: Callable[[], object]) -> None:
        """Runs the body unless the user has interrupted the call."""
        stop = self.b.value(par.CancelledOp.of(self.context))
        self.b.when(self.b.negated(stop), body)


@dataclass(frozen=True)
class Axes:
    """Groups of iteration axes that are walked as one, with their sizes."""

    groups: tuple[tuple[int, ...], ...]
    sizes: tuple[Index, ...]

    def of_axis(self, axis: int) -> int:
        """The group that holds an axis."""
        return next(k for k, group in enumerate(self.groups) if axis in group)

    def point(self, at: Sequence[Position]) -> tuple[Position, ...]:
        """A position per axis from a position per group: only a group's last axis moves."""
        found: list[Position] = []
        for group, position in zip(self.groups, at, strict=True):
            found += [ORIGIN] * (len(group) - 1) + [position]
        return tuple(found)


def axes_of(b: LoopBuilder, nest: Nest, strided: frozenset[int]) -> Axes:
    """The nest's axes in as few groups as every access permits."""
    groups = nest.groups(strided)
    return Axes(groups, tuple(b.dim(product(nest.sizes[a] for a in group)) for group in groups))


def merged_axes(
    nest: Nest | None, argument: int, rank: int, groups: Sequence[Sequence[int]]
) -> list[tuple[int, ...]]:
    """Which axes of an input are walked as one."""
    found: list[list[int]] = [[axis] for axis in range(rank)]
    if nest is None:
        return [tuple(g) for g in found]
    for group in groups:
        for outer, inner in itertools.pairwise(group):
            for access in nest.accesses:
                if access.argument != argument:
                    continue
                uses = [
                    [k for k, p in enumerate(access.point) if p.coefficient(d)]
                    for d in (outer, inner)
                ]
                if uses[0] and uses[1]:
                    first = next(g for g in found if uses[0][0] in g)
                    second = next(g for g in found if uses[1][0] in g)
                    if first is not second:
                        first += second
                        found.remove(second)
    return [tuple(g) for g in found]


def vector_loop(
    s: KernelScope,
    low: Index,
    high: Index,
    body: Callable[[Index, SSAValue | None, tuple[SSAValue, ...]], Sequence[SSAValue]],
    *,
    lanes: int,
    unroll: int,
    inits: Sequence[SSAValue] = (),
) -> tuple[SSAValue, ...]:
    """Walks [low, high) a vector at a time; the end is masked, not peeled into single elements.

    `body(position, mask, carried)` gives the next carried values. With carried values there are
    `unroll` independent sets of them, which the caller combines: `inits` holds unroll x state
    values; the masked end uses the first set.
    """
    b = s.b
    if lanes == 1 and unroll == 1:
        return b.loop(low, high, 1, lambda i, *c: body(i, None, c), inits)
    width = lanes * unroll
    state = len(inits) // unroll
    extent = b.sub(high, low)
    end = b.add(low, b.mul(b.div(extent, width), width))

    def whole(i: Index, *carried: SSAValue) -> list[SSAValue]:
        result: list[SSAValue] = []
        for u in range(unroll):
            mine = carried[u * state : (u + 1) * state]
            result += body(b.add(i, u * lanes), None, mine)
        return result

    carried = b.loop(low, end, width, whole, inits)
    rest = carried[state:]

    def masked(i: Index, *mine: SSAValue) -> Sequence[SSAValue]:
        mask = None if lanes == 1 else b.mask(b.sub(high, i), lanes)
        return body(i, mask, mine)

    first = b.loop(end, high, lanes, masked, carried[:state])
    return (*first, *rest)


def lower_cell(s: KernelScope) -> None:
    """Pointwise kernels: one loop per group of axes.

    The innermost runs in vectors, the outermost is shared by the threads.
    """
    from mlc.lowering.loops.frame import Frame, framed_of
    from mlc.lowering.loops.turn import turns_of

    assert s.nest is not None
    if (framed := framed_of(s)) is not None:
        Frame(s, framed).run()
        return
    b, axes = s.b, axes_of(s.b, s.nest, s.strided)
    if not axes.groups:
        s.store_results(s.lanes(1), ())
        return
    if (turns := turns_of(s, axes)) is not None:
        b.when(turns.fits(), turns.write, lambda: pointwise(s, axes))
        return
    past_caches = partial(pointwise, s, axes, nontemporal=True)
    b.when(_passes_caches(s), past_caches, lambda: pointwise(s, axes))


def _passes_caches(s: KernelScope) -> SSAValue | bool:
    """Whether results are stored past the caches: many bytes, in vectors at multiples of theirs."""
    b, lanes, above = s.b, s.schedule.lanes, s.schedule.nontemporal
    rows = [stride for buffer in s.outputs for stride in buffer.strides[:-1]]
    whole = all(isinstance(stride, int) and stride % lanes == 0 for stride in rows)
    if above is None or not whole or any(x.strides[-1] != 1 for x in s.outputs):
        return False
    found = b.compare("gt", b.dim(s.kernel.moved), above)
    for buffer in s.outputs:
        if found is not False:
            at_vectors = b.begins_at(buffer.memref, lanes * buffer.dtype.bytes)
            found = b.both(found, at_vectors)
    return found


def innermost(sizes: Sequence[Index]) -> int:
    """The last axis, or group of axes, along which there may be several elements."""
    return max((k for k, size in enumerate(sizes) if size != 1), default=len(sizes) - 1)


def pointwise(s: KernelScope, axes: Axes, *, nontemporal: bool = False) -> None:
    """One loop per group of axes."""
    b = s.b
    lanes, unroll = s.schedule.lanes, s.schedule.unroll
    inner = innermost(axes.sizes)
    behind = [ORIGIN] * (len(axes.sizes) - 1 - inner)
    if axes.sizes[inner] == 1:
        lanes = 1
    outer = next((k for k, size in enumerate(axes.sizes) if size != 1), inner)

    def nest(k: int, fixed: list[Position], thread: Index, threads: Index) -> None:
        low, high = 0, axes.sizes[k]
        if k == outer:
            low, high = s.share(high, thread, threads, lanes * unroll if k == inner else 1)
        if k < inner:
            b.loop(low, high, 1, lambda i: nest(k + 1, [*fixed, Position(i)], thread, threads))
            return

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            at = axes.point([*fixed, Position(i, 1), *behind])
            e = s.lanes(lanes, mask)
            e.nontemporal = nontemporal
            s.store_results(e, at)
            return []

        vector_loop(s, low, high, body, lanes=lanes, unroll=unroll)

    work = b.product(axes.sizes)
    s.parallel(work, lambda thread, threads: nest(0, [], thread, threads))
    if nontemporal:
        b.add_op(vec.StoreFenceOp.create())


def lower_concat(s: KernelScope) -> None:
    """
    A concatenation, piece by piece: each operand's elements are written where they belong. Workers
    have a share of each piece, so that the first one's are not the thin ones too. What a piece only
    keeps of the input that lies where the result does stands there already.
    """
    op = s.kernel.yielded.values[0].owner
    assert isinstance(op, ConcatOp)
    pieces = list(op.pieces())
    kept: set[int] = set()
    apart: SSAValue | bool = True
    if (over := s.kernel.shared_inputs[0]) >= 0:
        old = s.kernel.block.args[over]
        kept = kept_pieces(s.kernel, over)
        if s.kernel.overwritten == over:
            apart = False
        else:
            apart = s.b.lie_apart(s.inputs[old].memref, s.outputs[0].memref)

    def all_pieces(thread: Index, threads: Index) -> None:
        for k, (piece, start) in enumerate(pieces):
            write = partial(_write_share, s, piece, start, s.outputs[0], thread, threads)
            s.b.when(apart if k in kept else True, write)

    work = s.b.product([s.b.dim(dim) for dim in shape_of(op.results[0].type)])
    s.parallel(work, all_pieces)


def write_piece(s: KernelScope, part: SSAValue, target: Buffer | None = None) -> None:
    """Writes all elements of `part` to the target, or to the kernel's first result."""
    buffer = s.outputs[0] if target is None else target
    work = s.b.product([s.b.dim(dim) for dim in shape_of(part.type)])
    s.parallel(work, lambda thread, threads: _write_share(s, part, (), buffer, thread, threads))


def _write_share(
    s: KernelScope,
    part: SSAValue,
    start: Sequence[Dim],
    target: Buffer,
    thread: Index,
    threads: Index,
) -> None:
    """
    A thread's share of the elements of `part`, from a point of the target on, or from its first:
    of the first axis that has more than one.
    """
    b, lanes = s.b, s.schedule.lanes
    sizes = [b.dim(dim) for dim in shape_of(part.type)]
    starts = [b.dim(dim) for dim in start] or [0] * len(sizes)
    inner = innermost(sizes)
    behind = [ORIGIN] * (len(sizes) - 1 - inner)

    shared = next((k for k, size in enumerate(sizes) if size != 1), inner)

    def nest(k: int, fixed: list[Position]) -> None:
        low, high = 0, sizes[k]
        if k == shared:
            low, high = s.share(high, thread, threads, lanes if k == inner else 1)
        if k < inner:
            b.loop(low, high, 1, lambda i: nest(k + 1, [*fixed, Position(i)]))
            return

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            at = (*fixed, Position(i, 1), *behind)
            e = s.lanes(lanes, mask)
            value = e.fetch(part, at)
            moved = (Position(b.add(p.base, x), p.step) for p, x in zip(at, starts, strict=True))
            e.store(value, target, tuple(moved))
            return []

        lead = 0 if k == shared or behind else _lead(target, starts[inner], lanes)
        if lead and isinstance(high, int) and high >= 2 * lanes:
            body(lead - lanes, b.last_lanes(lead, lanes), ())
            low = lead
        unroll = 1 if k == shared else _all_or_one(b.sub(high, low), lanes)
        vector_loop(s, low, high, body, lanes=lanes, unroll=unroll)

    nest(0, [])


def _all_or_one(extent: Index, lanes: int) -> int:
    """How many vectors a trip has: all of a short row."""
    vectors = extent // lanes if isinstance(extent, int) else 0
    return vectors if 1 < vectors <= SHORT_ROW else 1


def _lead(target: Buffer, start: Index, lanes: int) -> int:
    """
    Elements from a place in a row to the next vector of the target, where its rows hold whole ones:
    what is written from there on, and read of such rows above and below, crosses no cache line.
    """
    *rows, last = target.strides
    if last != 1 or not isinstance(start, int):
        return 0
    whole = all(isinstance(stride, int) and stride % lanes == 0 for stride in rows)
    return -start % lanes if whole else 0
