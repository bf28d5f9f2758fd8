"""Calls of library routines on traced arrays, and their results taken apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dims import Dim, product, tensor_type
from mlc.dialects.dtypes import C64, C128, F32, F64, DType
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.library import ROUTINES, LibraryOp, split_cores
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.shape import SliceOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.shaping import reshaped
from mlc.frontend.numpy.values import broadcast_shapes, common_dtype, convert, lift, result, spread
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any
ZERO, ONE = Dim.const(0), Dim.const(1)
_TALL = ("qr_reduced", "qr_r", "svd", "lstsq", "pinv")
"""Routines with results as large as the smaller side of a matrix: see `smaller`."""


class LinAlgShapeError(ShapeError, np.linalg.LinAlgError):
    """A matrix of a shape that the routine does not take: NumPy's LinAlgError."""


class LinAlgDTypeError(DTypeError):
    """A dtype that LAPACK does not have."""


def library_dtype(function: str, operands: tuple[Tracer, ...]) -> DType:
    """float32, float64 or their complex numbers; float64 for integers."""
    dtype = common_dtype(function, operands)
    if dtype.kind in ("int", "uint", "bool"):
        return F64
    if dtype not in (F32, F64, C64, C128):
        raise located(
            LinAlgDTypeError,
            f"{function}: array type {dtype.numpy} is unsupported.",
            remedy="Convert with .astype(np.float32).",
        )
    return dtype


def matrix(function: str, a: Operand, *, square: bool = False) -> Tracer:
    """The operand, which holds at least one matrix."""
    x = lift(a, function)
    if x.ndim < 2:
        raise located(
            LinAlgShapeError,
            f"{function}: {x.ndim}-dimensional array given. Array must be at least two-dimensional",
        )
    if square and x.dims[-1] != x.dims[-2]:
        raise located(
            LinAlgShapeError,
            f"{function}: Last 2 dimensions of the array must be square, found"
            f" {x.dims[-2]} and {x.dims[-1]}",
        )
    return x


def assume_tall(function: str, x: Tracer, more: int = 0) -> None:
    """At least as many rows as columns, and so many more, where the sizes do not say it."""
    rows, columns = x.dims[-2:]
    if (rows - columns).constant is None:
        here().assume(rows - columns - more, f"{function}: {rows} rows, {columns} columns")


def call_library(routine: str, *operands: Tracer, function: str = "") -> tuple[Tracer, ...]:
    """The routine's results; leading axes are broadcast together."""
    function = function or routine
    dtype = library_dtype(function, operands)
    ranks = ROUTINES[routine].cores
    if routine.startswith(_TALL):
        assume_tall(function, operands[0])
    leads = [x.dims[: x.ndim - rank] for x, rank in zip(operands, ranks, strict=True)]
    lead = broadcast_shapes(function, leads)
    values = [
        spread(convert(x.value, dtype), (*lead, *x.dims[x.ndim - rank :]))
        for x, rank in zip(operands, ranks, strict=True)
    ]
    packed = here().emit(LibraryOp, *values, routine=routine)
    _, cores = split_cores(routine, [tensor_of(v) for v in values])
    shapes = ROUTINES[routine].shapes(cores)
    element = tensor_of(packed).element_type
    found: list[Tracer] = []
    at = ZERO
    for shape in shapes:
        count = product(shape)
        part = packed
        if len(shapes) > 1:
            part = here().emit(
                SliceOp,
                packed,
                offsets=(*(ZERO for _ in lead), at),
                steps=(*(ONE for _ in lead), ONE),
                declared=tensor_type(element, (*lead, count)),
            )
        found.append(result(reshaped(part, (*lead, *shape))))
        at = at + count
    return tuple(found)
