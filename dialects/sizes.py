"""Sizes of axes as canonical integer polynomials over symbols; no class of IR, see dims.py.

``Dim.symbol("B") * 4 + 1`` prints as ``4*B + 1``. Two dims are equal exactly when their canonical
forms are; no solver is asked. A quotient that is not exact becomes an atom of its own,
``(B + 1) // 2``, so that it still has one name.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from mlc.cached_property import cached_property
from mlc.lazy_dataclass import dataclass

MOST = 2**63  # sizes are i64 at run time
_MOST_TERMS = 4096  # of a product of two sums that somebody wrote
_TOKENS = re.compile(r"(?>\s+|[^\W\d]\w*|\d+(?!\w)|[-+*/()])*+")


@dataclass(frozen=True, order=True)
class FloorDiv:
    """The atom ``numerator // divisor`` (rounded towards minus infinity); divisor >= 2."""

    numerator: Dim
    divisor: int

    def __str__(self) -> str:
        return f"(({self.numerator}) // {self.divisor})"


Atom = str | FloorDiv
Monomial = tuple[Atom, ...]
"""A product of atoms, sorted by their text; the empty product is 1."""


@dataclass(frozen=True, order=True)
class Dim:
    """A canonical integer polynomial: sorted (monomial, non-zero coefficient) pairs."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    @lru_cache(maxsize=4096)
    def const(value: int) -> Dim:
        """The constant polynomial."""
        return Dim((((), value),) if value else ())

    @staticmethod
    def symbol(name: str) -> Dim:
        """The polynomial that is one symbol, a Python identifier."""
        if not name.isidentifier():
            raise ValueError(f"a dim symbol is an identifier such as 'B', found {name!r}")
        return Dim((((name,), 1),))

    @staticmethod
    def of(value: int | str | Dim) -> Dim:
        """A dim from an int, a symbol or an expression such as ``"2*B + 1"``."""
        if isinstance(value, Dim):
            return value
        if isinstance(value, str):
            return _parse(value)
        return Dim.const(int(value))

    @cached_property
    def constant(self) -> int | None:
        """The value, when no symbol occurs; else None."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def single_symbol(self) -> str | None:
        """The name, when the dim is exactly one symbol; else None."""
        if len(self.terms) != 1 or self.terms[0][1] != 1 or len(self.terms[0][0]) != 1:
            return None
        atom = self.terms[0][0][0]
        return atom if isinstance(atom, str) else None

    def symbols(self) -> frozenset[str]:
        """Every symbol that occurs, inside quotients too."""
        return self._symbols

    @cached_property
    def _symbols(self) -> frozenset[str]:
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, str) else atom.numerator.symbols()
        return frozenset(found)

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The value for the given symbol values; KeyError for a symbol without one."""
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for atom in monomial:
                if isinstance(atom, str):
                    product *= sizes[atom]
                else:
                    product *= atom.numerator.evaluate(sizes) // atom.divisor
            total += product
        return total

    def substitute(self, values: Mapping[str, Dim]) -> Dim:
        """The polynomial with symbols replaced by dims."""
        if values.keys().isdisjoint(self.symbols()):
            return self
        total, kept = Dim.const(0), list[tuple[Monomial, int]]()
        for monomial, coefficient in self.terms:
            if not any(_names(atom, values) for atom in monomial):
                kept.append((monomial, coefficient))
                continue
            product = Dim.const(coefficient)
            for atom in monomial:
                if isinstance(atom, str):
                    product = product * (values.get(atom) or Dim((((atom,), 1),)))
                else:
                    product = product * (atom.numerator.substitute(values) // atom.divisor)
            total = total + product
        return total + Dim(tuple(kept))

    def __add__(self, other: int | Dim) -> Dim:
        other = Dim.of(other)
        if not self.terms or not other.terms:
            return self if self.terms else other
        sums = dict(self.terms)
        for monomial, coefficient in other.terms:
            sums[monomial] = sums.get(monomial, 0) + coefficient
        return _canonical(sums)

    def __neg__(self) -> Dim:
        return Dim(tuple((monomial, -coefficient) for monomial, coefficient in self.terms))

    def __sub__(self, other: int | Dim) -> Dim:
        return self + (-Dim.of(other))

    def __mul__(self, other: int | Dim) -> Dim:
        other = Dim.of(other)
        mine, yours = self.constant, other.constant
        if mine is not None and yours is not None:
            return Dim.const(mine * yours)
        for x, y in ((self, yours), (other, mine)):
            if y == 1:
                return x
            if y is not None:  # the order of terms stays
                return Dim(tuple((m, c * y) for m, c in x.terms) if y else ())
        products: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = tuple(sorted(left + right, key=str))
                products[monomial] = products.get(monomial, 0) + a * b
        return _canonical(products)

    def __floordiv__(self, divisor: int) -> Dim:
        if divisor < 1:
            raise ValueError(f"dims are divided by positive integers, found {divisor}")
        if divisor == 1:
            return self
        exact = {m: c // divisor for m, c in self.terms if c % divisor == 0}
        rest = {m: c for m, c in self.terms if c % divisor}
        quotient = _canonical(exact)
        if not rest:
            return quotient
        remainder = _canonical(rest)
        value = remainder.constant
        if value is not None:
            return quotient + value // divisor
        match remainder.terms:  # (a // b + c) // d is (a + b c) // (b d)
            case (((FloorDiv() as nested,), 1),) | (((FloorDiv() as nested,), 1), ((), _)):
                whole = nested.numerator + rest.get((), 0) * nested.divisor
                return quotient + whole // (nested.divisor * divisor)
            case _:
                return quotient + Dim((((FloorDiv(remainder, divisor),), 1),))

    def exact_quotient(self, other: Dim) -> Dim | None:
        """
        ``q`` with ``q * other == self``; None where there is none. Leading term by leading term:
        the order of terms is kept by products.
        """
        if not other.terms:
            return None
        divisor, scale = other.terms[0]
        rest, quotient = self, Dim(())
        while rest.terms:
            monomial, coefficient = rest.terms[0]
            left = list(monomial)
            for atom in divisor:
                if atom not in left:
                    return None
                left.remove(atom)
            if coefficient % scale:
                return None
            term = Dim(((tuple(left), coefficient // scale),))
            quotient, rest = quotient + term, rest - term * other
        return quotient

    __radd__ = __add__
    __rmul__ = __mul__

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        text = ""
        for monomial, coefficient in self.terms:
            sign = (
                ("-" if coefficient < 0 else "")
                if not text
                else (" - " if coefficient < 0 else " + ")
            )
            size = abs(coefficient)
            factors = [str(size)] if size != 1 or not monomial else []
            text += sign + "*".join(factors + [str(atom) for atom in monomial])
        return text


def _names(atom: Atom, values: Mapping[str, Dim]) -> bool:
    """Whether one of these symbols occurs in it."""
    if isinstance(atom, str):
        return atom in values
    return not values.keys().isdisjoint(atom.numerator.symbols())


def _place(term: tuple[Monomial, int]) -> tuple[int, tuple[str, ...]]:
    """Highest degree first, then by name, the constant last."""
    return -len(term[0]), tuple(map(str, term[0]))


def _canonical(coefficients: Mapping[Monomial, int]) -> Dim:
    kept = [(monomial, c) for monomial, c in coefficients.items() if c]
    if len(kept) > 1:
        kept.sort(key=_place)
    return Dim(tuple(kept))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Dim:
    def number(value: int) -> int:
        if not value < MOST:
            raise ValueError(text)
        return value

    def times(left: Dim, right: Dim) -> Dim:
        if len(left.terms) * len(right.terms) > _MOST_TERMS:
            raise ValueError(text)
        return left * right

    def visit(node: ast.expr) -> Dim:
        match node:
            case ast.Constant(value=int(value)):
                return Dim.const(number(value))
            case ast.Name(id=name):
                return Dim.symbol(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -visit(operand)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return visit(left) + visit(right)
            case ast.BinOp(op=ast.Sub(), left=left, right=right):
                return visit(left) - visit(right)
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                return times(visit(left), visit(right))
            case ast.BinOp(op=ast.FloorDiv(), left=left, right=ast.Constant(value=int(value))):
                return visit(left) // number(value)
            case _:
                raise ValueError(text)

    try:
        if _TOKENS.fullmatch(text) is None:
            raise ValueError(text)
        return visit(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last: too deep
        raise ValueError(
            f"{text!r} is not a dim; expected an integer polynomial over names such as 'B',"
            " '2*B + 1' or 'B // 2'"
        ) from error


def product(dims: Iterable[Dim]) -> Dim:
    """The number of elements of a shape."""
    count, rest = 1, list[Dim]()
    for dim in dims:
        known = dim.constant
        if known is None:
            rest.append(dim)
        else:
            count *= known
    total = Dim.const(count)
    for dim in rest:
        total = total * dim
    return total


def highest(dim: Dim, most: Mapping[str, Dim]) -> Dim:
    """The largest value where each of these symbols lies between 0 and what is given for it."""
    total = Dim.const(0)
    for monomial, coefficient in dim.terms:
        one = Dim(((monomial, 1),))
        if coefficient > 0:
            total = total + _highest_product(one, most) * coefficient
        elif most.keys().isdisjoint(one.symbols()):
            total = total + one * coefficient
    return total


def _highest_product(one: Dim, most: Mapping[str, Dim]) -> Dim:
    product_ = Dim.const(1)
    for atom in one.terms[0][0]:
        if isinstance(atom, str):
            product_ = product_ * (most.get(atom) or Dim.symbol(atom))
        else:
            product_ = product_ * (highest(atom.numerator, most) // atom.divisor)
    return product_


def constant_product(sizes: Iterable[int]) -> int:
    """The number of elements of a static shape."""
    return math.prod(sizes)


Shape = tuple[Dim, ...]
