"""
Methods of arrays and tables of other libraries (pandas, PyTorch) from outside. They are computed
by that library at each call, as what an attribute or an item of such an object is is read.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from mlc.frontend.trace import stores
from mlc.frontend.trace.captures import captured, holds_tracer, is_users, of_librarys_class, paths
from mlc.frontend.trace.kinds import class_of, is_class

_CHANGING = frozenset({"pop", "update", "insert", "clear", "append", "backward", "fill", "sort"})
"""Methods that change the object; in PyTorch those whose names end in an underscore."""


def foreign_owner(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The array or table from outside that a method belongs to; None of other functions."""
    owner = getattr(function, "__self__", None)
    if owner is None or is_class(owner) or isinstance(owner, ModuleType):
        return None
    if not hasattr(class_of(owner), "__array__") or of_librarys_class(owner):
        return None
    bare = getattr(function, "__func__", None)
    if isinstance(bare, FunctionType) and is_users(bare):
        return None  # of a class of the user's, which is traced
    if paths().of(owner) is None or holds_tracer([*args, *kwargs.values()]):
        return None
    return owner if _can_be_hashed((args, tuple(kwargs.items()))) else None


def _can_be_hashed(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def called_at_each_call(
    function: Any, owner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What the method gives, which is read again at each call."""
    path, name = paths().of(owner), function.__name__
    assert path is not None
    way = path.call(name, args, tuple(kwargs.items()))
    in_place = name.endswith("_") and not name.endswith("__")
    if name in _CHANGING or in_place or kwargs.get("inplace"):
        raise stores.refused(f"{path.text} is changed by {name}()")
    return captured(function(*args, **kwargs), way)
