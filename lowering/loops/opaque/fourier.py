"""
Fourier transforms along the last axis: stages over planes of real and imaginary parts, which lie in
the kernel's own memory; lengths with large primes are convolutions with a chirp. On a CPU: a GPU's
program calls the library.

An inverse is the transform of the numbers with their parts exchanged. Real numbers are complex ones
whose imaginary parts are zero, and half a spectrum is completed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dims import Dim, product
from mlc.dialects.dtypes import DType, dtype_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import tensor_of
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.complex_parts import Parts, multiply
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.memory import read_row, write_row
from mlc.lowering.loops.opaque.fourier_plan import FourierPlan, Stage, plan_of

Planes = tuple[int, int]  # of the four: those of real and of imaginary parts


def plan_for(kernel: KernelOp) -> FourierPlan | None:
    """How a library kernel is computed here; None where the library does it."""
    op = whole_of(kernel)
    if not isinstance(op, LibraryOp) or (points := op.points) is None:
        return None
    return plan_of(points, _lanes(kernel, op))


def _part(op: LibraryOp) -> DType:
    """The dtype of real parts."""
    dtype = dtype_of(tensor_of(op.inputs[0]).element_type)
    return dtype.part if dtype.kind == "complex" else dtype


def _lanes(kernel: KernelOp, op: LibraryOp) -> int:
    """Of vectors of real numbers on the machine."""
    module = kernel.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    bits = cpu_of(module, "a generated transform").vector_bits
    return max(bits // (8 * _part(op).numpy.itemsize), 1)


def fourier_scratch(kernel: KernelOp) -> tuple[Scratch, ...]:
    """Four planes for each worker, and the table; nothing where a library is called."""
    op, plan = whole_of(kernel), plan_for(kernel)
    if plan is None:
        return ()
    assert isinstance(op, LibraryOp)
    part = _part(op)
    table = plan.table.astype(part.numpy)
    return (
        Scratch(memory_type(part), Dim.const(4 * plan.size), product(op.shape[:-1])),
        Scratch(memory_type(part), Dim.const(table.size), content=table.tobytes()),
    )


class FourierNest:
    """The loops of one kernel: for each row a load, the stages and a store."""

    def __init__(self, s: KernelScope, plan: FourierPlan, rows: SSAValue) -> None:
        op = whole_of(s.kernel)
        assert isinstance(op, LibraryOp)
        self.s, self.b, self.plan, self.op = s, s.b, plan, op
        self.routine = op.routine.data
        self.part = _part(op)
        self.lanes = _lanes(s.kernel, op)
        self.memory, self.table = s.scratch[-2:]
        self.start: Index = 0  # of this worker's planes
        ((given,),), lead = op.cores(), op.shape[:-1]
        self.given, self.written = (x.constant or 0 for x in (given, op.shape[-1]))
        self.count = self.b.product([self.b.dim(d) for d in lead])
        self.rows = self.b.view(rows, [self.b.mul(self.count, self.given)])
        self.out = self.b.view(s.outputs[0].memref, [self.b.mul(self.count, self.written)])

    def run(self) -> None:
        """All rows, of which each worker has a share."""
        b = self.b

        def share(thread: Index, threads: Index) -> None:
            self.start = b.mul(thread, 4 * self.plan.size)
            low, high = self.s.share(self.count, thread, threads)
            b.loop(low, high, 1, lambda i: self.s.unless_cancelled(lambda: self.row(i)))

        self.s.parallel(b.mul(self.count, self.written), share)

    def row(self, number: Index) -> None:
        """One transform."""
        plan, inverse = self.plan, self.routine not in ("fft", "rfft")
        first: Planes = (1, 0) if inverse else (0, 1)
        self.load(self.b.mul(number, self.given), first)
        found = self.stages((0, 1)) if plan.is_direct else self.convolved((0, 1))
        self.store(self.b.mul(number, self.written), _exchanged(found) if inverse else found)

    # planes ---------------------------------------------------------------------------------------

    def at(self, plane: int, i: Index) -> Index:
        """Where an element of a plane lies."""
        return self.b.add(self.b.add(i, self.start), plane * self.plan.size)

    def read(self, e: Lanes, planes: Planes, i: Index) -> Parts:
        """Points of planes."""
        x, y = (read_row(e, self.part, self.memory, self.at(plane, i)) for plane in planes)
        return x, y

    def write(self, e: Lanes, parts: Parts, planes: Planes, i: Index) -> None:
        """As `read`."""
        for plane, value in zip(planes, parts, strict=True):
            write_row(e, value, self.memory, self.at(plane, i))

    def factor(self, e: Lanes, at: int, count: int, i: Index, *, splat: bool = False) -> Parts:
        """Points of the table, whose real parts begin at `at` and imaginary ones `count` behind."""
        one = self.s.lanes(1) if splat else e
        x, y = (
            read_row(one, self.part, self.table, self.b.add(i, start)) for start in (at, at + count)
        )
        return (self.b.splat(x, e.lanes), self.b.splat(y, e.lanes)) if splat else (x, y)

    def walk(self, low: int, high: int, body: Callable[[Lanes, Index], object]) -> None:
        """Points in vectors, the last ones one by one."""
        b, lanes = self.b, self.lanes
        middle = low + (high - low) // lanes * lanes
        if lanes > 1:
            b.loop(low, middle, lanes, lambda i: _nothing(body(self.s.lanes(lanes), i)))
        else:
            middle = low
        b.loop(middle, high, 1, lambda i: _nothing(body(self.s.lanes(1), i)))

    # rows -----------------------------------------------------------------------------------------

    def load(self, row: Index, planes: Planes) -> None:
        """A row into planes; with a chirp, times that."""
        plan, b = self.plan, self.b
        real = self.routine == "rfft"
        dtype = dtype_of(tensor_of(self.op.inputs[0]).element_type)

        def given(e: Lanes, i: Index) -> Parts:
            value = read_row(e, dtype, self.rows, b.add(row, i))
            if real:
                return value, e.constant(0, self.part)
            return e.real(value), e.imag(value)

        def copy(e: Lanes, i: Index) -> None:
            self.write(e, given(e, i), planes, i)

        def both(e: Lanes, i: Index) -> None:
            x, y = given(e, i)
            self.write(e, (x, y), planes, i)
            self.write(e, (x, e.apply(arith.NegfOp, y)), planes, b.sub(plan.length, i))

        if self.routine.startswith("irfft"):
            one, zero = self.s.lanes(1), self.s.lanes(1).constant(0, self.part)
            for i in {0, plan.length // 2} if plan.length % 2 == 0 else {0}:
                self.write(one, (given(one, i)[0], zero), planes, i)
            b.loop(1, (plan.length + 1) // 2, 1, lambda i: both(self.s.lanes(1), i))
        else:
            self.walk(0, plan.length, copy)
        if not plan.is_direct:
            self.scale((0, 1), plan.chirp, plan.length)
            self.walk(plan.length, plan.size, self.cleared)

    def store(self, row: Index, planes: Planes) -> None:
        """Planes into a row of the result, scaled where it is an inverse."""
        b, inverse = self.b, self.routine not in ("fft", "rfft")

        def copy(e: Lanes, i: Index) -> None:
            parts = self.read(e, planes, i)
            if inverse:
                scale = e.constant(1 / self.plan.length, self.part)
                x, y = (e.apply(arith.MulfOp, part, scale) for part in parts)
                parts = x, y
            real = self.routine.startswith("irfft")
            value = parts[0] if real else e.pair(*parts)
            write_row(e, value, self.out, b.add(row, i))

        self.walk(0, self.written, copy)

    # convolution ----------------------------------------------------------------------------------

    def scale(self, planes: Planes, at: int, count: int) -> None:
        """Points of planes times those of the table that begin at `at`."""

        def body(e: Lanes, i: Index) -> None:
            factor = self.factor(e, at, count, i)
            self.write(e, multiply(e, self.part, self.read(e, planes, i), factor), planes, i)

        self.walk(0, count, body)

    def cleared(self, e: Lanes, i: Index) -> None:
        """No points of the first planes."""
        zero = e.constant(0, self.part)
        self.write(e, (zero, zero), (0, 1), i)

    def convolved(self, planes: Planes) -> Planes:
        """Bluestein: the planes, convolved with the chirp's conjugate, times the chirp."""
        plan = self.plan
        found = self.stages(planes)
        self.scale(found, plan.spectrum, plan.size)
        found = _exchanged(self.stages(_exchanged(found)))
        self.scale(found, plan.chirp, plan.length)
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
    FourierNest(s, plan, rows).run()


def _exchanged(planes: Planes) -> Planes:
    return planes[1], planes[0]


def small(e: Lanes, x: Sequence[Parts], part: DType) -> list[Parts]:
    """The transform of 2, 4 or an odd number of points."""
    if len(x) == 2:
        return [_add(e, x[0], x[1]), _sub(e, x[0], x[1])]
    if len(x) == 4:
        even, odd = _add(e, x[0], x[2]), _add(e, x[1], x[3])
        here, there = _sub(e, x[0], x[2]), _sub(e, x[1], x[3])
        turned = there[1], e.apply(arith.NegfOp, there[0])  # times -i
        first, second = _add(e, even, odd), _add(e, here, turned)
        return [first, second, _sub(e, even, odd), _sub(e, here, turned)]
    count = len(x)
    half = range(1, count // 2 + 1)
    sums = [_add(e, x[j], x[count - j]) for j in half]
    differences = [_sub(e, x[j], x[count - j]) for j in half]
    found: list[Parts] = [x[0]] * count
    for each in sums:
        found[0] = _add(e, found[0], each)
    for k in half:
        # the real numbers cos and sin of what x[j] and x[count - j] are turned by
        even, odd = x[0], None
        for j, each, other in zip(half, sums, differences, strict=True):
            angle = 2 * np.pi * (j * k % count) / count
            cosine, sine = (e.constant(float(f(angle)), part) for f in (np.cos, np.sin))
            even = _add(e, even, (_mul(e, each[0], cosine), _mul(e, each[1], cosine)))
            more = _mul(e, other[1], sine), e.apply(arith.NegfOp, _mul(e, other[0], sine))
            odd = more if odd is None else _add(e, odd, more)
        assert odd is not None
        found[k], found[count - k] = _add(e, even, odd), _sub(e, even, odd)
    return found


def _mul(e: Lanes, x: SSAValue, y: SSAValue) -> SSAValue:
    return e.apply(arith.MulfOp, x, y)


def _add(e: Lanes, x: Parts, y: Parts) -> Parts:
    return e.apply(arith.AddfOp, x[0], y[0]), e.apply(arith.AddfOp, x[1], y[1])


def _sub(e: Lanes, x: Parts, y: Parts) -> Parts:
    return e.apply(arith.SubfOp, x[0], y[0]), e.apply(arith.SubfOp, x[1], y[1])


def _nothing(_: object) -> None:
    """Loops carry no values."""
