"""The grid whose programs are being traced."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import field
from math import prod

from mlc.frontend.block.spans import Line
from mlc.frontend.errors import LeakError, located
from mlc.lazy_dataclass import dataclass


class Factored(BaseException):
    """
    Not an error: an axis of the grid is taken apart by the program, which is traced again so.
    A BaseException, so that a user's `except Exception` lets it pass.
    """

    def __init__(self, axis: int, inner: int) -> None:
        super().__init__(f"axis {axis} by {inner}")
        self.axis = axis
        self.inner = inner


@dataclass
class Frame:
    """A grid, each of whose axes may stand for several: program_id = (first * size + second) …"""

    factors: list[tuple[int, ...]]
    stored: bool = False  # from then on the trace has to go on as it began

    @property
    def grid(self) -> tuple[int, ...]:
        """The sizes of all axes."""
        return tuple(size for axis in self.factors for size in axis)

    def size(self, axis: int) -> int:
        """The programs along an axis that the kernel knows."""
        return prod(self.factors[axis]) if axis < len(self.factors) else 1

    def position(self, axis: int) -> Line:
        """The program's position along an axis that the kernel knows."""
        steps = [0] * len(self.grid)
        if axis < len(self.factors):
            first = sum(len(sizes) for sizes in self.factors[:axis])
            for k, _ in enumerate(self.factors[axis]):
                steps[first + k] = prod(self.factors[axis][k + 1 :])
        return Line(0, tuple(steps))

    def factored(self, at: int, inner: int) -> list[tuple[int, ...]]:
        """The factors with one of all axes taken apart."""
        found: list[tuple[int, ...]] = []
        for sizes in self.factors:
            first = sum(map(len, found))
            k = at - first
            parts = (sizes[k] // inner, inner) if 0 <= k < len(sizes) else ()
            found.append((*sizes[:k], *parts, *sizes[k + 1 :]) if parts else sizes)
        return found


@dataclass
class _Frames(threading.local):
    """The grids of this thread, innermost last."""

    stack: list[Frame] = field(default_factory=list[Frame])


_frames = _Frames()


def frame(what: str) -> Frame:
    """The grid of the kernel that is being traced."""
    if not _frames.stack:
        message = f"{what} is used outside a block kernel"
        raise located(LeakError, message, remedy="Use it in a function with @mlc.block_kernel.")
    return _frames.stack[-1]


def note_store() -> None:
    """Something is stored."""
    frame("tl.store").stored = True


def divided(line: Line, sizes: tuple[int, ...], by: int) -> tuple[Line, Line] | None:
    """
    The line divided by a number, and what is left, as lines; None where they are none. Where an
    axis of the grid has to be taken apart for that, the kernel is traced again with two axes.
    """
    whole, left = [0] * len(sizes), [0] * len(sizes)
    for k, step in enumerate(line.steps):
        if step % by == 0:
            whole[k] = step // by
        else:
            left[k] = step
    first, rest = divmod(line.constant, by)
    ends = [step * (n - 1) for step, n in zip(left, sizes, strict=True)]
    if rest + sum(e for e in ends if e < 0) >= 0 and rest + sum(e for e in ends if e > 0) < by:
        return Line(first, tuple(whole)), Line(rest, tuple(left))
    here = _frames.stack[-1]
    for k, size in enumerate(here.grid):
        inner = by // left[k] if left[k] > 0 and by % left[k] == 0 else 0
        if inner > 1 and size > inner and size % inner == 0 and not here.stored:
            raise Factored(k, inner)
    return None


@contextmanager
def framed(found: Frame) -> Generator[None]:
    """Names of the block language mean programs of this grid until the end."""
    _frames.stack.append(found)
    try:
        yield
    finally:
        _frames.stack.pop()
