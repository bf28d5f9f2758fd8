"""The words of rules: the ops that they may name, their guards, and their functions."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import numpy_dtype
from mlc.dialects.tensor.bitwise import AndOp, NotOp, OrOp, XorOp
from mlc.dialects.tensor.comparison import PREDICATES, CompareOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.division import PowOp
from mlc.dialects.tensor.elementwise import ARITHMETIC
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp, sum_order
from mlc.dialects.tensor.rounding import AbsOp, CeilOp, FloorOp, RoundOp, TruncOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, ReshapeOp, SliceOp, TransposeOp
from mlc.dialects.tensor.window import ConvOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.constants import splat

# Ops


@dataclass(frozen=True)
class Form:
    """
    How an op is written: `compare "lt" %x, %y`, `reduce "sum" "mn->m" %x`, `concat 1 %x, %y`,
    `slice %x from [0] step [1] size [n]`.

    `string`: a property before the letters, with what it may be. `before`, `after`: properties that
    are sizes, before and behind the operands; `may_have`: one that letters say as a rule. `parts`:
    how many operands; None: one or more.
    """

    op: type[TensorOp]
    parts: int | None
    string: tuple[str, tuple[str, ...]] | None = None
    has_letters: bool = False
    before: str | None = None
    after: tuple[str, ...] = ()
    may_have: tuple[str, ...] = ()


def _forms(*ops: type[TensorOp]) -> dict[str, Form]:
    return {
        op.name.removeprefix("mlc."): Form(op, len(op.get_irdl_definition().operands)) for op in ops
    }


FORMS: dict[str, Form] = {
    **_forms(*ARITHMETIC, MaxOp, MinOp, SelectOp, PowOp, AndOp, OrOp, XorOp, NotOp),
    **_forms(AbsOp, FloorOp, CeilOp, RoundOp, TruncOp),
    "compare": Form(CompareOp, 2, ("predicate", tuple(PREDICATES))),
    "transpose": Form(TransposeOp, 1, has_letters=True),
    "broadcast": Form(BroadcastOp, 1, has_letters=True),
    "reshape": Form(ReshapeOp, 1, after=("size",)),
    "slice": Form(SliceOp, 1, after=("from", "step", "size")),
    "concat": Form(ConcatOp, None, before="axis"),
    "pad": Form(PadOp, 2, after=("low", "high")),
    "reduce": Form(ReduceOp, 1, ("monoid", tuple(MONOIDS)), has_letters=True),
    "contract": Form(ContractOp, 2, has_letters=True),
    "conv": Form(ConvOp, 2, has_letters=True, may_have=("size",)),
}
PROPERTY = {"from": "offsets", "step": "steps", "low": "low", "high": "high"}
"""The property that holds a field; `size` is the shape of the result."""


# Guards


Predicate = Callable[..., bool]


def _exact_inverse(value: Any) -> bool:
    """Whether 1 / value is a normal power of two."""
    number = float(value)
    if not math.isfinite(number) or abs(math.frexp(number)[0]) != 0.5:
        return False
    limit = {"f16": 14, "f64": 1022}.get(numpy_dtype(value.dtype).name, 126)
    return abs(math.frexp(number)[1] - 1) < limit


def same_sums(x: SSAValue, *words: str) -> bool:
    """
    Whether "P,Q->R" and "S,T->U" add the same terms in the same order; whole numbers may be added
    in any.
    """
    if not element_dtype(x).is_inexact:
        return True
    one, other = words[:3], words[3:]
    return _summed(one) == _summed(other) and sum_order(one[:2], one[2]) == sum_order(
        other[:2], other[2]
    )


def _summed(words: tuple[str, ...]) -> str:
    return "".join(dict.fromkeys(c for c in words[0] + words[1] if c not in words[2]))


def _plain(found: Any) -> Any:
    """A number or a size as Python compares it."""
    if hasattr(found, "item"):
        return (found.astype(np.float64) if found.dtype.kind in "fV" else found).item()
    return found if not isinstance(found, Dim) or found.constant is None else found.constant


def _compared(compare: Callable[[Any, Any], bool]) -> Predicate:
    def holds(a: Any, b: Any) -> bool:
        return compare(_plain(a), _plain(b))

    return holds


def _is_splat(x: SSAValue) -> bool:
    return splat(x) is not None


def _varies(x: SSAValue) -> bool:
    return splat(x) is None


def _is_argument(x: SSAValue) -> bool:
    return isinstance(x, BlockArgument)


def _has_single_use(x: SSAValue) -> bool:
    return x.has_one_use()


def _is_finite(a: Any) -> bool:
    return bool(np.isfinite(a))


def _is_inside(p: str, q: str) -> bool:
    return set(p) <= set(q)


def _is_disjoint(p: str, q: str) -> bool:
    return not set(p) & set(q)


def _is_multiple(n: Dim | int, of: Dim | int) -> bool:
    return Dim.of(n).exact_quotient(Dim.of(of)) is not None


GUARDS: dict[str, Predicate] = {
    "single_use": _has_single_use,
    "splat": _is_splat,
    "varies": _varies,
    "argument": _is_argument,
    "same_sums": same_sums,
    "finite": _is_finite,
    "exact_inverse": _exact_inverse,
    "multiple": _is_multiple,
    "inside": _is_inside,
    "disjoint": _is_disjoint,
    "eq": _compared(operator.eq),
    "ne": _compared(operator.ne),
    "lt": _compared(operator.lt),
    "le": _compared(operator.le),
    "gt": _compared(operator.gt),
    "ge": _compared(operator.ge),
}
"""What may stand behind `where`; the last six are written `a == b` and so on."""
INFIX = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

# Functions


def _each(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The function, of vectors axis by axis."""

    def apply(a: Any, b: Any) -> Any:
        if isinstance(a, tuple) and isinstance(b, tuple):
            return tuple(function(x, y) for x, y in zip(a, b, strict=True))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return function(a, b)

    return apply


def _quotient(a: Any, b: Any) -> Any:
    if not isinstance(a, Dim):
        return a / b
    found = a.exact_quotient(b)
    if found is None:
        raise ArithmeticError(f"{a} is no multiple of {b}")
    return found


SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _zeros(sizes: Shape) -> Shape:
    return (Dim.const(0),) * len(sizes)


def _ones(sizes: Shape) -> Shape:
    return (Dim.const(1),) * len(sizes)


def _within(p: str, q: str) -> str:
    return "".join(c for c in p if c in q)


def _without(p: str, q: str) -> str:
    return "".join(c for c in p if c not in q)


def _joined(p: str, q: str) -> str:
    return p + _without(q, p)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": _each(operator.add),
    "-": _each(operator.sub),
    "*": _each(operator.mul),
    "/": _each(_quotient),
    "neg": operator.neg,
    "abs": abs,
    "zeros": _zeros,
    "ones": _ones,
    "swapped": SWAPPED.__getitem__,
    "within": _within,
    "without": _without,
    "joined": _joined,
}
"""What expressions may call: `within(P, Q)` are the letters of P that are in Q, in P's order."""
