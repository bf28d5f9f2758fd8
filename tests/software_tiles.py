"""Tile registers in software: LLVM IR whose tile instructions are functions, to run anywhere."""

from __future__ import annotations

import re

_ROWS = """
define internal <256 x i32> @tile_load(i16 %r, i16 %c, ptr %p, i64 %step) {
entry:
  %t = alloca <256 x i32>, align 64
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %o = mul i64 %i, %step
  %from = getelementptr i8, ptr %p, i64 %o
  %q = mul i64 %i, 64
  %to = getelementptr i8, ptr %t, i64 %q
  %row = load <16 x i32>, ptr %from, align 1
  store <16 x i32> %row, ptr %to, align 64
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %end
end:
  %all = load <256 x i32>, ptr %t, align 64
  ret <256 x i32> %all
}
define internal void @tile_store(i16 %r, i16 %c, ptr %p, i64 %step, <256 x i32> %x) {
entry:
  %t = alloca <256 x i32>, align 64
  store <256 x i32> %x, ptr %t, align 64
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %o = mul i64 %i, %step
  %to = getelementptr i8, ptr %p, i64 %o
  %q = mul i64 %i, 64
  %from = getelementptr i8, ptr %t, i64 %q
  %row = load <16 x i32>, ptr %from, align 64
  store <16 x i32> %row, ptr %to, align 1
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 16
  br i1 %more, label %loop, label %end
end:
  ret void
}
define internal <256 x i32> @tile_zero(i16 %r, i16 %c) {
  ret <256 x i32> zeroinitializer
}
"""
_DOT = """
define internal <256 x i32> @NAME(
    i16 %m, i16 %n, i16 %k, <256 x i32> %c, <256 x i32> %a, <256 x i32> %b) {
entry:
  %tc = alloca <256 x i32>, align 64
  %ta = alloca <256 x i32>, align 64
  %tb = alloca <256 x i32>, align 64
  store <256 x i32> %c, ptr %tc, align 64
  store <256 x i32> %a, ptr %ta, align 64
  store <256 x i32> %b, ptr %tb, align 64
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %row = udiv i64 %i, WIDE
  %rest = urem i64 %i, WIDE
  %column = udiv i64 %rest, DEEP
  %depth = urem i64 %rest, DEEP
  %group = udiv i64 %depth, GROUP
  %place = urem i64 %depth, GROUP
  %row_a = mul i64 %row, DEEP
  %at_a = add i64 %row_a, %depth
  %row_b = mul i64 %group, DEEP
  %in_b = mul i64 %column, GROUP
  %b0 = add i64 %row_b, %in_b
  %at_b = add i64 %b0, %place
  %row_c = mul i64 %row, 16
  %at_c = add i64 %row_c, %column
  %pa = getelementptr ELEMENT, ptr %ta, i64 %at_a
  %pb = getelementptr ELEMENT, ptr %tb, i64 %at_b
  %pc = getelementptr i32, ptr %tc, i64 %at_c
  %xa = load ELEMENT, ptr %pa
  %xb = load ELEMENT, ptr %pb
  %x = WIDEN ELEMENT %xa to SUM
  %y = WIDEN ELEMENT %xb to SUM
  %z = load SUM, ptr %pc
  %xy = MUL SUM %x, %y
  %s = ADD SUM %xy, %z
  store SUM %s, ptr %pc
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, ALL
  br i1 %more, label %loop, label %end
end:
  %all = load <256 x i32>, ptr %tc, align 64
  ret <256 x i32> %all
}
"""
_KINDS = {
    "tdpbssd": {"ELEMENT": "i8", "SUM": "i32", "WIDEN": "sext", "MUL": "mul", "ADD": "add"},
    "tdpbf16ps": {
        "ELEMENT": "bfloat", "SUM": "float", "WIDEN": "fpext", "MUL": "fmul", "ADD": "fadd",
    },
}  # fmt: skip


def in_software(text: str) -> str:
    """The module, for machines without tile registers; every tile has 16 rows of 64 bytes."""
    if "x86_amx" not in text:
        return text
    found = text.replace("x86_amx", "<256 x i32>")
    for name, own in (("tileloadd64", "load"), ("tilestored64", "store"), ("tilezero", "zero")):
        found = found.replace(f"@llvm.x86.{name}.internal", f"@tile_{own}")
    assert not re.search(r"@tile_\w+\(i16 (?!16, i16 64\b)", found)
    for name, words in _KINDS.items():
        found = found.replace(f"@llvm.x86.{name}.internal", f"@{name}")
        deep = 64 if words["ELEMENT"] == "i8" else 32
        numbers = {"WIDE": 16 * deep, "DEEP": deep, "GROUP": deep // 16, "ALL": 256 * deep}
        body = _DOT.replace("NAME", name)
        for word, value in {**words, **numbers}.items():
            body = re.sub(rf"\b{word}\b", str(value), body)
        found += body
    return found + _ROWS
