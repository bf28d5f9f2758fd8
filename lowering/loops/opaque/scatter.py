"""
Writing at computed positions: the array is copied, then the update's elements are written in their
row-major order. Threads share an axis along which no two elements can meet, if there is one.
"""

from __future__ import annotations

from functools import partial, reduce

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import whole_of
from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.scatter import MODES, ScatterOp
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.element import Lanes, Position
from mlc.lowering.loops.kernel import KernelScope, vector_loop, write_piece


class ScatterNest:
    """The loops of one scatter kernel."""

    def __init__(self, s: KernelScope) -> None:
        op = whole_of(s.kernel)
        assert isinstance(op, ScatterOp)
        self.s = s
        self.b = s.b
        self.op: ScatterOp = op
        self.words, self.order = split(op.letters.data)
        shape = shape_of(op.update.type)
        self.sizes = {c: s.b.dim(d) for c, d in zip(self.order, shape, strict=True)}
        free = [c for c in self.order if c in self.words[0]]
        self.shared = next((c for c in free if self.sizes[c] != 1), None)
        last = self.order[-1:]
        indexed = last in "".join(self.words[1:])
        vectors = bool(last) and last == self.words[0][-1] and not indexed
        self.vector = last if vectors and s.schedule.lanes > 1 else ""

    def run(self) -> None:
        """Copies the array and writes the update."""
        write_piece(self.s, self.op.x)
        self.s.barrier()
        start = partial(self.nest, 0, {})
        if self.shared is None:
            self.s.alone(lambda: start(0, 1))
            return
        self.s.parallel(self.b.product(list(self.sizes.values())), start)

    def nest(self, k: int, at: dict[str, Position], thread: Index, threads: Index) -> None:
        """The loops over the update's axes from the k-th on."""
        if k == len(self.order) - len(self.vector):
            self.write(at, thread, threads)
            return
        letter = self.order[k]
        low, high = self.bounds(letter, thread, threads, 1)

        def trip(i: Index) -> None:
            inner = partial(self.nest, k + 1, {**at, letter: Position(i)}, thread, threads)
            if k == 0 and len(self.order) > 1:
                self.s.unless_cancelled(inner)
            else:
                inner()

        self.b.loop(low, high, 1, trip)

    def bounds(
        self, letter: str, thread: Index, threads: Index, multiple: int
    ) -> tuple[Index, Index]:
        """The part of an axis that belongs to a thread."""
        if letter != self.shared:
            return 0, self.sizes[letter]
        return self.s.share(self.sizes[letter], thread, threads, multiple)

    def write(self, at: dict[str, Position], thread: Index, threads: Index) -> None:
        """One element, or one row of elements, unless an index is out of range."""
        e = self.s.lanes(1)
        place, ok = self.place(e, at)
        if not self.vector:
            self.b.when(ok, lambda: self.meet(self.s.lanes(1), at, place))
            return
        lanes = self.s.schedule.lanes
        low, high = self.bounds(self.vector, thread, threads, lanes)

        def body(i: Index, mask: SSAValue | None, _: tuple[SSAValue, ...]) -> list[SSAValue]:
            column = Position(i, 1)
            here = {**at, self.vector: column}
            self.meet(self.s.lanes(lanes, mask), here, {**place, self.vector: column})
            return []

        self.b.when(ok, lambda: vector_loop(self.s, low, high, body, lanes=lanes, unroll=1))

    def place(self, e: Lanes, at: dict[str, Position]) -> tuple[dict[str, Position], SSAValue]:
        """The array's positions by letter or digit, and whether all indices are in range."""
        zero, found, conditions = e.constant(0, I64), dict(at), list[SSAValue]()
        for c, dim in zip(self.words[0], self.op.shape, strict=True):
            if not c.isdigit():
                continue
            index = self.op.indices[int(c)]
            value = e.fetch(index, tuple(at[letter] for letter in self.words[1 + int(c)]))
            extent = e.size(dim)
            negative = e.compare("lt", value, zero, I64)
            position = e.select(negative, e.apply(arith.AddiOp, value, extent), value)
            above = e.compare("ge", position, zero, I64)
            ok = e.apply(arith.AndIOp, above, e.compare("lt", position, extent, I64))
            e.check(ok, self.op, value, extent)
            conditions.append(ok)
            index_of = e.at_element(position)
            assert isinstance(index_of, Position)
            found[c] = index_of
        return found, reduce(lambda x, y: e.apply(arith.AndIOp, x, y), conditions)

    def meet(self, e: Lanes, at: dict[str, Position], place: dict[str, Position]) -> None:
        """Combines elements of the update with those where they belong."""
        output = self.s.outputs[0]
        target = tuple(place[c] for c in self.words[0])
        value = e.fetch(self.op.update, tuple(at[c] for c in self.order))
        monoid = MODES[self.op.mode.data]
        if monoid is not None:
            (value,) = monoid.combine(e, self.op.dtype, (e.load(output, target),), (value,))
        e.store(value, output, target)


def lower_scatter(s: KernelScope) -> None:
    """A kernel that holds a scatter, with what computes its operands."""
    ScatterNest(s).run()
