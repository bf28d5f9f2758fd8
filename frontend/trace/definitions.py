"""
The syntax tree of a function, from the text that it was loaded from.

The file may have changed since. Its text is kept when a function is compiled, and each text is
compared with the function's own code: one that gives other code is another function's.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import sys
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache
from types import CodeType
from typing import cast

from mlc.lazy_dataclass import dataclass

Definition = ast.FunctionDef | ast.Lambda
Lines = tuple[str, ...]

MAX_TEXTS = 8
"""Texts kept of one file, which a program may reload again and again."""

_texts: dict[str, list[Lines]] = {}
"""Files as they were when functions in them were compiled, newest first."""

FUTURE_FLAGS = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
"""The bits of `co_flags` that `from __future__ import` sets."""


def keep_text(function: object) -> None:
    """Keeps the text of the function's file, as it is now."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    linecache.checkcache(code.co_filename)
    lines = tuple(linecache.getlines(code.co_filename))
    texts = _texts.setdefault(code.co_filename, [])
    if lines and lines not in texts[:1]:
        texts.insert(0, lines)
        del texts[MAX_TEXTS:]


def definition_of(code: CodeType) -> Definition | None:
    """The syntax tree of a code object; None where no text is known that gives this code."""
    for lines in _known_texts(code.co_filename):
        file = _file(code.co_filename, lines, code.co_flags & FUTURE_FLAGS)
        place = (code.co_firstlineno, code.co_name)
        if any(same_code(code, found) for found in file.codes.get(place, ())):
            return _at(code, list(_definitions(file.tree, *place)))
    return None


def _known_texts(filename: str) -> Iterator[Lines]:
    yield from _texts.get(filename, ())
    lines = tuple(linecache.getlines(filename))
    yield lines
    linecache.checkcache(filename)
    if (fresh := tuple(linecache.getlines(filename))) != lines:
        yield fresh


@dataclass
class _File:
    """A file, and the code of its functions by the line where it begins, and name."""

    tree: ast.AST = field(default_factory=lambda: ast.Module([], []))
    codes: dict[tuple[int, str], list[CodeType]] = field(
        default_factory=dict[tuple[int, str], list[CodeType]]
    )


@lru_cache(maxsize=32)
def _file(filename: str, lines: Lines, future: int) -> _File:
    file = _File()
    text = "".join(lines)
    try:
        tree = ast.parse(text, filename)
        waiting = [
            compile(x, filename, "exec", flags=future, dont_inherit=True)
            for x in (tree, *_with_asserts_of_pytest(text, filename))
        ]
    except (SyntaxError, ValueError):
        return file
    file.tree = tree
    while waiting:
        code = waiting.pop()
        file.codes.setdefault((code.co_firstlineno, code.co_name), []).append(code)
        waiting += (x for x in code.co_consts if isinstance(x, CodeType))
    return file


def _definitions(tree: ast.AST, line: int, name: str) -> Iterator[Definition]:
    """The functions of this name whose code begins at a line: looked for in what is around it."""
    kind = ast.Lambda if name == "<lambda>" else ast.FunctionDef
    pending = [tree]
    while pending:
        node = pending.pop()
        first = getattr(node, "lineno", line)
        for decorator in getattr(node, "decorator_list", ()):
            first = min(first, decorator.lineno)
        if not first <= line <= (getattr(node, "end_lineno", None) or line):
            continue
        if first == line and isinstance(node, kind) and getattr(node, "name", name) == name:
            yield node
        pending += ast.iter_child_nodes(node)


def _with_asserts_of_pytest(text: str, filename: str) -> list[ast.Module]:
    """The file as pytest loads it where it is a test: with other code for each `assert`."""
    pytest = sys.modules.get("_pytest.assertion.rewrite")
    if pytest is None:
        return []
    tree = ast.parse(text, filename)
    pytest.rewrite_asserts(tree, text.encode(), filename)
    return [tree]


def _at(code: CodeType, nodes: list[Definition]) -> Definition | None:
    """The definition that the code is of; None where several could be meant."""
    wanted = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    candidates = [node for node in nodes if parameters(node) == wanted]
    if len(candidates) > 1:  # lambdas of one line: the innermost around what the code does
        spans = [(a, c, b, d) for a, b, c, d in code.co_positions() if c is not None and c != d]
        if not spans:  # `lambda: 0` on Python 3.12: nothing in it to transform
            return None
        begin, end = min(x[:2] for x in spans), max(x[2:] for x in spans)
        around = [c for c in candidates if _begin(c) <= begin and end <= _end(c)]
        candidates = sorted(around, key=_begin)[-1:]
    return candidates[0] if candidates else None


def _begin(node: Definition) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: Definition) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or node.col_offset


def parameters(node: Definition) -> tuple[str, ...]:
    """The names of a definition's parameters, those with a star left out."""
    a = node.args
    return tuple(p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))


_ALIKE = (
    *("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable"),
    *("co_argcount", "co_posonlyargcount", "co_kwonlyargcount"),
)
"""What code objects of one function have in common; lines and columns are not among it."""


def same_code(code: CodeType, other: CodeType) -> bool:
    """Whether two code objects compute the same, their nested functions too."""
    if any(getattr(code, name) != getattr(other, name) for name in _ALIKE):
        return False
    mine, theirs = code.co_consts, other.co_consts
    return len(mine) == len(theirs) and all(map(_same_constant, mine, theirs))


def _same_constant(x: object, y: object) -> bool:
    if isinstance(x, CodeType) and isinstance(y, CodeType):
        return same_code(x, y)
    if x.__class__ is not y.__class__:
        return False
    if isinstance(x, tuple):
        mine, theirs = cast("tuple[object, ...]", x), cast("tuple[object, ...]", y)
        return len(mine) == len(theirs) and all(map(_same_constant, mine, theirs))
    return x == y and (isinstance(x, frozenset) or repr(x) == repr(y))  # 0.0 and -0.0 are equal
