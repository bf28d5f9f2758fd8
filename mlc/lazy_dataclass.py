"""
`dataclass` that makes a class what it is when its first object is made.

The standard library compiles up to six functions where a class is defined: half a millisecond. A
first call imports hundreds of classes and makes objects of a third of them. Here most of the six
are closures, and what is compiled waits. `dataclasses.fields`, `replace`, `asdict` and patterns do
not see the difference.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from mlc.fork import short_lock

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: Any = None, /, **options: Any) -> Any:
        """The standard library's, later. What has slots is another class, and made at once."""
        if cls is None:
            return lambda found: dataclass(found, **options)
        if options.keys() - {"frozen", "eq", "kw_only"}:
            return dataclasses.dataclass(**options)(cls)
        return _defined(cls, options)


__all__ = ["dataclass"]

_lock = short_lock()


def _defined(cls: Any, options: dict[str, Any]) -> Any:
    waits = True

    def make() -> None:
        nonlocal waits
        with _lock:
            if waits:
                # nothing is taken away meanwhile: other threads use the class
                kept = {"kw_only": options.get("kw_only", False), "frozen": frozen and not is_first}
                dataclasses.dataclass(cls, init=False, repr=False, eq=False, **kept)
                if is_first and frozen:
                    cls.__dataclass_params__ = _FROZEN
                if isinstance(cls.__dict__["__match_args__"], _Fact):
                    plain = (f.name for f in fields(cls) if f.init and not f.kw_only)
                    cls.__match_args__ = tuple(plain)
                if cls.__dict__["__init__"] is first:
                    cls.__init__ = _init_of(cls, frozen)
                waits = False

    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        make()
        cls.__init__(self, *args, **kwargs)

    own, frozen = cls.__dict__, options.get("frozen", False)
    is_first = not any("__dataclass_params__" in base.__dict__ for base in cls.__mro__[1:])
    methods: dict[str, Any] = {"__init__": first, "__repr__": _repr}
    if options.get("eq", True):
        methods |= _comparison(cls, frozen)
    if is_first and frozen:
        methods |= _refusals(cls)
    for name, method in methods.items():
        if own.get(name) is None:
            setattr(cls, name, method)
    for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__"):
        if name not in own:
            setattr(cls, name, _Fact(name, make))
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # or its signature would be written for it
    return cls


class _Fact:
    """What `dataclasses` asks of a class, or `match` of a pattern: known when the class is made."""

    def __init__(self, name: str, make: Callable[[], None]) -> None:
        self._name = name
        self._make = make

    def __get__(self, instance: object, owner: type) -> Any:
        self._make()
        return getattr(owner, self._name)


@dataclasses.dataclass(frozen=True)
class _Frozen:
    pass


_FROZEN: Any = vars(_Frozen)["__dataclass_params__"]


def _refusals(cls: Any) -> dict[str, Any]:
    """What keeps fields as they are, and everything of an object that is no subclass's."""

    def above(self: object, of: type[object] = cls) -> Any:
        return super(of, self)

    def refuse(self: Any, name: str, what: str) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")

    def set_(self: Any, name: str, value: object) -> None:
        refuse(self, name, "assign to")
        above(self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        refuse(self, name, "delete")
        above(self).__delattr__(name)

    return {"__setattr__": set_, "__delattr__": delete}


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _comparison(cls: Any, hashed: bool) -> dict[str, Any]:
    """Equality of all fields; a hash of what cannot change."""
    values: Callable[[Any], tuple[Any, ...]] | None = None

    def made() -> Callable[[Any], tuple[Any, ...]]:
        nonlocal values
        names = [f.name for f in fields(cls) if f.compare]
        if len(names) > 1:
            values = attrgetter(*names)
        else:  # one attribute would be no tuple
            values = lambda self: tuple(getattr(self, name) for name in names)  # noqa: E731
        return values

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        of = values or made()
        return of(self) == of(other)

    def hash_(self: Any) -> int:
        return hash((values or made())(self))

    return {"__eq__": equal, "__hash__": hash_ if hashed else None}


def _init_of(cls: Any, frozen: bool) -> Callable[..., None]:
    """`__init__`, compiled."""
    scope: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
    plain: list[str] = []
    named: list[str] = []
    body: list[str] = []
    for k, f in enumerate(fields(cls)):
        scope |= {f"_default{k}": f.default, f"_new{k}": f.default_factory}
        value = f.name
        if f.default_factory is not MISSING:
            made = f"_new{k}()"
            value = f"{made} if {f.name} is _missing else {f.name}" if f.init else made
        if f.init:
            (named if f.kw_only else plain).append(f.name + _default_of(f, k))
        elif f.default_factory is MISSING:
            continue
        body.append(f"_set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *plain, *(["*", *named] if named else [])])
    exec(f"def __init__({parameters}):\n  " + "\n  ".join(body or ["pass"]), scope)
    scope["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return scope["__init__"]


def _default_of(f: Field[Any], k: int) -> str:
    if f.default is not MISSING:
        return f"=_default{k}"
    return "=_missing" if f.default_factory is not MISSING else ""
