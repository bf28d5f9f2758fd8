"""
What an element of a result is: a sum of products of elements of arguments, read at positions.

An `ElementBuilder` that follows a program from its result to its arguments: ops are not defined
again here. Where an op is no sum of products, or reads at values, `NotReadError` says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, cast

from xdsl.dialects import arith
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.dtypes import I64, DType
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.element import Ix, Point
from mlc.dialects.tensor.op import TensorOp, element_dtype
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.partial.positions import Letter, Position, constant, letter
from mlc.passes.rules.residues import DIFFERENCES, PRODUCTS, SUMS
from mlc.passes.tensor.constants import splat
from mlc.passes.tensor.views import regrouped

MOST_TERMS = 64
"""Of an element, sums over letters not counted."""


class NotReadError(Exception):
    """An element is no sum of products that are read at sums and quotients of positions."""


@dataclass(frozen=True)
class Test:
    """Whether a position is at least 0."""

    of: Position


Condition = frozenset[Test]
"""All of these."""


@dataclass(frozen=True)
class Term:
    """
    A product of elements: of which argument, and where. It is one where each condition is as said;
    the sum over all letters that are no axis of the result is left out.
    """

    factors: tuple[tuple[SSAValue, tuple[Position, ...]], ...]
    conditions: frozenset[tuple[Condition, bool]] = frozenset()

    def positions(self) -> list[Position]:
        """Where it reads."""
        return [p for _, point in self.factors for p in point]


Terms = tuple[Term, ...]
"""An element: the sum of these. Numbers are terms without factors, zero is no term."""


def reads(value: SSAValue) -> tuple[list[Letter], Terms]:
    """The letters of a value's axes, and what an element is. NotReadError where it is no sum."""
    sizes = [_size(n) for n in shape_of(value.type)]
    point = tuple(letter(k, n) for k, n in enumerate(sizes))
    terms = _Reads(len(sizes)).fetch(value, point)
    return [Letter(k, n) for k, n in enumerate(sizes)], terms


def _size(dim: Dim) -> int:
    size = dim.constant
    if not size:
        raise NotReadError(f"an axis has {dim} elements; expected a number that is not 0")
    return size


class _Reads:
    """Values are `Terms`, `Position`s and `Condition`s. `following`: the key of the next letter."""

    def __init__(self, following: int) -> None:
        self.following = following
        self.known: dict[tuple[SSAValue, Point], Terms] = {}

    def fetch(self, tensor: SSAValue, at: Point, where: Any = None) -> Any:
        if (tensor, at) not in self.known:
            self.known[tensor, at] = self.element(tensor, at)
        return self.known[tensor, at]

    def element(self, tensor: SSAValue, at: Point) -> Terms:
        """An element of a value of the program."""
        owner = tensor.owner
        if not element_dtype(tensor).is_inexact:
            raise NotReadError(f"{element_dtype(tensor).name} is no dtype of sums of products")
        if isinstance(owner, Block):
            return (Term(((tensor, cast("tuple[Position, ...]", at)),)),)
        if isinstance(owner, ConstantOp):
            number = splat(tensor)
            if number is None:
                raise NotReadError("mlc.constant with several numbers")
            return () if number == 0 else (Term(()),)
        if not isinstance(owner, TensorOp):
            raise NotReadError(owner.name)
        if isinstance(owner, ReshapeOp):
            return self.fetch(owner.x, regrouped_point(owner, cast("tuple[Position, ...]", at)))
        if isinstance(owner, ConcatOp):
            return self.concatenated(owner, cast("tuple[Position, ...]", at))
        space = at
        if isinstance(owner, Reduction):
            if owner.combiner().name != "sum":
                raise NotReadError(f"{owner.name} of {owner.combiner().name}")
            for size in owner.iteration()[len(at) :]:
                space = (*space, letter(self.following, _size(size)))
                self.following += 1
        elif not owner.states("element"):
            raise NotReadError(owner.name)
        try:
            found: Any = owner.element(self, space)
        except NotReadError as error:
            said = str(error)
            raise NotReadError(said if "mlc." in said else f"{owner.name}: {said}") from None
        return _limited(cast("Terms", found))

    def concatenated(self, op: ConcatOp, at: tuple[Position, ...]) -> Terms:
        axis, found = op.axis.value.data, list[Term]()
        for part, start in zip(op.parts, op.piece_offsets(), strict=True):
            inner = at[axis] + constant(-start.evaluate({}))
            last = constant(shape_of(part.type)[axis].evaluate({}) - 1)
            inside = frozenset((Test(inner), Test(last + inner.times(-1))))
            piece = self.fetch(part, (*at[:axis], inner, *at[axis + 1 :]))
            found += _where(piece, inside, is_true=True)
        return tuple(found)

    # What ops say -------------------------------------------------------------------------------

    def constant(self, value: complex, dtype: DType) -> Any:
        if dtype is I64:
            return constant(int(value.real))
        if dtype.kind == "bool":
            _refuse("a condition that is a constant")
        return () if value == 0 else (Term(()),)

    def apply(self, op: type[Operation], *operands: Any) -> Any:
        x = operands[0]
        if isinstance(x, frozenset):
            if op is arith.AndIOp:
                return x | operands[1]
            _refuse("conditions that are not joined by and")
        if isinstance(x, Position):
            return self.of_positions(op, *operands)
        if op in SUMS or op in DIFFERENCES:
            return _limited((*x, *operands[1]))
        if op is arith.NegfOp:
            return x
        if op in PRODUCTS:
            return _limited(tuple(_product(a, c) for a in x for c in operands[1]))
        if op is arith.DivfOp and operands[1] and all(t == Term(()) for t in operands[1]):
            return x
        return _refuse("no sum of products")

    def of_positions(self, op: type[Operation], x: Position, *others: Any) -> Position:
        if op is arith.AddiOp:
            return x + others[0]
        if op is arith.SubiOp:
            return x + others[0].times(-1)
        if op is arith.MuliOp:
            for a, c in ((x, others[0]), (others[0], x)):
                if not c.terms:
                    return a.times(c.constant)
        return _refuse("arithmetic of positions that is no sum")

    def compare(self, predicate: str, lhs: Any, rhs: Any, dtype: DType) -> Any:
        if not (isinstance(lhs, Position) and isinstance(rhs, Position)):
            _refuse("a comparison of numbers")
        above, below = lhs + rhs.times(-1), rhs + lhs.times(-1)
        match predicate:
            case "ge":
                return frozenset((Test(above),))
            case "gt":
                return frozenset((Test(above + constant(-1)),))
            case "le":
                return frozenset((Test(below),))
            case "lt":
                return frozenset((Test(below + constant(-1)),))
            case "eq":
                return frozenset((Test(above), Test(below)))
            case _:
                return _refuse("positions that must differ")

    def select(self, condition: Any, if_true: Any, if_false: Any) -> Any:
        if not isinstance(condition, frozenset) or isinstance(if_true, Position | frozenset):
            _refuse("a choice that is not of positions")
        known = cast("Condition", condition)
        return (*_where(if_true, known, is_true=True), *_where(if_false, known, is_true=False))

    def convert(self, value: Any, source: DType, target: DType) -> Any:
        if source.kind != target.kind:
            _refuse(f"a conversion from {source.name} to {target.name}")
        return value

    def real(self, value: Any) -> Any:
        return _refuse("a part of a complex number")

    imag = real

    def pair(self, real: Any, imag: Any) -> Any:
        return _refuse("a complex number of two parts")

    def bitcast(self, value: Any, element: Attribute) -> Any:
        return _refuse("the bits of a number")

    def check(self, ok: Any, site: Operation, value: Any, extent: Any) -> None:
        _refuse("an error at run time")

    def size(self, dim: Dim) -> Any:
        return constant(dim.evaluate({}))

    def position(self, at: Ix) -> Any:
        return cast("Any", at)

    def at_element(self, value: Any) -> Ix:
        if not isinstance(value, Position):
            _refuse("a position that is a value")
        return value

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        return cast("Position", at).times(scale) + constant(offset.evaluate({}))

    def shift(self, at: Ix, by: Any) -> Ix:
        return cast("Position", at) + cast("Position", self.at_element(by))

    def plus(self, a: Ix, b: Ix) -> Ix:
        return cast("Position", a) + cast("Position", b)


def regrouped_point(op: ReshapeOp, at: tuple[Position, ...]) -> tuple[Position, ...]:
    """Where in its operand the element of a reshape lies."""
    before, after = shape_of(op.x.type), op.shape
    whole = [(list(range(len(before))), list(range(len(after))))]
    found = [constant(0)] * len(before)
    for left, right in regrouped(before, after) or whole:
        flat = constant(0)
        for k in right:
            flat = flat.times(_size(after[k])) + at[k]
        inner = 1
        for k in reversed(left):
            size = _size(before[k])
            digit = flat.floor(inner)
            if k != left[0]:
                digit += flat.floor(inner * size).times(-size)
            found[k] = digit
            inner *= size
    return tuple(found)


def _refuse(text: str) -> NoReturn:
    raise NotReadError(text)


def _limited(terms: Terms) -> Terms:
    if len(terms) > MOST_TERMS:
        raise NotReadError(f"a sum of more than {MOST_TERMS} products")
    return terms


def _product(left: Term, right: Term) -> Term:
    return Term((*left.factors, *right.factors), left.conditions | right.conditions)


def _where(terms: Terms, condition: Condition, *, is_true: bool) -> Sequence[Term]:
    extra = frozenset(((condition, is_true),))
    return [Term(t.factors, t.conditions | extra) for t in terms]
