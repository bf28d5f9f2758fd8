"""
What is known of integers that a program computes: which polynomial of sizes and trip numbers each
one is, and whether such a polynomial is nowhere negative.

No solver: a polynomial is bounded by putting in the end of the innermost number in which it is
linear, and so outwards, until only sizes are left.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.comparison import ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.control import ForOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp
from mlc.dialects.tensor.division import DivisorOp, ModOp
from mlc.dialects.tensor.elementwise import AddOp, Elementwise, ExpOp, MulOp, NegOp, SqrtOp, SubOp
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.rounding import AbsOp
from mlc.dialects.tensor.shape import BroadcastOp, ReshapeOp
from mlc.dialects.tensor.some import SomeOp
from mlc.dialects.tensor.within import WithinOp
from mlc.lazy_dataclass import dataclass

ZERO = Dim.const(0)
LARGE = 2**40
"""Numbers from here on are not reasoned with: sums and products of those below are no i64's end."""
MOST_TERMS = 16
TRIES = 64  # of ends of numbers
DEPTH = 64  # of numbers made of one another
SHALLOW = 5  # of floats made of one another, each of two


@dataclass(frozen=True)
class Number:
    """
    A number of which only ends are known: it is at least each of `lows` and at most each of
    `highs`, polynomials of sizes and of numbers made before it.
    """

    lows: tuple[Dim, ...] = ()
    highs: tuple[Dim, ...] = ()


class Ranges:
    """The integers of a function; elements of an array count as one number with common ends."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, Dim] = {}
        self._numbers: dict[str, Number] = {}
        self._same: dict[Hashable, Dim] = {}  # what an op makes of single numbers

    def bind(self, value: SSAValue, symbol: str, lows: Sequence[Dim], highs: Sequence[Dim]) -> Dim:
        """A value has a symbol from now on, which is a number between ends."""
        self._numbers[symbol] = Number(tuple(lows), tuple(highs))
        found = Dim.symbol(symbol)
        if not isinstance(value.owner, ConstantOp):
            self._known[value] = found
        return found

    def bind_all(self, op: Operation) -> None:
        """What ops in the regions of one bind; before anything else is asked."""
        for inner in op.walk():
            if not isinstance(inner, BindOp):
                continue
            number, highs = inner.x, [inner.highest]
            if (loop := _loop_of(number)) is not None:
                highs = [*self._last_trips(loop), *highs]
            self.bind(number, inner.symbol.data, [ZERO], highs)

    def of(self, value: SSAValue, depth: int = 0) -> Dim:
        """The polynomial that a value is."""
        found = self._known.get(value)
        if found is None:
            found = self._made(value, depth) if depth < DEPTH else None
            if found is None or len(found.terms) > MOST_TERMS or _is_large(found):
                found = self._number()
            self._known[value] = found
        return found

    def _made(self, value: SSAValue, depth: int) -> Dim | None:
        """What is known of a value; of what is made of equal numbers in one way, the same."""
        op = value.owner
        if not isinstance(op, Elementwise) or op.shape or op.dtype is not I64 or op.CHECKS:
            return self._of(value, depth)
        properties = sorted((name, str(entry)) for name, entry in op.properties.items())
        operands = tuple(self._key(x, depth + 1) for x in op.operands)
        key = (type(op), operands, tuple(properties))
        found = self._same.get(key)
        if found is None:
            found = self._of(value, depth)
            found = self._same[key] = self._number() if found is None else found
        return found

    def _key(self, x: SSAValue, depth: int) -> Hashable:
        """Equal for numbers that are equal, and for what is compared or converted of them."""
        op = x.owner
        if element_dtype(x) is I64:
            return self.of(x, depth)
        if isinstance(op, Elementwise) and op.operands and depth < DEPTH:
            properties = sorted((name, str(entry)) for name, entry in op.properties.items())
            inner = tuple(self._key(y, depth + 1) for y in op.operands)
            return (type(op), inner, tuple(properties), x.type)
        return x

    def is_not_zero(self, value: SSAValue) -> bool:
        """Whether a number is known to be another one than 0."""
        match value.owner:
            case DivisorOp() | SomeOp():
                return True
            case ConstantOp() as op:
                return bool((op.array() != 0).all())
            case ConvertOp() as op if element_dtype(op.x) is I64:
                return op.dtype.is_inexact and self.is_not_zero(op.x)
            case AddOp() as op if op.dtype.kind == "float":
                return self.is_positive(value)
            case _:
                return element_dtype(value) is I64 and self._has_sign(value)

    def is_positive(self, value: SSAValue, depth: int = SHALLOW) -> bool:
        """Whether a float is above 0, or NaN: one that is, and what is not below 0 added to it."""
        match value.owner:
            case ConstantOp() as op:
                return bool((op.array() > 0).all())
            case ConvertOp() as op if element_dtype(op.x) is I64:
                return self.is_natural(self.of(op.x) - 1)
            case AddOp() as op if depth:
                return any(
                    self.is_positive(a, depth - 1) and self.is_not_negative(b, depth - 1)
                    for a, b in ((op.lhs, op.rhs), (op.rhs, op.lhs))
                )
            case _:
                return False

    def is_not_negative(self, value: SSAValue, depth: int = SHALLOW) -> bool:
        """Whether a float is not below 0: squares, sizes and the like, and what is made of them."""
        match value.owner:
            case ConstantOp() as op:
                return bool((op.array() >= 0).all())
            case ConvertOp() as op if element_dtype(op.x) is I64:
                return self.is_natural(self.of(op.x))
            case AbsOp() | SqrtOp() | ExpOp():
                return True
            case MulOp() as op if op.lhs is op.rhs:
                return True
            case AddOp() | MulOp() as op if depth:
                return all(self.is_not_negative(side, depth - 1) for side in op.operands)
            case _:
                return False

    def _has_sign(self, value: SSAValue) -> bool:
        found = self.of(value)
        return self.is_natural(found - 1) or self.is_natural(-found - 1)

    def is_inside(self, value: SSAValue, size: Dim) -> bool:
        """Whether a value is in [0, size)."""
        found = self.of(value)
        return self.is_natural(found) and self.is_natural(size - 1 - found)

    def is_natural(self, dim: Dim, tries: int = TRIES) -> bool:
        """Whether a polynomial is known to be >= 0, with sizes of any number >= 0."""
        innermost = self._innermost(dim)
        if innermost is None:
            return _is_natural(dim)
        factor, rest, number = innermost
        ends = number.lows if _is_natural(factor) else ()
        if _is_natural(-factor):
            ends = number.highs
        tries //= max(len(ends), 1)
        return tries > 0 and any(self.is_natural(factor * end + rest, tries) for end in ends)

    def _innermost(self, dim: Dim) -> tuple[Dim, Dim, Number] | None:
        """
        The number made last of those in a polynomial, with its factor and the rest: what its ends
        are made of stands before it. The factor is 0 where it is not one.
        """
        names = dim.symbols()
        for name in reversed(self._numbers):
            if name in names:
                return *linear_in(dim, name), self._numbers[name]
        return None

    def let(self, value: SSAValue, low: Dim, high: Dim) -> None:
        """A value is a number between these ends, and no other one."""
        self._known[value] = self.unknown(low, high)

    def unknown(self, low: Dim, high: Dim) -> Dim:
        """A number of which nothing but ends are known, and which is no other one."""
        return self._number([low], [high])

    def is_size(self, name: str) -> bool:
        """Whether a symbol is one of the function, not a number made in it."""
        return name not in self._numbers

    def is_of_sizes(self, dim: Dim) -> bool:
        """Whether a dim is made of the function's symbols alone: it is known before a call runs."""
        return all(map(self.is_size, dim.symbols()))

    def _last_trips(self, loop: ForOp, depth: int = 0) -> list[Dim]:
        """
        Ends of a trip's number: one less than the trips are. Where there is a trip, max(n, 0) of
        them are n.
        """
        counts = [self.of(loop.count, depth)]
        if isinstance(most := loop.count.owner, MaxOp):
            for one, other in (most.operands, most.operands[::-1]):
                if self.is_natural(-self.of(other, depth + 1)):
                    counts.append(self.of(one, depth + 1))
        return [n - 1 for n in dict.fromkeys(counts)]

    def _number(self, lows: Sequence[Dim] = (), highs: Sequence[Dim] = ()) -> Dim:
        name = f"%{len(self._numbers)}"
        self._numbers[name] = Number(tuple(lows), tuple(highs))
        return Dim((((name,), 1),))

    def _of(self, value: SSAValue, depth: int) -> Dim | None:
        owner = value.owner
        if isinstance(value, BlockArgument):
            loop = _loop_of(value)
            if loop is None:
                return None
            return self._number([ZERO], self._last_trips(loop, depth + 1))
        rule = _RULES.get(type(owner)) if isinstance(owner, TensorOp) else None
        if rule is None or not isinstance(owner, TensorOp):
            return None
        if element_dtype(value) is not I64:
            return None
        return rule(self, owner, depth + 1)

    # ops ------------------------------------------------------------------------------------

    def sum_of(self, op: TensorOp, depth: int) -> Dim:
        """lhs + rhs"""
        return self.of(op.operands[0], depth) + self.of(op.operands[1], depth)

    def difference(self, op: TensorOp, depth: int) -> Dim:
        """lhs - rhs"""
        return self.of(op.operands[0], depth) - self.of(op.operands[1], depth)

    def product(self, op: TensorOp, depth: int) -> Dim:
        """lhs * rhs"""
        return self.of(op.operands[0], depth) * self.of(op.operands[1], depth)

    def negative(self, op: TensorOp, depth: int) -> Dim:
        """-x"""
        return -self.of(op.operands[0], depth)

    def same(self, op: TensorOp, depth: int) -> Dim:
        """An element of the operand."""
        return self.of(op.operands[0], depth)

    def constant(self, op: TensorOp, depth: int) -> Dim | None:
        """A number, or the smallest and the largest of a few."""
        assert isinstance(op, ConstantOp)
        values = op.array()
        if not 0 < values.size < LARGE:
            return None
        low, high = (Dim.const(int(end)) for end in (values.min(), values.max()))
        return low if low == high else self._number([low], [high])

    def size(self, op: TensorOp, depth: int) -> Dim:
        """A dim."""
        assert isinstance(op, SizeOp)
        return op.dim

    def position(self, op: TensorOp, depth: int) -> Dim:
        """0, 1, … along an axis."""
        assert isinstance(op, IotaOp)
        return self._number([ZERO], [shape_of(op.results[0].type)[op.axis.value.data] - 1])

    def within(self, op: TensorOp, depth: int) -> Dim:
        """An index of an axis: itself, where it needs no check."""
        assert isinstance(op, WithinOp)
        index = self.of(op.x, depth)
        if op.holds is not None:
            return self._number([ZERO, index], [op.extent - 1, index])
        if self.is_natural(index) and self.is_natural(op.extent - 1 - index):
            return index
        return self._number([ZERO], [op.extent - 1])

    def converted(self, op: TensorOp, depth: int) -> Dim | None:
        """The same number, if it was a whole one."""
        assert isinstance(op, ConvertOp)
        source = element_dtype(op.operands[0])
        if source is BOOL:
            return self._number([ZERO], [Dim.const(1)])
        if source is I64:
            return self.of(op.operands[0], depth)
        if source.kind == "uint" and source.bytes < 8:
            return self._number([ZERO], [Dim.const(2 ** (8 * source.bytes) - 1)])
        return None

    def smaller(self, op: TensorOp, depth: int) -> Dim:
        """min(lhs, rhs)"""
        x, y = (self.of(v, depth) for v in op.operands)
        if (least := self._smaller_of(x, y)) is not None:
            return least
        return self._number(self._below(x, y), (x, y))

    def larger(self, op: TensorOp, depth: int) -> Dim:
        """max(lhs, rhs)"""
        x, y = (self.of(v, depth) for v in op.operands)
        if (least := self._smaller_of(x, y)) is not None:
            return y if least is x else x
        return self._number((x, y), [-end for end in self._below(-x, -y)])

    def _smaller_of(self, x: Dim, y: Dim) -> Dim | None:
        """Which of two is known to be the smaller one."""
        if self.is_natural(y - x):
            return x
        return y if self.is_natural(x - y) else None

    def chosen(self, op: TensorOp, depth: int) -> Dim:
        """One of two."""
        x, y = (self.of(v, depth) for v in op.operands[1:])
        if x == y:
            return x
        return self._number(self._below(x, y), [-end for end in self._below(-x, -y)])

    def remainder(self, op: TensorOp, depth: int) -> Dim | None:
        """lhs mod a positive number"""
        divisor = self.of(op.operands[1], depth).constant
        if divisor is None or divisor < 1:
            return None
        return self._number([ZERO], [Dim.const(divisor - 1)])

    def _below(self, x: Dim, y: Dim) -> list[Dim]:
        """What is at most as large as both: 0, one of them, or the least that one may be."""
        ends = dict.fromkeys((ZERO, x, y, self.least(x), self.least(y)))
        found = [e for e in ends if e is not None]
        return [e for e in found if self.is_natural(x - e) and self.is_natural(y - e)][:2]

    def greatest(self, dim: Dim) -> Dim | None:
        """A polynomial of sizes above another polynomial."""
        found = self.least(-dim)
        return None if found is None else -found

    def least(self, dim: Dim) -> Dim | None:
        """A polynomial of sizes below another polynomial."""
        while (innermost := self._innermost(dim)) is not None:
            factor, rest, number = innermost
            ends = number.lows if _is_natural(factor) else number.highs
            if not ends or not (_is_natural(factor) or _is_natural(-factor)):
                return None
            dim = factor * ends[0] + rest
        return dim


def _loop_of(value: SSAValue) -> ForOp | None:
    """The loop whose trip's number a value is."""
    loop = value.owner.parent_op() if isinstance(value, BlockArgument) else None
    return loop if isinstance(loop, ForOp) and loop.body.block.args[0] is value else None


def linear_in(dim: Dim, name: str) -> tuple[Dim, Dim]:
    """The factor of a name and the rest; where the name stands otherwise, a factor of no sign."""
    factor, rest = ZERO, ZERO
    for monomial, coefficient in dim.terms:
        count = sum(atom == name for atom in monomial)
        others = tuple(atom for atom in monomial if atom != name)
        if count > 1 or any(
            not isinstance(a, str) and name in a.numerator.symbols() for a in others
        ):
            return Dim((((name,), 1),)), ZERO
        term = Dim(((others, coefficient),))
        factor, rest = (factor + term, rest) if count else (factor, rest + term)
    return factor, rest


def _is_natural(dim: Dim) -> bool:
    """Whether no sizes make a polynomial negative, term by term."""
    return all(
        coefficient > 0 and all(isinstance(atom, str) and atom[0] != "%" for atom in monomial)
        for monomial, coefficient in dim.terms
    )


def _is_large(dim: Dim) -> bool:
    return any(abs(c) >= LARGE or len(monomial) > 3 for monomial, c in dim.terms)


_RULES: Mapping[type[TensorOp], Callable[[Ranges, TensorOp, int], Dim | None]] = {
    AddOp: Ranges.sum_of,
    SubOp: Ranges.difference,
    MulOp: Ranges.product,
    NegOp: Ranges.negative,
    ConstantOp: Ranges.constant,
    SizeOp: Ranges.size,
    IotaOp: Ranges.position,
    BroadcastOp: Ranges.same,
    ReshapeOp: Ranges.same,
    DivisorOp: Ranges.same,
    SomeOp: Ranges.same,
    ConvertOp: Ranges.converted,
    WithinOp: Ranges.within,
    MinOp: Ranges.smaller,
    MaxOp: Ranges.larger,
    SelectOp: Ranges.chosen,
    ModOp: Ranges.remainder,
}
"""What an op makes of numbers."""
