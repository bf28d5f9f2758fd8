"""
Fourier transforms along the last axis, row by row: stages over planes of real and imaginary parts,
which lie in the kernel's own memory; lengths with large primes are convolutions with a chirp. On a
CPU: a GPU's program calls the library.

An inverse is the transform of the numbers with their parts exchanged. Real numbers are complex ones
whose imaginary parts are zero, and half a spectrum is completed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp, i64
from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dtypes import I64, DType
from mlc.dialects.plan import KernelOp
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import element_dtype
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.complex_parts import Parts, multiply
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.memory import read_row, write_row

Planes = tuple[Index, Index]  # of the four: those of real and of imaginary parts


def part_of(op: LibraryOp) -> DType:
    """The dtype of real parts."""
    return element_dtype(op.inputs[0]).part


def lanes_of(kernel: KernelOp, op: LibraryOp) -> int:
    """Of vectors of real numbers on the machine."""
    module = kernel.get_toplevel_object()
    assert isinstance(module, ModuleOp)
    bits = cpu_of(module, "a generated transform").vector_bits
    return max(bits // (8 * part_of(op).numpy.itemsize), 1)


class FourierRows:
    """
    The rows of one kernel: what is read, written and multiplied. `length`: points of a transform;
    `size`: of its stages, more where it is a convolution; `rows`: the operand, contiguous.
    """

    length: Index
    size: Index
    chirp: Index  # where it begins in the table
    spectrum: Index

    def __init__(self, s: KernelScope, rows: SSAValue, memory: SSAValue, table: SSAValue) -> None:
        op = whole_of(s.kernel)
        assert isinstance(op, LibraryOp)
        self.s, self.b, self.op = s, s.b, op
        self.routine = op.routine.data
        self.part = part_of(op)
        self.lanes = lanes_of(s.kernel, op)
        self.memory, self.table = memory, table
        self.start: Index = 0  # of this worker's planes
        ((given,),), lead = op.cores(), op.shape[:-1]
        self.given, self.written = self.b.dim(given), self.b.dim(op.shape[-1])
        self.count = self.b.product([self.b.dim(d) for d in lead])
        self.rows = self.b.view(rows, [self.b.mul(self.count, self.given)])
        self.out = self.b.view(s.outputs[0].memref, [self.b.mul(self.count, self.written)])

    @property
    def inverse(self) -> bool:
        """Whether it is one."""
        return self.routine not in ("fft", "rfft")

    def run(self, row: Callable[[Index], None], room: Index, count: Index) -> None:
        """So many rows, of which each worker has a share, and room for points of each plane."""
        b = self.b

        def share(thread: Index, threads: Index) -> None:
            self.start = b.mul(thread, b.mul(room, 4))
            low, high = self.s.share(count, thread, threads)
            b.loop(low, high, 1, lambda i: self.s.unless_cancelled(lambda: row(i)))

        self.s.parallel(b.mul(count, self.written), share)

    # planes ---------------------------------------------------------------------------------------

    def at(self, plane: Index, i: Index) -> Index:
        """Where an element of a plane lies."""
        return self.b.add(self.b.add(i, self.start), self.b.mul(plane, self.size))

    def read(self, e: Lanes, planes: Planes, i: Index) -> Parts:
        """Points of planes."""
        x, y = (read_row(e, self.part, self.memory, self.at(plane, i)) for plane in planes)
        return x, y

    def write(self, e: Lanes, parts: Parts, planes: Planes, i: Index) -> None:
        """As `read`."""
        for plane, value in zip(planes, parts, strict=True):
            write_row(e, value, self.memory, self.at(plane, i))

    def factor(self, e: Lanes, at: Index, count: Index, i: Index, *, splat: bool = False) -> Parts:
        """Points of the table, whose real parts begin at `at` and imaginary ones `count` behind."""
        one = self.s.lanes(1) if splat else e
        starts = at, self.b.add(at, count)
        x, y = (read_row(one, self.part, self.table, self.b.add(i, start)) for start in starts)
        return (self.b.splat(x, e.lanes), self.b.splat(y, e.lanes)) if splat else (x, y)

    def walk(
        self, low: Index, high: Index, body: Callable[[Lanes, Index], object], lanes: int = 0
    ) -> None:
        """Points in vectors, of the machine's size or so many, and the last ones one by one."""
        b, lanes = self.b, lanes or self.lanes
        middle = low
        if lanes > 1:
            middle = b.add(low, b.mul(b.div(b.sub(high, low), lanes), lanes))
            b.loop(low, middle, lanes, lambda i: nothing(body(self.s.lanes(lanes), i)))
        b.loop(middle, high, 1, lambda i: nothing(body(self.s.lanes(1), i)))

    # rows -----------------------------------------------------------------------------------------

    def load(self, row: Index, planes: Planes) -> None:
        """A row into planes."""
        b = self.b
        real = self.routine == "rfft"
        dtype = element_dtype(self.op.inputs[0])

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
            self.write(e, (x, e.apply(arith.NegfOp, y)), planes, b.sub(self.length, i))

        if self.routine.startswith("irfft"):
            one, zero = self.s.lanes(1), self.s.lanes(1).constant(0, self.part)
            even = self.routine == "irfft_even"
            for i in (0, b.div(self.length, 2))[: 1 + even]:
                self.write(one, (given(one, i)[0], zero), planes, i)
            end = b.div(b.add(self.length, 1), 2)
            b.loop(1, end, 1, lambda i: both(self.s.lanes(1), i))
        else:
            self.walk(0, self.length, copy)

    def pad(self) -> None:
        """Of a convolution: the first planes times the chirp, and zeros behind them."""
        self.scale((0, 1), self.chirp, self.length)
        self.walk(self.length, self.size, self.cleared)

    def store(self, row: Index, planes: Planes) -> None:
        """Planes into a row of the result, scaled where it is an inverse."""
        b, factor = self.b, self.scale_of_inverse() if self.inverse else None

        def copy(e: Lanes, i: Index) -> None:
            parts = self.read(e, planes, i)
            if factor is not None:
                scale = b.splat(factor, e.lanes) if e.lanes > 1 else factor
                x, y = (e.apply(arith.MulfOp, part, scale) for part in parts)
                parts = x, y
            real = self.routine.startswith("irfft")
            value = parts[0] if real else e.pair(*parts)
            write_row(e, value, self.out, b.add(row, i))

        self.walk(0, self.written, copy)

    def number(self, value: Index, dtype: DType) -> SSAValue:
        """A size as a floating-point number."""
        e = self.s.lanes(1)
        if isinstance(value, int):
            return e.constant(float(value), dtype)
        return e.convert(e.cast("index_cast", value, i64), I64, dtype)

    def scale_of_inverse(self) -> SSAValue:
        """1 / length."""
        e = self.s.lanes(1)
        if isinstance(self.length, int):
            return e.constant(1 / self.length, self.part)
        return e.apply(arith.DivfOp, e.constant(1, self.part), self.number(self.length, self.part))

    # convolution ----------------------------------------------------------------------------------

    def scale(self, planes: Planes, at: Index, count: Index) -> None:
        """Points of planes times those of the table that begin at `at`."""

        def body(e: Lanes, i: Index) -> None:
            factor = self.factor(e, at, count, i)
            self.write(e, multiply(e, self.part, self.read(e, planes, i), factor), planes, i)

        self.walk(0, count, body)

    def cleared(self, e: Lanes, i: Index) -> None:
        """No points of the first planes."""
        zero = e.constant(0, self.part)
        self.write(e, (zero, zero), (0, 1), i)


def exchanged(planes: Planes) -> Planes:
    """Imaginary parts for real ones."""
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


def nothing(_: object) -> None:
    """Loops carry no values."""
