# pyright: basic
"""
Factorisations and transforms: ops of StableHLO, routines of LAPACK and cuSOLVER as JAX calls them.

What NumPy has, NumPy computes; LU and QR with their factors packed are loops over columns. SOURCE:
LAPACK Users' Guide, 3rd edition; Golub and Van Loan, Matrix Computations, 3.4 and 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlc.frontend.importers.equations import solved_triangle
from mlc.frontend.importers.stablehlo.program import Op, TensorKind
from mlc.frontend.importers.stablehlo.shapes import line, sizes_of
from mlc.frontend.importers.stablehlo.sorting import comparable, ranked
from mlc.frontend.numpy.creation import zeros
from mlc.frontend.trace.loops import fori_loop

Array = Any
_LEFT, _UPPER, _UNIT, _TRANSPOSED, _CONJUGATED = (ord(c) for c in "LUUTC")


def _told(op: Op, name: str, default: int) -> int:
    found = (op.get("mhlo.backend_config") or {}).get(name, default)
    return int(found)


def _zero(x: Array) -> Array:
    return np.zeros(x.shape[:-2], np.int32)


def _column(x: Array, k: Array) -> Array:
    return np.take(x, k, axis=-1)


def _size(x: Array) -> Array:
    """By which LAPACK chooses pivots: of complex numbers the sum of the parts' sizes."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def lu(op: Op, a: Array) -> tuple[Array, ...]:
    """`getrf`: L below the diagonal, U on and above it; the row that each one was swapped with."""
    m, n = a.shape[-2:]
    rows, columns = np.arange(m), np.arange(n)
    pivots = np.zeros((*a.shape[:-2], min(m, n)), np.int32)

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, swaps = state
        size = np.where(rows >= k, _size(_column(x, k)), -1.0)
        p = np.argmax(size, axis=-1)[..., None]
        order = np.where(rows == k, p, np.where(rows == p, k, rows))
        x = np.take_along_axis(x, order[..., None], -2)
        row = np.take(x, k, axis=-2)
        pivot = _column(row, k)[..., None]
        below = rows > k
        safe = np.where(pivot == 0, np.ones_like(pivot), pivot)
        factor = np.where(below & (pivot != 0), _column(x, k) / safe, np.zeros_like(safe))
        right = np.where(columns > k, row, np.zeros_like(row))
        x = x - factor[..., :, None] * right[..., None, :]
        at = below[:, None] & (columns == k)
        x = np.where(at, factor[..., :, None], x)
        mine = np.arange(min(m, n)) == k
        return x, np.where(mine, (p + 1).astype(np.int32), swaps)

    x, swaps = fori_loop(0, min(m, n), step, (a, pivots))
    return x, swaps, _zero(a)


def qr(op: Op, a: Array) -> tuple[Array, ...]:
    """`geqrf`: R on and above the diagonal, Householder's vectors below it, and their scales."""
    m, n = a.shape[-2:]
    rows, count = np.arange(m), min(a.shape[-2:])
    scales = np.zeros((*a.shape[:-2], count), a.dtype)

    def step(k: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, taus = state
        column = _column(x, k)
        alpha = np.take(column, k, axis=-1)[..., None]
        tail = np.where(rows > k, column, np.zeros_like(column))
        rest = (np.abs(tail) ** 2).sum(-1, keepdims=True)
        norm = np.sqrt(np.abs(alpha) ** 2 + rest)
        real = alpha.real if a.dtype.kind == "c" else alpha
        beta = np.where(real > 0, -norm, norm)
        skip = (rest == 0) & ((alpha.imag if a.dtype.kind == "c" else alpha * 0) == 0)
        scaled = np.where(skip, np.ones_like(beta), beta)
        tau = np.where(skip, np.zeros_like(alpha), (scaled - alpha) / scaled)
        under = np.where(skip, np.ones_like(alpha), alpha - scaled)
        v = np.where(rows == k, np.ones_like(column), tail / under)
        products = (np.conj(v)[..., :, None] * x).sum(-2)
        behind = np.where(np.arange(n) > k, products, np.zeros_like(products))
        x = x - (np.conj(tau) * v)[..., :, None] * behind[..., None, :]
        new = np.where(rows > k, v, np.where(rows == k, np.where(skip, alpha, beta), column))
        x = np.where(np.arange(n) == k, new[..., :, None].astype(x.dtype), x)
        return x, np.where(np.arange(count) == k, tau, taus)

    x, taus = fori_loop(0, count, step, (a, scales))
    return x, taus


def q_of(op: Op, a: Array, taus: Array) -> tuple[Array, ...]:
    """`orgqr`: the orthogonal factor of what `geqrf` has left."""
    m, n = a.shape[-2:]
    rows, count = np.arange(m), taus.shape[-1]
    unit = np.broadcast_to(np.eye(m, n, dtype=a.dtype), a.shape)

    def step(j: Array, q: Array) -> Array:
        k = count - 1 - j
        column = _column(a, k)
        one, none = np.ones_like(column), np.zeros_like(column)
        v = np.where(rows == k, one, np.where(rows > k, column, none))
        products = (np.conj(v)[..., :, None] * q).sum(-2)
        tau = np.take(taus, k, axis=-1)[..., None]
        return q - (tau * v)[..., :, None] * products[..., None, :]

    return (fori_loop(0, count, step, unit + np.zeros_like(a)),)


def trsm(op: Op, a: Array, b: Array) -> tuple[Array, ...]:
    """`trsm` of BLAS."""
    return (
        solved_triangle(
            a,
            b,
            left=_told(op, "side", _LEFT) == _LEFT,
            upper=_told(op, "uplo", _UPPER) == _UPPER,
            unit=_told(op, "diag", 0) == _UNIT,
            turned=chr(_told(op, "trans_x", ord("N"))),
        ),
    )


def triangular_solve(op: Op, a: Array, b: Array) -> Array:
    """`stablehlo.triangular_solve`."""
    turned = {"TRANSPOSE": "T", "ADJOINT": "C"}.get(str(op.get("transpose_a")), "N")
    return solved_triangle(
        a,
        b,
        left=bool(op.get("left_side")),
        upper=not op.get("lower"),
        unit=bool(op.get("unit_diagonal")),
        turned=turned,
    )


def _is_upper(op: Op) -> bool:
    """Which half is read: LAPACK's letter, or the word of calls for GPUs."""
    told = op.get("mhlo.backend_config") or {}
    return not told["lower"] if "lower" in told else _told(op, "uplo", ord("L")) == _UPPER


def _hermitian(a: Array, *, upper: bool) -> Array:
    """The matrix whose one half is given."""
    half = np.triu(a, 1) if upper else np.tril(a, -1)
    diagonal = a * np.eye(a.shape[-1], dtype=a.dtype)
    return half + np.conj(np.swapaxes(half, -1, -2)) + diagonal


def cholesky(op: Op, a: Array) -> tuple[Array, ...]:
    """`potrf`: one half is read; what lies in the other one stays."""
    upper = _is_upper(op)
    found = np.linalg.cholesky(_hermitian(a, upper=upper))
    if upper:
        return np.conj(np.swapaxes(found, -1, -2)) + np.tril(a, -1), _zero(a)
    return found + np.triu(a, 1), _zero(a)


def cholesky_op(op: Op, a: Array) -> Array:
    """`stablehlo.cholesky`."""
    lower = bool(op.get("lower"))
    found = np.linalg.cholesky(_hermitian(a, upper=not lower))
    return found if lower else np.conj(np.swapaxes(found, -1, -2))


def eigh(op: Op, a: Array) -> tuple[Array, ...]:
    """`syevd`, `heevd`: vectors, values."""
    whole = _hermitian(a, upper=_is_upper(op))
    values, vectors = np.linalg.eigh(whole)
    return vectors, values, _zero(a)


def svd(op: Op, a: Array) -> tuple[Array, ...]:
    """`gesdd`: what was given, values, both factors."""
    mode = chr(_told(op, "mode", ord("S")))
    u, values, vh = np.linalg.svd(a, full_matrices=mode == "A")
    wanted = [kind.shape for kind in op.kinds[2:4] if isinstance(kind, TensorKind)]
    parts = [
        x if x.shape == shape else np.zeros([n or 0 for n in shape], a.dtype)
        for x, shape in zip((u, vh), wanted, strict=True)
    ]
    return a, values, *parts, _zero(a)


def svd_of_gpus(op: Op, a: Array) -> tuple[Array, ...]:
    """`gesvdj`: what was given, values, both factors, the second one as it is."""
    kind = op.kinds[2]
    whole = isinstance(kind, TensorKind) and kind.shape[-1] == kind.shape[-2]
    u, values, vh = np.linalg.svd(a, full_matrices=whole)
    return a, values, u, np.conj(np.swapaxes(vh, -1, -2)), _zero(a)


def permutation(op: Op, pivots: Array) -> tuple[Array, ...]:
    """`lu_pivots_to_permutation`: where rows come from that were swapped one after the other."""
    n = sizes_of(op)[-1]
    places = np.arange(n)

    def step(k: Array, order: Array) -> Array:
        at = np.take(pivots, k, axis=-1)[..., None]
        mine = np.take(order, k, axis=-1)[..., None]
        other = np.take_along_axis(order, at, -1)
        return np.where(places == at, mine, np.where(places == k, other, order))

    start = np.broadcast_to(places.astype(np.int32), (*pivots.shape[:-1], n))
    return (fori_loop(0, pivots.shape[-1], step, start + zeros(start.shape, np.int32)),)


def eig(op: Op, a: Array) -> tuple[Array, ...]:
    """`geev`: values (real matrices': in two parts), vectors on the left and on the right."""
    values, right = np.linalg.eig(a)
    wide = np.dtype(np.complex64 if a.dtype.itemsize == (8 if a.dtype.kind == "c" else 4) else "D")
    values, right = values.astype(wide), right.astype(wide)
    parts = (values,) if a.dtype.kind == "c" else (values.real, values.imag)
    left = zeros(a.shape, wide)
    if chr(_told(op, "compute_left", ord("N"))) == "V":
        left = np.conj(np.swapaxes(np.linalg.inv(right), -1, -2))
        left = left / np.sqrt((np.abs(left) ** 2).sum(-2, keepdims=True)).astype(wide)
    return *parts, left, right, _zero(a)


def gtsv(op: Op, low: Array, middle: Array, high: Array, b: Array) -> tuple[Array, ...]:
    """`gtsv`: a system whose matrix has three diagonals."""
    n = middle.shape[-1]
    rows, columns = line(n, 0, 2), line(n, 1, 2)
    none = zeros((*middle.shape, n), middle.dtype)
    inner = [
        x if x.shape[-1] == n - 1 else part
        for x, part in ((low, low[..., 1:]), (high, high[..., :-1]))
    ]
    edge = zeros((*middle.shape[:-1], 1), middle.dtype)
    below = np.concatenate([edge, inner[0]], axis=-1)
    above = np.concatenate([inner[1], edge], axis=-1)
    matrix = none
    for offset, diagonal in ((-1, below), (0, middle), (1, above)):
        matrix = matrix + np.where(columns - rows == offset, diagonal[..., :, None], none)
    return low, middle, high, np.linalg.solve(matrix, b), _zero(matrix)


def fft(op: Op, x: Array) -> Array:
    """`fft %x, type = RFFT, length = [8]`: along the last axes."""
    kind, length = str(op.get("fft_type")), op.get("fft_length")
    sizes = [int(n) for n in np.ravel(length)]
    function = {
        "FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn,
    }[kind.split()[-1]]  # fmt: skip
    return function(x, sizes, tuple(range(x.ndim - len(sizes), x.ndim)))


def top_k(op: Op, x: Array) -> tuple[Array, ...]:
    """
    `chlo.top_k(%x, k = 3)`: the largest along the last axis, equal ones in order; the smallest
    where the call of older versions says that.
    """
    k, largest = int(op.get("k")), bool(op.get("largest", True))
    order = ranked(comparable(x, total=True), None, -1, down=largest)[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


ROUTINES: Mapping[str, Callable[..., tuple[Array, ...]]] = {
    **{
        f"lapack_{kind}{name}_ffi": routine
        for name, routine in {
            "getrf": lu, "geqrf": qr, "orgqr": q_of, "ungqr": q_of, "trsm": trsm, "potrf": cholesky,
            "syevd": eigh, "heevd": eigh, "gesdd": svd, "geev": eig, "gtsv": gtsv,
        }.items()
        for kind in "sdcz"
    },
    **{
        f"cusolver_{name}_ffi": routine
        for name, routine in {
            "getrf": lu, "geqrf": qr, "orgqr": q_of, "potrf": cholesky, "syevd": eigh,
            "gesvdj": svd_of_gpus,
        }.items()
    },
    "cu_lu_pivots_to_permutation": permutation,
}  # fmt: skip
"""By the name of the call, on CPUs and on GPUs."""
