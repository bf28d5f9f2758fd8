"""
Positions of true elements: a register of positions at a time, of which those are moved together and
written that count.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects import vec
from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dims import shape_of
from mlc.dialects.tensor.positions import PositionsOp
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.element import Position
from mlc.lowering.loops.kernel import KernelScope, vector_loop
from mlc.lowering.loops.opaque.network import lanes_on


def lower_positions(s: KernelScope) -> None:
    """A kernel that holds `mlc.positions`, with what computes its mask."""
    s.alone(lambda: _write(s))


def _write(s: KernelScope) -> None:
    op = whole_of(s.kernel)
    assert isinstance(op, PositionsOp)
    b, lanes = s.b, s.schedule.lanes
    size, total = b.dim(shape_of(op.mask.type)[0]), b.dim(op.shape[0])

    def body(i: Index, mask: SSAValue | None, carried: tuple[SSAValue, ...]) -> list[SSAValue]:
        (end,) = carried
        e = s.lanes(lanes, mask)
        found = e.fetch(op.mask, (Position(i, 1),))
        if mask is not None:
            found = e.apply(arith.AndIOp, found, mask)
        position = e.position(Position(i, 1))
        if lanes == 1:
            b.when(found, lambda: e.store(position, s.outputs[0], (Position(end),)))
            return [b.index(b.add(end, b.choose(found, 1, 0)))]
        count = lanes_on(b, found)
        packed = b.value(vec.CompressOp.of(position, found))

        def store(kept: SSAValue | None) -> None:
            s.lanes(lanes, kept).store(packed, s.outputs[0], (Position(end, 1),))

        # a whole register where there is room for it: what is behind is written later
        room = b.compare("le", b.add(end, lanes), total)
        b.when(room, lambda: store(None), lambda: store(b.mask(count, lanes)))
        return [b.index(b.add(end, count))]

    vector_loop(s, 0, size, body, lanes=lanes, unroll=1, inits=[b.index(0)])
