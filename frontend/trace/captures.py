"""
Values from outside a traced function: what it sees of them, and what later calls are held against.

An array becomes a hidden input, read again at every call by the way that led to it (decisions.md
D10). Numbers, functions and classes are part of the program, and guarded: when one has changed at a
later call, the function is traced again.
"""

from __future__ import annotations

import array
import datetime as dt
import enum
import functools
import sys
from collections import deque
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

import numpy as np

from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.trace.constant import ConstantArray, written
from mlc.frontend.trace.containers import children_of, rebuilt
from mlc.frontend.trace.kinds import (
    class_of,
    is_array,
    is_class,
    is_dict,
    is_series,
    is_slice,
    is_tuple,
    is_varying_number,
)
from mlc.frontend.trace.paths import (
    Guard,
    HiddenInput,
    Path,
    code_of,
    contents_of,
    object_path,
    outline,
    parts_of,
)
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "mlc", "xdsl", "ml_dtypes"}
"""Packages whose functions and classes nobody redefines."""

HEAP_TYPE = 1 << 9
"""The flag of classes that Python code made; of `exec` without `__name__`, they say "builtins"."""

MAX_DEPTH = 8
"""Containers nested deeper than this are not searched for arrays."""

_ALIASES = {"numpy": "np", "mlc.frontend.numpy": "mnp", "mlc.frontend.block.language": "tl"}
"""Modules under another name, which nobody binds to anything else."""

_SCALARS = (bool, int, float, complex, str, bytes, np.generic)
_VALUES = (range, slice, np.dtype, enum.Enum, dt.date, dt.time, dt.timedelta)
_RARE = (("decimal", "Decimal"), ("fractions", "Fraction"))
"""Other values, of modules that few programs import: where one has not, there are none."""
_COLLECTIONS = (set, frozenset, deque, dict, list, tuple, bytearray, array.array)
_FUNCTIONS = (FunctionType, BuiltinFunctionType, MethodType, np.ufunc, functools.partial, type)


class Paths:
    """How objects of one trace were reached."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[object, Path]] = {}
        self.copies: dict[Any, Any] = {}
        self.own: set[object] = set()  # classes that the traced function made

    def remember(self, value: object, path: Path) -> None:
        """Keeps the object alive, so that its id stays its own; another way may lead to it too."""
        _, first = self.known.setdefault(id(value), (value, path))
        if first is not path and first.key != path.key:
            guard(Guard("one", path, first))

    def of(self, value: object) -> Path | None:
        """The way to the object, if it came from outside."""
        found = self.known.get(id(value))
        return found[1] if found is not None and found[0] is value else None


def paths() -> Paths:
    """The paths of the current trace."""
    trace = here()
    if not isinstance(trace.staging, Paths):
        trace.staging = Paths()
    return trace.staging


def is_constant(value: object) -> TypeGuard[Any]:
    """A value that is part of the program, and guarded."""
    if value is None or isinstance(value, (*_SCALARS, *_VALUES)):
        return True
    return any(isinstance(value, getattr(sys.modules.get(m), name, ())) for m, name in _RARE)


def is_function(value: object) -> TypeGuard[Callable[..., Any]]:
    """A function, a class, or what NumPy and mlc make of functions."""
    if isinstance(value, _FUNCTIONS):
        return True
    return callable(value) and of_librarys_class(value)


def is_users(function: FunctionType) -> bool:
    """Whether the function is neither the standard library's nor an installed package's."""
    if of_library(str(function.__globals__.get("__name__", ""))):
        return False
    filename = function.__code__.co_filename
    return "site-packages" not in filename and "dist-packages" not in filename


def runs_users(value: object) -> bool:
    """A function of the user's, or a method of that."""
    function = value.__func__ if isinstance(value, MethodType) else value
    return isinstance(function, FunctionType) and is_users(function)


def is_users_function(value: object) -> bool:
    """A function of the user's, a method of that, or a functools.partial: what guards can tell."""
    return runs_users(value) or class_of(value) is functools.partial


def of_library(module: object) -> bool:
    """Whether a module's name is that of the standard library, NumPy or mlc."""
    return str(module).partition(".")[0] in LIBRARIES


def of_librarys_class(value: object) -> bool:
    """Whether a class, or that of an object, is the standard library's, NumPy's or mlc's."""
    kind = value if is_class(value) else class_of(value)
    made_by_exec = kind.__module__ == "builtins" and bool(kind.__flags__ & HEAP_TYPE)
    return of_library(kind.__module__) and not made_by_exec


def captured(value: Any, path: Path) -> Any:
    """A value from outside, as the traced function shall see it."""
    if isinstance(value, Tracer | SymbolicDim):
        return value
    if isinstance(value, ModuleType):
        usual = value.__name__.rpartition(".")[2], _ALIASES.get(value.__name__)
        library = of_library(value.__name__) and path.text in usual
        guard(Guard("module" if library else "same", path, value))
        return value
    if isinstance(value, ConstantArray):
        guard(Guard("same", path, value))
        return written(value)
    if is_array(value):
        return here().hidden_argument(value, HiddenInput(path))
    if is_constant(value):
        if (number := here().ints.as_sizes.get(path.key)) is not None and number.takes(value):
            from mlc.frontend.trace.size_inputs import size_input

            guard(Guard("type", path, int))
            return size_input(path, value, number)
        if path.key in here().ints.varying and is_varying_number(value):
            return _input(value, path)
        guard(Guard("value", path, value))
        return value
    if is_function(value):
        return _captured_function(value, path)
    if (made := paths().copies.get(id(value))) is not None:
        paths().remember(made, path)
        return made
    if type(value) in (list, tuple, dict) or (is_tuple(value) and hasattr(value, "_fields")):
        return _captured_container(value, path)
    new = paths().of(value) is None
    if new and is_iterator(value):
        raise used_up(path.text)
    paths().remember(value, path)
    if new:
        guard(Guard("type", path, type(value)))
        if _is_collection(value):
            guard(Guard("parts", path, parts_of(value)))
            for part in parts_of(value)[1:]:
                if not is_array(part) and paths().of(part) is None:
                    captured(part, object_path(part, f"an element of {path.text}"))
    return value


def _input(value: Any, path: Path) -> Any:
    """A number that differs between calls, as the compiled function gets it."""
    trace, key = here(), ("number", path.key)
    guard(Guard("type", path, type(value)))
    if key not in paths().copies:
        name, array = trace.ints.varying[path.key], np.asarray(value)
        if array.dtype == object or _is_large(value, trace.ints.limits.get(name)):
            guard(Guard("value", path, value))  # the program is for this int alone
            return value
        pending = array, HiddenInput(path.array())
        made = Tracer(trace, None, origins=frozenset({name}), pending=pending)
        trace.arrays[id(array)] = made
        trace.keep.append(array)
        if type(value) is int:
            trace.ints.known[name] = path, value
        made.weak = not isinstance(value, np.generic)
        paths().copies[key] = made
    return paths().copies[key]


def _is_large(value: Any, most: int | None) -> bool:
    return most is not None and type(value) is int and abs(value) > most


def _is_collection(value: object) -> bool:
    return isinstance(value, _COLLECTIONS)


def is_iterator(value: object) -> bool:
    """A generator, a file, a `zip`: what gives each element only once."""
    return hasattr(class_of(value), "__next__") and of_librarys_class(value)


def used_up(name: str) -> NotSupportedError:
    """The error for an iterator from outside."""
    return located(
        NotSupportedError,
        f"{name} is an iterator, which the function would use up when it is traced, and not at"
        " later calls.",
        remedy=f"Take its elements before the call: list({name}).",
    )


def _captured_function(value: Any, path: Path) -> Any:
    """A function or a class: the program holds for this one, with the code that it has."""
    if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType):
        owner: object = value.__self__
        if _is_collection(owner):
            paths().remember(owner, path.attr("__self__"))
        return value  # a method, bound anew each time that it is read
    if isinstance(value, FunctionType) and is_users(value):
        by_code(value, path)
    elif class_of(value) is functools.partial:
        guard(Guard("type", path, functools.partial))
        paths().remember(value, path)
        captured(getattr(value, "func"), path.attr("func"))  # noqa: B009 - of any class
    elif isinstance(value, MethodType):
        guard(Guard("type", path, MethodType))
        captured_method(value, path)
        captured(value.__self__, path.attr("__self__"))
    else:
        guard(Guard("same", path, value))
        paths().remember(value, path)
        function = bare_function(value)
        if isinstance(function, FunctionType) and is_users(function):
            by_code(function, object_path(function, path.text))
    return value


def by_code(function: FunctionType, path: Path) -> None:
    """The program holds for functions of the same code: what else they read has ways of its own."""
    guard(Guard("code", path, code_of(function)))
    paths().remember(function, path)


def bare_function(value: Any) -> Any:
    """The Python function in a method, a partial function, or what a decorator gives."""
    for _ in range(MAX_DEPTH):
        if isinstance(value, FunctionType):
            break
        inner = getattr(value, "__func__", None) or getattr(value, "__wrapped__", None)
        value = inner or getattr(value, "func", None)
    return value


def variable_path(function: FunctionType, name: str) -> Path | None:
    """To a variable of a function around one from outside; None where no way leads to that one."""
    path = paths().of(function)
    if path is None:
        return None
    place = function.__code__.co_freevars.index(name)
    cell = path.attr("__closure__").item(place).attr("cell_contents")
    return Path(path.kind, path.root, cell.steps, name)


def captured_method(value: MethodType, path: Path) -> MethodType:
    """A method that is read from an object: bound anew each time, to the same function."""
    function = value.__func__
    bare = path.attr("__func__")
    if isinstance(function, FunctionType) and is_users(function):
        by_code(function, bare)
    else:
        guard(Guard("same", bare, function))
    return value


def told_apart(value: object, other: object) -> None:
    """The function asks whether two things are one: the program holds where that is answered so."""
    first, second = paths().of(value), paths().of(other)
    if first is not None and second is not None and first.key != second.key:
        guard(Guard("one" if value is other else "two", first, second))
    elif other is not None:
        recognised(value)
        recognised(other)


def recognised(value: object) -> None:
    """The function asks which function a value is: the program holds for this one."""
    if is_users_function(value) and (path := paths().of(value)) is not None:
        guard(Guard("same", path, value))


def guard_class(kind: type[Any], name: str, function: object) -> None:
    """What a class, or one that it inherits from, has under a name."""
    own = paths().own
    for owner in kind.__mro__:
        if owner in own:
            continue
        if owner.__dict__.get(name) is function and not of_librarys_class(owner):
            path = object_path(owner, owner.__name__).attr("__dict__").item(name)
            guard(Guard("same", path, function))
            if isinstance(function, FunctionType):
                paths().remember(function, object_path(function, f"{owner.__name__}.{name}"))
                guard(Guard("same", path.attr("__code__"), function.__code__))
            return


def guard(new: Guard) -> None:
    """Lets the program serve later calls only where the guard holds."""
    trace = here()
    trace.guards.setdefault(new.key, new)


def _captured_container(value: Any, path: Path) -> Any:
    """A container with its arrays replaced; one without arrays as it is."""
    memory = paths()
    memory.remember(value, path)
    memory.copies[id(value)] = value  # a container that holds itself ends here
    parts = children_of(value)
    assert parts is not None
    kind, keys, children = parts
    plain = all(child is None or isinstance(child, _SCALARS) for child in children)
    if plain and path.key not in here().ints.varying:
        guard(Guard("contents", path, contents_of(value)))
        return value
    guard(Guard("outline", path, outline(value)))
    made = rebuilt(
        kind,
        keys,
        [
            captured(child, path.item(keys[k]) if kind is dict else path.item(k))
            for k, child in enumerate(children)
        ],
    )
    if not _holds_arrays(value, MAX_DEPTH) and path.key not in here().ints.varying:
        made = value  # its parts are known now, however they are reached
    memory.copies[id(value)] = made
    memory.remember(made, path)
    return made


def _holds_arrays(value: Any, depth: int) -> bool:
    if is_array(value):
        return True
    if depth == 0 or not (is_series(value) or is_dict(value)):
        return False
    inside: Any = list(value.values()) if is_dict(value) else value
    return any(_holds_arrays(child, depth - 1) for child in inside)


def holds_tracer(value: Any) -> bool:
    """Whether a traced array is in an argument, or in an index."""
    if is_series(value):
        return any(map(holds_tracer, value))
    if is_slice(value):
        return any(map(holds_tracer, (value.start, value.stop, value.step)))
    return isinstance(value, Tracer)
