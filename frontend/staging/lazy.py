"""Comprehensions when they are traced: Python's, or loops (comprehensions.py)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from mlc.frontend.staging.counted import is_counted
from mlc.frontend.staging.items import items_of
from mlc.frontend.staging.trials import FEW, MANY, MOST_SHORT
from mlc.frontend.staging.tried import tried_trip
from mlc.frontend.trace.trace import here


class Lazy:
    """A generator expression that a call gets first: as Python's, or what a loop makes of it."""

    def __init__(
        self,
        listed: Callable[[Any], Any],
        items: Any,
        python: Callable[[Any], Any],
        tests: bool,
        asked: Callable[[Any], Any] | None,
    ) -> None:
        self._listed = listed
        self._items = items
        self._python = python
        self._tests = tests
        self._asked = asked

    def given(self, call: Any, function: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """function(self, *args, **kwargs)"""
        stays = self._tests or stays_loop(self._items, self._python)
        if stays and self._asked is not None and function in (any, all, next):
            return call(self._asked, (self._items, *args), {})
        if stays and function in _GATHERING:
            return call(function, (call(self._listed, (self._items,), {}), *args), kwargs)
        return call(function, (self._python(self._items), *args), kwargs)


_GATHERING = (sum, min, max, list, tuple, sorted, set, any, all, np.fromiter)


def is_long(value: Any) -> bool:
    """Whether a loop over it is one in the program, or may be."""
    if is_counted(value):
        return True
    items = items_of(value)
    return items is not None and (not items.known or items.count >= MANY)


def stays_loop(value: Any, python: Callable[[Any], Any]) -> bool:
    """Whether a comprehension over it is: of few items where loops of the program are in each."""
    if is_long(value):
        return True
    items = items_of(value)
    if items is None or items.count < FEW or here().trial is not None:
        return False

    @wraps(python)
    def trip(item: Any) -> None:
        list(python([item]))

    return tried_trip(items, trip, (), MOST_SHORT // items.count).around
