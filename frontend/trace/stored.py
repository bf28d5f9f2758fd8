"""
What a function stores to objects and containers among its arguments, and does again at each call.

While it is traced, the objects hold what it stores. At the end they get back what they held, and
each place that differs is written after each call: with results of the program, or with what was
there under another name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.errors import MlcError
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.trace.deferred import Found, Recipe, is_counted, is_deferred, recipe_of
from mlc.frontend.trace.kinds import is_class
from mlc.frontend.trace.objects import NOTHING
from mlc.frontend.trace.paths import HiddenInput, Path
from mlc.frontend.trace.trace import Trace, here
from mlc.lazy_dataclass import dataclass

Source = Callable[[Sequence[Any], dict[Any, Any], Sequence[Any]], Any]
"""What a place gets: of the arguments, what the object held, and results of the program."""


@dataclass(frozen=True)
class Store:
    """An object that is changed: the way to it, and what each place gets."""

    path: Path
    places: tuple[tuple[Any, Source], ...]
    whole: Source | None = None  # all that a list gets whose length the program computes

    def make(self, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Changes it."""
        from mlc.frontend.staging.journal import (
            contents_of,
            entries_of,
            put_contents,
            put_entries,
        )

        target = self.path.read(values)
        before = entries_of(contents_of(target))
        if self.whole is not None:
            put_contents(target, self.whole(values, before, results))
            return
        after = {key: place(values, before, results) for key, place in self.places}
        put_entries(target, {key: x for key, x in after.items() if x is not NOTHING})


@dataclass(frozen=True)
class Stored:
    """All that a call of a program changes, with how many results it takes."""

    stores: tuple[Store, ...]
    arrays: tuple[HiddenInput, ...]  # written in place, from the first results
    count: int

    def make(self, values: Sequence[Any], results: Sequence[Any]) -> None:
        """Changes it."""
        for source, new in zip(self.arrays, results, strict=False):
            source.read(values)[...] = new
        for store in self.stores:
            store.make(values, results)


def belongs(path: Path) -> bool:
    """Whether a way begins at an argument, or at the object whose method is compiled."""
    own = path.kind == "object" and path.root is here().receiver
    return path.kind == "argument" or (own and path.root is not None)


def may_be_stored(obj: Any, path: Path) -> bool:
    """
    Whether an object may be changed: then what it holds now is kept, and it holds what the function
    sees of that.
    """
    from mlc.frontend.staging.journal import contents_of, entries_of, put_entries

    trace = here()
    if id(obj) in trace.stores:
        return True
    if not belongs(path) or is_class(obj) or (held := contents_of(obj)) is None:
        return False
    by_item = isinstance(obj, list | dict)
    seen = {
        key: _seen(value, path.item(key) if by_item else path.attr(str(key)))
        for key, value in entries_of(held).items()
    }
    trace.stores[id(obj)] = obj, held, seen, path
    put_entries(obj, seen)
    return True


def _seen(value: Any, path: Path) -> Any:
    from mlc.frontend.trace.captures import captured

    try:
        return captured(value, path)
    except MlcError:
        return value


def stored(trace: Trace, results: list[SSAValue]) -> Stored | None:
    """What the function has stored; what that takes is put behind the results."""
    from mlc.frontend.staging.journal import contents_of, entries_of

    first = len(results)
    arrays: list[HiddenInput] = []
    for x in trace.arrays.values():
        if x.version and (outside := x.from_outside()) is not None:
            arrays.append(outside[1])
            results.append(x.value)
    stores: list[Store] = []
    for obj, _, before, path in list(trace.stores.values()):
        after = entries_of(contents_of(obj))
        same = list(before) == list(after)
        if same and all(x is y for x, y in zip(before.values(), after.values(), strict=True)):
            continue
        if is_counted(obj):
            stores.append(Store(path, (), _made(obj, results, first)))
            continue
        names = {id(value): key for key, value in before.items()}
        places = tuple(
            (key, _source(key, value, before, names, results, first))
            for key, value in after.items()
        )
        stores.append(Store(path, places))
    if not (stores or arrays):
        return None
    return Stored(tuple(stores), tuple(arrays), len(results) - first)


def _source(
    key: Any,
    value: Any,
    before: dict[Any, Any],
    names: dict[int, Any],
    results: list[SSAValue],
    first: int,
) -> Source:
    from mlc.frontend.trace.captures import paths

    if key in before and before[key] is value:
        return lambda _, held, __: held[key]
    if id(value) in names:
        old = names[id(value)]
        return lambda _, held, __: held[old]
    known = paths().of(value)
    if known is not None and belongs(known):
        return lambda values, _, __: known.read(values)
    elements: Any = value
    if isinstance(value, frozenset) and any(map(is_deferred, elements)):
        message = "a set of an argument gets an element that only the compiled function knows."
        raise located(NotSupportedError, message, remedy="Use a list.")
    return _made(value, results, first)


def _made(value: Any, results: list[SSAValue], first: int) -> Source:
    """What is made anew of results, which are put behind the others."""
    recipe: Recipe = recipe_of(value)
    at = len(results) - first
    results += [x.value for x in recipe.leaves]
    make, kept, end = recipe.make, recipe.kept, at + len(recipe.leaves)
    return lambda values, _, found: make(Found(found[at:end], [way.read(values) for way in kept]))
