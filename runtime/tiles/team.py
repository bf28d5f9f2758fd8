"""Who runs a tile program: strands that take turns in a random order, which a seed fixes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from random import Random
from typing import Any

from xdsl.ir import Operation

from mlc.lazy_dataclass import dataclass
from mlc.runtime.tiles.memory import Stored, TileError, spot


@dataclass(frozen=True)
class Wait:
    """A strand stands still until something holds."""

    ready: Callable[[], bool]
    what: str


Turn = Wait | None
"""What a strand says where another may go on: that it waits, or that it could go on too."""
Strand = Generator[Turn, None, Any]


class Scheduler:
    """Runs strands, one at a time."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def run(self, strands: dict[str, Strand]) -> None:
        """Until all have ended; TileError where all that are left wait."""
        waits: dict[str, Turn] = dict.fromkeys(strands)
        ended: list[str] = []
        while waits:
            able = [name for name, wait in waits.items() if wait is None or wait.ready()]
            if not able:
                found = [f"{name} waits at {wait.what}" for name, wait in waits.items() if wait]
                found += [f"{name} has ended" for name in ended]
                raise TileError(f"nobody can go on: {'; '.join(found)}")
            name = self.random.choice(able)
            try:
                waits[name] = next(strands[name])
            except StopIteration:
                del waits[name]
                ended.append(name)


class Team:
    """The workers of a kernel: what they share, and where they meet."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.epoch = 0  # barriers that all have passed
        self.waiting: list[Operation] = []
        self.memory: dict[Operation, Stored] = {}
        self.reached: Counter[Operation] = Counter()  # team allocs that somebody has reached
        self.found: dict[tuple[Operation, Any], Any] = {}  # what is known of ops
        self.states: dict[tuple[Operation, int], dict[int, list[Any]]] = {}
        self.parts: dict[tuple[Operation, int, int], dict[int, tuple[int, Any]]] = {}
        self.left: dict[tuple[Operation, int], Iterator[Any]] = {}  # trips that nobody has

    def meet(self, op: Operation) -> Strand:
        """Waits until every worker has come to this op."""
        mine = self.epoch
        if self.waiting and self.waiting[0] is not op:
            raise TileError(
                f"one worker waits at {spot(self.waiting[0])}, another at {spot(op)}; expected all"
                " at one"
            )
        self.waiting.append(op)
        if len(self.waiting) == self.size:
            self.waiting, self.epoch = [], mine + 1
        yield Wait(lambda: self.epoch > mine, spot(op))

    def first_at(self, op: Operation, time: int) -> bool:
        """Whether nobody has come to this op so many times before."""
        if self.reached[op] > time:
            return False
        self.reached[op] += 1
        return True
