"""
What a rewrite rule is: two programs over the same variables, when the one may stand for the other,
and what is known about that. `text.py` reads and prints rules, `match.py` compiles them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Literal, get_args

from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.rules import Equivalence

GradeName = Literal["tested", "probabilistic", "axiomatic"]
Shapes = Literal["instances", "uniform", "proven"]
GRADES: tuple[GradeName, ...] = get_args(GradeName)
SHAPES: tuple[Shapes, ...] = get_args(Shapes)


# Expressions: sizes, places, and numbers of constants


@dataclass(frozen=True)
class Number:
    """A number as it is written: `3`, `-0.0`, `inf`."""

    value: int | float


@dataclass(frozen=True)
class Symbol:
    """A size, an integer, a constant's number, a vector of sizes, a word or a name."""

    name: str


@dataclass(frozen=True)
class Apply:
    """An operator (`+ - * / neg`) or one of the functions that `vocabulary.py` lists."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class Listed:
    """One size for each axis: `[0, n - 1]`."""

    items: tuple[Expr, ...]


Expr = Number | Symbol | Apply | Listed


# Programs


@dataclass(frozen=True)
class Letter:
    """One position of an axis: `i`, or `2i`, or `{s}i`."""

    scale: Expr
    name: str

    @property
    def is_word(self) -> bool:
        """Whether it stands for any number of letters."""
        return self.name.isupper()


@dataclass(frozen=True)
class Word:
    """The axes of an operand or of a result: each is read at a position, or at a sum of two."""

    axes: tuple[tuple[Letter, ...], ...]

    def letters(self) -> Iterator[Letter]:
        """Those of sums one after another."""
        for axis in self.axes:
            yield from axis


@dataclass(frozen=True)
class Letters:
    """Index letters: `"mk,kn->mn"`; a capital stands for any word."""

    operands: tuple[Word, ...]
    result: Word

    def words(self) -> tuple[Word, ...]:
        """Of the operands and of the result."""
        return (*self.operands, self.result)


@dataclass(frozen=True)
class Variable:
    """Any value: `%x`; or one that was named before."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A value all of whose elements are one number."""

    value: Expr
    name: str | None = None


@dataclass(frozen=True)
class Node:
    """An op, by its name without `mlc.` or by the variable that stands for one of several."""

    op: str
    names: tuple[str | Symbol | Apply, ...]  # properties that are strings, but letters
    letters: Letters | None
    operands: tuple[Term, ...]
    fields: tuple[tuple[str, Expr], ...]
    name: str | None = None

    def field(self, name: str) -> Expr | None:
        """One of the properties that are sizes."""
        return dict(self.fields).get(name)


Term = Variable | Constant | Node


Asked = tuple[int, tuple[str, ...]]
"""An operand's number, and what makes it: one of these ops, or a `const`."""


def terms(term: Term) -> Iterator[Term]:
    """A term and what it is made of, operands first."""
    if isinstance(term, Node):
        for operand in term.operands:
            yield from terms(operand)
    yield term


def symbols(expression: Expr) -> Iterator[str]:
    """The variables of an expression."""
    match expression:
        case Symbol(name):
            yield name
        case Apply(_, arguments) | Listed(arguments):
            for argument in arguments:
                yield from symbols(argument)
        case Number():
            pass


# Rules


@dataclass(frozen=True)
class Given:
    """Variables of one element type, of one of these kinds; a shape of None is any, of all one."""

    names: tuple[tuple[str, tuple[Expr, ...] | None], ...]
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Guard:
    """A predicate of the closed list in `vocabulary.py`, of values, numbers or words."""

    predicate: str
    arguments: tuple[Expr | Variable, ...]


@dataclass(frozen=True)
class Grade:
    """
    How a rule was verified. `instances`: at so many; `degree`: of the two sides as polynomials,
    `tests`: so often at random numbers modulo 2^31 - 1. Both are 0 where there is no such
    arithmetic. `shapes`: for which sizes that holds, those of the instances or all; of an axiomatic
    rule, for which there is a derivation, it is proven for all.
    """

    name: GradeName
    instances: int
    degree: int = 0
    tests: int = 0
    shapes: Shapes = "instances"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """
    `left` and `right` are as many values each. What applies to values of the left side is in
    `where`; `lets` are words that are made of others.
    """

    name: str
    says: str = ""
    origin: str = ""
    equivalence: Equivalence
    choices: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Variables for ops, and for properties that are strings, with what they may be."""
    sizes: tuple[str, ...] = ()
    integers: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    vectors: tuple[str, ...] = ()
    given: tuple[Given, ...] = ()
    lets: tuple[tuple[str, Expr], ...] = ()
    where: tuple[Guard, ...] = ()
    left: tuple[Term, ...]
    right: tuple[Term, ...]
    letters_of: str | None = None
    """The op on the left whose names letters have on the right; else the first root's."""
    is_two_way: bool = False
    grade: Grade | None = None
    line: int = field(default=0, compare=False)

    def reversed(self) -> Rule:
        """The rule from right to left; words made of others are those that are met there."""
        return replace(
            self,
            name=f"{self.name}_back",
            left=self.right,
            right=self.left,
            lets=(),
            letters_of=None,
            is_two_way=False,
            grade=None,
        )


def known_values(rule: Rule, predicate: str) -> set[str]:
    """The values of which a guard says something."""
    found = [x for g in rule.where if g.predicate == predicate for x in g.arguments]
    return {x.name for x in found if isinstance(x, Variable)}
