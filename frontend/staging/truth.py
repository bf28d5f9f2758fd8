"""Whether a value counts as true: Python's answer, or one that only the compiled function has."""

from __future__ import annotations

from typing import Any

from mlc.dialects.dtypes import BOOL
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import located
from mlc.frontend.staging.counted import counted_of, is_counted
from mlc.frontend.staging.sometimes import is_filled, unsure
from mlc.frontend.staging.variants import Variants
from mlc.frontend.trace.source import user_site
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer


def truth(value: Any, *, staying: bool = True) -> bool | Tracer:
    """
    The truth value, if Python has it; else a traced bool.

    `staying`: ints among the arguments decide about the program, which is then for these.
    """
    if isinstance(value, Variants):
        value = value.apply(truth)
    if unsure(value) is not None:
        value = is_filled(value)
    if is_counted(value):
        value = counted_of(value).count > 0
    if isinstance(value, SymbolicDim):
        value = value != 0  # traced, of a size that the program computes
    if not isinstance(value, Tracer):
        return bool(value)
    if staying and value.origins and value.origins <= here().ints.known.keys():
        return bool(value)  # Python ints among the arguments decide: the program is for these
    if (known := value.from_constants()) is not None:
        return bool(known)
    if value.dims and value.size != 1:
        site = user_site()
        name = (site.text if site is not None else "") or "condition"
        name = name if name.isidentifier() else f"({name})"
        message = (
            f"the truth value of an array {spell(value.dims)} is ambiguous: it has more than one"
            " element."
        )
        remedy = f"Use {name}.any() or {name}.all()."
        raise located(ShapeError, message, remedy=remedy)
    number: Any = value.reshape(()) if value.dims else value
    if number.row is BOOL:
        return number
    made = number != 0
    made.origins = value.origins
    return made


def negated(value: Tracer) -> Tracer:
    """Of a traced bool."""
    from mlc.frontend import numpy as names

    made: Any = names.logical_not(value)
    made.weak, made.origins = True, value.origins
    return made
