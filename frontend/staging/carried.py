"""What the trips of a loop pass on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BOOL
from mlc.dialects.tensor.control import discard
from mlc.frontend.numpy.values import lift, number
from mlc.frontend.staging.joins import Held
from mlc.frontend.staging.options import is_number_or_array, zero_of
from mlc.frontend.staging.sized import cut
from mlc.frontend.staging.stepped import Steps
from mlc.frontend.staging.variables import Local, Variable
from mlc.frontend.staging.wholes import (
    class_apart,
    is_class,
    is_converted,
    python_class,
    row_of,
    whole_of,
)
from mlc.frontend.trace.containers import unflatten
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Whole
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
    # by leaf whose sizes change by the same numbers in each trip
    steps: dict[int, Steps] = field(default_factory=dict[int, Steps])
    # by leaf that a trip may leave as one of Python's numbers: whether it is one, its class
    wholes: dict[int, tuple[Tracer, type[Any]]] = field(
        default_factory=dict[int, tuple[Tracer, type[Any]]]
    )

    @staticmethod
    def of(variable: Variable, alone: bool = False) -> Carried:
        """With numbers lifted, where the loop will stand."""
        return Carried.started(variable, Held.of(variable.get()), alone)

    @staticmethod
    def started(variable: Variable, start: Held, alone: bool = False) -> Carried:
        """Of a variable that starts as something."""
        found = Carried(variable, start, True, [_lifted(x) for x in start.leaves], alone)
        return found.with_wholes(start)

    @staticmethod
    def unseen(variable: Variable, end: Held) -> Carried:
        """Of a variable that has no value before its first trip, which leaves this one."""
        zeros = [zero_of(x) if is_number_or_array(x) else None for x in end.leaves]
        return Carried(variable, end, False, zeros).with_wholes(end)

    @property
    def may_be_unset(self) -> bool:
        """Whether it is a variable that has no value where there was no trip."""
        return not self.seen and isinstance(self.variable, Local) and not self.variable.hidden

    @property
    def arrays(self) -> list[Tracer]:
        """What is carried."""
        return [x for k in range(len(self.leaves)) for x in self._carried(k)]

    def width(self, k: int) -> int:
        """How many values are carried for a leaf."""
        return len(self._carried(k))

    def _carried(self, k: int) -> list[Tracer]:
        leaf = self.leaves[k]
        if leaf is None:
            return []
        found = [leaf, *(x for x in self.sizes.get(k, ()) if x is not None)]
        return [*found, self.wholes[k][0]] if k in self.wholes else found

    def taken(self, k: int, rest: Iterator[SSAValue], trip: Dim | None = None) -> SSAValue:
        """A leaf, of the values that stand for what is carried, where a trip begins."""
        value, sizes = next(rest), self.sizes.get(k)
        if k in self.steps:
            assert trip is not None
            return self.steps[k].part(value, trip)
        return (
            value
            if sizes is None
            else cut(value, [None if x is None else next(rest) for x in sizes])
        )

    def enter(self, arguments: Sequence[SSAValue], trip: Dim | None = None) -> None:
        """In the body: the variable holds the block's arguments. `trip`: its number, if any."""
        if not self.seen:
            return
        rest = iter(arguments)
        made: list[Any] = []
        for k, (leaf, kept) in enumerate(zip(self.leaves, self.start.leaves, strict=True)):
            held = (
                kept if leaf is None else Tracer(here(), self.taken(k, rest, trip), weak=leaf.weak)
            )
            if k in self.wholes:
                held.whole = Whole(next(rest), self.wholes[k][1])
            made.append(held)
        if not self.alone and isinstance(self.variable, Local):
            for new, old in zip(made, self.start.leaves, strict=True):
                if isinstance(new, Tracer) and isinstance(old, Tracer):
                    new.share(old)
                    if old.is_another:
                        new.show(old, read=False)
        self.variable.put(unflatten(self.start.structure, made))

    def with_wholes(self, end: Held) -> Carried:
        """Itself, or with whether numbers are Python's where that is open at its start or end."""
        if self.start.structure != end.structure:
            return self
        kinds: dict[int, type[Any]] = {}
        for k, (leaf, last) in enumerate(zip(self.leaves, end.leaves, strict=False)):
            if leaf is not None and (kind := class_apart(last, leaf)) is not None:
                kinds[k] = kind
        return self._asking(kinds, end.leaves)

    def asked(self, before: Carried) -> Carried:
        """Likewise, where that was open when the body was traced before."""
        kinds = {k: kind for k, (_, kind) in before.wholes.items() if k < len(self.leaves)}
        kinds = {k: kind for k, kind in kinds.items() if self._is_like(k, before.leaves[k])}
        return self._asking(kinds, before.leaves)

    def _is_like(self, k: int, other: Tracer | None) -> bool:
        leaf = self.leaves[k]
        return leaf is not None and other is not None and leaf.row is other.row

    def _asking(self, kinds: Mapping[int, type[Any]], lasts: Sequence[Any]) -> Carried:
        """With these classes; where trips leave NumPy's numbers, what says so is only whether."""
        wholes, leaves = dict(self.wholes), list(self.leaves)
        for k, kind in kinds.items():
            if k in wholes:
                continue
            start = is_class(self.start.leaves[k], kind) if self.seen else number(False, BOOL)
            wholes[k] = Tracer(here(), start), kind
            leaf, last = leaves[k], lasts[k]
            if leaf is not None and isinstance(last, Tracer) and last.row is leaf.row:
                leaves[k] = Tracer(here(), leaf.value, weak=leaf.weak and last.weak)
        same = len(wholes) == len(self.wholes)
        return self if same else replace(self, wholes=wholes, leaves=leaves)

    def converts(self, k: int) -> bool:
        """Whether a number is another one after no trip than its dtype says after one."""
        leaf, start = self.leaves[k], self.start.leaves[k]
        if leaf is None or leaf.dims or not self.seen:
            return False
        if k in self.wholes:  # a flag says which of two classes it is, of one dtype
            whole = whole_of(start)
            own = python_class(start) if whole is None else whole.kind
            return row_of(start) is not leaf.row or own not in (None, self.wholes[k][1])
        return is_converted(start, leaf)


def asking(carried: Sequence[Carried], ends: Sequence[Held]) -> list[Carried]:
    """What is carried, with whether numbers are Python's where that is open; none if so already."""
    made = [c.with_wholes(end) for c, end in zip(carried, ends, strict=True)]
    return made if any(x is not c for x, c in zip(made, carried, strict=True)) else []


def without_asked(
    block: Block, first: int, carried: Sequence[Carried], ends: Sequence[Held]
) -> list[Carried]:
    """What is carried, but for whether numbers are Python's that surely are not after a trip."""
    made: list[Carried] = []
    given_on = {w.condition for end in ends for x in end.leaves if (w := whole_of(x)) is not None}
    place = first
    for c, end in zip(carried, ends, strict=True):
        kept = dict(c.wholes)
        for k in range(len(c.leaves)):
            place += c.width(k)
            if k not in kept:
                continue
            last, argument = end.leaves[k], block.args[place - 1]
            if (
                whole_of(last) is None
                and python_class(last) is None
                and not argument.uses.get_length()
                and argument not in given_on
            ):
                block.erase_arg(argument)
                place -= 1
                del kept[k]
        made.append(replace(c, wholes=kept))
    return made


def take_unseen(block: Block, found: Sequence[Carried]) -> bool:
    """
    Whether no trip sees what is carried, so that the body need not be traced again with it; else
    what was traced is given up.
    """
    if any(c.seen for c in found):
        discard(block)
        return False
    for x in (x for c in found for x in c.arrays):
        block.insert_arg(x.value.type, len(block.args))
    return True


def _lifted(leaf: Any) -> Tracer | None:
    if not is_number_or_array(leaf):
        return None
    found = lift(leaf)
    return Tracer(here(), found.value, weak=found.weak or isinstance(leaf, bool))
