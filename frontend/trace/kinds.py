"""What a Python value is, as questions that also tell the type checker."""

from __future__ import annotations

import ctypes
from array import ArrayType
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

Number = bool | int | float | complex


def is_array(value: object) -> TypeGuard[NDArray[Any]]:
    """A NumPy array."""
    return isinstance(value, np.ndarray)


_BUFFERS = (memoryview, bytearray, ArrayType, ctypes.Array)


def makes_array(value: object) -> bool:
    """Something else of which NumPy makes an array of numbers: `__array__`, or a buffer."""
    return hasattr(type(value), "__array__") or isinstance(value, _BUFFERS)


def is_scalar(value: object) -> TypeGuard[np.generic[Any]]:
    """A NumPy scalar, which has a dtype of its own."""
    return isinstance(value, np.generic)


def is_number(value: object) -> TypeGuard[Number]:
    """A Python number, which takes the other operand's dtype."""
    return isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic)


def is_series(value: object) -> TypeGuard[list[Any] | tuple[Any, ...]]:
    """A list or a tuple."""
    return isinstance(value, list | tuple)


def is_tuple(value: object) -> TypeGuard[tuple[Any, ...]]:
    """A tuple."""
    return isinstance(value, tuple)


def is_dict(value: object) -> TypeGuard[dict[Any, Any]]:
    """A dict."""
    return isinstance(value, dict)


def is_slice(value: object) -> TypeGuard[slice[Any, Any, Any]]:
    """A slice."""
    return isinstance(value, slice)


def is_one_of(value: object, kinds: tuple[type[Any], ...]) -> bool:
    """`isinstance`, for classes whose parts the type checker cannot know."""
    return isinstance(value, kinds)


def class_of(value: object) -> type[Any]:
    """The value's class."""
    return type(value)


def instance_of(kind: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A new object of a class."""
    return kind(*args, **kwargs)


def is_class(value: object) -> TypeGuard[type[Any]]:
    """A class."""
    return isinstance(value, type)


def is_variants(value: object) -> TypeGuard[Any]:
    """A value of which only the compiled function knows the kind (staging/variants.py)."""
    return hasattr(type(value), "__mlc_parts__")


def is_varying_number(value: object) -> bool:
    """A number that may be an input of a program; bools decide about it."""
    if isinstance(value, np.generic):
        return isinstance(value, np.number)
    return type(value) in (int, float, complex)
