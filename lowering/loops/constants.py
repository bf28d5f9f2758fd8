"""Numbers as the elements of constants."""

from __future__ import annotations

from functools import cache, lru_cache
from math import copysign
from typing import Any, cast

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
    VectorType,
    i64,
)
from xdsl.ir import Attribute

from mlc.dialects.dtypes import DType
from mlc.dialects.lanes import vector_type


def representable(value: complex, dtype: DType) -> float:
    """A number as the dtype holds it; unsigned integers and fp8 by their bits, read as signed."""
    if dtype.kind == "storage" or (dtype.kind == "float" and dtype.bytes < 4):
        with np.errstate(over="ignore"):
            held = np.asarray(value.real).astype(dtype.numpy)
        return int(held.view(np.int8)) if dtype.kind == "storage" else float(held)
    if dtype.kind == "float":
        return float(value.real)
    number = int(value.real)
    return (
        number - (dtype.highest + 1)
        if dtype.kind == "uint" and number > dtype.highest // 2
        else number
    )


def splat(value: float, dtype: DType, lanes: int) -> DenseIntOrFPElementsAttr:
    """The number in every lane."""
    if value != value:  # NaN is no key
        return _splat_cached.__wrapped__(value, 1.0, dtype, lanes)
    return _splat_cached(value, copysign(1.0, value), dtype, lanes)


@cache
def _splat_cached(value: float, _sign: float, dtype: DType, lanes: int) -> DenseIntOrFPElementsAttr:
    """`_sign`: -0.0 == 0.0."""
    kind = vector_type(dtype.register, lanes)
    if dtype.kind == "float":
        floats = cast("VectorType[AnyFloat]", kind)
        return DenseIntOrFPElementsAttr.from_list(floats, [float(value)])
    return DenseIntOrFPElementsAttr.from_list(cast("VectorType[IntegerType]", kind), [int(value)])


@lru_cache(maxsize=4096)
def index_attr(value: int) -> IntegerAttr[IndexType]:
    """A number of type index."""
    return IntegerAttr(value, IndexType())


@lru_cache(maxsize=4096)
def numbers(values: tuple[int, ...]) -> DenseArrayBase:
    """An array of 64-bit integers, as ops hold sizes, strides and lanes."""
    return DenseArrayBase.from_list(i64, values)


def global_of(name: str, kind: MemRefType[Attribute], content: bytes) -> memref.GlobalOp:
    """An array that a program has from the beginning."""
    like: Any = TensorType(kind.element_type, kind.get_shape())
    return memref.GlobalOp.create(
        properties={
            "sym_name": StringAttr(name),
            "type": kind,
            "initial_value": DenseIntOrFPElementsAttr(like, BytesAttr(content)),
            "sym_visibility": StringAttr("private"),
            "constant": UnitAttr(),
        }
    )
