"""Fourier transforms of known lengths: their stages and factors are in the code."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dims import Dim, product
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.complex_parts import Parts, multiply
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.memory import write_row
from mlc.lowering.loops.opaque.fourier_plan import FourierPlan, Stage, plan_of
from mlc.lowering.loops.opaque.fourier_rows import (
    FourierRows,
    Planes,
    exchanged,
    lanes_of,
    part_of,
    small,
)


def plan_for(kernel: KernelOp) -> FourierPlan | None:
    """How a transform is computed whose stages are in the code; None of all others."""
    op = whole_of(kernel)
    if not isinstance(op, LibraryOp) or (points := op.points) is None:
        return None
    return plan_of(points, lanes_of(kernel, op))


def fourier_scratch(kernel: KernelOp, plan: FourierPlan) -> tuple[Scratch, ...]:
    """Four planes for each worker, and the table."""
    op = whole_of(kernel)
    assert isinstance(op, LibraryOp)
    part = part_of(op)
    table = plan.table.astype(part.numpy)
    return (
        Scratch(memory_type(part), Dim.const(4 * plan.size), product(op.shape[:-1])),
        Scratch(memory_type(part), Dim.const(table.size), content=table.tobytes()),
    )


class FourierNest(FourierRows):
    """The loops of one kernel: for each row a load, the stages and a store."""

    def __init__(self, s: KernelScope, plan: FourierPlan, rows: SSAValue) -> None:
        super().__init__(s, rows, *s.scratch[-2:])
        self.plan = plan
        self.length, self.size = plan.length, plan.size
        self.chirp, self.spectrum = plan.chirp, plan.spectrum

    def row(self, number: Index) -> None:
        """One transform."""
        self.load(self.b.mul(number, self.given), (1, 0) if self.inverse else (0, 1))
        found = self.stages((0, 1)) if self.plan.is_direct else self.convolved((0, 1))
        self.store(self.b.mul(number, self.written), exchanged(found) if self.inverse else found)

    def convolved(self, planes: Planes) -> Planes:
        """Bluestein: the planes, convolved with the chirp's conjugate, times the chirp."""
        self.pad()
        found = self.stages(planes)
        self.scale(found, self.spectrum, self.size)
        found = exchanged(self.stages(exchanged(found)))
        self.scale(found, self.chirp, self.length)
        return found

    # stages ---------------------------------------------------------------------------------------

    def stages(self, planes: Planes) -> Planes:
        """The transform of planes, which are written over, and where it is."""
        for stage in self.plan.stages:
            others = tuple(k for k in range(4) if k not in planes)
            into: Planes = (others[0], others[1])
            self.stage(stage, planes, into)
            planes = into
        return planes

    def stage(self, stage: Stage, planes: Planes, into: Planes) -> None:
        """All butterflies of a stage."""
        b, lanes = self.b, self.lanes
        sorts = lanes % stage.stride == 0 and lanes > 1
        if stage.in_rows:
            b.loop(0, stage.count, 1, lambda p: self.row_of(stage, planes, into, p))
            return
        middle = stage.points // lanes * lanes if sorts else 0

        def sorted_(t: Index) -> None:
            e = self.s.lanes(lanes)
            found = self.butterfly(e, stage, planes, t, t)
            block = b.mul(t, stage.radix)  # t = s p begins a block
            for plane, values in zip(into, zip(*found, strict=True), strict=True):
                for k, value in enumerate(self.mixed(values, stage)):
                    write_row(e, value, self.memory, self.at(plane, b.add(block, k * lanes)))

        def single(t: Index) -> None:
            p = b.div(t, stage.stride)
            self.place(self.s.lanes(1), stage, planes, into, p, b.sub(t, b.mul(p, stage.stride)), t)

        b.loop(0, middle, lanes, sorted_)
        b.loop(middle, stage.points, 1, single)

    def row_of(self, stage: Stage, planes: Planes, into: Planes, p: Index) -> None:
        """The butterflies of one p."""
        start = self.b.mul(p, stage.stride)

        def body(e: Lanes, q: Index) -> None:
            self.place(e, stage, planes, into, p, q, self.b.add(start, q))

        self.walk(0, stage.stride, body)

    def place(
        self, e: Lanes, stage: Stage, planes: Planes, into: Planes, p: Index, q: Index, t: Index
    ) -> None:
        """Butterflies whose results follow one another, for each k."""
        b = self.b
        found = self.butterfly(e, stage, planes, t, p if stage.in_rows else t)
        start = b.add(q, b.mul(p, stage.stride * stage.radix))
        for k, parts in enumerate(found):
            self.write(e, parts, into, b.add(start, k * stage.stride))

    def butterfly(
        self, e: Lanes, stage: Stage, planes: Planes, t: Index, factor: Index
    ) -> list[Parts]:
        """Small transforms of points that lie apart, times their factors."""
        b, radix = self.b, stage.radix
        points = [self.read(e, planes, b.add(t, j * stage.points)) for j in range(radix)]
        found = small(e, points, self.part)
        if not stage.turns:
            return found
        count = stage.count if stage.in_rows else stage.points
        for k in range(1, radix):
            at = stage.at + 2 * (k - 1) * count
            splat = stage.in_rows and e.lanes > 1
            found[k] = multiply(
                e, self.part, found[k], self.factor(e, at, count, factor, splat=splat)
            )
        return found

    def mixed(self, values: Sequence[SSAValue], stage: Stage) -> list[SSAValue]:
        """Vectors of each k as they follow one another in memory: p by p, then k by k."""
        b, lanes, radix, stride = self.b, self.lanes, stage.radix, stage.stride
        whole, width = list(values), lanes
        while len(whole) > 2:  # side by side, two and two
            pairs = [(whole[k], whole[min(k + 1, len(whole) - 1)]) for k in range(0, len(whole), 2)]
            whole = [b.shuffled(x, y, range(2 * width)) for x, y in pairs]
            width *= 2
        found: list[SSAValue] = []
        for k in range(radix):
            flat = [k * lanes + lane for lane in range(lanes)]
            chosen = [
                (x // stride % radix) * lanes + x // (stride * radix) * stride + x % stride
                for x in flat
            ]
            found.append(b.shuffled(whole[0], whole[1], chosen))
        return found


def lower_fourier(s: KernelScope, plan: FourierPlan, rows: SSAValue) -> None:
    """The loops; `rows`: the operand, contiguous."""
    nest = FourierNest(s, plan, rows)
    nest.run(nest.row, plan.size, nest.count)
