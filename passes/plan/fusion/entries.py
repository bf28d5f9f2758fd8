"""
The entries of a table of candidates: the partial plans of one op, and the ways to what it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from xdsl.ir import Operation

from mlc.dialects.tensor.op import AGAIN, SAME
from mlc.passes.plan.fusion.legality import Rule, Stage, State

Kind = Literal["cell", "view", "reduction", "whole", "copy", "memory"]
"""What an entry opens: a point of a loop nest, a nest, or a reader that wants buffers."""

NEVER = 1 << 60


class Read:
    """One way from an entry to what it reads, through views."""

    __slots__ = ("again", "count", "entry", "is_stored", "points", "stage", "stream")

    def __init__(
        self,
        entry: Entry | None,
        stream: int,
        again: int,
        points: tuple[int, ...],
        *,
        is_stored: bool = False,
        stage: Stage | None = None,
        count: int | None = None,
    ) -> None:
        self.entry = entry  # None: memory from outside of the block
        self.stream = stream  # what is read where it lies in memory
        self.again = again
        self.points = points  # where, as `Points` numbers functions of the reader's point
        self.is_stored = is_stored  # it must lie in memory
        self.stage: Stage | None = stage  # None: the reader's own
        self.count = count  # elements that are computed of it; None: as many as of the reader


class Entry:
    """The partial plans of one op (or of somebody who reads values at the block's end)."""

    __slots__ = (
        "before", "bytes", "deadline", "forced", "index", "inner", "is_alone", "is_convert",
        "is_widened", "kind", "latest", "light", "mask", "needs", "number", "op", "ops", "points",
        "readers", "reads", "rule", "space", "stream", "weight", "write",
    )  # fmt: skip

    def __init__(self, kind: Kind, index: int, op: Operation, space: int, points: int) -> None:
        self.kind: Kind = kind
        self.index = index  # position in the block
        self.op = op
        self.space = space  # number of the result's shape
        self.points = points  # elements of the result
        self.inner = points  # elements of the iteration space
        self.number = -1  # in the order of decisions
        self.ops = 1  # that a kernel holds in which it is computed, views included
        self.weight = 0  # time of one element's arithmetic
        self.light = 0.0  # additions' worth of arithmetic from what lies in memory to it
        self.mask = 0  # what it is made of, a bit for each value at which that begins
        self.latest = index  # where a kernel that computes it stands at the latest
        self.before = NEVER  # each kernel that reads it stands before this
        self.deadline = NEVER  # where something that it reads is written over
        self.bytes = 0
        self.write = 0  # time of writing the result
        self.stream = -1  # the result in memory
        self.rule: Rule | None = None  # why it is stored; None: it may be inline
        self.forced: State | None = None
        self.is_convert = False
        self.is_widened = False  # from a factor that is stored narrow: products read that one
        self.is_alone = False  # a kernel of its own, whatever is decided
        self.reads: list[Read] = []
        self.needs: list[Entry] = []  # what must lie in memory when it is computed
        self.readers: list[tuple[Entry, Read]] = []

    def may_begin(self) -> bool:
        """Whether some plan writes it in a kernel that others may join."""
        if self.kind == "cell":
            return self.rule is not None or self.is_point()
        return self.kind in ("copy", "view")

    def is_point(self) -> bool:
        """
        Whether the search decides on it: several read it, or one repeatedly. What is read once is
        as cheap where it is read as anywhere.
        """
        if self.kind != "cell" or self.rule is not None:
            return False
        if len(self.readers) != 1:
            return bool(self.readers)
        _, read = self.readers[0]
        repeated = read.count is not None and read.count > self.points
        return read.again == AGAIN or repeated


def may_share(reader: Entry, read: Read, entry: Entry) -> bool:
    """Whether a kernel that computes the reader may write the entry on its way."""
    if reader.kind not in ("cell", "copy") or reader.space != entry.space:
        return False
    return read.again == SAME and not read.is_stored


def bits_of(mask: int) -> Iterator[int]:
    """The bits that are set, each as a number with this bit."""
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit
