"""The fewest statements of a program that still show what is wrong with it."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from typing import Any, cast


def reduced(text: str, fails: Callable[[str], bool], seconds: float = 60) -> str:
    """
    The text without what the failure does not need: statements, the heads of compound ones, and
    parts of expressions; or as far as one gets in so many seconds.
    """
    end = time.monotonic() + seconds
    for candidates in (_without_one, _with_simpler):
        smaller = True
        while smaller:
            smaller = False
            for candidate in candidates(text):
                if time.monotonic() > end:
                    return text
                if candidate != text and fails(candidate):
                    text, smaller = candidate, True
                    break
    return text


def _made(tree: ast.AST) -> str | None:
    try:
        text = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        compile(text, "", "exec")
    except (SyntaxError, ValueError):
        return None
    return text


def _without_one(text: str) -> Iterator[str]:
    for k, body in enumerate(_bodies(ast.parse(text))):
        for at in range(len(body)):
            inner = [
                x for name in ("body", "orelse", "finalbody") for x in getattr(body[at], name, [])
            ]
            for new in ([], inner) if inner else ([],):
                other = ast.parse(text)
                _bodies(other)[k][at : at + 1] = copy.deepcopy(new)
                if all(_bodies(other)) and (made := _made(other)) is not None:
                    yield made


def _with_simpler(text: str) -> Iterator[str]:
    """One expression is one of its parts."""
    count = sum(isinstance(x, ast.expr) for x in ast.walk(ast.parse(text)))
    for k in range(count):
        for part in range(4):
            tree = ast.parse(text)
            expressions = [x for x in ast.walk(tree) if isinstance(x, ast.expr)]
            node = expressions[k]
            parts = [x for x in ast.iter_child_nodes(node) if isinstance(x, ast.expr)]
            if part >= len(parts):
                break
            _replace(tree, node, parts[part])
            if (made := _made(tree)) is not None:
                yield made


def _replace(tree: ast.AST, old: ast.expr, new: ast.expr) -> None:
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
