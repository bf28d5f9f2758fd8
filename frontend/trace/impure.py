"""What must not run while a function is traced: random numbers, files, clocks."""

from __future__ import annotations

from types import BuiltinFunctionType, MethodType
from typing import Any

import numpy as np

from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.registry import RANDOM_REMEDY, spelled, unsupported
from mlc.frontend.trace.captures import holds_tracer
from mlc.frontend.trace.kinds import class_of, is_class

_SYSTEM = frozenset(
    {
        *("os", "posix", "nt", "secrets", "uuid", "socket", "_socket", "ssl", "http", "urllib"),
        *("subprocess", "shutil", "tempfile", "glob", "pathlib", "getpass", "resource", "select"),
        *("threading", "_thread", "multiprocessing", "asyncio", "sqlite3", "fileinput", "shelve"),
    }
)
"""Modules of the standard library that ask the system, which answers otherwise at each call."""

_NOW = frozenset({"now", "utcnow", "today"})
"""Methods of dates that ask a clock; the others compute."""

_READERS = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "memmap", "fromstring"})


def check_library(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
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
    if not isinstance(owner, np.ufunc) and holds_tracer([*args, *kwargs.values()]):
        raise unsupported(function)


def check_pure(function: Any) -> None:
    """Raises for what gives another value at each call."""
    owner = getattr(function, "__self__", None)
    held = owner if is_class(owner) else class_of(owner)
    name = str(getattr(function, "__name__", function))
    home = next((c for c in held.__mro__ if name in vars(c)), held)  # of a method of C
    module = str(getattr(function, "__module__", None) or home.__module__).partition(".")[0]
    if module == "random" and is_class(function):
        raise _once(f"random.{name}()", RANDOM_REMEDY)
    reads = module in ("io", "_io") and name not in ("write", "writelines", "flush")
    if function is input or reads:
        raise _once(f"{name}()", "Read before the call and pass what was read as an argument.")
    if module == "time" or (module in ("datetime", "_datetime") and name in _NOW):
        raise _once(f"{module}.{name}()", "Ask the clock before the call and pass the time.")
    if module in _SYSTEM:
        shown = "os" if module in ("posix", "nt") else module
        raise _once(f"{shown}.{name}()", "Call it before and pass what it gives as an argument.")


def _once(name: str, remedy: str) -> NotSupportedError:
    message = f"{name} inside a compiled function: it would run once, when the function is traced."
    return located(NotSupportedError, message, remedy=remedy)
