"""What a loop hands on where no trip has touched it: whether there was one is a value then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType, CodeType
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.tensor.control import discard
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
    leaving: bool,
    trips: Any,
    none: NoTrip | None,
    code: CodeType,
) -> tuple[Rolled, Sequence[Local], NoTrip | None]:
    """
    `roll` of a loop that a test ends, its variables, and whether there was no trip: one more
    variable says so, where numbers are of another class then. Raises Peel, MlcError.
    """
    rolled = roll(variables, (), trip, given, runs or leaving, trips, code=code)
    if none is not None or runs or not rolled.converts:
        return rolled, variables, None if runs else none
    discard(rolled.body.block)
    ran = Local("", CellType(False))

    def noted(arguments: Sequence[SSAValue]) -> None:
        trip(arguments)
        ran.put(True)

    again = roll([*variables, ran], (), noted, given, leaving, trips, code=code)
    again.lists = [*rolled.lists, *again.lists]
    return again, [*variables, ran], lambda: logical_not(ran.get())
