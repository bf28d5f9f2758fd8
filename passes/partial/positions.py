"""
Positions as sums of letters and of quotients: where an element of a result reads, for all positions
of the result at once.

A letter is an axis of a result, or an axis that is summed. Reshapes divide: what is no multiple of
a letter stays as the floor of a quotient, whose value repeats, or grows by the same step, after a
period.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from mlc.dialects.tensor.element import Ix
from mlc.dialects.tensor.op import Array
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Letter:
    """An axis of `size` positions, from 0 on. `key` tells axes apart; the result's come first."""

    key: int
    size: int


@dataclass(frozen=True)
class Floor:
    """The whole part of a quotient."""

    of: Position
    by: int


Atom = Letter | Floor


@dataclass(frozen=True)
class Position(Ix):
    """constant + the sum of coefficient * atom."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int

    def __add__(self, other: Position) -> Position:
        return _summed([*self.terms, *other.terms], self.constant + other.constant)

    def times(self, factor: int) -> Position:
        """The position, multiplied."""
        return _summed([(a, c * factor) for a, c in self.terms], self.constant * factor)

    def bounds(self) -> tuple[int, int]:
        """The least and the largest value that it may have, or less and more."""
        low = high = self.constant
        for atom, factor in self.terms:
            least, most = bounds(atom)
            low += min(least * factor, most * factor)
            high += max(least * factor, most * factor)
        return low, high

    def floor(self, by: int) -> Position:
        """The whole part of its quotient by a positive number."""
        whole = [(a, c // by) for a, c in self.terms if c % by == 0]
        rest = Position(tuple((a, c) for a, c in self.terms if c % by), self.constant % by)
        low, high = rest.bounds()
        constant = self.constant // by
        if low // by == high // by:
            return _summed(whole, constant + low // by)
        return _summed([*whole, (Floor(rest, by), 1)], constant)

    def letters(self) -> frozenset[Letter]:
        """All that it depends on."""
        found: set[Letter] = set()
        for atom, _ in self.terms:
            found |= {atom} if isinstance(atom, Letter) else atom.of.letters()
        return frozenset(found)

    def floors(self) -> frozenset[Floor]:
        """All quotients in it, those inside of others too."""
        found: set[Floor] = set()
        for atom, _ in self.terms:
            if isinstance(atom, Floor):
                found |= {atom, *atom.of.floors()}
        return frozenset(found)

    def at(self, values: Mapping[Letter, Array]) -> Array:
        """Its values, for arrays of the letters' that broadcast."""
        total = np.asarray(self.constant)
        for atom, factor in self.terms:
            known = values[atom] if isinstance(atom, Letter) else atom.of.at(values) // atom.by
            total = total + factor * known
        return total

    def period(self, letter: Letter) -> tuple[int, int]:
        """(period, step): what it grows by when the letter grows by the period, always."""
        found = [(c, period(a, letter)) for a, c in self.terms]
        whole = math.lcm(1, *(length for _, (length, _) in found))
        return whole, sum(c * step * (whole // length) for c, (length, step) in found)

    def slope(self, letter: Letter, stride: int) -> int:
        """
        What it grows by with each `stride` of the letter, where quotients whose period does not
        divide the stride stay as they are.
        """
        total = 0
        for atom, factor in self.terms:
            length, step = period(atom, letter)
            if stride % length == 0:
                total += factor * step * (stride // length)
        return total


def period(atom: Atom, letter: Letter) -> tuple[int, int]:
    """As `Position.period`."""
    if isinstance(atom, Letter):
        return 1, int(atom == letter)
    length, step = atom.of.period(letter)
    times = atom.by // math.gcd(step, atom.by)
    return length * times, step * times // atom.by


def bounds(atom: Atom) -> tuple[int, int]:
    """As `Position.bounds`."""
    if isinstance(atom, Letter):
        return 0, max(atom.size - 1, 0)
    low, high = atom.of.bounds()
    return low // atom.by, high // atom.by


def letter(key: int, size: int) -> Position:
    """The position along an axis."""
    return _summed([(Letter(key, size), 1)] if size > 1 else [], 0)


def constant(value: int) -> Position:
    """The same position everywhere."""
    return Position((), value)


def _summed(terms: list[tuple[Atom, int]], number: int) -> Position:
    total: dict[Atom, int] = {}
    for atom, factor in terms:
        total[atom] = total.get(atom, 0) + factor
    kept = [(a, c) for a, c in total.items() if c]
    kept.sort(key=_order)
    return Position(tuple(kept), number)


def _order(term: tuple[Atom, int]) -> tuple[int, str]:
    atom, _ = term
    return (atom.key, "") if isinstance(atom, Letter) else (-1, repr(atom))
