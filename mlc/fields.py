"""Objects of data classes from what a file says of their fields, each of its declared kind."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

T = TypeVar("T")
_SHOWN = 60  # characters of a value in a message


def made(kind: type[T], given: object) -> T:
    """The object; TypeError says which field is missing, not known or of another kind."""
    if not isinstance(given, dict):
        raise TypeError(f"there is {shown(given)}, expected the fields of {kind.__name__}")
    values, (declared, needed) = cast("dict[str, Any]", given), declared_of(kind)
    for name, value in values.items():
        if name not in declared:
            raise TypeError(f"{kind.__name__} has a field {shown(name)}, which is not known")
        if not _fits(value, declared[name]):
            wanted = _text(declared[name])
            raise TypeError(f"{kind.__name__}.{name} is {shown(value)}, expected {wanted}")
    if missing := [name for name in needed if name not in values]:
        raise TypeError(f"{kind.__name__} has no {', '.join(missing)}")
    return kind(**values)


def shown(value: object) -> str:
    """A value in a message, however long it is."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@lru_cache(maxsize=64)
def declared_of(kind: type) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The fields' types, and which fields have no default."""
    known = fields(cast("Any", kind))
    types = {f.name: _meant(kind.__module__, cast("object", f.type)) for f in known}
    return types, tuple(f.name for f in known if f.default is MISSING)


@lru_cache(maxsize=256)
def _meant(module: str, written: object) -> Any:
    """
    The type that an annotation of a module is, each text once: with `typing.get_type_hints` the
    checks of what `mlc.load` reads took 0.5 ms more. The texts are those of this package's classes.
    """
    if not isinstance(written, str):
        return written
    return eval(written, vars(sys.modules[module]))


def _fits(value: object, declared: Any) -> bool:
    """Whether a value is of a declared type: a class, a tuple, a literal or a union of those."""
    if type(value) is declared or declared in (object, Any):
        return True
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
    return False


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
