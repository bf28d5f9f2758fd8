"""
Loops whose trips workers share and which carry tiles: each chunk of trips leaves its states in
memory of the team; then every worker combines them in turn. Sizes alone say how many chunks there
are, so that bits are the same for every team.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.tensor.monoid import MONOIDS, Monoid
from mlc.dialects.tile.control import ForOp
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.shares import chunks
from mlc.dialects.tile.types import ViewType, frag_of, view_type
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.element import Lanes
from mlc.lowering.tiles import team
from mlc.lowering.tiles.fragment import Fragment
from mlc.lowering.tiles.scope import TileScope

Trip = Callable[[Index, Sequence[SSAValue]], Sequence[SSAValue]]
"""(number of the trip, vectors that it begins with) -> those that it leaves."""
MANY = 1 << 30
"""Trips: more than there are ever chunks."""


def folds_of(kernel: KernelOp) -> list[ForOp]:
    """The loops of a kernel whose chunks leave states, in order."""
    return [op for op in kernel.walk() if isinstance(op, ForOp) and op.deal and op.inits]


def states_of(op: ForOp) -> list[ViewType]:
    """Memory of the states of all chunks, for each tile that a loop carries."""
    count = Dim.const(_most(op))
    kinds = (frag_of(x) for x in op.inits)
    return [view_type(kind.element, (count, *kind.dims.data)) for kind in kinds]


def _most(op: ForOp) -> int:
    """Chunks, where there are enough trips."""
    kinds = (frag_of(x) for x in op.inits)
    return chunks(MANY, sum(math.prod(kind.shape) * kind.dtype.bytes for kind in kinds))


def lower_fold(
    s: TileScope, op: ForOp, trips: Index, shared: SSAValue | bool, trip: Trip
) -> list[SSAValue]:
    """What all trips together leave; not `shared`: each worker runs all of them for itself."""
    b, inits = s.b, [s.fragments[x] for x in op.inits]
    count = b.min(trips, _most(op))
    each = b.ceil_div(trips, b.max(count, 1))
    low, high = team.share(b, count, s.thread, s.threads)
    low, high = b.choose(shared, low, 0), b.choose(shared, high, count)

    def chunk(number: Index) -> None:
        begin = b.mul(number, each)
        end = b.min(b.add(begin, each), trips)
        identities = _identities(s, op)
        found = b.loop(begin, end, 1, lambda t, *carried: trip(t, carried), identities)
        for (e, buffer, at, _), x in zip(_vectors(s, op), found, strict=True):
            e.store(x, buffer, (Position(number), *at))

    def add(number: Index, *carried: SSAValue) -> Sequence[SSAValue]:
        found: list[SSAValue] = []
        for (e, buffer, at, fold), x in zip(_vectors(s, op), carried, strict=True):
            dtype = buffer.dtype
            wide = fold.accumulator(dtype)
            part = e.load(buffer, (Position(number), *at))
            pair = [(e.convert(y, dtype, wide),) for y in (x, part)]
            found.append(e.convert(fold.combine(e, wide, *pair)[0], wide, dtype))
        return found

    b.loop(low, high, 1, chunk)
    team.barrier(b, s.context, s.thread, s.threads, s.workers)
    found = b.loop(0, count, 1, add, [x for tile in inits for x in tile.all()])
    if op.parent_op() is not None and not isinstance(op.parent_op(), KernelOp):
        team.barrier(b, s.context, s.thread, s.threads, s.workers)  # before the next states
    return list(found)


def _vectors(
    s: TileScope, op: ForOp
) -> Iterator[tuple[Lanes, Buffer, tuple[Position, ...], Monoid]]:
    """Of each vector that a loop carries: where it lies in the states, and what combines it."""
    for x, buffer, fold in zip(op.inits, s.states[op], op.folds, strict=True):
        kind = frag_of(x)
        lanes = s.lanes_of(kind)
        tile = Fragment.of(kind.shape, lanes, ())
        e = s.element_builder(lanes)
        for row in tile.rows:
            for v in range(tile.vectors):
                last = (Position(v * lanes, 1 if lanes > 1 else 0),) if kind.shape else ()
                yield e, buffer, (*map(Position, row), *last), MONOIDS[fold.data]


def _identities(s: TileScope, op: ForOp) -> list[SSAValue]:
    found: list[SSAValue] = []
    for e, buffer, _, fold in _vectors(s, op):
        (identity,) = fold.identity(buffer.dtype)
        found.append(e.constant(identity, buffer.dtype))
    return found
