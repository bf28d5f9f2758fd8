"""
The search for the cheapest plan of a block: heuristics, then branch and bound part by part (D22).

A block falls into parts that no kernel joins. In a part the points are decided readers first. Two
prunings: by cost, where what is decided and the least that is left are not below the best plan; and
by structure, where buffers have cut off what is decided, so that what is left has been searched
before behind the same cut. SOURCE: Boehm et al., PVLDB 11(12), 2018, sections 4.2 to 4.4; the cuts
are found as equal states of what is open, not by a reachability graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.entries import Entry, bits_of
from mlc.passes.plan.fusion.legality import CHEAP, State
from mlc.passes.plan.fusion.state import Demand, Kernel, Partial, is_repeated
from mlc.passes.plan.fusion.table import Table

Choose = Callable[[Entry, Sequence[Demand]], State]
Choices = dict[int, State]
"""States by number of the entry."""


@dataclass(kw_only=True)
class Counts:
    """What a search did."""

    plans: int = 0  # complete ones
    visited: int = 0  # decisions tried
    by_cost: int = 0  # subspaces left out because they cost too much
    by_structure: int = 0  # and because they had been searched before
    points: list[int] = field(default_factory=list[int])  # of each part

    def add(self, other: Counts) -> None:
        """Adds another search."""
        self.plans += other.plans
        self.visited += other.visited
        self.by_cost += other.by_cost
        self.by_structure += other.by_structure
        self.points += other.points


@dataclass(kw_only=True)
class Found:
    """A plan of some entries. Times are whole attoseconds."""

    cost: int
    bound: int  # no plan costs less
    choices: Choices
    counts: Counts = field(default_factory=Counts)


# Heuristics -------------------------------------------------------------------------------------


def fuse_all(entry: Entry, demands: Sequence[Demand]) -> State:
    """Inline whatever may be."""
    return "inline"


def fuse_no_redundancy(entry: Entry, demands: Sequence[Demand]) -> State:
    """Nothing is computed twice."""
    first = demands[0].kernel
    several = any(d.kernel != first for d in demands)
    return "buffer" if several or is_repeated(tuple(demands)) else "inline"


def by_local_gain(entry: Entry, demands: Sequence[Demand]) -> State:
    """A rule of thumb: what is cheap is repeated if that moves no more memory than storing it."""
    kernels = {d.kernel for d in demands}
    if len(kernels) == 1:
        return "inline" if not is_repeated(tuple(demands)) or entry.light <= CHEAP else "buffer"
    if any(d.stage == "piece" for d in demands) or entry.light > CHEAP:
        return "buffer"
    # its sources read by every kernel, against: read once, it written, it read by every kernel
    sources, readers = entry.mask.bit_count(), len(kernels)
    return "inline" if sources * readers <= sources + 1 + readers else "buffer"


HEURISTICS: dict[str, Choose] = {
    "greedy": by_local_gain,
    "all": fuse_all,
    "fnr": fuse_no_redundancy,
}


def follow(table: Table, part: Sequence[Entry], choose: Choose, *, apart: bool = False) -> Found:
    """The plan that decides one by one."""
    plan = Partial(table, apart=apart)
    choices: Choices = {}
    for entry in part:
        wanted = entry.forced
        demands = plan.demands.get(entry.number)
        if wanted is None and demands is not None and entry.kind == "cell":
            wanted = choose(entry, demands)
        made = plan.step(entry, wanted)
        if made is not None:
            choices[entry.number] = made
    return Found(cost=plan.total, bound=0, choices=choices)


def replay(table: Table, part: Sequence[Entry], choices: Choices) -> Found:
    """The plan of some choices."""
    return follow(table, part, lambda entry, _: choices.get(entry.number, "inline"))


def improved(table: Table, part: Sequence[Entry], found: Found, most: int) -> tuple[Found, int]:
    """
    A plan from which no other decision alone leads to a cheaper one: decisions are turned in their
    order, again and again, and kept where that pays. At most so many plans are tried; how many.
    """
    points = [entry for entry in part if entry.is_point() and entry.forced is None]
    tried = since = 0
    while points and tried < most and since < len(points):
        entry = points[tried % len(points)]
        tried, since = tried + 1, since + 1
        state = found.choices.get(entry.number)
        if state is None:
            continue
        other: State = "buffer" if state == "inline" else "inline"
        turned = replay(table, part, {**found.choices, entry.number: other})
        if turned.cost < found.cost:
            found, since = turned, 0
    return found, tried


# Parts ------------------------------------------------------------------------------------------


def parts_of(table: Table) -> list[list[Entry]]:
    """Entries that may come to one kernel, or whose legality depends on one another's kernel."""
    above = list(range(len(table.entries)))

    def root(k: int) -> int:
        while above[k] != k:
            above[k] = above[above[k]]
            k = above[k]
        return k

    for one, other in table.pairs:
        above[root(one.number)] = root(other.number)
    for entry in table.entries:
        for read in entry.reads:
            if read.entry is not None:
                above[root(entry.number)] = root(read.entry.number)
        for below in entry.needs:
            above[root(entry.number)] = root(below.number)
    parts: dict[int, list[Entry]] = {}
    for entry in table.entries:
        if entry.kind != "view" or entry.rule is not None:  # kernels repeat the others
            parts.setdefault(root(entry.number), []).append(entry)
    return list(parts.values())


# Branch and bound -------------------------------------------------------------------------------


Visit = Iterator["Visit"]
"""The visits of what follows a decision, one by one."""

INLINE_FIRST: tuple[State, State] = ("inline", "buffer")
BUFFER_FIRST: tuple[State, State] = ("buffer", "inline")


class Search:
    """The cheapest plan of one part."""

    def __init__(
        self,
        table: Table,
        part: Sequence[Entry],
        *,
        steps: int,
        by_cost: bool = True,
        by_structure: bool = True,
    ) -> None:
        self.table = table
        self.part = part
        self.steps = steps
        self.by_cost = by_cost
        self.by_structure = by_structure
        self.counts = Counts(points=[sum(e.is_point() for e in part)])
        self._memo: dict[object, tuple[int, Choices | None]] = {}
        self._open = 0  # the least bound of what was not searched for want of steps; 0: nothing
        self._look_ahead()

    def run(self, starts: Sequence[Found]) -> Found:
        """The best of the space and of some plans that are known."""
        best = min(starts, key=lambda found: found.cost)
        self.best, self.found = best.cost, best.choices
        greedy = starts[0].choices
        self._first = {e.number: greedy.get(e.number, "inline") for e in self.part}
        pending = [self._visit(Partial(self.table), 0, {})]
        while pending:  # one for each decision that is open: too many to call one another
            onward = next(pending[-1], None)
            if onward is None:
                pending.pop()
            else:
                pending.append(onward)
        bound = min(self.best, self._open) if self._open else self.best
        return Found(cost=self.best, bound=bound, choices=self.found, counts=self.counts)

    def _look_ahead(self) -> None:
        """For each place in the part: what every plan writes, reads and computes from there on."""
        count = len(self.part)
        self._writes, self._reads = [0] * (count + 1), [0] * (count + 1)
        self._works = [0] * (count + 1)
        self._joining: dict[tuple[int, int, int], int] = {}
        self._later = [0] * (count + 1)
        for k in range(count - 1, -1, -1):
            entry = self.part[k]
            always = entry.kind in ("copy", "view", "whole") or (
                entry.rule is not None and entry.kind == "cell"
            )
            self._writes[k] = self._writes[k + 1] + (entry.write if always else 0)
            once = entry.kind in ("reduction", "whole")
            self._works[k] = self._works[k + 1] + once * entry.weight * entry.inner
            must, may = self._reads[k + 1], self._later[k + 1] | 1 << max(entry.stream, 0)
            for read in entry.reads:
                may |= 1 << read.stream
                if read.entry is None:
                    must |= 1 << read.stream
            self._reads[k], self._later[k] = must, may

    def _least(self, plan: Partial, at: int) -> int:
        """What any way on from here costs at least."""
        unread = self._reads[at] & ~plan.seen
        streams = self.table.streams
        reads = sum(streams[bit.bit_length() - 1] for bit in bits_of(unread))
        return self._writes[at] + max(0, reads - plan.slack, self._works[at] - plan.slower)

    def _visit(self, plan: Partial, at: int, choices: Choices) -> Visit:
        """Goes on to where something is to be decided; gives the ways on from there."""
        part = self.part
        while at < len(part):
            entry = part[at]
            if self._is_open(plan, entry):
                break
            wanted: State = entry.forced or ("inline" if entry.rule is None else "buffer")
            made = plan.step(entry, wanted)
            if made is not None:
                choices[entry.number] = made
            at += 1
        else:
            self.counts.plans += 1
            if plan.total < self.best:
                self.best, self.found = plan.total, choices
            return
        least = plan.total + (self._least(plan, at) if self.by_cost else 0)
        if self.by_cost and least >= self.best:
            self.counts.by_cost += 1
            return
        key: object = None
        if self.by_structure:
            key = at, self._frontier(plan, at)
            known = self._memo.get(key)
            if known is not None and self._is_settled(plan.total, known, choices):
                self.counts.by_structure += 1
                return
        yield from self._branch(plan, at, choices, key)

    def _is_open(self, plan: Partial, entry: Entry) -> bool:
        """Whether there is something to decide."""
        demands = plan.demands.get(entry.number)
        if demands is None or entry.forced is not None or not entry.is_point():
            return False
        return plan.why_stored(entry, demands) is None

    def _is_settled(self, total: int, known: tuple[int, Choices | None], choices: Choices) -> bool:
        """Whether what has been found from an equal state says enough; takes the way if better."""
        rest, onward = known
        if total + rest >= self.best:
            return True
        if onward is not None:
            self.best, self.found = total + rest, choices | onward
        return onward is not None

    def _branch(self, plan: Partial, at: int, choices: Choices, key: object) -> Visit:
        entry = self.part[at]
        before, known, opened = self.best, set(choices), self._open
        for state in INLINE_FIRST if self._first[entry.number] == "inline" else BUFFER_FIRST:
            if self.counts.visited >= self.steps:
                least = plan.total + self._least(plan, at)
                self._open = least if not self._open else min(self._open, least)
                return
            self.counts.visited += 1
            onward = plan.copy()
            onward.step(entry, state)
            yield self._visit(onward, at + 1, {**choices, entry.number: state})
        if key is None or self._open != opened:
            return
        # no way on ends below `best`; where one has reached it, that is the best one
        way: Choices | None = None
        if self.best < before:
            way = {k: state for k, state in self.found.items() if k not in known}
        self._memo[key] = self.best - plan.total, way

    def _frontier(self, plan: Partial, at: int) -> object:
        """What the way on depends on: kernels that may still grow, and open demands."""
        later = self._later[at]
        named: dict[int, int] = {}
        kernels: list[tuple[int, ...]] = []
        wanted = {d.kernel for demands in plan.demands.values() for d in demands}
        for kernel in plan.kernels.values():
            if kernel.key in wanted or kernel.mask & self._may_join(kernel, at):
                named[kernel.key] = len(named)
                kernels.append(_shape_of(kernel, later))
        if len(named) < len(plan.kernels):  # the others are complete
            plan.kernels = {key: plan.kernels[key] for key in named}
        demands = tuple(
            (number, tuple((named.get(d[0], -1), *d[1:]) for d in plan.demands[number]))
            for number in sorted(plan.demands)
        )
        return tuple(kernels), demands

    def _may_join(self, kernel: Kernel, at: int) -> int:
        """What those are made of, from there on, that the kernel may write on its way."""
        key = at, kernel.space, kernel.position
        found = self._joining.get(key)
        if found is None:
            found = 0
            for entry in self.part[at:]:
                joins = entry.kind == "cell" and entry.space == kernel.space
                if joins and entry.before > kernel.position:
                    found |= entry.mask
            self._joining[key] = found
        return found


def _shape_of(kernel: Kernel, later: int) -> tuple[int, ...]:
    return (
        kernel.position, kernel.space, kernel.outputs, kernel.is_reduction, kernel.is_whole,
        kernel.ops, kernel.mask, kernel.streams & later, kernel.read - kernel.work,
    )  # fmt: skip
