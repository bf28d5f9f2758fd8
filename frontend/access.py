"""
What `__mlc__` does in a transformed function: names, attributes, items and calls, observed.

An array from outside becomes a hidden input, read again at every call by the way that led to it
(decisions.md D10). A number from outside is kept as a number, and guarded: when it has changed at a
later call, the function is traced again.
"""

from __future__ import annotations

import functools
import math
import sys
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import Any, TypeGuard

import numpy as np

from mlc.frontend.containers import children_of, rebuilt
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.kinds import (
    class_of,
    instance_of,
    is_array,
    is_class,
    is_dict,
    is_series,
    is_slice,
    is_tuple,
)
from mlc.frontend.numpy.registry import BY_FUNCTION, RANDOM_REMEDY, spelled, unsupported
from mlc.frontend.paths import (
    Guard,
    HiddenInput,
    Path,
    cell_path,
    contents_of,
    global_path,
    object_path,
    outline,
)
from mlc.frontend.symbolic import SymbolicDim
from mlc.frontend.trace import here, lift_size
from mlc.frontend.tracer import Tracer
from mlc.frontend.transform import transformed

_SCALARS = (bool, int, float, complex, str, bytes, np.generic)
_LIBRARIES = frozenset(sys.stdlib_module_names) | {"numpy", "mlc", "xdsl", "ml_dtypes"}
MAX_DEPTH = 8
"""Containers nested deeper than this are not searched for arrays."""


class Paths:
    """How objects of one trace were reached."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[object, Path]] = {}
        self.copies: dict[int, object] = {}

    def remember(self, value: object, path: Path) -> None:
        """Keeps the object alive, so that its id stays its own."""
        self.known.setdefault(id(value), (value, path))

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
    return value is None or isinstance(value, _SCALARS)


def captured(value: Any, path: Path) -> Any:
    """A value from outside, as the traced function shall see it."""
    if isinstance(
        value, Tracer | SymbolicDim | ModuleType | FunctionType | BuiltinFunctionType | type
    ):
        return value
    if is_array(value):
        return here().hidden_argument(value, HiddenInput(path))
    if is_constant(value):
        _guard(Guard("value", path, value))
        return value
    if type(value) in (list, tuple, dict) or (is_tuple(value) and hasattr(value, "_fields")):
        return _captured_container(value, path)
    if paths().of(value) is None:
        paths().remember(value, path)
        _guard(Guard("type", path, type(value)))
    return value


def _captured_part(value: Any, path: Path) -> Any:
    """As `captured`; functions and classes are guarded too: the object may be another one."""
    if isinstance(value, FunctionType | BuiltinFunctionType | type):
        _guard(Guard("same", path, value))
        return value
    return captured(value, path)


def _guard(guard: Guard) -> None:
    trace = here()
    if all(
        g.kind != guard.kind or g.text != guard.text or g.value is not guard.value
        for g in trace.guards
    ):
        trace.guards.append(guard)


def _captured_container(value: Any, path: Path) -> Any:
    """A container with its arrays replaced; one without arrays as it is."""
    memory = paths()
    if id(value) in memory.copies:
        return memory.copies[id(value)]
    memory.remember(value, path)
    memory.copies[id(value)] = value  # a container that holds itself ends here
    parts = children_of(value)
    assert parts is not None
    kind, keys, children = parts
    if all(child is None or isinstance(child, _SCALARS) for child in children):
        _guard(Guard("contents", path, contents_of(value)))
        return value
    _guard(Guard("outline", path, outline(value)))
    made = rebuilt(
        kind,
        keys,
        [
            _captured_part(child, path.item(keys[k]) if kind is dict else path.item(k))
            for k, child in enumerate(children)
        ],
    )
    if not _holds_arrays(value, MAX_DEPTH):
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


class Access:
    """`__mlc__` of one function."""

    slice = slice

    def __init__(self, function: FunctionType, cells: dict[str, CellType]) -> None:
        self._globals = function.__globals__
        self._cells = cells

    def name(self, name: str, value: Any) -> Any:
        """A global."""
        return captured(value, global_path(self._globals, name))

    def cell(self, name: str, value: Any) -> Any:
        """A variable of an enclosing function."""
        return captured(value, cell_path(self._cells[name], name))

    def attr(self, obj: Any, name: str) -> Any:
        """obj.name"""
        value = getattr(obj, name)
        if isinstance(obj, Tracer | SymbolicDim | np.ndarray | np.generic):
            return value
        if isinstance(obj, ModuleType):
            if obj.__name__.partition(".")[0] in _LIBRARIES:
                return value
            return captured(value, object_path(obj, obj.__name__).attr(name))
        path = paths().of(obj)
        if path is not None:
            return (
                value if isinstance(value, MethodType) else _captured_part(value, path.attr(name))
            )
        if is_array(value):
            return captured(value, object_path(obj, type(obj).__name__).attr(name))
        return value

    def item(self, obj: Any, key: Any) -> Any:
        """obj[key]"""
        if isinstance(obj, Tracer):
            return obj[key]
        if is_array(obj) and _holds_tracer(key):
            from mlc.frontend.numpy.values import lift

            return lift(obj)[key]
        value = obj[key]
        path = paths().of(obj)
        if path is not None and not isinstance(key, slice):
            return _captured_part(value, path.item(key))
        return value

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """function(*args, **kwargs)"""
        return call(function, args, kwargs)


def _holds_tracer(value: Any) -> bool:
    if is_series(value):
        return any(map(_holds_tracer, value))
    if is_slice(value):
        return any(map(_holds_tracer, (value.start, value.stop, value.step)))
    return isinstance(value, Tracer)


def call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call in a traced function."""
    try:
        special = _SPECIAL.get(function) or BY_FUNCTION.get(function)
    except TypeError:  # not hashable
        special = None
    if special is not None:
        if special in _SPECIAL_SET:
            return special(function, args, kwargs)
        from mlc.frontend.numpy.registry import call_function

        return call_function(function, args, kwargs)
    if isinstance(function, FunctionType):
        return (
            transformed(function)(*args, **kwargs)
            if is_users(function)
            else function(*args, **kwargs)
        )
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        if is_users(function.__func__):
            return transformed(function.__func__)(function.__self__, *args, **kwargs)
        return function(*args, **kwargs)
    if is_partial(function):
        return call(function.func, (*function.args, *args), {**function.keywords, **kwargs})
    if is_class(function):
        return _construct(function, args, kwargs)
    if (original := getattr(class_of(function), "__mlc_function__", None)) is not None:
        return call(original(function), args, kwargs)
    if isinstance(function, np.vectorize) and _holds_tracer([*args, *kwargs.values()]):
        return _vectorized(function, args, kwargs)
    _check_library(function, args, kwargs)
    own = getattr(class_of(function), "__call__", None)  # noqa: B004 - the function itself is wanted
    if isinstance(own, FunctionType) and is_users(own):
        return transformed(own)(function, *args, **kwargs)
    return function(*args, **kwargs)


def is_partial(value: object) -> TypeGuard[functools.partial[Any]]:
    """A functools.partial."""
    return isinstance(value, functools.partial)


def is_users(function: FunctionType) -> bool:
    """Whether the function is neither the standard library's nor an installed package's."""
    module = str(function.__globals__.get("__name__", ""))
    if module.partition(".")[0] in _LIBRARIES:
        return False
    filename = function.__code__.co_filename
    return "site-packages" not in filename and "dist-packages" not in filename


_READERS = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "fromstring"})


def _check_library(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raises for what must not run at trace time: random numbers, files, unknown functions."""
    if class_of(function).__module__.partition(".")[0] == "mlc":
        return  # a transformation, which has the name of what it was made from
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or (
        type(owner).__module__ if owner is not None else ""
    )
    if type(owner).__module__.startswith("numpy.random") or module.startswith("numpy.random"):
        name = getattr(function, "__name__", "random")
        raise located(
            NotSupportedError,
            f"np.random ({name}) inside a compiled function",
            remedy=RANDOM_REMEDY,
        )
    if type(owner).__module__ == "random" and isinstance(
        function, MethodType | BuiltinFunctionType
    ):
        raise located(
            NotSupportedError,
            f"random.{function.__name__} inside a compiled function",
            remedy=RANDOM_REMEDY,
        )
    if not module.startswith("numpy") or isinstance(owner, np.ndarray | np.generic):
        return
    if getattr(function, "__name__", "") in _READERS:
        remedy = "Read the file before the call and pass the array as an argument."
        raise located(
            NotSupportedError, f"{spelled(function)} inside a compiled function", remedy=remedy
        )
    if not isinstance(owner, np.ufunc) and _holds_tracer([*args, *kwargs.values()]):
        raise unsupported(function)


def _construct(kind: type[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A class as a function: np.float32(x) converts, np.random.default_rng() is refused."""
    if kind.__module__.startswith("numpy.random"):
        raise located(
            NotSupportedError,
            f"np.random ({kind.__name__}) inside a compiled function",
            remedy=RANDOM_REMEDY,
        )
    value: Any = args[0] if args else None
    if issubclass(kind, np.generic) and isinstance(value, Tracer | SymbolicDim):
        from mlc.frontend.numpy import astype

        return astype(value, kind)
    return instance_of(kind, args, kwargs)


# Builtins that ask a value for what a traced one cannot say


def _to_number(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from mlc.frontend.numpy import astype

    if len(args) != 1 or not isinstance(args[0], Tracer | SymbolicDim):
        return kind(*args, **kwargs)
    (value,) = args
    if isinstance(value, SymbolicDim):
        if kind is int:
            return value
        value = lift_size(value)
    if value.ndim and value.size != 1:
        return kind(value)
    made = astype(
        value.reshape(()) if value.ndim else value, np.float64 if kind is float else np.int64
    )
    made.weak, made.origins = True, value.origins
    return made


def _instance(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value, kinds = args
    if isinstance(value, Tracer):
        several = kinds if is_tuple(kinds) else (kinds,)
        python = {"int": int, "float": float, "bool": bool}[value.row.kind] if value.weak else None
        wanted = {np.ndarray} if not value.weak else {python}
        return isinstance(value, kinds) or any(kind in wanted for kind in several)
    return isinstance(value, kinds)


def _length(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    (value,) = args
    return value.shape[0] if isinstance(value, Tracer) and value.ndim else len(value)


def _extreme(builtin: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from mlc.frontend import numpy as names
    from mlc.frontend.numpy.values import operator_result

    values: list[Any] = list(args) if len(args) > 1 else list(*args)
    if kwargs or not any(isinstance(v, Tracer) for v in values):
        return builtin(*args, **kwargs)
    function = names.maximum if builtin is max else names.minimum
    return functools.reduce(lambda x, y: operator_result(function, x, y), values)


def _attribute(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if len(args) == 3 and not hasattr(args[0], args[1]):
        return args[2]
    return _loose.attr(args[0], args[1])


def _scalar_function(name: str) -> Any:
    def compute(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from mlc.frontend import numpy as names

        value: Any = args[0] if len(args) == 1 else None
        if not isinstance(value, Tracer | SymbolicDim):
            return function(*args, **kwargs)
        return _to_number(
            float,
            (getattr(names, {"fabs": "abs"}.get(name, name))(_to_number(float, (value,), {})),),
            {},
        )

    return compute


def _vectorized(function: np.vectorize, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """np.vectorize of a function of numbers: the function of arrays that computes the same."""
    from mlc.frontend import numpy as names

    name = getattr(function.pyfunc, "__name__", "")
    plain = len(args) == 1 and not kwargs and function.signature is None
    if not plain or function.pyfunc is not getattr(math, name, None) or name not in _OF_NUMBERS:
        message = f"np.vectorize of {name or function.pyfunc} is not supported yet here."
        remedy = "Call functions of arrays: np.where chooses where the function has an `if`."
        raise located(NotSupportedError, message, remedy=remedy)
    made = getattr(names, {"fabs": "abs"}.get(name, name))(args[0])
    return made.astype(np.dtype(function.otypes[0])) if function.otypes else made


_OF_NUMBERS = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "fabs"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh"),
    *("asinh", "acosh", "atanh", "erf", "erfc", "lgamma"),
)
"""Functions of `math` that mlc.numpy has under the same name."""
_loose = Access(FunctionType((lambda: None).__code__, {}), {})
_SPECIAL: dict[Any, Any] = {
    float: _to_number,
    int: _to_number,
    isinstance: _instance,
    len: _length,
    max: _extreme,
    min: _extreme,
    getattr: _attribute,
    **{getattr(math, name): _scalar_function(name) for name in _OF_NUMBERS},
}
_SPECIAL_SET = frozenset(_SPECIAL.values())
