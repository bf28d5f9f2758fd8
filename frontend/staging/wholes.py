"""
Numbers that are Python's on one way, and of another dtype or NumPy's on another: the value has the
dtype of the other way, and what it is where Python sees it is known when the function runs. Where
that dtype cannot hold it, or what is made of it would differ in dtype, it is a value with options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BOOL, C128, DTYPES, F64, I64, DType
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.bitwise import AndOp
from mlc.dialects.tensor.comparison import SelectOp
from mlc.frontend.numpy.values import common_dtype, convert, dtype_row, number
from mlc.frontend.staging.variants import Variants
from mlc.frontend.trace.kinds import class_of, is_array
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Whole

_ROWS: dict[type[Any], DType] = {bool: BOOL, int: I64, float: F64, complex: C128}
"""Python's classes of numbers, and the dtypes that hold them."""

_HOLD: dict[type[Any], tuple[DType, ...]] = {
    bool: DTYPES,
    int: (I64, F64, C128),
    float: (F64, C128),
    complex: (C128,),
}
"""Dtypes in which computing gives what Python computes."""


def python_class(leaf: Any) -> type[Any] | None:
    """The class of what is certainly one of Python's numbers."""
    kind = int if isinstance(leaf, SymbolicDim) else class_of(leaf)
    if isinstance(leaf, Tracer):
        weak = leaf.weak and not leaf.dims
        names = {"int": int, "bool": bool, "float": float, "complex": complex}
        kind = names.get(leaf.row.kind) if weak else None
    return kind if kind in _ROWS else None


def is_pythons_int(leaf: Any) -> bool:
    """Whether it is an int of Python's that the compiled function computes."""
    return isinstance(leaf, Tracer) and leaf.weak and not leaf.dims and leaf.row is I64


def kind_of(leaf: Any, row: DType) -> type[Any] | None:
    """The class of one of Python's numbers, where `row` is a dtype of what its class is part of."""
    kind = python_class(leaf)
    part = kind in (bool, int) or (kind is float and row.kind == "complex")
    return kind if part and kind is not None and _ROWS[kind] is not row else None


def class_apart(last: Any, leaf: Tracer) -> type[Any] | None:
    """What class of Python's a trip may leave that is not what a loop carries."""
    if (whole := whole_of(last)) is not None:
        return whole.kind
    kind = python_class(last)
    if kind is None or (_ROWS[kind] is leaf.row and leaf.weak):
        return None
    lasts = common_dtype("a loop", (leaf, last)) is leaf.row
    return kind if lasts and (_ROWS[kind] is leaf.row or kind_of(last, leaf.row)) else None


def row_of(leaf: Any) -> DType:
    """The dtype of a number or an array."""
    if isinstance(leaf, Tracer):
        return leaf.row
    return I64 if isinstance(leaf, SymbolicDim) else dtype_row(np.asarray(leaf).dtype)


def are_alike(x: Any, y: Any) -> bool:
    """Whether both are of one class and dtype, as far as that is known."""
    return row_of(x) is row_of(y) and len(_classes(x) | _classes(y)) == 1


def are_of_other_dtypes(x: Any, y: Any) -> bool:
    """Whether both are NumPy's, and no dtype stands for both."""
    known = row_of(x) is not row_of(y) and python_class(x) is None and python_class(y) is None
    return known and whole_of(x) is None and whole_of(y) is None


def are_told(x: Any, y: Any) -> bool:
    """Whether what stands for either of two numbers or arrays can say which of them it is."""
    rows, classes = (row_of(x), row_of(y)), _classes(x) | _classes(y)
    if rows[0] is rows[1]:
        return _can_tell(classes, rows[0])
    try:
        row = common_dtype("a choice", (x, y))
    except DTypeError:
        return False
    apart = [leaf for leaf, own in zip((x, y), rows, strict=True) if own is not row]
    kinds = [kind for leaf in apart if (kind := kind_of(leaf, row)) is not None]
    exact = all(_is_exact(leaf, kind, row) for leaf, kind in zip(apart, kinds, strict=False))
    return len(kinds) == len(apart) and exact and _can_tell(classes, row)


def _classes(leaf: Any) -> set[type[Any] | None]:
    """Python's classes that a leaf may have; None: NumPy's."""
    whole, kind = whole_of(leaf), python_class(leaf)
    return {kind} if whole is None else {kind, whole.kind}


def _can_tell(classes: set[type[Any] | None], row: DType) -> bool:
    """Whether one is said by a flag, and the other by the dtype."""
    known = None in classes or any(_ROWS[x] is row for x in classes if x is not None)
    return len(classes) == 1 or (len(classes) == 2 and known)


def is_lost(x: Any, y: Any) -> bool:
    """Whether a number of Python's is another one in the dtype that both have in common."""
    kinds = [python_class(v) for v in (x, y)]
    if row_of(x) is row_of(y) or not any(kinds):
        return False
    row = common_dtype("a choice", (x, y))
    return any(_may_be_lost(v, kind, row) for v, kind in zip((x, y), kinds, strict=True))


def _may_be_lost(leaf: Any, kind: type[Any] | None, row: DType) -> bool:
    """Integers that the program computes are those that a loop carries as the dtype."""
    if kind is int or kind is bool:
        return type(leaf) is int and not _is_exact(leaf, kind, row)
    return kind is not None and not _is_exact(leaf, kind, row)


def _kinds(leaves: Sequence[Any], row: DType) -> set[type[Any]]:
    """The classes of Python's that numbers as one dtype may have, and that have another dtype."""
    wholes = [x.kind for leaf in leaves if (x := whole_of(leaf, row)) is not None]
    return {*wholes, *(x for leaf in leaves if (x := kind_of(leaf, row)) is not None)}


def whole_of(leaf: Any, row: DType | None = None) -> Whole | None:
    """Where a leaf is one of Python's numbers; only of another dtype than `row`."""
    whole = leaf.whole if isinstance(leaf, Tracer) else None
    return whole if whole is None or _ROWS[whole.kind] is not row else None


def open_class(leaves: Sequence[Any], row: DType, apart: bool) -> type[Any] | None:
    """
    The class of Python's that what is of two leaves, as one dtype, may have and may not have.
    `apart`: also where what that dtype computes is not what Python does. Of trips that run at once
    there is no order in which the first may change the class: they leave NumPy's.
    """
    kinds = _kinds(leaves, row)
    known = [python_class(leaf) for leaf in leaves]
    if not kinds and None in known and not here().at_once:
        kinds = {x.kind for leaf in leaves if (x := whole_of(leaf)) is not None}
        for leaf, kind in zip(leaves, known, strict=True):
            if kind is not None and (apart or row in _HOLD[kind] or _is_exact(leaf, kind, row)):
                kinds.add(kind)
    return kinds.pop() if len(kinds) == 1 else None


def has_class(leaf: Any, kind: type[Any]) -> SSAValue | bool:
    """Whether a leaf is a number of one of Python's classes, if that is known."""
    whole = whole_of(leaf)
    return (
        python_class(leaf) is kind if whole is None or whole.kind is not kind else whole.condition
    )


def is_class(leaf: Any, kind: type[Any]) -> SSAValue:
    """Likewise, as a value."""
    found = has_class(leaf, kind)
    return number(found, BOOL) if isinstance(found, bool) else found


def is_converted(start: Any, last: Tracer) -> bool:
    """Whether what a loop hands on, `last`, differs after no trip from what it was before."""
    other = row_of(start) is not last.row or (python_class(start) is not None and not last.weak)
    return whole_of(start) is not None or other


def after_trips(start: Any, last: Tracer, none: Tracer) -> Any:
    """What a loop hands on: where there was no trip, it is what it was before."""
    whole, kind = whole_of(start), python_class(start)
    if last.whole is not None and (whole is None or whole.kind is not last.whole.kind):
        return Variants(number_of_first(none), (start, last))  # of three classes
    if whole is not None and start.row is last.row:
        last.whole = Whole(here().emit(AndOp, whole.condition, none.value), whole.kind)
    elif whole is None and kind is not None and _is_exact(start, kind, last.row):
        last.whole = Whole(none.value, kind)
    else:
        return Variants(number_of_first(none), (start, last))
    return last


def _is_exact(leaf: Any, kind: type[Any], row: DType) -> bool:
    """Whether a dtype holds a number of Python's."""
    if row is _ROWS[kind] or kind is bool or isinstance(leaf, SymbolicDim):
        return True
    if isinstance(leaf, Tracer):  # in a loop around, which carries it as one dtype
        return row in _HOLD[kind] and (kind is not int or len(here().scopes) > 1)
    with np.errstate(all="ignore"):
        return np.asarray(leaf).astype(row.numpy).item() == leaf or leaf != leaf


def number_of_first(first: Tracer) -> Tracer:
    """The number of the first of two options where `first` holds, else of the second."""
    zero, one = number(0, I64), number(1, I64)
    return Tracer(here(), here().emit(SelectOp, first.value, zero, one))


_ARITHMETIC = frozenset(
    {
        *("add", "subtract", "multiply", "floor_divide", "remainder", "true_divide"),
        *("negative", "positive", "absolute", "square"),
    }
)
_COMPARISONS = frozenset({"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})


def _class_of_result(function: str, kinds: Sequence[type[Any]]) -> type[Any] | None:
    """What an operator gives of Python's numbers."""
    if function in _COMPARISONS:
        return bool
    if function not in _ARITHMETIC:
        return None
    floats = float if function == "true_divide" or float in kinds else int
    return complex if complex in kinds else floats


def result_of(function: str, operands: Sequence[Any], result: Tracer) -> Whole | None:
    """Where the result of an operator is a number of Python's."""
    found = all_pythons(operands)
    kind = None if found is None else _class_of_result(function, found[1])
    if found is None or kind is None or result.dims:
        return None
    known = result.weak and _ROWS[kind] is result.row
    return None if known or result.row not in _HOLD[kind] else Whole(found[0].value, kind)


def all_pythons(operands: Sequence[Any]) -> tuple[Tracer, list[type[Any]]] | None:
    """Where all operands are Python's numbers, and their classes; None where that is known."""
    where: Tracer | None = None
    kinds: list[type[Any]] = []
    for x in operands:
        whole = whole_of(x)
        if whole is None:
            kind = python_class(x)
            if kind is None:
                return None
            kinds.append(kind)
            continue
        if not here().visible(whole.condition):
            return None
        both = whole.condition
        if where is not None:
            both = here().emit(AndOp, where.value, both)
        where = Tracer(here(), both)
        kinds.append(whole.kind)
    return None if where is None else (where, kinds)


def spelled(function: str, operands: Sequence[Any]) -> Sequence[Any]:
    """
    The operands of a function; where its result has another dtype if they are Python's numbers,
    those that may be have the options to be. No function: one of NumPy's.
    """
    places = [k for k, x in enumerate(operands) if _may_be_pythons(x)]
    if not places or function in _COMPARISONS:
        return operands
    plain = common_dtype(function, operands)
    others = [x for k, x in enumerate(operands) if k not in places]
    of_numbers = all(python_class(x) is not None for x in others)
    if of_numbers and not function:  # an array of Python's numbers has the dtype that holds them
        held = all(_ROWS[operands[k].whole.kind] is operands[k].row for k in places)
        return operands if held else _with_options(operands, places)
    if of_numbers:
        kinds = [python_class(x) or x.whole.kind for x in operands]
        kind = _class_of_result(function, kinds)
        row = F64 if function == "true_divide" and plain.kind in ("bool", "int", "uint") else plain
        if kind is None or row not in _HOLD[kind]:
            return _with_options(operands, places)
    for way in (places, *([k for k in places if k != one] for one in places)):
        # where more of them are NumPy's, the dtype lies between those of these ways
        mixed = [x.whole.kind() if k in way else x for k, x in enumerate(operands)]
        strong = any(python_class(x) is None for x in mixed)
        if strong and common_dtype(function, mixed) is not plain:
            return _with_options(operands, places)
    return operands


def spelled_in(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Likewise of a NumPy function's arguments, and of what is in lists and tuples among them."""
    found: list[Any] = []
    _collect(args, found)
    if not any(map(_may_be_pythons, found)):
        return args
    made = {id(x): new for x, new in zip(found, spelled("", found), strict=True)}
    return _replaced(args, made)


def _collect(value: Any, found: list[Any]) -> None:
    """The numbers and arrays in lists and tuples."""
    if type(value) in (list, tuple):
        for x in value:
            _collect(x, found)
    elif isinstance(
        value, Tracer | SymbolicDim | bool | int | float | complex | np.generic
    ) or is_array(value):
        found.append(value)


def _replaced(value: Any, made: Mapping[int, Any]) -> Any:
    if type(value) in (list, tuple):
        return type(value)(_replaced(x, made) for x in value)
    return made.get(id(value), value)


def _may_be_pythons(x: Any) -> bool:
    whole = whole_of(x)
    return whole is not None and here().visible(whole.condition)


def _with_options(operands: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [options(x) if k in places else x for k, x in enumerate(operands)]


def options(x: Tracer) -> Variants:
    """A number that may be one of Python's as a value with options."""
    from mlc.frontend.numpy.complexes import real

    assert x.whole is not None
    part: Any = x if x.row.kind != "complex" or x.whole.kind is complex else real(x)
    python = Tracer(here(), convert(part.value, _ROWS[x.whole.kind]), weak=True)
    chosen = number_of_first(Tracer(here(), x.whole.condition))
    return Variants(chosen, (python, Tracer(here(), x.value, weak=x.weak)))
