"""
Tangents of library routines, and transposes of those that are linear.

SOURCE: Giles, "An extended collection of matrix derivative results for forward and reverse mode
automatic differentiation", Oxford NA-08/01, 2008; Seeger, Hetzel, Dai, Meissner, Lawrence,
"Auto-differentiating linear algebra", arXiv 1710.08717, 2017; Golub and Pereyra, "The
differentiation of pseudo-inverses", SIAM J. Numer. Anal. 10(2), 1973.

Of symmetric operands (cholesky, eigh) one triangle is read, and stands for the other. Vectors that
are determined only up to a phase move at right angles to themselves. Equal eigen- or singular
values have no derivative of their vectors: inf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.dims import Dim, product, shape_of, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, SelectOp
from mlc.dialects.tensor.complex_parts import RealOp
from mlc.dialects.tensor.control import ForOp, YieldOp, loop_region
from mlc.dialects.tensor.create import IotaOp, SizeOp, full
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.matrices import Mat, unpacked
from mlc.dialects.tensor.op import OpBuilder, tensor_of
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    broadcast_to,
)
from mlc.dialects.tensor.tangents import either
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.dialects.tensor.library import LibraryOp

ZERO, ONE = Dim.const(0), Dim.const(1)
Results = list[SSAValue]


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

    def mirrored(self, triangle: str) -> Mat:
        """Of its "lower" or "upper" triangle, which stands for the other one."""
        half = self.da.among("gt" if triangle == "lower" else "lt")
        return half + half.H + self.da.among("eq").real

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


def _pinv(r: Routine) -> list[Mat]:
    """At constant rank; an identity of the pseudo-inverse, so that it holds for every order."""
    (p,) = r.results()
    row, column = p @ (p.H @ r.da.H), (r.da.H @ p.H) @ p
    away, beyond = row - (row @ r.a) @ p, column - p @ (r.a @ column)
    return [away + beyond - p @ (r.da @ p)]


def _solve(r: Routine) -> list[Mat]:
    (x,), (_, db) = r.results(), r.right
    return [r.a.solve(db - r.da @ x)]


def _det(r: Routine) -> list[Mat]:
    return [r.again("adjugate")[0].trace_of_product(r.da)]


def _adjugate(r: Routine) -> list[Mat]:
    """(tr(C a') C - C a' C) / det(a); near a singular matrix by what divides by nothing."""
    (c,), (det,) = r.results(), r.again("det")
    n = c.shape[-1]

    def regular(b: OpBuilder) -> SSAValue:
        found, moved = Mat(b, c.value), Mat(b, r.da.value)
        turned, scale = found @ moved, Mat(b, det.value).everywhere(n)
        return ((turned.trace.everywhere(n) * found - turned @ found) / scale).value

    def singular(b: OpBuilder) -> SSAValue:
        return _adjugate_by_powers(b, r.a.value, r.da.value)

    return [Mat(r.b, either(r.b, _is_near_singular(r.a, c, det), singular, regular))]


def _is_near_singular(a: Mat, adjugate: Mat, det: Mat) -> SSAValue:
    """Whether the condition number of one of the matrices, |a| |a^-1|, is above eps^(-1/3)."""
    kind: Any = a.dtype.part.numpy
    limit = float(np.finfo(kind).eps) ** (2 / 3)
    sizes = [(x * x.conj).real.cast(x.dtype.part) for x in (a, adjugate, det)]
    bound = (sizes[0].total * sizes[1].total).times(limit)
    near = Mat(a.b, a.b(CompareOp, sizes[2].value, bound.value, predicate="le"))
    return near.of(ReduceOp, near.value, monoid="max", letters=f"{near.word}->").value


def _adjugate_by_powers(b: OpBuilder, a: SSAValue, da: SSAValue) -> SSAValue:
    """
    Of N[1] = 1, N[k+1] = tr(a N[k]) / k - a N[k], the last one is the adjugate: a polynomial.

    SOURCE: Householder, The Theory of Matrices in Numerical Analysis, 1964, section 6.7
    """
    x = Mat(b, a)
    n = x.shape[-1]
    starts = (x.filled(1.0).among("eq").value, x.filled(0.0).value)
    region = loop_region([v.type for v in starts])
    inner = OpBuilder(region.block.add_op)
    x, dx, power, moved = (Mat(inner, v) for v in (a, da, *region.block.args[1:]))
    trip = inner(ConvertOp, region.block.args[0], declared=tensor_type(x.dtype.part.ir, ()))
    number = Mat(inner, trip).cast(x.dtype)
    count = Mat(inner, broadcast_to(inner, (number + number.filled(1.0)).value, x.shape[:-2]))
    found: Results = []
    for y in (x @ power, dx @ power + x @ moved):
        share = (y.trace / count).everywhere(n).among("eq")
        found.append((share - y).value)
    region.block.add_op(YieldOp.create(operands=found))
    loop = ForOp(b(SizeOp, dims=(n - 1,)), starts, region)
    b.insert(loop)
    return loop.outs[1]


def _slogdet(r: Routine) -> list[Mat]:
    """Of the logarithm the real part; of a complex sign, the imaginary part turns it."""
    sign, _ = r.results()
    change = r.again("any_inverse")[0].trace_of_product(r.da)
    if r.a.dtype.kind != "complex":
        return [sign.filled(0.0), change]
    return [sign * (change - change.real), change.real]


def _cholesky(r: Routine) -> list[Mat]:
    (low,) = r.results()
    inner = low.solve(low.solve(r.mirrored("lower")).H).H
    half = inner.among("gt") + inner.among("eq").times(0.5)
    return [low @ half]


def _lstsq(r: Routine) -> list[Mat]:
    """At constant rank, of the pseudo-inverse P of a: dx = P (db - da x) + P P^H da^H r + …"""
    (x, squares, rank, values), (right, db) = r.results(), r.right
    u, _, vh = r.again("svd_reduced")
    (pseudo,) = r.a.library("pinv", Mat(r.b, r.op.inputs[2]))
    away = right - r.a @ x
    change = db - r.da @ x
    dx = pseudo @ (change + pseudo.H @ (r.da.H @ away))
    back = r.da.H @ (pseudo.H @ x)
    dx = dx + back - pseudo @ (r.a @ back)
    moved = (away.conj * (change - r.a @ dx)).real.times(2.0)
    word = moved.word
    total = moved.of(ReduceOp, moved.value, monoid="sum", letters=f"{word}->{word[:-2]}{word[-1]}")
    ds = (u.H @ r.da @ vh.H).diagonal.real
    assert ds.shape == values.shape
    assert total.shape == squares.shape
    return [dx, total, rank.filled(0.0), ds]


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


def _eigh(r: Routine, triangle: str) -> list[Mat]:
    w, v = r.again(f"eigh_{triangle}") if "vals" in r.op.routine.data else r.results()
    turned = v.H @ r.mirrored(triangle) @ v
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


def _first(r: Routine) -> Mat:
    zeros, ones = (tuple(Dim.const(k) for _ in r.op.shape) for k in (0, 1))
    kind = tensor_of(r.op.results[0])
    return Mat(r.b, r.b(SliceOp, r.da.value, offsets=zeros, steps=ones, declared=kind))


def no_derivative(routine: str, why: str, remedy: str = "the reduced factors") -> DTypeError:
    """What a user reads who asks for it."""
    return DTypeError(f"mlc.library {routine!r} has no derivative here: {why}; use {remedy}")


TANGENTS: dict[str, Callable[[Routine], list[Mat]]] = {
    "cholesky": _cholesky,
    "inv": _inv,
    "any_inverse": _inv,
    "pinv": _pinv,
    "adjugate": _adjugate,
    "solve": _solve,
    "slogdet": _slogdet,
    "det": _det,
    "qr_reduced": _qr_reduced,
    "qr_complete": _qr_complete,
    "qr_r": _qr_r,
    "svd_full": _svd_full,
    "svd_reduced": _svd,
    "svd_values": lambda r: [_svd(r)[1]],
    "eigh_lower": lambda r: _eigh(r, "lower"),
    "eigh_upper": lambda r: _eigh(r, "upper"),
    "eigvalsh_lower": lambda r: _eigh(r, "lower")[:1],
    "eigvalsh_upper": lambda r: _eigh(r, "upper")[:1],
    "eig": _eig,
    "eigvals": lambda r: _eig(r)[:1],
    "lstsq": _lstsq,
    "tell": lambda r: [_first(r)],
}


def part_tangents(b: OpBuilder, op: LibraryOp, tangents: Sequence[SSAValue | None]) -> Results:
    """The tangent of each of a routine's results, as its columns of the op's result."""
    lead, dtype = op.shape[:-1], op.dtype
    flat: Results = []
    for part in TANGENTS[op.routine.data](Routine(b, op, tuple(tangents))):
        width = product(part.shape[len(lead) :])
        kind = tensor_type(dtype.ir, (*lead, width))
        flat.append(b(ReshapeOp, part.cast(dtype).value, declared=kind))
    return flat


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
