"""Element types: one row per dtype, with its IR type, its NumPy dtype and its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from xdsl.dialects.builtin import Float32Type, Float64Type, IntegerType
from xdsl.ir import Attribute

Kind = Literal["bool", "int", "float"]


@dataclass(frozen=True, kw_only=True)
class DType:
    """One element type of the tensor level."""

    name: str
    ir: Attribute
    numpy: np.dtype[np.generic]
    kind: Kind
    bytes: int  # in memory, per element
    lowest: int | float  # identity of max
    highest: int | float  # identity of min


def _int(name: str, bits: int) -> DType:
    return DType(
        name=name,
        ir=IntegerType(bits),
        numpy=np.dtype(f"int{bits}"),
        kind="int",
        bytes=bits // 8,
        lowest=-(2 ** (bits - 1)),
        highest=2 ** (bits - 1) - 1,
    )


F32 = DType(
    name="f32",
    ir=Float32Type(),
    numpy=np.dtype("float32"),
    kind="float",
    bytes=4,
    lowest=float("-inf"),
    highest=float("inf"),
)
F64 = DType(
    name="f64",
    ir=Float64Type(),
    numpy=np.dtype("float64"),
    kind="float",
    bytes=8,
    lowest=float("-inf"),
    highest=float("inf"),
)
I32 = _int("i32", 32)
I64 = _int("i64", 64)
BOOL = DType(
    name="bool",
    ir=IntegerType(1),
    numpy=np.dtype("bool"),
    kind="bool",
    bytes=1,
    lowest=0,
    highest=1,
)

DTYPES = (BOOL, I32, I64, F32, F64)
_BY_IR = {dtype.ir: dtype for dtype in DTYPES}
_BY_NAME = {dtype.name: dtype for dtype in DTYPES}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES}


def dtype_of(element_type: Attribute) -> DType:
    """The row of an IR element type; TypeError for one that no dtype has."""
    found = _BY_IR.get(element_type)
    if found is None:
        raise TypeError(f"element type {element_type} is not one of {', '.join(_BY_NAME)}")
    return found


def named_dtype(name: str) -> DType:
    """The row called `name`; TypeError otherwise."""
    found = _BY_NAME.get(name)
    if found is None:
        raise TypeError(f"dtype {name!r} is not one of {', '.join(_BY_NAME)}")
    return found


def numpy_dtype(dtype: np.dtype[np.generic]) -> DType:
    """The row of a NumPy dtype in native byte order; TypeError otherwise."""
    found = _BY_NUMPY.get(dtype)
    if found is None:
        known = ", ".join(str(row.numpy) for row in DTYPES)
        raise TypeError(f"arrays of dtype {dtype} are not supported; expected one of {known}")
    return found
