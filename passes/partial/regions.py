"""
Regions of a result: boxes of positions, and phases within them, in which two programs read at
positions that move evenly, so that few positions of each tell whether they are equal in all.

Along an axis a comparison of positions changes its answer, and the floor of a quotient its value,
at some places: there a band ends. A quotient that changes at most places repeats itself instead,
and the band has as many phases as its period is long.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.tensor.op import Array
from mlc.lazy_dataclass import dataclass
from mlc.passes.partial.positions import Floor, Letter, Position, period
from mlc.passes.partial.reads import Condition, NotReadError, Term, Terms, Test

MOST_VALUES = 2**21
"""Of a position, for all values of its letters."""
MOST_TESTED = 4096
"""Positions of one region."""


@dataclass(frozen=True)
class Run:
    """The positions start, start + step, …: `count` of them."""

    start: int
    step: int
    count: int

    def __str__(self) -> str:
        end = self.start + self.step * (self.count - 1) + 1
        if self.count == 1:
            return str(self.start)
        return f"{self.start}:{end}" + (f":{self.step}" if self.step > 1 else "")


Box = tuple[Run, ...]
"""A run for each axis."""


@dataclass(frozen=True)
class AxisCuts:
    """An axis of `size` positions, cut where bands start; each has the phases of a period."""

    size: int
    starts: tuple[int, ...]
    period: int

    def bands(self) -> list[tuple[int, int]]:
        """Where each band begins and ends."""
        return list(zip(self.starts, (*self.starts[1:], self.size), strict=True))

    def runs(self) -> list[Run]:
        """Each phase of each band."""
        return [
            Run(k, self.period, -(-(end - k) // self.period))
            for start, end in self.bands()
            for k in range(start, min(start + self.period, end))
        ]


Cuts = tuple[AxisCuts, ...]
Sides = tuple[Terms, Terms]
"""What an element of each program is."""


def boxes(cuts: Cuts) -> Iterator[Box]:
    """All regions, in row-major order."""
    return itertools.product(*(axis.runs() for axis in cuts))


def cuts_of(axes: Sequence[Letter], sides: Sides) -> Cuts:
    """The cuts of both programs together. NotReadError where there are too many values to try."""
    positions = {p for terms in sides for t in terms for p in t.positions()}
    conditions = {condition for terms in sides for t in terms for condition, _ in t.conditions}
    tests = {test for condition in conditions for test in condition}
    floors = {f for p in (*positions, *(t.of for t in tests)) for f in p.floors()}
    return tuple(_axis_cuts(axis, floors, tests) for axis in axes)


def _axis_cuts(axis: Letter, floors: set[Floor], tests: set[Test]) -> AxisCuts:
    """With the period that makes the fewest pieces."""
    own_floors = [f for f in floors if axis in f.of.letters()]
    own_tests = [t for t in tests if axis in t.of.letters()]
    values = [(_along(f.of, axis) // f.by, period(f, axis)[0]) for f in own_floors]
    values += [(_along(t.of, axis) >= 0, 0) for t in own_tests]
    periods = sorted({p for _, p in values if p and p < axis.size})
    tried = {1, *periods, math.lcm(1, *periods)}
    candidates = [
        _with_period(axis.size, values, length) for length in sorted(tried) if length <= axis.size
    ]
    return min(candidates, key=lambda cuts: len(cuts.runs()))


def _with_period(size: int, values: Sequence[tuple[Array, int]], period: int) -> AxisCuts:
    """Cut wherever a value is not what it was a period before, but quotients that grow evenly."""
    changes = np.zeros(size, bool)
    for rows, own in values:
        if own and period % own == 0:
            continue
        changes[period:] |= (rows[:, period:] != rows[:, :-period]).any(0)
    starts = (0, *(int(k) for k in np.flatnonzero(changes)))
    return AxisCuts(size, starts, period)


def _along(position: Position, axis: Letter) -> Array:
    """A position's values: a column for each place of an axis, rows for all other letters."""
    values = _values(position.letters(), {})
    order = sorted(values, key=lambda x: x.key)
    found = np.broadcast_to(position.at(values), [x.size for x in order])
    return np.moveaxis(found, order.index(axis), -1).reshape(-1, axis.size)


def _values(letters: frozenset[Letter], fixed: Mapping[int, int]) -> dict[Letter, Array]:
    """All values of letters, each along an axis of its own; fixed are those of some keys."""
    order = sorted(letters, key=lambda x: x.key)
    free = [x for x in order if x.key not in fixed]
    if math.prod(x.size for x in free) > MOST_VALUES:
        raise NotReadError(f"positions that depend on {len(free)} axes with too many values")
    found: dict[Letter, Array] = {}
    for k, x in enumerate(order):
        row = np.array([fixed[x.key]]) if x.key in fixed else np.arange(x.size)
        found[x] = row.reshape([-1 if j == k else 1 for j in range(len(order))])
    return found


# Positions to test


def tested_positions(axes: Sequence[Letter], box: Box, sides: Sides) -> list[tuple[int, ...]]:
    """
    Positions of a region at which equal programs are equal in all of it.

    Where each side moves in one way, a first position and its neighbour along each axis: a shift
    of one sum along an axis says by what it moves, and two sums that are equal at the first
    position and move in the same way are equal everywhere. Else a grid with as many places along
    an axis as there are ways to move along it: z^(a k) for different a are linearly independent
    over so many k (Vandermonde).
    """
    present = tuple([t for t in terms if _is_present(t, axes, box)] for terms in sides)
    ways: list[dict[tuple[SSAValue, ...], set[Motion]]] = [{}, {}]
    for found, terms in zip(ways, present, strict=True):
        for key, motion in (m for term in terms for m in _motions(term, axes, box)):
            found.setdefault(key, set()).add(motion)
    starts = [run.start for run in box]
    if all(len(motions) == 1 for found in ways for motions in found.values()):
        first = tuple(starts)
        return [
            first,
            *(
                (*first[:k], first[k] + run.step, *first[k + 1 :])
                for k, run in enumerate(box)
                if run.count > 1
            ),
        ]
    counts: list[int] = []
    for k, run in enumerate(box):
        keys = {key for found in ways for key in found}
        slopes = [{m[k] for found in ways for m in found.get(key, ())} for key in keys]
        counts.append(min(run.count, max(map(len, slopes), default=1)))
    if math.prod(counts) > MOST_TESTED:
        raise NotReadError(f"{math.prod(counts)} positions to test in one region")
    grid = itertools.product(*(range(n) for n in counts))
    return [tuple(r.start + r.step * k for r, k in zip(box, at, strict=True)) for at in grid]


Motion = tuple[tuple[int, ...], ...]
"""For each axis of the result, by how much each index that is read grows."""


def _motions(
    term: Term, axes: Sequence[Letter], box: Box
) -> Iterator[tuple[tuple[SSAValue, ...], Motion]]:
    """
    The arguments that are multiplied, and how the positions move: in each order of factors of one
    argument, since products commute.
    """
    factors = sorted(term.factors, key=lambda f: _place(f[0]))
    key = tuple(tensor for tensor, _ in factors)
    groups = [list(group) for _, group in itertools.groupby(factors, key=lambda f: f[0])]
    for orders in itertools.product(*(itertools.permutations(group) for group in groups)):
        points = [p for order in orders for _, point in order for p in point]
        yield (
            key,
            tuple(
                tuple(p.slope(axis, run.step) if run.count > 1 else 0 for p in points)
                for axis, run in zip(axes, box, strict=True)
            ),
        )


def _place(value: SSAValue) -> int:
    """Which argument it is."""
    return getattr(value, "index", -1)


def _is_present(term: Term, axes: Sequence[Letter], box: Box) -> bool:
    """Whether a term may be one in a region: at its first position, as conditions do not change."""
    fixed = {axis.key: run.start for axis, run in zip(axes, box, strict=True)}
    return all(_may_be(condition, is_true, fixed) for condition, is_true in term.conditions)


def _may_be(condition: Condition, is_true: bool, fixed: Mapping[int, int]) -> bool:
    letters = frozenset(x for test in condition for x in test.of.letters())
    values = _values(letters, fixed)
    found = np.asarray(True)
    for test in condition:
        found = found & (test.of.at(values) >= 0)
    return bool((found == is_true).any())
