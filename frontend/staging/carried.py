"""What the trips of a loop pass on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

from xdsl.ir import SSAValue

from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.joins import Held
from mlc.frontend.staging.options import is_number_or_array, zero_of
from mlc.frontend.staging.sized import cut
from mlc.frontend.staging.variables import Local, Variable
from mlc.frontend.trace.containers import unflatten
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass


@dataclass
class Carried:
    """A variable that trips pass on: what it starts as, and which of its leaves are carried."""

    variable: Variable
    start: Held
    seen: bool = True  # by the first trip
    leaves: list[Tracer | None] = field(default_factory=list[Tracer | None])
    alone: bool = False  # nothing but the variable leads to its array
    # by leaf whose size trips change: for each axis how many elements of it are used, if not all
    sizes: dict[int, list[Tracer | None]] = field(default_factory=dict[int, list[Tracer | None]])

    @staticmethod
    def of(variable: Variable, alone: bool = False) -> Carried:
        """With numbers lifted, where the loop will stand."""
        start = Held.of(variable.get())
        return Carried(variable, start, True, [lifted(x) for x in start.leaves], alone)

    @staticmethod
    def unseen(variable: Variable, end: Held) -> Carried:
        """Of a variable that has no value before its first trip, which leaves this one."""
        zeros = [zero_of(x) if is_number_or_array(x) else None for x in end.leaves]
        return Carried(variable, end, False, zeros)

    @property
    def arrays(self) -> list[Tracer]:
        """What is carried."""
        found: list[Tracer] = []
        for k, leaf in enumerate(self.leaves):
            if leaf is not None:
                found += [leaf, *(x for x in self.sizes.get(k, ()) if x is not None)]
        return found

    def taken(self, k: int, rest: Iterator[SSAValue]) -> SSAValue:
        """A leaf, of the values that stand for what is carried."""
        value, sizes = next(rest), self.sizes.get(k)
        return (
            value
            if sizes is None
            else cut(value, [None if x is None else next(rest) for x in sizes])
        )

    def enter(self, arguments: Sequence[SSAValue]) -> None:
        """In the body: the variable holds the block's arguments."""
        if not self.seen:
            return
        rest = iter(arguments)
        made: list[Any] = []
        for k, (leaf, kept) in enumerate(zip(self.leaves, self.start.leaves, strict=True)):
            held = kept if leaf is None else Tracer(here(), self.taken(k, rest), weak=leaf.weak)
            made.append(held)
        if not self.alone and isinstance(self.variable, Local):
            for new, old in zip(made, self.start.leaves, strict=True):
                if isinstance(new, Tracer) and isinstance(old, Tracer):
                    new.share(old)
                    if old.is_another:
                        new.show(old, read=False)
        self.variable.put(unflatten(self.start.structure, made))


def lifted(leaf: Any) -> Tracer | None:
    if not is_number_or_array(leaf):
        return None
    found = lift(leaf)
    return Tracer(here(), found.value, weak=found.weak)
