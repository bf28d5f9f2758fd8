"""Building a GPU kernel's loops: places in the grid, shared memory, accesses as wide as is safe."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import cast

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import ComplexType, IntegerAttr, MemRefType, VectorType, i32, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects import abi, gpu
from mlc.dialects.complex_ops import PairOp, PartOp
from mlc.dialects.lanes import lanes_of
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import INDEX, Index, parted
from mlc.lowering.loops.builder import LoopBuilder, item_bytes

MAX_GRID_Y = 65_535
"""Source: CUDA C++ Programming Guide, technical specifications; grid.x reaches 2^31 - 1."""

Triple = tuple[Index, Index, Index]


@dataclass(frozen=True)
class Grid:
    """How a kernel is started: blocks of the grid, threads of a block."""

    blocks: Triple
    threads: Triple


class GpuBuilder(LoopBuilder):
    """Also knows of every index by what it is divisible, to find out how an access is aligned."""

    shares_places = False  # threads have few registers, and assemblers choose places themselves

    def __init__(self, entry: Block) -> None:
        super().__init__(entry)
        self._divisors: dict[SSAValue, int] = {}
        self._narrow = False
        self.strides: dict[SSAValue, Sequence[Index]] = {}

    # places -----------------------------------------------------------------------------------

    def thread(self, axis: str = "x") -> SSAValue:
        """This thread in its block."""
        return self.value(gpu.ThreadIdOp.of(axis))

    def block_number(self, axis: str = "x") -> SSAValue:
        """This block in the grid."""
        return self.value(gpu.BlockIdOp.of(axis))

    def grid_size(self, axis: str = "x") -> SSAValue:
        """Blocks of the grid."""
        return self.value(gpu.GridDimOp.of(axis))

    def block_size(self, axis: str = "x") -> SSAValue:
        """Threads of the block."""
        return self.value(gpu.BlockDimOp.of(axis))

    def barrier(self) -> None:
        """All threads of the block wait for each other."""
        self.add_op(gpu.BarrierOp.create())

    def shared(self, element: Attribute, shape: Sequence[int]) -> SSAValue:
        """A buffer of the block."""
        buffer = self.value(gpu.SharedOp.of(element, shape))
        self.strides[buffer] = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        return buffer

    def shuffle(self, kind: str, value: SSAValue, offset: int) -> SSAValue:
        """The value of another lane of the warp: "xor", "down" or "up"; all lanes take part."""
        if isinstance(value.type, ComplexType):
            parts = (self.value(PartOp.of(value, part)) for part in ("real", "imag"))
            return self.value(PairOp.of(*(self.shuffle(kind, x, offset) for x in parts)))
        return self.value(gpu.ShuffleOp.of(kind, value, offset))

    def rem(self, x: Index, y: Index) -> Index:
        """
        x - floor(x / y) * y for x >= 0, y > 0.

        Not spelled like that: LLVM narrows a remainder to 32 bits where x is small. The 64-bit
        difference of products of narrow numbers was right in PTX and wrong on an H200: in a kernel
        with x // 35 - 2 * (x // 70), x < 256, an address was off by -2^32 times a stride.
        """
        if isinstance(x, int) and isinstance(y, int):
            return x % y
        if self._narrow and not isinstance(x, int) and isinstance(y, int) and y != 1:
            return self._in_32_bits(arith.RemUIOp, x, y)
        return 0 if y == 1 else self._binary(arith.RemUIOp, x, y, False)

    def div(self, x: Index, y: Index) -> Index:
        if self._narrow and not isinstance(x, int) and isinstance(y, int) and y != 1:
            return self._in_32_bits(arith.DivUIOp, x, y)
        return super().div(x, y)

    @contextmanager
    def narrow(self, *, fits: bool) -> Generator[None]:
        """
        Inside, what is divided by a number is below 2^31, if it fits: by 32 bits, of which the
        upper half of a product is one instruction, of 64 about ten.
        """
        before, self._narrow = self._narrow, fits
        try:
            yield
        finally:
            self._narrow = before

    def _in_32_bits(self, op: type[Operation], x: SSAValue, y: int) -> SSAValue:
        def cast(value: SSAValue, kind: Attribute) -> SSAValue:
            return self.once(arith.IndexCastOp.create(operands=[value], result_types=[kind]))

        operands = [cast(x, i32), self.constant(IntegerAttr(y, i32), i32)]
        return cast(self.once(op.create(operands=operands, result_types=[i32])), INDEX)

    def split(self, number: Index, sizes: Sequence[Index]) -> list[Index]:
        """A position in row-major order as one index per size."""
        found: list[Index] = []
        for size in reversed(sizes[1:]):
            if size == 0:
                return [0] * len(sizes)  # there is no position
            quotient = self.div(number, size)
            found.append(self.rem(number, size))
            number = quotient
        return [number, *reversed(found)] if sizes else []

    # divisibility -----------------------------------------------------------------------------

    def divisor(self, x: Index) -> int:
        """A number by which x is divisible; 0 for x = 0."""
        return abs(x) if isinstance(x, int) else self._divisors.get(x, 1)

    @contextmanager
    def divisible(self, x: Index, by: int) -> Generator[None]:
        """Inside, x is taken to be divisible: the caller has tested it."""
        if isinstance(x, int):
            yield
            return
        before = self._divisors.get(x, 1)
        self._divisors[x] = math.lcm(before, by)
        try:
            yield
        finally:
            self._divisors[x] = before

    def as_divisible(self, x: Index, by: int, body: Callable[[], None]) -> None:
        """`body`; where it may be that x is divisible, once more for that case."""
        if isinstance(x, int) or self.divisor(x) % by == 0:
            body()
            return

        def promised() -> None:
            with self.divisible(x, by):
                body()

        self.when(self.compare("eq", self.rem(x, by), 0), promised, body)

    def _note(self, x: Index, divisor: int) -> Index:
        if not isinstance(x, int) and divisor != 1:
            self._divisors[x] = math.lcm(self._divisors.get(x, 1), divisor or 1)
        return x

    def add(self, x: Index, y: Index) -> Index:
        return self._note(super().add(x, y), math.gcd(self.divisor(x), self.divisor(y)))

    def sub(self, x: Index, y: Index) -> Index:
        """
        x - y. Numbers that are added to both last become one, added last: of positions that differ
        by numbers there is one difference, in one register.
        """
        divisor = math.gcd(self.divisor(x), self.divisor(y))
        (x, more), (y, less) = parted(x), parted(y)
        return self._note(self.add(super().sub(x, y), more - less), divisor)

    def mul(self, x: Index, y: Index) -> Index:
        return self._note(super().mul(x, y), self.divisor(x) * self.divisor(y))

    def min(self, x: Index, y: Index) -> Index:
        return self._note(super().min(x, y), math.gcd(self.divisor(x), self.divisor(y)))

    def loop(
        self,
        low: Index,
        high: Index,
        step: Index,
        body: Callable[..., Sequence[SSAValue] | None],
        inits: Sequence[SSAValue] = (),
        attributes: dict[str, Attribute] | None = None,
    ) -> tuple[SSAValue, ...]:
        divisor = math.gcd(self.divisor(low), self.divisor(step))

        def noted(i: Index, *carried: SSAValue) -> Sequence[SSAValue] | None:
            return body(self._note(i, divisor), *carried)

        return super().loop(low, high, step, noted, inits, attributes)

    # memory -----------------------------------------------------------------------------------

    def load_vector(
        self,
        buffer: SSAValue,
        at: Sequence[Index],
        kind: VectorType[Attribute],
        mask: SSAValue | None,
        fill: SSAValue | None,
    ) -> SSAValue:
        value = super().load_vector(buffer, at, kind, mask, fill)
        if mask is None and isinstance(value.owner, vector.LoadOp):
            self._align(value.owner, buffer, at, lanes_of(kind) or 1)
        return value

    def store_vector(
        self, value: SSAValue, buffer: SSAValue, at: Sequence[Index], mask: SSAValue | None
    ) -> None:
        super().store_vector(value, buffer, at, mask)
        store = self.block.last_op
        if mask is None and store is not None:
            self._align(store, buffer, at, lanes_of(value.type) or 1)

    def _align(self, op: Operation, buffer: SSAValue, at: Sequence[Index], lanes: int) -> None:
        """States the alignment of an access where it is more than that of an element."""
        strides = self.strides.get(buffer)
        if strides is None:
            return
        item = item_bytes(cast("MemRefType[Attribute]", buffer.type).element_type)
        offset = math.gcd(
            *(self.divisor(i) * self.divisor(s) for i, s in zip(at, strides, strict=True))
        )
        aligned = math.gcd(offset * item, abi.POINTER_ALIGNMENT, lanes * item)
        if aligned > item:
            op.attributes["alignment"] = IntegerAttr(aligned, i64)

    def read_ahead(
        self,
        trips: tuple[Index, Index, int],
        sums: Sequence[SSAValue],
        read: Callable[[Index], Sequence[SSAValue]],
        stage: Callable[[Sequence[SSAValue]], None],
        multiply: Callable[[Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> Sequence[SSAValue]:
        """
        The sums after tiles of all trips (first, end, step): each is staged in shared memory, and
        while it is multiplied the next one is read into registers.
        """
        first, end, depth = trips

        def step(k: Index, *carried: SSAValue) -> Sequence[SSAValue]:
            totals, values = carried[: len(sums)], carried[len(sums) :]
            self.barrier()
            stage(values)
            self.barrier()
            ahead = read(self.add(k, depth))
            return [*multiply(totals), *ahead]

        return self.loop(first, end, depth, step, [*sums, *read(first)])[: len(sums)]
