"""
Fourier transforms of lengths that only a call knows, or that would take large tables: the call
finds the stages, and computes roots of unity and the chirp before the first row.

SOURCE: as of fourier_plan.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith, math, scf
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects import par, vec
from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dims import product
from mlc.dialects.dtypes import F64, I64
from mlc.dialects.faults import NO_POINTS
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.builder import LoopBuilder, memory_type
from mlc.lowering.loops.complex_parts import Parts, multiply
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.memory import write_row
from mlc.lowering.loops.opaque.fourier_plan import FACTORS, SIZES
from mlc.lowering.loops.opaque.fourier_rows import FourierRows, Planes, exchanged, part_of, small

ROOM = 3
"""Points of a convolution for each one of the transform, at most: 4/3 of two."""
_PRIMES = tuple(x for x in FACTORS if x != 4)
_LONG = (7, 11)
"""Radices of one piece of code, which counts: unrolled it is long."""


def open_fourier_scratch(kernel: KernelOp) -> tuple[Scratch, ...]:
    """Four planes for each worker, and the table: roots, chirp, its spectrum, the chirp's roots."""
    op = whole_of(kernel)
    assert isinstance(op, LibraryOp)
    assert op.length is not None
    kind = memory_type(part_of(op))
    return (
        Scratch(kind, op.length * (4 * ROOM), product(op.shape[:-1])),
        Scratch(kind, op.length * (2 * ROOM + 2 + 2 * ROOM + 4)),
    )


class OpenFourierNest(FourierRows):
    """The loops of one kernel: tables, and for each row a load, stages and a store."""

    def __init__(self, s: KernelScope, rows: SSAValue) -> None:
        super().__init__(s, rows, *s.scratch[-2:])
        assert self.op.length is not None
        self.length = self.b.dim(self.op.length)
        self.direct: SSAValue | bool = True  # whether stages are the whole transform
        self.on_chirp: SSAValue | bool = False  # whether the row at work is the chirp

    def lower(self) -> None:
        """Everything, or what is wrong with no points."""
        b = self.b

        def refuse() -> None:
            value, extent = b.index(NO_POINTS), b.index(0)
            b.add_op(par.FailOp.of(self.s.context, self.s.sites[self.op], value, extent))

        b.when(b.compare("lt", self.length, 1), lambda: self.s.alone(refuse), self.transform)

    def transform(self) -> None:
        """
        Tables by one worker; then rows in two rounds, of which the first one transforms the chirp
        alone, where there is one: the code of stages is long, and there once.
        """
        b = self.b
        self.find_size()
        self.s.alone(self.fill_tables)

        def turn(number: Index) -> None:
            self.s.barrier()
            self.on_chirp = b.compare("eq", number, 0)
            self.run(self.row, b.mul(self.length, ROOM), b.choose(self.on_chirp, 1, self.count))

        b.loop(b.choose(self.direct, 1, 0), 2, 1, turn)

    def unless_direct(self, body: Callable[[], None]) -> None:
        """What a convolution takes besides."""
        self.b.when(self.direct, lambda: None, body)

    def find_size(self) -> None:
        """How many points the stages have, and where that puts what is in the table."""
        b = self.b
        rest: Index = self.length
        for prime in _PRIMES:
            rest = self.without(prime, rest)
        self.direct = b.compare("eq", rest, 1)
        least = b.sub(b.mul(self.length, 2), 1)

        def is_short(size: SSAValue) -> SSAValue | bool:
            return b.compare("lt", size, least)

        def doubled(size: SSAValue) -> list[Index]:
            return [b.mul(size, 2)]

        best = [repeat(b, [odd], is_short, doubled)[0] for odd in SIZES]
        smallest = b.min(b.min(best[0], best[1]), best[2])
        self.size = b.choose(self.direct, self.length, smallest)
        self.chirp = b.mul(self.size, 2)
        self.spectrum = b.add(self.chirp, b.mul(self.length, 2))

    def without(self, prime: int, number: Index) -> Index:
        """A number over all of its factors that are this one."""

        def fits(x: SSAValue) -> SSAValue | bool:
            return self.divides(prime, x)

        def over(x: SSAValue) -> list[Index]:
            return [self.b.div(x, prime)]

        return repeat(self.b, [number], fits, over)[0]

    def divides(self, factor: int, x: Index) -> SSAValue | bool:
        """Whether nothing is left of x over a factor."""
        b = self.b
        return b.compare("eq", b.sub(x, b.mul(b.div(x, factor), factor)), 0)

    def row(self, number: Index) -> None:
        """One transform, or two of a convolution: the second one has its parts exchanged."""
        b = self.b
        planes: Planes = (1, 0) if self.inverse else (0, 1)

        def load() -> None:
            self.load(b.mul(number, self.given), planes)
            self.unless_direct(self.pad)

        def phase(turn: Index, *first: SSAValue) -> list[SSAValue]:
            found = self.stages(first[0], turn)
            into = self.planes(found, 0)
            spectral = b.both(convolves, b.compare("eq", turn, 0))
            b.when(spectral, lambda: self.scale(into, self.spectrum, self.size))
            last = b.both(convolves, b.compare("eq", turn, 1))
            b.when(last, lambda: self.scale(into, self.chirp, self.length))
            return [b.index(found)]

        def store() -> None:
            self.store(b.mul(number, self.written), exchanged(found) if self.inverse else found)

        assert isinstance(self.direct, SSAValue)
        assert isinstance(self.on_chirp, SSAValue)
        convolves = b.both(b.negated(self.direct), b.negated(self.on_chirp))
        b.when(self.on_chirp, self.load_chirp, load)
        (first,) = b.loop(0, b.choose(convolves, 2, 1), 1, phase, [b.index(0)])
        found = self.planes(first, 0)
        b.when(self.on_chirp, lambda: self.keep_spectrum(found), store)

    # stages ---------------------------------------------------------------------------------------

    def planes(self, first: Index, turn: Index) -> Planes:
        """Two planes that follow one another, the other way round where `turn` is 1."""
        b = self.b
        return b.add(first, turn), b.sub(b.add(first, 1), turn)

    def stages(self, first: Index, turn: Index) -> Index:
        """The transform of the planes from `first` on, and where it is."""
        b = self.b

        def stage(rest: SSAValue, stride: SSAValue, first: SSAValue) -> list[Index]:
            radix = self.any_stage(FACTORS, rest, stride, (first, turn))
            return [b.div(rest, radix), b.mul(stride, radix), b.sub(2, first)]

        def is_left(rest: SSAValue, *_: SSAValue) -> SSAValue | bool:
            return b.compare("gt", rest, 1)

        return repeat(b, [self.size, 1, first], is_left, stage)[2]

    def any_stage(
        self, radices: Sequence[int], rest: SSAValue, stride: SSAValue, at: tuple[Index, Index]
    ) -> SSAValue:
        """A stage of the first radix that divides what is left, and that radix."""
        b, (radix, *others) = self.b, radices
        fits = self.divides(radix, rest)
        assert isinstance(fits, SSAValue)
        if radix in _LONG:
            number = b.choose(fits, radix, *others)
            self.stage(number, rest, stride, at)
            return b.index(number)

        def stage() -> SSAValue:
            self.stage(radix, rest, stride, at)
            return b.index(radix)

        return b.pick(fits, stage, lambda: self.any_stage(others, rest, stride, at))

    def stage(
        self, radix: Index, rest: SSAValue, stride: SSAValue, at: tuple[Index, Index]
    ) -> None:
        """All butterflies of a stage: see `Stage`."""
        b, (first, turn) = self.b, at
        planes, into = self.planes(first, turn), self.planes(b.sub(2, first), turn)
        places = Places(self, radix, stride, b.div(rest, radix), planes, into)
        b.when(
            self.lanes > 1 and b.compare("lt", stride, self.lanes),
            lambda: places.several(self.butterfly),
            lambda: places.one_by_one(self.butterfly),
        )

    def butterfly(self, e: Lanes, x: Places, at: Butterflies) -> None:
        """Small transforms of points that lie apart, times their factors."""
        if not isinstance(x.radix, int):
            self.long_butterfly(e, x, x.radix, at)
            return
        found = small(e, [x.point(e, at, j) for j in range(x.radix)], self.part)
        for k, parts in enumerate(found):
            x.put(e, at, k, parts if k == 0 else self.times(e, parts, x.factor(e, at, k)))

    def long_butterfly(self, e: Lanes, x: Places, radix: SSAValue, at: Butterflies) -> None:
        """The same of more points, as sums over all of them."""
        b, whole = self.b, self.b.div(self.size, radix)

        def add(k: Index, j: Index, *carried: SSAValue) -> list[SSAValue]:
            inner, (re, im, turned) = self.s.lanes(e.lanes, e.mask), carried
            root = self.root(inner, b.mul(turned, whole))
            term = self.times(inner, x.point(inner, at, j), root)
            sums = [inner.apply(arith.AddfOp, *x) for x in zip((re, im), term, strict=True)]
            further = b.add(turned, k)
            over = b.compare("ge", further, radix)
            return [*sums, b.index(b.choose(over, b.sub(further, radix), further))]

        def result(k: Index) -> None:
            inner = self.s.lanes(e.lanes, e.mask)
            zero = inner.constant(0, self.part)
            starts = [zero, zero, b.index(0)]
            re, im, _ = b.loop(0, radix, 1, lambda j, *c: add(k, j, *c), starts)
            x.put(inner, at, k, self.times(inner, (re, im), x.factor(inner, at, k)))

        b.loop(0, radix, 1, result)

    def times(self, e: Lanes, x: Parts, y: Parts) -> Parts:
        """A product."""
        return multiply(e, self.part, x, y)

    def root(self, e: Lanes, k: Index) -> Parts:
        """A root of unity in every lane."""
        x, y = self.factor(self.s.lanes(1), 0, self.size, k)
        return e.spread(x), e.spread(y)

    # tables ---------------------------------------------------------------------------------------

    def fill_tables(self) -> None:
        """Roots of unity; for a convolution those of the chirp, and the chirp."""
        b = self.b
        twice = b.mul(self.length, 2)
        roots = b.add(self.spectrum, b.mul(self.size, 2))

        def table(number: Index) -> None:
            first = b.compare("eq", number, 0)
            self.fill_roots(b.choose(first, 0, roots), b.choose(first, self.size, twice))

        b.loop(0, b.choose(self.direct, 1, 2), 1, table)
        self.unless_direct(lambda: self.fill_chirp(roots, twice))

    def fill_roots(self, at: Index, count: Index) -> None:
        """exp(-2 pi i k / count), from angles in the first octant: see `unity`."""
        b = self.b
        lanes = self.lanes if self.part is F64 else max(self.lanes // 2, 1)
        one = self.s.lanes(1)
        unit = one.apply(arith.DivfOp, one.constant(np.pi / 4, F64), self.number(count, F64))

        def octant(o: Index) -> None:
            low, high = (b.ceil_div(b.mul(x, count), 8) for x in (o, b.add(o, 1)))
            is_odd, is_turned = (self.is_odd(x) for x in (o, b.div(b.add(o, 1), 2)))
            step = self.number(b.choose(is_odd, -8, 8), F64)
            least = b.choose(is_odd, b.mul(b.add(o, 1), count), b.sub(0, b.mul(o, count)))
            left = b.both(b.compare("ge", o, 2), b.compare("lt", o, 6))
            signs = b.choose(left, -1, 1), b.choose(b.compare("ge", o, 4), 1, -1)
            numbers = [self.number(x, F64) for x in (least, *signs)]

            def roots(e: Lanes, k: Index) -> None:
                begin, x_sign, y_sign = (e.spread(x) for x in numbers)
                number = e.convert(e.position(Position(k, 1)), I64, F64)
                back = e.apply(arith.AddfOp, e.apply(arith.MulfOp, number, e.spread(step)), begin)
                angle = e.apply(arith.MulfOp, back, e.spread(unit))
                cosine, sine = (e.apply(op, angle) for op in (math.CosOp, math.SinOp))
                swap = e.spread(is_turned)
                x, y = e.select(swap, sine, cosine), e.select(swap, cosine, sine)
                for value, sign, start in ((x, x_sign, at), (y, y_sign, b.add(at, count))):
                    found = e.convert(e.apply(arith.MulfOp, value, sign), F64, self.part)
                    write_row(e, found, self.table, b.add(start, k))

            def some(k: Index) -> None:
                mask = b.mask(b.sub(high, k), lanes) if lanes > 1 else None
                roots(self.s.lanes(lanes, mask), k)

            b.loop(low, high, lanes, some)

        b.loop(0, 8, 1, octant)

    def is_odd(self, x: Index) -> SSAValue:
        """Whether it is, of a number that is not known."""
        b = self.b
        found = b.compare("eq", b.sub(x, b.mul(b.div(x, 2), 2)), 1)
        assert isinstance(found, SSAValue)
        return found

    def fill_chirp(self, roots: Index, twice: Index) -> None:
        """exp(-pi i j^2 / n)"""
        b, n = self.b, self.length

        def point(j: Index, *carried: SSAValue) -> list[SSAValue]:
            e, (turned,) = self.s.lanes(1), carried
            parts = self.factor(e, roots, twice, turned)
            for value, start in zip(parts, (self.chirp, b.add(self.chirp, n)), strict=True):
                write_row(e, value, self.table, b.add(start, j))
            further = b.add(turned, b.add(b.mul(j, 2), 1))  # (j + 1)^2, without the turns
            over = b.compare("ge", further, twice)
            return [b.index(b.choose(over, b.sub(further, twice), further))]

        b.loop(0, n, 1, point, [b.index(0)])

    def load_chirp(self) -> None:
        """Its conjugate, around 0."""
        b, n = self.b, self.length
        self.walk(n, self.size, self.cleared)

        def point(j: Index) -> None:
            e = self.s.lanes(1)
            x, y = self.factor(e, self.chirp, n, j)
            conjugate = x, e.apply(arith.NegfOp, y)
            self.write(e, conjugate, (0, 1), j)
            mirrored = b.choose(b.compare("eq", j, 0), 0, b.sub(self.size, j))
            self.write(e, conjugate, (0, 1), mirrored)

        b.loop(0, n, 1, point)

    def keep_spectrum(self, planes: Planes) -> None:
        """What is found, over the number of points."""
        b, one = self.b, self.s.lanes(1)
        share = one.apply(
            arith.DivfOp, one.constant(1, self.part), self.number(self.size, self.part)
        )
        starts = self.spectrum, b.add(self.spectrum, self.size)

        def keep(e: Lanes, i: Index) -> None:
            for part, start in zip(self.read(e, planes, i), starts, strict=True):
                value = e.apply(arith.MulfOp, part, e.spread(share))
                write_row(e, value, self.table, b.add(start, i))

        self.walk(0, self.size, keep)


@dataclass(frozen=True)
class Butterflies:
    """Those of a vector: their first point, and for lanes of several factors where lanes lie."""

    first: Index  # of the points
    start: Index  # of its factor: stride times p
    turned: SSAValue | None = None  # of each lane, how much later its factor starts
    placed: SSAValue | None = None  # how far behind the first result the lane's lies


@dataclass(frozen=True)
class Places:
    """Where the butterflies of a stage read and write."""

    nest: OpenFourierNest
    radix: Index
    stride: SSAValue
    count: Index
    planes: Planes
    into: Planes

    def one_by_one(self, body: Callable[[Lanes, Places, Butterflies], None]) -> None:
        """Lanes are of one factor, whose points lie side by side."""
        b = self.nest.b

        def of_factor(p: Index) -> None:
            start = b.mul(p, self.stride)

            def some(e: Lanes, q: Index) -> None:
                body(e, self, Butterflies(b.add(start, q), start))

            self.nest.walk(0, self.stride, some)

        b.loop(0, self.count, 1, of_factor)

    def several(self, body: Callable[[Lanes, Places, Butterflies], None]) -> None:
        """Lanes are of as many factors as there is room for."""
        b, lanes = self.nest.b, self.nest.lanes
        e = self.nest.s.lanes(lanes)
        number, stride = b.value(vec.StepOp.of(lanes)), e.spread(self.stride)
        turned = e.apply(arith.MuliOp, e.apply(arith.DivUIOp, number, stride), stride)
        rest = e.apply(arith.SubiOp, number, turned)
        placed = e.apply(arith.AddiOp, rest, e.times(turned, self.radix))
        together = b.div(lanes, self.stride)

        def some(p: Index) -> None:
            start = b.mul(p, self.stride)
            live = b.mul(b.min(together, b.sub(self.count, p)), self.stride)
            masked = self.nest.s.lanes(lanes, b.mask(live, lanes))
            body(masked, self, Butterflies(start, start, turned, placed))

        b.loop(0, self.count, together, some)

    def point(self, e: Lanes, at: Butterflies, j: Index) -> Parts:
        """The points with number j."""
        b = self.nest.b
        apart = b.mul(self.count, self.stride)
        return self.nest.read(e, self.planes, b.add(at.first, b.mul(apart, j)))

    def factor(self, e: Lanes, at: Butterflies, k: Index) -> Parts:
        """The factors of the results with number k."""
        b, nest = self.nest.b, self.nest
        place = b.mul(at.start, k)
        if at.turned is None:
            return nest.root(e, place)
        offsets, zero = e.times(at.turned, k), e.constant(0, nest.part)
        assert e.mask is not None
        x, y = (
            b.value(vec.GatherOp.of(nest.table, [b.index(start)], offsets, e.mask, zero))
            for start in (place, b.add(place, nest.size))
        )
        return x, y

    def put(self, e: Lanes, at: Butterflies, k: Index, parts: Parts) -> None:
        """Writes the results with number k."""
        b, nest = self.nest.b, self.nest
        more = b.sub(self.radix, 1)  # results between those of two factors
        place = b.add(b.add(at.first, b.mul(at.start, more)), b.mul(self.stride, k))
        if at.placed is None:
            nest.write(e, parts, self.into, place)
            return
        assert e.mask is not None
        for plane, value in zip(self.into, parts, strict=True):
            where = [b.index(nest.at(plane, place))]
            b.add_op(vec.ScatterOp.of(value, nest.memory, where, at.placed, e.mask))


def repeat(
    b: LoopBuilder,
    starts: Sequence[Index],
    goes_on: Callable[..., SSAValue | bool],
    body: Callable[..., Sequence[Index]],
) -> tuple[SSAValue, ...]:
    """scf.while over indices: `body` gives the next ones as long as `goes_on` of them holds."""
    kinds = [INDEX] * len(starts)
    before, after = Block(arg_types=kinds), Block(arg_types=kinds)
    with b.inside(before):
        condition = goes_on(*before.args)
        assert isinstance(condition, SSAValue)
        before.add_op(scf.ConditionOp.create(operands=[condition, *before.args]))
    with b.inside(after):
        after.add_op(scf.YieldOp.create(operands=[b.index(x) for x in body(*after.args)]))
    loop = scf.WhileOp.create(
        operands=[b.index(x) for x in starts],
        result_types=kinds,
        regions=[Region(before), Region(after)],
    )
    b.add_op(loop)
    return tuple(loop.results)


def lower_open_fourier(s: KernelScope, rows: SSAValue) -> None:
    """The loops; `rows`: the operand, contiguous."""
    OpenFourierNest(s, rows).lower()
