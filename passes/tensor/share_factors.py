"""Sums whose summands have several factors in common multiply these once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import cast
from weakref import WeakSet

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.tensor.elementwise import DivOp, MulOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.constants import is_splat_of, splat
from mlc.passes.tensor.rules import Rewrite, Rules

RULES = Rules()
MOST_FACTORS = 8
_settled: WeakSet[ReduceOp] = WeakSet()
"""Sums that share already: of two pairs of common factors each would undo the other."""


@dataclass(frozen=True)
class ShareFactorsPass(ModulePass):
    """
    reduce "sum" (x * q) * v; reduce "sum" (y * q) * v
    ->  f = q * v; reduce "sum" x * f; reduce "sum" y * f

    of the same axes, if they keep one: sums of all elements wait for memory, not for products.
    1 / s and v that are read by such sums alone give v / s.
    """

    name = "mlc-share-factors"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        RULES.sweep(op)


@dataclass(frozen=True)
class _Factor:
    """
    What a product is multiplied or, if `divides`, divided by. `key`: what is the same for equal
    ones; `value`: of a divisor its reciprocal, where there is one.
    """

    key: Hashable
    operand: SSAValue
    value: SSAValue | None
    divides: bool = False


@RULES.on(ReduceOp, numerics="standard")
def common_factors(op: ReduceOp, b: Rewrite) -> SSAValue | None:
    """sum x q v and sum y q v have q v in common."""
    if op.monoid.data != "sum" or op.dtype.kind != "float" or not op.shape or op in _settled:
        return None
    mine = _factors(op.x)
    if not 3 <= len(mine) <= MOST_FACTORS:
        return None
    others = [x for x in _sums_of(mine) if x is not op and _is_alike(x, op)]
    common, sums = _common(mine, others)
    if len(_that_vary(common, mine)) < 2 or len(sums) == 0:
        return None
    shared, rest = _parted(mine, common)
    if not any(not x.divides for x in rest) or not any(not x.divides for x in shared):
        return None
    known = _at_hand(shared, common, op)
    if known is not None and isinstance(op.x.owner, MulOp) and known in op.x.owner.operands:
        return None  # it is so already
    if known is None:
        known = _product(shared, {op, *sums}, b)
    summand = b(MulOp, _product(rest, {op, *sums}, b), known)
    found = b(ReduceOp, summand, monoid="sum", letters=op.letters.data)
    _settled.add(cast("ReduceOp", found.owner))
    return found


def _factors(value: SSAValue) -> list[_Factor]:
    """The factors of a product, of products among them too."""
    owner = value.owner
    if isinstance(owner, MulOp):
        return [*_factors(owner.lhs), *_factors(owner.rhs)]
    if isinstance(owner, DivOp):
        reciprocal = is_splat_of(owner.lhs, 1)
        found = [] if reciprocal else _factors(owner.lhs)
        key = ("divisor", owner.rhs)
        return [*found, _Factor(key, owner.rhs, value if reciprocal else None, divides=True)]
    if isinstance(owner, BroadcastOp):
        return [_Factor((owner.x, owner.letters.data), value, value)]
    return [_Factor(value, value, value)]


def _users(value: SSAValue) -> Iterator[Operation]:
    """Products and quotients that an element goes into, and sums of these."""
    pending, seen = [value], set[Operation]()
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if user not in seen:
                seen.add(user)
                yield user
                if isinstance(user, MulOp | DivOp):
                    pending.append(user.results[0])


def _sums_of(factors: Sequence[_Factor]) -> list[ReduceOp]:
    """Sums of products with some of these factors, in no order that matters."""
    found: dict[ReduceOp, None] = {}
    for factor in factors:
        if not isinstance(factor.operand.owner, BroadcastOp) and splat(factor.operand) is None:
            found.update((x, None) for x in _users(factor.operand) if isinstance(x, ReduceOp))
    return list(found)


def _is_alike(x: ReduceOp, y: ReduceOp) -> bool:
    same = x.x.type == y.x.type and x.letters == y.letters and x.monoid == y.monoid
    return same and x.parent is y.parent and x.result.first_use is not None


def _keys(factors: Iterable[_Factor]) -> Counter[Hashable]:
    return Counter(x.key for x in factors)


def _that_vary(common: Counter[Hashable], factors: Sequence[_Factor]) -> list[_Factor]:
    """Those of common factors that are no constants."""
    return [x for x in factors if common[x.key] and splat(x.operand) is None]


def _common(
    mine: Sequence[_Factor], others: Sequence[ReduceOp]
) -> tuple[Counter[Hashable], list[ReduceOp]]:
    """Factors that a sum has in common with others, and these: with as many as have two."""
    common, sums = _keys(mine), list[ReduceOp]()
    for other in others:
        less = common & _keys(_factors(other.x))
        if len(_that_vary(less, mine)) >= 2:
            common = less
            sums.append(other)
    return common, sums


def _parted(
    factors: Sequence[_Factor], common: Counter[Hashable]
) -> tuple[list[_Factor], list[_Factor]]:
    """The common ones, and the others."""
    left, shared, rest = common.copy(), list[_Factor](), list[_Factor]()
    for factor in factors:
        (shared if left[factor.key] > 0 else rest).append(factor)
        left[factor.key] -= 1
    return shared, rest


def _at_hand(shared: Sequence[_Factor], common: Counter[Hashable], op: ReduceOp) -> SSAValue | None:
    """The first product of the common factors, made for a sum before this one."""
    found: MulOp | DivOp | None = None
    for factor in shared:
        if isinstance(factor.operand.owner, BroadcastOp):
            continue
        for user in _users(factor.operand):
            if not isinstance(user, MulOp | DivOp) or user.parent is not op.parent:
                continue
            first = user.is_before_in_block(op if found is None else found)
            if first and _keys(_factors(user.result)) == common:
                found = user
    return None if found is None else found.result


def _product(factors: Sequence[_Factor], sums: set[ReduceOp], b: Rewrite) -> SSAValue:
    """All of them; divided by what nobody but the sums divides by."""
    found, *others = (x.operand for x in factors if not x.divides)
    for other in others:
        found = b(MulOp, found, other)
    for factor in factors:
        if not factor.divides:
            continue
        value = factor.value
        if value is None or _ends(value) <= sums:
            found = b(DivOp, found, factor.operand)
        else:
            found = b(MulOp, found, value)
    return found


def _ends(value: SSAValue) -> set[Operation]:
    """Who reads a value, or a product with it, but products that nobody reads."""
    return {x for x in _users(value) if not isinstance(x, MulOp | DivOp)}
