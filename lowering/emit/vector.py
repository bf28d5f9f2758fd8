"""vector and mlc_vec: one-dimensional vectors, masks, gathers."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import vector
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects import vec
from mlc.dialects.lanes import element_of, lanes_of, like
from mlc.lowering.emit.arith import (
    compare_floats,
    compare_integers,
    constant_of,
    conversion,
    emit_bitcast,
    emit_float_to_int,
    emit_index_cast,
    intrinsic,
)
from mlc.lowering.emit.complex_parts import (
    both_parts,
    from_memory,
    gathered_addresses,
    is_complex,
    mask_of,
    shuffled,
    to_memory,
)
from mlc.lowering.emit.function import Buffer, FunctionText, Rules, alignment, space_suffix
from mlc.lowering.emit.memref import nontemporal
from mlc.lowering.emit.types import EmitError, is_float, item_bytes, splat, suffix

RULES = Rules()


def _contiguous(e: FunctionText, op: Operation, buffer: Buffer) -> None:
    """A vector access runs along the last dim, whose elements must be neighbours."""
    e.vector_accesses += 1
    if buffer.strides and buffer.strides[-1] != "1":
        raise EmitError(
            f"emit: @{e.name}: '{op.name}' on {buffer.type}: the last dim has stride "
            f"{buffer.strides[-1]}, vector accesses need 1; use mlc_vec.gather"
        )
    element = buffer.type.element_type
    if isinstance(element, IntegerType) and element.bitwidth == 1:
        raise EmitError(
            f"emit: @{e.name}: '{op.name}' on {buffer.type}: bools are i8 in memory, i1 only in "
            "registers"
        )


def _load(e: FunctionText, op: vector.LoadOp) -> None:
    source, *indices = op.operands
    buffer = e.buffer(source)
    _contiguous(e, op, buffer)
    result = op.results[0]
    loaded = e.put(
        f"load {e.type(result.type)}, {e.type(buffer.type)} {e.address(buffer, indices)}, "
        f"align {alignment(op, buffer)}{nontemporal(e, op)}"
    )
    e[result] = from_memory(e, loaded, result.type)


def _store(e: FunctionText, op: vector.StoreOp) -> None:
    value, target, *indices = op.operands
    buffer = e.buffer(target)
    _contiguous(e, op, buffer)
    e.do(
        f"store {e.type(value.type)} {to_memory(e, e[value], value.type)}, {e.type(buffer.type)} "
        f"{e.address(buffer, indices)}, align {alignment(op, buffer)}{nontemporal(e, op)}"
    )


def _nontemporal_store(e: FunctionText, op: vec.NontemporalStoreOp) -> None:
    value, target, *indices = op.operands
    buffer = e.buffer(target)
    _contiguous(e, op, buffer)
    align = (lanes_of(value.type) or 1) * item_bytes(buffer.type.element_type)
    e.do(
        f"store {e.type(value.type)} {to_memory(e, e[value], value.type)}, {e.type(buffer.type)} "
        f"{e.address(buffer, indices)}, align {align}, "
        f"!nontemporal {e.module.metadata_node('!{i32 1}')}"
    )


def _store_fence(e: FunctionText, _: vec.StoreFenceOp) -> None:
    if e.module.triple.startswith("x86_64"):
        e.do("call void @llvm.x86.sse.sfence()")


def _maskedload(e: FunctionText, op: vector.MaskedLoadOp) -> None:
    source, *indices, mask, passthru = op.operands
    buffer = e.buffer(source)
    _contiguous(e, op, buffer)
    result = op.results[0]
    spelled = e.type(result.type)
    mask_type, lanes = mask_of(e, mask, result.type, in_memory=True)
    align = f"align {alignment(op, buffer)}"
    where = f"{e.type(buffer.type)} {e.address(buffer, indices, inside=False)}"
    start, _, pointer = where.rpartition(" ")
    masked = (
        f"call {spelled} @llvm.masked.load.{suffix(result.type)}.{space_suffix(buffer)}("
        f"{start} {align} {pointer}, {mask_type} {lanes}, {spelled} "
        f"{to_memory(e, e[passthru], result.type)})"
    )
    item, count = item_bytes(buffer.type.element_type), lanes_of(result.type) or 1
    if item >= e.module.least_masked_bytes or count == 1:
        loaded = e.put(masked)
    else:
        whole = f"load {spelled}, {where}, {align}"
        chosen = f"{spelled} {to_memory(e, e[passthru], result.type)}"
        loaded = _within_a_page(e, (mask_type, lanes), pointer, item * count, whole, chosen, masked)
    e[result] = from_memory(e, loaded, result.type)


PAGE_BYTES = 4096  # of the smallest pages. Source: Intel SDM, Arm ARM


def _within_a_page(
    e: FunctionText,
    mask: tuple[str, str],
    pointer: str,
    size: int,
    whole: str,
    others: str,
    masked: str,
) -> str:
    """
    A vector loaded by a mask where no instruction does so: whole, if its first lane is wanted and
    it ends on the page where it begins, so that all of it may be read.
    """
    mask_type, lanes = mask
    kind = whole.split(",")[0].removeprefix("load ")
    address = e.put(f"ptrtoint ptr {pointer} to i64")
    place = e.put(f"and i64 {address}, {PAGE_BYTES - 1}")
    inside = e.put(f"icmp ule i64 {place}, {PAGE_BYTES - size}")
    first = e.put(f"extractelement {mask_type} {lanes}, i64 0")
    at_once, by_lane, done = e.labels("whole", "lanes", "loaded")
    e.branch(e.put(f"and i1 {inside}, {first}"), at_once, by_lane)
    e.open(at_once)
    found = e.put(f"freeze {kind} {e.put(whole)}")
    found = e.put(f"select {mask_type} {lanes}, {kind} {found}, {others}")
    e.jump(done)
    e.open(by_lane)
    slow = e.put(masked)
    e.jump(done)
    e.open(done)
    return e.put(f"phi {kind} [ {found}, %{at_once} ], [ {slow}, %{by_lane} ]")


def _maskedstore(e: FunctionText, op: vector.MaskedStoreOp) -> None:
    target, *indices, mask, value = op.operands
    buffer = e.buffer(target)
    _contiguous(e, op, buffer)
    mask_type, lanes = mask_of(e, mask, value.type, in_memory=True)
    stored = to_memory(e, e[value], value.type)
    e.do(
        f"call void @llvm.masked.store.{suffix(value.type)}.{space_suffix(buffer)}("
        f"{e.type(value.type)} {stored}, {e.type(buffer.type)} align {alignment(op, buffer)} "
        f"{e.address(buffer, indices, inside=False)}, {mask_type} {lanes})"
    )


def _lane_addresses(
    e: FunctionText, buffer: Buffer, indices: list[SSAValue], offsets: SSAValue
) -> tuple[int, str]:
    """N and `<N x ptr>`: buffer[indices] plus the lanes' offsets in elements."""
    e.vector_accesses += 1
    start = e.address(buffer, indices, inside=False)
    found = e.put(
        f"getelementptr {e.type(buffer.type.element_type)}, {e.type(buffer.type)} {start}, "
        f"{e.type(offsets.type)} {e[offsets]}"
    )
    pointer, lanes = e.type(buffer.type), lanes_of(offsets.type) or 1
    return gathered_addresses(e, found, lanes, pointer, buffer.type.element_type)


def _gather(e: FunctionText, op: vec.GatherOp) -> None:
    source, *indices, passthru, offsets, mask = op.operands
    buffer = e.buffer(source)
    result = op.results[0]
    spelled = e.type(result.type)
    mask_type, on = mask_of(e, mask, result.type)
    lanes, where = _lane_addresses(e, buffer, indices, offsets)
    e.define(
        result,
        f"call {spelled} @llvm.masked.gather.{suffix(result.type)}.v{lanes}{space_suffix(buffer)}("
        f"<{lanes} x {e.type(buffer.type)}> align {alignment(op, buffer)} {where}, "
        f"{mask_type} {on}, {spelled} {e[passthru]})",
    )


def _scatter(e: FunctionText, op: vec.ScatterOp) -> None:
    value, target, *indices, offsets, mask = op.operands
    buffer = e.buffer(target)
    mask_type, on = mask_of(e, mask, value.type)
    lanes, where = _lane_addresses(e, buffer, indices, offsets)
    e.do(
        f"call void @llvm.masked.scatter.{suffix(value.type)}.v{lanes}{space_suffix(buffer)}("
        f"{e.type(value.type)} {e[value]}, "
        f"<{lanes} x {e.type(buffer.type)}> align {alignment(op, buffer)} {where}, "
        f"{mask_type} {on})"
    )


def _prefetch(e: FunctionText, op: vec.PrefetchOp) -> None:
    source, *indices = op.operands
    buffer = e.buffer(source)
    locality = cast("IntegerAttr[IntegerType]", op.properties["locality"]).value.data
    write = int("write" in op.properties)
    e.do(
        f"call void @llvm.prefetch.{space_suffix(buffer)}({e.type(buffer.type)} "
        f"{e.address(buffer, indices, inside=False)}, i32 {write}, i32 {locality}, i32 1)"
    )


def _broadcast(e: FunctionText, op: vector.BroadcastOp) -> None:
    source, result = op.operands[0], op.results[0]
    lanes = lanes_of(result.type)
    value, spelled = e[source], e.type(result.type)
    e.vector_accesses += 1
    if is_complex(result.type):
        count = lanes_of(source.type) or 1
        repeated = both_parts([0] * (lanes or 1), count)
        e[result] = shuffled(e, e.type(source.type), value, repeated)
        return
    if (source_lanes := lanes_of(source.type)) is not None:
        if source_lanes == lanes:
            e[result] = value
            return
        value = e.put(f"extractelement {e.type(source.type)} {value}, i64 0")
    element = e.type(element_of(result.type))
    if value[0] != "%":
        e[result] = splat(value, element)
        return
    first = e.put(f"insertelement {spelled} poison, {element} {value}, i64 0")
    e.define(
        result,
        f"shufflevector {spelled} {first}, {spelled} poison, <{lanes} x i32> zeroinitializer",
    )


def _extract(e: FunctionText, op: vector.ExtractOp) -> None:
    source, *dynamic = op.operands
    where = _position(e, op, dynamic)
    e.define(op.results[0], f"extractelement {e.type(source.type)} {e[source]}, i64 {where}")


def _insert(e: FunctionText, op: vector.InsertOp) -> None:
    value, target, *dynamic = op.operands
    where = _position(e, op, dynamic)
    kind = e.type(target.type)
    e.define(
        op.results[0],
        f"insertelement {kind} {e[target]}, {e.type(value.type)} {e[value]}, i64 {where}",
    )


def _position(e: FunctionText, op: Operation, dynamic: list[SSAValue]) -> str:
    e.vector_accesses += 1
    static = cast("DenseArrayBase[IntegerType]", op.properties["static_position"]).get_values()
    if len(static) != 1:
        raise EmitError(f"emit: @{e.name}: '{op.name}' needs exactly one position, got {static}")
    return e[dynamic[0]] if static[0] == DYNAMIC_INDEX else str(static[0])


def _shuffle(e: FunctionText, op: vector.ShuffleOp) -> None:
    first, second = op.operands
    lanes = cast("DenseArrayBase[IntegerType]", op.properties["mask"]).get_values()
    if is_complex(first.type):
        lanes = both_parts(lanes, lanes_of(first.type) or 1)
    items = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in lanes)
    e.vector_accesses += 1
    e.define(
        op.results[0],
        f"shufflevector {e.type(first.type)} {e[first]}, {e.type(second.type)} {e[second]}, "
        f"<{len(lanes)} x i32> <{items}>",
    )


def _create_mask(e: FunctionText, op: vector.CreateMaskOp) -> None:
    """
    Lane i is on where i < n. Lane numbers are compared in integers as wide as the lanes of a full
    register, so that on AVX2 the mask needs no widening. A mask register is set from as many bits:
    LLVM sinks a compare to where it is used, into loops whose trips share it.
    """
    result = op.results[0]
    lanes = lanes_of(result.type) or 1
    count = e[op.operands[0]]
    e.vector_accesses += 1
    if count[0] != "%":
        on = max(0, min(int(count), lanes))
        e[result] = _constant_mask(on, lanes)
        return
    if e.module.vector_bits == 512 and lanes in (8, 16, 32):
        off = e.put(f"shl i64 -1, {_clamped(e, count, lanes)}")
        on = e.put(f"xor i64 {off}, -1")
        narrow = e.put(f"trunc i64 {on} to i{lanes}")
        e.define(result, f"bitcast i{lanes} {narrow} to <{lanes} x i1>")
        return
    bits = max(8, min(64, e.module.vector_bits // lanes))
    bits = 1 << (bits.bit_length() - 1)
    if lanes >= 1 << (bits - 1):
        bits = 64
    if bits < 64:
        count = e.put(f"trunc i64 {_clamped(e, count, lanes)} to i{bits}")
    spelled = f"<{lanes} x i{bits}>"
    first = e.put(f"insertelement {spelled} poison, i{bits} {count}, i64 0")
    counts = e.put(
        f"shufflevector {spelled} {first}, {spelled} poison, <{lanes} x i32> zeroinitializer"
    )
    numbers = _lane_numbers(lanes, f"i{bits}")
    e.define(result, f"icmp slt {spelled} {numbers}, {counts}")


def _clamped(e: FunctionText, count: str, lanes: int) -> str:
    """The count, or the nearest of no lanes and all of them."""
    lower = e.put(f"call i64 @llvm.smax.i64(i64 {count}, i64 0)")
    return e.put(f"call i64 @llvm.smin.i64(i64 {lower}, i64 {lanes})")


def _constant_mask(on: int, lanes: int) -> str:
    if on in (0, lanes):
        return splat("true" if on else "false", "i1")
    return "<" + ", ".join(f"i1 {'true' if i < on else 'false'}" for i in range(lanes)) + ">"


def _lane_numbers(lanes: int, spelled: str) -> str:
    return "<" + ", ".join(f"{spelled} {lane}" for lane in range(lanes)) + ">"


def _step(e: FunctionText, op: vec.StepOp) -> None:
    result = op.results[0]
    e[result] = _lane_numbers(lanes_of(result.type) or 1, e.type(element_of(result.type)))


_REDUCTION = {
    "add": ("add", "add"),
    "mul": ("mul", "mul"),
    "and": ("and", "and"),
    "or": ("or", "or"),
    "xor": ("xor", "xor"),
    "minsi": ("smin", "smin"),
    "minui": ("umin", "umin"),
    "maxsi": ("smax", "smax"),
    "maxui": ("umax", "umax"),
    "minnumf": ("fmin", "minnum"),
    "maxnumf": ("fmax", "maxnum"),
    "minimumf": ("fminimum", "minimum"),
    "maximumf": ("fmaximum", "maximum"),
}
"""vector.kind -> (suffix of llvm.vector.reduce, operation that joins two scalars)."""

_INSTRUCTIONS = ("add", "mul", "and", "or", "xor")


def _reduction(e: FunctionText, op: vector.ReductionOp) -> None:
    source, *accumulator = op.operands
    result = op.results[0]
    kind = str(cast("vector.CombiningKindAttr", op.properties["kind"]).data.value)
    reduce, join = _REDUCTION[kind]
    spelled, flags = e.type(result.type), e.flags(op)
    argument = f"{e.type(source.type)} {e[source]}"
    e.vector_accesses += 1
    if is_float(result.type) and kind in ("add", "mul"):
        # Without `reassoc` LLVM adds in lane order, beginning with the start value.
        neutral = constant_of(e, -0.0 if kind == "add" else 1.0, result.type)
        start = e[accumulator[0]] if accumulator else neutral
        e.define(
            result,
            f"call {flags}{spelled} @llvm.vector.reduce.f{kind}.{suffix(source.type)}"
            f"({spelled} {start}, {argument})",
        )
        return
    if kind in ("minimumf", "maximumf") and "nsz" in flags:
        reduced = _reduce_with_nan(e, source, result.type, reduce.replace("imum", ""), flags)
    else:
        reduced = e.put(
            f"call {flags}{spelled} @llvm.vector.reduce.{reduce}.{suffix(source.type)}({argument})"
        )
    if not accumulator:
        e[result] = reduced
    elif join in _INSTRUCTIONS:
        e.define(result, f"{join} {spelled} {reduced}, {e[accumulator[0]]}")
    else:
        e.define(
            result,
            f"call {flags}{spelled} @llvm.{join}.{suffix(result.type)}"
            f"({spelled} {reduced}, {spelled} {e[accumulator[0]]})",
        )


def _reduce_with_nan(
    e: FunctionText, source: SSAValue, element: Attribute, reduce: str, flags: str
) -> str:
    """
    NaN if any lane is NaN, else the extremum of numbers. One test of all lanes instead of three
    instructions on each step of the tree, which is what LLVM makes of reduce.fmaximum.
    """
    spelled, scalar = e.type(source.type), e.type(element)
    mask_type = like(source.type, IntegerType(1))
    nan = e.put(f"fcmp uno {spelled} {e[source]}, {e[source]}")
    any_nan = e.put(
        f"call i1 @llvm.vector.reduce.or.{suffix(mask_type)}({e.type(mask_type)} {nan})"
    )
    numbers = e.put(
        f"call nnan {flags}{scalar} @llvm.vector.reduce.{reduce}.{suffix(source.type)}"
        f"({spelled} {e[source]})"
    )
    nan_literal = constant_of(e, float("nan"), element)
    return e.put(f"select i1 {any_nan}, {scalar} {nan_literal}, {scalar} {numbers}")


def _select(e: FunctionText, op: vec.SelectOp) -> None:
    lhs, rhs, mask = op.operands
    spelled = e.type(op.results[0].type)
    mask_type, on = mask_of(e, mask, lhs.type)
    e.define(
        op.results[0],
        f"select {mask_type} {on}, {spelled} {e[lhs]}, {spelled} {e[rhs]}",
    )


def _cmpi(e: FunctionText, op: vec.CmpiOp) -> None:
    predicate = cast("vec.IntegerPredicateAttr", op.properties["predicate"])
    compare_integers(e, op, str(predicate.data))


def _cmpf(e: FunctionText, op: vec.CmpfOp) -> None:
    predicate = cast("vec.FloatPredicateAttr", op.properties["predicate"])
    compare_floats(e, op, str(predicate.data))


_PLAIN_CASTS = {
    vec.CastKind.EXTSI: conversion("sext"),
    vec.CastKind.EXTUI: conversion("zext"),
    vec.CastKind.TRUNCI: conversion("trunc"),
    vec.CastKind.SITOFP: conversion("sitofp"),
    vec.CastKind.UITOFP: conversion("uitofp"),
    vec.CastKind.INDEX_CAST: emit_index_cast,
}


def _cast(e: FunctionText, op: vec.CastOp) -> None:
    kind = cast("vec.CastKindAttr", op.properties["kind"]).data
    plain = _PLAIN_CASTS.get(kind)
    if plain is not None:
        plain(e, op)
    else:
        emit_float_to_int(e, op, signed=kind is vec.CastKind.FPTOSI)


RULES.on(vector.LoadOp, _load)
RULES.on(vector.StoreOp, _store)
RULES.on(vector.MaskedLoadOp, _maskedload)
RULES.on(vector.MaskedStoreOp, _maskedstore)
RULES.on(vector.BroadcastOp, _broadcast)
RULES.on(vector.ExtractOp, _extract)
RULES.on(vector.InsertOp, _insert)
RULES.on(vector.ShuffleOp, _shuffle)
RULES.on(vector.CreateMaskOp, _create_mask)
RULES.on(vector.ReductionOp, _reduction)
RULES[vector.BitcastOp] = emit_bitcast
RULES[vector.FMAOp] = intrinsic("fma")
RULES.on(vec.SelectOp, _select)
RULES.on(vec.CastOp, _cast)
RULES.on(vec.CmpiOp, _cmpi)
RULES.on(vec.CmpfOp, _cmpf)
RULES.on(vec.StepOp, _step)
RULES.on(vec.GatherOp, _gather)
RULES.on(vec.ScatterOp, _scatter)
RULES.on(vec.PrefetchOp, _prefetch)
RULES.on(vec.NontemporalStoreOp, _nontemporal_store)
RULES.on(vec.StoreFenceOp, _store_fence)
