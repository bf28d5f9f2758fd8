"""Nothing traced outlives its trace: what is still there when the program is finished."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import CellType, FrameType, GeneratorType, ModuleType
from typing import Any

from xdsl.ir import Operation

from mlc.frontend.errors import LeakError, located
from mlc.frontend.trace.kinds import class_of, is_dict
from mlc.frontend.trace.source import Site, site_of
from mlc.frontend.trace.trace import Trace
from mlc.frontend.trace.value import Value


def check_released(made: Sequence[weakref.ref[Value]], where: Site | None) -> None:
    """LeakError where a traced value is still held: by an attribute, a list, a generator, …"""
    for generation in range(3):
        if _held(made) is None:
            return
        # cycles, as that of a nested function and the variable that names it: what this trace has
        # made is young, and all that the process has would take long
        gc.collect(generation)
    if (kept := _held(made)) is None:
        return
    owner = kept._value.owner if kept._value is not None else None  # pyright: ignore[reportPrivateUsage]
    site = site_of(owner.location) if isinstance(owner, Operation) else None
    holders = _holders(kept)
    for reference in made:
        if (value := reference()) is not None:
            _let_go(value)
    message = (
        "a traced value is kept after the function has returned: it is held by"
        f" {holders}, and exists only while the function is compiled."
    )
    remedy = "Return it, and store the result where the function is called."
    raise located(LeakError, message, remedy=remedy, site=site or where)


def _held(made: Sequence[weakref.ref[Value]]) -> Value | None:
    return next((x for reference in made if (x := reference()) is not None), None)


def _holders(value: Value) -> str:
    found = {_described(x) for x in gc.get_referrers(value) if not isinstance(x, FrameType)}
    return " and ".join(sorted(found)) or "an object"


def _let_go(value: Value) -> None:
    """Takes the value out of the collections and attributes that hold it."""
    for found in gc.get_referrers(value):
        holder: Any = found
        if isinstance(found, list):
            holder[:] = [x for x in holder if x is not value]
        elif isinstance(found, set):
            holder.discard(value)
        else:
            names = holder if isinstance(found, dict) else getattr(holder, "__dict__", {})
            for name in [k for k, x in names.items() if x is value]:
                del names[name]


def _described(holder: Any) -> str:
    if isinstance(holder, CellType):
        return "a variable of an enclosing function"
    if isinstance(holder, GeneratorType):
        return "a generator"
    if is_dict(holder):
        for owner in gc.get_referrers(holder):
            if getattr(owner, "__dict__", None) is holder:
                kind = "module" if isinstance(owner, ModuleType) else class_of(owner).__name__
                return f"an attribute of a {kind}"
    kind = class_of(holder).__name__
    return f"{'an' if kind[:1] in 'aeiouAEIOU' else 'a'} {kind}"


@contextmanager
def errors_released(trace: Trace) -> Generator[None]:
    """An error that leaves the trace takes no traced values with it."""
    try:
        yield
    except Exception as error:
        if any(isinstance(x, Value) for x in error.args):
            error.args = tuple(repr(x) if isinstance(x, Value) else x for x in error.args)
        for name, held in list(vars(error).items()):
            if isinstance(held, Value):
                setattr(error, name, repr(held))
        raise
    finally:
        trace.release()
