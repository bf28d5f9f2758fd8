"""
Patterns that Python matches by what an object is, not by a comparison: a value of the compiled
function is neither True, nor None, nor of a class of numbers. They are asked as expressions are.

    case [z, True] if z > 1:    ->    case [z, c] if c is True and z > 1:
    case float() | None:        ->    case c if isinstance(c, float) or c is None:
"""

from __future__ import annotations

import ast

from mlc.frontend.staging.scopes import at

_NUMBERS = ("bool", "int", "float", "complex")


def asked(case: ast.match_case) -> None:
    """Changes a case so."""
    patterns = _Patterns()
    case.pattern = patterns.visit(case.pattern)
    tests = [*patterns.tests, *([] if case.guard is None else [case.guard])]
    if patterns.tests:
        whole = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        case.guard = at(whole, case.pattern)


class _Patterns(ast.NodeTransformer):
    def __init__(self) -> None:
        self.tests: list[ast.expr] = []

    def _held(self, node: ast.pattern) -> ast.pattern:
        name = f"__mlc_case_{len(self.tests)}__"
        test = _test(node, name)
        if test is None:
            return node
        self.tests.append(at(test, node))
        return at(ast.MatchAs(None, name), node)

    visit_MatchSingleton = visit_MatchOr = _held  # noqa: N815 - ast's names

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.pattern:
        """Of numbers: with nothing in it, or a name."""
        inner = node.patterns[0] if len(node.patterns) == 1 else None
        if not isinstance(inner, ast.MatchAs) or inner.pattern is not None or inner.name is None:
            found = self._held(node)
            return self.generic_visit(node) if found is node else found  # pyright: ignore[reportReturnType]
        if (test := _test(ast.MatchClass(node.cls, [], [], []), inner.name)) is None:
            return node
        self.tests.append(at(test, node))
        return inner


def _test(pattern: ast.pattern, name: str) -> ast.expr | None:
    """What a pattern asks of a variable; None where Python asks it."""
    held = ast.Name(name, ast.Load())
    match pattern:
        case ast.MatchSingleton(value=value):
            return ast.Compare(held, [ast.Is()], [ast.Constant(value)])
        case ast.MatchValue(value=value):
            return ast.Compare(held, [ast.Eq()], [value])
        case ast.MatchClass(cls=ast.Name(id=kind) as cls, patterns=[], kwd_patterns=[]):
            test = ast.Call(ast.Name("isinstance", ast.Load()), [held, cls], [])
            return test if kind in _NUMBERS else None
        case ast.MatchOr(patterns=patterns):
            tests = [_test(x, name) for x in patterns]
            known = [x for x in tests if x is not None]
            return ast.BoolOp(ast.Or(), known) if len(known) == len(tests) else None
        case _:
            return None
