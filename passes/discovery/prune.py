"""
Which of the pairs of equal programs say something of their own.

A pair is a row of a table and the first row of its class. Two questions are asked here, of all rows
at once: whether another one is the same but for the names of its inputs, and whether both sides
have a part in common that could be anything. What smaller rules imply is asked in `implied.py`.
SOURCE: Jia et al., TASO, SOSP 2019, section 3.2, has both of these.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.passes.discovery.implied import Index
from mlc.passes.discovery.table import Table


class Pruning:
    """The prunings of the pairs of the largest programs of a table."""

    def __init__(self, table: Table, below: Index, here: Index) -> None:
        self.table, self.below, self.here = table, below, here

    def readable(self, rows: Array) -> Array:
        """For which rows one side reads nothing that the other does not: what a rule needs."""
        left, right = self.table.inputs[rows], self.table.inputs[self.table.rep[rows]]
        return ((left & ~right) == 0) | ((right & ~left) == 0)

    def first_names(self, rows: Array) -> Array:
        """For which rows no other one is the same with other names of the inputs."""
        least = rows.copy()
        for names in self._renamings():
            classes = self._renamed_classes(names)
            found = self._looked_up(self.here, rows, classes)
            least = np.where(found >= 0, np.minimum(least, found), least)
        return least == rows

    def _renamings(self) -> Iterator[Array]:
        """All ways to exchange inputs of one shape, but none."""
        shapes = self.table.space.inputs
        known = dict.fromkeys(shapes)
        groups = [[k for k, s in enumerate(shapes) if s == shape] for shape in known]
        for turned in itertools.product(*(itertools.permutations(group) for group in groups)):
            names = np.arange(len(shapes), dtype=np.int32)
            for group, order in zip(groups, turned, strict=True):
                names[group] = order
            if (names != np.arange(len(shapes))).any():
                yield names

    def _renamed_classes(self, names: Array) -> Array:
        """For each smaller program the class that it is in with other names; -1: not here."""
        table = self.table
        found = np.full(table.starts[table.level], -1, np.int32)
        found[: len(names)] = names
        for size in range(1, table.level):
            rows = table.rows(size)
            seen = self._looked_up(self.below, rows, found)
            found[rows] = np.where(seen >= 0, table.rep[seen], -1)
        return found

    def _looked_up(self, index: Index, rows: Array, classes: Array) -> Array:
        """Rows whose operands are replaced by other classes."""
        table = self.table
        found = np.full(len(rows), -1, np.int32)
        a = classes[table.a[rows]]
        b = np.where(table.b[rows] >= 0, classes[table.b[rows]], -1)
        is_known = (a >= 0) & ((table.b[rows] < 0) | (b >= 0))
        for number, word in enumerate(table.space.words):
            here = np.flatnonzero((table.op[rows] == number) & is_known)
            found[here] = index.find(word.name, a[here], b[here])
        return found

    def apart(self, rows: Array) -> Array:
        """For which rows no part of both sides could be anything."""
        keep = ~self._same_end(rows)
        for k in range(self.table.depth - 1):
            at = np.flatnonzero(keep)
            part = self.table.cone[rows[at], k]
            shared = self._is_part(part, self.table.rep[rows[at]])
            at, part = at[shared], part[shared]
            keep[at[self._could_be_anything(rows[at], part)]] = False
        return keep

    def _same_end(self, rows: Array) -> Array:
        """Both sides are the same op, and one operand is, too."""
        table = self.table
        reps = table.rep[rows]
        a, b, c, d = table.a[rows], table.b[rows], table.a[reps], table.b[reps]
        commutes = self.below.commutes[table.op[rows]]
        straight, crossed = (a == c) | (b == d), (a == d) | (b == c)
        is_binary = (b >= 0) & (d >= 0)
        return (table.op[rows] == table.op[reps]) & is_binary & (straight | (commutes & crossed))

    def _is_part(self, part: Array, of: Array) -> Array:
        return (part >= 0) & (self.table.cone[of] == part[:, None]).any(1)

    def _could_be_anything(self, rows: Array, part: Array) -> Array:
        """For which rows both sides stay equal with an input of its own for a part."""
        table = self.table
        used = table.inputs[rows] | table.inputs[table.rep[rows]]
        found = np.zeros(len(rows), bool)
        open_rows = np.ones(len(rows), bool)
        for number, shape in enumerate(table.space.inputs):
            fits = open_rows & (used & (1 << number) == 0)
            fits &= table.shape[part] == table.number[shape]
            at = np.flatnonzero(fits)
            if len(at):
                open_rows[at] = False
                left = self._replaced(rows[at], part[at], number)
                right = self._replaced(table.rep[rows[at]], part[at], number)
                is_known = (left >= 0) & (right >= 0)
                found[at] = is_known & (table.rep[left] == table.rep[right])
        return found

    def _replaced(self, rows: Array, part: Array, by: int) -> Array:
        """Rows in which a part is an input instead; -1 where that is not here."""
        table = self.table
        found = np.where(rows == part, np.int32(by), rows)
        inside = np.flatnonzero(self._is_part(part, rows) & (rows != part))
        if not len(inside):
            return found
        inner, what = rows[inside], part[inside]
        a = self._replaced(table.a[inner], what, by)
        b = np.full(len(inner), -1, np.int32)
        binary = np.flatnonzero(table.b[inner] >= 0)
        b[binary] = self._replaced(table.b[inner[binary]], what[binary], by)
        is_known = a >= 0
        is_known[binary] &= b[binary] >= 0
        a, b = np.where(a >= 0, table.rep[a], -1), np.where(b >= 0, table.rep[b], -1)
        result = np.full(len(inner), -1, np.int32)
        for number, word in enumerate(table.space.words):
            at = np.flatnonzero((table.op[inner] == number) & is_known)
            result[at] = self.here.find(word.name, a[at], b[at])
        found[inside] = result
        return found
