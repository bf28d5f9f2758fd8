"""arith: every op of xDSL's dialect, on scalars and on vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    IndexType,
    IntegerAttr,
    IntegerType,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.lanes import element_of, lanes_of, like
from mlc.lowering.emit.function import FunctionText, Rule, Rules
from mlc.lowering.emit.types import EmitError, float_literal, is_float, literal, splat, suffix

RULES = Rules()


def binary(instruction: str) -> Rule:
    """result = lhs `instruction` rhs"""

    def rule(e: FunctionText, op: Operation) -> None:
        lhs, rhs = op.operands
        result = op.results[0]
        e.define(result, f"{instruction} {e.type(result.type)} {e[lhs]}, {e[rhs]}")

    return rule


def binary_overflow(instruction: str) -> Rule:
    """As `binary`; wraps around unless the op carries nsw or nuw."""

    def rule(e: FunctionText, op: Operation) -> None:
        lhs, rhs = op.operands
        result = op.results[0]
        flags = op.properties.get("overflowFlags")
        text = ""
        if isinstance(flags, arith.IntegerOverflowAttr) and flags.data:
            text = "".join(f"{flag.value} " for flag in sorted(flags.data, reverse=True))
        e.define(result, f"{instruction} {text}{e.type(result.type)} {e[lhs]}, {e[rhs]}")

    return rule


def binary_float(instruction: str) -> Rule:
    """result = lhs `instruction` rhs, with the op's fast-math flags"""

    def rule(e: FunctionText, op: Operation) -> None:
        _refuse_bf16(e, op)
        lhs, rhs = op.operands
        result = op.results[0]
        e.define(result, f"{instruction} {e.flags(op)}{e.type(result.type)} {e[lhs]}, {e[rhs]}")

    return rule


def intrinsic(name: str, tail: str = "") -> Rule:
    """A call of `llvm.name` with the operands' common type; `tail` are further arguments."""

    def rule(e: FunctionText, op: Operation) -> None:
        _refuse_bf16(e, op)
        result = op.results[0]
        spelled = e.type(result.type)
        arguments = ", ".join([f"{spelled} {e[operand]}" for operand in op.operands])
        e.define(
            result,
            f"call {e.flags(op)}{spelled} @llvm.{name}.{suffix(result.type)}({arguments}{tail})",
        )

    return rule


def _refuse_bf16(e: FunctionText, op: Operation) -> None:
    if isinstance(element_of(op.operands[0].type), BFloat16Type):
        raise EmitError(f"emit: @{e.name}: {op.name} on bf16: widen with arith.extf to f32 first")


def conversion(instruction: str) -> Rule:
    """result = `instruction` input to the result's type"""

    def rule(e: FunctionText, op: Operation) -> None:
        source = op.operands[0]
        result = op.results[0]
        e.define(
            result, f"{instruction} {e.type(source.type)} {e[source]} to {e.type(result.type)}"
        )

    return rule


def _truncf(e: FunctionText, op: arith.TruncFOp) -> None:
    """To bf16 by integer arithmetic: to nearest even, with subnormal numbers and quiet NaN."""
    source, result = op.operands[0], op.results[0]
    if not isinstance(element_of(result.type), BFloat16Type):
        conversion("fptrunc")(e, op)
        return
    wide, mask = like(result.type, f32), e.type(like(result.type, IntegerType(1)))
    single, word = e.type(wide), e.type(like(result.type, IntegerType(32)))
    value = e[source]
    if source.type != wide:
        value = e.put(f"fptrunc {e.type(source.type)} {value} to {single}")

    def number(n: int) -> str:
        return constant_of(e, n, like(result.type, IntegerType(32)))

    bits = e.put(f"bitcast {single} {value} to {word}")
    top = e.put(f"lshr {word} {bits}, {number(16)}")
    odd = e.put(f"and {word} {top}, {number(1)}")
    carry = e.put(f"add {word} {odd}, {number(0x7FFF)}")
    near = e.put(f"add {word} {bits}, {carry}")
    rounded = e.put(f"lshr {word} {near}, {number(16)}")
    quiet = e.put(f"or {word} {top}, {number(0x40)}")
    nan = e.put(f"fcmp uno {single} {value}, {value}")
    found = e.put(f"select {mask} {nan}, {word} {quiet}, {word} {rounded}")
    e.define(result, f"trunc {word} {found} to {e.type(result.type)}")


def _widened(e: FunctionText, source: SSAValue) -> str:
    """bf16 as f32: its bits are the upper half."""
    word = like(source.type, IntegerType(32))
    low = e.put(f"zext {e.type(source.type)} {e[source]} to {e.type(word)}")
    top = e.put(f"shl {e.type(word)} {low}, {constant_of(e, 16, word)}")
    return e.put(f"bitcast {e.type(word)} {top} to {e.type(like(source.type, f32))}")


def _extf(e: FunctionText, op: arith.ExtFOp) -> None:
    source, result = op.operands[0], op.results[0]
    if not isinstance(element_of(source.type), BFloat16Type):
        conversion("fpext")(e, op)
        return
    wide, single = like(result.type, f32), _widened(e, source)
    if result.type == wide:
        e[result] = single
    else:
        e.define(result, f"fpext {e.type(wide)} {single} to {e.type(result.type)}")


def _constant(e: FunctionText, op: arith.ConstantOp) -> None:
    e[op.results[0]] = literal(op.properties["value"])


def constant_of(e: FunctionText, value: float, value_type: Attribute) -> str:
    """The number as a literal of this scalar or vector type."""
    element = element_of(value_type)
    if is_float(element):
        text = float_literal(value, element)
    else:
        text = str(int(value))
    return text if lanes_of(value_type) is None else splat(text, e.type(element))


def emit_select(e: FunctionText, op: Operation) -> None:
    """result = condition ? lhs : rhs; operands condition, lhs, rhs."""
    condition, lhs, rhs = op.operands
    result = op.results[0]
    if id(lhs) in e.buffers:
        _select_buffer(e, op)
        return
    spelled = e.type(result.type)
    e.define(
        result,
        f"select {e.type(condition.type)} {e[condition]}, {spelled} {e[lhs]}, {spelled} {e[rhs]}",
    )


def _select_buffer(e: FunctionText, op: Operation) -> None:
    condition, lhs, rhs = op.operands
    result = op.results[0]
    parts: list[str] = []
    types = e.flatten_types(result.type)
    for spelled, then, otherwise in zip(types, e.flatten(lhs), e.flatten(rhs), strict=True):
        if then == otherwise:
            parts.append(then)
        else:
            parts.append(
                e.put(f"select i1 {e[condition]}, {spelled} {then}, {spelled} {otherwise}")
            )
    e.bind(result, iter(parts))


def compare_integers(e: FunctionText, op: Operation, predicate: str) -> None:
    """result = lhs `predicate` rhs"""
    lhs, rhs = op.operands
    e.define(op.results[0], f"icmp {predicate} {e.type(lhs.type)} {e[lhs]}, {e[rhs]}")


def compare_floats(e: FunctionText, op: Operation, predicate: str) -> None:
    """result = lhs `predicate` rhs"""
    _refuse_bf16(e, op)
    lhs, rhs = op.operands
    e.define(op.results[0], f"fcmp {e.flags(op)}{predicate} {e.type(lhs.type)} {e[lhs]}, {e[rhs]}")


def _predicate(op: Operation) -> int:
    return cast("IntegerAttr[IntegerType]", op.properties["predicate"]).value.data


def _cmpi(e: FunctionText, op: arith.CmpiOp) -> None:
    compare_integers(e, op, arith.CMPI_COMPARISON_OPERATIONS[_predicate(op)])


def _cmpf(e: FunctionText, op: arith.CmpfOp) -> None:
    compare_floats(e, op, arith.CMPF_COMPARISON_OPERATIONS[_predicate(op)])


def _negf(e: FunctionText, op: arith.NegfOp) -> None:
    _refuse_bf16(e, op)
    result = op.results[0]
    e.define(result, f"fneg {e.flags(op)}{e.type(result.type)} {e[op.operands[0]]}")


def _rounded_division(*, up: bool) -> Rule:
    """Signed division rounded down or up: the truncated quotient, corrected by one."""

    def rule(e: FunctionText, op: Operation) -> None:
        lhs, rhs = (e[operand] for operand in op.operands)
        result = op.results[0]
        spelled = e.type(result.type)
        zero = constant_of(e, 0, result.type)
        mask = e.type(like(result.type, IntegerType(1)))
        quotient = e.put(f"sdiv {spelled} {lhs}, {rhs}")
        remainder = e.put(f"srem {spelled} {lhs}, {rhs}")
        inexact = e.put(f"icmp ne {spelled} {remainder}, {zero}")
        signs = e.put(f"xor {spelled} {remainder}, {rhs}")
        relation = "sge" if up else "slt"
        wrong_side = e.put(f"icmp {relation} {spelled} {signs}, {zero}")
        correct = e.put(f"and {mask} {inexact}, {wrong_side}")
        one = e.put(f"zext {mask} {correct} to {spelled}")
        e.define(result, f"{'add' if up else 'sub'} {spelled} {quotient}, {one}")

    return rule


def _ceildivui(e: FunctionText, op: arith.CeilDivUIOp) -> None:
    lhs, rhs = (e[operand] for operand in op.operands)
    result = op.results[0]
    spelled = e.type(result.type)
    mask = e.type(like(result.type, IntegerType(1)))
    quotient = e.put(f"udiv {spelled} {lhs}, {rhs}")
    remainder = e.put(f"urem {spelled} {lhs}, {rhs}")
    inexact = e.put(f"icmp ne {spelled} {remainder}, {constant_of(e, 0, result.type)}")
    one = e.put(f"zext {mask} {inexact} to {spelled}")
    e.define(result, f"add {spelled} {quotient}, {one}")


def _addui_extended(e: FunctionText, op: arith.AddUIExtendedOp) -> None:
    lhs, rhs = op.operands
    total, overflow = op.results
    spelled, mask = e.type(total.type), e.type(overflow.type)
    pair = f"{{ {spelled}, {mask} }}"
    both = e.put(
        f"call {pair} @llvm.uadd.with.overflow.{suffix(total.type)}"
        f"({spelled} {e[lhs]}, {spelled} {e[rhs]})"
    )
    e.define(total, f"extractvalue {pair} {both}, 0")
    e.define(overflow, f"extractvalue {pair} {both}, 1")


def _mul_extended(extension: str) -> Rule:
    """Low and high half of the product, through a multiplication of twice the width."""

    def rule(e: FunctionText, op: Operation) -> None:
        lhs, rhs = op.operands
        low, high = op.results
        element = element_of(low.type)
        width = element.bitwidth if isinstance(element, IntegerType) else 64
        wide_type = like(low.type, IntegerType(2 * width))
        narrow, wide = e.type(low.type), e.type(wide_type)
        a = e.put(f"{extension} {narrow} {e[lhs]} to {wide}")
        b = e.put(f"{extension} {narrow} {e[rhs]} to {wide}")
        product = e.put(f"mul {wide} {a}, {b}")
        e.define(low, f"trunc {wide} {product} to {narrow}")
        top = e.put(f"lshr {wide} {product}, {constant_of(e, width, wide_type)}")
        e.define(high, f"trunc {wide} {top} to {narrow}")

    return rule


def emit_bitcast(e: FunctionText, op: Operation) -> None:
    """The same bits as another type."""
    source, result = op.operands[0], op.results[0]
    have, want = e.type(source.type), e.type(result.type)
    if have == want:
        e[result] = e[source]
    else:
        e.define(result, f"bitcast {have} {e[source]} to {want}")


def emit_index_cast(e: FunctionText, op: Operation) -> None:
    """index is i64: sign-extends, truncates or does nothing."""
    source, result = op.operands[0], op.results[0]
    have, want = e.type(source.type), e.type(result.type)
    if have == want:
        e[result] = e[source]
        return
    have_bits, want_bits = _bits(source.type), _bits(result.type)
    e.define(result, f"{'sext' if have_bits < want_bits else 'trunc'} {have} {e[source]} to {want}")


def _bits(value_type: Attribute) -> int:
    element = element_of(value_type)
    if isinstance(element, IndexType):
        return 64
    if isinstance(element, IntegerType):
        return element.bitwidth
    raise EmitError(f"emit: {value_type} is no integer type")


def emit_float_to_int(e: FunctionText, op: Operation, *, signed: bool) -> None:
    """
    Saturating conversion, NaN to 0. Scalars use LLVM's saturating intrinsic; for vectors its x86
    code goes lane by lane, so they convert first and replace the lanes that were out of range.
    """
    source, result = op.operands[0], op.results[0]
    value, source_type = e[source], source.type
    if isinstance(element_of(source_type), BFloat16Type):
        value, source_type = _widened(e, source), like(source_type, f32)
    elif isinstance(element_of(source_type), Float16Type):
        wide = like(source_type, f32)  # the bounds below need an exponent range beyond half's
        value = e.put(f"fpext {e.type(source_type)} {value} to {e.type(wide)}")
        source_type = wide
    have, want = e.type(source_type), e.type(result.type)
    name = "fptosi" if signed else "fptoui"
    if lanes_of(result.type) is None:
        saturated = (
            f"call {want} @llvm.{name}.sat.{suffix(result.type)}.{suffix(source_type)}"
            f"({have} {value})"
        )
        if signed and e.module.triple.startswith("x86_64"):
            e[result] = _converted(e, value, source_type, result.type, saturated)
        else:
            e.define(result, saturated)
        return
    bits = _bits(result.type)
    top = 2 ** (bits - 1) if signed else 2**bits
    bottom = -top if signed else 0
    mask = e.type(like(result.type, IntegerType(1)))
    raw = e.put(f"{name} {have} {value} to {want}")
    above = e.put(f"fcmp oge {have} {value}, {constant_of(e, float(top), source_type)}")
    largest = constant_of(e, top - 1, result.type)
    capped = e.put(f"select {mask} {above}, {want} {largest}, {want} {raw}")
    zero = constant_of(e, 0, result.type)
    if not signed:
        below = e.put(f"fcmp ult {have} {value}, {constant_of(e, 0.0, source_type)}")
        e.define(result, f"select {mask} {below}, {want} {zero}, {want} {capped}")
        return
    below = e.put(f"fcmp olt {have} {value}, {constant_of(e, float(bottom), source_type)}")
    smallest = constant_of(e, bottom, result.type)
    held = e.put(f"select {mask} {below}, {want} {smallest}, {want} {capped}")
    nan = e.put(f"fcmp uno {have} {value}, {value}")
    e.define(result, f"select {mask} {nan}, {want} {zero}, {want} {held}")


def _converted(
    e: FunctionText, value: str, source: Attribute, result: Attribute, saturated: str
) -> str:
    """One instruction of x86 where the number fits; what it does not do stands apart."""
    have, want = e.type(source), e.type(result)
    limit = constant_of(e, float(2 ** (_bits(result) - 1)), source)
    size = e.put(f"call {have} @llvm.fabs.{suffix(source)}({have} {value})")
    beyond = e.put(f"fcmp uge {have} {size}, {limit}")
    slow, fast, done = e.labels("convert", "fits", "end")
    e.branch(beyond, slow, fast, rarely=True)
    e.open(slow)
    held = e.put(saturated)
    e.jump(done)
    e.open(fast)
    plain = e.put(f"fptosi {have} {value} to {want}")
    e.jump(done)
    e.open(done)
    return e.put(f"phi {want} [ {held}, %{slow} ], [ {plain}, %{fast} ]")


def _fptosi(e: FunctionText, op: arith.FPToSIOp) -> None:
    emit_float_to_int(e, op, signed=True)


def _fptoui(e: FunctionText, op: arith.FPToUIOp) -> None:
    emit_float_to_int(e, op, signed=False)


_BINARY: dict[type[Operation], str] = {
    arith.DivUIOp: "udiv",
    arith.DivSIOp: "sdiv",
    arith.RemUIOp: "urem",
    arith.RemSIOp: "srem",
    arith.AndIOp: "and",
    arith.OrIOp: "or",
    arith.XOrIOp: "xor",
    arith.ShRUIOp: "lshr",
    arith.ShRSIOp: "ashr",
}
_OVERFLOW: dict[type[Operation], str] = {
    arith.AddiOp: "add",
    arith.SubiOp: "sub",
    arith.MuliOp: "mul",
    arith.ShLIOp: "shl",
}
_FLOAT: dict[type[Operation], str] = {
    arith.AddfOp: "fadd",
    arith.SubfOp: "fsub",
    arith.MulfOp: "fmul",
    arith.DivfOp: "fdiv",
}
_INTRINSIC: dict[type[Operation], str] = {
    arith.MinUIOp: "umin",
    arith.MaxUIOp: "umax",
    arith.MinSIOp: "smin",
    arith.MaxSIOp: "smax",
    # minimumf/maximumf give NaN when either operand is NaN. LLVM 22 on AVX-512: three instructions
    # with nsz, six without (it then orders -0 below +0).
    arith.MinimumfOp: "minimum",
    arith.MaximumfOp: "maximum",
    arith.MinnumfOp: "minnum",
    arith.MaxnumfOp: "maxnum",
}
_CONVERSION: dict[type[Operation], str] = {
    arith.ExtSIOp: "sext",
    arith.ExtUIOp: "zext",
    arith.TruncIOp: "trunc",
    arith.SIToFPOp: "sitofp",
    arith.UIToFPOp: "uitofp",
}

_TABLES: tuple[tuple[dict[type[Operation], str], Callable[[str], Rule]], ...] = (
    (_BINARY, binary),
    (_OVERFLOW, binary_overflow),
    (_FLOAT, binary_float),
    (_INTRINSIC, intrinsic),
    (_CONVERSION, conversion),
)
for _table, _make in _TABLES:
    for _op, _text in _table.items():
        RULES[_op] = _make(_text)

RULES.on(arith.TruncFOp, _truncf)
RULES.on(arith.ExtFOp, _extf)
RULES.on(arith.ConstantOp, _constant)
RULES.on(arith.SelectOp, emit_select)
RULES.on(arith.CmpiOp, _cmpi)
RULES.on(arith.CmpfOp, _cmpf)
RULES.on(arith.NegfOp, _negf)
RULES.on(arith.FloorDivSIOp, _rounded_division(up=False))
RULES.on(arith.CeilDivSIOp, _rounded_division(up=True))
RULES.on(arith.CeilDivUIOp, _ceildivui)
RULES.on(arith.AddUIExtendedOp, _addui_extended)
RULES.on(arith.MulUIExtendedOp, _mul_extended("zext"))
RULES.on(arith.MulSIExtendedOp, _mul_extended("sext"))
RULES.on(arith.BitcastOp, emit_bitcast)
RULES.on(arith.IndexCastOp, emit_index_cast)
RULES.on(arith.FPToSIOp, _fptosi)
RULES.on(arith.FPToUIOp, _fptoui)
