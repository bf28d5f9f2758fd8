"""Pieces of syntax that rewritten functions are made of."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any

from mlc.frontend.staging.scopes import RUNTIME, at

RAW_CALLS = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "__import__"})
"""Calls that look at their caller's frame."""

ITEM = "__mlc_item__"
"""The parameter of a loop's body."""


def thunk(value: ast.expr) -> ast.expr:
    template = ast.parse("lambda: 0", mode="eval").body
    assert isinstance(template, ast.Lambda)
    template.body = value
    return moved(template, value)


def defined(
    name: str, names: set[str], body: list[ast.stmt], item: bool = False
) -> ast.FunctionDef:
    made = ast.parse(f"def {name}({ITEM if item else ''}): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    first: list[ast.stmt] = [ast.Nonlocal(sorted(names))] if names else []
    made.body = [*(at(x, body[0]) for x in first), *body]
    return moved(made, body[0])


def moved(node: Any, like: ast.AST) -> Any:
    """A parsed node whose own position, and its arguments', are those of another."""
    for part in (node, *ast.walk(node.args)):
        ast.copy_location(part, like)
    return node


def sharing(declared: Iterable[ast.stmt], like: ast.stmt) -> list[ast.stmt]:
    """Says which variables of functions around it a function may bind anew."""
    names = {name for x in declared if isinstance(x, ast.Nonlocal) for name in x.names}
    variables = [thunk(at(ast.Name(x, ast.Load()), like)) for x in sorted(names)]
    return [at(ast.Expr(runtime("shares", like, *variables)), like)] if names else []


def is_runtime(node: ast.expr) -> bool:
    """Whether the expression is `__mlc__.name`."""
    held = node.value if isinstance(node, ast.Attribute) else None
    return isinstance(held, ast.Name) and held.id == RUNTIME


SINGLE: dict[type[ast.cmpop], str] = {
    ast.In: "inside",
    ast.NotIn: "outside",
    ast.Is: "same",
    ast.IsNot: "differs",
    ast.Eq: "equal",
    ast.NotEq: "unequal",
}
"""What a comparison of two is called."""

EQUALITY = ("equal", "unequal")
"""What compares lists and dicts as wholes."""


def may_be_collections(node: ast.Compare) -> bool:
    """Whether both sides of a comparison may be lists or dicts."""
    plain = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.JoinedStr)
    return not any(isinstance(side, plain) for side in (node.left, *node.comparators))


def runtime(method: str, like: ast.AST, *arguments: ast.expr) -> ast.expr:
    """`__mlc__.method(…)`"""
    function = ast.Attribute(ast.Name(RUNTIME, ast.Load()), method, ast.Load())
    return at(ast.Call(function, list(arguments), []), like)
