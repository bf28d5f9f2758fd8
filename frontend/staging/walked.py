"""
What a `for` goes over that Python goes over: lists and what is made of them. A list may change in
the loop, and Python reads it trip by trip: so does a loop that only the compiled function leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from types import GeneratorType
from typing import Any
from warnings import catch_warnings, simplefilter

from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.staging.counted import counted_of, element, is_counted
from mlc.frontend.staging.items import iterated
from mlc.frontend.trace.kinds import class_of, is_dict
from mlc.lazy_dataclass import dataclass

MOST_ADDED = 8
"""Trips over what a loop has added to its list before it is one loop in the program."""

_NONE: dict[Any, Any] = {}
_VIEWS: Any = tuple(type(view()) for view in (_NONE.keys, _NONE.values, _NONE.items))

_DEEPEST = 4
"""Iterators of iterators that are looked into."""


class Unsteady(BaseException):
    """What a loop goes over changes in it."""


@dataclass(frozen=True)
class Listed:
    """What is left of a list in a loop over it: `item(k, L[k])` at each place from the first on."""

    series: list[Any]
    item: Callable[[Any, Any], Any]
    first: Any
    begun: int  # how long it was when the loop began

    @property
    def count(self) -> Any:
        """How many there are now."""
        length = counted_of(self.series).count if is_counted(self.series) else len(self.series)
        return length - self.first

    @property
    def is_open(self) -> bool:
        """Whether one loop in the program goes over the rest."""
        return is_counted(self.series) or self.first >= self.begun + MOST_ADDED

    def at(self, k: int) -> Any:
        """An item, as it is now."""
        return self.place(self.first + k)

    def place(self, k: Any) -> Any:
        """Likewise at a place in the list, which may be traced."""
        known = isinstance(k, int) and not is_counted(self.series)
        return self.item(k, self.series[k] if known else element(counted_of(self.series), k))

    def after(self, k: int) -> Listed:
        """Without the first ones."""
        return replace(self, first=self.first + k)


@dataclass(frozen=True)
class Walked:
    """Items of another iterator, and what the lists that it reads held before."""

    items: tuple[Any, ...]
    lists: tuple[tuple[Callable[[], list[Any]], list[Any]], ...]
    is_open = False

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.items)

    def at(self, k: int) -> Any:
        """An item."""
        return self.items[k]

    def after(self, k: int) -> Walked:
        """Without the first ones."""
        return replace(self, items=self.items[k:])

    def check(self) -> None:
        """Raises NotSupportedError where a list has changed."""
        for now, before in self.lists:
            held = now()
            if len(held) != len(before) or any(x is not y for x, y in zip(held, before)):  # noqa: B905
                raise changed()


def changed() -> NotSupportedError:
    """The error of a list that changes under an iterator."""
    message = "a list or dict changes while a loop goes over what is made of it (enumerate, zip, a"
    rest = "generator, a view), and only the compiled function knows which trips there are."
    remedy = "Go over a copy: for x in list(xs), or count the places: while k < len(xs)."
    return located(NotSupportedError, f"{message} {rest}", remedy=remedy)


class Walk:
    """One after another, in Python's way, as long as Python knows how the loop goes on."""

    def __init__(self, value: Any) -> None:
        self.listed = _listed(value)
        self._lists = () if self.listed else tuple((now, now()) for now in _lists(value, _DEEPEST))
        self._iterator = iterated(value) if self.listed is None else self._one_by_one(self.listed)

    def __iter__(self) -> Iterator[Any]:
        return self._iterator

    def _one_by_one(self, listed: Listed) -> Generator[Any]:
        while not is_counted(listed.series) and listed.count > 0:
            yield listed.at(0)
            listed = self.listed = listed.after(1)

    def check(self) -> None:
        """After a trip. Raises NotSupportedError where only the function knows what is next."""
        if any(any(map(is_counted, ([*now()],))) for now, _ in self._lists):
            raise changed()

    def rest(self, item: Any) -> Listed | Walked:
        """The item of this trip and those after it."""
        if self.listed is not None:
            return self.listed
        return Walked((item, *self._iterator), self._lists)


def listed(series: list[Any]) -> Listed:
    """A list from its beginning."""
    return Listed(series, lambda k, x: x, 0, len(series))


def _listed(value: Any) -> Listed | None:
    """Of a list, or of its `enumerate`, which is not asked for anything."""
    if class_of(value) is list:
        return listed(value)
    if class_of(value) is not enumerate:
        return None
    state: Any = value.__reduce__()
    iterator, first = state[1]
    reduced: Any = iterator.__reduce__()
    if len(reduced) < 3 or type(reduced[1][0]) is not list:
        return None
    series, place = reduced[1][0], reduced[2]
    return Listed(series, lambda k, x: (first - place + k, x), place, len(series))


def _lists(value: Any, depth: int) -> list[Callable[[], list[Any]]]:
    """What says what the lists and dicts hold that an iterator reads."""
    kind: Any = class_of(value)
    if kind in (list, deque):
        return [lambda: [*value]]
    if is_dict(value) or kind in _VIEWS:
        mapping: Any = getattr(value, "mapping", value)
        return [lambda: [*mapping, *mapping.values()]]
    if not depth or not hasattr(kind, "__next__"):
        return []
    if isinstance(value, GeneratorType):
        frame = value.gi_frame
        parts = [] if frame is None else [*frame.f_locals.values()]
    else:
        try:
            with catch_warnings():
                simplefilter("ignore")  # itertools', from Python 3.12 on
                parts = [*value.__reduce__()[1]]
        except (TypeError, NotImplementedError, IndexError):
            return []
    return [found for part in parts for found in _lists(part, depth - 1)]
