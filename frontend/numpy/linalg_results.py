"""What factorisations give: tuples with NumPy's names."""

from __future__ import annotations

from typing import NamedTuple

from mlc.frontend.trace.tracer import Tracer


class QRResult(NamedTuple):
    """A = Q R."""

    Q: Tracer
    R: Tracer


class EighResult(NamedTuple):
    """Of a Hermitian matrix, the eigenvalues in ascending order and eigenvectors as columns."""

    eigenvalues: Tracer
    eigenvectors: Tracer


class EigResult(NamedTuple):
    """Eigenvalues in no order and eigenvectors as columns."""

    eigenvalues: Tracer
    eigenvectors: Tracer


class SVDResult(NamedTuple):
    """A = U diag(S) Vh."""

    U: Tracer
    S: Tracer
    Vh: Tracer


class SlogdetResult(NamedTuple):
    """det(A) = sign * exp(logabsdet)."""

    sign: Tracer
    logabsdet: Tracer
