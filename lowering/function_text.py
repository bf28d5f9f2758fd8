"""One LLVM IR function as lines of text, written from top to bottom, with fresh names."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mlc.dialects.dims import Dim, FloorDiv


class FunctionText:
    """
    Lines of a function. Values are `%v1`, `%v2`, …; labels that nobody names are `l3`, `l4`, …
    `symbols`: the i64 value of each dim symbol that is known by now.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._fresh = 0
        self.symbols: dict[str, str] = {}

    def line(self, text: str) -> None:
        """One instruction without a result."""
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        """One instruction; the name of its result."""
        self._fresh += 1
        self.line(f"%v{self._fresh} = {text}")
        return f"%v{self._fresh}"

    def label(self, name: str) -> None:
        """Begin a block."""
        self.lines.append(f"{name}:")

    def load(self, type_: str, base: str, offset: int) -> str:
        """Load at a byte offset."""
        address = base if offset == 0 else self.value(f"getelementptr i8, ptr {base}, i64 {offset}")
        return self.value(f"load {type_}, ptr {address}, align {4 if type_ == 'i32' else 8}")

    def store(self, type_: str, value: str, base: str, offset: int) -> None:
        """Store at a byte offset."""
        address = base if offset == 0 else self.value(f"getelementptr i8, ptr {base}, i64 {offset}")
        self.line(f"store {type_} {value}, ptr {address}, align {4 if type_ == 'i32' else 8}")

    def branch(self, condition: str, otherwise: str) -> None:
        """Go on in a new block when the i1 holds, else to a label."""
        self._fresh += 1
        self.line(f"br i1 {condition}, label %l{self._fresh}, label %{otherwise}")
        self.label(f"l{self._fresh}")

    def equal(self, type_: str, left: str, right: str) -> str:
        """The i1 left == right."""
        return self.value(f"icmp eq {type_} {left}, {right}")

    def all_of(self, conditions: list[str]) -> str:
        """The conjunction of at least one i1."""
        result = conditions[0]
        for condition in conditions[1:]:
            result = self.value(f"and i1 {result}, {condition}")
        return result

    @contextmanager
    def when(self, condition: str) -> Generator[None, None, None]:
        """Lines that run only when the i1 holds; they end where they began."""
        self._fresh += 1
        number = self._fresh
        self.line(f"br i1 {condition}, label %then{number}, label %after{number}")
        self.label(f"then{number}")
        yield
        self.line(f"br label %after{number}")
        self.label(f"after{number}")

    def polynomial(self, dim: Dim) -> str:
        """The i64 value of a dim over the symbols bound so far."""
        total = ""
        for monomial, coefficient in dim.terms:
            term = ""
            for atom in monomial:
                factor = self._quotient(atom) if isinstance(atom, FloorDiv) else self.symbols[atom]
                term = self.value(f"mul i64 {term}, {factor}") if term else factor
            if not term:
                term = str(coefficient)
            elif coefficient != 1:
                term = self.value(f"mul i64 {term}, {coefficient}")
            total = self.value(f"add i64 {total}, {term}") if total else term
        return total or "0"

    def _quotient(self, atom: FloorDiv) -> str:
        """Rounded towards minus infinity."""
        numerator = self.polynomial(atom.numerator)
        quotient = self.value(f"sdiv i64 {numerator}, {atom.divisor}")
        rest = self.value(f"srem i64 {numerator}, {atom.divisor}")
        below = self.value(f"icmp slt i64 {rest}, 0")
        return self.value(f"add i64 {quotient}, {self.value(f'sext i1 {below} to i64')}")
