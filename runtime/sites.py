"""What compiled code raises at run time: the places that may fail, and what NumPy says there."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np

from mlc.dialects.errors import MlcError, RoomError
from mlc.dialects.faults import (
    LIBRARY_FAULTS,
    NO_POINTS,
    NONE_FAULTS,
    SHARE,
    SHARE_FAULT,
    fault_of,
)
from mlc.lazy_dataclass import dataclass

_RAISES: dict[str, type[Exception]] = {
    "index": IndexError,
    "library": np.linalg.LinAlgError,
}
"""By the first word of the kind; ValueError for the others."""


@dataclass(frozen=True)
class Site:
    """An op that may fail at run time: what can go wrong, and the user's line."""

    kind: str  # "index", "empty max", …
    op: str
    file: str
    line: int

    @property
    def raises(self) -> type[Exception]:
        """The class of what is raised there."""
        if self.kind.startswith("zero "):
            return type(fault_of(self.kind.removeprefix("zero ")))
        return _RAISES.get(self.kind.split()[0], ValueError)

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
        if self.kind == SHARE:
            raise ValueError(f"{SHARE_FAULT}{where}")
        if self.kind.startswith("zero "):
            error = fault_of(self.kind.removeprefix("zero "))
            raise type(error)(f"{error}{where}")
        if self.kind == "library":
            kind = ValueError if value == NO_POINTS else np.linalg.LinAlgError
            raise kind(f"{LIBRARY_FAULTS[value - 1]}{where}")
        if self.kind.startswith("room "):
            error = RoomError.of(self.kind.removeprefix("room "), value)
            raise error if isinstance(error, RoomError) else type(error)(f"{error}{where}")
        monoid = self.kind.removeprefix("empty ")
        if monoid.startswith("arg"):
            raise ValueError(f"attempt to get {monoid} of an empty sequence{where}")
        raise ValueError(f"{NONE_FAULTS[monoid]}{where}")


def raiser(sites: Sequence[Site]) -> Callable[[int, int, int], NoReturn]:
    """What raises for the site, value and extent of an error word."""

    def raise_error(site: int, value: int, extent: int) -> NoReturn:
        if not 1 <= site <= len(sites):
            raise MlcError(f"compiled code reports an error at site {site}, which does not exist")
        sites[site - 1].raise_for(value, extent)

    return raise_error
