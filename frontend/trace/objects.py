"""
Objects among results: those that the function made are made anew at each call, as Python does it.

An object is its class, what its attributes and slots hold, and what it holds as a list, a dict or a
deque. Iterators are taken as lists of what they give.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from types import BuiltinMethodType, GeneratorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.trace.captures import (
    is_constant,
    is_function,
    of_librarys_class,
    paths,
)
from mlc.frontend.trace.containers import children_of, rebuilt
from mlc.frontend.trace.kinds import class_of, is_array, is_class, is_dict, is_one_of
from mlc.frontend.trace.paths import Path
from mlc.lazy_dataclass import dataclass

MAX_GIVEN = 100_000
"""Elements that an iterator among results may give: more is taken for one that never ends."""

_DICT: Any = {}
_LIST: Any = []
_VIEWS = tuple(class_of(view) for view in (_DICT.values(), _DICT.keys(), _DICT.items()))
_WALKED: tuple[Any, ...] = ((), _LIST, set(_LIST), range(0), _DICT, _DICT.values(), _DICT.items())
_ITERATORS: tuple[type[Any], ...] = (
    *(GeneratorType, map, filter, zip, enumerate, reversed),
    *(class_of(iter(empty)) for empty in _WALKED),
    *(class_of(reversed(empty)) for empty in (_LIST, _DICT, range(0))),
    *(kind for kind in vars(itertools).values() if is_class(kind) and hasattr(kind, "__next__")),
)
_BASES: tuple[type[Any], ...] = (OrderedDict, dict, list, deque)


class Given:
    """What an iterator or a view of a dict gives, among results."""

    __mlc_leaf__ = True

    def __init__(self, elements: Sequence[Any], kind: Callable[[list[Any]], Any]) -> None:
        self.elements = elements
        self.kind = kind


NOTHING = object()
"""What a place holds that is not set."""


@dataclass(frozen=True)
class Frame:
    """An object without what it holds: its class, and the names of its attributes and items."""

    kind: type[Any]
    attributes: tuple[str, ...]
    keys: tuple[Hashable, ...] | None  # of a dict
    option: Any = None  # a deque's limit, a default dict's function

    @property
    def base(self) -> type[Any]:
        """What it holds its items as."""
        return next((base for base in _BASES if issubclass(self.kind, base)), object)

    def empty(self) -> Any:
        """An object that holds nothing yet."""
        kinds = (
            k for k in self.kind.__mro__ if isinstance(vars(k).get("__new__"), BuiltinMethodType)
        )
        native: Any = next(kinds)
        made: Any = native.__new__(self.kind)
        if self.base is deque and self.option is not None:
            deque.__init__(made, (), self.option)  # pyright: ignore[reportUnknownMemberType]
        elif self.option is not None:
            made.default_factory = self.option
        return made

    def fill(self, made: Any, contents: Sequence[Any]) -> None:
        """Gives it what it holds: attributes, then items."""
        count = len(self.attributes)
        for name, value in zip(self.attributes, contents[:count], strict=True):
            if value is not NOTHING:
                object.__setattr__(made, name, value)
        if self.keys is not None:
            for key, value in zip(self.keys, contents[count:], strict=True):
                if value is not NOTHING:
                    self.base.__setitem__(made, key, value)
        elif self.base is not object:
            made.extend(contents[count:])


def frame_of(value: Any) -> tuple[Frame, list[Any]] | None:
    """An object that can be made anew, with what it holds; None of others, as functions."""
    kind = class_of(value)
    if is_class(value) or is_function(value) or is_constant(value) or is_array(value):
        return None
    items: Any = () if is_one_of(value, _BASES) else None
    if items is None and is_one_of(value, (ModuleType, BaseException)):
        return None
    if items is None and of_librarys_class(value) and not hasattr(value, "__dict__"):
        return None
    if items is not None:
        items = dict(value) if is_dict(value) else list(value)
    slots = [
        name
        for owner in kind.__mro__
        for name, member in vars(owner).items()
        if isinstance(member, MemberDescriptorType) and not of_librarys_class(owner)
    ]
    attributes = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    attributes |= getattr(value, "__dict__", {})
    option = None
    if items is not None:
        option = getattr(value, "maxlen" if is_one_of(value, (deque,)) else "default_factory", None)
    keys = tuple(items) if is_dict(items) else None
    held: list[Any] = list(items.values() if is_dict(items) else items or ())
    return Frame(kind, tuple(attributes), keys, option), [*attributes.values(), *held]


def argument_path(value: Any) -> Path | None:
    """The way to an object among the arguments, which is the result itself."""
    from mlc.frontend.trace.stored import belongs

    path = paths().of(value)
    return path if path is not None and belongs(path) else None


def comes_from_outside(value: Any) -> bool:
    """Whether the function has not made the object."""
    return paths().of(value) is not None


def drained(value: Any) -> Any:
    """A result with what its iterators and views give in their places."""
    if is_one_of(value, _ITERATORS) and not comes_from_outside(value):
        return Given([drained(x) for x in _elements(value)], iter)
    if is_one_of(value, _VIEWS):
        elements = [drained(x) for x in value]
        return Given(elements, _VIEWED[class_of(value)])
    parts = children_of(value)
    if parts is None or not any(map(_gives, parts[2])):
        return value
    kind, keys, children = parts
    return rebuilt(kind, keys, [drained(child) for child in children])


def _gives(value: Any) -> bool:
    if is_one_of(value, _ITERATORS + _VIEWS):
        return True
    parts = children_of(value)
    return parts is not None and any(map(_gives, parts[2]))


def _elements(iterator: Iterator[Any]) -> list[Any]:
    found = list(itertools.islice(iterator, MAX_GIVEN + 1))
    if len(found) > MAX_GIVEN:
        raise located(
            NotSupportedError,
            f"the result is an iterator of more than {MAX_GIVEN:,} elements, which would all be"
            " part of the program.",
            remedy="Return an array, or compile the function that makes one element.",
        )
    return found


_VIEWED: dict[type[Any], Callable[[list[Any]], Any]] = {
    _VIEWS[0]: lambda found: dict(enumerate(found)).values(),
    _VIEWS[1]: lambda found: dict.fromkeys(found).keys(),
    _VIEWS[2]: lambda found: dict(found).items(),
}


def is_bound(value: Any) -> bool:
    """Whether a value is a method of an object that the function made."""
    return isinstance(value, MethodType) and not comes_from_outside(value.__self__)
