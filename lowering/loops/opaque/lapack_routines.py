"""
What each routine of LAPACK is given, and where its results lie: as NumPy calls it, step by step.

SOURCE: NumPy 2, numpy/linalg/umath_linalg.cpp; LAPACK Users' Guide, 3rd edition
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects import arith, math
from xdsl.ir import SSAValue

from mlc.dialects import functions
from mlc.dialects.dtypes import BOOL, C128, F64, I32
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.complex_parts import multiply
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.opaque.lapack import LapackNest
from mlc.lowering.loops.opaque.lapack_memory import Problem

_SINGULAR, _INDEFINITE, _NO_SVD, _NO_EIGENVALUES, _NO_LEAST_SQUARES, _NOT_FINITE = range(1, 7)
"""Faults, by their places in `LIBRARY_FAULTS`, from 1 on."""

Kernel = Callable[[], None]
Maker = Callable[[LapackNest], Kernel]

_KERNELS: dict[str, Maker] = {}
"""What computes each step of `lapack_memory`, by its name."""


def _computes(step: str) -> Callable[[Maker], Maker]:
    return lambda maker: _KERNELS.setdefault(step, maker)


@_computes("gesv")
def _gesv(x: LapackNest) -> Kernel:
    n, k = x.n, x.b.dim(x.problem.rights)
    inverts = len(x.operands) == 1

    def kernel() -> None:
        x.take_matrix()
        if inverts:
            x.identity("b", n)
        else:
            x.take("b", 1, n, k, n)
        x.check(x.call("gesv", "", n, k, "a", x.rows(n), "pivots", "b", x.rows(n)), _SINGULAR)
        x.give(0, "b", n, k, n)

    return kernel


@_computes("potrf")
def _potrf(x: LapackNest) -> Kernel:
    def kernel() -> None:
        x.take_matrix()
        x.check(x.call("potrf", "L", x.n, "a", x.rows(x.n)), _INDEFINITE)
        x.give_half(0, x.n, x.n, upper=False)

    return kernel


@_computes("getrf")
def _getrf(x: LapackNest) -> Kernel:
    """NumPy's determinants: sign and logarithm of the product of what is on U's diagonal."""
    b, n, dtype = x.b, x.n, x.problem.dtype

    def factor(j: Index, stride: Index, sign: SSAValue, log: SSAValue) -> list[SSAValue]:
        e = x.e
        pivot = e.cast("index_cast", x.read("pivots", b.mul(j, stride)), INDEX)
        swapped = b.compare("ne", pivot, b.add(j, 1))
        assert isinstance(swapped, SSAValue)
        value = x.read("a", x.at(n, j, j))
        sign = e.select(swapped, e.apply(arith.NegfOp, sign), sign)
        if dtype is F64:
            size = e.apply(math.AbsFOp, value)
            negative = e.compare("lt", value, e.constant(0, F64), F64)
            sign = e.select(negative, e.apply(arith.NegfOp, sign), sign)
        else:
            parts = e.real(value), e.imag(value)
            size = e.apply(functions.HypotOp, *parts)
            x_, y_ = (e.apply(arith.DivfOp, part, size) for part in parts)
            sign = e.pair(*multiply(e, F64, (e.real(sign), e.imag(sign)), (x_, y_)))
        return [sign, e.apply(arith.AddfOp, log, e.apply(math.LogOp, size))]

    def found(info: SSAValue) -> tuple[SSAValue, SSAValue]:
        def regular() -> Sequence[SSAValue]:
            # words of 64 bits have nothing in their upper halves; pivots count from 1
            e, zero = x.e, b.element(0, I32, 1)
            stride = b.choose(e.compare("eq", x.read("pivots", 1), zero, I32), 2, 1)
            starts = e.constant(1, dtype), e.constant(0, F64)
            return b.loop(0, n, 1, lambda j, *c: factor(j, stride, c[0], c[1]), starts)

        def singular() -> Sequence[SSAValue]:
            return x.e.constant(0, dtype), x.e.constant(-np.inf, F64)

        ok = b.compare("eq", info, 0)
        assert isinstance(ok, SSAValue)
        sign, log = b.pick_all(ok, regular, singular)
        return sign, log

    def kernel() -> None:
        x.take_matrix()
        x.write("pivots", 1, b.element(0, I32, 1))
        sign, log = found(x.call("getrf", "", n, n, "a", x.rows(n), "pivots"))
        if x.problem.routine == "slogdet":
            x.put(0, 0, sign, dtype)
            x.put(1, 0, log, F64)
            return
        e = x.e
        size = e.convert(e.apply(math.ExpOp, log), F64, dtype)
        x.put(0, 0, e.apply(arith.MulfOp, sign, size), dtype)

    return kernel


@_computes("geqrf")
def _geqrf(x: LapackNest) -> Kernel:
    b, m, n = x.b, x.m, x.n
    only_r = x.problem.routine == "qr_r"
    side = m if x.problem.routine == "qr_complete" else x.least
    stride = x.rows(m)

    def factor(size: Index) -> SSAValue:
        return x.call("geqrf", "", m, n, "a", stride, "tau", "work", size)

    def generate(size: Index) -> SSAValue:
        return x.call("orgqr", "", m, side, x.least, "q", stride, "tau", "work", size)

    def copy(c: Index, r: Index) -> None:
        place = x.at(m, r, c)
        x.write("q", place, x.read("a", place))

    (first,) = x.asked(factor, "work")
    second = first if only_r else x.asked(generate, "work")[0]

    def kernel() -> None:
        x.take_matrix()
        factor(first)
        x.give_half(0 if only_r else 1, side, n, upper=True)
        if only_r:
            return
        x.each(b.min(side, n), m, copy)
        generate(second)
        x.give(0, "q", m, side, m)

    return kernel


@_computes("gesdd")
def _gesdd(x: LapackNest) -> Kernel:
    b, m, n, least = x.b, x.m, x.n, x.least
    letter = {"svd_full": "A", "svd_reduced": "S", "svd_values": "N"}[x.problem.routine]
    left, right = (m, n) if letter == "A" else (least, least)
    reals = ("reals",) if x.problem.is_complex else ()
    sides = (x.rows(m), x.rows(right)) if letter != "N" else (1, 1)

    def factor(size: Index) -> SSAValue:
        return x.call(
            "gesdd", letter, m, n, "a", x.rows(m), "s", "u", sides[0], "vt", sides[1], "work", size,
            *reals, "integers",
        )  # fmt: skip

    (size,) = x.asked(factor, "work")

    def empty() -> None:
        x.identity("u", m)
        x.identity("vt", n)

    def kernel() -> None:
        x.take_matrix()
        x.check(factor(size), _NO_SVD)
        if letter == "A":
            b.when(b.compare("eq", least, 0), empty)  # LAPACK leaves them as they are
        x.give(1 if letter != "N" else 0, "s", 1, least, 1)
        if letter != "N":
            x.give(0, "u", m, left, m)
            x.give(2, "vt", right, n, right)

    return kernel


@_computes("evd")
def _evd(x: LapackNest) -> Kernel:
    n, vectors = x.n, x.problem.has_vectors
    letters = ("V" if vectors else "N") + ("L" if x.problem.routine.endswith("lower") else "U")
    names = ["work", *(["reals"] if x.problem.is_complex else []), "integers"]

    def factor(sizes: Sequence[Index]) -> SSAValue:
        spaces = [part for pair in zip(names, sizes, strict=True) for part in pair]
        return x.call("evd", letters, n, "a", x.rows(n), "s", *spaces)

    sizes = x.asked(lambda size: factor([size] * len(names)), *names)

    def kernel() -> None:
        x.take_matrix()
        x.check(factor(sizes), _NO_EIGENVALUES)
        x.give(0, "s", 1, n, 1)
        if vectors:
            x.give(1, "a", n, n, n)

    return kernel


@_computes("geev")
def _geev(x: LapackNest) -> Kernel:
    b, n, vectors = x.b, x.n, x.problem.has_vectors
    is_complex = x.problem.is_complex
    letters = "NV" if vectors else "NN"
    values = ("values",) if is_complex else ("values", "reals")
    tail = ("reals",) if is_complex else ()

    def factor(size: Index) -> SSAValue:
        side = x.rows(n) if vectors else 1
        return x.call(
            "geev", letters, n, "a", x.rows(n), *values, "vectors", 1, "vectors", side, "work",
            size, *tail,
        )  # fmt: skip

    (size,) = x.asked(factor, "work")

    def is_finite() -> SSAValue:
        def element(i: Index, *carried: SSAValue) -> list[SSAValue]:
            e, value, (bad,) = x.e, x.read("a", i), carried
            for part in (e.real(value), e.imag(value)) if is_complex else (value,):
                away = e.apply(arith.SubfOp, part, part)
                odd = e.compare("ne", away, e.constant(0, F64), F64)
                bad = e.apply(arith.OrIOp, bad, odd)
            return [bad]

        (bad,) = b.loop(0, b.mul(n, n), 1, element, [x.e.constant(False, BOOL)])
        return b.negated(bad)

    def give_value(_: Index, j: Index) -> None:
        x.put(0, j, x.e.pair(x.read("values", j), x.read("reals", j)), C128)

    def give_vector(r: Index, j: Index) -> None:
        """Pairs of conjugates lie as real parts and imaginary ones, side by side."""
        e, zero = x.e, x.b.element(0, F64, 1)
        turn = x.read("reals", j)
        second, paired = (e.compare(test, turn, zero, F64) for test in ("lt", "ne"))
        real = x.read("vectors", x.at(n, r, b.sub(j, b.choose(second, 1, 0))))
        first = e.compare("gt", turn, zero, F64)
        imag = x.read("vectors", x.at(n, r, b.add(j, b.choose(first, 1, 0))))
        imag = e.select(second, e.apply(arith.NegfOp, imag), imag)
        value = e.pair(real, e.select(paired, imag, zero))
        x.put(1, x.at(n, j, r), value, C128)

    def compute() -> None:
        x.check(factor(size), _NO_EIGENVALUES)
        if is_complex:
            x.give(0, "values", 1, n, 1)
        else:
            x.each(1, n, give_value)
        if vectors and is_complex:
            x.give(1, "vectors", n, n, n)
        elif vectors:
            x.each(n, n, give_vector)

    def kernel() -> None:
        x.take_matrix()
        b.when(is_finite(), compute, lambda: x.fail(_NOT_FINITE))

    return kernel


def _left_over(x: LapackNest, most: Index, c: Index, full: SSAValue) -> SSAValue:
    """|b - a x|^2 of a column: what LAPACK leaves of it where the rank is full, or computed."""
    b, m, n = x.b, x.m, x.n

    def squared(value: SSAValue) -> SSAValue:
        e = x.e
        parts = (e.real(value), e.imag(value)) if x.problem.is_complex else (value,)
        squares = [e.apply(arith.MulfOp, part, part) for part in parts]
        return squares[0] if len(squares) == 1 else e.apply(arith.AddfOp, *squares)

    def total(low: Index, high: Index, term: Callable[[Index], SSAValue]) -> SSAValue:
        def add(i: Index, *found: SSAValue) -> list[SSAValue]:
            return [x.e.apply(arith.AddfOp, *found, squared(term(i)))]

        return b.loop(low, high, 1, add, [b.element(0, F64, 1)])[0]

    def away(r: Index) -> SSAValue:
        def subtract(j: Index, *rest: SSAValue) -> list[SSAValue]:
            e = x.e
            term = e.apply(arith.MulfOp, x.given(0, x.at(n, j, r)), x.read("b", x.at(most, j, c)))
            return [e.apply(arith.SubfOp, *rest, term)]

        count = b.dim(x.problem.rights)
        return b.loop(0, n, 1, subtract, [x.given(1, x.at(count, c, r))])[0]

    return b.pick(
        full,
        lambda: total(n, m, lambda r: x.read("b", x.at(most, r, c))),
        lambda: total(0, m, away),
    )


@_computes("gelsd")
def _gelsd(x: LapackNest) -> Kernel:
    b, m, n, least = x.b, x.m, x.n, x.least
    dtype, k = x.problem.dtype, x.b.dim(x.problem.rights)
    most = b.max(m, n)
    rights = b.max(k, 1)  # LAPACK takes no less
    reals = ("reals",) if x.problem.is_complex else ()

    def solve(size: Index) -> SSAValue:
        return x.call(
            "gelsd", "", m, n, rights, "a", x.rows(m), "b", x.rows(most), "s", "rcond", "rank",
            "work", size, *reals, "integers",
        )  # fmt: skip

    (size,) = x.asked(solve, "work")

    def kernel() -> None:
        e = x.e
        x.take_matrix()
        zero = e.constant(0, dtype)
        b.loop(0, b.mul(most, rights), 1, lambda i: x.write("b", i, zero))
        x.take("b", 1, m, k, most)
        limit = x.given(2, 0)
        limit = e.real(limit) if x.problem.is_complex else limit
        x.write("rcond", 0, e.apply(math.AbsFOp, limit))
        for half in (0, 1):
            x.write("rank", half, b.element(0, I32, 1))
        x.check(solve(size), _NO_LEAST_SQUARES)
        rank = x.read("rank", 0)
        full = b.compare("eq", e.cast("index_cast", rank, INDEX), least)
        assert isinstance(full, SSAValue)
        x.give(0, "b", n, k, most)
        b.loop(0, k, 1, lambda c: x.put(1, c, _left_over(x, most, c, full), F64))
        x.put(2, 0, e.cast("sitofp", rank, F64.register), F64)
        x.give(3, "s", 1, least, 1)

    return kernel


def lower_lapack(s: KernelScope, problem: Problem, operands: Sequence[SSAValue]) -> None:
    """The loops of a kernel that LAPACK computes; `operands`: contiguous."""
    nest = LapackNest(s, problem, operands)
    nest.run(_KERNELS[problem.step](nest))
