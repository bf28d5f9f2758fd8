"""
Numbers that are Python's int or bool on one way, and a float on another: the value is the float's,
and what it is where Python sees it is known when the function runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BOOL, I64, DType
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.bitwise import AndOp
from mlc.frontend.numpy.values import common_dtype, dtype_row
from mlc.frontend.trace.kinds import class_of
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Whole

_ROWS: dict[type[Any], DType] = {bool: BOOL, int: I64}


def as_kind(leaf: Any) -> type[Any] | None:
    """int or bool, of one of Python's numbers that is such a one."""
    kind = int if isinstance(leaf, SymbolicDim) else class_of(leaf)
    if isinstance(leaf, Tracer):
        weak = leaf.weak and not leaf.dims
        kind = {"int": int, "bool": bool}.get(leaf.row.kind) if weak else None
    return kind if kind in _ROWS else None


def kind_of(leaf: Any, row: DType) -> type[Any] | None:
    """Likewise, where `row` is another dtype."""
    kind = as_kind(leaf)
    return kind if kind is not None and _ROWS[kind] is not row else None


def row_of(leaf: Any) -> DType:
    """The dtype of a number or an array."""
    if isinstance(leaf, Tracer):
        return leaf.row
    return I64 if isinstance(leaf, SymbolicDim) else dtype_row(np.asarray(leaf).dtype)


def are_told(x: Any, y: Any) -> bool:
    """Whether what stands for either of two numbers or arrays can say which of them it is."""
    rows = row_of(x), row_of(y)
    if rows[0] is rows[1]:
        return True
    try:
        row = common_dtype("a choice", (x, y))
    except DTypeError:
        return False
    apart = [leaf for leaf, own in zip((x, y), rows, strict=True) if own is not row]
    return all(kind_of(leaf, row) is not None for leaf in apart) and len(_kinds((x, y), row)) == 1


def _kinds(leaves: Sequence[Any], row: DType) -> set[type[Any]]:
    """The classes of Python's that numbers as one dtype may have besides that of the dtype."""
    wholes = [x.kind for leaf in leaves if (x := whole_of(leaf)) is not None]
    return {*wholes, *(x for leaf in leaves if (x := kind_of(leaf, row)) is not None)}


def whole_of(leaf: Any) -> Whole | None:
    """Where a leaf is such a number."""
    return leaf.whole if isinstance(leaf, Tracer) else None


def conditions(leaves: Sequence[Any], row: DType, blocks: Sequence[Any]) -> Any:
    """
    Of two leaves as one dtype: (where that is one of Python's, in each block, its class), or None.
    """
    kinds = _kinds(leaves, row)
    if len(kinds) != 1:
        return None
    from mlc.frontend.numpy.values import number

    found: list[SSAValue] = []
    for leaf, block in zip(leaves, blocks, strict=True):
        with here().inside(block):
            whole = whole_of(leaf)
            surely = kind_of(leaf, row) is not None
            found.append(number(surely, BOOL) if whole is None else whole.condition)
    return found, kinds.pop()


def after_trips(start: Any, row: DType, none: Tracer) -> Whole | None:
    """Of what a loop hands on as a dtype: where there was no trip, it is what it was before."""
    whole = whole_of(start)
    if whole is not None:
        return Whole(here().emit(AndOp, whole.condition, none.value), whole.kind)
    kind = kind_of(start, row)
    return None if kind is None else Whole(none.value, kind)


_KEEP_INTEGERS = frozenset(
    {
        *("add", "subtract", "multiply", "floor_divide", "remainder"),
        *("negative", "positive", "absolute", "square"),
    }
)
"""Functions for operators of which Python's integers are integers again."""


def result_of(function: str, operands: Sequence[Any]) -> Whole | None:
    """Where the result of an operator is an int."""
    found = where_pythons(operands) if function in _KEEP_INTEGERS else None
    return None if found is None else Whole(found.value, int)


def where_pythons(operands: Sequence[Any]) -> Tracer | None:
    """Where all operands are integers of Python's, and not elsewhere; None where that is known."""
    where: Tracer | None = None
    for x in operands:
        whole = whole_of(x)
        if whole is None:
            weak = isinstance(x, Tracer) and x.weak and not x.dims and x.row.kind == "int"
            if not (weak or isinstance(x, int | SymbolicDim)):
                return None
            continue
        if not here().visible(whole.condition):
            return None
        both = whole.condition
        if where is not None:
            both = here().emit(AndOp, where.value, both)
        where = Tracer(here(), both)
    return where
