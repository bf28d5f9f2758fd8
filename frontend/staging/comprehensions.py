"""
Comprehensions as loops: what Python cannot decide in them is decided as in any `for` and `if`.

    [f(v) for v in xs if v > 0]        def listed(items):
                                           made = []
                                           for v in items:
                                ->             if v > 0:
                                                   made.append(f(v))
                                           return made
                                       __mlc__.listed(listed, xs, plain, True)

The function stands before the statement. `plain` is the comprehension of its argument, as it was:
where it goes over few values, or over Python's, and no `if` is in it, that is what runs.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Container, Iterator
from typing import Any

from mlc.frontend.staging.scopes import at, own_nodes
from mlc.frontend.staging.syntax import RAW_CALLS, moved, runtime

ITEMS = "__mlc_items__"
_DEFAULT = "__mlc_default__"
_MADE = "__mlc_made__"
_KEPT = (ast.Await, ast.Yield, ast.YieldFrom)

Comprehension = ast.ListComp | ast.GeneratorExp | ast.DictComp


def names_seen(node: ast.AST, hidden: frozenset[str] = frozenset()) -> Iterator[str]:
    """The names in a function, but in comprehensions those that these bind by `:=`."""
    match node:
        case ast.Name(id=name) if name not in hidden:
            yield name
        case ast.Global() | ast.Nonlocal():
            yield from node.names
        case ast.ListComp() | ast.GeneratorExp():
            hidden |= _named(node)
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from names_seen(child, hidden)


def _named(node: ast.AST) -> frozenset[str]:
    """The names that a comprehension binds by `:=`, for the function that it stands in."""
    targets = (x.target for x in own_nodes([node]) if isinstance(x, ast.NamedExpr))
    return frozenset(x.id for x in targets)


def is_loop(node: Comprehension, seen: Container[str]) -> bool:
    """Whether a comprehension can be a function of its first iterable; `seen`: names around it."""
    if any(name in seen for name in _named(node)):
        return False
    for x in own_nodes([node]):
        if isinstance(x, _KEPT) or (isinstance(x, ast.comprehension) and x.is_async):
            return False
        if isinstance(x, ast.Call) and isinstance(x.func, ast.Name) and x.func.id in RAW_CALLS:
            return False
    return True


def has_tests(node: Comprehension) -> bool:
    """Whether some elements are left out, of it or of one in it."""
    inside = (x for x in own_nodes([node]) if isinstance(x, Comprehension))
    return any(x.ifs for each in inside for x in each.generators)


def listing(node: Comprehension, name: str) -> ast.FunctionDef:
    """The function that makes a list, or a dict, of what it gives."""
    made, empty = ast.Name(_MADE, ast.Load()), ast.List([], ast.Load())
    if isinstance(node, ast.DictComp):
        place, empty = ast.Subscript(made, node.key, ast.Store()), ast.Dict([], [])
        inner: ast.stmt = ast.Assign([place], node.value)
    else:
        inner = ast.Expr(ast.Call(ast.Attribute(made, "append", ast.Load()), [node.elt], []))
    first = ast.Assign([ast.Name(_MADE, ast.Store())], empty)
    last = ast.Return(ast.Name(_MADE, ast.Load()))
    return _function(node, name, [first, _nested(node, inner), last])


def asking(node: ast.GeneratorExp, name: str, wanted: bool) -> ast.FunctionDef:
    """The function that says whether any of them is true, or all are: `wanted` is True for any."""
    test = node.elt if wanted else ast.UnaryOp(ast.Not(), node.elt)
    inner = ast.If(test, [ast.Return(ast.Constant(wanted))], [])
    return _function(node, name, [_nested(node, inner), ast.Return(ast.Constant(not wanted))])


def finding(node: ast.GeneratorExp, name: str, default: bool) -> ast.FunctionDef:
    """The function that gives the first of them; else the default, or StopIteration."""
    last: ast.stmt = ast.Raise(ast.Name("StopIteration", ast.Load()), None)
    if default:
        last = ast.Return(ast.Name(_DEFAULT, ast.Load()))
    return _function(node, name, [_nested(node, ast.Return(node.elt)), last])


def plain(node: Comprehension) -> ast.Lambda:
    """The comprehension as it is, of its first iterable."""
    template = ast.parse(f"lambda {ITEMS}: 0", mode="eval").body
    assert isinstance(template, ast.Lambda)
    template.body = copy.deepcopy(node)
    assert isinstance(template.body, Comprehension)
    template.body.generators[0].iter = ast.Name(ITEMS, ast.Load())
    return _placed(template, node)


def _tests(test: ast.expr) -> list[ast.expr]:
    """What must all hold for a test to hold, one after another."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
        return [test]
    return [x for value in test.values for x in _tests(value)]


def _nested(node: Comprehension, inner: ast.stmt) -> ast.stmt:
    for k, part in reversed(list(enumerate(node.generators))):
        for test in reversed([test for x in part.ifs for test in _tests(x)]):
            inner = ast.If(test, [inner], [])
        items = part.iter if k else ast.Name(ITEMS, ast.Load())
        inner = ast.For(part.target, items, [inner], [])
    return inner


def _function(node: Comprehension, name: str, body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.parse(f"def {name}({ITEMS}, {_DEFAULT}=None): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.body = copy.deepcopy(body)
    return _placed(made, node)


def _placed(made: Any, like: ast.expr) -> Any:
    """At the place of the comprehension, but for its parts that have their own."""
    return at(moved(made, like), like)


class Comprehensions(ast.NodeTransformer):
    """Makes loops of comprehensions."""

    def __init__(self, seen: frozenset[str]) -> None:
        self.seen = seen  # names that more than comprehensions which bind them know
        self.before: list[ast.stmt] | None = []  # functions that stand before the statement
        self.made: int = 0  # such functions

    def definition(self, node: Any) -> Any:
        """A function, rewritten."""
        raise NotImplementedError

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        """[… for … in …]"""
        parts = self._as_loop(node)
        return node if parts is None else runtime("listed", node, *parts)

    def _comprehension(self, node: Any) -> Any:
        """One that stays: what is in it has names of its own."""
        outer, self.before = self.before, None
        self.generic_visit(node)
        self.before = outer
        return node

    visit_SetComp = visit_GeneratorExp = _comprehension  # noqa: N815 - ast's names

    def visit_DictComp(self, node: ast.DictComp) -> Any:
        """{… : … for … in …}: a loop gives a place its value first, so `:=` stays Python's."""
        if not has_tests(node) or _named(node):
            return self._comprehension(node)
        parts = self._as_loop(node)
        return node if parts is None else runtime("listed", node, *parts)

    def _as_loop(self, node: Comprehension) -> list[ast.expr] | None:
        """
        The function that is a comprehension's loop, its first iterable, the same as Python's, and
        whether it has tests; None where it stays, with what is in it rewritten.
        """
        if self.before is None or not is_loop(node, self.seen):
            self._comprehension(node)
            return None
        function = self._before(listing(node, self._fresh()))
        first = self.visit(node.generators[0].iter)
        python = plain(node)
        python.body = self._comprehension(python.body)
        return [function, first, python, ast.Constant(has_tests(node))]

    def _fresh(self) -> str:
        self.made += 1
        return f"__mlc_listed_{self.made}__"

    def _before(self, function: ast.FunctionDef) -> ast.expr:
        """The name of a function that stands before the statement."""
        assert self.before is not None
        before, self.before = self.before, []
        made = self.definition(function)
        self.before = before
        self.before.append(made)
        return at(ast.Name(function.name, ast.Load()), function)

    def lazily(self, node: ast.Call) -> bool:
        """Whether the call, now rewritten, gets a generator expression first that may be a loop."""
        first = node.args[0] if node.args else None
        if not isinstance(first, ast.GeneratorExp) or self.before is None:
            return False
        if not is_loop(first, self.seen):
            return False
        quantifier = node.func.id if isinstance(node.func, ast.Name) else ""
        node.func = self.visit(node.func)
        asked: ast.expr = ast.Constant(None)
        if quantifier in ("any", "all"):
            asked = self._before(asking(first, self._fresh(), quantifier == "any"))
        elif quantifier == "next":
            asked = self._before(finding(first, self._fresh(), len(node.args) > 1))
        parts = self._as_loop(first)
        assert parts is not None
        node.args = [runtime("lazy", first, *parts, asked), *map(self.visit, node.args[1:])]
        node.keywords = [self.visit(x) for x in node.keywords]
        return True
