"""
What a traced body changes: arrays that it writes, lists, dicts and objects that it stores to, and
variables that functions inside share with those around them.

A body of which it is not known whether it runs is traced under a journal. Afterwards everything is
as it was before, and what the body left is known, so that it can be joined with what another left.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from types import CellType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, cast

from xdsl.ir import Block, SSAValue

from mlc.frontend.trace.kinds import is_dict
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.value import Value


class Journal:
    """The first state of everything that is changed while one body is traced."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.values: dict[int, tuple[Value, SSAValue]] = {}
        self.objects: dict[int, tuple[Any, Any]] = {}

    def writes(self, value: Value, before: SSAValue) -> None:
        """An array from around the body is about to be written."""
        self.values.setdefault(id(value), (value, before))

    def touches(self, obj: Any) -> None:
        """A list, a dict or an object's attributes are about to be changed."""
        if id(obj) not in self.objects and (contents := contents_of(obj)) is not None:
            self.objects[id(obj)] = obj, contents

    def changes_in(self, obj: Any) -> bool:
        """Whether something has changed that an object leads to."""
        pending, met = [obj], set[int]()
        while pending:
            found = pending.pop()
            if id(found) in met:
                continue
            met.add(id(found))
            if isinstance(found, Value):
                base = found if found.part_of is None else found.part_of.base
                if base.either is not None:
                    pending += base.either.arrays
                if id(base) in self.values or id(found) in self.values:
                    return True
            elif id(found) in self.objects:
                return True
            elif isinstance(found, tuple):
                pending += found
            elif (contents := contents_of(found)) is not None:
                pending += entries_of(contents).values()
        return False

    @property
    def arrays(self) -> list[Value]:
        """The arrays that were written, not the views through which they were."""
        return [value for value, _ in self.values.values() if not value.is_another]

    def undo(self) -> None:
        """Everything is as it was before the body."""
        for value, before in self.values.values():
            value.become(before)
        for obj, contents in self.objects.values():
            put_contents(obj, contents)


@contextmanager
def journaled(block: Block) -> Generator[Journal]:
    """Ops go to the block, and changes into a journal; an error undoes them."""
    trace, journal = here(), Journal(block)
    trace.journals.append(journal)
    try:
        with trace.inside(block):
            yield journal
    except BaseException:
        journal.undo()
        raise
    finally:
        trace.journals.pop()


def touched(obj: Any) -> None:
    """Says that an object, or a variable, is about to be changed."""
    trace = current()
    if trace is not None and trace.journals:
        trace.journals[-1].touches(obj)


_VALUE = "value"
"""The place of what a variable holds, which functions inside share."""


def contents_of(obj: Any) -> Any:
    """A copy of what a list, dict, set, object or variable holds; None of anything else."""
    if isinstance(obj, CellType):
        return {_VALUE: obj.cell_contents} if _is_full(obj) else {}
    if isinstance(obj, list | dict | set | bytearray | deque):
        return obj.copy()  # pyright: ignore[reportUnknownVariableType]
    held = getattr(obj, "__dict__", None)
    return dict(held) if is_dict(held) else None


def entries_of(contents: Any) -> dict[Any, Any]:
    """Contents by their places."""
    if is_dict(contents):
        return contents
    if isinstance(contents, set):
        return {"elements": frozenset(contents)}  # pyright: ignore[reportUnknownArgumentType]
    series: list[Any] = list(contents)
    return dict(enumerate(series))


def put_entries(obj: Any, entries: dict[Any, Any]) -> None:
    """Gives an object what `entries_of` its contents says."""
    if isinstance(obj, set):
        put_contents(obj, entries["elements"])
    else:
        series = isinstance(obj, list | bytearray | deque)
        put_contents(obj, list(entries.values()) if series else entries)


def put_contents(obj: Any, contents: Any) -> None:
    """Gives a list, dict, set, object or variable what it shall hold."""
    if isinstance(obj, CellType):
        for value in contents.values():
            obj.cell_contents = value
        if _is_full(obj) and not contents:
            del obj.cell_contents
        return
    if isinstance(obj, list | bytearray):
        obj[:] = contents
        return
    if isinstance(obj, deque):
        queue = cast("deque[Any]", obj)
        queue.clear()
        queue.extend(contents)
        return
    held: Any = getattr(obj, "__dict__", obj) if not isinstance(obj, dict | set) else obj  # pyright: ignore[reportUnknownVariableType]
    held.clear()
    held.update(contents)


def _is_full(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


_TRACES = "mlc.frontend.call.program"
_TRACED = "mlc.frontend.staging.many"
"""The module whose functions are traced as users' are."""


def reachable(wanted: Any) -> bool:
    """
    Whether a variable of a function that is traced leads to the object, or to a variable that
    functions share. Who called the outermost of them has no traced value, but perhaps much to
    search.
    """
    users: list[FrameType] = []
    traced = 0
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in ("mlc", "xdsl") or name == _TRACED:
            users.append(frame)
        elif name == _TRACES and frame.f_code.co_name == "trace_program":
            traced = len(users)
        frame = frame.f_back
    pending = [x for user in users[: traced or None] for x in user.f_locals.values()]
    met: set[int] = set()
    while pending:
        found = pending.pop()
        if found is wanted:
            return True
        if id(found) in met:
            continue
        met.add(id(found))
        if isinstance(found, Value):
            if found.part_of is not None:
                pending.append(found.part_of.base)
            if found.either is not None:
                pending += found.either.arrays
        elif isinstance(found, FunctionType):
            cells = found.__closure__ or ()
            pending += [wanted] if any(c is wanted for c in cells) else []
            pending += [c.cell_contents for c in cells if _is_full(c)]
        elif isinstance(found, MethodType):
            pending += [found.__self__, found.__func__]
        elif isinstance(found, partial):
            pending += [found.func, found.args, found.keywords]
        elif isinstance(found, list | tuple | set | deque):
            pending += found
        elif is_dict(found):
            pending += found.values()
        elif is_dict(held := getattr(found, "__dict__", None)) and not _is_large(found):
            pending += held.values()
    return False


def _is_large(obj: Any) -> bool:
    """
    What leads to all of a library, and to nothing that a function makes: classes, modules, and what
    looks after a traced function, which knows its globals.
    """
    return isinstance(obj, type | ModuleType) or type(obj).__module__ == "mlc.frontend.trace.access"
