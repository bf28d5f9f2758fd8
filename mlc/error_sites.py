"""Aliases of a compiled function that may fail at run time, and what is raised there."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn, cast

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute

from mlc.dialects.errors import MlcError, RoomError
from mlc.dialects.tensor.comparison import ShareOp
from mlc.dialects.tensor.library import FAULTS
from mlc.dialects.tensor.some import FAULTS as FAULTS_OF_NONE
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Site:
    """An op that may fail at run time: what can go wrong, and the user's line."""

    kind: str  # "index", "empty max", …
    op: str
    file: str
    line: int

    def raise_for(self, value: int, extent: int) -> NoReturn:
        """What NumPy raises there."""
        where = ""
        if self.file:
            text = linecache.getline(self.file, self.line).strip()
            where = f"\n  {self.file}:{self.line}   {text}".rstrip()
        if self.kind == "index":
            raise IndexError(f"index {value} is out of bounds for an axis of size {extent}{where}")
        if self.kind == "negative power":
            raise ValueError(f"Integers to negative integer powers are not allowed: {value}{where}")
        if self.kind == ShareOp.SITE:
            raise ValueError(f"{ShareOp.FAULT}{where}")
        if self.kind == "library":
            raise np.linalg.LinAlgError(f"{FAULTS[value - 1]}{where}")
        if self.kind.startswith("room "):
            error = RoomError.of(self.kind.removeprefix("room "), value)
            raise error if isinstance(error, RoomError) else type(error)(f"{error}{where}")
        monoid = self.kind.removeprefix("empty ")
        if monoid.startswith("arg"):
            raise ValueError(f"attempt to get {monoid} of an empty sequence{where}")
        raise ValueError(f"{FAULTS_OF_NONE[monoid]}{where}")


def sites_of(loops: ModuleOp) -> list[Site]:
    """The sites that a loops-level module lists, in the order of their numbers from 1."""
    listed = loops.attributes.get("mlc.sites")
    if not isinstance(listed, ArrayAttr):
        return []
    entries = cast("ArrayAttr[Attribute]", listed)
    return [_site(entry.data) for entry in entries if isinstance(entry, DictionaryAttr)]


def _site(entry: Mapping[str, Attribute]) -> Site:
    kind, op, location = entry.get("kind"), entry.get("op"), entry.get("location")
    file, line = "", 0
    if isinstance(location, FileLineColLoc):
        file, line = location.filename.data, location.line.data
    return Site(
        kind.data if isinstance(kind, StringAttr) else "",
        op.data if isinstance(op, StringAttr) else "",
        file,
        line,
    )


def raiser(sites: Sequence[Site]) -> Callable[[int, int, int], NoReturn]:
    """What raises for the site, value and extent of an error word."""

    def raise_error(site: int, value: int, extent: int) -> NoReturn:
        if not 1 <= site <= len(sites):
            raise MlcError(f"compiled code reports an error at site {site}, which does not exist")
        sites[site - 1].raise_for(value, extent)

    return raise_error
