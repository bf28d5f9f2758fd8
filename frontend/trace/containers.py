"""Containers of arrays (tuple, list, dict, namedtuple, dataclass) taken apart and rebuilt."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from mlc.frontend.trace.kinds import class_of, is_tuple


@dataclasses.dataclass(frozen=True)
class Leaf:
    """The place of one leaf."""


@dataclasses.dataclass(frozen=True)
class Node:
    """A container: its class, what names its parts, and the parts."""

    kind: type[Any]
    keys: tuple[Hashable, ...]
    children: tuple[Structure, ...]


Structure = Leaf | Node
LEAF = Leaf()


REGISTERED: dict[type[Any], tuple[str, ...]] = {}
"""Classes that are containers by `register_container`, with their fields."""


def register_container(kind: type[Any], fields: Sequence[str]) -> type[Any]:
    """
    Objects of the class are containers of these attributes, as dataclasses are of their fields:
    the arrays in them are arguments, and what `mlc.grad` and `mlc.vmap` see. An object is made anew
    from the attributes alone, without `__init__`, so `fields` are all that it has.
    """
    if not isinstance(kind, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"mlc.register_container: found {kind!r}; expected a class")
    if isinstance(fields, str) or not all(isinstance(name, str) for name in fields):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"mlc.register_container: the fields of {kind.__name__} are {fields!r}; expected names"
            ' of attributes, such as ("weights", "bias")'
        )
    REGISTERED[kind] = tuple(fields)
    return kind


def children_of(value: Any) -> tuple[type[Any], tuple[Hashable, ...], Sequence[Any]] | None:
    """Class, keys and parts of a container; None for a leaf."""
    kind = class_of(value)
    if kind is tuple or kind is list:
        return kind, (), value
    if kind is dict:
        return kind, tuple(value), list(value.values())
    if hasattr(kind, "__mlc_parts__"):
        return kind, (), value.__mlc_parts__()
    if is_tuple(value):
        fields: tuple[str, ...] | None = getattr(kind, "_fields", None)
        return None if fields is None else (kind, fields, value)
    if kind in REGISTERED:
        names = REGISTERED[kind]
        return kind, names, [getattr(value, name) for name in names]
    if dataclasses.is_dataclass(kind) and not hasattr(kind, "__mlc_leaf__"):
        names = tuple(f.name for f in dataclasses.fields(kind))
        return kind, names, [getattr(value, name) for name in names]
    return None


def leaf_count(structure: Structure) -> int:
    """How many leaves a structure has."""
    return 1 if isinstance(structure, Leaf) else sum(map(leaf_count, structure.children))


def flatten(value: object) -> tuple[list[Any], Structure]:
    """The leaves in order, and the structure around them."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: object, leaves: list[Any]) -> Structure:
    parts = children_of(value)
    if parts is None:
        leaves.append(value)
        return LEAF
    kind, keys, children = parts
    return Node(kind, keys, tuple(_flatten(child, leaves) for child in children))


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The container again, with other leaves."""
    return _unflatten(structure, iter(leaves))


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    if isinstance(structure, Leaf):
        return next(leaves)
    return rebuilt(
        structure.kind, structure.keys, [_unflatten(c, leaves) for c in structure.children]
    )


Made = dict[int, tuple[object, Any]]
"""Something for each container, by its id: with the container, so that the id stays its own."""


def first_places(value: object, structure: Structure, met: Made, at: int) -> list[int]:
    """
    For each leaf of a value the first place that it has: a container that is met again has its
    leaves where it was met first. `met`: those places; `at`: where the value begins.
    """
    if isinstance(structure, Leaf):
        return [at]
    first = at if is_tuple(value) else met.setdefault(id(value), (value, at))[1]
    if first != at:
        return list(range(first, first + leaf_count(structure)))
    places: list[int] = []
    for child, inner in zip(_parts(value), structure.children, strict=True):
        places += first_places(child, inner, met, at + len(places))
    return places


def rebuilt_like(value: object, structure: Structure, leaves: Iterator[Any], made: Made) -> Any:
    """
    The container again, with other leaves. What leads to one list or object twice still does so:
    `made` is what was made of each.
    """
    if isinstance(structure, Leaf):
        return next(leaves)
    children = [
        rebuilt_like(child, inner, leaves, made)
        for child, inner in zip(_parts(value), structure.children, strict=True)
    ]
    if is_tuple(value):
        return rebuilt(structure.kind, structure.keys, children)
    if id(value) not in made:
        made[id(value)] = value, rebuilt(structure.kind, structure.keys, children)
    return made[id(value)][1]


def _parts(value: object) -> Sequence[Any]:
    parts = children_of(value)
    assert parts is not None
    return parts[2]


def rebuilt(kind: type[Any], keys: Sequence[Hashable], children: Sequence[Any]) -> Any:
    """A container of the class with these parts."""
    if kind is list:
        return list(children)
    if kind is tuple:
        return tuple(children)
    if kind is dict:
        return dict(zip(keys, children, strict=True))
    if hasattr(kind, "_make"):
        return kind._make(children)
    if hasattr(kind, "__mlc_rebuilt__"):
        return kind.__mlc_rebuilt__(children)
    made: Any = object.__new__(kind)  # without __init__: the fields may hold traced values now
    for name, child in zip(keys, children, strict=True):
        object.__setattr__(made, str(name), child)
    return made


def leaf_names(value: object, name: str) -> list[str]:
    """How a user writes each leaf: ``params['w'][0]``."""
    parts = children_of(value)
    if parts is None:
        return [name]
    kind, keys, children = parts
    names: list[str] = []
    for k, child in enumerate(children):
        if kind is dict:
            part = f"{name}[{keys[k]!r}]"
        else:
            part = f"{name}.{keys[k]}" if keys else f"{name}[{k}]"
        names.extend(leaf_names(child, part))
    return names
