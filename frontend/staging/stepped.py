"""
Arrays that get longer, or shorter, by the same number in each trip: a loop carries one with room
for the largest, of which each trip has the part that its number says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from xdsl.ir import Block, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.dims import Dim, Shape, tensor_type
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.frontend.staging.sized import ZERO, first_of, padded
from mlc.frontend.staging.variables import Local
from mlc.frontend.trace.symbolic import bounds
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Steps:
    """The sizes that an array begins with, and by how much each changes from trip to trip."""

    first: Shape
    by: tuple[int, ...]

    def at(self, trip: Dim) -> Shape:
        """The sizes where a trip begins."""
        return tuple(n + trip * k for n, k in zip(self.first, self.by, strict=True))

    def room(self, trips: Dim) -> Shape:
        """The largest sizes of so many trips."""
        last = self.at(trips)
        return tuple(b if k > 0 else a for a, b, k in zip(self.first, last, self.by, strict=True))

    def part(self, x: SSAValue, trip: Dim) -> SSAValue:
        """Where a trip begins: its part of what has room."""
        declared = tensor_type(tensor_of(x).element_type, self.at(trip))
        return here().emit(DynamicSliceOp, x, *self._zeros(), declared=declared)

    def written(self, x: SSAValue, part: SSAValue) -> SSAValue:
        """Where a trip ends: what it leaves, in what has room."""
        return here().emit(DynamicUpdateOp, x, part, *self._zeros())

    def result(self, x: SSAValue, trips: Dim) -> SSAValue:
        """After the last trip."""
        return first_of(x, self.at(trips))

    def _zeros(self) -> list[SSAValue]:
        zero = lift_size(ZERO).value
        return [zero] * len(self.first)


def steps_of(first: Shape, left: Shape, trip: Dim, trips: Dim) -> Steps | None:
    """
    How sizes change in a trip of that number that begins with the first ones, or with those that
    the trip before left; None where they do not by constants, or where they would become negative.
    """
    if len(first) != len(left):
        return None
    by: list[int] = []
    for start, end in zip(first, left, strict=True):
        step = (end.substitute(dict.fromkeys(trip.symbols(), ZERO)) - start).constant
        if step is None or end not in (start + step, start + (trip + 1) * step):
            return None
        least, _ = bounds(start + trips * step)
        if step < 0 and (least is None or least < 0):
            return None
        by.append(step)
    return Steps(first, tuple(by)) if any(by) else None


Change = tuple[int, ...]
"""By how much each size of an array changes in a trip."""


class TripSizes:
    """By how much sizes of variables have changed in the last trip, from when it is looked."""

    def __init__(self, local: Sequence[Local]) -> None:
        self.changes: dict[int, Change] = {}
        self._local = local
        self._before: dict[int, Shape] | None = None  # where the trip began, if it is looked

    def look(self) -> None:
        """A trip begins, which Python runs."""
        self._before, self.changes = self._now(), {}

    def after_trip(self) -> None:
        """It has ended, and the next one begins."""
        if self._before is None:
            return
        before = self._before
        self.look()
        for key, now in self._before.items():
            steps = steps_of(before.get(key, now), now, ZERO, ZERO)
            if steps is not None:
                self.changes[key] = steps.by

    def _now(self) -> dict[int, Shape]:
        held = ((variable, variable.get()) for variable in self._local)
        return {id(v.cell): x.dims for v, x in held if isinstance(x, Tracer)}


@dataclass
class Counting:
    """
    A loop that counts its trips, all of which run. `changes`: of sizes of variables in the trip
    before, which those to come may make, too.
    """

    count: SSAValue
    sliced: bool
    in_order: bool
    changes: Mapping[int, Change]

    @cached_property
    def trips(self) -> Dim | None:
        """How many, if sizes may say it."""
        if not (self.in_order and here().sizes_of_trips):
            return None
        bound = here().bound
        most = bound.ranges.greatest(bound.ranges.of(self.count))
        return None if most is None else bound.size(self.count, most)

    def loop(self, block: Block) -> AbstractContextManager[None]:
        """Its body is traced."""
        self.index = block.args[0]
        return here().bound.loop(block, self.index, self.count, sliced=self.sliced)

    def trip(self) -> Dim:
        """In the body: the number of the trip, which sizes may say."""
        assert self.trips is not None
        found = here().bound.size(self.index, self.trips)
        assert found is not None
        return found

    def steps(self, leaf: Tracer, left: Shape) -> tuple[Tracer, Steps] | None:
        """Room for what trips leave of an array, and how its sizes change, if by constants."""
        if leaf.dims == left:
            return None
        return self._of(leaf, left, here().bound.ranges.of(self.index))

    def hoped(self, variable: Local, leaf: Tracer) -> tuple[Tracer, Steps] | None:
        """Likewise, as the size of a variable has changed before."""
        change = self.changes.get(id(variable.cell))
        if change is None or len(change) != leaf.ndim:
            return None
        return self._of(leaf, tuple(n + k for n, k in zip(leaf.dims, change, strict=True)), ZERO)

    def _of(self, leaf: Tracer, left: Shape, trip: Dim) -> tuple[Tracer, Steps] | None:
        if self.trips is None:
            return None
        steps = steps_of(leaf.dims, left, trip, self.trips)
        if steps is None:
            return None
        return Tracer(here(), padded(leaf.value, steps.room(self.trips)), weak=leaf.weak), steps

    def after(self, steps: Steps) -> Shape:
        """The sizes that a trip must leave."""
        return steps.at(here().bound.ranges.of(self.index) + 1)
