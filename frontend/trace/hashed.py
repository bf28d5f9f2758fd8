"""
Traced values as keys of dicts and elements of sets, which Python finds by their hash: of a number
that decides about the program the number itself; what only the compiled function knows has none.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from types import BuiltinFunctionType
from typing import Any

from mlc.dialects.dtypes import BOOL
from mlc.dialects.errors import DTypeError
from mlc.frontend.errors import ConcretizationError, located
from mlc.frontend.trace.captures import of_library
from mlc.frontend.trace.kinds import class_of, is_class, is_dict, is_one_of, is_tuple
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.tracer import Tracer

REMEDY = (
    "np.unique(xs) gives the numbers that are in an array, with return_counts=True how often;"
    " np.isin asks which are in another; to count or to look up, use them as places of an array."
)


def as_key(value: Any) -> Any:
    """What stands for a value where it is looked up. Raises where its hash is not known."""
    if is_tuple(value):
        parts = [as_key(x) for x in value]
        same = all(x is y for x, y in zip(parts, value, strict=True))
        return value if same or class_of(value) is not tuple else tuple(parts)
    if isinstance(value, SymbolicDim):
        return value.__index__()
    if not isinstance(value, Tracer):
        return value
    if value.dims:
        raise located(DTypeError, "unhashable type: 'numpy.ndarray'")
    if (known := value.from_constants()) is not None:
        return known[()]
    if value.origins:
        if value.row is BOOL:
            return bool(value)
        return value.__index__() if value.row.kind in ("int", "uint") else float(value)
    name = name_of(value)
    raise located(
        ConcretizationError,
        f"{name or 'a number'} is a key of a dict or an element of a set, and exists only when the"
        " program runs; expected one known when compiling, since dicts and sets are Python's.",
        remedy=REMEDY,
    )


def hash_of(value: Tracer | SymbolicDim) -> int:
    """hash(value): as that of an object for mlc itself, which has traced values in sets."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    if of_library(str(frame.f_globals.get("__name__", ""))):
        return id(value) if isinstance(value, Tracer) else hash(value.dim)
    return hash(as_key(value))


def with_keys(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a call of a dict's or set's class or method, with keys that have hashes."""
    if not args:
        return args
    if is_class(function):
        if function not in _CLASSES:
            return args
        return tuple(map(_pairs if function in _OF_PAIRS else _keys, args))
    owner: Any = function.__self__ if isinstance(function, BuiltinFunctionType) else None
    makes = any(owner is kind for kind in _CLASSES)  # dict.fromkeys
    if not makes and not is_one_of(owner, (dict, set, frozenset)):
        return args
    if function.__name__ in _BY_KEY:
        return as_key(args[0]), *args[1:]
    if function.__name__ == "fromkeys" or not is_dict(owner):
        return _keys(args[0]), *args[1:]
    return (_pairs(args[0]), *args[1:]) if function.__name__ == "update" else args


_CLASSES: tuple[Any, ...] = (set, frozenset, dict, Counter, OrderedDict, defaultdict)
_OF_PAIRS: tuple[Any, ...] = (dict, OrderedDict, defaultdict)
_BY_KEY = frozenset(
    {"get", "setdefault", "pop", "add", "discard", "remove", "__contains__", "__getitem__"}
)


def _keys(values: Any) -> Any:
    if is_one_of(values, (dict, set, frozenset, str)) or not is_one_of(values, (Iterable,)):
        return values
    return [as_key(x) for x in values]


def _pairs(values: Any) -> Any:
    if is_dict(values) or not is_one_of(values, (Iterable,)):
        return values
    pairs: list[Any] = list(values)
    whole = all(isinstance(x, tuple | list) and len(x) == 2 for x in pairs)  # pyright: ignore[reportUnknownArgumentType]
    return [(as_key(key), value) for key, value in pairs] if whole else pairs
