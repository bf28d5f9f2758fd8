"""
Lists and dicts of which a branch chooses one: the join of both is another object, which may be
read; it is not changed, nor is what it may be as long as it is there.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.staging.journal import reachable
from mlc.frontend.staging.variants import Variants
from mlc.frontend.trace.kinds import class_of
from mlc.frontend.trace.trace import current, here


def noted(made: Any, x: Any, y: Any) -> None:
    """A branch has left x or y, and `made` stands for both."""
    for one, sides in _pairs(made, x, y):
        others = tuple(v for side in sides for v in _origins(side) if v is not one)
        if others:
            here().twins.append((one, others))


def _origins(side: Any) -> tuple[Any, ...]:
    """What something else leads to of what a side may be."""
    from mlc.frontend.trace.captures import paths

    known = [v for one, others in here().twins if one is side for v in others]
    own = reachable(side) or paths().of(side) is not None
    return (*known, side) if own else (*known,)


def _pairs(made: Any, x: Any, y: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Lists and dicts that are made anew, and what each may be."""
    if isinstance(made, Variants):
        sides = [v for z in (x, y) for v in (z.options if isinstance(z, Variants) else (z,))]
        for option in made.options:
            if _changes(option) and all(option is not v for v in sides):
                yield option, tuple(v for v in sides if type(v) is type(option))
        return
    kind: Any = class_of(made)
    if x is y or kind is not type(x) or kind is not type(y) or made is x or made is y:
        return
    if _changes(made):
        yield made, (x, y)
    if kind in (list, tuple) and len(made) == len(x) == len(y):
        for parts in zip(made, x, y, strict=True):
            yield from _pairs(*parts)


def _changes(value: Any) -> bool:
    return type(value) in (list, dict, set, deque)


def check_twins(obj: Any) -> None:
    """Raises NotSupportedError where what is about to be changed may be the same as another."""
    trace = current()
    for one, others in () if trace is None else trace.twins:
        kept = sys.getrefcount(one) > _ALONE
        if obj is one or (kept and any(obj is x for x in others)):
            kind = type(one).__name__
            message = f"a {kind} is changed of which a branch has chosen one: only the compiled"
            remedy = f"Change it in the branches, or choose copies: {kind}(x) if c else {kind}(y)."
            raise located(
                NotSupportedError, f"{message} function knows which it is.", remedy=remedy
            )


def _count() -> int:
    for one, _ in ((object(), ()),):
        return sys.getrefcount(one)
    return 0


_ALONE = _count()
"""References to what nothing but a note leads to."""
