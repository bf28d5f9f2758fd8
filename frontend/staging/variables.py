"""What a body may change: variables of the function, arrays, and what objects hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from types import CellType
from typing import Any, Protocol

from xdsl.ir import Block

from mlc.frontend.errors import ALIASED_VARIABLE, COPY, NotSupportedError
from mlc.frontend.staging.joins import UNBOUND, Held, Misfit, Undecided, contents_held
from mlc.frontend.staging.journal import (
    Journal,
    contents_of,
    entries_of,
    journaled,
    put_entries,
    touched,
)
from mlc.frontend.staging.variants import narrowed
from mlc.frontend.trace.containers import flatten
from mlc.frontend.trace.source import user_site
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Value
from mlc.lazy_dataclass import dataclass

Body = Callable[..., Any]


class Variable(Protocol):
    """A place whose value a body may change."""

    @property
    def name(self) -> str:
        """As the user calls it."""
        ...

    def get(self) -> Any:
        """What is there now."""
        ...

    def put(self, value: Any) -> None:
        """Something else is there from now on."""
        ...


@dataclass(frozen=True, eq=False)
class Local:
    """A variable of the function; `hidden`: one that it does not name."""

    name: str
    cell: CellType
    hidden: bool = False

    def get(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:  # empty
            return UNBOUND

    def put(self, value: Any) -> None:
        if value is not UNBOUND:
            self.cell.cell_contents = value
        elif self.get() is not UNBOUND:
            del self.cell.cell_contents


@dataclass(frozen=True)
class Contents:
    """All that a list, a dict or an object holds, place by place."""

    name: str
    obj: Any

    def get(self) -> Any:
        return entries_of(contents_of(self.obj))

    def put(self, value: Any) -> None:
        touched(self.obj)
        put_entries(self.obj, value)


@dataclass(frozen=True)
class Item:
    """One place of a list, a dict or an object."""

    name: str
    obj: Any
    key: Any

    def get(self) -> Any:
        return entries_of(contents_of(self.obj))[self.key]

    def put(self, value: Any) -> None:
        touched(self.obj)
        put_entries(self.obj, {**entries_of(contents_of(self.obj)), self.key: value})


@dataclass(frozen=True)
class Elements:
    """The elements of an array that is written in place."""

    name: str
    array: Value

    def get(self) -> Any:
        return self.array

    def put(self, value: Any) -> None:
        self.array.write(value.value)


def locals_of(bodies: Iterable[Body | bool | None], names: Sequence[str]) -> list[Local]:
    """The variables of these names, which the bodies share with their function."""
    found: dict[str, CellType] = {}
    for body in bodies:
        if callable(body):
            function: Any = body
            closure: tuple[CellType, ...] = function.__closure__ or ()
            found |= dict(zip(function.__code__.co_freevars, closure, strict=True))
    return [Local(name, found[name]) for name in names if name in found]


def alone(body: Body, own: Sequence[Local]) -> Body:
    """A body before and after which its own variables have no value."""
    if not own:
        return body

    @wraps(body)
    def trip(*args: Any) -> Any:
        for variable in own:
            variable.put(UNBOUND)
        try:
            return body(*args)
        finally:
            for variable in own:
                variable.put(UNBOUND)

    return trip


@dataclass
class Traced:
    """A body in a block of its own: what it gave, and what it left in the variables it changed."""

    block: Block
    outcome: Any
    locals: list[Held]  # one for each local that was asked for
    journal: Journal
    arrays: dict[int, Held]
    objects: dict[int, dict[Any, Held]]  # those that it changed, and others that were asked for


def traced(
    block: Block,
    body: Callable[[], Any],
    local: Sequence[Local],
    given: Callable[[Any], Any],
    also: Sequence[Any] = (),
) -> Traced:
    """
    Runs the body; afterwards everything is as before. `given`: of its outcome, in the body. `also`:
    objects of which it is said what they hold in the end.
    """
    before = [variable.get() for variable in local]
    try:
        with journaled(block) as journal:
            outcome = given(narrowed(body()))
            held = [left_in(variable) for variable in local]
            arrays = {id(x): Held.of(x) for x in journal.arrays}
            for variable in local:
                journal.objects.pop(id(variable.cell), None)
            asked = [x for x, _ in journal.objects.values()] + [*also]
            objects = {id(x): contents_held(contents_of(x)) for x in asked}
    finally:
        for variable, value in zip(local, before, strict=True):
            variable.put(value)
    journal.undo()
    return Traced(block, outcome, held, journal, arrays, objects)


def left_in(variable: Variable) -> Held:
    """What a variable holds; one that may be an array which has been written is used by mistake."""
    value = narrowed(variable.get())
    if any(isinstance(x, Tracer) and x.may_be_written() for x in flatten(value)[0]):
        misfit = Misfit(NotSupportedError, ALIASED_VARIABLE, COPY)
        return Held.of(Undecided(variable.name, misfit, user_site()))
    return Held.of(value)


def of_tracer(value: Value) -> Held:
    """An array as it is here."""
    assert isinstance(value, Tracer)
    return Held.of(value)
