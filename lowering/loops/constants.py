"""Numbers as the elements of constants."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, cast

import numpy as np
from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
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
    if value == 0 or value != value:  # -0.0 == 0.0 and NaN != NaN would confuse the cache
        return _splat_cached.__wrapped__(value, dtype, lanes)
    return _splat_cached(value, dtype, lanes)


@cache
def _splat_cached(value: float, dtype: DType, lanes: int) -> DenseIntOrFPElementsAttr:
    kind = vector_type(dtype.register, lanes)
    if dtype.kind == "float":
        floats = cast("VectorType[AnyFloat]", kind)
        return DenseIntOrFPElementsAttr.from_list(floats, [float(value)])
    return DenseIntOrFPElementsAttr.from_list(cast("VectorType[IntegerType]", kind), [int(value)])


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
