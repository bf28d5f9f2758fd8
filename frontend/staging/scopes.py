"""Which names a piece of Python's syntax binds in the scope that it stands in."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from mlc.frontend.trace.definitions import parameters

RUNTIME = "__mlc__"
"""The name by which rewritten functions call what traces them."""

WORDS: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Is: "is_",
    ast.IsNot: "is_not",
    ast.In: "in",
    ast.NotIn: "not in",
}
"""Comparisons, as `operator` names them."""


def bound_names(node: ast.AST) -> set[str]:
    """The names that belong to the scope that `node` opens."""
    names: set[str] = set()
    outer: set[str] = set()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        names |= set(parameters(node))  # pyright: ignore[reportArgumentType]
        names |= {p.arg for p in (node.args.vararg, node.args.kwarg) if p is not None}
        body: list[ast.AST] = [node.body] if isinstance(node.body, ast.expr) else list(node.body)
    elif isinstance(node, ast.ClassDef):
        body = list(node.body)
    else:
        body = [node]
    collect(body, names, outer, inside_comprehension=False)
    return names - outer


def stored_names(node: ast.stmt) -> set[str]:
    """The names that a statement itself binds, not one inside it."""
    found: set[str] = set()
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Global() | ast.Nonlocal():
            return found
        case ast.Try() | ast.TryStar():
            return {handler.name for handler in node.handlers if handler.name is not None}
        case _:
            parts = [x for x in ast.iter_child_nodes(node) if not isinstance(x, ast.stmt)]
    collect(parts, found, set(), inside_comprehension=False)
    return found


def collect(
    nodes: list[ast.AST], names: set[str], outer: set[str], *, inside_comprehension: bool
) -> None:
    """Adds the names that the nodes bind, and those that they declare to be of another scope."""
    for node in nodes:
        inner = inside_comprehension
        match node:
            case ast.Global() | ast.Nonlocal():
                outer.update(node.names)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
                continue
            case ast.Lambda():
                continue
            case ast.NamedExpr(target=ast.Name(id=name)):
                names.add(name)
            case ast.Name(ctx=ast.Store() | ast.Del()) if not inside_comprehension:
                names.add(node.id)
            case ast.alias():
                names.add((node.asname or node.name).partition(".")[0])
            case ast.ExceptHandler(name=str(name)):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                inner = True
            case _:
                pass
        collect(list(ast.iter_child_nodes(node)), names, outer, inside_comprehension=inner)


def bound_in(statements: Sequence[ast.stmt]) -> set[str]:
    """The names that statements bind, also those that are declared to be of another scope."""
    names: set[str] = set()
    collect(list(statements), names, set(), inside_comprehension=False)
    return names


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes and what is in them, but not what is in functions and classes among them."""
    for node in nodes:
        yield node
        if not isinstance(node, _SCOPES):
            yield from own_nodes(ast.iter_child_nodes(node))


def exits(node: ast.AST, *, in_loop: bool = False) -> bool:
    """
    Whether control may leave the statement by `return`, by an error, or by `break` or `continue`
    around it.
    """
    inner = partial(exits, in_loop=in_loop)
    match node:
        case ast.Return():
            return True
        case ast.Raise():
            return node.exc is not None
        case ast.Assert():
            return True
        case ast.Break() | ast.Continue():
            return not in_loop
        case ast.For() | ast.While() | ast.AsyncFor():
            inside = any(exits(x, in_loop=True) for x in node.body)
            return inside or any(map(inner, node.orelse))
        case ast.stmt() | ast.ExceptHandler() | ast.match_case() if not isinstance(node, _SCOPES):
            return any(map(inner, ast.iter_child_nodes(node)))
        case _:
            return False


def is_sliced(body: Sequence[ast.stmt]) -> bool:
    """Whether variables begin or end slices in a loop, whose sizes may so differ."""
    slices = (x for x in own_nodes(body) if isinstance(x, ast.Slice))
    ends = (end for x in slices for end in (x.lower, x.upper) if end is not None)
    return any(isinstance(x, ast.Name) for end in ends for x in ast.walk(end))


def at(node: Any, like: ast.AST) -> Any:
    """The node and its new children at the position of another."""
    ast.copy_location(node, like)
    for child in ast.walk(node):
        if not hasattr(child, "lineno") and "lineno" in child._attributes:
            ast.copy_location(child, like)
    return node


_LIBRARIES = frozenset({"np", "numpy", "math", "mlc"})


def calls(node: ast.AST) -> bool:
    """Whether it is a call of a function that may be the user's."""
    return isinstance(node, ast.Call) and not _of_library(node.func)


def computes(node: ast.AST) -> bool:
    """Whether it is an expression that may raise an error."""
    kinds = ast.BinOp | ast.UnaryOp | ast.Compare | ast.Subscript | ast.Attribute | ast.AugAssign
    return isinstance(node, ast.Call | kinds)


def _of_library(function: ast.expr) -> bool:
    while isinstance(function, ast.Attribute):
        function = function.value
    name = function.id if isinstance(function, ast.Name) else RUNTIME
    return name in _LIBRARIES or hasattr(builtins, name) or name == RUNTIME
