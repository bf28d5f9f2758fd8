"""
Keys of a dict and attributes that only some ways set: the place holds what is there on those ways,
and which they are. Reading it raises KeyError or AttributeError at run time on the others.

The keys that are there on a way stand in the order in which the dict has them all. What needs to
know which they are, as a loop over them does, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, NoReturn

from xdsl.ir import Block

from mlc.dialects.dtypes import I64
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.values import lift, number
from mlc.frontend.staging.sized import hidden_in
from mlc.frontend.staging.variants import Unset, Variants
from mlc.frontend.trace.captures import is_constant, runs_users
from mlc.frontend.trace.containers import LEAF, Node, Structure, flatten
from mlc.frontend.trace.hashed import as_key
from mlc.frontend.trace.kinds import class_of
from mlc.frontend.trace.objects import NOTHING
from mlc.frontend.trace.source import Site, user_site
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer

if TYPE_CHECKING:
    from mlc.frontend.staging.joins import Held


_USE = "what is done here depends on whether it is set"


class Absent(Unset):
    """What a place of a dict or an object is on the ways that do not set it."""

    name: Any
    holder: Any
    site: Site | None

    def __init__(self, name: Any, holder: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "holder", holder)
        object.__setattr__(self, "site", user_site())

    def __repr__(self) -> str:
        return f"no {self.name!r}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Absent):
            return False
        return self.holder is other.holder and bool(self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def error(self) -> Any:
        """What Python raises where it is read."""
        if class_of(self.holder) is dict:
            return KeyError(self.name)
        kind = class_of(self.holder).__name__
        return AttributeError(f"{kind!r} object has no attribute {self.name!r}")


class Sometimes(Variants):
    """What such a place holds; only what asks whether it is set sees it."""

    __mlc_unsure__ = True

    def __init__(self, chosen: Any, options: Sequence[Any]) -> None:
        super().__init__(chosen, options)
        here().holders.add(Sometimes)

    @property
    def absent(self) -> Absent:
        """The option of the ways that do not set it."""
        return next(x for x in self.options if isinstance(x, Absent))

    def is_set(self) -> Any:
        """Whether it is set: a bool, if that is known here."""
        return self.asked(lambda option: not isinstance(option, Absent))

    def found(self) -> Any:
        """What is there; the error of Python's where nothing is."""
        return self.apply(lambda option: option)

    def otherwise(self, default: Any) -> Any:
        """What is there, else the default."""
        from mlc.frontend.staging.branches import choice

        there = self.is_set()
        if isinstance(there, bool):
            return self.found() if there else default
        return choice("it", there, self.found, lambda: default, apart=True)

    def refuse(self, *_: object, **__: object) -> NoReturn:
        """The error of a use that needs to know whether it is set."""
        raise refused(self.absent)

    def refuse_result(self) -> NoReturn:
        """The error of a result that holds it; with the line where only some ways set it."""
        raise refused(self.absent, "a result or a text holds it", self.absent.site)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse()

    __hash__ = object.__hash__


_KEPT = ("__init__", "__mlc_parts__", "__mlc_rebuilt__", *vars(Sometimes))
_OTHERS = ("__repr__", "__str__", "__format__", "__contains__", "__setitem__")
for _name in (*vars(Variants), *_OTHERS):
    if _name.startswith("__") and _name not in _KEPT and callable(getattr(Variants, _name, None)):
        setattr(Sometimes, _name, Sometimes.refuse)


def refused(absent: Absent, what: str = _USE, site: Site | None = None) -> NotSupportedError:
    """The error about a dict or object of which only the compiled function knows what it holds."""
    place = f"the key {absent.name!r} of a dict"
    if class_of(absent.holder) is not dict:
        place = f"the attribute {absent.name!r} of a {class_of(absent.holder).__name__}"
    message = f"{place} is set on some ways only, and {what}."
    remedy = (
        f"Give {absent.name!r} a value before the branch, or in both branches; what is set on some"
        " ways may be read, by its name, and asked for with get, in or getattr."
    )
    return located(NotSupportedError, message, remedy=remedy, site=site)


# What a join and a loop make of such places


def may_be_absent(obj: Any, key: Any) -> bool:
    """Whether what holds a place may be without it: nothing, or a constant, is then found there."""
    kind = class_of(obj)
    if kind is dict:
        return True
    if not hasattr(obj, "__dict__") or isinstance(obj, dict | list | set | FunctionType | type):
        return False
    if not isinstance(key, str) or hasattr(kind, "__getattr__"):
        return False
    return (held := of_class(obj, key)) is NOTHING or is_constant(held)


def of_class(obj: Any, name: str) -> Any:
    """What an object's class has under the name of an attribute, or NOTHING."""
    return next((vars(k)[name] for k in class_of(obj).__mro__ if name in vars(k)), NOTHING)


def lasts(structure: Structure) -> bool:
    """Whether a value does not change: what is read at a place is not the same list each time."""
    if structure == LEAF:
        return True
    assert isinstance(structure, Node)
    return structure.kind in (tuple, Variants, Sometimes) and all(map(lasts, structure.children))


def merged(x: list[Any], y: list[Any]) -> list[Any] | None:
    """The places of both, of which each has its own in this order; None where there is no such."""
    for first, second in ((x, y), (y, x)):
        order = [*first, *(key for key in second if key not in first)]
        if [key for key in order if key in second] == second:
            return order
    return None


def known_to_be(absent: Absent, value: Any) -> Sometimes:
    """A place that is set here, but of which only the compiled function knows the order."""
    if not lasts(flatten(value)[1]):
        raise refused(absent)
    if isinstance(value, Variants):
        found: Any = lift(value.chosen) + 1
        made = Sometimes(found, (absent, *value.options))
    else:
        made = Sometimes(Tracer(here(), number(1, I64)), (absent, value))
    there = frozenset(range(1, len(made.options)))
    trace = here()
    trace.facts = (*trace.facts, (made.chosen.value, there))
    return made


def before_trips(obj: Any, key: Any, end: Held, block: Block) -> Sometimes | None:
    """What a place holds before the trips that set it; None where they cannot hand that on."""
    from mlc.frontend.staging.options import not_set

    own = any(any(hidden_in(block, x.dims)) for x in end.leaves if isinstance(x, Tracer))
    if own or not may_be_absent(obj, key) or not lasts(end.structure):
        return None
    found = not_set(Absent(key, obj), end)
    return None if found is None else Sometimes(*found)


# What a traced function does with them


def at(obj: dict[Any, Any], key: Any) -> Sometimes | None:
    """What a key holds that only some ways set."""
    found: Any = obj.get(key) if class_of(obj) is dict else None
    if type(found) is not Sometimes:
        return None
    if found.absent.holder is not obj:  # a copy, in which it may have replaced another value
        found.refuse()
    return found


def unsure(value: Any) -> Sometimes | None:
    """A key of a dict, or of what a view of it shows, that only some ways set."""
    kind = class_of(value)
    if kind is not dict and kind not in _VIEWS:
        return None
    trace = current()  # most hold none, and are asked at each use of a dict of any length
    if trace is not None and Sometimes not in trace.holders:
        return None
    held = value if kind is dict else value.mapping
    return next((x for x in held.values() if type(x) is Sometimes), None)


_NONE: dict[Any, Any] = {}
_VIEWS: Any = (type(_NONE.keys()), type(_NONE.values()), type(_NONE.items()))


def check(value: Any) -> Any:
    """The value, which is gone over or given on; raises where that asks for such keys."""
    if (found := unsure(value)) is not None:
        found.refuse()
    return value


def check_compared(value: Any) -> None:
    """Likewise of what is compared, with all that it holds."""
    kind = class_of(value)
    check(value)
    if kind in (list, tuple, dict):
        for part in value.values() if kind is dict else value:
            check_compared(part)


def write(obj: dict[Any, Any], key: Any, value: Any) -> None:
    """obj[key] = value"""
    old: Any = obj.get(key) if class_of(obj) is dict else None
    if type(old) is Sometimes and next(reversed(obj)) != key:
        value = known_to_be(old.absent, value)
    obj[key] = value


def size(obj: dict[Any, Any]) -> Any:
    """len(obj)"""
    if class_of(obj) is not dict:
        check(obj)
    from mlc.frontend import numpy as names

    found: Any = 0
    for key in obj:
        there = True if (place := at(obj, key)) is None else place.is_set()
        found = found + (int(there) if isinstance(there, bool) else names.astype(there, "int64"))
    if isinstance(found, Tracer):
        found.weak = True  # Python's own
    return found


def is_filled(obj: dict[Any, Any]) -> Any:
    """bool(obj)"""
    if class_of(obj) is not dict:
        check(obj)
    from mlc.frontend.staging.flow import Flow

    places = [at(obj, key) for key in obj]
    if any(place is None for place in places):
        return True
    return Flow.any_true(False, *(place.is_set for place in places if place is not None))


def is_in(key: Any, obj: Any) -> Any:
    """key in obj"""
    if class_of(obj) is not dict:
        check(obj)
    key = as_key(key)
    place = at(obj, key)
    return key in obj if place is None else place.is_set()


def _get(obj: dict[Any, Any], key: Any, default: Any = None) -> Any:
    key = as_key(key)
    place = at(obj, key)
    return obj.get(key, default) if place is None else place.otherwise(default)


def _pop(obj: dict[Any, Any], key: Any, *default: Any) -> Any:
    key = as_key(key)
    if (place := at(obj, key)) is None:
        return obj.pop(key, *default)
    found = place.otherwise(*default) if default else place.found()
    del obj[key]
    return found


def _setdefault(obj: dict[Any, Any], key: Any, default: Any = None) -> Any:
    key = as_key(key)
    if (place := at(obj, key)) is None:
        return obj.setdefault(key, default)
    found = place.otherwise(default)
    write(obj, key, found)
    return found


def _contains(obj: dict[Any, Any], key: Any) -> Any:
    return is_in(key, obj)


def _update(obj: dict[Any, Any], *others: Any, **named: Any) -> None:
    for other in others:
        check(other)
    for key, value in dict(*others, **named).items():
        write(obj, as_key(key), value)


def _clear(obj: dict[Any, Any]) -> None:
    obj.clear()


_METHODS: dict[str, Callable[..., Any]] = {
    "get": _get,
    "__contains__": _contains,
    "pop": _pop,
    "setdefault": _setdefault,
    "clear": _clear,
    "update": _update,
}
_ASKING = (len, bool, isinstance, type, id, callable, getattr, hasattr)
"""Functions of which each says itself what it makes of such a dict."""


def call_unsure(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """function(*args, **kwargs) of what only some ways have set, or MISS."""
    from mlc.frontend.trace.ordered_calls import MISS
    from mlc.frontend.trace.stores import check_method

    given = (*args, *kwargs.values())
    for x in given:
        if type(x) is Sometimes:
            x.refuse()
    owner = function.__self__ if isinstance(function, BuiltinFunctionType) else None
    if unsure(owner) is not None:
        special = _METHODS.get(function.__name__)
        check_method(owner, function.__name__)
        return check(owner) if special is None else special(owner, *args, **kwargs)
    if function is hasattr and len(args) == 2:
        found = getattr(*args, None)
        if type(found) is not Sometimes or of_class(*args) is not NOTHING:
            return MISS
        return found.is_set()
    if not runs_users(function) and not any(function is x for x in _ASKING):
        for x in given:
            check(x)
    return MISS
