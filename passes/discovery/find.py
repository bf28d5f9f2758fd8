"""
Finding rules: enumerate, compare, prune, verify, size after size.

What is found is the same whoever computes the keys and verdicts, and however many at once: pairs
are taken in one order, and a pair becomes a rule if those before it do not imply it and it is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.lazy_dataclass import dataclass
from mlc.passes.discovery.generality import is_instance
from mlc.passes.discovery.generalize import generalized
from mlc.passes.discovery.implied import Proofs, term_of
from mlc.passes.discovery.normal import Normal
from mlc.passes.discovery.order import WEIGHTS, directed
from mlc.passes.discovery.prune import Pruning
from mlc.passes.discovery.results import pairs_of_two
from mlc.passes.discovery.table import Table, Task
from mlc.passes.discovery.terms import Pair, subterms
from mlc.passes.discovery.words import ELEMENTWISE, Space
from mlc.passes.rules.rule import Rule

AHEAD = 32  # pairs whose verdicts are asked for at once


@dataclass(frozen=True)
class Verdict:
    """A pair's rule with its grade; without, `why` there is none."""

    rule: Rule | None
    why: str = ""


class StoppedError(Exception):
    """There is no time left."""


class Work(Protocol):
    """What a search has done for it, by one process or several, now or in an earlier run."""

    @property
    def looks_ahead(self) -> bool:
        """Whether it helps to ask for verdicts that may not be needed."""
        ...

    def keys(self, table: Table, name: str, tasks: Sequence[Task]) -> list[Array]:
        """The keys of the programs of tasks. Raises StoppedError."""
        ...

    def ahead(self, pairs: Sequence[Pair]) -> None:
        """Verdicts of pairs that may be asked for next."""
        ...

    def verdict(self, pair: Pair) -> Verdict:
        """Whether a pair is a rule, and of which class. Raises StoppedError."""
        ...

    def say(self, what: str, part: float) -> None:
        """How far the search is."""
        ...


@dataclass(frozen=True)
class Count:
    """How many there are after a stage, in one space and at one size."""

    space: str
    size: int
    stage: str
    number: int


@dataclass(frozen=True)
class Found:
    """
    The rules of a search, with the pairs that they state; `is_partial`: it was stopped, by time or
    by the limit on programs.
    """

    rules: dict[Pair, Rule]
    counts: list[Count]
    refused: dict[Pair, str]
    is_partial: bool


def discover(spaces: Sequence[Space], depth: int, limit: int | None, work: Work) -> Found:
    """
    The rules whose sides have at most `depth` ops, each counted once; `limit`: at most so many
    programs of each space.
    """
    search = _Search(depth, limit, work)
    try:
        for space in spaces:
            search.commutativity(space)
            search.space(space)
    except StoppedError:
        search.is_partial = True
    return search.found()


class _Search:
    def __init__(self, depth: int, limit: int | None, work: Work) -> None:
        self.depth, self.limit, self.work = depth, limit, work
        self.kept: dict[Pair, Rule] = {}
        self.refused: dict[Pair, str] = {}
        self.counts: list[Count] = []
        self.is_partial = False
        self.commutes: set[str] = set()
        self.normal = Normal(WEIGHTS, self.commutes)
        self.joined = 0

    def found(self) -> Found:
        """What was found, without rules that are others with more said of their inputs."""
        general: list[Pair] = []
        for pair in self.kept:
            if any(is_instance(pair, other, self.commutes) for other in general):
                continue
            general = [x for x in general if not is_instance(x, pair, self.commutes)]
            general.append(pair)
        rules = {pair: self.kept[pair] for pair in general}
        return Found(rules, self.counts, self.refused, self.is_partial)

    def commutativity(self, space: Space) -> None:
        """Operands in the other order: what the table never has."""
        for word in space.words:
            if word.commutes and word.name not in self.commutes:
                self.commutes.add(word.name)
                rank = len(space.inputs[0])
                pair = Pair(((word.name, 0, 1),), ((word.name, 1, 0),), ((0, rank), (1, rank)))
                self._decide(pair)

    def _decide(self, pair: Pair) -> bool:
        """Whether a pair is a rule, which is kept."""
        verdict = self.work.verdict(pair)
        if verdict.rule is None:
            self.refused[pair] = verdict.why
            return False
        self.kept[pair] = verdict.rule
        self.normal.add(pair)
        return True

    # One space ----------------------------------------------------------------------------------

    def space(self, space: Space) -> None:
        """The rules of a space."""
        table = Table(space, self.depth)
        self.normal = Normal(WEIGHTS, self.commutes)
        for pair in self.kept:
            if speaks_of(pair, space):
                self.normal.add(pair)
        for size in range(1, self.depth + 1):
            if not self._grow(table):
                break
            self._rules(table)
            if size < self.depth:
                table.keep_values()
        before = len(self.kept)
        pairs = pairs_of_two(table)
        self.work.ahead(pairs)
        for pair in pairs:
            self._decide(pair)
        self._count(table, "of two results", len(pairs))
        self._count(table, "rules of two results", len(self.kept) - before)

    def _grow(self, table: Table) -> bool:
        """Enumerates programs of one more op; whether there was room for all."""
        size, room = table.level + 1, None if self.limit is None else self.limit - len(table)
        every: list[Task] = []
        keys: list[Array] = []
        count = len(table.space.words)
        is_cut = False
        for number, tasks in enumerate(table.tasks()):
            word = table.space.words[number]
            self.work.say(f"{table.space.name} {size}: {word.name}", number / count)
            if room is not None:
                some, room, cut = _cut(tasks, room)
                is_cut |= cut
            else:
                some = tasks
            every += some
            keys += self.work.keys(table, f"{table.space.name}-{size}-{word.name}", some)
        table.extend(every, keys)
        self.is_partial |= is_cut
        self._count(table, "programs", len(table.rows(size)))
        self._count(table, "classes", len(table.classes(size)))
        return not is_cut

    def _rules(self, table: Table) -> None:
        """Adds the rules of the largest programs that those which are kept do not imply."""
        proofs = Proofs(table)
        pruning = Pruning(table, proofs.below, proofs.here)
        rows = proofs.open()
        self._count(table, "pairs", len(rows))
        readable = rows[pruning.readable(rows)]
        self._count(table, "readable", len(readable))
        first = readable[pruning.first_names(readable)]
        self._count(table, "renaming", len(first))
        apart = first[pruning.apart(first)]
        self._count(table, "common subgraph", len(apart))
        for pair in self.kept:
            if pair.is_of_one and speaks_of(pair, table.space):
                proofs.apply(pair)
        self._count(table, "implied", int(proofs.is_open(apart).sum()))
        before = len(self.kept), len(self.refused), self.joined
        others = np.setdiff1d(readable, apart)
        for candidates in (apart, others):
            self._take(table, proofs, _most_general_first(table, candidates))
        self._count(table, "normal form", self.joined - before[2])
        self._count(table, "refused", len(self.refused) - before[1])
        self._count(table, "rules", len(self.kept) - before[0])

    def _take(self, table: Table, proofs: Proofs, rows: Array) -> None:
        """Makes rules of rows as long as something is open."""
        asked = 0
        count = len(rows)
        while (is_open := proofs.is_open(rows)).any():
            rows = rows[int(np.argmax(is_open)) :]
            done = count - len(rows)
            if self.work.looks_ahead and done >= asked:
                asked = done + self._ask(table, proofs, rows)
            self.work.say(f"{table.space.name} {table.level}: verifying", done / count)
            self._take_first(table, proofs, int(rows[0]))
            rows = rows[1:]

    def _take_first(self, table: Table, proofs: Proofs, row: int) -> None:
        """Makes a rule of an open row, if it is true and says something new."""
        ways = [pair for pair in self._ways(table, row) if pair not in self.refused]
        if ways and self.normal.is_joined(ways[-1]):
            proofs.close(row)
            self.joined += 1
            return
        for pair in ways:
            if self._decide(pair):
                proofs.apply(pair)
                return
        proofs.set_aside(row)

    def _ask(self, table: Table, proofs: Proofs, rows: Array) -> int:
        """Asks for the verdicts of rows that are looked at next; up to which row."""
        places = np.flatnonzero(proofs.is_open(rows))[:AHEAD]
        some = rows[places]
        ways = [self._ways(table, row) for row in some.tolist()]
        self.work.ahead([w[0] for w in ways if not self.normal.is_joined(w[-1])])
        return int(places[-1]) + 1

    def _ways(self, table: Table, row: int) -> list[Pair]:
        """What a row may say, the most general first."""
        ranks = tuple((k, len(shape)) for k, shape in enumerate(table.space.inputs))
        pair = Pair((term_of(table, row),), (term_of(table, int(table.rep[row])),), ranks)
        ways = (generalized(pair, table.space), pair)
        return list(dict.fromkeys(directed(each).canonical() for each in ways))

    def _count(self, table: Table, stage: str, number: int) -> None:
        self.counts.append(Count(table.space.name, table.level, stage, number))


def _most_general_first(table: Table, rows: Array) -> Array:
    """Rows of the fewest kinds of ops first, then those with most inputs, then in their order."""
    reps = table.rep[rows]
    parts = np.concatenate([table.cone[rows], table.cone[reps]], 1)
    kinds = np.bitwise_or.reduce(np.where(parts >= 0, 1 << table.op[parts].astype(np.int64), 0), 1)
    kinds_of, inverse = np.unique(kinds, return_inverse=True)
    count = np.array([k.bit_count() for k in kinds_of.tolist()], np.int64)[inverse]
    bits = np.array([k.bit_count() for k in range(1 << len(table.space.inputs))])
    return rows[np.lexsort((rows, -bits[table.inputs[rows] | table.inputs[reps]], count))]


def speaks_of(pair: Pair, space: Space) -> bool:
    """Whether a pair says something about programs of a space: of any rank, or of its own."""
    ops = {t[0] for side in (pair.left, pair.right) for root in side for t in subterms(root)
           if not isinstance(t, int)}  # fmt: skip
    rank = len(space.inputs[0])
    return ops <= ELEMENTWISE.keys() or all(known == rank for _, known in pair.ranks)


def _cut(tasks: list[Task], room: int) -> tuple[list[Task], int, bool]:
    """As many programs as there is room for; whether there were more."""
    found: list[Task] = []
    for task in tasks:
        if len(task.a) > room:
            found.append(Task(task.word, task.shapes, task.a[:room], task.b[:room]))
            return found, 0, True
        found.append(task)
        room -= len(task.a)
    return found, room, False
