"""
What rules imply: rows of a table are joined where a rule says that they are equal.

A rule is matched at all rows at once. Programs below the largest size are represented by their
class, since what is equal there has been implied already; so a match of an inner op is a join with
the members of a class, and the other side is looked up op by op. SOURCE: the idea is that of Nandi
et al., Ruler, OOPSLA 2021: keep a rule only if those that are kept do not imply it.
"""

from __future__ import annotations

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.passes.discovery.table import Table, ranges
from mlc.passes.discovery.terms import Pair, Term, subterms, variables

_A, _OP = np.int64(28), np.int64(56)


class Index:
    """The rows of a table up to a size, to be looked up by op and operands, and by class and op."""

    def __init__(self, table: Table, size: int) -> None:
        self.table = table
        end = table.starts[size + 1]
        self.words = {word.name: k for k, word in enumerate(table.space.words)}
        self.commutes = np.array([w.commutes for w in table.space.words])
        start = table.starts[1]
        code = coded(table.op[start:end], table.a[start:end], table.b[start:end])
        self.order = np.argsort(code, kind="stable")
        self.code = code[self.order]
        self.order = (self.order + start).astype(np.int32)
        rows = np.arange(start, end, dtype=np.int32)
        swapped = rows[self.commutes[table.op[rows]] & (table.a[rows] != table.b[rows])]
        self.member = np.concatenate([rows, swapped])
        self.member_a = np.concatenate([table.a[rows], table.b[swapped]])
        self.member_b = np.concatenate([table.b[rows], table.a[swapped]])
        of = class_of(table.rep[self.member], table.op[self.member])
        order = np.argsort(of, kind="stable")
        self.of = of[order]
        self.member_a, self.member_b = self.member_a[order], self.member_b[order]

    def find(self, op: str, a: Array, b: Array) -> Array:
        """The row of an op on classes, -1 where there is none."""
        number = self.words[op]
        if self.commutes[number]:
            a, b = np.minimum(a, b), np.maximum(a, b)
        if not len(self.code):
            return np.full(len(a), -1, np.int32)
        code = coded(np.int64(number), a, b)
        at = np.minimum(np.searchsorted(self.code, code), len(self.code) - 1)
        return np.where(self.code[at] == code, self.order[at], -1)


def coded(op: Array | np.int64, a: Array, b: Array) -> Array:
    """A number for an op with its operands."""
    return (op.astype(np.int64) << _OP) | (a.astype(np.int64) << _A) | (b.astype(np.int64) + 1)


def class_of(rep: Array, op: Array | int) -> Array:
    """A number for the members of a class whose op is this one."""
    return rep.astype(np.int64) << 8 | op


class Proofs:
    """
    Which rows of the largest size are equal to the first of their class by what is known so far.
    `label`: the first row that is known to be equal; of smaller programs it is that of the class.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.below = Index(table, table.level - 1)
        self.here = Index(table, table.level)
        self.start = table.starts[table.level]
        rows = table.rows(table.level)
        reps, count = np.unique(table.rep[rows], return_counts=True)
        several = (count > 1) | (reps < self.start)
        self.rows = rows[np.isin(table.rep[rows], reps[several])]
        self.label = table.rep.copy()
        self.label[self.rows] = self.rows
        self.is_set_aside = np.zeros(len(table), bool)
        self._find_active()

    def _find_active(self) -> None:
        """The rows of classes in which some row is open."""
        open_rows = self.rows[self.is_open(self.rows)]
        reps = np.zeros(len(self.table), bool)
        reps[self.table.rep[open_rows]] = True
        rows = self.rows[reps[self.table.rep[self.rows]]]
        ops = self.table.op[rows]
        self.active = {k: rows[ops == k] for k in np.unique(ops).tolist()}

    def is_open(self, rows: Array) -> Array:
        """For which rows nothing says that they are equal to the first of their class."""
        return (self.label[rows] != self.label[self.table.rep[rows]]) & ~self.is_set_aside[rows]

    def open(self) -> Array:
        """The rows that are open."""
        return self.rows[self.is_open(self.rows)]

    def set_aside(self, row: int) -> None:
        """Nothing will be known of a row, nor of those that are equal to it."""
        same = self.rows[self.label[self.rows] == self.label[row]]
        self.is_set_aside[same] = True

    def close(self, row: int) -> None:
        """Takes it that a row is equal to the first of its class."""
        self._join(np.array([row]), self.table.rep[[row]])

    def apply(self, pair: Pair) -> int:
        """Joins what a rule of one result says is equal; how many rows that closes."""
        left, right = pair.sides
        every = (*subterms(left), *subterms(right))
        before = len(self.open())
        if all(isinstance(t, int) or t[0] in self.here.words for t in every):
            for pattern, other in ((left, right), (right, left)):  # either may be the larger row
                known = set(variables(other)) <= set(variables(pattern))
                if not isinstance(pattern, int) and known:
                    self._join(*self._edges(pattern, other))
        self._find_active()
        return before - len(self.open())

    def _edges(self, pattern: Term, other: Term) -> tuple[Array, Array]:
        """Rows that a pattern matches, and the rows that the other side is there."""
        assert not isinstance(pattern, int)
        number = self.below.words.get(pattern[0], -1)
        rows = self.active.get(number, np.zeros(0, np.int32))
        a, b = self.table.a[rows], self.table.b[rows]
        if len(pattern) == 3 and self.below.commutes[number]:
            turned = a != b
            rows = np.concatenate([rows, rows[turned]])
            a, b = np.concatenate([a, b[turned]]), np.concatenate([b, a[turned]])
        at, binding = self._matched(list(zip(pattern[1:], (a, b), strict=False)), len(rows))
        rows = rows[at]
        found = self._row(other, binding)
        here = found >= 0
        rows, found = rows[here], found[here]
        same = self.table.rep[rows] == self.table.rep[found]  # else a split cuts elsewhere there
        return rows[same], found[same]

    def _matched(
        self, pending: list[tuple[Term, Array]], length: int
    ) -> tuple[Array, dict[int, Array]]:
        """Which rows match, once for each way in which they do, and the classes of inputs."""
        at = np.arange(length)
        binding: dict[int, Array] = {}
        index = self.below
        while pending:
            pending.sort(key=lambda pair: not isinstance(pair[0], int))  # inputs cost no join
            term, classes = pending.pop(0)
            if isinstance(term, int):
                if term not in binding:
                    binding[term] = classes
                    continue
                keep = np.flatnonzero(binding[term] == classes)
                fresh: list[Array] = []
            else:
                code = class_of(classes, index.words.get(term[0], 255))
                start = np.searchsorted(index.of, code)
                stop = np.searchsorted(index.of, code, "right")
                keep = np.repeat(np.arange(len(classes)), stop - start)
                members = ranges(start, stop)
                fresh = [index.member_a[members], index.member_b[members]]
            at = at[keep]
            binding = {name: found[keep] for name, found in binding.items()}
            pending = [(each, found[keep]) for each, found in pending]
            if not isinstance(term, int):
                pending += zip(term[1:], fresh, strict=False)
        return at, binding

    def _row(self, term: Term, binding: dict[int, Array]) -> Array:
        """The rows of a term whose inputs are these classes; -1 where there are none."""
        if isinstance(term, int):
            return binding[term]
        operands = [self._row(x, binding) for x in term[1:]]
        classes = [np.where(x >= 0, self.table.rep[x], -1) for x in operands]
        known = np.all([x >= 0 for x in classes], 0)
        b = classes[1] if len(classes) > 1 else np.full_like(classes[0], -1)
        found = np.full(len(known), -1, np.int32)
        found[known] = self.here.find(term[0], classes[0][known], b[known])
        return found

    def _join(self, x: Array, y: Array) -> None:
        """Makes the labels of pairs the same, the smaller one."""
        label = self.label
        while True:
            one, other = label[x], label[y]
            differ = one != other
            if not differ.any():
                return
            low, high = np.minimum(one, other)[differ], np.maximum(one, other)[differ]
            np.minimum.at(label, high, low)
            while True:
                following = label[label[self.rows]]
                if np.array_equal(following, label[self.rows]):
                    break
                label[self.rows] = following


def term_of(table: Table, row: int) -> Term:
    """A row as a term."""
    op = int(table.op[row])
    if op < 0:
        return row
    word = table.space.words[op]
    operands = [int(table.a[row]), int(table.b[row])][: word.parts]
    return (word.name, *(term_of(table, k) for k in operands))
