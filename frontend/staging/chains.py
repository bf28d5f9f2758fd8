"""
`match` as a chain of `if`, which the compiled function may decide: what a pattern asks is asked as
an expression, and what it names is set where it fits, before the guard.

    match p:                        s = p
        case [0, y] if y > a:       if __mlc__.is_series(s) and len(s) == 2 and s[0] == 0:
            A                           y = s[1]; hit = y > a
        case Box(w=w):       ->     else:
            B                           hit = False
                                    if hit:
                                        A
                                    elif isinstance(s, Box) and hasattr(s, "w"):
                                        w = s.w; B
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from mlc.frontend.staging.scopes import at
from mlc.frontend.staging.syntax import runtime


class _Stays(Exception):  # noqa: N818 - it never reaches a user
    """A pattern that only Python asks."""


_OF_ITSELF = frozenset(
    {
        *("bool", "int", "float", "complex", "str", "bytes", "bytearray"),
        *("list", "tuple", "dict", "set", "frozenset"),
    }
)
"""Builtin classes whose pattern holds one for the object itself."""


class Chains(ast.NodeTransformer):
    """Turns each `match` of a function into a chain, but for patterns that only Python asks."""

    def __init__(self) -> None:
        self._names = 0

    def visit_Match(self, node: ast.Match) -> Any:
        """A statement, after those in it."""
        self.generic_visit(node)
        subject = self._name("subject")
        try:
            chain = self._cases(node.cases, subject)
        except _Stays:
            return node
        assign = ast.Assign([ast.Name(subject, ast.Store())], node.subject)
        return [at(x, node) if x is assign else x for x in (assign, *chain)]

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"__mlc_{kind}_{self._names}__"

    def _cases(self, cases: Sequence[ast.match_case], subject: str) -> list[ast.stmt]:
        if not cases:
            return []
        case, *others = cases
        pattern = _Pattern(case.pattern)
        pattern.ask(case.pattern, ast.Name(subject, ast.Load()))
        test, like = _all(pattern.tests), case.pattern
        named: list[ast.stmt] = [
            at(ast.Assign([ast.Name(name, ast.Store())], value), like)
            for name, value in pattern.named
        ]
        if case.guard is None:
            body = [*named, *case.body]
            rest = self._cases(others, subject) if test is not None else []
            return body if test is None else [at(ast.If(test, body, rest), like)]
        rest = self._cases(others, subject)
        if not named:
            whole = _all([*pattern.tests, case.guard])
            assert whole is not None
            return [at(ast.If(whole, case.body, rest), like)]
        hit = self._name("hit")
        fits: list[ast.stmt] = [*named, _set(hit, case.guard, like)]
        if test is not None:
            fits = [at(ast.If(test, fits, [_set(hit, ast.Constant(False), like)]), like)]
        return [*fits, at(ast.If(ast.Name(hit, ast.Load()), case.body, rest), like)]


def _set(name: str, value: ast.expr, like: ast.AST) -> ast.stmt:
    return at(ast.Assign([ast.Name(name, ast.Store())], value), like)


def _all(tests: Sequence[ast.expr]) -> ast.expr | None:
    if len(tests) < 2:
        return tests[0] if tests else None
    return ast.BoolOp(ast.And(), [*tests])


class _Pattern:
    """What a pattern asks, and what it names, in order."""

    def __init__(self, like: ast.AST) -> None:
        self._like = like
        self.tests: list[ast.expr] = []
        self.named: list[tuple[str, ast.expr]] = []

    def ask(self, pattern: ast.pattern | None, subject: ast.expr) -> None:
        """Of a subject. Raises _Stays."""
        match pattern:
            case None:
                pass
            case ast.MatchValue(value=value):
                self._asks(ast.Compare(deepcopy(subject), [ast.Eq()], [value]))
            case ast.MatchSingleton(value=value):
                self._asks(ast.Compare(deepcopy(subject), [ast.Is()], [ast.Constant(value)]))
            case ast.MatchAs(pattern=inner, name=name):
                self.ask(inner, subject)
                if name is not None:
                    self.named.append((name, deepcopy(subject)))
            case ast.MatchOr(patterns=patterns):
                self._either(patterns, subject)
            case ast.MatchSequence(patterns=patterns):
                self._series(patterns, subject)
            case ast.MatchMapping(keys=keys, patterns=patterns, rest=None):
                self._asks(runtime("is_mapping", self._like, deepcopy(subject)))
                for key, inner in zip(keys, patterns, strict=True):
                    self._asks(ast.Compare(deepcopy(key), [ast.In()], [deepcopy(subject)]))
                    self.ask(inner, ast.Subscript(deepcopy(subject), key, ast.Load()))
            case ast.MatchClass():
                self._instance(pattern, subject)
            case _:
                raise _Stays

    def _asks(self, test: ast.expr) -> None:
        self.tests.append(at(test, self._like))

    def _call(self, function: str, *args: ast.expr) -> ast.expr:
        return at(ast.Call(ast.Name(function, ast.Load()), [*args], []), self._like)

    def _either(self, patterns: Sequence[ast.pattern], subject: ast.expr) -> None:
        found: list[ast.expr] = []
        for inner in patterns:
            one = _Pattern(self._like)
            one.ask(inner, subject)
            test = _all(one.tests)
            if one.named:
                raise _Stays
            if test is None:
                return
            found.append(test)
        self._asks(ast.BoolOp(ast.Or(), found))

    def _series(self, patterns: Sequence[ast.pattern], subject: ast.expr) -> None:
        stars = [k for k, x in enumerate(patterns) if isinstance(x, ast.MatchStar)]
        first = stars[0] if stars else len(patterns)
        behind = len(patterns) - first - len(stars)
        self._asks(runtime("is_series", self._like, deepcopy(subject)))
        length = self._call("len", deepcopy(subject))
        least = ast.Constant(len(patterns) - len(stars))
        self._asks(ast.Compare(length, [ast.GtE() if stars else ast.Eq()], [least]))
        for k, inner in enumerate(patterns):
            if isinstance(inner, ast.MatchStar):
                if inner.name is not None:
                    end = ast.Constant(-behind) if behind else None
                    part = ast.Slice(ast.Constant(first), end)
                    value = ast.Subscript(deepcopy(subject), part, ast.Load())
                    self.named.append((inner.name, self._call("list", value)))
                continue
            place = ast.Constant(k if k < first else k - len(patterns))
            self.ask(inner, ast.Subscript(deepcopy(subject), place, ast.Load()))

    def _instance(self, pattern: ast.MatchClass, subject: ast.expr) -> None:
        kind = pattern.cls.id if isinstance(pattern.cls, ast.Name) else ""
        whole = kind in _OF_ITSELF and len(pattern.patterns) == 1
        if pattern.patterns and not whole:
            raise _Stays
        self._asks(self._call("isinstance", deepcopy(subject), pattern.cls))
        if whole:
            self.ask(pattern.patterns[0], subject)
        for name, inner in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            self._asks(self._call("hasattr", deepcopy(subject), ast.Constant(name)))
            self.ask(inner, ast.Attribute(deepcopy(subject), name, ast.Load()))
