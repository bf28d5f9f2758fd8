"""
A plan that is decided down to some op: kernels so far, and who reads what is not decided yet.

It grows op by op, readers first, by the same rules as `grouping.py`, which makes kernels of what
the search found; tests/unit/test_plan_search.py holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mlc.dialects.tensor.op import AGAIN, SAME
from mlc.passes.plan.fusion.entries import NEVER, Entry
from mlc.passes.plan.fusion.legality import MAX_OPS, MAX_OUTPUTS, Rule, Stage, State
from mlc.passes.plan.fusion.points import OWN
from mlc.passes.plan.fusion.table import Table


class Demand(NamedTuple):
    """Somebody reads a value: a kernel, or (-1) somebody who needs it in memory."""

    kernel: int
    position: int
    stage: Stage
    again: int
    elements: int
    stream: int
    point: int = OWN  # of the kernel's points, as `Points` numbers them


OUTSIDE = Demand(-1, NEVER, "result", SAME, 0, -1)
"""A reader in another part of the block, after everything here."""


class Kernel:
    """One kernel so far. Times are whole attoseconds."""

    __slots__ = (
        "inner", "is_reduction", "is_whole", "key", "mask", "ops", "outputs", "owner", "points",
        "position", "read", "space", "streams", "work", "write",
    )  # fmt: skip

    def __init__(self, key: int, entry: Entry, owner: Partial) -> None:
        self.key = key
        self.owner = owner
        self.position = entry.index
        self.space = entry.space
        self.points = entry.points
        self.outputs = 0
        self.is_reduction = False
        self.is_whole = False
        self.ops = 0
        self.mask = 0  # what the outputs are made of
        self.streams = 0  # what it reads, a bit for each
        self.read = 0
        self.work = 0
        self.write = 0

    def copy(self, owner: Partial) -> Kernel:
        """The same for another plan to change."""
        new = Kernel.__new__(Kernel)
        new.key, new.owner, new.position, new.space = self.key, owner, self.position, self.space
        new.points, new.outputs, new.is_whole = self.points, self.outputs, self.is_whole
        new.is_reduction, new.ops, new.mask = self.is_reduction, self.ops, self.mask
        new.streams, new.read, new.work = self.streams, self.read, self.work
        new.write = self.write
        return new


class Partial:
    """The decisions so far for some entries of a table."""

    __slots__ = (
        "apart",
        "demands",
        "kernels",
        "seen",
        "serial",
        "slack",
        "slower",
        "table",
        "total",
    )

    def __init__(self, table: Table, *, apart: bool = False) -> None:
        self.table = table
        self.apart = apart  # every value is stored: a kernel for each
        self.kernels: dict[int, Kernel] = {}
        self.demands: dict[int, tuple[Demand, ...]] = {}
        self.total = 0
        self.slack = 0  # more reading that arithmetic hides
        self.slower = 0  # more arithmetic that reading hides
        self.seen = 0  # streams that some kernel reads
        self.serial = 0

    def copy(self) -> Partial:
        """The same plan, to go on differently."""
        new = Partial.__new__(Partial)
        new.table, new.apart, new.total = self.table, self.apart, self.total
        new.kernels, new.demands = self.kernels.copy(), self.demands.copy()
        new.slack, new.slower = self.slack, self.slower
        new.seen, new.serial = self.seen, self.serial
        return new

    # Decisions ----------------------------------------------------------------------------------

    def step(self, entry: Entry, state: State | None = None) -> State | None:
        """
        Decides one entry: as `state` says where it may be inline. Gives what it became; None where
        nobody reads it.
        """
        kind = entry.kind
        if kind == "memory":
            self._need(entry, entry.index)
            return "buffer"
        if kind == "copy":
            self._compute(self._new(entry), entry, "result", SAME, entry.points)
            return "buffer"
        demands = self.demands.pop(entry.number, None)
        if entry.is_alone:
            demands = (OUTSIDE,)
        elif demands is None:
            return None
        elif len(demands) > 1:
            demands = tuple(dict.fromkeys(demands))
        if kind == "view":
            return self._view(entry, demands)
        if kind == "whole":
            kernel = self._new(entry)
            kernel.is_whole = True
            self._stream_to(entry, demands, None)
            self._need(entry, entry.index)
            self._compute(kernel, entry, "piece", SAME, entry.inner)
            return "buffer"
        if kind == "reduction":
            return self._reduce(entry, demands)
        if state == "inline" and not self.apart and self.why_stored(entry, demands) is None:
            self._inline(entry, demands)
            return "inline"
        self._store(entry, demands)
        return "buffer"

    def why_stored(self, entry: Entry, demands: tuple[Demand, ...]) -> Rule | None:
        """The rule for which a value may not be computed in all the kernels that read it."""
        if entry.rule is not None:
            return entry.rule
        first = demands[0].kernel
        for d in demands:
            if d.kernel < 0:
                return "stored-result"
            kernel = self.kernels[d.kernel]
            if kernel.ops + entry.ops > MAX_OPS:
                return "size"
            if entry.deadline < kernel.position:
                return "late"
            if d.stage == "operand" and not (
                entry.is_widened or (entry.is_convert and all(e.kernel == first for e in demands))
            ):
                return "factor"
        return None

    def _view(self, entry: Entry, demands: tuple[Demand, ...]) -> State:
        """Kernels repeat views: what is asked for here is the view in memory."""
        self._compute(self._new(entry), entry, "result", SAME, entry.points)
        return "buffer"

    def _inline(self, entry: Entry, demands: tuple[Demand, ...]) -> None:
        done: dict[tuple[int, int], int] = {}  # it is computed at each point where it is read
        for d in demands:
            place = d.kernel, d.point
            if d.elements > done.get(place, 0):
                done[place] = d.elements
        for (key, _), count in done.items():
            kernel = self._own(key)
            kernel.ops += entry.ops
            self._charge(kernel, 0, entry.weight * count)
        for d in demands:
            self._read_all(self.kernels[d.kernel], entry, d.stage, d.again, d.elements, d.point)

    def _store(self, entry: Entry, demands: tuple[Demand, ...]) -> None:
        kernel = self._joined(entry, demands)
        if kernel is None:
            kernel = self._new(entry)
        else:
            self._write(kernel, entry)
        kernel.ops += entry.ops
        self._stream_to(entry, demands, kernel)
        self._compute(kernel, entry, "result", SAME, entry.points)

    def _reduce(self, entry: Entry, demands: tuple[Demand, ...]) -> State:
        kernel = self._epilogue(entry, demands)
        state: State = "buffer"
        if kernel is None:
            kernel = self._new(entry)
        elif any(d.kernel < 0 for d in demands):
            self._write(kernel, entry)
        else:
            state = "inline"
        kernel.is_reduction = True
        kernel.ops += entry.ops
        self._stream_to(entry, demands, kernel)
        self._need(entry, kernel.position)
        self._compute(kernel, entry, "prologue", SAME, entry.inner)
        return state

    # Kernels ------------------------------------------------------------------------------------

    def _epilogue(self, entry: Entry, demands: tuple[Demand, ...]) -> Kernel | None:
        """The kernel over the reduction's points that alone reads it."""
        if self.apart or entry.forced == "buffer":
            return None
        key = -1
        for d in demands:
            if d.kernel >= 0 and d.kernel != key:
                if key >= 0:
                    return None
                key = d.kernel
        if key < 0:
            return None
        kernel = self.kernels[key]
        if kernel.is_reduction or kernel.is_whole or kernel.space != entry.space:
            return None
        if entry.deadline < kernel.position or not _fits(kernel, demands):
            return None
        return self._own(key)

    def _joined(self, entry: Entry, demands: tuple[Demand, ...]) -> Kernel | None:
        """A kernel over the same points that can write the value on its way."""
        if self.apart or entry.is_alone:
            return None  # who reads what is alone is not known here, and so not how late it may be
        readers = sorted({d.kernel for d in demands if d.kernel >= 0})
        best = _first(entry, (self.kernels[key] for key in readers), demands)
        if best is None:
            before = min(d.position for d in demands)
            others: list[Kernel] = []
            for kernel in reversed(self.kernels.values()):
                if kernel.position >= before:
                    break  # the last ones made stand first in the program
                if kernel.mask & entry.mask and not kernel.is_reduction:
                    others.append(kernel)
            best = _first(entry, reversed(others), demands)
        return None if best is None else self._own(best.key)

    def _new(self, entry: Entry) -> Kernel:
        kernel = self.kernels[self.serial] = Kernel(self.serial, entry, self)
        self.serial += 1
        self.total += self.table.clock.start
        self._write(kernel, entry)
        return kernel

    def _write(self, kernel: Kernel, entry: Entry) -> None:
        kernel.outputs += 1
        kernel.mask |= entry.mask
        kernel.write += entry.write
        self.total += entry.write

    def _own(self, key: int) -> Kernel:
        kernel = self.kernels[key]
        if kernel.owner is not self:
            kernel = self.kernels[key] = kernel.copy(self)
        return kernel

    def _charge(self, kernel: Kernel, read: int, work: int) -> None:
        before = max(kernel.read, kernel.work)
        hidden, slower = before - kernel.read, before - kernel.work
        kernel.read += read
        kernel.work += work
        after = max(kernel.read, kernel.work)
        self.total += after - before
        self.slack += after - kernel.read - hidden
        self.slower += after - kernel.work - slower

    def _stream_to(self, entry: Entry, demands: tuple[Demand, ...], home: Kernel | None) -> None:
        """The kernels that read the value from memory do so."""
        for d in demands:
            if d.kernel >= 0 and (home is None or d.kernel != home.key):
                self._stream(self._own(d.kernel), d.stream)

    def _stream(self, kernel: Kernel, stream: int) -> None:
        bit = 1 << stream
        if not kernel.streams & bit:
            kernel.streams |= bit
            self.seen |= bit
            self._charge(kernel, self.table.streams[stream], 0)

    # Reads --------------------------------------------------------------------------------------

    def _compute(self, kernel: Kernel, entry: Entry, stage: Stage, again: int, count: int) -> None:
        """The entry is computed in a kernel of its own, so the kernel reads what it reads."""
        if entry.weight:
            self._charge(kernel, 0, entry.weight * max(count, entry.inner))
        self._read_all(kernel, entry, stage, again, count)

    def _read_all(
        self,
        kernel: Kernel,
        entry: Entry,
        stage: Stage,
        again: int,
        count: int,
        point: int = OWN,
    ) -> None:
        if entry.needs:
            self._need(entry, kernel.position)
        behind = self.table.points.behind
        for read in entry.reads:
            below = read.entry
            how = max(again, read.again)
            if below is None:
                self._stream(self._own(kernel.key), read.stream)
                continue
            if read.is_stored:
                self._stream(self._own(kernel.key), read.stream)
                self._add(below, Demand(-1, kernel.position, "result", SAME, 0, -1))
                continue
            elements = count if read.count is None else read.count
            where: Stage = stage if read.stage is None else read.stage
            key, position, stream = kernel.key, kernel.position, read.stream
            for inner in read.points:
                at = behind(point, inner)
                self._add(below, Demand(key, position, where, how, elements, stream, at))

    def _need(self, entry: Entry, position: int) -> None:
        for below in entry.needs:
            self._add(below, Demand(-1, position, "result", SAME, 0, -1))

    def _add(self, entry: Entry, demand: Demand) -> None:
        found = self.demands.get(entry.number)
        self.demands[entry.number] = (demand,) if found is None else (*found, demand)


def is_repeated(demands: tuple[Demand, ...]) -> bool:
    """Whether some kernel reads elements several times."""
    return any(d.again == AGAIN for d in demands)


def _first(entry: Entry, kernels: Iterable[Kernel], demands: tuple[Demand, ...]) -> Kernel | None:
    """The kernel that runs first of those that may write the value on their way."""
    best: Kernel | None = None
    for kernel in kernels:
        if kernel.space != entry.space or kernel.is_whole or kernel.outputs >= MAX_OUTPUTS:
            continue
        if kernel.ops + entry.ops > MAX_OPS or entry.deadline < kernel.position:
            continue
        if (best is None or kernel.position < best.position) and _fits(kernel, demands):
            best = kernel
    return best


def _fits(kernel: Kernel, demands: tuple[Demand, ...]) -> bool:
    """Whether the kernel may write what these read: itself at its points, others later."""
    for d in demands:
        if d.kernel == kernel.key:
            if d.stage != "result" or d.again != SAME:
                return False
        elif d.position <= kernel.position:
            return False
    return True
