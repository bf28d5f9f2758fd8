"""What a loop hands on where no trip has touched it: whether there was one is a value then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, CodeType
from typing import Any

from xdsl.ir import SSAValue

from mlc.frontend.numpy.elementwise import less_equal, logical_not
from mlc.frontend.staging.rolled import Rolled, roll
from mlc.frontend.staging.variables import Local
from mlc.frontend.trace.tracer import Tracer

NoTrip = Callable[[], Tracer]
"""Whether there was no trip, asked behind the loop."""


def no_trip(count: Callable[[], Any]) -> NoTrip:
    """By the number of trips."""
    return lambda: less_equal(count(), 0)


def rolled_while(
    variables: Sequence[Local],
    trip: Callable[[Sequence[SSAValue]], Any],
    given: Callable[[Any], Any],
    runs: bool,
    trips: Any,
    none: NoTrip | None,
    code: CodeType,
) -> tuple[Rolled, Sequence[Local], NoTrip | None]:
    """
    `roll` of a loop that a test ends, its variables, and whether there was no trip: one more
    variable says so, where numbers are others then, or variables not set. Raises Peel, MlcError.
    """
    if none is not None or runs:
        rolled = roll(variables, (), trip, given, trips, code=code)
        return rolled, variables, None if runs else none
    ran = Local("", CellType(False))

    def noted(arguments: Sequence[SSAValue]) -> None:
        trip(arguments)
        ran.put(True)

    rolled = roll([*variables, ran], (), noted, given, trips, code=code)
    if not rolled.converts:
        _forget(rolled, ran)
        return rolled, variables, None
    return rolled, [*variables, ran], lambda: logical_not(ran.get())


def _forget(rolled: Rolled, variable: Local) -> None:
    """A variable that the body does not read is not carried."""
    which = next(k for k, c in enumerate(rolled.carried) if c.variable is variable)
    place = sum(len(c.arrays) for c in rolled.carried[:which])
    for held in (rolled.carried, rolled.ends):
        del held[which]
    for values in (rolled.arguments, rolled.yielded):
        del values[place]
    rolled.body.block.erase_arg(rolled.body.block.args[place])
