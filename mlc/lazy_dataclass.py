"""
`dataclass` that makes a class what it is when its first object is made.

The standard library compiles up to six functions where a class is defined: half a millisecond. A
first call imports hundreds of classes and makes objects of a third of them. Here most of the six
are closures, and what is compiled waits. `dataclasses.fields`, `replace`, `asdict` and patterns do
not see the difference. Classes of xDSL's modules are made so too, where this is imported first.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, Field, fields
from functools import lru_cache, partial
from importlib.machinery import ModuleSpec, PathFinder
from operator import attrgetter
from threading import get_ident
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from mlc.fork import WhileAny, short_lock

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: Any = None, /, **options: Any) -> Any:
        """The standard library's, later. What has slots is another class, and made at once."""
        if cls is None:
            return lambda found: dataclass(found, **options)
        if options.keys() - _KNOWN:
            return _standard(**options)(cls)
        return _defined(cls, options)


__all__ = ["dataclass"]

_KNOWN = {"frozen", "eq", "kw_only", "init", "repr"}  # options; what has others is made at once
_standard: Any = dataclasses.dataclass
_lock = short_lock()


_waiting: dict[Any, tuple[dict[str, Any], bool]] = {}
"""Class that waits -> its options, and whether all classes above it are made here."""


def _defined(cls: Any, options: dict[str, Any]) -> Any:
    own, frozen = cls.__dict__, options.get("frozen", False)
    ours = all(map(_is_ours, cls.__mro__[1:-1]))
    _waiting[cls] = options, ours
    methods: dict[str, Any] = {}
    if options.get("init", True):
        methods["__init__"] = _Init(cls)
    if options.get("repr", True):
        methods["__repr__"] = _repr
    if options.get("eq", True):
        compared = _Comparison(cls)
        methods["__eq__"] = _Equal(compared)
        methods["__hash__"] = _Hash(compared) if frozen else None
    if ours and frozen and cls.__setattr__ is not _set_field:
        methods |= {"__setattr__": _set_field, "__delattr__": _delete_field}
    for name, method in methods.items():
        if own.get(name) is None:
            setattr(cls, name, method)
    for name, fact in _FACTS.items():
        if name not in own:
            setattr(cls, name, fact)
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # or its signature would be written for it
    return cls


def _is_ours(above: Any) -> bool:
    """Whether a class is a dataclass that is made here, or has nothing to do with them."""
    own = above.__dict__
    if "__dataclass_params__" not in own:
        return "__setattr__" not in own and "__delattr__" not in own
    params = own["__dataclass_params__"]
    return params is _FROZEN or isinstance(params, _Fact)


def _make(cls: Any) -> None:
    """Makes a class, if it still waits."""
    with _lock:
        if cls not in _waiting:
            return
        options, ours = _waiting[cls]
        frozen = options.get("frozen", False)
        # nothing is taken away meanwhile: other threads use the class
        kept = {"kw_only": options.get("kw_only", False), "frozen": frozen and not ours}
        with _ask_of_bases():
            _standard(cls, init=False, repr=False, eq=False, **kept)
        if frozen and ours:
            cls.__dataclass_params__ = _FROZEN
        if cls.__dict__["__match_args__"] is _FACTS["__match_args__"]:
            plain = (f.name for f in fields(cls) if f.init and not f.kw_only)
            cls.__match_args__ = tuple(plain)
        del _waiting[cls]


class _Fact:
    """What `dataclasses` asks of a class, or `match` of a pattern: known when the class is made."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: Any) -> Any:
        for kind in owner.__mro__:
            if kind.__dict__.get(self._name) is self:
                _make(kind)
        return getattr(owner, self._name)


_FACTS = {
    name: _Fact(name) for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
}


class _Init:
    """`__init__` before the first object."""

    __slots__ = ("_cls",)

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: Any = None) -> Any:
        cls = self._cls
        _make(cls)
        with _lock:
            if cls.__dict__["__init__"] is self:
                cls.__init__ = _init_of(cls, cls.__dataclass_params__.frozen)
        return cls.__dict__["__init__"].__get__(instance, owner)


@dataclasses.dataclass(frozen=True)
class _Frozen:
    pass


class _Params:
    """
    `__dataclass_params__` of a frozen class. While the standard library makes a class below it,
    without the two functions that it would compile to refuse assignments, it says nothing of that.
    """

    def __init__(self, standard: Any) -> None:
        self._standard = standard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._standard, name)

    def __repr__(self) -> str:
        return repr(self._standard)

    @property
    def frozen(self) -> bool:
        """Whether objects stay as they are."""
        return get_ident() not in _making


_FROZEN: Any = _Params(vars(_Frozen)["__dataclass_params__"])
_making: dict[int, int] = {}  # thread -> classes, each below the one before


@contextmanager
def _ask_of_bases() -> Generator[None, None, None]:
    """This thread makes a class."""
    thread = get_ident()
    _making[thread] = _making.get(thread, 0) + 1
    try:
        yield
    finally:
        _making[thread] -= 1
        if not _making[thread]:
            del _making[thread]


def _refuse(self: Any, name: str, what: str, method: str, of: Any) -> Any:
    """
    Keeps fields as they are, and everything of an object that is no subclass's; else what does it.
    """
    kinds: tuple[Any, ...] = type(self).__mro__
    made = next(x for x in kinds if "__dataclass_params__" in x.__dict__)
    if type(self) is made or name in made.__dataclass_fields__:
        raise dataclasses.FrozenInstanceError(f"cannot {what} field {name!r}")
    last: Any = [x for x in kinds if x.__dict__.get(method) is of][-1]  # no other refuses more
    return getattr(cast("object", super(last, self)), method)


def _set_field(self: Any, name: str, value: object) -> None:
    _refuse(self, name, "assign to", "__setattr__", _set_field)(name, value)


def _delete_field(self: Any, name: str) -> None:
    _refuse(self, name, "delete", "__delattr__", _delete_field)(name)


def _repr(self: Any) -> str:
    shown = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


_OFTEN = 64  # calls from which on a method is worth compiling


class _Comparison:
    """Equality of all fields, and a hash of them. Compiled when they are often asked for."""

    __slots__ = ("_calls", "_cls", "_values")

    def __init__(self, cls: Any) -> None:
        self._cls, self._calls = cls, 0
        self._values: Callable[[Any], tuple[Any, ...]] | None = None

    def of(self, x: Any) -> tuple[Any, ...]:
        """The fields of an object."""
        if self._values is None:
            self._values = _values_of(_compared(self._cls))
        self._calls += 1
        if self._calls == _OFTEN:
            scope: dict[str, Any] = {}
            exec(_compiled(_comparison(_compared(self._cls))), scope)
            for name, waits in (("__eq__", _Equal), ("__hash__", _Hash)):
                if isinstance(self._cls.__dict__.get(name), waits):
                    setattr(self._cls, name, scope[name])
        return self._values(x)

    def equal(self, x: Any, y: Any) -> Any:
        """`__eq__`."""
        return self.of(x) == self.of(y) if x.__class__ is y.__class__ else NotImplemented

    def hash(self, x: Any) -> int:
        """`__hash__`."""
        return hash(self.of(x))


class _Equal:
    """`__eq__` that is not compiled."""

    __slots__ = ("_compared",)

    def __init__(self, compared: _Comparison) -> None:
        self._compared = compared

    def __get__(self, instance: object, owner: Any = None) -> Any:
        equal = self._compared.equal
        return equal if instance is None else partial(equal, instance)


class _Hash:
    """`__hash__` that is not compiled."""

    __slots__ = ("_compared",)

    def __init__(self, compared: _Comparison) -> None:
        self._compared = compared

    def __get__(self, instance: object, owner: Any = None) -> Any:
        made = self._compared.hash
        return made if instance is None else partial(made, instance)


def _compared(cls: Any) -> tuple[str, ...]:
    """The fields that equality looks at."""
    return tuple(f.name for f in fields(cls) if f.compare)


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these attributes."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda x: tuple(getattr(x, name) for name in names)  # one attribute would be no tuple


@lru_cache(maxsize=1024)
def _compiled(text: str) -> CodeType:
    """Methods of classes that have the same fields."""
    return compile(text, "<dataclass>", "exec")


def _comparison(names: Sequence[str]) -> str:
    """`__eq__` and `__hash__` over attributes, as the standard library writes them."""
    mine, yours = (f"({''.join(f'{x}.{name}, ' for name in names)})" for x in ("self", "other"))
    return f"""
def __eq__(self, other):
    return {mine} == {yours} if other.__class__ is self.__class__ else NotImplemented
def __hash__(self):
    return hash({mine})
"""


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
    exec(_compiled(f"def __init__({parameters}):\n  " + "\n  ".join(body or ["pass"])), scope)
    scope["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return scope["__init__"]


def _default_of(f: Field[Any], k: int) -> str:
    if f.default is not MISSING:
        return f"=_default{k}"
    return "=_missing" if f.default_factory is not MISSING else ""


class _Loader:
    """Loads a module, whose dataclasses wait."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Runs it."""
        with _of_xdsls():
            self._loader.exec_module(module)


class _Finder:
    """Finds xDSL's modules."""

    def find_spec(self, name: str, path: Sequence[str] | None, _: object = None) -> Any:
        """As the standard library does, with another loader."""
        if not name.startswith("xdsl."):
            return None
        spec: ModuleSpec | None = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Any", _Loader(spec.loader))
        return spec


def _of_xdsl(cls: Any = None, /, **options: Any) -> Any:
    """`dataclass` while a module of xDSL's is imported; other threads may import others."""
    if cls is None:
        return partial(_of_xdsl, **options)
    if not cls.__module__.startswith("xdsl."):
        return _standard(cls, **options)
    own = cast("dict[str, object]", cls.__dict__)
    if not any(isinstance(x, Field) for x in own.values()):  # definitions read them
        return dataclass(cls, **options)
    _standard(cls, **options)
    if cls.__dataclass_params__.frozen:
        cls.__dataclass_params__ = _FROZEN
    return cls


def _set(found: Any) -> None:
    dataclasses.dataclass = found


_of_xdsls = WhileAny(lambda: _set(_of_xdsl), lambda _: _set(_standard))
sys.meta_path.insert(0, _Finder())
