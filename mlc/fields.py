"""Objects of data classes from what a file says of their fields, each of its declared kind."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
_SHOWN = 60  # characters of a value in a message


def made(kind: type[T], given: object) -> T:
    """The object; TypeError says which field is missing, not known or of another kind."""
    if not isinstance(given, dict):
        raise TypeError(f"there is {shown(given)}, expected the fields of {kind.__name__}")
    values, declared = cast("dict[str, Any]", given), _declared(kind)
    needed = (f.name for f in fields(cast("Any", kind)) if f.default is MISSING)
    if missing := [name for name in needed if name not in values]:
        raise TypeError(f"{kind.__name__} has no {', '.join(missing)}")
    for name, value in values.items():
        if name not in declared:
            raise TypeError(f"{kind.__name__} has a field {shown(name)}, which is not known")
        if not _fits(value, declared[name]):
            wanted = _text(declared[name])
            raise TypeError(f"{kind.__name__}.{name} is {shown(value)}, expected {wanted}")
    return kind(**values)


def shown(value: object) -> str:
    """A value in a message, however long it is."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@lru_cache(maxsize=64)
def _declared(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: object, declared: Any) -> bool:
    """Whether a value is of a declared type: a class, a tuple, a literal or a union of those."""
    origin, parts = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts if isinstance(value, str) else False
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        items = cast("tuple[object, ...]", value)
        if parts[1:] == (...,):
            return all(_fits(item, parts[0]) for item in items)
        return len(items) == len(parts) and all(map(_fits, items, parts))
    return declared is object or type(value) is declared


def _text(declared: Any) -> str:
    """A declared type in a message."""
    origin, parts = get_origin(declared), get_args(declared)
    if origin in (Union, UnionType):
        return " or ".join(map(_text, parts))
    if origin is Literal:
        return " or ".join(map(repr, parts))
    if origin is tuple:
        inner = ", ".join("…" if part is ... else _text(part) for part in parts)
        return f"a list of {inner}" if parts[1:] == (...,) else f"[{inner}]"
    return "nothing" if declared is NoneType else declared.__name__
