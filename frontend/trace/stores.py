"""
What a traced function changes: values that it made itself, and nothing else.

A store to an object from outside would happen once, when the function is traced, and leave traced
values behind. It is refused where it is written.
"""

from __future__ import annotations

import bisect
import collections
import heapq
import operator
from types import (
    BuiltinFunctionType,
    MethodDescriptorType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, cast

from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.staging.counted import is_counted
from mlc.frontend.staging.journal import touched
from mlc.frontend.staging.list_methods import method_of, written
from mlc.frontend.staging.sometimes import Sometimes, at, write
from mlc.frontend.staging.twins import check_twins
from mlc.frontend.staging.variants import Variants
from mlc.frontend.trace.asked import may_be_rows
from mlc.frontend.trace.captures import paths
from mlc.frontend.trace.hashed import as_key
from mlc.frontend.trace.kinds import is_class, is_dict
from mlc.frontend.trace.stored import may_be_stored
from mlc.frontend.trace.tracer import Tracer

if TYPE_CHECKING:
    from mlc.frontend.trace.access import Access


def refused(what: str) -> NotSupportedError:
    """The error for a change of what is not the function's own."""
    return located(
        NotSupportedError,
        f"{what}, outside the compiled function: that would happen once, when it is traced, and not"
        " at each call.",
        remedy="Return the new value, and store it where the function is called; a copy, such as"
        " dict(p) or list(x), may be changed.",
    )


def outside(obj: Any) -> str | None:
    """
    How a user calls an object that may not be changed; None for one that the function made, and for
    one among its arguments, which is changed at each call.
    """
    path = paths().of(obj)
    if path is not None:
        return None if may_be_stored(obj, path) else path.text
    if isinstance(obj, ModuleType) or (is_class(obj) and obj not in paths().own):
        return obj.__name__
    if is_dict(obj) and "__builtins__" in obj:
        return "globals()"
    return None


class Place:
    """Where a statement stores: `value` is read, written and deleted as the place itself is."""

    __slots__ = ("_access", "_held", "_key", "_obj")

    def __init__(self, access: Access, obj: Any, key: Any) -> None:
        self._access = access
        self._obj = obj
        self._key = key
        self._held: Any = self  # what `value` was when it was read, as `obj.name += v` does

    @property
    def value(self) -> Any:
        """What is there."""
        self._held = self._read()
        return self._held

    @value.setter
    def value(self, new: Any) -> None:
        if isinstance(self._obj, Variants):
            self._obj.apply(lambda obj: type(self)(self._access, obj, self._key).put(new))
        elif isinstance(new, Variants) and isinstance(self._obj, Tracer):
            new.apply(self.put)
        else:
            self.put(new)

    def put(self, new: Any) -> None:
        """It is written."""
        if new is self._held and not isinstance(self._obj, Tracer):
            return  # written in place already
        self._check("is written")
        self._write(new)

    @value.deleter
    def value(self) -> None:
        self._check("is deleted")
        self._delete()

    def _check(self, what: str) -> None:
        if isinstance(self._obj, Tracer):
            return
        if (owner := outside(self._obj)) is not None:
            raise refused(f"{self._spelled(owner)} {what}")
        check_twins(self._obj)
        touched(self._obj)

    def _spelled(self, owner: str) -> str:
        raise NotImplementedError

    def _read(self) -> Any:
        raise NotImplementedError

    def _write(self, new: Any) -> None:
        raise NotImplementedError

    def _delete(self) -> None:
        raise NotImplementedError


class AttributePlace(Place):
    """obj.name"""

    __slots__ = ()

    def _spelled(self, owner: str) -> str:
        return f"{owner}.{self._key}"

    def _read(self) -> Any:
        return self._access.attr(self._obj, self._key)

    def _write(self, new: Any) -> None:
        if isinstance(self._obj, Tracer):
            if self._key == "flat":
                self._obj.flat = new
                return
            if self._key == "shape":
                from mlc.frontend.numpy.shaping import assign_shape

                assign_shape(self._obj, new)
                return
            if self._key in ("real", "imag"):
                if new is not self._held:  # else written in place already
                    setattr(self._obj, self._key, new)
                return
            message = f"an array's .{self._key} is written; in a compiled function it stays."
            raise located(NotSupportedError, message, remedy="Use reshape, astype or view.")
        setattr(self._obj, self._key, new)

    def _delete(self) -> None:
        if type(found := getattr(self._obj, self._key, None)) is Sometimes:
            found.found()
        delattr(self._obj, self._key)


class ElementPlace(Place):
    """obj[key]"""

    __slots__ = ()

    def _spelled(self, owner: str) -> str:
        return f"{owner}[{self._key!r}]"

    def _read(self) -> Any:
        return self._access.item(self._obj, self._key)

    def _write(self, new: Any) -> None:
        if is_counted(self._obj) or self._is_picked():
            written(self._obj, self._key, new)
        elif is_dict(self._obj):
            write(self._obj, self._found(), new)
        else:
            self._obj[self._key] = new

    def _found(self) -> Any:
        return as_key(self._key) if is_dict(self._obj) else self._key

    def _is_picked(self) -> bool:
        """Whether only the compiled function knows which item of a list it is."""
        key, obj = self._key, self._obj
        if not isinstance(key, Tracer) or type(obj) is not list:
            return False
        held = cast("list[Any]", obj)
        return key.from_constants() is None and not key.origins and may_be_rows(held, key)

    def _delete(self) -> None:
        if is_counted(self._obj):
            method_of(self._obj, "pop")(self._key)
        else:
            key = self._found()
            if is_dict(self._obj) and (place := at(self._obj, key)) is not None:
                place.found()
            del self._obj[key]


# Calls that change an object

_READING = frozenset(
    {
        *("copy", "count", "index", "get", "items", "keys", "values", "difference", "intersection"),
        *("union", "symmetric_difference", "isdisjoint", "issubset", "issuperset", "fromkeys"),
        *("most_common", "elements", "total", "tolist", "tobytes", "hex", "decode"),
        *("__getitem__", "__contains__", "__len__", "__iter__", "__reversed__", "__repr__"),
        *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__str__", "__format__"),
        *("__add__", "__mul__", "__rmul__", "__or__", "__ror__", "__and__", "__sub__", "__xor__"),
        *("__hash__", "__sizeof__", "__reduce__", "__reduce_ex__", "__getattribute__", "__dir__"),
        *("find", "rfind", "startswith", "endswith", "split", "strip", "join", "new_child"),
    }
)
"""Methods of Python's collections that leave them as they are."""

_COLLECTIONS = (list, dict, set, bytearray, collections.deque)

_WRITING = (setattr, delattr)
_CHANGING: tuple[Any, ...] = (
    *_WRITING,
    *(operator.setitem, operator.delitem, bisect.insort_left, bisect.insort_right),
    *(
        getattr(operator, name)
        for name in ("iadd", "iconcat", "ior", "iand", "ixor", "isub", "imul")
    ),
    *(getattr(heapq, name) for name in ("heappush", "heappop", "heapify", "heapreplace")),
    heapq.heappushpop,
)
"""Functions that change their first argument."""


def check_call(function: Any, args: tuple[Any, ...]) -> None:
    """Refuses a call that would change an object from outside: `kept.append(x)`."""
    if isinstance(function, BuiltinFunctionType) and function in _CHANGING:
        if args and not isinstance(args[0], Tracer) and (owner := outside(args[0])) is not None:
            written = f"{owner}.{args[1]} is written" if function in _WRITING else ""
            raise refused(written or f"{owner} is changed")
        if args:
            check_twins(args[0])
            touched(args[0])
    elif isinstance(function, MethodDescriptorType | WrapperDescriptorType):
        if args:
            check_method(args[0], function.__name__)
    elif isinstance(function, BuiltinFunctionType | MethodWrapperType):
        check_method(function.__self__, function.__name__)
    check_library(args)


def check_library(args: tuple[Any, ...]) -> None:
    """Refuses such methods among the arguments: `map(kept.append, xs)`."""
    for method in args:
        if isinstance(method, BuiltinFunctionType | MethodWrapperType):
            check_method(method.__self__, method.__name__)


def check_method(target: Any, name: str) -> None:
    """Refuses a method that changes a collection from outside."""
    if name not in _READING:
        check_collection(target, f"{name}()", name in ("__setattr__", "__delattr__"))


def check_collection(target: Any, what: str, any_object: bool = False) -> None:
    """Refuses to change a collection from outside."""
    changes = any_object or isinstance(target, _COLLECTIONS)
    if changes and (owner := outside(target)) is not None:
        raise refused(f"{owner} is changed by {what}")
    if changes:
        check_twins(target)
        touched(target)
