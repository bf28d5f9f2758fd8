"""`mlc.typical = {B = 2 : i64}` on a module: what its symbols mostly are."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Attribute

ATTRIBUTE = "mlc.typical"


def typical_attribute(sizes: Mapping[str, int]) -> DictionaryAttr:
    """What a module says of its symbols."""
    return DictionaryAttr({name: IntegerAttr(sizes[name], i64) for name in sorted(sizes)})


def is_typical_attribute(attribute: Attribute) -> bool:
    """Whether it gives symbols whole numbers, none below zero."""
    return isinstance(attribute, DictionaryAttr) and all(
        isinstance(x, IntegerAttr) and x.value.data >= 0 for x in attribute.data.values()
    )


def typical_of(module: ModuleOp) -> dict[str, int]:
    """What a module says of its symbols, by their names."""
    said = module.attributes.get(ATTRIBUTE)
    if not isinstance(said, DictionaryAttr):
        return {}
    return {k: x.value.data for k, x in said.data.items() if isinstance(x, IntegerAttr)}
