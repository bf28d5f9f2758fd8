"""Fields of what files hold: what their annotations mean."""

from __future__ import annotations

from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

from mlc.artifact import Artifact
from mlc.dialects.launch import TensorMap
from mlc.fields import declared_of
from mlc.saved import Header, Section


def kinds_in(declared: Any) -> set[type]:
    """The data classes that a type consists of."""
    inside = set[type]().union(*map(kinds_in, get_args(declared)))
    if isinstance(declared, type) and is_dataclass(declared):
        inside.add(declared)
    return inside


def test_types_are_those_that_typing_finds() -> None:
    """Of every class that a file of a compiled function may have, each with what it consists of."""
    left, known = {Header, Artifact}, set[type]()
    while left:
        kind = left.pop()
        known.add(kind)
        types, needed = declared_of(kind)
        assert types == get_type_hints(kind)
        assert set(needed) <= set(types)
        left |= {part for declared in types.values() for part in kinds_in(declared)} - known
    assert {Section, TensorMap} <= known
    assert declared_of(Section)[1] == ("name", "offset", "bytes", "sha256")
