"""Cases of convolutions, reductions over windows, and library routines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, DimsAttr, tensor_type
from mlc.dialects.dtypes import BOOL, C64, C128, DTYPES, F32, F64, I64, DType
from mlc.dialects.tensor.library import ROUTINES, TRANSFORMS, LibraryOp
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.window import ConvOp, WindowOp, windows_of
from mlc.dialects.tensor.window_letters import flat_word, split_windows
from tests.every_op.cases import Case, Operand, always
from tests.every_op.native import Array
from tests.every_op.shapes import ShapeClass, Sizes
from tests.every_op.values import (
    Exact,
    Fill,
    OfLargest,
    Sums,
    Tolerance,
    anything,
    near_one,
    ordinary,
    ties,
)

Axes = tuple[str | int, ...]

CONVOLUTIONS: tuple[tuple[str, Axes, Axes, Axes], ...] = (
    # letters; axes of lhs, rhs and result
    ("ac(u+i),fci->afu", ("m", "k", "n + 2"), (4, "k", 3), ("m", 4, "n")),
    ("a(2u+i)c,icf->auf", ("m", "2*k + 2", 3), (3, 3, "n"), ("m", "k", "n")),
    ("ac(u+2i),ci->acu", ("m", "k", "n + 4"), ("k", 3), ("m", "k", "n")),
)
MORE_CONVOLUTIONS: tuple[tuple[str, Axes, Axes, Axes], ...] = (
    ("ac(2u+3i)(v+j),fcij->afuv", (2, 3, "2*m + 3", "n + 2"), (5, 3, 2, 3), (2, 5, "m", "n")),
    ("agc(u+i),gfci->agfu", ("m", 2, 3, "n + 2"), (2, "k", 3, 3), ("m", 2, "k", "n")),
    # what the transposes are made of: the window's letter in the result, in either place
    ("ac(i+2u),afu->fci", ("m", 3, "2*k + 1"), ("m", "n", "k"), ("n", 3, 3)),
    ("(u+i),i->u", ("n + 2",), (3,), ("n",)),
)

PACKED_CONVOLUTIONS: tuple[tuple[str, Axes, Axes, Axes], ...] = (
    ("ac(u+i)(v+j),fcij->afuv", (2, 20, "k + 2", "n + 2"), (33, 20, 3, 3), (2, 33, "k", "n")),
    ("a(u+i)(v+j)c,ijcf->auvf", (2, "k + 2", "n + 2", 20), (3, 3, 20, "m"), (2, "k", "n", "m")),
)

WINDOWS: tuple[tuple[str, Axes, tuple[int, ...], Axes], ...] = (
    # letters; axes of the operand; sizes of the windows; axes of the result
    ("ac(u+i)->acu", ("m", "k", "n + 2"), (3,), ("m", "k", "n")),
    ("a(2u+i)c->auc", ("m", "2*k + 2", "n"), (3,), ("m", "k", "n")),
)
MORE_WINDOWS: tuple[tuple[str, Axes, tuple[int, ...], Axes], ...] = (
    ("a(2u+i)(3v+2j)->auv", (3, "2*m", "3*n + 2"), (2, 2), (3, "m", "n")),
    ("a(u+i)->u", ("m", "n + 2"), (3,), ("n",)),
)


def _wide(dtype: DType) -> bool:
    return dtype in (F32, F64, I64)


def convolutions(c: ShapeClass) -> Iterator[Case]:
    """Lines on every dtype, the others on three."""
    for dtype in (d for d in DTYPES if d.kind != "storage"):
        forms = (*CONVOLUTIONS, *MORE_CONVOLUTIONS) if _wide(dtype) else CONVOLUTIONS
        forms += PACKED_CONVOLUTIONS if dtype in (F64, I64) else ()
        for letters, lhs, rhs, result in forms:
            fill = ordinary if dtype.is_inexact or dtype is BOOL else anything
            operands = tuple(Operand(dtype, c.dims(*axes), fill) for axes in (lhs, rhs))
            declared = tensor_type(dtype.ir, c.dims(*result))
            yield Case(
                ConvOp,
                letters,
                operands,
                partial(_conv, letters, declared),
                _judged_conv(letters) if dtype.is_inexact else Exact(),
            )


def _conv(letters: str, declared: object, b: OpBuilder, x: Sequence[SSAValue]) -> SSAValue:
    return b(ConvOp, *x, letters=letters, declared=declared)  # pyright: ignore[reportArgumentType]


def _judged_conv(letters: str) -> Tolerance:
    """Within the bound of a sum of as many terms."""
    (left, right), result = split_windows(letters)
    words = [flat_word(left), flat_word(right)]

    def sizes(x: Array, y: Array) -> dict[str, int]:
        found = dict(zip(words[1], y.shape, strict=True))
        for axis, n in zip(left, x.shape, strict=True):
            if len(axis) == 1:
                found[axis[0][1]] = n
        for axis, n in zip(left, x.shape, strict=True):
            if len(axis) == 2:
                known = next(k for k, (_, letter) in enumerate(axis) if letter in found)
                (scale, letter), (step, other) = axis[known], axis[1 - known]
                found[other] = max((n - 1 - (found[letter] - 1) * scale) // step + 1, 0)
        return found

    def terms(arrays: Sequence[Array], want: Array) -> int:
        found = sizes(*arrays)
        summed = {letter for word in words for letter in word} - set(result)
        return int(np.prod([found[letter] for letter in summed]))

    def total(x: Array, y: Array) -> Array:
        found = sizes(x, y)
        view = windows_of(x, left, found)
        return np.asarray(np.einsum(f"{words[0]},{words[1]}->{result}", view, y))

    return Sums(total, terms, signed_zero=False)


def windows(c: ShapeClass) -> Iterator[Case]:
    """Every monoid on every dtype over windows of a line, some over windows of an image."""
    for name, monoid in MONOIDS.items():
        single = len(monoid.state(F32)) > 1
        for dtype in (d for d in DTYPES if d.kind in monoid.kinds):
            forms = (*WINDOWS, *MORE_WINDOWS) if _wide(dtype) else WINDOWS
            for letters, axes, window, result in forms:
                (word,), kept = split_windows(letters)
                if single and len(flat_word(word)) != len(kept) + 1:
                    continue
                # over an axis that may be empty, a largest element need not exist
                plain = [a[0][1] for a in word if len(a) == 1 and a[0][1] not in kept]
                if plain and monoid.needs_element:
                    continue
                tolerance, fill = _judged_window(name, dtype, letters, window)
                declared = tensor_type(monoid.result(dtype).ir, c.dims(*result))
                yield Case(
                    WindowOp,
                    f"{name} {letters}",
                    (Operand(dtype, c.dims(*axes), fill),),
                    partial(_window, name, letters, window, declared),
                    tolerance,
                )


def _window(
    monoid: str,
    letters: str,
    window: tuple[int, ...],
    declared: object,
    b: OpBuilder,
    x: Sequence[SSAValue],
) -> SSAValue:
    sizes = DimsAttr(tuple(map(Dim.const, window)))
    return b(WindowOp, *x, monoid=monoid, letters=letters, window=sizes, declared=declared)  # pyright: ignore[reportArgumentType]


def _judged_window(
    name: str, dtype: DType, letters: str, window: tuple[int, ...]
) -> tuple[Tolerance, Fill]:
    if not dtype.is_inexact:
        return Exact(), ties if name.startswith("arg") else anything
    if name not in ("sum", "prod"):
        return Exact(signed_zero=False), ties if name.startswith("arg") else anything
    (axes,), result = split_windows(letters)
    word = flat_word(axes)
    summed = [k for k, letter in enumerate(word) if letter not in result]

    def total(x: Array) -> Array:
        sizes: dict[str, int] = {}
        sides = iter(window)
        for axis, n in zip(axes, x.shape, strict=True):
            if len(axis) == 1:
                sizes[axis[0][1]] = n
                continue
            (scale, outer), (step, inner) = axis
            sizes[inner] = next(sides)
            sizes[outer] = max((n - 1 - (sizes[inner] - 1) * step) // scale + 1, 0)
        combine = np.sum if name == "sum" else np.prod
        return np.asarray(combine(windows_of(x, axes, sizes), axis=tuple(summed)))

    def terms(arrays: Sequence[Array], want: Array) -> int:
        return arrays[0].size // max(want.size, 1) * int(np.prod(window)) + 9

    return Sums(total, terms, signed_zero=False), ordinary if name == "sum" else near_one


# Libraries


OF_FACTORS = ("det", "slogdet", "lstsq", "pinv", "adjugate", "any_inverse")
"""Routines whose last steps are sums and products of what LAPACK has found."""


def dominant(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Matrices with a large diagonal: regular, and positive definite."""
    found = ordinary(rng, dtype, shape) / 64
    diagonal = range(min(shape[-2:]))
    found[..., diagonal, diagonal] = 5 + rng.random((*shape[:-2], len(diagonal)))
    return found.astype(dtype.numpy)


def routines(c: ShapeClass) -> Iterator[Case]:
    """Every routine on every dtype that it takes: stacks of square matrices, or rows."""
    for name, row in ROUTINES.items():
        for dtype in (d for d in (F32, F64, C64, C128) if d.kind in row.kinds):
            if row.cores == (1,):
                operands = (Operand(dtype, c.dims("m", "n + 1")),)
            else:
                square = Operand(dtype, c.dims("m", "k", "k"), dominant)
                right = Operand(dtype, c.dims("m", "k", "n"))
                limit = Operand(dtype, c.dims("m"), _small)
                more = [right if rank == 2 else limit for rank in row.cores[1:]]
                operands = (square, *more)
            make, defined = partial(_library, name), _defined(name, c)
            tolerance = _transformed(name) if name in TRANSFORMS else Exact()
            if name in OF_FACTORS:
                tolerance = OfLargest(200)
            yield Case(LibraryOp, name, operands, make, tolerance, defined=defined)


def _transformed(name: str) -> Sums:
    """Code computes transforms by stages of its own; each result is a sum of all numbers."""

    def total(x: Array) -> Array:
        sums = x.sum(axis=-1, keepdims=True)
        return sums if name in ("fft", "rfft") else 2 * sums / max(x.shape[-1], 1)

    return Sums(total, lambda arrays, _: arrays[0].shape[-1], signed_zero=False, scale_only=True)


def _small(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    return np.full(shape, 1e-6, dtype.numpy)


def _library(name: str, b: OpBuilder, x: Sequence[SSAValue]) -> SSAValue:
    return b(LibraryOp, *x, routine=name)


def _defined(name: str, c: ShapeClass) -> Callable[[Sizes], bool]:
    """A real transform of an even length has at least two elements."""
    if name != "irfft_even":
        return always
    return lambda sizes: c.dims("n")[0].evaluate(sizes) > 0


WINDOWED: Mapping[str, Callable[[ShapeClass], Iterator[Case]]] = MappingProxyType(
    {"convolutions": convolutions, "windows": windows, "routines": routines}
)
