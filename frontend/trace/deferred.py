"""
Python values that exist when the compiled function runs: texts of traced numbers, and containers
and errors with such numbers in them. `recipe_of` says how one is made, and of which traced values.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from mlc.frontend.trace.containers import children_of, flatten, rebuilt, unflatten
from mlc.frontend.trace.kinds import class_of, is_array
from mlc.frontend.trace.objects import (
    NOTHING,
    Frame,
    Given,
    argument_path,
    comes_from_outside,
    frame_of,
    is_bound,
)
from mlc.frontend.trace.paths import Path
from mlc.frontend.trace.source import in_users_name
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass


class Found(list[Any]):
    """
    What the leaves of a recipe are at one call; `held`: what its `kept` lead to. Objects that are
    met twice are made once.
    """

    def __init__(
        self, leaves: Iterable[Any], held: Sequence[Any] = (), made: dict[int, Any] | None = None
    ) -> None:
        super().__init__(leaves)
        self.held = held
        self.made: dict[int, Any] = {} if made is None else made


Maker = Callable[[Found], Any]


class Text:
    """A text that only the compiled function knows: what `make` gives for these arguments."""

    __mlc_leaf__ = True

    def __init__(self, make: Callable[..., str], *args: Any, **kwargs: Any) -> None:
        self.call = make, args, kwargs

    def __add__(self, other: Any) -> Text:
        return Text(operator.add, self, other)

    def __radd__(self, other: Any) -> Text:
        return Text(operator.add, other, self)

    def __mul__(self, other: Any) -> Text:
        return Text(operator.mul, self, other)

    def __mod__(self, other: Any) -> Text:
        return Text(operator.mod, self, other)

    def __getitem__(self, key: Any) -> Text:
        return Text(operator.getitem, self, key)

    def __getattr__(self, name: str) -> Callable[..., Text]:
        method = getattr(str, name)  # AttributeError as of a str
        return lambda *args, **kwargs: Text(method, self, *args, **kwargs)

    def known(self) -> str:
        """The text now; where only the compiled function knows it, the values say so."""
        make, args, kwargs = self.call
        return make(*map(_known, args), **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.known() == other

    def __hash__(self) -> int:
        return hash(self.known())

    def __bool__(self) -> bool:
        return bool(self.known())

    def __len__(self) -> int:
        return len(self.known())

    def __iter__(self) -> Iterator[str]:
        return iter(self.known())

    def __contains__(self, part: str) -> bool:
        return part in self.known()

    def __str__(self) -> str:
        return self.known()

    def __format__(self, spec: str) -> str:
        return format(self.known(), spec)


def _known(x: Any) -> Any:
    """What a text is made of, with numbers for sizes, for which the program is then."""
    if isinstance(x, Text):
        return x.known()
    if isinstance(x, SymbolicDim):
        return x.__index__()
    if children_of(x) is None:
        return x
    leaves, structure = flatten(x)
    return unflatten(structure, [_known(leaf) for leaf in leaves])


class Raising:
    """An error to be raised with values that only the compiled function knows: kind(*args)."""

    __mlc_leaf__ = True

    def __init__(self, kind: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> None:
        self.call = kind, tuple(args), dict(kwargs)


@dataclass(frozen=True)
class Recipe:
    """
    How a value is made of the values of its leaves; `key`: equal recipes have equal ones; `kept`:
    the ways to objects among the arguments that are in it.
    """

    make: Maker
    leaves: tuple[Tracer, ...]
    key: tuple[Any, ...]
    kept: tuple[Path, ...] = ()


class _Leaves(list[Tracer]):
    """The leaves and kept objects of a recipe, as they are met."""

    def __init__(self, keeps: bool) -> None:
        super().__init__()
        self.kept: list[Path] | None = [] if keeps else None
        self.objects: dict[int, Any] = {}  # met, and alive while the recipe is made


def recipe_of(value: Any, *, keeps: bool = True) -> Recipe:
    """
    How the value is made when the function has run. `keeps`: objects among the arguments are those
    of the call, and others are made anew; else all are those of when the function was traced.
    """
    leaves = _Leaves(keeps)
    make, key = _recipe(value, leaves)
    kinds = tuple((x.row.name, tuple(map(str, x.dims)), x.weak) for x in leaves)
    return Recipe(make, tuple(leaves), (key, kinds), tuple(leaves.kept or ()))


def is_counted(value: Any) -> bool:
    """Whether a list has a length that only the compiled function knows."""
    from mlc.frontend.staging import counted

    return counted.is_counted(value)


def is_deferred(value: Any) -> bool:
    """Whether something traced is in a value: a number, an array, a text."""
    if isinstance(value, Tracer | SymbolicDim | Text | Raising):
        return True
    parts = children_of(value)
    return parts is not None and any(map(is_deferred, parts[2]))


def _recipe(value: Any, leaves: _Leaves) -> tuple[Maker, Any]:
    if isinstance(value, SymbolicDim):
        value = lift_size(value)
    if isinstance(value, Tracer):
        k, weak = len(leaves), value.weak and not value.ndim
        leaves.append(value)
        if (whole := value.whole) is not None and value.owner.visible(whole.condition):
            leaves.append(Tracer(value.owner, whole.condition))
            return _whole_maker(k, weak, whole.kind), (k, whole.kind)
        return (lambda found: found[k].item() if weak else found[k]), k
    if hasattr(value, "__mlc_parts__"):
        return _choice_recipe(value, leaves)
    if is_counted(value):
        return _counted_recipe(value, leaves)
    if isinstance(value, Text | Raising):
        return _call_recipe(value.call, leaves)
    if (parts := children_of(value)) is not None:
        kind, keys, children = parts
        made = [_recipe(child, leaves) for child in children]
        makers = [make for make, _ in made]
        key = (kind, keys, tuple(inner for _, inner in made))
        if (unsure := next(filter(_is_unsure, children), None)) is not None:
            if kind is not dict:
                unsure.refuse_result()
            return partial(_dict_of, keys, makers), key
        return (lambda found: rebuilt(kind, keys, [make(found) for make in makers])), key
    if isinstance(value, Given):
        make, key = _recipe(list(value.elements), leaves)
        kind = value.kind
        return (lambda found: kind(make(found))), (kind, key)
    if isinstance(value, MethodType) and is_bound(value):
        make, key = _recipe(value.__self__, leaves)
        function = value.__func__
        return (lambda found: MethodType(function, make(found))), (function, key)
    if leaves.kept is not None:
        if (path := argument_path(value)) is not None:
            k = len(leaves.kept)
            leaves.kept.append(path)
            return (lambda found: found.held[k]), ("kept", path.key)
        if not comes_from_outside(value) and (framed := frame_of(value)) is not None:
            return _object_recipe(value, *framed, leaves)
    if is_array(value):
        value = value.copy()
    if isinstance(value, BaseException):  # it leads to all that the frames held where it was raised
        value.__traceback__ = value.__context__ = None
    return (lambda _: value), _constant_key(value)


def _whole_maker(k: int, weak: bool, kind: type[Any]) -> Maker:
    def make(found: Found) -> Any:
        if found[k + 1]:
            return kind(found[k] if kind is complex else found[k].real)
        return found[k].item() if weak else found[k]

    return make


def _object_recipe(
    value: Any, frame: Frame, contents: Sequence[Any], leaves: _Leaves
) -> tuple[Maker, Any]:
    """An object that the function has made: made anew at each call, once where it is met again."""
    number = id(value)
    if number in leaves.objects:
        return (lambda found: found.made[number]), ("met", list(leaves.objects).index(number))
    leaves.objects[number] = value
    parts = [_recipe(x, leaves) for x in contents]
    makers = [make for make, _ in parts]

    def make(found: Found) -> Any:
        if number in found.made:
            return found.made[number]
        made = found.made[number] = frame.empty()
        frame.fill(made, [maker(found) for maker in makers])
        return made

    return make, (frame, *(key for _, key in parts))


class Chosen:
    """Among results: a value of which the function knows the kind (staging/variants.py)."""

    __mlc_leaf__ = True

    def __init__(self, value: Any) -> None:
        self.value = value


def _is_unsure(value: Any) -> bool:
    """Whether it is what a key of a dict, or an attribute, holds that only some ways set."""
    return hasattr(class_of(value), "__mlc_unsure__")


def _dict_of(keys: Sequence[Any], makers: Sequence[Maker], found: Found) -> dict[Any, Any]:
    """One of which only the values say which keys it has."""
    pairs = [(key, make(found)) for key, make in zip(keys, makers, strict=True)]
    return {key: value for key, value in pairs if value is not NOTHING}


def _nothing(_: Found) -> Any:
    return NOTHING


def _choice_recipe(value: Any, leaves: _Leaves) -> tuple[Maker, Any]:
    absent = value.absent if _is_unsure(value) else leaves
    parts: list[tuple[Maker, Any]] = [
        (_nothing, "not set") if x is absent else _recipe(x, leaves) for x in value.__mlc_parts__()
    ]
    chosen, *options = (make for make, _ in parts)

    def make(found: Found) -> Any:
        made = options[int(chosen(found))](found)
        if hasattr(made, "error") and hasattr(made, "__mlc_leaf__"):
            raise made.error()
        return made

    return make, tuple(key for _, key in parts)


def _counted_recipe(value: Any, leaves: _Leaves) -> tuple[Maker, Any]:
    """A list of which the program says how many of its rows there are."""
    from mlc.frontend.staging.counted import counted_of

    held, kind = counted_of(value), class_of(value)
    count, key = _recipe(held.count, leaves)
    columns, structure = flatten(held.rows)
    parts = [(*_recipe(x, leaves), _kind_of(x)) for x in columns]

    def make(found: Found) -> Any:
        number = int(count(found))
        rows = [_elements(maker(found), number, what) for maker, _, what in parts]
        return kind(unflatten(structure, x) for x in zip(*rows, strict=True))

    return make, (kind, structure, key, tuple((k, what) for _, k, what in parts))


def _kind_of(column: Any) -> str:
    if not isinstance(column, Tracer):
        return "constant"
    return "Python's" if column.weak and column.ndim == 1 else "NumPy's"


def _elements(column: Any, number: int, what: str) -> list[Any]:
    if what == "constant":
        return [column] * number
    return column[:number].tolist() if what == "Python's" else [x.copy() for x in column[:number]]


def with_choices(value: Any) -> Any:
    """A result in which such values are leaves."""
    if hasattr(value, "__mlc_parts__") or is_counted(value):
        return Chosen(value)
    parts = children_of(value)
    if parts is None or not is_deferred(value):
        return value
    kind, keys, children = parts
    if any(map(_is_unsure, children)):
        return Chosen(value)
    return rebuilt(kind, keys, [with_choices(child) for child in children])


def _call_recipe(call: tuple[Any, Any, Any], leaves: _Leaves) -> tuple[Maker, Any]:
    function, args, kwargs = call
    given = [_recipe(x, leaves) for x in args]
    named = {name: _recipe(x, leaves) for name, x in kwargs.items()}

    def make(found: Found) -> Any:
        positional = [maker(found) for maker, _ in given]
        return function(*positional, **{name: maker(found) for name, (maker, _) in named.items()})

    inner = tuple(k for _, k in given), tuple((name, k) for name, (_, k) in named.items())
    return make, (function, *inner)


def _constant_key(value: Any) -> Any:
    plain = value is None or type(value) in (bool, int, float, complex, str, bytes)
    return (type(value), repr(value)) if plain else id(value)


# texts, where Python makes them


def joined(parts: Sequence[Any], shown: Callable[..., Any]) -> Any:
    """An f-string: parts are texts, or (value, conversion, format)."""
    made = [x if isinstance(x, str) else _formatted(x[0], x[1], x[2], shown) for x in parts]
    if all(isinstance(x, str) for x in made):
        return "".join(made)
    return Text(_join, *made)


def _join(*parts: str) -> str:
    return "".join(parts)


_STR, _REPR = ("__str__", "__repr__"), ("__repr__",)
_CONVERSIONS: dict[int, Callable[[Any], str]] = {115: str, 114: repr, 97: ascii}


@in_users_name
def _formatted(value: Any, conversion: int, spec: Any, shown: Callable[..., Any]) -> Any:
    if conversion != -1 or not spec:
        text = shown(value, _REPR if conversion == 114 else _STR)
        value, conversion = (value, conversion) if text is value else (text, -1)
    if not (is_deferred(value) or isinstance(spec, Text)):
        convert = _CONVERSIONS.get(conversion)
        return format(value if convert is None else convert(value), spec)
    if (convert := _CONVERSIONS.get(conversion)) is not None:
        value = Text(convert, value)
    return _fitting(Text(_format, value, spec))


_FORMATS = (format, operator.mod)


def _fitting(text: Text) -> Text:
    """
    A text made by a format, which is tried on ones: what does not fit a number's kind raises its
    error here, whether or not the text is read.
    """
    recipe = recipe_of(text, keeps=False)
    if any(x.whole is not None for x in recipe.leaves) or _has_choices(text):
        return text  # the kind of a number is known when the function runs
    shapes = ([d.constant or 1 for d in x.dims] for x in recipe.leaves)
    pairs = zip(shapes, recipe.leaves, strict=True)
    try:
        recipe.make(Found(np.ones(shape, x.row.numpy)[()] for shape, x in pairs))
    except (LookupError, TypeError, ValueError) as error:
        raise type(error)(*error.args) from None
    return text


def _has_choices(value: Any) -> bool:
    if isinstance(value, Text):
        _, args, kwargs = value.call
        return any(map(_has_choices, (*args, *kwargs.values())))
    if hasattr(value, "__mlc_parts__") or is_counted(value):
        return True
    parts = children_of(value)
    return parts is not None and any(map(_has_choices, parts[2]))


def _format(value: Any, spec: str) -> str:
    if is_array(value) and not value.ndim:
        value = value[()]
    return format(value, spec)


@in_users_name
def text_of(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """str(x), repr(x), format(x, spec), or a method of a str."""
    if getattr(function, "__name__", "") == "join" and len(args) == 1:
        args = (list(args[0]),)
    if any(map(is_deferred, (*args, *kwargs.values()))):
        text = Text(function, *args, **kwargs)
        formats = function in _FORMATS or getattr(function, "__name__", "") == "format"
        return _fitting(text) if formats else text
    return function(*args, **kwargs)


def users_text(value: Any, names: Sequence[str] = ("__str__", "__repr__")) -> FunctionType | None:
    """The method of the user's that says how an object is shown."""
    if is_deferred(value) or children_of(value) is not None:
        return None
    for name in names:
        found = getattr(class_of(value), name)
        if isinstance(found, FunctionType):
            return found
        if name == "__str__" and found is not object.__str__:
            return None
    return None
