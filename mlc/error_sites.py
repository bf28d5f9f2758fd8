"""The places of a program that may fail at run time, as its loops list them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute

from mlc.runtime.sites import Site


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
