"""Polynomials by their coefficients, the highest power first."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.compositions.making import vander
from mlc.frontend.numpy.compositions.signals import convolve
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.values import strong
from mlc.frontend.trace.tracer import Tracer

Operand = Any
LEADING = "leading zeros stay"


def _coefficients(p: Operand) -> Tracer:
    x = strong(p)
    return mnp.reshape(x, (-1,)) if not x.ndim else x


@composed(np.polyval)
def polyval(p: Operand, x: Operand) -> Tracer:
    """The values at x, by Horner's scheme."""
    coefficients, at = strong(p), strong(x)
    found: Any = mnp.zeros_like(at)
    for k in range(coefficients.shape[0]):
        found = found * at + coefficients[k]
    return found


def _even(a1: Operand, a2: Operand) -> tuple[Tracer, Tracer]:
    """Both with as many coefficients."""
    p, q = _coefficients(a1), _coefficients(a2)
    more = q.shape[0] - p.shape[0]
    if more > 0:
        p = mnp.concatenate([mnp.zeros(more, p.dtype), p])
    elif more < 0:
        q = mnp.concatenate([mnp.zeros(-more, q.dtype), q])
    return p, q


@composed(np.polyadd)
def polyadd(a1: Operand, a2: Operand) -> Tracer:
    """The sum."""
    p, q = _even(a1, a2)
    return p + q


@composed(np.polysub)
def polysub(a1: Operand, a2: Operand) -> Tracer:
    """The difference."""
    p, q = _even(a1, a2)
    return p - q


@composed(np.polymul, but=LEADING)
def polymul(a1: Operand, a2: Operand) -> Tracer:
    """The product."""
    return convolve(_coefficients(a1), _coefficients(a2))


@composed(np.polydiv, but="the remainder keeps its leading zeros")
def polydiv(u: Operand, v: Operand) -> tuple[Tracer, Tracer]:
    """The quotient and the remainder."""
    top, below = _coefficients(u) + 0.0, _coefficients(v) + 0.0
    row = np.result_type(top.dtype, below.dtype)
    rest, below = top.astype(row), below.astype(row)
    m, n = int(rest.shape[0]) - 1, int(below.shape[0]) - 1
    if m < n:
        return mnp.zeros(1, row), rest
    parts: list[Tracer] = []
    for k in range(m - n + 1):
        factor = rest[k] / below[0]
        parts.append(factor)
        taken = rest[k : k + n + 1] - factor * below
        rest = mnp.concatenate([rest[:k], taken, rest[k + n + 1 :]])
    tail = rest[m - n + 1 :]
    return mnp.stack(parts), tail if n else mnp.zeros(1, row)


@composed(np.polyder)
def polyder(p: Operand, m: int = 1) -> Tracer:
    """The coefficients of the m-th derivative."""
    if int(m) != m or m < 0:
        raise located(ShapeError, "polyder: order of derivative must be positive (see polyint)")
    found = strong(p)
    for _ in range(int(m)):
        powers = mnp.arange(found.shape[0] - 1, 0, -1)
        found = found[:-1] * powers
    return found


@composed(np.polyint)
def polyint(p: Operand, m: int = 1, k: Any = None) -> Tracer:
    """The coefficients of the m-th integral, whose constants are k."""
    if int(m) != m or m < 0:
        raise located(ShapeError, "polyint: order of integral must be positive (see polyder)")
    constants = [0.0] * m if k is None else list(np.atleast_1d(k).tolist())
    constants = constants * m if len(constants) == 1 and m > 1 else constants
    if len(constants) < m:
        message = "polyint: k must be a scalar or a rank-1 array of length 1 or >m."
        raise located(ShapeError, message)
    found = strong(p)
    for step in range(m):
        powers = mnp.arange(found.shape[0], 0, -1)
        found = mnp.concatenate([found / powers, mnp.reshape(constants[step] + 0.0, (1,))])
    return found


@composed(np.poly, but="of complex zeros the coefficients stay complex")
def poly(seq_of_zeros: Operand) -> Tracer:
    """The coefficients of the polynomial with the zeros, or of a matrix's characteristic one."""
    zeros = strong(seq_of_zeros)
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1]:
        zeros = mnp.linalg.eigvals(zeros)
    elif zeros.ndim == 0:
        zeros = mnp.reshape(zeros, (1,))
    elif zeros.ndim != 1:
        raise located(ShapeError, "poly: input must be 1d or non-empty square 2d array.")
    row = np.result_type(zeros.dtype, np.float64) if zeros.row.kind != "float" else zeros.dtype
    zeros = zeros.astype(row)
    found = mnp.ones(1, row)
    for k in range(zeros.shape[0]):
        moved = mnp.concatenate([mnp.zeros(1, row), found]) * zeros[k]
        found = mnp.concatenate([found, mnp.zeros(1, row)]) - moved
    return found


@composed(np.roots, but="the first coefficient must not be 0; the result is complex")
def roots(p: Operand) -> Tracer:
    """The zeros of a polynomial: the eigenvalues of its companion matrix."""
    coefficients = mnp.ravel(strong(p))
    if strong(p).ndim > 1:
        raise located(ShapeError, "roots: input must be a rank-1 array.")
    if coefficients.row.kind not in ("float", "complex"):
        coefficients = coefficients.astype(np.float64)
    count = int(coefficients.shape[0])
    if count < 2:
        return mnp.array(np.array([], np.complex128))
    companion = mnp.eye(count - 1, k=-1, dtype=coefficients.dtype)
    first = -coefficients[1:] / coefficients[0]
    return mnp.linalg.eigvals(mnp.concatenate([first[None], companion[1:]]))


@composed(np.polyfit, but="only the coefficients: full= and cov= are refused")
def polyfit(
    x: Operand,
    y: Operand,
    deg: int,
    rcond: Any = None,
    full: bool = False,
    w: Any = None,
    cov: Any = False,
) -> Tracer:
    """The coefficients with the least squares of errors at x."""
    if full or cov:
        raise located(NotSupportedError, "polyfit: full=True and cov=True are not supported.")
    places, values = strong(x) + 0.0, strong(y) + 0.0
    if places.ndim != 1 or values.ndim not in (1, 2):
        raise located(DTypeError, "polyfit: expected 1D vector for x, 1D or 2D array for y")
    if places.shape[0] != values.shape[0]:
        raise located(DTypeError, "polyfit: expected x and y to have same length")
    if deg < 0:
        raise located(ShapeError, "polyfit: expected deg >= 0")
    if rcond is None:
        rcond = mnp.asarray(places.shape[0]) * float(np.finfo(places.dtype).eps)
    left = vander(places, deg + 1)
    if w is not None:
        weight = strong(w) + 0.0
        if weight.ndim != 1:
            raise located(DTypeError, "polyfit: expected a 1-d array for weights")
        left = left * weight[:, None]
        values = values * (weight[:, None] if values.ndim == 2 else weight)
    scale = mnp.sqrt(mnp.sum(left * left, 0))
    found = mnp.linalg.lstsq(left / scale, values, rcond)[0]
    return mnp.transpose(mnp.transpose(found) / scale)
