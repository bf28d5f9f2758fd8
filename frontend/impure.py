"""What must not run while a function is traced: random numbers, files, clocks."""

from __future__ import annotations

from types import BuiltinFunctionType, MethodType
from typing import Any

import numpy as np

from mlc.frontend.captures import holds_tracer
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.kinds import class_of
from mlc.frontend.numpy.registry import RANDOM_REMEDY, spelled, unsupported

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
