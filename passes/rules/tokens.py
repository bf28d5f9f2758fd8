"""The words of a rule's text, and the expressions that they make."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from mlc.dialects.errors import MlcError
from mlc.passes.rules.rule import Apply, Expr, Listed, Number, Symbol
from mlc.passes.rules.vocabulary import FUNCTIONS

T = TypeVar("T")
TOKEN = re.compile(
    r'%\w+|"[^"]*"|<=|>=|==|!=|[-+*/()\[\],:=<>]|\d+(?:\.\d*)?(?:e[-+]?\d+)?|[A-Za-z_]\w*|\S'
)
_MARKS = frozenset("-+*/()[],:=<>_")


class RuleError(MlcError):
    """A rule file is wrong: file, line, what was found, what was expected."""


class Tokens:
    """Reads lines of a file, one after another."""

    def __init__(self, file: str, line: int) -> None:
        self.file, self.line = file, line
        self.tokens = [""]
        self.at = 0

    def fail(self, expected: str) -> NoReturn:
        """Raises RuleError at the token at hand."""
        found = repr(self.next) if self.next else "the end of the line"
        raise RuleError(f"{self.file}:{self.line}: found {found}; expected {expected}")

    def begin(self, line: str) -> None:
        """Takes a line's tokens."""
        self.tokens, self.at = [*TOKEN.findall(line), ""], 0
        for k, token in enumerate(self.tokens):
            if len(token) == 1 and not ((token.isascii() and token.isalnum()) or token in _MARKS):
                self.at = k
                self.fail("a name, a number, a text or an operator")

    @property
    def next(self) -> str:
        """The token at hand; empty at the end of the line."""
        return self.tokens[self.at]

    def take(self, *expected: str) -> str:
        """The token at hand, which must be one of these, if any are given."""
        token = self.next
        if not token or (expected and token not in expected):
            self.fail(" or ".join(map(repr, expected)) or "more")
        self.at += 1
        return token

    def taken(self, token: str) -> bool:
        """Whether it is the token at hand; then it is taken."""
        if self.next != token:
            return False
        self.at += 1
        return True

    def word(self, what: str) -> str:
        """A name."""
        if not self.next.isidentifier():
            self.fail(what)
        return self.take()

    def end(self) -> None:
        """Nothing more stands in the line."""
        if self.next:
            self.fail("the end of the line")

    def several(self, one: Callable[[], T]) -> tuple[T, ...]:
        """One or more, with commas."""
        found = [one()]
        while self.taken(","):
            found.append(one())
        return tuple(found)

    # Expressions --------------------------------------------------------------------------------

    def expression(self) -> Expr:
        """A sum, or a list in brackets."""
        if not self.taken("["):
            return self.sum()
        items = () if self.next == "]" else self.several(self.sum)
        self.take("]")
        return Listed(items)

    def sum(self) -> Expr:
        found = self.product()
        while self.next in ("+", "-"):
            found = Apply(self.take(), (found, self.product()))
        return found

    def product(self) -> Expr:
        found = self.factor()
        while self.next in ("*", "/"):
            found = Apply(self.take(), (found, self.factor()))
        return found

    def factor(self) -> Expr:
        if self.taken("-"):
            inner = self.factor()
            return Number(-inner.value) if isinstance(inner, Number) else Apply("neg", (inner,))
        if self.taken("("):
            inner = self.sum()
            self.take(")")
            return inner
        token = self.next
        if token[:1].isdigit():
            self.take()
            return Number(float(token) if "." in token or "e" in token else int(token))
        if token == "inf":
            self.take()
            return Number(float("inf"))
        name = self.word("a number or a name")
        if not self.taken("("):
            return Symbol(name)
        if name not in FUNCTIONS:
            self.at -= 2
            self.fail(f"one of the functions {', '.join(n for n in FUNCTIONS if n.isalpha())}")
        arguments = self.several(self.expression)
        self.take(")")
        return Apply(name, arguments)
