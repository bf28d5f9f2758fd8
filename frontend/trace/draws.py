"""
Numbers that a seeded generator draws in loops of the program. A trip is traced once, and says what
it draws; when the loop is kept, NumPy draws for all trips in their order, into tables of which trip
i reads row i.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Block

from mlc.frontend.errors import NotSupportedError, located
from mlc.lazy_dataclass import dataclass

MOST_DRAWN = 2**22
"""Elements of a table: 32 MB of float64, as much as a shared cache holds."""

REMEDY = "Draw all numbers before, rng.random((trips, n)), and take row k."


class Stream(Protocol):
    """A generator: what it draws next, and whether that depends on values."""

    state: Any
    spent: bool


@dataclass(frozen=True)
class Drawn:
    """What one line of a trip draws, and where the numbers of all trips lie."""

    draw: Callable[[], Any]
    table: NDArray[Any]


class Trips:
    """
    A loop of so many trips (0: of a number that only the compiled function knows), or what stands
    there once and may be undone (None).
    """

    def __init__(self, draws: Draws, outer: Block, count: int | None) -> None:
        self._draws = draws
        self.outer = outer
        self.count = count
        self.block: Block | None = None
        self.place: Any = None
        self.drawn: list[Drawn | Trips] = []
        self.streams: list[Stream] = []

    @contextmanager
    def trip(self, block: Block, place: Any = None) -> Generator[None]:
        """A trip, of this number, is traced into a block."""
        self.block, self.place, self.drawn, self.streams = block, place, [], []
        self._draws.around.append(self)
        try:
            yield
        finally:
            self._draws.around.pop()

    def end(self, *, left: bool = False) -> None:
        """The loop is kept. `left`: a value decides when it is left, and so what is drawn next."""
        if not self.drawn:
            return
        holder = self._draws.holder
        if holder is not None and left:
            message = "a loop in another one draws random numbers, and values decide when it ends."
            raise located(NotSupportedError, message, remedy=REMEDY)
        if holder is not None:
            holder.drawn.append(self)
            holder.streams += self.streams
            return
        self.replay(())
        for stream in self.streams:
            stream.spent = stream.spent or left

    def replay(self, places: tuple[int, ...]) -> None:
        """Draws for all trips."""
        assert self.count is not None
        for k in range(self.count):
            for item in self.drawn:
                if isinstance(item, Trips):
                    item.replay((*places, k))
                else:
                    item.table[(*places, k)] = item.draw()


class Draws:
    """All that one trace draws."""

    def __init__(self) -> None:
        self.streams: list[Stream] = []
        self.around: list[Trips] = []  # innermost last
        self.carries = False  # whether states of generators are values of the program

    @property
    def holder(self) -> Trips | None:
        """The innermost loop around what is traced."""
        return next((x for x in reversed(self.around) if x.count is not None), None)

    def loops(self, scopes: Sequence[Block], scope: Block) -> list[Trips] | None:
        """The loops in which the innermost scope stands within another; None where branches do."""
        found: list[Trips] = []
        block = scopes[-1]
        for trips in reversed(self.around):
            if block is scope:
                break
            if trips.block is not block or trips.count == 0:
                return None
            found += [trips] * (trips.count is not None)
            block = trips.outer
        return found[::-1] if block is scope else None

    def once(self, outer: Block, block: Block) -> AbstractContextManager[None]:
        """What is tried in a block; its ops move to where that is tried, if it is kept."""
        return Trips(self, outer, None).trip(block)

    def saved(self) -> Callable[[], None]:
        """What puts the generators back where they are now."""
        streams = [(x, x.state, x.spent) for x in self.streams]
        lengths = [(x, len(x.drawn), len(x.streams)) for x in self.around]

        def put_back() -> None:
            for stream, state, spent in streams:
                stream.state, stream.spent = state, spent
            for trips, drawn, held in lengths:
                del trips.drawn[drawn:], trips.streams[held:]

        return put_back


def table_for(loops: Sequence[Trips], sample: Any) -> NDArray[Any]:
    """An array for what all trips draw. Raises NotSupportedError where that is too much."""
    one = np.asarray(sample)
    shape = (*(x.count or 0 for x in loops), *one.shape)
    count = int(np.prod(shape, dtype=object))
    numbers = one.dtype.kind in "biuf"
    if not numbers or count > MOST_DRAWN:
        what = f"{count:,} elements" if numbers else f"elements of {one.dtype}"
        message = f"random: trips of loops draw {what}; expected {MOST_DRAWN:,} numbers at most."
        raise located(NotSupportedError, message, remedy=REMEDY)
    return np.zeros(shape, one.dtype)
