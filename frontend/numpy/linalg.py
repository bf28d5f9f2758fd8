"""
``numpy.linalg`` inside compiled functions: factorisations by LAPACK, the rest made of them.

Shapes: every function takes stacks of matrices, (…, m, n), unless it says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from mlc.dialects.dims import Dim
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.complexes import conjugate, own_conjugate, real
from mlc.frontend.numpy.contraction import einsum, matmul, tensordot
from mlc.frontend.numpy.contraction import outer as flat_outer
from mlc.frontend.numpy.creation import eye, zeros
from mlc.frontend.numpy.elementwise import abs as magnitude
from mlc.frontend.numpy.elementwise import (
    astype,
    divide,
    greater,
    multiply,
    not_equal,
    root,
    where,
)
from mlc.frontend.numpy.elementwise_whole import power
from mlc.frontend.numpy.library import (
    LinAlgShapeError,
    assume_tall,
    call_library,
    library_dtype,
    matrix,
)
from mlc.frontend.numpy.linalg_results import (
    EighResult,
    EigResult,
    QRResult,
    SlogdetResult,
    SVDResult,
)
from mlc.frontend.numpy.padding import diagonal as any_diagonal
from mlc.frontend.numpy.reductions import max as largest
from mlc.frontend.numpy.reductions import min as smallest
from mlc.frontend.numpy.reductions import sum as total
from mlc.frontend.numpy.registry import implementation_of, public
from mlc.frontend.numpy.shaping import (
    expand_dims,
    matrix_transpose,
    moveaxis,
    normal_axes,
    ravel,
    reshape,
    squeeze,
)
from mlc.frontend.numpy.values import lift, strong
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.tracer import Tracer

Operand = Any


# Factorisations


@public(np.linalg.cholesky)
def cholesky(a: Operand, /, *, upper: bool = False) -> Tracer:
    """L with A = L Lᴴ; with `upper` the U with A = Uᴴ U. a: (…, n, n)."""
    (low,) = call_library("cholesky", matrix("cholesky", a, square=True))
    return conjugate(matrix_transpose(low)) if upper else low


@public(np.linalg.qr)
def qr(a: Operand, mode: str = "reduced") -> Any:
    """Q and R with A = Q R. "reduced": (…, m, k) and (…, k, n), k = min(m, n); "complete"; "r"."""
    if mode not in ("reduced", "complete", "r"):
        raise located(NotSupportedError, f"qr: mode {mode!r}; expected reduced, complete or r.")
    found = call_library(f"qr_{mode}", matrix("qr", a), function="qr")
    return found[0] if mode == "r" else QRResult(*found)


@public(np.linalg.svd)
def svd(
    a: Operand, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """U (…, m, m), S (…, k), Vh (…, n, n), k = min(m, n); else U (…, m, k) and Vh (…, k, n)."""
    x = matrix("svd", a, square=hermitian)
    if not compute_uv:
        return svdvals(x)
    u, s, vh = call_library("svd_full" if full_matrices else "svd_reduced", x, function="svd")
    return SVDResult(u, real(s), vh)


@public(getattr(np.linalg, "svdvals", None))
def svdvals(x: Operand, /) -> Tracer:
    """The singular values, largest first: (…, min(m, n))."""
    return call_library("svd_values", matrix("svd", x), function="svd")[0]


@public(np.linalg.eigh)
def eigh(a: Operand, UPLO: str = "L") -> EighResult:
    """Eigenvalues (…, n) and eigenvectors (…, n, n) of Hermitian matrices, of which one triangle is
    read."""
    values, vectors = call_library(_side("eigh", UPLO), matrix("eigh", a, square=True))
    return EighResult(real(values), vectors)


@public(np.linalg.eigvalsh)
def eigvalsh(a: Operand, UPLO: str = "L") -> Tracer:
    """The eigenvalues of Hermitian matrices, ascending: (…, n)."""
    return call_library(_side("eigvalsh", UPLO), matrix("eigvalsh", a, square=True))[0]


def _side(name: str, triangle: str) -> str:
    if triangle.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return f"{name}_{'lower' if triangle.upper() == 'L' else 'upper'}"


@public(np.linalg.eig)
def eig(a: Operand) -> EigResult:
    """Eigenvalues and eigenvectors; always complex, where NumPy's dtype depends on the values."""
    return EigResult(*call_library("eig", matrix("eig", a, square=True)))


@public(np.linalg.eigvals)
def eigvals(a: Operand) -> Tracer:
    """The eigenvalues; always complex, where NumPy's dtype depends on the values."""
    return call_library("eigvals", matrix("eigvals", a, square=True))[0]


# Equations


@public(np.linalg.inv)
def inv(a: Operand) -> Tracer:
    """The inverse; LinAlgError for a singular matrix. a: (…, n, n)."""
    return call_library("inv", matrix("inv", a, square=True))[0]


@public(np.linalg.solve)
def solve(a: Operand, b: Operand) -> Tracer:
    """x with a x = b. a: (…, n, n); b: (…, n, k), or (n,)."""
    left, right = matrix("solve", a, square=True), lift(b, "solve")
    if right.ndim == 1:
        return squeeze(call_library("solve", left, expand_dims(right, -1))[0], -1)
    if right.dims[-2] != left.dims[-1]:
        raise located(
            LinAlgShapeError,
            f"solve: a has {left.dims[-1]} columns and b {right.dims[-2]} rows; expected as many",
        )
    return call_library("solve", left, right)[0]


@public(np.linalg.det)
def det(a: Operand) -> Tracer:
    """The determinant: (…)."""
    return call_library("det", matrix("det", a, square=True))[0]


@public(np.linalg.slogdet)
def slogdet(a: Operand) -> SlogdetResult:
    """The determinant's sign (or phase), and the logarithm of its magnitude."""
    sign, log = call_library("slogdet", matrix("slogdet", a, square=True))
    return SlogdetResult(sign, real(log))


@public(np.linalg.lstsq)
def lstsq(a: Operand, b: Operand, rcond: Any = None) -> tuple[Tracer, Tracer, Tracer, Tracer]:
    """
    x with the smallest |a x - b|², those sums of squares, the rank of a, its singular values.

    a: (m, n); b: (m,) or (m, k). The sums of squares are there for m > n, for any rank: NumPy
    leaves them out where the rank is below n, which is not known before the call.
    """
    x, y = matrix("lstsq", a), lift(b, "lstsq")
    dtype = library_dtype("lstsq", (x, y))
    column = y.ndim == 1
    y = expand_dims(y, -1) if column else y
    assume_tall("lstsq", x, 1)
    rows, columns = x.dims[-2:]
    tall = (rows - columns).constant is None or _less(columns, rows)
    if rcond is None:
        more = rows if tall else columns
        rcond = multiply(_epsilon(dtype.numpy), as_size(more))
    limit = astype(lift(rcond, "lstsq"), dtype.numpy)
    solution, squares, rank, values = call_library("lstsq", x, y, limit)
    squares = real(squares)
    if not tall:
        squares = squares[:0]
    if column:
        solution = squeeze(solution, -1)
    return solution, squares, astype(real(rank)[0], np.int32), real(values)


def _epsilon(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def _less(a: Dim, b: Dim) -> bool:
    room = (b - a).constant
    return room is not None and room > 0


@public(np.linalg.pinv)
def pinv(a: Operand, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Tracer:
    """The Moore-Penrose inverse; singular values up to `rcond` times the largest count as 0."""
    given = lift(a, "pinv")
    if given.ndim > 1 and Dim.const(0) in given.dims[-2:]:  # NumPy keeps the dtype of nothing
        rows, columns = given.shape[-2:]
        return zeros((*given.shape[:-2], columns, rows), given.dtype)
    x = matrix("pinv", given, square=hermitian)
    dtype = library_dtype("pinv", (x,))
    if rcond is None:
        rcond = 1e-15 if rtol is None else rtol
    return call_library("pinv", x, astype(rcond, dtype.numpy))[0]


# Numbers that describe a matrix


@public(np.linalg.matrix_rank)
def matrix_rank(
    A: Operand,
    tol: Any = None,
    hermitian: bool = False,
    *,
    rtol: Any = None,
) -> Tracer:
    """How many singular values exceed `tol`: (…)."""
    x = lift(A, "matrix_rank")
    if x.ndim < 2:
        return astype(total(astype(not_equal(x, 0), np.int64)) > 0, np.int64)
    s = svdvals(matrix("matrix_rank", x, square=hermitian))
    if tol is None:
        rows, columns = x.dims[-2:]
        more = columns if _less(rows, columns) else rows
        eps = _epsilon(s.dtype)
        relative = multiply(eps, as_size(more)) if rtol is None else rtol
        tol = multiply(largest(s, -1, keepdims=True), relative)
    else:
        tol = expand_dims(lift(tol), -1) if lift(tol).ndim else tol
    return total(astype(greater(s, tol), np.int64), -1)


@public(np.linalg.cond)
def cond(x: Operand, p: Any = None) -> Tracer:
    """The condition number |x| |x⁻¹|: of singular values for p None, 2 and -2."""
    a = matrix("cond", x, square=p not in (None, 2, -2))
    if p in (None, 2, -2):
        s = svdvals(a)
        return divide(s[..., 0], s[..., -1]) if p != -2 else divide(s[..., -1], s[..., 0])
    axes = (a.ndim - 2, a.ndim - 1)
    return multiply(norm(a, p, axes), norm(inv(a), p, axes))


@public(np.linalg.norm)
def norm(x: Operand, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tracer:  # noqa: A002
    """The norm of vectors or, over two axes, of matrices; without an order, of all elements."""
    a = lift(x, "norm")
    a = astype(a, library_dtype("norm", (a,)).numpy)
    if axis is None and ord is None:
        found = root(total(_squares(ravel(a))))
        return reshape(found, (1,) * a.ndim) if keepdims else found
    axes = normal_axes(axis, a.ndim, "norm")
    if len(axes) == 1:
        return _vector_norm(a, ord, axes, keepdims)
    if len(axes) != 2:
        raise located(LinAlgShapeError, "norm: Improper number of dimensions to norm.")
    return _matrix_norm(a, ord, axes, keepdims)


def _squares(a: Tracer) -> Tracer:
    return real(multiply(a, conjugate(a)))


def _vector_norm(a: Tracer, order: Any, axes: Any, keepdims: bool) -> Tracer:
    if order in (None, 2):
        return root(total(_squares(a), axes, keepdims=keepdims))
    size = magnitude(a)
    if order == np.inf:
        return largest(size, axes, keepdims=keepdims)
    if order == -np.inf:
        return smallest(size, axes, keepdims=keepdims)
    if order == 0:
        return total(astype(not_equal(a, 0), size.dtype), axes, keepdims=keepdims)
    if order == 1:
        return total(size, axes, keepdims=keepdims)
    if isinstance(order, str):
        raise ValueError(f"Invalid norm order {order!r} for vectors")
    powers = total(power(size, order), axes, keepdims=keepdims)
    if order < 0:
        return power(powers, 1 / order)
    away = not_equal(powers, 0)  # as a root's, derivatives at 0 are 0
    return where(away, power(where(away, powers, 1), 1 / order), 0)


def _matrix_norm(a: Tracer, order: Any, axes: tuple[int, ...], keepdims: bool) -> Tracer:
    row, column = axes
    if order in (None, "fro", "f"):
        return root(total(_squares(a), axes, keepdims=keepdims))
    if order in (2, -2, "nuc"):
        s = svdvals(moveaxis(a, (row, column), (-2, -1)))
        pick: Any = {2: s[..., 0], -2: s[..., -1]}.get(order) if order != "nuc" else total(s, -1)
        return expand_dims(pick, tuple(sorted(axes))) if keepdims else pick
    if order not in (1, -1, np.inf, -np.inf):
        raise ValueError("Invalid norm order for matrices.")
    along, other = (row, column) if order in (1, -1) else (column, row)
    sums = total(magnitude(a), along, keepdims=True)
    found = (largest if order > 0 else smallest)(sums, other, keepdims=True)
    return found if keepdims else squeeze(found, axes)


@public(getattr(np.linalg, "vector_norm", None))
def vector_norm(x: Operand, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tracer:  # noqa: A002
    """The norm of all elements, or along axes."""
    a = lift(x, "vector_norm")
    a = astype(a, library_dtype("vector_norm", (a,)).numpy)
    return _vector_norm(a, ord, normal_axes(axis, a.ndim, "vector_norm"), keepdims)


@public(getattr(np.linalg, "matrix_norm", None))
def matrix_norm(x: Operand, /, *, keepdims: bool = False, ord: Any = "fro") -> Tracer:  # noqa: A002
    """The norm of each matrix."""
    a = matrix("matrix_norm", x)
    return norm(a, ord, (a.ndim - 2, a.ndim - 1), keepdims)


# Products


@public(np.linalg.matrix_power)
def matrix_power(a: Operand, n: int) -> Tracer:
    """A multiplied with itself n times, by squaring; of the inverse for negative n."""
    x = matrix("matrix_power", a, square=True)
    if n == 0:
        unit = eye(as_size(x.dims[-1]), dtype=x.dtype)
        return multiply(unit, lift(1).astype(x.dtype)) + multiply(x, 0)
    if n < 0:
        x, n = inv(x), -n
    found: Tracer | None = None
    while n:
        if n & 1:
            found = x if found is None else matmul(found, x)
        n >>= 1
        x = matmul(x, x) if n else x
    assert found is not None
    return found


@public(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Tracer:
    """The product of several matrices, in the cheapest order; a vector may stand at either end."""
    if out is not None:
        raise located(NotSupportedError, "multi_dot: out= is not supported yet.")
    operands = [lift(x, "multi_dot") for x in arrays]
    if len(operands) < 2:
        raise ValueError("Expecting at least two arrays.")
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [letters[k : k + 2] for k in range(len(operands))]
    words[0] = words[0][1:] if operands[0].ndim == 1 else words[0]
    words[-1] = words[-1][:1] if operands[-1].ndim == 1 else words[-1]
    kept = words[0][:-1] + words[-1][1:]
    return einsum(f"{','.join(words)}->{kept}", *operands)


@public(getattr(np.linalg, "trace", None))
def trace(x: Operand, /, *, offset: int = 0, dtype: Any = None) -> Tracer:
    """The sum of the diagonal of each matrix."""
    return total(any_diagonal(x, offset, -2, -1), -1, dtype)


@public(getattr(np.linalg, "diagonal", None))
def diagonal(x: Operand, /, *, offset: int = 0) -> Tracer:
    """The diagonal of each matrix."""
    return any_diagonal(x, offset, -2, -1)


@public(getattr(np.linalg, "outer", None))
def outer(x1: Operand, x2: Operand, /) -> Tracer:
    """out[i, j] = x1[i] * x2[j]."""
    return flat_outer(x1, x2)


@public(getattr(np.linalg, "vecdot", None))
def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> Tracer:
    """The sum of conj(x1) * x2 along an axis."""
    products = multiply(own_conjugate(strong(x1)), strong(x2))
    return total(products, axis, products.dtype)


@public(np.linalg.tensorsolve)
def tensorsolve(a: Operand, b: Operand, axes: Any = None) -> Tracer:
    """x with tensordot(a, x, x.ndim) = b."""
    if axes is not None:
        raise located(NotSupportedError, "tensorsolve: axes= is not supported yet; transpose a.")
    x, y = lift(a, "tensorsolve"), lift(b, "tensorsolve")
    rest = x.shape[y.ndim :]
    count = y.size
    return reshape(solve(reshape(x, (count, count)), ravel(y)), rest)


@public(np.linalg.tensorinv)
def tensorinv(a: Operand, ind: int = 2) -> Tracer:
    """The inverse of a for tensordot over its first `ind` axes."""
    x = lift(a, "tensorinv")
    shape = (*x.shape[ind:], *x.shape[:ind])
    count: Any = 1
    for size in x.shape[ind:]:
        count = count * size
    return reshape(inv(reshape(x, (count, count))), shape)


__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


@public(getattr(np.linalg, "matmul", None))
def matrix_product(x1: Operand, x2: Operand, /) -> Tracer:
    """``numpy.linalg.matmul``: the product of matrices."""
    return matmul(x1, x2)


@public(getattr(np.linalg, "tensordot", None))
def product_over_axes(x1: Operand, x2: Operand, /, *, axes: Any = 2) -> Tracer:
    """``numpy.linalg.tensordot``."""
    return tensordot(x1, x2, axes)


@public(getattr(np.linalg, "matrix_transpose", None))
def transposed_matrix(x: Operand, /) -> Tracer:
    """``numpy.linalg.matrix_transpose``."""
    return matrix_transpose(x)


def __getattr__(name: str) -> Any:
    numpys = getattr(np.linalg, name, None)
    if name.startswith("_") or (found := implementation_of(numpys)) is None:
        raise AttributeError(f"mlc.numpy.linalg has no name {name!r}")
    return found
