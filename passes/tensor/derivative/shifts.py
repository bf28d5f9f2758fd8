"""
Extremes that a program subtracts and that cancel: a softmax is the same whatever is taken off its
scores, so the derivative by the maximum is zero.

A value is followed from an extreme c through the ops that read it. Where c becomes c + d, for any
d, the value gains k d, or is multiplied by exp(k d). Sums with what does not change keep the first,
exp makes the second of it, log the first again, and factors add up. What comes to k = 0 does not
change. If nothing else leaves, the results are the same for every c. This holds in exact
arithmetic, and so for derivatives of any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import isinf

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.tensor.comparison import ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.elementwise import (
    AddOp,
    DivOp,
    Elementwise,
    ExpOp,
    LogOp,
    MulOp,
    NegOp,
    SubOp,
)
from mlc.dialects.tensor.letters import split
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp, TransposeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.constants import splat

EXTREMES = ("max", "min")
MOST_OPS = 256  # that are followed from one extreme
MOST_STEPS = 4  # of ops on the extreme alone, such as 0 where it is infinite

Axes = tuple[int | None, ...]
"""For each axis of a value that of the extreme whose elements it goes along with."""


@dataclass(frozen=True)
class Change:
    """What becomes of a value where the extreme gains d: + degree d, or * exp(degree d)."""

    degree: float
    axes: Axes
    is_factor: bool = False

    def times(self, number: float) -> Change:
        return replace(self, degree=self.degree * number)


Given = Sequence[Change | None]
"""Of operands; None: no change."""


class UnknownChangeError(Exception):
    """A value changes in no way that has a degree."""


class Shifts:
    """The extremes of a program that cancel. `outputs`: what it gives besides what blocks yield."""

    def __init__(self, outputs: Sequence[SSAValue]) -> None:
        self.outputs = set(outputs)
        self._places: dict[Block, dict[Operation, int]] = {}
        self._known: dict[SSAValue, bool] = {}

    def cancels(self, op: TensorOp) -> bool:
        """Whether the results are the same for any value that takes this one's place."""
        (value,) = op.results
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = _is_of_extreme(op) and self._vanishes(value)
        return found

    def _vanishes(self, value: SSAValue) -> bool:
        dims, one = shape_of(value.type), Dim.const(1)
        changes = {value: Change(1.0, tuple(None if n == one else k for k, n in enumerate(dims)))}
        block = value.owner.parent
        if not isinstance(block, Block):
            return False
        if block not in self._places:
            self._places[block] = {op: k for k, op in enumerate(block.ops)}
        places = self._places[block]
        pending: list[int] = []
        queued: dict[int, TensorOp] = {}

        def read(x: SSAValue) -> bool:
            """Notes who reads a value that changes; whether all of these can be followed."""
            for use in x.uses:
                user = use.operation
                at = places.get(user)
                if at is None or not isinstance(user, TensorOp) or len(queued) > MOST_OPS:
                    return False
                if at not in queued:
                    queued[at] = user
                    heappush(pending, at)
            return x not in self.outputs

        if not read(value):
            return False
        while pending:
            user = queued[heappop(pending)]
            try:
                change = _change(user, changes)
            except UnknownChangeError:
                return False
            if change is not None and change.degree:
                changes[user.results[0]] = change
                if not read(user.results[0]):
                    return False
        return True


def _is_of_extreme(op: TensorOp) -> bool:
    """Whether a value is an extreme of floats, or computed from one element by element."""
    for _ in range(MOST_STEPS):
        if isinstance(op, ReduceOp):
            return op.monoid.data in EXTREMES and op.dtype.kind == "float"
        if not isinstance(op, Elementwise | ReshapeOp) or op.dtype.kind != "float":
            return False
        owners = [x.owner for x in op.operands if splat(x) is None]
        owner = owners[-1 if isinstance(op, SelectOp) else 0] if owners else None
        if not isinstance(owner, TensorOp):
            return False
        op = owner
    return False


def _change(op: TensorOp, changes: Mapping[SSAValue, Change]) -> Change | None:
    """How the result changes; None: not at all."""
    given = [changes.get(x) for x in op.operands]
    rule = next((RULES[kind] for kind in type(op).__mro__ if kind in RULES), None)
    if rule is None or element_dtype(op.results[0]).kind != "float":
        raise UnknownChangeError
    return rule(op, given)


def _same(changes: Sequence[Change | None]) -> Change:
    """The one change of all."""
    first = changes[0]
    if first is None or any(x != first for x in changes):
        raise UnknownChangeError
    return first


def _axes_of(*changes: Change | None) -> Axes:
    found = {x.axes for x in changes if x is not None}
    if len(found) != 1:
        raise UnknownChangeError
    return found.pop()


def _sum(op: TensorOp, given: Given) -> Change | None:
    if any(x is not None and x.is_factor for x in given):
        return _same(given)
    signs = (1.0, -1.0 if isinstance(op, SubOp) else 1.0)
    degree = sum(0.0 if x is None else s * x.degree for s, x in zip(signs, given, strict=True))
    return Change(degree, _axes_of(*given))


def _negative(op: TensorOp, given: Given) -> Change | None:
    (x,) = given
    return x if x is None or x.is_factor else x.times(-1.0)


def _exp(op: TensorOp, given: Given) -> Change | None:
    (x,) = given
    if x is None or x.is_factor:
        raise UnknownChangeError
    return replace(x, is_factor=True)


def _log(op: TensorOp, given: Given) -> Change | None:
    (x,) = given
    if x is None or not x.is_factor:
        raise UnknownChangeError
    return replace(x, is_factor=False)


def _product(op: TensorOp, given: Given) -> Change | None:
    present = [x for x in given if x is not None]
    if any(not x.is_factor for x in present):
        return _scaled(op, given)
    sign = -1.0 if isinstance(op, DivOp) else 1.0
    left, right = (0.0 if x is None else x.degree for x in given)
    return Change(left + sign * right, _axes_of(*present), is_factor=True)


def _scaled(op: TensorOp, given: Given) -> Change | None:
    """Of a shift times a number, or divided by one."""
    k = 0 if given[0] is not None else 1
    x, number = given[k], splat(op.operands[1 - k])
    if x is None or number is None or (isinstance(op, DivOp) and k == 1) or not number:
        raise UnknownChangeError
    return x.times(1 / float(number) if isinstance(op, DivOp) else float(number))


def _extreme(op: TensorOp, given: Given) -> Change | None:
    return _same(given)


def _select(op: TensorOp, given: Given) -> Change | None:
    condition, *values = given
    if condition is not None:
        raise UnknownChangeError
    present = [x for x in values if x is not None]
    if len(present) == 2:
        return _same(values)
    other = splat(op.operands[2 if values[0] is not None else 1])
    fixed = other is not None and (other == 0 if present[0].is_factor else isinf(float(other)))
    if not fixed:
        raise UnknownChangeError
    return present[0]


def _convert(op: TensorOp, given: Given) -> Change | None:
    return given[0]


def _moved(op: TensorOp, given: Given) -> Change | None:
    """Of broadcasts and transposes."""
    assert isinstance(op, BroadcastOp | TransposeOp)
    (x,) = given
    assert x is not None
    (word,), result = split(op.letters.data)
    at = dict(zip(word, x.axes, strict=True))
    return replace(x, axes=tuple(at.get(c) for c in result))


def _reshape(op: TensorOp, given: Given) -> Change | None:
    (x,) = given
    if not isinstance(op, ReshapeOp) or x is None or not op.unit_axes_only():
        raise UnknownChangeError
    one = Dim.const(1)
    kept = iter(a for a, n in zip(x.axes, shape_of(op.x.type), strict=True) if n != one)
    return replace(x, axes=tuple(None if n == one else next(kept) for n in op.shape))


def _reduce(op: TensorOp, given: Given) -> Change | None:
    assert isinstance(op, ReduceOp)
    (x,) = given
    assert x is not None
    if op.monoid.data not in EXTREMES and not (op.monoid.data == "sum" and x.is_factor):
        raise UnknownChangeError
    (word,), result, _ = op.words()
    at = dict(zip(word, x.axes, strict=True))
    if any(a is not None and c not in result for c, a in at.items()):
        raise UnknownChangeError  # summands change differently
    return replace(x, axes=tuple(at[c] for c in result))


def _contract(op: TensorOp, given: Given) -> Change | None:
    assert isinstance(op, ContractOp)
    words, result, _ = op.words()
    degree, at = 0.0, dict[str, int | None]()
    found: set[tuple[tuple[str, int], ...]] = set()
    for word, x in zip(words, given, strict=True):
        if x is None:
            continue
        if not x.is_factor:
            raise UnknownChangeError
        degree += x.degree
        at = dict(zip(word, x.axes, strict=True))
        found.add(tuple(sorted((c, a) for c, a in at.items() if a is not None)))
    if len(found) != 1:
        raise UnknownChangeError
    if degree and any(a is not None and c not in result for c, a in at.items()):
        raise UnknownChangeError
    return Change(degree, tuple(at.get(c) for c in result), is_factor=True)


Rule = Callable[[TensorOp, Given], "Change | None"]
RULES: Mapping[type[Operation], Rule] = {
    AddOp: _sum,
    SubOp: _sum,
    NegOp: _negative,
    ExpOp: _exp,
    LogOp: _log,
    MulOp: _product,
    DivOp: _product,
    MaxOp: _extreme,
    MinOp: _extreme,
    SelectOp: _select,
    ConvertOp: _convert,
    BroadcastOp: _moved,
    TransposeOp: _moved,
    ReshapeOp: _reshape,
    ReduceOp: _reduce,
    ContractOp: _contract,
}
