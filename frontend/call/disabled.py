"""`mlc.disable()`: compiled functions run as the Python functions that they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    from mlc.frontend.call.compile import Compiled

EVERY: WeakSet[Compiled[..., Any]] = WeakSet()
"""The compiled functions that there are."""

_depth = 0


def is_disabled() -> bool:
    """Whether nothing is compiled now."""
    return _depth > 0


def _plain(self: Compiled[..., Any], *args: Any, **kwargs: Any) -> Any:
    return self.__mlc_function__()(*args, **kwargs)


class disable:  # noqa: N801 - a context, as `open` is
    """
    ``with mlc.disable():`` compiled functions run as Python: to step through them, or to compare.

    It holds for all threads, and for functions that are made meanwhile.
    """

    def __init__(self) -> None:
        self._before: list[tuple[type[Any], Any]] = []

    def __enter__(self) -> None:
        global _depth
        _depth += 1
        for function in list(EVERY):
            kind = type(function)
            self._before.append((kind, kind.__dict__.get("__call__")))
            kind.__call__ = _plain

    def __exit__(self, *_: object) -> None:
        global _depth
        _depth -= 1
        for kind, before in self._before:
            if before is None:
                del kind.__call__
            else:
                kind.__call__ = before
        self._before.clear()
