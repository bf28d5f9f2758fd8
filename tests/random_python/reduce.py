"""The fewest statements of a program that still show what is wrong with it."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

Edit = Callable[[ast.Module], None]
"""A change of a tree."""


def reduced(text: str, fails: Callable[[str], bool], seconds: float = 60) -> str:
    """
    The text without what the failure does not need: statements, the heads of compound ones, items
    of tuples, lists and calls, and parts of expressions; or as far as one gets in so many seconds.
    """
    end = time.monotonic() + seconds
    before = ""
    while text != before:
        before = text
        for edits in (_without_one, _with_fewer, _with_simpler):
            at = 0
            while at < len(edits(ast.parse(text))):
                if time.monotonic() > end:
                    return text
                candidate = _edited(text, edits(ast.parse(text))[at])
                if candidate != text and fails(candidate):
                    text = candidate
                else:
                    at += 1
    return text


def _edited(text: str, edit: Edit) -> str:
    """The text after a change; itself where that is no program."""
    tree = ast.parse(text)
    edit(tree)
    try:
        changed = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        compile(changed, "", "exec")
    except (SyntaxError, ValueError):
        return text
    return changed


def _without_one(tree: ast.Module) -> list[Edit]:
    """A statement is gone, or is what stands in it."""

    def edit(k: int, at: int, keep: bool, tree: ast.Module) -> None:
        body = _bodies(tree)[k]
        names = ("body", "orelse", "finalbody") if keep else ()
        body[at : at + 1] = [x for name in names for x in getattr(body[at], name, [])]

    return [
        partial(edit, k, at, keep)
        for k, body in enumerate(_bodies(tree))
        for at in range(len(body))
        for keep in ((False, True) if hasattr(body[at], "body") else (False,))
    ]


def _with_fewer(tree: ast.Module) -> list[Edit]:
    """An item of a tuple, a list or a call is gone; of a target with the value it gets."""

    def edit(k: int, at: int, tree: ast.Module) -> None:
        for items in _items(list(ast.walk(tree))[k]):
            del items[at]

    return [
        partial(edit, k, at)
        for k, node in enumerate(ast.walk(tree))
        for at in range(min(map(len, _items(node)), default=0))
    ]


def _items(node: ast.AST) -> list[list[ast.expr]]:
    """Those of which one is gone with the others' of its number."""
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        pair = [node.targets[0], node.value]
        if all(isinstance(x, ast.Tuple) and len(x.elts) > 1 for x in pair):
            return [cast("ast.Tuple", x).elts for x in pair]
    if isinstance(node, ast.Tuple | ast.List):
        return [node.elts]
    return [node.args] if isinstance(node, ast.Call) else []


def _with_simpler(tree: ast.Module) -> list[Edit]:
    """An expression is one of its parts."""

    def edit(k: int, part: int, tree: ast.Module) -> None:
        node = list(ast.walk(tree))[k]
        _replace(tree, node, _parts(node)[part])

    return [
        partial(edit, k, part)
        for k, node in enumerate(ast.walk(tree))
        for part in range(len(_parts(node)))
    ]


def _parts(node: ast.AST) -> list[ast.expr]:
    """Of an expression; modules are none."""
    if not isinstance(node, ast.expr):
        return []
    found = [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.expr)]
    return [x for x in found if not (isinstance(x, ast.Name) and x.id in ("np", "mlc"))]


def _replace(tree: ast.AST, old: ast.AST, new: ast.expr) -> None:
    for node in ast.walk(tree):
        for name, value in ast.iter_fields(node):
            if value is old:
                setattr(node, name, new)
            elif isinstance(value, list):
                value[:] = [new if x is old else x for x in cast("list[Any]", value)]


def _bodies(tree: ast.AST) -> list[list[ast.stmt]]:
    found: list[list[ast.stmt]] = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and (body or name == "body"):
                found.append(body)  # pyright: ignore[reportUnknownArgumentType]
    return found
