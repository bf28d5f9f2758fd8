"""
A function whose text is not known: it runs as it is, on what its names lead to.

Its globals and the variables of enclosing functions are captured before it runs, and so are the
attributes of objects from outside that it names: it cannot be seen which of them it reads.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from mlc.frontend.staging.unrolled import without_source
from mlc.frontend.trace import stores
from mlc.frontend.trace.captures import (
    captured,
    captured_method,
    is_function,
    is_users,
    of_library,
    of_librarys_class,
    paths,
)
from mlc.frontend.trace.impure import check_pure
from mlc.frontend.trace.paths import Path, cell_path, global_path
from mlc.frontend.trace.value import Value

_OBSERVED = (print, input, open, len, max, min, getattr, setattr, delattr, sorted, next)
"""Builtins that mean something else while a function is traced."""

MAX_DEPTH = 3
"""Attributes of attributes of attributes are guarded, and no further."""

Call = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


def run(call: Call, function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`function(*args, **kwargs)`; functions that its names lead to are called by `call`."""
    names = _names(function.__code__)
    without_source(function.__code__)

    def seen(value: Any, path: Path) -> Any:
        value = captured(value, path)
        _read(value, path, names, MAX_DEPTH)
        if isinstance(value, FunctionType) and is_users(value):
            return functools.wraps(value)(_called(call, value))
        if is_function(value):
            check_pure(value)
        return value

    outside = function.__globals__
    space = dict(outside)
    given = {n: seen(outside[n], global_path(outside, n)) for n in names if n in outside}
    space.update(given)
    for name in names - set(outside):
        builtin = getattr(builtins, name, None)
        if builtin in _OBSERVED:
            given[name] = space[name] = _called(call, builtin)
    cells: list[CellType] = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            cells.append(CellType(seen(cell.cell_contents, cell_path(cell, name))))
        except ValueError:  # empty
            cells.append(cell)
    held = [None if not c else _contents(c) for c in cells]
    for argument in (*args, *kwargs.values()):
        if (path := paths().of(argument)) is not None:
            _read(argument, path, names, MAX_DEPTH)
    made = FunctionType(
        function.__code__, space, function.__name__, function.__defaults__, tuple(cells)
    )
    made.__kwdefaults__ = function.__kwdefaults__
    outcome = made(*args, **kwargs)
    for name in names:
        if space.get(name) is not given.get(name, outside.get(name)):
            raise stores.refused(f"the global variable {name} is bound anew")
    for name, cell, before in zip(function.__code__.co_freevars, cells, held, strict=True):
        if _contents(cell) is not before:
            raise stores.refused(f"the nonlocal variable {name} is bound anew")
    return outcome


def _called(call: Call, function: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        return call(function, args, kwargs)

    return run


def _contents(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _names(code: CodeType) -> frozenset[str]:
    """The names of globals and attributes in the code, that of nested functions too."""
    inner = (_names(x) for x in code.co_consts if isinstance(x, CodeType))
    return frozenset(code.co_names).union(*inner)


def _read(value: Any, path: Path, names: frozenset[str], depth: int) -> None:
    """Guards the attributes that code with these names may read from an object from outside."""
    module = isinstance(value, ModuleType)
    foreign = of_library(value.__name__) if module else of_librarys_class(value)
    if foreign and module:
        for name in names & vars(value).keys():
            if not isinstance(found := vars(value)[name], ModuleType):
                check_pure(found)
    if not depth or foreign or isinstance(value, Value):
        return
    for name in sorted(names):
        try:
            part = getattr(value, name)
        except Exception:  # noqa: BLE001 - whatever a property raises: nothing to guard
            continue
        inner = path.attr(name)
        if isinstance(part, MethodType):
            captured_method(part, inner)
        else:
            captured(part, inner)
            _read(part, inner, names, depth - 1)
