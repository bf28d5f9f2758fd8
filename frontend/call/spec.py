"""`mlc.TensorSpec`: an argument's shape and dtype without its data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import DTYPES, DType, named_dtype, numpy_dtype
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True, init=False)
class TensorSpec:
    """
    ``mlc.TensorSpec("B", 784, dtype="f32")``: B is a symbolic size, 784 a fixed one. `unit`: what
    the elements count, for people: the header for C says it.

    As an argument of `lower`, or as a parameter's annotation.
    """

    dims: Shape
    dtype: DType
    unit: str
    __mlc_leaf__: ClassVar[bool] = True  # not a container, though a dataclass

    def __init__(self, *dims: int | str | Dim, dtype: Any = "f32", unit: str = "") -> None:
        object.__setattr__(self, "dims", tuple(map(_dim, dims)))
        object.__setattr__(self, "dtype", _row(dtype))
        object.__setattr__(self, "unit", unit)

    def __repr__(self) -> str:
        sizes = [str(d) if d.constant is not None else repr(str(d)) for d in self.dims]
        said = [f"dtype={self.dtype.name!r}", *([f"unit={self.unit!r}"] if self.unit else [])]
        return f"TensorSpec({', '.join([*sizes, *said])})"


def open_sizes(parameter: str, shapes: Iterable[Shape]) -> dict[str, dict[int, str]] | bool:
    """Symbolic sizes of what ``*parameter`` takes, as ``dynamic=`` of `mlc.compile` says them."""
    found = {
        f"{parameter}[{k}]": {axis: str(d) for axis, d in enumerate(shape) if d.constant is None}
        for k, shape in enumerate(shapes)
    }
    return {name: axes for name, axes in found.items() if axes} or False


def _dim(size: int | str | Dim) -> Dim:
    try:
        dim = Dim.of(size)
    except (ValueError, TypeError) as error:
        raise ShapeError(f"TensorSpec: {error}") from None
    if dim.constant is not None and dim.constant < 0:
        raise ShapeError(f"TensorSpec: the size {dim} is negative")
    return dim


def _row(dtype: Any) -> DType:
    if isinstance(dtype, DType):
        return dtype
    try:
        if isinstance(dtype, str) and dtype in {row.name for row in DTYPES}:
            return named_dtype(dtype)
        return numpy_dtype(np.dtype(dtype))
    except TypeError as error:
        known = ", ".join(row.name for row in DTYPES)
        raise DTypeError(f"TensorSpec: {error}; expected one of {known}") from None
