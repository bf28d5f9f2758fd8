"""
Factorisations by LAPACK, without Python: for each matrix a copy by columns, the call, and what it
has found, by rows. Every call is NumPy's own, with the workspace that LAPACK asks for: so are bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from mlc.dialects import par
from mlc.dialects.dims import product
from mlc.dialects.dtypes import I32, DType
from mlc.dialects.faults import LIBRARY_FAULTS
from mlc.dialects.lapack import LapackOp
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.element import Lanes
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.opaque.lapack_memory import Problem, memory_of


class LapackNest:
    """The loops of one kernel; `operands`: contiguous."""

    def __init__(self, s: KernelScope, problem: Problem, operands: Sequence[SSAValue]) -> None:
        self.s, self.b, self.problem = s, s.b, problem
        self.op = problem.op
        b = self.b
        arrays = memory_of(problem)
        scratch = s.scratch[len(s.scratch) - len(arrays) :]
        self.arrays = dict(zip(arrays, scratch, strict=True))
        self.kinds = {name: kind for name, (kind, _) in arrays.items()}
        self.room = {name: b.dim(count) for name, (_, count) in arrays.items()}
        self.m, self.n = b.dim(problem.m), b.dim(problem.n)
        self.least = b.min(self.m, self.n)
        self.count = b.product([b.dim(d) for d in self.op.shape[:-1]])
        self.sizes = [b.dim(product(core)) for core in self.op.cores()]
        self.operands = [
            b.view(x, [b.mul(self.count, size)])
            for x, size in zip(operands, self.sizes, strict=True)
        ]
        self.width = b.dim(self.op.shape[-1])
        self.parts = [b.dim(first) for first, _ in self.op.columns()]
        self.out = b.view(s.outputs[0].memref, [b.mul(self.count, self.width)])
        self.number: Index = 0  # of the matrix

    @property
    def e(self) -> Lanes:
        """A fresh builder of elements."""
        return self.s.lanes(1)

    def run(self, kernel: Callable[[], None]) -> None:
        """All matrices, one after the other."""

        def matrix(i: Index) -> None:
            self.number = i
            self.s.unless_cancelled(kernel)

        count = self.count
        if self.problem.is_tall:  # nobody has checked it in a program for C
            wide = self.b.compare("lt", self.m, self.n)
            self.b.when(wide, lambda: self.fail(len(LIBRARY_FAULTS)), rarely=True)
            count = self.b.choose(wide, 0, count)
        self.b.loop(0, count, 1, matrix)

    # memory ---------------------------------------------------------------------------------------

    def each(self, rows: Index, columns: Index, body: Callable[[Index, Index], object]) -> None:
        """All places of a matrix."""

        def row(r: Index) -> None:
            def place(c: Index) -> None:
                body(r, c)

            self.b.loop(0, columns, 1, place)

        self.b.loop(0, rows, 1, row)

    def read(self, name: str, at: Index) -> SSAValue:
        """An element of LAPACK's."""
        return self.b.load(self.arrays[name], [at])

    def write(self, name: str, at: Index, value: SSAValue) -> None:
        """An element of LAPACK's."""
        self.b.store(value, self.arrays[name], [at])

    def given(self, operand: int, at: Index) -> SSAValue:
        """An element of this matrix, in LAPACK's dtype."""
        value = self.b.load(self.operands[operand], [self.b.add(self.first(operand), at)])
        return self.e.convert(value, self.problem.given, self.problem.dtype)

    def first(self, operand: int) -> Index:
        """Where this matrix begins."""
        return self.b.mul(self.number, self.sizes[operand])

    def put(self, part: int, at: Index, value: SSAValue, kind: DType) -> None:
        """An element of one of the results."""
        start = self.b.add(self.b.mul(self.number, self.width), self.parts[part])
        found = self.e.convert(value, kind, self.op.dtype)
        self.b.store(found, self.out, [self.b.add(start, at)])

    def at(self, rows: Index, r: Index, c: Index) -> Index:
        """A place in columns of so many elements."""
        return self.b.add(self.b.mul(c, rows), r)

    def take(self, name: str, operand: int, rows: Index, columns: Index, stride: Index) -> None:
        """An operand by columns, which lie `stride` apart."""

        def copy(r: Index, c: Index) -> None:
            value = self.given(operand, self.at(columns, c, r))
            self.write(name, self.at(stride, r, c), value)

        self.each(rows, columns, copy)

    def take_matrix(self) -> None:
        """The first operand."""
        self.take("a", 0, self.m, self.n, self.m)

    def give(self, part: int, name: str, rows: Index, columns: Index, stride: Index) -> None:
        """A result by rows."""

        def copy(r: Index, c: Index) -> None:
            value = self.read(name, self.at(stride, r, c))
            self.put(part, self.at(columns, c, r), value, self.kinds[name])

        self.each(rows, columns, copy)

    def give_half(self, part: int, rows: Index, columns: Index, *, upper: bool) -> None:
        """What lies in `a` on the diagonal and to one side of it; zeros elsewhere."""

        def copy(r: Index, c: Index) -> None:
            e = self.e
            inside = self.b.compare("ge", c if upper else r, r if upper else c)
            place = self.at(columns, c, r)
            value = self.read("a", self.at(self.m, r, c))
            if not isinstance(inside, bool):
                value = e.select(inside, value, e.constant(0, self.problem.dtype))
            self.put(part, place, value, self.problem.dtype)

        self.each(rows, columns, copy)

    def identity(self, name: str, n: Index) -> None:
        """The unit matrix."""

        def put(c: Index, r: Index) -> None:
            e, equal = self.e, self.b.compare("eq", r, c)
            values = e.constant(1, self.problem.dtype), e.constant(0, self.problem.dtype)
            known = isinstance(equal, bool)
            value = values[not equal] if known else e.select(equal, *values)
            self.write(name, self.at(n, r, c), value)

        self.each(n, n, put)

    # calls ----------------------------------------------------------------------------------------

    def call(self, name: str, letters: str, *arguments: Index | str) -> SSAValue:
        """A routine's `info`; arrays are named."""
        passed = [self.arrays[x] if isinstance(x, str) else self.b.index(x) for x in arguments]
        return self.b.value(LapackOp.of(self.problem.lapack(name), letters, passed))

    def asked(self, call: Callable[[Index], object], *names: str) -> list[Index]:
        """
        What a routine wants of workspaces, which `call(-1)` leaves in their first elements: no more
        than there is.
        """
        for name in names:  # of integers with 32 bits, too
            if self.kinds[name] is I32:
                self.write(name, 0, self.b.element(0, I32, 1))
        call(-1)
        return [self.b.min(self._asked(name), self.room[name]) for name in names]

    def _asked(self, name: str) -> Index:
        e, value = self.e, self.read(name, 0)
        kind = self.kinds[name]
        if kind.kind == "complex":
            value = e.real(value)
        whole = e.cast("extsi", value, i64) if kind is I32 else e.cast("fptosi", value, i64)
        return self.b.max(e.cast("index_cast", whole, INDEX), 1)

    def check(self, info: SSAValue, fault: int) -> None:
        """Reports what went wrong."""
        self.b.when(self.b.compare("ne", info, 0), lambda: self.fail(fault), rarely=True)

    def fail(self, fault: int) -> None:
        """Reports that this matrix has no answer."""
        assert fault <= len(LIBRARY_FAULTS)
        value, extent = self.b.index(fault), self.b.index(0)
        self.b.add_op(par.FailOp.of(self.s.context, self.s.sites[self.op], value, extent))

    def rows(self, size: Index) -> Index:
        """The distance of columns: at least one."""
        return self.b.max(size, 1)
