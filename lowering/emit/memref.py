"""memref: element access, views (which only compute addresses) and stack buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    MemRefType,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import SymbolTable

from mlc.lowering.emit.function import Buffer, FunctionText, Rules, alignment
from mlc.lowering.emit.types import (
    EmitError,
    complex_part,
    float_literal,
    is_float,
    item_bytes,
    symbol,
)

RULES = Rules()

STACK_ALIGN_BYTES = 64
"""One cache line, and one 512-bit vector."""

STACK_LIMIT_BYTES = 1 << 20
"""Threads of an OpenMP runtime have stacks of 2 to 8 MiB; larger buffers belong in the arena."""


def nontemporal(e: FunctionText, op: Operation) -> str:
    """Metadata of an access that bypasses the caches, "" for an ordinary one."""
    attribute = op.properties.get("nontemporal")
    if isinstance(attribute, IntegerAttr) and cast("BoolAttr", attribute).value.data:
        return f", !nontemporal {e.module.metadata_node('!{i32 1}')}"
    return ""


def _load(e: FunctionText, op: memref.LoadOp) -> None:
    source, *indices = op.operands
    buffer = e.buffer(source)
    result = op.results[0]
    e.define(
        result,
        f"load {e.type(result.type)}, {e.type(buffer.type)} {e.address(buffer, indices)}, "
        f"align {alignment(op, buffer)}{nontemporal(e, op)}",
    )


def _store(e: FunctionText, op: memref.StoreOp) -> None:
    value, target, *indices = op.operands
    buffer = e.buffer(target)
    e.do(
        f"store {e.type(value.type)} {e[value]}, {e.type(buffer.type)} "
        f"{e.address(buffer, indices)}, align {alignment(op, buffer)}{nontemporal(e, op)}"
    )


def _alloca(e: FunctionText, op: memref.AllocaOp) -> None:
    result = op.results[0]
    buffer_type = cast("MemRefType[Attribute]", result.type)
    shape = buffer_type.get_shape()
    if DYNAMIC_INDEX in shape:
        raise EmitError(
            f"emit: @{e.name}: memref.alloca of {buffer_type}: stack buffers have static sizes; "
            "use mlc_par.arena"
        )
    count = 1
    for size in shape:
        count *= size
    num_bytes = count * item_bytes(buffer_type.element_type)
    if num_bytes > STACK_LIMIT_BYTES:
        raise EmitError(
            f"emit: @{e.name}: memref.alloca of {buffer_type}: {num_bytes} bytes exceed the limit "
            f"of {STACK_LIMIT_BYTES} for stack buffers; use mlc_par.arena"
        )
    promised = op.properties.get("alignment")
    align = STACK_ALIGN_BYTES
    if promised is not None:
        align = max(align, cast("IntegerAttr[IntegerType]", promised).value.data)
    name = e.fresh()
    element = e.type(buffer_type.element_type)
    # In the entry block: an alloca inside a loop would grow the stack each time round.
    e.allocas.append(f"  {name} = alloca [{count} x {element}], align {align}")
    e.bind_row_major(result, name, [str(size) for size in shape])


def _mixed(e: FunctionText, static: Attribute, dynamic: Iterator[SSAValue]) -> list[str]:
    """Literals of a static list with the dynamic operands in the gaps."""
    values = cast("DenseArrayBase[IntegerType]", static).get_values()
    return [e[next(dynamic)] if v == DYNAMIC_INDEX else str(v) for v in values]


def _view_parts(e: FunctionText, op: Operation) -> tuple[list[str], list[str], list[str]]:
    """(offsets, sizes, strides) of memref.subview or memref.reinterpret_cast."""
    dynamic = iter(op.operands[1:])
    return (
        _mixed(e, op.properties["static_offsets"], dynamic),
        _mixed(e, op.properties["static_sizes"], dynamic),
        _mixed(e, op.properties["static_strides"], dynamic),
    )


def _reinterpret_cast(e: FunctionText, op: memref.ReinterpretCastOp) -> None:
    source = e.buffer(op.operands[0])
    result = op.results[0]
    (offset,), sizes, strides = _view_parts(e, op)
    buffer_type = cast("MemRefType[Attribute]", result.type)
    start = Buffer(source.base, (), (), source.base, buffer_type)
    pointer = e.derived(e.shifted(start, offset), source.base)
    e.buffers[id(result)] = Buffer(pointer, tuple(strides), tuple(sizes), source.base, buffer_type)


def _subview(e: FunctionText, op: memref.SubviewOp) -> None:
    source = e.buffer(op.operands[0])
    result = op.results[0]
    offsets, sizes, steps = _view_parts(e, op)
    buffer_type = cast("MemRefType[Attribute]", result.type)
    pointer = e.derived(e.shifted(source, e.offset(source.strides, offsets)), source.pointer)
    strides = [e.mul(step, stride) for step, stride in zip(steps, source.strides, strict=True)]
    kept = _kept_dims(sizes, buffer_type.get_shape())
    e.buffers[id(result)] = Buffer(
        pointer,
        tuple(strides[dim] for dim in kept),
        tuple(sizes[dim] for dim in kept),
        source.base,
        buffer_type,
    )


def _kept_dims(sizes: Sequence[str], shape: Sequence[int]) -> list[int]:
    """Dims of a subview that its result keeps; the others have size 1 and are dropped."""
    to_drop = len(sizes) - len(shape)
    kept: list[int] = []
    for dim, size in enumerate(sizes):
        matches = len(kept) < len(shape) and shape[len(kept)] == 1
        if to_drop and size == "1" and not matches:
            to_drop -= 1
        else:
            kept.append(dim)
    return kept[: len(shape)]


def _cast(e: FunctionText, op: Operation) -> None:
    """The same addresses under another type."""
    source = e.buffer(op.operands[0])
    result = op.results[0]
    e.buffers[id(result)] = Buffer(
        source.pointer,
        source.strides,
        source.sizes,
        source.base,
        cast("MemRefType[Attribute]", result.type),
    )


def _view(e: FunctionText, op: memref.ViewOp) -> None:
    source_value, shift, *dynamic = op.operands
    source = e.buffer(source_value)
    result = op.results[0]
    pointer = e.derived(e.shifted(source, e[shift]), source.pointer)
    sizes = iter(dynamic)
    shape = cast("MemRefType[Attribute]", result.type).get_shape()
    e.bind_row_major(
        result, pointer, [e[next(sizes)] if n == DYNAMIC_INDEX else str(n) for n in shape]
    )


def _assume_alignment(e: FunctionText, op: memref.AssumeAlignmentOp) -> None:
    buffer = e.buffer(op.operands[0])
    align = cast("IntegerAttr[IntegerType]", op.properties["alignment"]).value.data
    pointer = f"{e.type(buffer.type)} {buffer.pointer}"
    e.do(f'call void @llvm.assume(i1 true) ["align"({pointer}, i64 {align})]')
    _cast(e, op)


def _aligned_pointer(e: FunctionText, op: memref.ExtractAlignedPointerAsIndexOp) -> None:
    buffer = e.buffer(op.operands[0])
    e.define(op.results[0], f"ptrtoint {e.type(buffer.type)} {buffer.base} to i64")


_ATOMIC = {
    0: "fadd",
    1: "add",
    2: "xchg",
    4: "max",
    5: "umax",
    7: "min",
    8: "umin",
    11: "or",
    12: "and",
}
"""MLIR's arith::AtomicRMWKind -> atomicrmw operation, where LLVM has one."""


def _atomic_rmw(e: FunctionText, op: memref.AtomicRMWOp) -> None:
    value, target, *indices = op.operands
    buffer = e.buffer(target)
    kind = cast("IntegerAttr[IntegerType]", op.properties["kind"]).value.data
    operation = _ATOMIC.get(kind)
    if operation is None:
        raise EmitError(f"emit: @{e.name}: memref.atomic_rmw of kind {kind} has no instruction")
    e.define(
        op.results[0],
        f"atomicrmw {operation} {e.type(buffer.type)} {e.address(buffer, indices)}, "
        f"{e.type(value.type)} {e[value]} {e.module.scope}monotonic, "
        f"align {alignment(op, buffer)}",
    )


def _get_global(e: FunctionText, op: memref.GetGlobalOp) -> None:
    name = cast("SymbolRefAttr", op.properties["name"]).root_reference.data
    definition = SymbolTable.lookup_symbol(op, name)
    if not isinstance(definition, memref.GlobalOp):
        raise EmitError(f"emit: @{e.name}: memref.get_global @{name}: no such memref.global")
    e.module.constants.setdefault(name, _global_text(e, name, definition))
    result = op.results[0]
    shape = cast("MemRefType[Attribute]", result.type).get_shape()
    e.bind_row_major(result, symbol(name), [str(size) for size in shape])


READABLE = 4096
"""Bytes of a constant up to which its elements are written, and no longer its memory."""


def bytes_text(data: bytes) -> str:
    """An array of bytes, with its type."""
    escaped = "\\" + data.hex("\\").upper() if data else ""
    return f'[{len(data)} x i8] c"{escaped}"'


def _global_text(e: FunctionText, name: str, definition: memref.GlobalOp) -> str:
    initial = definition.properties["initial_value"]
    if not isinstance(initial, DenseIntOrFPElementsAttr):
        raise EmitError(f"emit: @{e.name}: memref.global @{name} has no initial value")
    dense = cast("DenseIntOrFPElementsAttr[IntegerType]", initial)
    element = cast("Attribute", dense.get_element_type())
    spelled = e.type(element)
    data = dense.data.data
    if len(data) > READABLE:
        array = bytes_text(data)
        return f"{symbol(name)} = private unnamed_addr constant {array}, align {STACK_ALIGN_BYTES}"
    if (part := complex_part(element)) is not None:
        pairs = cast("tuple[tuple[float, float], ...]", dense.get_values())
        element, spelled = part, e.type(part)
        values = [float_literal(x, part) for pair in pairs for x in pair]
    elif is_float(element):
        values = [float_literal(value, element) for value in dense.get_values()]
    else:
        values = [str(value) for value in dense.get_values()]
    items = ", ".join(f"{spelled} {value}" for value in values)
    return (
        f"{symbol(name)} = private unnamed_addr constant [{len(values)} x {spelled}] [{items}], "
        f"align {STACK_ALIGN_BYTES}"
    )


RULES.on(memref.LoadOp, _load)
RULES.on(memref.StoreOp, _store)
RULES.on(memref.AllocaOp, _alloca)
RULES.on(memref.ReinterpretCastOp, _reinterpret_cast)
RULES.on(memref.SubviewOp, _subview)
RULES.on(memref.CastOp, _cast)
RULES.on(memref.ViewOp, _view)
RULES.on(memref.AssumeAlignmentOp, _assume_alignment)
RULES.on(memref.ExtractAlignedPointerAsIndexOp, _aligned_pointer)
RULES.on(memref.AtomicRMWOp, _atomic_rmw)
RULES.on(memref.GetGlobalOp, _get_global)
