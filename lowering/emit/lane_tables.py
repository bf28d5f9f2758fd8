"""
mlc_math: exponents and tables in registers, by the instructions of AVX-512.

Each instruction has forms of 128, 256 and 512 bits; scalars go through the lowest lane of the
first, vectors of other widths through pieces.
SOURCE: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2C: VGETEXPPS,
VGETMANTPS, VSCALEFPS, VRCP14PS, VRSQRT14PS,
VPERMI2PS.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation

from mlc.dialects import functions
from mlc.dialects.lanes import element_of, lanes_of
from mlc.lowering.emit.function import FunctionText, Rules
from mlc.lowering.emit.types import float_literal

RULES = Rules()

SIGNIFICAND = 0b1111
"""Operand of VGETMANT: the interval [3/4, 3/2), the sign of zeros dropped, NaN below 0."""

Piece = Callable[[list[str], int], str]
"""(operands, lanes) -> the result, all of one register's width"""


def _by_pieces(
    e: FunctionText, op: Operation, types: Sequence[str], result: str, piece: Piece, widths: range
) -> None:
    """
    `piece` on vectors of a number of lanes from `widths` (the smallest, the largest): shorter
    values are padded, longer ones cut. `types`: the operands' element types.
    """
    lanes = lanes_of(op.results[0].type)
    least, most = widths[0], widths[-1]
    count = lanes or 1
    width = least
    while width < min(count, most):
        width *= 2
    names = [e[operand] for operand in op.operands]
    if lanes is None:
        names = [
            e.put(f"insertelement <{width} x {t}> zeroinitializer, {t} {name}, i32 0")
            for t, name in zip(types, names, strict=True)
        ]
    elif lanes % width:
        padded = -(-lanes // width) * width
        names = [
            _shuffled(e, name, t, lanes, [min(k, lanes) for k in range(padded)])
            for t, name in zip(types, names, strict=True)
        ]
        count = padded
    if lanes is None:
        whole = piece(names, width)
        e.define(op.results[0], f"extractelement <{width} x {result}> {whole}, i32 0")
        return
    parts: list[str] = []
    for start in range(0, count, width):
        cut = [
            _shuffled(e, name, t, count, list(range(start, start + width)))
            for t, name in zip(types, names, strict=True)
        ]
        parts.append(piece(cut, width))
    _joined(e, op, parts, result, width)


def _shuffled(e: FunctionText, name: str, element: str, lanes: int, order: list[int]) -> str:
    """Those lanes of the vector; lane `lanes` is 0."""
    if order == list(range(lanes)):
        return name
    spelled = ", ".join(f"i32 {k}" for k in order)
    return e.put(
        f"shufflevector <{lanes} x {element}> {name}, <{lanes} x {element}> zeroinitializer, "
        f"<{len(order)} x i32> <{spelled}>"
    )


def _joined(e: FunctionText, op: Operation, parts: list[str], element: str, width: int) -> None:
    """The result from its pieces, one after the other."""
    lanes = lanes_of(op.results[0].type) or 1
    while len(parts) > 1:
        order = ", ".join(f"i32 {k}" for k in range(2 * width))
        spelled = f"<{width} x {element}>"
        parts = [
            e.put(f"shufflevector {spelled} {a}, {spelled} {b}, <{2 * width} x i32> <{order}>")
            for a, b in zip(parts[::2], parts[1::2], strict=True)
        ]
        width *= 2
    order = ", ".join(f"i32 {k}" for k in range(lanes))
    spelled = f"<{width} x {element}>"
    e.define(
        op.results[0],
        f"shufflevector {spelled} {parts[0]}, {spelled} poison, <{lanes} x i32> <{order}>",
    )


def _element(value_type: Attribute) -> tuple[str, str, int]:
    """(LLVM's name, the intrinsics' suffix, bits) of the float in each lane."""
    bits = cast("AnyFloat", element_of(value_type)).bitwidth
    return ("float", "ps", 32) if bits == 32 else ("double", "pd", 64)


def _instruction(
    name: str, between: str = "", *, rounds: bool = True
) -> Callable[[FunctionText, Operation], None]:
    """
    The instruction with every lane on; `between`: its immediate operand; `rounds`: the form of 512
    bits names a rounding.
    """

    def rule(e: FunctionText, op: Operation) -> None:
        element, short, bits = _element(op.results[0].type)

        def piece(operands: list[str], lanes: int) -> str:
            spelled = f"<{lanes} x {element}>"
            arguments = [f"{spelled} {x}" for x in operands]
            arguments += [between] if between else []
            arguments += [f"{spelled} zeroinitializer", f"i{max(lanes, 8)} -1"]
            arguments += ["i32 4"] if rounds and lanes * bits == 512 else []  # as it is set
            function = f"@llvm.x86.avx512.{name}.{short}.{lanes * bits}"
            return e.put(f"call {spelled} {function}({', '.join(arguments)})")

        widths = range(128 // bits, 512 // bits + 1)
        _by_pieces(e, op, [element] * len(op.operands), element, piece, widths)

    return rule


def _lookup(e: FunctionText, op: functions.LookupOp) -> None:
    element, short, bits = _element(op.result.type)
    entries = [float_literal(x, element_of(op.result.type)) for x in op.table.get_values()]
    lanes = 512 // bits
    spelled, index = f"<{lanes} x {element}>", f"<{lanes} x i{bits}>"
    parts = [
        f"{spelled} <{', '.join(f'{element} {x}' for x in entries[start : start + lanes])}>"
        for start in range(0, len(entries), lanes)
    ]
    function = f"@llvm.x86.avx512.vpermi2var.{short}.512"

    def piece(operands: list[str], count: int) -> str:
        assert count == lanes
        where = f"{index} {operands[0]}"
        found = [
            e.put(f"call {spelled} {function}({low}, {where}, {high})")
            for low, high in zip(parts[::2], parts[1::2], strict=True)
        ]
        if len(found) == 1:
            return found[0]
        bit = ", ".join([f"i{bits} {2 * lanes}"] * lanes)
        second = e.put(f"and {where}, <{bit}>")
        second = e.put(f"icmp ne {index} {second}, zeroinitializer")
        mask = f"<{lanes} x i1> {second}"
        return e.put(f"select {mask}, {spelled} {found[1]}, {spelled} {found[0]}")

    _by_pieces(e, op, [f"i{bits}"], element, piece, range(lanes, lanes + 1))


RULES.on(functions.ScaleOp, _instruction("mask.scalef"))
RULES.on(functions.ExponentOp, _instruction("mask.getexp"))
RULES.on(functions.SignificandOp, _instruction("mask.getmant", f"i32 {SIGNIFICAND}"))
RULES.on(functions.ReciprocalEstimateOp, _instruction("rcp14", rounds=False))
RULES.on(functions.RootEstimateOp, _instruction("rsqrt14", rounds=False))
RULES.on(functions.LookupOp, _lookup)
