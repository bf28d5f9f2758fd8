"""How types and constants of the loops level are spelled in LLVM IR text."""

from __future__ import annotations

import struct
from typing import cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    ComplexType,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
)
from xdsl.ir import Attribute

from mlc.dialects.dot import TileType
from mlc.dialects.errors import CompilerBug
from mlc.dialects.gpu_async import TensorMapType
from mlc.dialects.lanes import element_of
from mlc.dialects.par import ContextType

_FLOATS: dict[type[Attribute], tuple[str, str, int]] = {
    BFloat16Type: ("i16", "i16", 2),
    Float16Type: ("half", "f16", 2),
    Float32Type: ("float", "f32", 4),
    Float64Type: ("double", "f64", 8),
}
"""
MLIR type -> (LLVM type, suffix in intrinsic names, bytes).

bf16 is its bits: LLVM moves its own `bfloat` through f32 and back where it finds that convenient,
and x86's vcvtneps2bf16 then makes zero of subnormal numbers.
"""


class EmitError(CompilerBug):
    """The loops level holds something that the emitter cannot write: a bug in a pass above."""


def complex_part(value_type: Attribute) -> Attribute | None:
    """The type of the parts of complex elements; None for other types."""
    element = element_of(value_type)
    if not isinstance(element, ComplexType):
        return None
    return cast("ComplexType[Float32Type]", element).element_type


def llvm_type(value_type: Attribute) -> str:
    """f32 -> float, index -> i64, vector<16xf32> -> <16 x float>, memref -> ptr."""
    known = _FLOATS.get(type(value_type))
    if known is not None:
        return known[0]
    if isinstance(value_type, IndexType):
        return "i64"
    if isinstance(value_type, IntegerType):
        return f"i{value_type.bitwidth}"
    if isinstance(value_type, VectorType):
        vector = cast("VectorType[Attribute]", value_type)
        shape = vector.get_shape()
        if len(shape) != 1:
            raise EmitError(f"emit: {vector}: vectors at the loops level have one dimension")
        part = complex_part(vector)
        if part is not None:
            return f"<{2 * shape[0]} x {llvm_type(part)}>"
        return f"<{shape[0]} x {llvm_type(vector.element_type)}>"
    if (part := complex_part(value_type)) is not None:
        return f"<2 x {llvm_type(part)}>"
    if isinstance(value_type, MemRefType):
        return pointer_type(cast("MemRefType[Attribute]", value_type))
    if isinstance(value_type, ContextType | TensorMapType):
        return "ptr"
    if isinstance(value_type, TileType):
        return "x86_amx"
    raise EmitError(f"emit: type {value_type} has no spelling in LLVM IR")


def pointer_type(buffer: MemRefType[Attribute]) -> str:
    """`ptr`, or `ptr addrspace(3)` where the memref has memory space 3."""
    space = memory_space(buffer)
    return f"ptr addrspace({space})" if space else "ptr"


def memory_space(buffer: MemRefType[Attribute]) -> int:
    """Address space of a memref: its integer memory space, 0 without one."""
    space = buffer.memory_space
    if isinstance(space, IntegerAttr):
        return cast("IntegerAttr[IntegerType]", space).value.data
    return cast("IntAttr[int]", space).data if isinstance(space, IntAttr) else 0


def suffix(value_type: Attribute) -> str:
    """The type as intrinsic names spell it: f32, i64, v16f32."""
    known = _FLOATS.get(type(value_type))
    if known is not None:
        return known[1]
    if isinstance(value_type, IndexType):
        return "i64"
    if isinstance(value_type, IntegerType):
        return f"i{value_type.bitwidth}"
    if isinstance(value_type, VectorType):
        vector = cast("VectorType[Attribute]", value_type)
        part = complex_part(vector)
        if part is not None:
            return f"v{2 * vector.get_shape()[0]}{suffix(part)}"
        return f"v{vector.get_shape()[0]}{suffix(vector.element_type)}"
    raise EmitError(f"emit: no intrinsic takes {value_type}")


def item_bytes(element_type: Attribute) -> int:
    """Bytes of one element in memory; i1 takes a whole byte."""
    known = _FLOATS.get(type(element_type))
    if known is not None:
        return known[2]
    if isinstance(element_type, IntegerType):
        return max(1, element_type.bitwidth // 8)
    if isinstance(element_type, IndexType):
        return 8
    if (part := complex_part(element_type)) is not None:
        return 2 * item_bytes(part)
    raise EmitError(f"emit: memory cannot hold elements of type {element_type}")


def is_float(element_type: Attribute) -> bool:
    """Whether the element type is one of the floating point types the emitter knows."""
    return type(element_type) in _FLOATS


def float_literal(value: float, element_type: Attribute) -> str:
    """
    The constant, exactly. LLVM writes half by its own bits (0xH3C00) and float by the bits of the
    double of the same value; bf16 is an integer there.
    """
    if isinstance(element_type, Float16Type):
        try:
            return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
        except OverflowError:
            return "0xH7C00" if value > 0 else "0xHFC00"
    if isinstance(element_type, BFloat16Type):
        return str(_bfloat16_bits(value))
    if isinstance(element_type, Float32Type):
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _bfloat16_bits(value: float) -> int:
    """The upper half of the float32, rounded to nearest, ties to even."""
    try:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
    except OverflowError:
        return 0x7F80 if value > 0 else 0xFF80
    if value != value:
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


def literal(value: Attribute) -> str:
    """The text of the value of an `arith.constant`."""
    if isinstance(value, IntegerAttr):
        integer = cast("IntegerAttr[IntegerType | IndexType]", value)
        return _integer_literal(integer.value.data, integer.type)
    if isinstance(value, FloatAttr):
        number = cast("FloatAttr[Float32Type]", value)
        return float_literal(number.value.data, number.type)
    if isinstance(value, DenseIntOrFPElementsAttr):
        return _dense_literal(cast("DenseIntOrFPElementsAttr[Float32Type]", value))
    raise EmitError(f"emit: constant {value} has no spelling in LLVM IR")


def _integer_literal(value: int, element_type: Attribute) -> str:
    if isinstance(element_type, IntegerType) and element_type.bitwidth == 1:
        return "true" if value else "false"
    return str(value)


def _dense_literal(value: DenseIntOrFPElementsAttr[Float32Type]) -> str:
    element_type: Attribute = value.get_element_type()
    spelled = llvm_type(element_type)
    values = value.get_values()
    if is_float(element_type):
        items = [float_literal(item, element_type) for item in values]
    else:
        items = [_integer_literal(int(item), element_type) for item in values]
    if len(set(items)) == 1:
        return f"splat ({spelled} {items[0]})"
    return "<" + ", ".join(f"{spelled} {item}" for item in items) + ">"


def splat(element_literal: str, spelled: str) -> str:
    """The vector constant with the same element in each lane."""
    return f"splat ({spelled} {element_literal})"


def symbol(name: str) -> str:
    """`@name`, quoted where LLVM asks for it."""
    plain = name.replace("_", "").replace(".", "").replace("$", "")
    if plain.isalnum() and plain.isascii() and not name[0].isdigit():
        return f"@{name}"
    escaped = "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode())
        for c in name
    )
    return f'@"{escaped}"'
