"""Ways to values outside a traced function, and what is expected of the values at later calls."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from types import CellType, FunctionType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mlc.frontend.trace.containers import children_of
from mlc.frontend.trace.kinds import class_of, is_array, is_dict
from mlc.lazy_dataclass import dataclass

Step = tuple[Literal["attr", "item", "array", "call", "size"], Any]


@dataclass(frozen=True)
class Path:
    """
    A way from a root to a Python object, through attributes and items.

    `root`: the number of a parameter ("argument"), a cell, or any object ("object").
    """

    kind: Literal["argument", "cell", "object"]
    root: Any
    steps: tuple[Step, ...]
    text: str  # how the user writes it: `self.layers[0].w`

    def attr(self, name: str) -> Path:
        """To an attribute."""
        return Path(self.kind, self.root, (*self.steps, ("attr", name)), f"{self.text}.{name}")

    def item(self, key: Any) -> Path:
        """To an item."""
        return Path(self.kind, self.root, (*self.steps, ("item", key)), f"{self.text}[{key!r}]")

    def array(self) -> Path:
        """To the array that NumPy makes of the object."""
        return Path(self.kind, self.root, (*self.steps, ("array", None)), self.text)

    def size(self) -> Path:
        """To an array of as many rows as the number says, without elements."""
        return Path(self.kind, self.root, (*self.steps, ("size", None)), self.text)

    def call(self, name: str, args: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Path:
        """To what a method gives for arguments that can be hashed."""
        given = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in named)])
        step: Step = ("call", (name, args, named))
        return Path(self.kind, self.root, (*self.steps, step), f"{self.text}.{name}({given})")

    @property
    def key(self) -> Hashable:
        """What two ways have in common where they are one."""
        root = self.root if self.kind == "argument" else id(self.root)
        steps = tuple(
            (kind, step if isinstance(step, str | int) or kind == "call" else id(step))
            for kind, step in self.steps
        )
        return (self.kind, root, steps)

    def read(self, values: Sequence[object]) -> Any:
        """The object now, given one value for each parameter."""
        found: Any = self.root
        if self.kind == "argument":
            found = values[self.root]
        elif self.kind == "cell":
            found = self.root.cell_contents
        for kind, key in self.steps:
            if kind == "array":
                found = np.asarray(found)
            elif kind == "size":
                found = array_of_size(found)
            elif kind == "call":
                found = _called(found, *key)
            else:
                found = getattr(found, key) if kind == "attr" else found[key]
        return found

    def source(self, constants: Constants) -> str:
        """The same as a Python expression, parameter k being ``v[k]``."""
        if self.kind == "argument":
            text = f"v[{self.root}]"
        else:
            text = constants.name(self.root) + (".cell_contents" if self.kind == "cell" else "")
        for kind, key in self.steps:
            plain = isinstance(key, str | int) and not isinstance(key, bool)
            spelled = repr(key) if plain else constants.name(key)
            if kind == "array":
                text = f"{constants.name(np.asarray)}({text})"
            elif kind == "size":
                text = f"{constants.name(array_of_size)}({text})"
            elif kind == "call":
                text = f"{constants.name(_called)}({text}, *{spelled})"
            elif kind == "attr":
                text = f"{text}.{key}" if str(key).isidentifier() else f"getattr({text}, {key!r})"
            else:
                text = f"{text}[{spelled}]"
        return text


def _called(obj: Any, name: str, args: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> Any:
    return getattr(obj, name)(*args, **dict(named))


def array_of_size(size: int) -> NDArray[np.bool]:
    """An array without elements, whose first axis says the size."""
    return np.empty((size, 0), np.bool)


class Constants:
    """Objects that generated Python code refers to, under names of its own."""

    def __init__(self, **named: object) -> None:
        self.space: dict[str, Any] = dict(named)

    def name(self, value: object) -> str:
        """The name of an object."""
        for name, held in self.space.items():
            if held is value:
                return name
        name = f"c{len(self.space)}"
        self.space[name] = value
        return name


def global_path(space: dict[str, Any], name: str) -> Path:
    """To a global variable."""
    return Path("object", space, (("item", name),), name)


def cell_path(cell: CellType, name: str) -> Path:
    """To a variable of an enclosing function."""
    return Path("cell", cell, (), name)


def object_path(value: object, text: str) -> Path:
    """To an object that no name leads to: itself."""
    return Path("object", value, (), text)


GuardKind = Literal[
    "value",
    "same",
    "type",
    "outline",
    "contents",
    "parts",
    "range",
    "module",
    "code",
    "one",
    "two",
    "apart",
]
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))
_EQUAL = frozenset({"builtins", "numpy", "numpy.dtypes", "decimal", "fractions", "datetime"})
"""Modules whose objects that are guarded by value say what equality is."""


@dataclass(frozen=True)
class Guard:
    """
    A Python value that tracing relied on; where it is another, the function is traced anew.

    "value": equal and of the same type; "same": the same object; "type": an object of that class;
    "outline": a container of that class, length and keys; "contents": one with these numbers;
    "parts": one with these elements; "range": an int between two; "code": a function of this code,
    which reads the same globals; "one": the object that another way leads to, "two": another one;
    "apart": some ways lead to as many objects, and others to none of these.
    "module": a module of a library, which only full dispatch looks at: every function has some.
    """

    kind: GuardKind
    path: Path
    value: Any

    @property
    def key(self) -> Hashable:
        """One guard of a kind is enough for one way, but for ranges."""
        told = self.value if self.kind == "range" else None
        other = self.value.key if self.kind in ("one", "two") else None
        return (self.kind, self.path.key, told, other)

    @property
    def text(self) -> str:
        """What changed, in words."""
        words = {
            "type": "the type of ",
            "outline": "the structure of ",
            "contents": "the contents of ",
            "parts": "the elements of ",
            "range": "the range of ",
            "code": "the code of ",
            "apart": "what else leads to ",
        }
        return words.get(self.kind, "") + self.path.text

    def holds(self, values: Sequence[object]) -> bool:
        """Whether the value is what it was."""
        if self.kind == "apart":
            return are_apart(values, *self.value)
        try:
            found = self.path.read(values)
            value = self.value.read(values) if self.kind in ("one", "two") else self.value
        except (LookupError, AttributeError, ValueError, TypeError):
            return False
        if self.kind in ("same", "module", "one", "two"):
            return (found is value) is not (self.kind == "two")
        if self.kind == "type":
            return type(found) is self.value
        if self.kind == "outline":
            return outline(found) == self.value
        if self.kind == "contents":
            return same_contents(found, self.value)
        if self.kind == "range":
            return type(found) is int and self.value[0] <= found <= self.value[1]
        if self.kind == "parts":
            return same_parts(found, self.value)
        if self.kind == "code":
            return same_code(found, self.value)
        return equal_value(found, self.value)

    def source(self, constants: Constants) -> str:
        """The same as a Python expression."""
        if self.kind == "apart":
            ways, others = ([way.source(constants) for way in part] for part in self.value)
            if len(ways) == 2 and not others:
                return f"{ways[0]} is not {ways[1]}"
            ids, rest = ("".join(f"id({way}), " for way in part) for part in (ways, others))
            return f"(len(g := {{{ids}}}) == {len(ways)} and g.isdisjoint(({rest})))"
        found = self.path.source(constants)
        if self.kind in ("one", "two"):
            word = "is" if self.kind == "one" else "is not"
            return f"{found} {word} {self.value.source(constants)}"
        value = constants.name(self.value)
        if self.kind in ("same", "module"):
            return f"{found} is {value}"
        if self.kind == "type":
            return f"type({found}) is {value}"
        if self.kind == "range":
            return f"{self.value[0]} <= {found} <= {self.value[1]}"
        function = {
            "outline": outline,
            "contents": same_contents,
            "parts": same_parts,
            "value": equal_value,
            "code": same_code,
        }[self.kind]
        if self.kind == "outline":
            return f"{constants.name(function)}({found}) == {value}"
        if type(self.value) in (int, str, bool, float) and told_by_equality(self.value):
            kind = constants.name(self.value.__class__)
            return f"(type(g := {found}) is {kind} and g == {value})"
        return f"{constants.name(function)}({found}, {value})"


def code_of(function: FunctionType) -> tuple[object, ...]:
    """What a function does, but for its defaults and the variables of functions around it."""
    named = function.__kwdefaults__ or ()
    count = len(function.__defaults__ or ())
    return function.__code__, function.__globals__, count, tuple(named)


def same_code(found: object, told: tuple[object, ...]) -> bool:
    """Whether a value is a function that does the same."""
    if not isinstance(found, FunctionType):
        return False
    code, space, count, named = code_of(found)
    same = code is told[0] or code == told[0]
    return same and space is told[1] and (count, named) == told[2:]


def told_by_equality(value: object) -> bool:
    """Whether only the number itself equals it: not so of NaN, and of the two zeros of floats."""
    inexact = isinstance(value, float | complex | np.inexact)
    return not (inexact and (value != value or value == 0))


def equal_value(found: object, value: object) -> bool:
    """Whether a number, text or array is still the same; NaN equals itself, and -0.0 is not 0.0."""
    if found is value:
        return True
    if is_array(value):
        if not is_array(found) or (found.dtype, found.shape) != (value.dtype, value.shape):
            return False
        return bool(found.tobytes() == value.tobytes())
    if type(found) is not type(value) or is_array(found):
        return False
    if not _is_plain(value):
        return type(value).__module__ in _EQUAL and bool(found == value)
    if told_by_equality(value):
        return bool(found == value)
    return repr(found) == repr(value)


def are_apart(values: Sequence[object], ways: Sequence[Path], others: Sequence[Path]) -> bool:
    """Whether ways lead to as many objects, and others to none of these."""
    try:
        found = {id(way.read(values)) for way in ways}
        return len(found) == len(ways) and all(id(x.read(values)) not in found for x in others)
    except (LookupError, AttributeError, ValueError, TypeError):
        return False


def same_contents(found: object, contents: tuple[object, ...]) -> bool:
    """Whether a container of numbers holds what it held."""
    now = contents_of(found)
    return len(now) == len(contents) and all(map(equal_value, now, contents))


def same_parts(found: object, parts: tuple[object, ...]) -> bool:
    """Whether a collection has the elements that it had, of arrays and objects the same ones."""
    now = parts_of(found)
    return len(now) == len(parts) and all(map(_same_part, now, parts))


def _same_part(found: object, part: object) -> bool:
    return found is part or (_is_plain(part) and equal_value(found, part))


def _is_plain(value: object) -> bool:
    return isinstance(value, _PLAIN)


def parts_of(value: Any) -> tuple[object, ...]:
    """The class and elements of a collection; of a dict, keys and values."""
    if is_dict(value):
        return (class_of(value), *value, *value.values())
    return (class_of(value), *value)


def contents_of(value: Any) -> tuple[object, ...]:
    """The class, keys and numbers of a container."""
    parts = children_of(value)
    return () if parts is None else (parts[0].__qualname__, *map(str, parts[1]), *parts[2])


def outline(value: Any) -> tuple[object, ...]:
    """The class, length and keys of a container."""
    parts = children_of(value)
    return () if parts is None else (parts[0].__qualname__, len(parts[2]), *map(str, parts[1]))


@dataclass(frozen=True)
class HiddenInput:
    """An array that the function reads without getting it as an argument."""

    path: Path

    @property
    def text(self) -> str:
        """How the user wrote it: `W`, `self.weights[0]`."""
        return self.path.text

    def read(self, values: Sequence[object]) -> Any:
        """The array now."""
        return self.path.read(values)
