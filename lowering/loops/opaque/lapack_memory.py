"""
The memory that LAPACK's routines work in: copies of matrices by columns, results, and workspaces as
large as the routines may ask for at the sizes of a call.

SOURCE: LAPACK Users' Guide, 3rd edition, the routines' own lines on LWORK, LRWORK and LIWORK, with
blocks of at most 64 columns. What a library asks for beyond that, it gets along without.
"""

from __future__ import annotations

from collections.abc import Callable

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import C128, F64, I32, DType
from mlc.dialects.tensor.library import LibraryOp, smaller
from mlc.dialects.tensor.op import element_dtype
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.function import Scratch

Arrays = dict[str, tuple[DType, Dim]]  # by name: elements, and how many

NONE, ONE = Dim.const(0), Dim.const(1)
BLOCK = 64  # columns that a routine works on at once, at most
LEVELS = 32  # of the tree that divides and conquers, at most
LEAF = 25  # rows of its leaves

_STEPS = {
    "solve": "gesv",
    "inv": "gesv",
    "cholesky": "potrf",
    "det": "getrf",
    "slogdet": "getrf",
    "qr_reduced": "geqrf",
    "qr_complete": "geqrf",
    "qr_r": "geqrf",
    "svd_full": "gesdd",
    "svd_reduced": "gesdd",
    "svd_values": "gesdd",
    "eigh_lower": "evd",
    "eigh_upper": "evd",
    "eigvalsh_lower": "evd",
    "eigvalsh_upper": "evd",
    "eig": "geev",
    "eigvals": "geev",
    "lstsq": "gelsd",
}
"""Routine -> what it is in LAPACK."""


@dataclass(frozen=True)
class Problem:
    """What LAPACK is asked for, and the sizes of that."""

    op: LibraryOp

    @property
    def routine(self) -> str:
        """The op's."""
        return self.op.routine.data

    @property
    def step(self) -> str:
        """LAPACK's, without the letter of its dtype."""
        return _STEPS[self.routine]

    @property
    def given(self) -> DType:
        """The dtype of the operands."""
        return element_dtype(self.op.inputs[0])

    @property
    def is_complex(self) -> bool:
        """Whether they are complex."""
        return self.given.kind == "complex"

    @property
    def dtype(self) -> DType:
        """In which LAPACK computes."""
        return C128 if self.is_complex else F64

    @property
    def m(self) -> Dim:
        """Rows."""
        return self.op.cores()[0][0]

    @property
    def n(self) -> Dim:
        """Columns."""
        return self.op.cores()[0][1]

    @property
    def least(self) -> Dim:
        """The smaller of both."""
        return smaller((self.m, self.n))

    @property
    def is_tall(self) -> bool:
        """Whether it must have as many rows as columns, or more: see `smaller`."""
        return (self.m - self.n).constant is None and self.routine != "qr_complete"

    @property
    def most(self) -> Dim:
        """The larger of both."""
        return self.m + self.n - self.least

    @property
    def rights(self) -> Dim:
        """Right sides: of an inverse, as many as there are rows."""
        return self.op.cores()[1][1] if len(self.op.inputs) > 1 else self.n

    @property
    def has_vectors(self) -> bool:
        """Whether singular or eigenvectors are wanted."""
        return "val" not in self.routine

    def lapack(self, name: str | None = None) -> str:
        """A routine's name in LAPACK, for the dtype."""
        name = name or self.step
        if name == "evd":
            return "zheevd" if self.is_complex else "dsyevd"
        if name == "orgqr":
            return "zungqr" if self.is_complex else "dorgqr"
        return f"{'z' if self.is_complex else 'd'}{name}"


def _gesv(x: Problem) -> Arrays:
    return {"b": (x.dtype, x.n * x.rights), **_getrf(x)}


def _potrf(_: Problem) -> Arrays:
    return {}


def _getrf(x: Problem) -> Arrays:
    return {"pivots": (I32, x.n * 2 + 2)}


def _geqrf(x: Problem) -> Arrays:
    side = x.m if x.routine == "qr_complete" else x.least
    return {
        "q": (x.dtype, x.m * side if x.routine != "qr_r" else ONE),
        "tau": (x.dtype, side),
        "work": (x.dtype, (x.m + x.n) * BLOCK + 8),
    }


def _gesdd(x: Problem) -> Arrays:
    least, most, both = x.least, x.most, x.has_vectors
    whole = x.routine == "svd_full"
    squares = least * least * 4 + least * most if both else NONE
    found = {
        "s": (F64, least),
        "u": (x.dtype, x.m * (x.m if whole else least) if both else ONE),
        "vt": (x.dtype, x.n * (x.n if whole else least) if both else ONE),
        "work": (x.dtype, squares + (most + least * 2) * (BLOCK + 4) + 8),
    }
    if x.is_complex:
        squares = most * least * 2 + least * least * 3 if both else NONE
        found["reals"] = (F64, squares + least * 7 + 1)
    return {**found, "integers": (I32, least * 16 + 2)}


def _evd(x: Problem) -> Arrays:
    n, square = x.n, x.n * x.n if x.has_vectors else NONE
    found = {
        "s": (F64, n),
        "work": (x.dtype, square * (1 if x.is_complex else 2) + n * (BLOCK + 6) + 8),
    }
    if x.is_complex:
        found["reals"] = (F64, square * 2 + n * 5 + 1)
    return {**found, "integers": (I32, n * 10 + 6)}


def _geev(x: Problem) -> Arrays:
    return {
        "values": (x.dtype, x.n),
        "vectors": (x.dtype, x.n * x.n if x.has_vectors else ONE),
        "work": (x.dtype, x.n * (3 * BLOCK + 8) + 8),
        "reals": (F64, x.n * 2 + 1),  # of real matrices the values' imaginary parts
    }


def _gelsd(x: Problem) -> Arrays:
    least, most, k = x.least, x.most, x.rights + 1
    tree = least * (2 * LEAF + 8 * LEVELS + 12) + (LEAF + 1) ** 2
    blocks = (most + least * 2 + k) * (BLOCK + 4) + least * least + least * k * 2
    found = {
        "b": (x.dtype, most * k),
        "s": (F64, least),
        "rcond": (F64, ONE),
        "rank": (I32, Dim.const(2)),
        "work": (x.dtype, blocks if x.is_complex else blocks + tree),
    }
    if x.is_complex:
        found["reals"] = (F64, tree + most * (k + 1) + k * (3 * LEAF + 2))
    return {**found, "integers": (I32, least * (2 * (3 * LEVELS + 11)) + 2)}


_MEMORY: dict[str, Callable[[Problem], Arrays]] = {
    "gesv": _gesv,
    "potrf": _potrf,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "gesdd": _gesdd,
    "evd": _evd,
    "geev": _geev,
    "gelsd": _gelsd,
}


def memory_of(problem: Problem) -> Arrays:
    """The arrays that LAPACK works in, in order: a copy of a matrix first."""
    a = problem.dtype, problem.m * problem.n
    return {"a": a, **_MEMORY[problem.step](problem)}


def problem_of(op: LibraryOp) -> Problem | None:
    """What LAPACK is asked for; None of an op that it does not compute."""
    return Problem(op) if op.routine.data in _STEPS else None


def lapack_scratch(op: LibraryOp) -> tuple[Scratch, ...]:
    """The memory of a kernel that calls LAPACK."""
    if (problem := problem_of(op)) is None:
        return ()
    return tuple(Scratch(memory_type(x), count) for x, count in memory_of(problem).values())
