"""
mlc_vec.dot, repeat, round and the tile ops: LLVM's intrinsics for instructions that multiply.

Tiles are SSA values of type x86_amx; LLVM chooses registers and writes their configuration.
SOURCE: LLVM 22, IntrinsicsX86.td and IntrinsicsAArch64.td.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Attribute, SSAValue

from mlc.dialects import dot
from mlc.dialects.lanes import element_of, lanes_of
from mlc.dialects.target.intrinsics import BF16_DOT
from mlc.lowering.emit.complex_parts import is_complex, shuffled
from mlc.lowering.emit.function import Buffer, FunctionText, Rules
from mlc.lowering.emit.types import EmitError, complex_part, is_float, item_bytes, suffix

RULES = Rules()


def _dot(e: FunctionText, op: dot.DotOp) -> None:
    e.vector_accesses += 1
    name = op.row.data
    write = WRITERS.get(name)
    if write is None:
        raise EmitError(f"emit: @{e.name}: '{op.name}' {name}: no rule writes this instruction")
    e.module.instructions.add(name)
    e[op.result] = write(e, op)


def _call(e: FunctionText, op: dot.DotOp, intrinsic: str, packed: str) -> str:
    """The intrinsic on the sums and on both operands as vectors of `packed`."""
    sums = e.type(op.acc.type)
    a, b = (_as(e, operand, packed) for operand in (op.lhs, op.rhs))
    return e.put(f"call {sums} @{intrinsic}({sums} {e[op.acc]}, {packed} {a}, {packed} {b})")


def _as(e: FunctionText, value: SSAValue, spelled: str) -> str:
    have = e.type(value.type)
    return e[value] if have == spelled else e.put(f"bitcast {have} {e[value]} to {spelled}")


def _bits(value_type: Attribute) -> int:
    return (lanes_of(value_type) or 1) * 8 * item_bytes(element_of(value_type))


def _vnni(name: str, element: str) -> Callable[[FunctionText, dot.DotOp], str]:
    def write(e: FunctionText, op: dot.DotOp) -> str:
        bits = _bits(op.acc.type)
        width = int(element[1:])
        return _call(e, op, f"llvm.x86.avx512.{name}.{bits}", f"<{bits // width} x {element}>")

    return write


def _madd_i16(e: FunctionText, op: dot.DotOp) -> str:
    """vpmaddwd and an addition."""
    sums, bits = e.type(op.acc.type), _bits(op.acc.type)
    name = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}[bits]
    pairs = e.type(op.lhs.type)
    added = e.put(f"call {sums} @llvm.x86.{name}({pairs} {e[op.lhs]}, {pairs} {e[op.rhs]})")
    return e.put(f"add {sums} {added}, {e[op.acc]}")


def _dot_bf16(e: FunctionText, op: dot.DotOp) -> str:
    bits = _bits(op.acc.type)
    return _call(e, op, f"llvm.x86.avx512bf16.dpbf16ps.{bits}", f"<{bits // 16} x bfloat>")


def _neon(intrinsic: str, packed: str) -> Callable[[FunctionText, dot.DotOp], str]:
    return lambda e, op: _call(e, op, f"llvm.aarch64.neon.{intrinsic}", packed)


def _fma(e: FunctionText, op: dot.DotOp) -> str:
    if not is_complex(op.acc.type):
        return _fused(e, op.acc.type, e[op.lhs], e[op.rhs], e[op.acc])
    part, real, imag = _parts(e, op)
    turned = e.put(f"fneg {part} {imag[0]}")
    kind = f"v{lanes_of(op.acc.type) or 1}{suffix(complex_part(op.acc.type) or op.acc.type)}"

    def fused(x: str, y: str, z: str) -> str:
        return e.put(f"call {part} @llvm.fma.{kind}({part} {x}, {part} {y}, {part} {z})")

    first = fused(turned, imag[1], fused(real[0], real[1], real[2]))
    second = fused(imag[0], real[1], fused(real[0], imag[1], imag[2]))
    return _whole(e, op, part, first, second)


def _whole(e: FunctionText, op: dot.DotOp, part: str, real: str, imag: str) -> str:
    """Complex sums of their parts, as `_parts` takes them apart."""
    return shuffled(e, part, real, range(2 * (lanes_of(op.acc.type) or 1)), imag)


def _parts(e: FunctionText, op: dot.DotOp) -> tuple[str, list[str], list[str]]:
    """The type of a part, and real and imaginary parts of both factors and the sums."""
    lanes, whole = lanes_of(op.acc.type) or 1, e.type(op.acc.type)
    part = f"<{lanes} x {e.type(complex_part(op.acc.type) or op.acc.type)}>"
    operands = (op.lhs, op.rhs, op.acc)
    real, imag = (
        [shuffled(e, whole, e[x], range(first, first + lanes)) for x in operands]
        for first in (0, lanes)
    )
    return part, real, imag


def _fused(e: FunctionText, kind: Attribute, x: str, y: str, z: str) -> str:
    spelled = e.type(kind)
    return e.put(
        f"call {spelled} @llvm.fma.{suffix(kind)}({spelled} {x}, {spelled} {y}, {spelled} {z})"
    )


def _mul_add(e: FunctionText, op: dot.DotOp) -> str:
    spelled = e.type(op.acc.type)
    if is_complex(op.acc.type):
        part, real, imag = _parts(e, op)

        def parts(name: str, x: str, y: str) -> str:
            return e.put(f"{name} {part} {x}, {y}")

        first, second = (parts("fmul", p[0], p[1]) for p in (real, imag))
        crossed = parts("fmul", real[0], imag[1]), parts("fmul", imag[0], real[1])
        found = parts("fsub", first, second), parts("fadd", *crossed)
        sums = [parts("fadd", x, y) for x, y in zip(found, (real[2], imag[2]), strict=True)]
        return _whole(e, op, part, *sums)
    f = "f" if is_float(element_of(op.acc.type)) else ""
    product = e.put(f"{f}mul {spelled} {e[op.lhs]}, {e[op.rhs]}")
    return e.put(f"{f}add {spelled} {product}, {e[op.acc]}")


def _round(e: FunctionText, op: dot.RoundOp) -> None:
    e.module.instructions.add(BF16_DOT)
    source, lanes = e.type(op.input.type), lanes_of(op.input.type) or 1
    name = f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * lanes}"
    found = e.put(f"call <{lanes} x bfloat> @{name}({source} {e[op.input]})")
    e.define(op.result, f"bitcast <{lanes} x bfloat> {found} to {e.type(op.result.type)}")


def _repeat(e: FunctionText, op: dot.RepeatOp) -> None:
    """The lanes as one integer, which every lane of a vector of such integers holds."""
    e.vector_accesses += 1
    few, bits = lanes_of(op.input.type) or 1, _bits(op.input.type)
    count = (lanes_of(op.result.type) or 1) // few
    whole = f"<{count} x i{bits}>"
    one = e.put(f"bitcast {e.type(op.input.type)} {e[op.input]} to i{bits}")
    first = e.put(f"insertelement {whole} poison, i{bits} {one}, i64 0")
    every = e.put(f"shufflevector {whole} {first}, {whole} poison, <{count} x i32> zeroinitializer")
    e.define(op.result, f"bitcast {whole} {every} to {e.type(op.result.type)}")


# tile registers


def _extents(kind: dot.TileType) -> str:
    return f"i16 {kind.shape[0]}, i16 {kind.row_bytes}"


def _tile_dot(instruction: str) -> Callable[[FunctionText, dot.DotOp], str]:
    def write(e: FunctionText, op: dot.DotOp) -> str:
        acc, lhs = op.acc.type, op.lhs.type
        assert isinstance(acc, dot.TileType)
        assert isinstance(lhs, dot.TileType)
        return e.put(
            f"call x86_amx @llvm.x86.{instruction}.internal({_extents(acc)}, i16 {lhs.row_bytes}, "
            f"x86_amx {e[op.acc]}, x86_amx {e[op.lhs]}, x86_amx {e[op.rhs]})"
        )

    return write


def _tile_zero(e: FunctionText, op: dot.TileZeroOp) -> None:
    kind = op.result.type
    assert isinstance(kind, dot.TileType)
    e.define(op.result, f"call x86_amx @llvm.x86.tilezero.internal({_extents(kind)})")


def _rows_of(
    e: FunctionText, name: str, buffer: Buffer, indices: list[SSAValue], kind: dot.TileType
) -> str:
    """Extents, address and bytes between rows, as both tile accesses take them."""
    e.vector_accesses += 1
    if buffer.strides[-1] != "1":
        raise EmitError(
            f"emit: @{e.name}: '{name}' on {buffer.type}: the last dim has stride"
            f" {buffer.strides[-1]}, rows of a tile need 1"
        )
    step = e.mul(buffer.strides[-2], str(item_bytes(buffer.type.element_type)))
    return f"{_extents(kind)}, ptr {e.address(buffer, indices)}, i64 {step}"


def _tile_load(e: FunctionText, op: dot.TileLoadOp) -> None:
    source, *indices = op.operands
    kind = op.result.type
    assert isinstance(kind, dot.TileType)
    where = _rows_of(e, op.name, e.buffer(source), indices, kind)
    e.define(op.result, f"call x86_amx @llvm.x86.tileloadd64.internal({where})")


def _tile_store(e: FunctionText, op: dot.TileStoreOp) -> None:
    value, target, *indices = op.operands
    kind = value.type
    assert isinstance(kind, dot.TileType)
    where = _rows_of(e, op.name, e.buffer(target), indices, kind)
    e.do(f"call void @llvm.x86.tilestored64.internal({where}, x86_amx {e[value]})")


WRITERS: dict[str, Callable[[FunctionText, dot.DotOp], str]] = {
    "fma": _fma,
    "mul_add": _mul_add,
    "dot_bf16": _dot_bf16,
    "dot_u8s8": _vnni("vpdpbusd", "i8"),
    "dot_i16": _vnni("vpdpwssd", "i16"),
    "madd_i16": _madd_i16,
    "dot_s8": _neon("sdot.v4i32.v16i8", "<16 x i8>"),
    "mmla_bf16": _neon("bfmmla", "<8 x bfloat>"),
    "mmla_s8": _neon("smmla.v4i32.v16i8", "<16 x i8>"),
    "amx_bf16": _tile_dot("tdpbf16ps"),
    "amx_s8": _tile_dot("tdpbssd"),
}

RULES.on(dot.DotOp, _dot)
RULES.on(dot.RepeatOp, _repeat)
RULES.on(dot.RoundOp, _round)
RULES.on(dot.TileZeroOp, _tile_zero)
RULES.on(dot.TileLoadOp, _tile_load)
RULES.on(dot.TileStoreOp, _tile_store)
