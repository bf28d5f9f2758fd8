"""
Routines that are made of others: of LAPACK's, which need no Python, and products. Derivatives are
taken before; theirs are of the whole (dialects/tensor/library_tangents.py).
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.tensor.comparison import CompareOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.matrices import Mat
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp
from mlc.dialects.tensor.tangents import either
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()


@dataclass(frozen=True)
class ExpandLibraryPass(ModulePass):
    """
    library "pinv" a, rcond  ->  V diag(1 / s) U^H, with 0 for what is at most rcond of the largest
    s; adjugates and limits of inverses by singular values, too
    """

    name = "mlc-expand-library"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RULES.sweep(op)


@RULES.on(LibraryOp)
def expanded(op: LibraryOp, b: Rewrite) -> SSAValue | None:
    """The op by others; None where LAPACK has it in one step, or nobody."""
    routine = _EXPANSIONS.get(op.routine.data)
    if routine is None:
        return None
    found = routine(*(Mat(b, x) for x in op.inputs))
    return b(ReshapeOp, found.value, declared=tensor_type(op.dtype.ir, op.shape))


def _pinv(a: Mat, rcond: Mat) -> Mat:
    """As NumPy has it. SOURCE: Golub and Van Loan, Matrix Computations, 4th edition, 5.5.2"""
    u, s, vh = a.library("svd_reduced")
    s, limit = s.cast(a.dtype.part), rcond.cast(a.dtype.part)
    cutoff = _repeated(limit * _largest(s), s.shape[-1])
    counts = a.b(CompareOp, s.value, cutoff.value, predicate="gt")
    inverse = (s.filled(1.0) / s.where(counts, 1.0)).where(counts)
    return vh.H @ (inverse.cast(a.dtype).as_columns(a.shape[-2]) * u.H)


def _largest(s: Mat) -> Mat:
    """Of numbers that are not negative; 0 of none."""
    zero, one = Dim.const(0), Dim.const(1)
    low = (zero,) * len(s.shape)
    with_zero = s.of(PadOp, s.value, full(s.b, 0.0, s.dtype, ()), low=low, high=(*low[1:], one))
    return s.of(ReduceOp, with_zero.value, monoid="max", letters=f"{s.word}->{s.word[:-1]}")


def _repeated(x: Mat, count: Dim) -> Mat:
    """Each number as a vector."""
    kind = tensor_type(x.dtype.ir, (*x.shape, count))
    return x.of(BroadcastOp, x.value, letters=f"{x.word}->{x.word}Z", declared=kind)


def _adjugate(a: Mat) -> Mat:
    """
    The matrix of cofactors, transposed: with A = U S V^H, det(U V^H) V adj(S) U^H, where adj(S)
    holds the products of all other singular values.
    """
    u, s, vh = a.library("svd_full")
    n = s.shape[-1]
    each = s.cast(a.dtype.part).as_rows(n)
    others = each.among("ne") + each.filled(1.0).among("eq")
    word = others.word
    product = others.of(ReduceOp, others.value, monoid="prod", letters=f"{word}->{word[:-1]}")
    (left,), (right,) = u.library("det"), vh.library("det")
    scaled = vh.H * product.cast(a.dtype).as_rows(n)
    return (left * right).everywhere(n) * (scaled @ u.H)


def _any_inverse(a: Mat) -> Mat:
    """The inverses; where a matrix is singular the limits of all: adjugates over determinants."""
    (sign, _), n = a.library("slogdet"), a.shape[-1]
    zero = a.b(CompareOp, sign.value, sign.filled(0.0).value, predicate="eq")
    some = a.b(ReduceOp, zero, monoid="sum", letters=f"{sign.word}->")

    def limit(b: OpBuilder) -> SSAValue:
        x = Mat(b, a.value)
        return (_adjugate(x) / x.library("det")[0].everywhere(n)).value

    def inverse(b: OpBuilder) -> SSAValue:
        return Mat(b, a.value).library("inv")[0].value

    return Mat(a.b, either(a.b, some, limit, inverse))


_EXPANSIONS: dict[str, Callable[..., Mat]] = {
    "pinv": _pinv,
    "adjugate": _adjugate,
    "any_inverse": _any_inverse,
}
