"""What a call of a GPU program does, noted while the launch plan is followed, to be done again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from mlc.dialects.launch import TensorMap
from mlc.lazy_dataclass import dataclass

MOST_LAUNCHES = 4096
"""Of a recording: unrolled loops of the host."""


def _as_number(name: str) -> Callable[..., Any]:
    """The method of int that makes something else of an address: the call is not repeatable."""

    def method(self: Address, *others: int) -> Any:
        self.recorder.repeatable = False
        return getattr(int, name)(int(self), *map(int, others))

    return method


class Address(int):
    """Where an argument or a result lies, and what is near it, told apart from other numbers."""

    recorder: Recorder
    place: int

    def __add__(self, other: int) -> int:
        return self.recorder.address(int(self) + int(other), self.place)

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return self.recorder.address(int(self) - int(other), self.place)

    __mul__, __rmul__, __floordiv__, __and__, __rand__ = map(
        _as_number, ("__mul__", "__rmul__", "__floordiv__", "__and__", "__rand__")
    )
    __lt__, __le__, __gt__, __ge__, __eq__, __ne__ = map(
        _as_number, ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__")
    )
    __hash__ = int.__hash__


@dataclass(frozen=True)
class Launched:
    """A kernel as it was started."""

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[int | TensorMap, ...]
    shared_bytes: int = 0


@dataclass
class Recorder:
    """What a call does while it runs: `repeatable` unless it depends on more than its shapes."""

    repeatable: bool = True
    launches: list[Launched] = field(default_factory=list[Launched])

    def address(self, value: int, place: int) -> Address:
        """The address of the `place`-th argument or result, or one near it."""
        found = Address(value)
        found.recorder, found.place = self, place
        return found

    def launch(self, launched: Launched) -> None:
        """Notes a launch."""
        self.launches.append(launched)
        self.repeatable = self.repeatable and len(self.launches) <= MOST_LAUNCHES
