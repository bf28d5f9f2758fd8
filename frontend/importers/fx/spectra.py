# pyright: basic
"""Rows of complex numbers and of Fourier transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.frontend.importers.fx.run import At, row
from mlc.frontend.numpy.complexes import of_parts

Array = Any

_NORMS = ("backward", "ortho", "forward")
"""NumPy's names of PyTorch's numbers, for a transform there; back they are the other way round."""


@row("complex")
def _complex(at: At, real: Array, imaginary: Array) -> Array:
    pair = real, imaginary
    parts: list[Any] = [np.broadcast_to(at.operand(x, x.dtype), at.shape) for x in pair]
    return of_parts(*parts)


@row("polar")
def _polar(at: At, length: Array, angle: Array) -> Array:
    return _complex(at, length * np.cos(angle), length * np.sin(angle))


@row("view_as_real")
def _as_real(at: At, x: Array) -> Array:
    return np.stack([x.real, x.imag], -1)


@row("view_as_complex")
def _as_complex(at: At, x: Array) -> Array:
    return _complex(at, x[..., 0], x[..., 1])


@row("_neg_view")
def _negative(at: At, x: Array) -> Array:
    return -x


@row("_fft_c2c")
def _transform(at: At, x: Array, axes: Sequence[int], norm: int, there: bool) -> Array:
    found, way = x.astype(at.dtype), np.fft.fftn if there else np.fft.ifftn
    return way(found, axes=tuple(axes), norm=_norm(norm, there))


@row("_fft_r2c")
def _transform_of_reals(at: At, x: Array, axes: Sequence[int], norm: int, half: bool) -> Array:
    way = np.fft.rfftn if half else np.fft.fftn
    return way(x, axes=tuple(axes), norm=_norm(norm, True))


@row("_fft_c2r")
def _transform_to_reals(at: At, x: Array, axes: Sequence[int], norm: int, last: Any) -> Array:
    sizes = [x.shape[axis] for axis in axes[:-1]]
    return np.fft.irfftn(x, (*sizes, last), tuple(axes), _norm(norm, False))


def _norm(number: int, there: bool) -> Any:
    """Which way divides: PyTorch's number says by how much this one does."""
    return _NORMS[number if there else (2, 1, 0)[number]]
