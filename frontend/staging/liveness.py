"""
Which names are read again: after a loop, and by a trip what the one before left. What is neither is
each trip's own, and no loop hands it on.

SOURCE: Aho, Lam, Sethi, Ullman, Compilers, 2nd ed., 9.2.5 (live variables), over the syntax tree.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

Names = frozenset[str]
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.GeneratorExp)
_LOOKS = frozenset({"locals", "vars", "eval", "exec", "dir"})
"""Functions that see variables by their names."""


class Liveness:
    """Of a function's loops; `elsewhere`: names that others may read or bind at any time."""

    def __init__(self, body: Sequence[ast.stmt], elsewhere: Iterable[str]) -> None:
        self._every = _read(body)
        inner = (x for node in body for x in ast.walk(node) if isinstance(x, _SCOPES))
        always = {name for node in inner for name in _named(node)} | set(elsewhere)
        self._looks = bool(self._every & _LOOKS)
        self._always = Names(always)
        self._after: dict[int, Names] = {}
        self._head: dict[int, Names] = {}
        self._leaving: list[tuple[Names, Names]] = []  # loops around: live after, at the next trip
        self._block(body, Names())

    def after(self, loop: ast.stmt, names: Iterable[str]) -> list[str]:
        """Which of a loop's names are read after it."""
        live = self._after.get(id(loop))
        if live is None or self._looks:
            return sorted(names)
        return sorted({*names} & (live | self._always))

    def own(self, loop: ast.stmt, names: Iterable[str]) -> list[str]:
        """Which of a loop's names each trip gives a value before it reads it, for itself alone."""
        if id(loop) not in self._after or self._looks:
            return []
        return sorted({*names} - self._after[id(loop)] - self._head[id(loop)] - self._always)

    def _block(self, statements: Sequence[ast.stmt], live: Names) -> Names:
        """What is live before statements, of what is live after them."""
        for statement in reversed(statements):
            live = self._statement(statement, live)
        return live

    def _statement(self, node: ast.stmt, live: Names) -> Names:
        match node:
            case ast.If():
                return (
                    _read([node.test])
                    | self._block(node.body, live)
                    | self._block(node.orelse, live)
                )
            case ast.For():
                return _read([node.iter]) | self._loop(node, live, _stored([node.target]), Names())
            case ast.While():
                return self._loop(node, live, Names(), _read([node.test]))
            case ast.With():  # which may go on behind it from anywhere in it
                return _read(node.items) | live | self._block(node.body, live)
            case ast.Return() | ast.Raise():
                return _read([node])
            case ast.Break():
                return self._leaving[-1][0]
            case ast.Continue():
                return self._leaving[-1][1]
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr() | ast.Assert():
                return (live - _stored([node])) | _read([node])
            case ast.Try() | ast.TryStar() | ast.Match() | ast.AsyncFor() | ast.AsyncWith():
                return live | self._every  # which control may leave anywhere, or enter
            case _:
                return live | _read([node])

    def _loop(self, node: ast.For | ast.While, live: Names, given: Names, test: Names) -> Names:
        """`given`: names that the loop binds; `test`: those that it reads before each trip."""
        end = self._block(node.orelse, live)
        head = end | test
        while True:
            self._leaving.append((live, head))
            first = self._block(node.body, head) - given
            self._leaving.pop()
            if first <= head:
                break
            head |= first
        self._after[id(node)] = live | end
        self._head[id(node)] = first | test
        return head


def _read(nodes: Iterable[ast.AST]) -> Names:
    """The names that are read, deleted, or changed, in functions inside too."""
    found = set[str]()
    for node in nodes:
        for x in ast.walk(node):
            if isinstance(x, ast.Name) and not isinstance(x.ctx, ast.Store):
                found.add(x.id)
            elif isinstance(x, ast.AugAssign) and isinstance(x.target, ast.Name):
                found.add(x.target.id)
    return Names(found)


def _named(node: ast.AST) -> Names:
    return Names(x.id for x in ast.walk(node) if isinstance(x, ast.Name))


def _stored(nodes: Iterable[ast.AST]) -> Names:
    """The names that surely get a value: not in functions or conditions inside."""
    targets: list[ast.expr] = []
    for node in nodes:
        match node:
            case ast.Assign():
                targets += node.targets
            case ast.AnnAssign() if node.value is not None:
                targets.append(node.target)
            case ast.expr():
                targets.append(node)
            case _:
                pass
    names = (x for target in targets for x in ast.walk(target) if isinstance(x, ast.Name))
    return Names(x.id for x in names if isinstance(x.ctx, ast.Store))
