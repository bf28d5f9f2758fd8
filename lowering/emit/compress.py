"""
mlc_vec.compress and mlc_vec.split: a register's lanes moved together by a mask.

With AVX-512 it is an instruction. With AVX2 the mask is the number of a row in a table of lane
numbers, by which one instruction moves the lanes, where LLVM would store lane after lane.
SOURCE: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: VPERMD, VPCOMPRESSD.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from mlc.dialects import vec
from mlc.dialects.lanes import element_of, lanes_of, like
from mlc.lowering.emit.complex_parts import shuffled
from mlc.lowering.emit.function import FunctionText, Rules
from mlc.lowering.emit.types import item_bytes, suffix

RULES = Rules()

PARTS = 8
"""Parts of 32 bits in a register of AVX2."""


def _compress(e: FunctionText, op: vec.CompressOp) -> None:
    value, mask = op.operands
    e.vector_accesses += 1
    if _by_table(e, value.type):
        e.define(op.result, _moved(e, value, mask))
    else:
        e.define(op.result, _kept(e, value, e[mask], "poison"))


def _split(e: FunctionText, op: vec.SplitOp) -> None:
    """Without a table: the others compressed and turned round, the kept ones over them."""
    value, mask = op.operands
    e.vector_accesses += 1
    if _by_table(e, value.type):
        e.define(op.result, _moved(e, value, mask))
        return
    lanes = lanes_of(value.type) or 1
    spelled = e.type(mask.type)
    ones = f"<{', '.join(['i1 true'] * lanes)}>"
    others = e.put(_kept(e, value, e.put(f"xor {spelled} {e[mask]}, {ones}"), "poison"))
    behind = shuffled(e, e.type(value.type), others, list(range(lanes))[::-1])
    e.define(op.result, _kept(e, value, e[mask], behind))


def _kept(e: FunctionText, value: SSAValue, mask: str, rest: str) -> str:
    """LLVM's compress: the lanes of the mask, and behind them those of `rest`."""
    spelled, kind = e.type(value.type), e.type(like(value.type, IntegerType(1)))
    return (
        f"call {spelled} @llvm.experimental.vector.compress.{suffix(value.type)}("
        f"{spelled} {e[value]}, {kind} {mask}, {spelled} {rest})"
    )


def _by_table(e: FunctionText, kind: Attribute) -> bool:
    """Whether the machine has AVX2 alone, and the vector is a register of 4 or 8 bytes each."""
    width = item_bytes(element_of(kind))
    whole = width in (4, 8) and (lanes_of(kind) or 1) * width == 4 * PARTS
    return whole and e.module.vector_bits == 256 and e.module.triple.startswith("x86_64")


def _moved(e: FunctionText, value: SSAValue, mask: SSAValue) -> str:
    """The kept lanes in order, then the others from the last to the first."""
    lanes, spelled = lanes_of(value.type) or 1, e.type(value.type)
    table, row = f"@lanes_by_mask_{lanes}", f"<{PARTS} x i8>"
    e.module.constants.setdefault(table, _table(table, lanes))
    bits = e.put(f"bitcast {e.type(mask.type)} {e[mask]} to i{lanes}")
    number = e.put(f"zext i{lanes} {bits} to i64")
    place = e.put(f"getelementptr inbounds {row}, ptr {table}, i64 {number}")
    narrow = e.put(f"load {row}, ptr {place}, align {PARTS}")
    order = e.put(f"zext {row} {narrow} to <{PARTS} x i32>")
    parts = e.put(f"bitcast {spelled} {e[value]} to <{PARTS} x i32>")
    whole = f"<{PARTS} x i32>"
    moved = e.put(f"call {whole} @llvm.x86.avx2.permd({whole} {parts}, {whole} {order})")
    return f"bitcast {whole} {moved} to {spelled}"


def _table(name: str, lanes: int) -> str:
    """For every mask the number of the part that comes to each place; 2 KiB for 8 lanes."""
    each = PARTS // lanes
    rows: list[str] = []
    for mask in range(1 << lanes):
        kept = [lane for lane in range(lanes) if mask >> lane & 1]
        others = [lane for lane in range(lanes) if not mask >> lane & 1]
        order = [each * lane + part for lane in kept + others[::-1] for part in range(each)]
        rows.append(f"<{PARTS} x i8> <{', '.join(f'i8 {k}' for k in order)}>")
    kind = f"[{len(rows)} x <{PARTS} x i8>]"
    return f"{name} = private unnamed_addr constant {kind} [{', '.join(rows)}], align 64"


RULES.on(vec.CompressOp, _compress)
RULES.on(vec.SplitOp, _split)
