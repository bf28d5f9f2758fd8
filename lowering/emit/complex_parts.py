"""
Complex elements: in registers all real parts, then all imaginary ones; in memory side by side.

`vector<8xcomplex<f32>>` is `<16 x float>`, `complex<f32>` is `<2 x float>`. Loads and stores
shuffle between both orders, which for a scalar are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xdsl.ir import Attribute, SSAValue

from mlc.dialects import complex_ops as parts
from mlc.dialects.lanes import lanes_of
from mlc.lowering.emit.function import FunctionText, Rules
from mlc.lowering.emit.types import complex_part

RULES = Rules()


def is_complex(value_type: Attribute) -> bool:
    """Whether the elements are complex numbers."""
    return complex_part(value_type) is not None


def shuffled(
    e: FunctionText, spelled: str, value: str, lanes: Iterable[int], other: str = "poison"
) -> str:
    """The lanes of a vector, and of `other` behind it, in this order."""
    items = ", ".join(f"i32 {lane}" for lane in lanes)
    return e.put(
        f"shufflevector {spelled} {value}, {spelled} {other}, "
        f"<{items.count('i32')} x i32> <{items}>"
    )


def from_memory(e: FunctionText, value: str, value_type: Attribute) -> str:
    """Elements as they lie in memory, with the parts apart; any other type as it is."""
    lanes = lanes_of(value_type)
    if lanes is None or not is_complex(value_type):
        return value
    return shuffled(
        e, e.type(value_type), value, [*range(0, 2 * lanes, 2), *range(1, 2 * lanes, 2)]
    )


def to_memory(e: FunctionText, value: str, value_type: Attribute) -> str:
    """The inverse of `from_memory`."""
    lanes = lanes_of(value_type)
    if lanes is None or not is_complex(value_type):
        return value
    return shuffled(
        e, e.type(value_type), value, [k + p * lanes for k in range(lanes) for p in (0, 1)]
    )


def mask_of(
    e: FunctionText, mask: SSAValue, value_type: Attribute, *, in_memory: bool = False
) -> tuple[str, str]:
    """(type, value) of a mask over elements, once per part where these are complex."""
    lanes = lanes_of(mask.type)
    if lanes is None or not is_complex(value_type):
        return e.type(mask.type), e[mask]
    order = [k // 2 for k in range(2 * lanes)] if in_memory else [*range(lanes)] * 2
    return f"<{2 * lanes} x i1>", shuffled(e, e.type(mask.type), e[mask], order)


def both_parts(lanes: Iterable[int], count: int) -> list[int]:
    """Where the parts of these elements lie, in a vector (or two, one behind the other) of `count`.

    A lane of the second vector is `count` or more.
    """
    real = [k if k < count else k + count for k in lanes]
    return [*real, *(k + count for k in real)]


def _part(e: FunctionText, op: parts.PartOp) -> None:
    value, result = op.operands[0], op.results[0]
    lanes = lanes_of(value.type)
    imag = cast("parts.PartAttr", op.properties["which"]).data is parts.Part.IMAG
    if lanes is None:
        e.define(result, f"extractelement {e.type(value.type)} {e[value]}, i64 {int(imag)}")
        return
    first = lanes if imag else 0
    e[result] = shuffled(e, e.type(value.type), e[value], range(first, first + lanes))


def _pair(e: FunctionText, op: parts.PairOp) -> None:
    real, imag = op.operands
    result = op.results[0]
    lanes, spelled = lanes_of(real.type), e.type(result.type)
    if lanes is None:
        part = e.type(real.type)
        first = e.put(f"insertelement {spelled} poison, {part} {e[real]}, i64 0")
        e.define(result, f"insertelement {spelled} {first}, {part} {e[imag]}, i64 1")
        return
    e[result] = shuffled(e, e.type(real.type), e[real], range(2 * lanes), e[imag])


def gathered_addresses(
    e: FunctionText, addresses: str, lanes: int, pointer: str, value_type: Attribute
) -> tuple[int, str]:
    """(lanes, addresses) of both parts of complex elements; of other elements as they are."""
    part = complex_part(value_type)
    if part is None:
        return lanes, addresses
    spelled = f"<{lanes} x {pointer}>"
    second = e.put(f"getelementptr {e.type(part)}, {spelled} {addresses}, i64 1")
    return 2 * lanes, shuffled(e, spelled, addresses, range(2 * lanes), second)


RULES.on(parts.PartOp, _part)
RULES.on(parts.PairOp, _pair)
