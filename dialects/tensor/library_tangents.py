"""
Tangents of library routines, and transposes of those that are linear.

SOURCE: Giles, "An extended collection of matrix derivative results for forward and reverse mode
automatic differentiation", Oxford NA-08/01, 2008; Seeger, Hetzel, Dai, Meissner, Lawrence,
"Auto-differentiating linear algebra", arXiv 1710.08717, 2017; Golub and Pereyra, "The
differentiation of pseudo-inverses", SIAM J. Numer. Anal. 10(2), 1973.

Symmetric operands (cholesky, eigh) are moved symmetrically: both triangles share a derivative,
although the routine reads only one. Vectors that are determined only up to a phase move at right
angles to themselves. Equal eigen- or singular values have no derivative of their vectors: inf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, product, shape_of, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, SelectOp
from mlc.dialects.tensor.complex_parts import RealOp
from mlc.dialects.tensor.create import IotaOp, SizeOp, full
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.matrices import Mat, unpacked
from mlc.dialects.tensor.op import OpBuilder, Tensor, tensor_of
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    ConcatOp,
    ReshapeOp,
    TransposeOp,
    broadcast_to,
)

if TYPE_CHECKING:
    from mlc.dialects.tensor.library import LibraryOp

ZERO, ONE = Dim.const(0), Dim.const(1)
Results = list[SSAValue]


def packed_tangents(b: OpBuilder, op: LibraryOp, parts: Sequence[Mat]) -> SSAValue:
    """Tangents of the results side by side."""
    lead, dtype = op.shape[:-1], op.dtype
    flat: Results = []
    for part in parts:
        width = product(part.shape[len(lead) :])
        kind = tensor_type(dtype.ir, (*lead, width))
        flat.append(b(ReshapeOp, part.cast(dtype).value, declared=kind))
    return flat[0] if len(flat) == 1 else b(ConcatOp, *flat, axis=len(lead))


@dataclass(frozen=True)
class Routine:
    """What a tangent is made of: operands, their tangents, and the routine's results."""

    b: OpBuilder
    op: LibraryOp
    moved: tuple[SSAValue | None, ...]

    @cached_property
    def a(self) -> Mat:
        """The first operand."""
        return Mat(self.b, self.op.inputs[0])

    @cached_property
    def da(self) -> Mat:
        """Its tangent."""
        found = self.moved[0]
        return self.a.filled(0.0) if found is None else Mat(self.b, found)

    @cached_property
    def symmetric(self) -> Mat:
        """Its symmetric part."""
        return (self.da + self.da.H).times(0.5)

    @cached_property
    def right(self) -> tuple[Mat, Mat]:
        """The second operand and its tangent."""
        x = Mat(self.b, self.op.inputs[1])
        found = self.moved[1]
        return x, x.filled(0.0) if found is None else Mat(self.b, found)

    def results(self) -> list[Mat]:
        """The routine's results."""
        return unpacked(self.b, self.op)

    def again(self, routine: str) -> list[Mat]:
        """The results of another routine on the first operand."""
        return self.a.library(routine)


# Solving


def _inv(r: Routine) -> list[Mat]:
    (c,) = r.results()
    return [(c @ r.da @ c).times(-1.0)]


def _solve(r: Routine) -> list[Mat]:
    (x,), (_, db) = r.results(), r.right
    return [r.a.solve(db - r.da @ x)]


def _det(r: Routine) -> list[Mat]:
    (value,) = r.results()
    return [value * (r.again("inv")[0] @ r.da).trace]


def _slogdet(r: Routine) -> list[Mat]:
    """Of the logarithm the real part; of a complex sign, the imaginary part turns it."""
    sign, _ = r.results()
    change = (r.again("inv")[0] @ r.da).trace
    return [sign * (change - change.real), change.real]


def _cholesky(r: Routine) -> list[Mat]:
    (low,) = r.results()
    inner = low.solve(low.solve(r.symmetric).H).H
    half = inner.among("gt") + inner.among("eq").times(0.5)
    return [low @ half]


def _lstsq(r: Routine) -> list[Mat]:
    """At constant rank, of the pseudo-inverse P of a: dx = P (db - da x) + P P^H da^H r + …"""
    (x, squares, rank, values), (right, db) = r.results(), r.right
    u, s, vh = r.again("svd_reduced")
    k = values.shape[-1]
    limit = Mat(r.b, r.op.inputs[2]).real
    largest = s.of(ReduceOp, s.real.cast(s.dtype.part).value, monoid="max", letters=_last(s))
    threshold = largest * limit.cast(largest.dtype)
    spread = Mat(r.b, r.b(BroadcastOp, threshold.value, letters=_spread(s), declared=_part(s)))
    kept = r.b(CompareOp, s.cast(s.dtype.part).value, spread.value, predicate="gt")
    inverse = (s.filled(1.0) / s.where(kept, 1.0)).where(kept)
    pseudo = vh.H * inverse.as_rows(vh.shape[-1]) @ u.H
    away = right - r.a @ x
    change = db - r.da @ x
    dx = pseudo @ (change + pseudo.H @ (r.da.H @ away))
    back = r.da.H @ (pseudo.H @ x)
    dx = dx + back - pseudo @ (r.a @ back)
    moved = (away.conj * (change - r.a @ dx)).real.times(2.0)
    word = moved.word
    total = moved.of(ReduceOp, moved.value, monoid="sum", letters=f"{word}->{word[:-2]}{word[-1]}")
    ds = (u.H @ r.da @ vh.H).diagonal.real
    assert ds.shape[-1] == k
    assert total.shape == squares.shape
    return [dx, total, rank.filled(0.0), ds]


def _last(s: Mat) -> str:
    return f"{s.word}->{s.word[:-1]}"


def _spread(s: Mat) -> str:
    return f"{s.word[:-1]}->{s.word}"


def _part(s: Mat) -> Tensor:
    return tensor_type(s.dtype.part.ir, s.shape)


# Orthogonal factors


def _qr(r: Routine, routine: str) -> tuple[Mat, Mat]:
    """
    Q' = Q W, R' = Q^H a' - W R with W skew: what of Q^H a' R^-1 lies below the diagonal, and
    the imaginary part on it, since R keeps a real diagonal.
    """
    q, upper = r.again(routine) if r.op.routine.data == "qr_r" else r.results()
    k = q.shape[-1]
    # x R^-1 = (R^-H x^H)^H, of the leading columns where there are more of them than rows
    scaled = upper.columns(k).H.solve(r.da.columns(k).H).H
    turned = q.H @ scaled
    below, middle = turned.among("gt"), turned.among("eq")
    skew = below - below.H + (middle - middle.real)
    moved = q @ (skew - turned) + scaled
    return moved, q.H @ r.da - skew @ upper


def _qr_reduced(r: Routine) -> list[Mat]:
    return list(_qr(r, "qr_reduced"))


def _qr_complete(r: Routine) -> list[Mat]:
    ((rows, columns),) = r.op.cores()
    if (over := (rows - columns).constant) is None or over > 0:
        raise no_derivative("qr_complete", "the columns of Q beyond those of a are arbitrary")
    return _qr_reduced(r)


def _qr_r(r: Routine) -> list[Mat]:
    return [_qr(r, "qr_reduced")[1]]


# Eigenvalues and singular values


def _apart(x: Mat) -> Mat:
    """1 / (x[j] - x[i]), 0 on the diagonal."""
    n = x.shape[-1]
    gap = x.as_rows(n) - x.as_columns(n)
    one = gap.filled(1.0)
    return (one / (gap + one.among("eq"))) - one.among("eq")


def _eigh(r: Routine, routine: str) -> list[Mat]:
    w, v = r.again(routine) if "vals" in r.op.routine.data else r.results()
    turned = v.H @ r.symmetric @ v
    return [turned.diagonal.real, v @ (_apart(w) * turned)]


def _eig(r: Routine) -> list[Mat]:
    """
    Each vector keeps its length one and the phase that LAPACK's geev gives it: its largest element
    is real.
    """
    w, v = r.results() if r.op.routine.data == "eig" else r.again("eig")
    turned = v.solve(r.da.cast(w.dtype) @ v)
    free = v @ (_apart(w) * turned)
    b, n = r.b, w.shape[-1]
    along = (v.conj * free).of(ReduceOp, (v.conj * free).value, monoid="sum", letters=_down(v))
    size = v * v.conj
    part = size.cast(w.dtype.part)
    most = part.of(ReduceOp, part.value, monoid="argmax", letters=_down(v))
    word = v.word
    kind = tensor_type(i64, v.shape)
    rows = b(IotaOp, axis=len(v.shape) - 2, declared=kind)
    spread = b(BroadcastOp, most.value, letters=f"{word[:-2]}{word[-1]}->{word}", declared=kind)
    chosen = b(CompareOp, rows, spread, predicate="eq")

    def top(x: Mat) -> Mat:
        return x.of(ReduceOp, x.where(chosen).value, monoid="sum", letters=_down(x))

    moved, fixed = top(free), top(v)
    turn = (moved - moved.real) / fixed.real
    return [turned.diagonal, free - v * (along.real + turn).as_rows(n)]


def _down(x: Mat) -> str:
    return f"{x.word}->{x.word[:-2]}{x.word[-1]}"


def _svd(r: Routine) -> list[Mat]:
    """Of A = U S V^H; directions outside the spans of U and of V move by what a' brings there."""
    u, s, vh = r.results() if "values" not in r.op.routine.data else r.again("svd_reduced")
    k, v = s.shape[-1], vh.H
    turned = u.H @ r.da @ v
    ds = turned.diagonal.real
    rows, columns = s.as_rows(k), s.as_columns(k)
    one = rows.filled(1.0)
    unit = one.among("eq")
    inverse = one / ((rows + columns) * (rows - columns) + unit) - unit
    skew, image = turned * rows, columns * turned
    phase = (turned - turned.H).times(0.5).among("eq") / rows
    du = u @ (inverse * (skew + skew.H) + phase)
    dv = v @ (inverse * (image + image.H))
    m, n = r.a.shape[-2:]
    if m != k:
        rest = r.da @ v
        du = du + (rest - u @ (u.H @ rest)) / s.as_rows(m)
    if n != k:
        rest = r.da.H @ u
        dv = dv + (rest - v @ (v.H @ rest)) / s.as_rows(n)
    return [du, ds, dv.H]


def _svd_full(r: Routine) -> list[Mat]:
    ((rows, columns),) = r.op.cores()
    if rows != columns:
        raise no_derivative(
            "svd", "the vectors beyond the singular values are arbitrary", "full_matrices=False"
        )
    return _svd(r)


def no_derivative(routine: str, why: str, remedy: str = "the reduced factors") -> DTypeError:
    """What a user reads who asks for it."""
    return DTypeError(f"mlc.library {routine!r} has no derivative here: {why}; use {remedy}")


TANGENTS: dict[str, Callable[[Routine], list[Mat]]] = {
    "cholesky": _cholesky,
    "inv": _inv,
    "solve": _solve,
    "slogdet": _slogdet,
    "det": _det,
    "qr_reduced": _qr_reduced,
    "qr_complete": _qr_complete,
    "qr_r": _qr_r,
    "svd_full": _svd_full,
    "svd_reduced": _svd,
    "svd_values": lambda r: [_svd(r)[1]],
    "eigh_lower": lambda r: _eigh(r, "eigh_lower"),
    "eigh_upper": lambda r: _eigh(r, "eigh_upper"),
    "eigvalsh_lower": lambda r: _eigh(r, "eigh_lower")[:1],
    "eigvalsh_upper": lambda r: _eigh(r, "eigh_upper")[:1],
    "eig": _eig,
    "eigvals": lambda r: _eig(r)[:1],
    "lstsq": _lstsq,
}


def library_tangent(b: OpBuilder, op: LibraryOp, tangents: Sequence[SSAValue | None]) -> SSAValue:
    """The tangent of a routine's results, side by side."""
    parts = TANGENTS[op.routine.data](Routine(b, op, tuple(tangents)))
    return packed_tangents(b, op, parts)


# Transposes, for the pairing sum(u * v), of which the real part counts


def _transform(b: OpBuilder, routine: str, x: SSAValue) -> Mat:
    return Mat(b, x).library(routine)[0]


def _from_rfft(b: OpBuilder, op: LibraryOp, x: SSAValue) -> SSAValue:
    """The transform of the cotangent with zeros where a real signal has nothing new."""
    length = shape_of(op.inputs[0].type)[-1]
    axes = len(op.shape)
    low = (ZERO,) * axes
    high = (*low[1:], length - op.shape[-1])
    padded = b(PadOp, x, full(b, 0.0, op.dtype, ()), low=low, high=high)
    return b(RealOp, _transform(b, "fft", padded).value)


def _from_irfft(b: OpBuilder, op: LibraryOp, x: SSAValue) -> SSAValue:
    """The transform back, where all but the first (and the middle one) stand for two."""
    half = _transform(b, "rfft", x).conj
    length, count = op.shape[-1], half.shape[-1]
    kind = tensor_type(i64, half.shape)
    place = b(IotaOp, axis=len(half.shape) - 1, declared=kind)
    alone = b(CompareOp, place, full(b, 0, I64, half.shape), predicate="eq")
    weight = half.filled(1.0).where(alone, 2.0)
    if op.routine.data == "irfft_even":
        last = broadcast_to(b, b(SizeOp, dims=(count - 1,)), half.shape)
        middle = b(CompareOp, place, last, predicate="eq")
        weight = half.of(SelectOp, middle, half.filled(1.0).value, weight.value)
    return (half * weight / _size(b, length, half)).value


def _size(b: OpBuilder, length: Dim, like: Mat) -> Mat:
    """A length as a number in another value's type."""
    number = b(SizeOp, dims=(length,))
    kind = tensor_type(like.dtype.ir, ())
    return Mat(b, broadcast_to(b, b(ConvertOp, number, declared=kind), like.shape))


def _from_solve(b: OpBuilder, op: LibraryOp, x: SSAValue) -> SSAValue:
    """a^-T x"""
    a, right = op.inputs
    word = ALPHABET[: len(shape_of(a.type))]
    turned = b(TransposeOp, a, letters=f"{word}->{word[:-2]}{word[-1]}{word[-2]}")
    cotangent = b(ReshapeOp, x, declared=tensor_of(right))
    return Mat(b, turned).solve(Mat(b, cotangent)).value


LINEAR: dict[str, tuple[int, Callable[[OpBuilder, LibraryOp, SSAValue], SSAValue]]] = {
    "fft": (0, lambda b, op, x: _transform(b, "fft", x).value),
    "ifft": (0, lambda b, op, x: _transform(b, "ifft", x).value),
    "rfft": (0, _from_rfft),
    "irfft_even": (0, _from_irfft),
    "irfft_odd": (0, _from_irfft),
    "solve": (1, _from_solve),
}
"""The operand in which a routine is linear, and the transpose."""
