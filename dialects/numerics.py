"""`mlc.numerics`, the module's attribute that says how far results may be from the reference's."""

from __future__ import annotations

from typing import Literal, get_args

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation

from mlc.dialects.errors import MlcError

Numerics = Literal["strict", "standard", "fast"]
"""
"strict": the bits of the reference, but for functions that nobody rounds correctly (exp, sin …).
"standard": also sums in another order, and sums of products rounded once per term.
"fast": also fewer roundings and wider bounds everywhere.
"""
MODES: tuple[Numerics, ...] = get_args(Numerics)
ATTRIBUTE = "mlc.numerics"


def numerics_of(op: Operation) -> Numerics:
    """What the module that holds the op states; "standard" where none is stated."""
    while (parent := op.parent_op()) is not None:
        op = parent
    attribute = op.attributes.get(ATTRIBUTE) if isinstance(op, ModuleOp) else None
    if attribute is None:
        return "standard"
    if not isinstance(attribute, StringAttr) or attribute.data not in MODES:
        raise MlcError(f"{ATTRIBUTE} = {attribute}; expected one of {', '.join(MODES)}")
    return attribute.data


def is_strict(op: Operation) -> bool:
    """Whether the module that holds the op asks for the reference's bits."""
    return numerics_of(op) == "strict"
