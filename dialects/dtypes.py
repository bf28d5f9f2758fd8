"""Element types: one row per dtype, with its IR type, its NumPy dtype and its size."""

from __future__ import annotations

from typing import Literal

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float8E8M0FNUType,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
    Signedness,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from mlc.lazy_dataclass import dataclass

Kind = Literal["bool", "int", "uint", "float", "complex", "storage"]
"""int and uint: signed and unsigned integers. storage: is only converted, never computed with."""

KINDS: tuple[Kind, ...] = ("bool", "int", "uint", "float", "complex", "storage")
NUMBERS: tuple[Kind, ...] = ("float", "int", "uint", "complex")
REALS: tuple[Kind, ...] = ("float", "int", "uint")


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

    @property
    def is_integer(self) -> bool:
        """Whether it is an integer, signed or not."""
        return self.kind in ("int", "uint")

    @property
    def is_inexact(self) -> bool:
        """Whether it is a real or complex floating dtype."""
        return self.kind in ("float", "complex")

    @property
    def stores_integers(self) -> bool:
        """Whether it is of 2 or 4 bits, which stand in the low ones of a byte."""
        return self.kind == "storage" and isinstance(self.ir, IntegerType)

    @property
    def bits(self) -> int:
        """Of an element; those of less than a byte are its low ones."""
        if self.stores_integers:
            return (int(self.highest) - int(self.lowest)).bit_length()
        return 4 if self.name.startswith("f4") else 8 * self.bytes

    @property
    def register(self) -> Attribute:
        """The type below the tensor level: integers have no sign there, storage is its bits."""
        return IntegerType(8 * self.bytes) if self.kind in ("uint", "storage") else self.ir

    @property
    def accumulator(self) -> DType:
        """The dtype in which its sums and products are accumulated (D11)."""
        return F32 if self.kind == "float" and self.bytes < 4 else self

    @property
    def unsigned(self) -> DType:
        """The unsigned integers of as many bytes."""
        return next(d for d in DTYPES if d.kind == "uint" and d.bytes == self.bytes)

    @property
    def part(self) -> DType:
        """The dtype of a complex dtype's real and imaginary part; itself for any other."""
        return {"c64": F32, "c128": F64}.get(self.name, self)


def _int(bits: int) -> DType:
    return DType(
        name=f"i{bits}",
        ir=IntegerType(bits),
        numpy=np.dtype(f"int{bits}"),
        kind="int",
        bytes=bits // 8,
        lowest=-(2 ** (bits - 1)),
        highest=2 ** (bits - 1) - 1,
    )


def _uint(bits: int) -> DType:
    return DType(
        name=f"u{bits}",
        ir=IntegerType(bits, Signedness.UNSIGNED),
        numpy=np.dtype(f"uint{bits}"),
        kind="uint",
        bytes=bits // 8,
        lowest=0,
        highest=2**bits - 1,
    )


def _stored(bits: int, sign: str) -> DType:
    """Integers of 2 or 4 bits. `sign`: "i" or "u"."""
    low = -(2 ** (bits - 1)) if sign == "i" else 0
    return DType(
        name=f"{sign}{bits}",
        ir=IntegerType(bits) if sign == "i" else IntegerType(bits, Signedness.UNSIGNED),
        numpy=np.dtype(getattr(ml_dtypes, f"{'' if sign == 'i' else 'u'}int{bits}")),
        kind="storage",
        bytes=1,
        lowest=low,
        highest=low + 2**bits - 1,
    )


def _float(name: str, ir: Attribute, numpy: object, kind: Kind = "float") -> DType:
    dtype: np.dtype[np.generic] = np.dtype(numpy)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return DType(
        name=name,
        ir=ir,
        numpy=dtype,
        kind=kind,
        bytes=dtype.itemsize,
        lowest=float("-inf"),
        highest=float("inf"),
    )


BOOL = DType(
    name="bool",
    ir=IntegerType(1),
    numpy=np.dtype("bool"),
    kind="bool",
    bytes=1,
    lowest=0,
    highest=1,
)
I8, I16, I32, I64 = (_int(bits) for bits in (8, 16, 32, 64))
U8, U16, U32, U64 = (_uint(bits) for bits in (8, 16, 32, 64))
F16 = _float("f16", Float16Type(), "float16")
BF16 = _float("bf16", BFloat16Type(), ml_dtypes.bfloat16)
F32 = _float("f32", Float32Type(), "float32")
F64 = _float("f64", Float64Type(), "float64")
C64 = _float("c64", ComplexType(Float32Type()), "complex64", "complex")
C128 = _float("c128", ComplexType(Float64Type()), "complex128", "complex")
F8E4M3FN = _float("f8e4m3fn", Float8E4M3FNType(), ml_dtypes.float8_e4m3fn, "storage")
F8E5M2 = _float("f8e5m2", Float8E5M2Type(), ml_dtypes.float8_e5m2, "storage")
F8E4M3FNUZ = _float("f8e4m3fnuz", Float8E4M3FNUZType(), ml_dtypes.float8_e4m3fnuz, "storage")
F8E5M2FNUZ = _float("f8e5m2fnuz", Float8E5M2FNUZType(), ml_dtypes.float8_e5m2fnuz, "storage")
F8E8M0FNU = _float("f8e8m0fnu", Float8E8M0FNUType(), ml_dtypes.float8_e8m0fnu, "storage")
F4E2M1FN = _float("f4e2m1fn", Float4E2M1FNType(), ml_dtypes.float4_e2m1fn, "storage")
I2, U2, I4, U4 = (_stored(bits, sign) for bits in (2, 4) for sign in "iu")

DTYPES = (
    BOOL,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
    F8E4M3FN,
    F8E5M2,
    F8E4M3FNUZ,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F4E2M1FN,
    I2,
    U2,
    I4,
    U4,
)
_BY_IR = {dtype.ir: dtype for dtype in DTYPES}
_BY_NAME = {dtype.name: dtype for dtype in DTYPES}
_BY_NUMPY = {dtype.numpy: dtype for dtype in DTYPES}


class UnknownElementError(VerifyException, TypeError):
    """An element type that no dtype has: a TypeError to callers, and what a verifier says."""


_ROW = "_mlc_row"  # of a type's own dictionary, which no comparison looks at


def dtype_of(element_type: Attribute) -> DType:
    """The row of an IR element type; UnknownElementError for one that no dtype has."""
    found = element_type.__dict__.get(_ROW)
    if found is None:
        found = _BY_IR.get(element_type)
        if found is None:
            known = ", ".join(_BY_NAME)
            raise UnknownElementError(f"element type {element_type} is not one of {known}")
        vars(element_type)[_ROW] = found
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


def is_known(dtype: np.dtype[np.generic]) -> bool:
    """Whether programs have the dtype."""
    return dtype in _BY_NUMPY


def is_real(dtype: np.dtype[np.generic]) -> bool:
    """Whether it is a real floating dtype; NumPy's `kind` is "V" of those that are ml_dtypes'."""
    row = _BY_NUMPY.get(dtype)
    return row is not None and row.kind == "float"


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of a dtype is one of another."""
    return bool(np.can_cast(narrow.numpy, wide.numpy, "safe"))
