"""
Sorting along the last axis, stable, without a branch on any element's value.

Short rows count, for each element, how many come before it. Long rows are distributed by one digit
of 8 bits after the other, the lowest first. Both work on unsigned integer keys in the elements'
order. SOURCE: Knuth, The Art of Computer Programming 3, 5.2 (algorithms C and D) and 5.2.5 (R).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue

from mlc.dialects import vec
from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dims import Dim, product
from mlc.dialects.dtypes import BOOL, I32, I64, DType
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.op import element_dtype, text_property
from mlc.dialects.tensor.sort import ArgsortOp, Sorting, length_of
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import buffer_type
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.kernel import KernelScope, vector_loop
from mlc.lowering.loops.memory import read_row, write_row

COUNTED = 128  # elements of the longest row that is sorted by counting; measured
DIGIT_BITS = 8  # 256 counters and 256 open cache lines, which a first-level cache holds
DIGITS = 1 << DIGIT_BITS
SLACK = 16  # elements behind a row, over which a whole vector may be written
ROWS_AT_ONCE = 64  # rows that may be sorted at the same time where the number of rows is known


@dataclass(frozen=True)
class Keys:
    """How elements of a dtype become unsigned integers in the same order, and back."""

    element: DType
    backwards: bool  # the largest element first
    merges_zeros: bool  # -0 and +0 get one key

    @property
    def dtype(self) -> DType:
        """The keys' dtype."""
        return I64 if self.element.bytes == 8 else I32

    @property
    def digits(self) -> int:
        """Digits of a key that may differ."""
        return self.element.bytes if self._counts else self.dtype.bytes

    @property
    def _counts(self) -> bool:
        """Whether a key is the distance from the smallest element, which fits into 32 bits."""
        return self.element is BOOL or (self.element.is_integer and self.element.bytes < 4)

    @property
    def _wide(self) -> DType:
        """The dtype whose bits make the key."""
        return self.element.accumulator

    def of(self, e: Lanes, x: SSAValue) -> SSAValue:
        """
        Sign bit and order of two's complement and of IEEE 754 made those of unsigned integers: the
        sign flipped, and of negative floats every bit. NaN gets the largest key.
        """
        kind, wide = self.dtype, self._wide
        top = e.constant(kind.lowest, kind)
        ones = e.constant(-1, kind)
        if self._counts:
            lowest = e.constant(self.element.lowest, kind)
            key = e.apply(arith.SubiOp, e.convert(x, self.element, kind), lowest)
        elif self.element.kind == "uint":
            key = x
        elif self.element.kind == "int":
            key = e.apply(arith.XOrIOp, x, top)
        else:
            x = e.convert(x, self.element, wide)
            if self.merges_zeros:
                x = e.apply(arith.AddfOp, x, e.constant(0.0, wide))
            bits = _bits(e, x, kind.ir)
            shift = e.constant(8 * kind.bytes - 1, kind)
            flipped = e.apply(arith.OrIOp, _shifted(e, arith.ShRSIOp, bits, shift), top)
            key = e.apply(arith.XOrIOp, bits, flipped)
            key = e.select(e.compare("ne", x, x, wide), ones, key)
        return e.apply(arith.XOrIOp, key, ones) if self.backwards else key

    def element_of(self, e: Lanes, key: SSAValue) -> SSAValue:
        """The element of a key."""
        kind = self.dtype
        top, ones = e.constant(kind.lowest, kind), e.constant(-1, kind)
        if self.backwards:
            key = e.apply(arith.XOrIOp, key, ones)
        if self._counts:
            value = e.apply(arith.AddiOp, key, e.constant(self.element.lowest, kind))
            return e.convert(value, kind, self.element)
        if self.element.kind == "uint":
            return key
        if self.element.kind == "int":
            return e.apply(arith.XOrIOp, key, top)
        shift = e.constant(8 * kind.bytes - 1, kind)
        negative = e.apply(arith.XOrIOp, _shifted(e, arith.ShRSIOp, key, shift), ones)
        bits = e.apply(arith.XOrIOp, key, e.apply(arith.OrIOp, negative, top))
        return e.convert(_bits(e, bits, self._wide.ir), self._wide, self.element)


def _bits(e: Lanes, x: SSAValue, element: Attribute) -> SSAValue:
    return e.b.value(arith.BitcastOp.create(operands=[x], result_types=[e.type(element)]))


def _shifted(
    e: Lanes, op: type[arith.ShRSIOp | arith.ShRUIOp], x: SSAValue, by: SSAValue
) -> SSAValue:
    return e.b.value(op.create(operands=[x, by], result_types=[x.type]))


def sorting_of(kernel: KernelOp) -> Sorting | None:
    """The sort of a kernel, if it holds one."""
    owner = whole_of(kernel)
    return owner if isinstance(owner, Sorting) else None


def keys_of(op: Sorting) -> Keys:
    """The keys that a sort compares."""
    element = element_dtype(op.operands[0])
    return Keys(
        element, text_property(op.properties, "order") == "descending", isinstance(op, ArgsortOp)
    )


def position_dtype(length: Dim) -> DType:
    """The dtype in which positions are carried along."""
    size = length.constant
    return I32 if size is not None and size < 2**31 else I64


def sort_scratch(kernel: KernelOp) -> tuple[Scratch, ...]:
    """Two arrays of keys, and for argsort two of positions, per row that is sorted at a time."""
    op = sorting_of(kernel)
    if op is None:
        return ()
    length, rows = length_of(op), product(op.shape[:-1])
    at_once = rows if rows.constant is None else Dim.const(min(rows.constant, ROWS_AT_ONCE))
    # each part begins at a multiple of a cache line only if rows are; vectors here are unaligned
    count = at_once * (length + SLACK)
    keys = Scratch(keys_of(op).dtype.ir, count)
    if not isinstance(op, ArgsortOp):
        return (keys, keys)  # a partition keeps positions nowhere
    positions = Scratch(position_dtype(length).ir, count)
    return (keys, keys, positions, positions)


class SortNest:
    """The loops of one sort kernel."""

    def __init__(self, s: KernelScope) -> None:
        op = sorting_of(s.kernel)
        assert op is not None
        self.s = s
        self.b = s.b
        self.op: Sorting = op
        self.keys = keys_of(op)
        self.positions: DType = position_dtype(length_of(op))
        self.is_argsort = isinstance(op, ArgsortOp)
        self.size: Index = s.b.dim(length_of(op))
        self.outer: list[Index] = [s.b.dim(dim) for dim in op.shape[:-1]]
        self.lanes = s.schedule.lanes
        # the lanes of a mask are moved together fast in registers of 256 and 512 bits; 256 hold
        # too few positions
        widest = 8 if self.is_argsort else self.keys.element.bytes
        fits = self.lanes * widest >= (64 if self.is_argsort else 32)
        self.partitions = fits and self.keys.element.bytes >= 4

    def run(self) -> None:
        """All rows, shared by the threads."""
        b, s = self.b, self.s
        rows = b.product(self.outer)
        if rows == 1:
            s.alone(lambda: self.row(0, 0))
            return

        def share(thread: Index, threads: Index) -> None:
            slots = b.min(threads, ROWS_AT_ONCE) if isinstance(rows, int) else threads
            low, high = s.share(rows, thread, slots)

            def trip(row: Index) -> None:
                slot = thread if isinstance(rows, int) else row
                s.unless_cancelled(partial(self.row, row, slot))

            b.loop(low, high, 1, trip)

        s.parallel(b.mul(rows, self.size), share)

    def row(self, row: Index, slot: Index) -> None:
        """One row, with the scratch of a slot."""
        b = self.b
        at, offset = self.place(row, slot)
        if self.partitions:
            from mlc.lowering.loops.opaque.partition import Partitioning
            from mlc.lowering.loops.opaque.quicksort import Quicksort

            (Partitioning if self.is_argsort else Quicksort)(self, at, offset).run()
            return
        short = b.compare("le", self.size, COUNTED)
        b.when(
            short,
            lambda: self.by_counting(at, offset),
            lambda: self.by_digits(at, offset),
        )

    def place(self, row: Index, slot: Index) -> tuple[list[Position], Index]:
        """The point of a row without its last axis, and where its scratch begins."""
        b, at, rest = self.b, list[Position](), row
        for size in reversed(self.outer):
            quotient = b.div(rest, size)
            at.insert(0, Position(b.sub(rest, b.mul(quotient, size)) if size != 1 else 0))
            rest = quotient
        return at, b.mul(slot, b.add(self.size, SLACK))

    # short rows -----------------------------------------------------------------------------

    def by_counting(self, at: Sequence[Position], offset: Index) -> None:
        """The place of each element is the number of elements that come before it."""
        b, lanes, kind = self.b, self.lanes, self.keys.dtype
        buffer = self.s.scratch[0]

        def fill(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(lanes, mask)
            key = self.keys.of(e, e.fetch(self.op.operands[0], (*at, Position(i, 1))))
            write_row(e, key, buffer, b.add(offset, i))
            return []

        vector_loop(self.s, 0, self.size, fill, lanes=lanes, unroll=1)

        def place(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(lanes, mask)
            mine = read_row(e, kind, buffer, b.add(offset, i))
            end = b.min(b.add(i, lanes), self.size)
            zero = [e.constant(0, kind)]
            count = b.loop(0, i, 1, self._counting(e, buffer, offset, mine, "ule"), zero)
            own = self._counting_own(e, buffer, offset, mine, i)
            count = b.loop(i, end, 1, own, count)
            count = b.loop(end, self.size, 1, self._counting(e, buffer, offset, mine, "ult"), count)
            self._place(e, at, i, count[0])
            return []

        vector_loop(self.s, 0, self.size, place, lanes=lanes, unroll=1)

    def _counting(self, e: Lanes, buffer: SSAValue, offset: Index, mine: SSAValue, predicate: str):
        """One more for each lane whose key the j-th key comes before."""
        kind = self.keys.dtype

        def trip(j: Index, *carried: SSAValue) -> list[SSAValue]:
            (count,) = carried
            here = self._again(e)
            other = here.spread(self.b.load(buffer, [self.b.add(offset, j)]))
            before = unsigned(here, predicate, other, mine)
            more = here.apply(arith.AddiOp, count, here.constant(1, kind))
            return [here.select(before, more, count)]

        return trip

    def _counting_own(self, e: Lanes, buffer: SSAValue, offset: Index, mine: SSAValue, i: Index):
        """As `_counting`, for keys of the lanes themselves: of equal ones, earlier ones count."""
        kind = self.keys.dtype

        def trip(j: Index, *carried: SSAValue) -> list[SSAValue]:
            (count,) = carried
            here = self._again(e)
            other = here.spread(self.b.load(buffer, [self.b.add(offset, j)]))
            less = unsigned(here, "ult", other, mine)
            equal = here.compare("eq", other, mine, kind)
            earlier = here.compare(
                "lt", here.position(Position(j)), here.position(Position(i, 1)), I64
            )
            before = here.apply(arith.OrIOp, less, here.apply(arith.AndIOp, equal, earlier))
            more = here.apply(arith.AddiOp, count, here.constant(1, kind))
            return [here.select(before, more, count)]

        return trip

    def _again(self, e: Lanes) -> Lanes:
        return self.s.lanes(e.lanes, e.mask)

    def _place(self, e: Lanes, at: Sequence[Position], i: Index, place: SSAValue) -> None:
        """Writes the lanes' elements, or their positions, at their places."""
        where = e.at_element(e.convert(place, self.keys.dtype, I64))
        assert isinstance(where, Position)
        source = Position(i, 1)
        if self.is_argsort:
            value = e.position(source)
        else:
            value = e.fetch(self.op.operands[0], (*at, source))
        e.store(value, self.s.outputs[0], (*at, where))

    # long rows ------------------------------------------------------------------------------

    def by_digits(self, at: Sequence[Position], offset: Index) -> None:
        """Distributes by each digit in turn; digits that are equal in all keys are left out."""
        b, keys = self.b, self.keys
        counters = b.value(
            memref.AllocaOp.create(
                result_types=[buffer_type(i64, (keys.digits * DIGITS,))],
                properties={
                    "operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0]),
                    "alignment": IntegerAttr(64, i64),
                },
            )
        )
        zero = b.constant(IntegerAttr(0, i64), i64)
        b.loop(0, keys.digits * DIGITS, 1, lambda i: b.store(zero, counters, [i]))
        b.loop(0, self.size, 1, lambda i: self._count(at, i, offset, counters))

        def step(p: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            return self._pass(p, offset, counters, carried)

        self._write(at, offset, b.loop(0, keys.digits, 1, step, self.s.scratch))

    def _count(self, at: Sequence[Position], i: Index, offset: Index, counters: SSAValue) -> None:
        """Stores the key of an element and counts each of its digits."""
        b = self.b
        e = self.s.lanes(1)
        key = self.keys.of(e, e.fetch(self.op.operands[0], (*at, Position(i))))
        b.store(key, self.s.scratch[0], [b.add(offset, i)])
        if self.is_argsort:
            number = as_integer(e, i, self.positions)
            b.store(number, self.s.scratch[2], [b.add(offset, i)])
        one = b.constant(IntegerAttr(1, i64), i64)
        for p in range(self.keys.digits):
            place = b.add(self._digit(key, p), p * DIGITS)
            found = b.load(counters, [place])
            b.store(e.apply(arith.AddiOp, found, one), counters, [place])

    def _digit(self, key: SSAValue, p: Index) -> Index:
        """Digit p of a key, as an index."""
        b, kind = self.b, self.keys.dtype
        e = self.s.lanes(1)
        if isinstance(p, int):
            shift = e.constant(p * DIGIT_BITS, kind)
        else:
            shift = as_integer(e, b.mul(p, DIGIT_BITS), kind)
        low = e.apply(
            arith.AndIOp, _shifted(e, arith.ShRUIOp, key, shift), e.constant(DIGITS - 1, kind)
        )
        return b.value(arith.IndexCastOp.create(operands=[low], result_types=[INDEX]))

    def _pass(
        self, p: Index, offset: Index, counters: SSAValue, carried: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """One distribution from the first array into the second, which change places."""
        b = self.b
        swapped = [x for k in range(0, len(carried), 2) for x in (carried[k + 1], carried[k])]
        base = b.mul(p, DIGITS)
        first = self._digit(b.load(carried[0], [offset]), p)
        whole = b.value(
            arith.IndexCastOp.create(
                operands=[b.load(counters, [b.add(base, first)])], result_types=[INDEX]
            )
        )
        all_equal = b.compare("eq", whole, self.size)
        assert not isinstance(all_equal, bool)
        same, other = Block(), Block()
        with b.inside(same):
            same.add_op(scf.YieldOp.create(operands=carried))
        with b.inside(other):
            self._distribute(p, base, offset, counters, carried)
            other.add_op(scf.YieldOp.create(operands=swapped))
        op = scf.IfOp.create(
            operands=[all_equal],
            result_types=[x.type for x in carried],
            regions=[Region(same), Region(other)],
        )
        b.add_op(op)
        return list(op.results)

    def _distribute(
        self,
        p: Index,
        base: Index,
        offset: Index,
        counters: SSAValue,
        carried: Sequence[SSAValue],
    ) -> None:
        """Moves every element to the next free place of its digit."""
        b = self.b
        e = self.s.lanes(1)

        def sums(d: Index, *carried: SSAValue) -> list[SSAValue]:
            (before,) = carried
            here = self.s.lanes(1)
            count = b.load(counters, [b.add(base, d)])
            b.store(before, counters, [b.add(base, d)])
            return [here.apply(arith.AddiOp, before, count)]

        b.loop(0, DIGITS, 1, sums, [e.constant(0, I64)])

        def move(i: Index) -> None:
            here = self.s.lanes(1)
            key = b.load(carried[0], [b.add(offset, i)])
            place = b.add(self._digit(key, p), base)
            target = b.load(counters, [place])
            b.store(here.apply(arith.AddiOp, target, here.constant(1, I64)), counters, [place])
            where = b.value(arith.IndexCastOp.create(operands=[target], result_types=[INDEX]))
            where = b.add(offset, where)
            b.store(key, carried[1], [where])
            if self.is_argsort:
                b.store(b.load(carried[2], [b.add(offset, i)]), carried[3], [where])

        b.loop(0, self.size, 1, move)

    def _write(self, at: Sequence[Position], offset: Index, views: Sequence[SSAValue]) -> None:
        """The results from the arrays that came last."""
        b = self.b
        dtype = self.positions if self.is_argsort else self.keys.dtype
        source = views[2] if self.is_argsort else views[0]

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            e = self.s.lanes(self.lanes, mask)
            value = read_row(e, dtype, source, b.add(offset, i))
            if self.is_argsort:
                value = e.convert(value, dtype, I64)
            else:
                value = self.keys.element_of(e, value)
            e.store(value, self.s.outputs[0], (*at, Position(i, 1)))
            return []

        vector_loop(self.s, 0, self.size, body, lanes=self.lanes, unroll=1)


def unsigned(e: Lanes, predicate: str, x: SSAValue, y: SSAValue) -> SSAValue:
    """x ? y of unsigned integers."""
    if e.lanes > 1:
        return e.b.value(vec.CmpiOp.of(predicate, x, y))
    code = IntegerAttr({"ult": 6, "ule": 7}[predicate], i64)
    return e.b.value(
        arith.CmpiOp.create(operands=[x, y], result_types=[i1], properties={"predicate": code})
    )


def flipped(e: Lanes, key: SSAValue, dtype: DType) -> SSAValue:
    """Unsigned keys as signed ones and back: registers of AVX2 compare signed integers."""
    return e.apply(arith.XOrIOp, key, e.constant(dtype.lowest, dtype))


def as_integer(e: Lanes, index: Index, dtype: DType) -> SSAValue:
    """An index as a single integer."""
    if isinstance(index, int):
        return e.constant(index, dtype)
    return e.b.value(arith.IndexCastOp.create(operands=[index], result_types=[dtype.ir]))


def lower_sort(s: KernelScope) -> None:
    """A kernel that holds a sort, with what computes its operand."""
    SortNest(s).run()
