"""Channels: rings of slots that one role fills and others read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from mlc.dialects.tile.pipeline import ChannelType, PutOp
from mlc.dialects.tile.slots import filled_elements
from mlc.dialects.tile.types import ViewType
from mlc.runtime.tiles.memory import Access, Aliases, Stored, TileError, spot, unwritten

Array = NDArray[Any]


class Slot(Stored):
    """A slot: nobody reads it before it is full, or after it is released."""

    def __init__(self, kind: ViewType) -> None:
        shape = tuple(dim.constant or 0 for dim in kind.shape)
        super().__init__(unwritten(shape, kind.dtype), kind.dtype)
        self.missing = 0  # elements that are still to come
        self.open = False
        self.turn = 0  # how often it was released

    def fill(self, elements: int) -> None:
        """A producer has it, which copies so many elements to it."""
        self.forget()
        self.missing, self.open = elements, True

    def close(self) -> None:
        """Nobody has it."""
        self.forget()
        self.missing, self.open = 0, False
        self.turn += 1

    def at(self, places: tuple[Array, ...], inside: Array, by: Access) -> Array:
        if not self.open or self.missing:
            state = "is not full" if self.open else "is released"
            raise TileError(f"{spot(by.op)}: reads a slot that {state}")
        return super().at(places, inside, by)

    def write(self, places: Aliases, values: Any, by: Access, *, where: Any = True) -> None:
        if not self.missing:
            raise TileError(f"{spot(by.op)}: writes a slot that no mlc_tile.put has given")
        super().write(places, values, by, where=where)
        self.missing -= np.broadcast_arrays(*places, values)[-1].size


class Ring:
    """The places of a channel, numbered as they are put; `readers` get each of them."""

    def __init__(self, kind: ChannelType) -> None:
        self.places = [[Slot(slot) for slot in kind.slots] for _ in range(kind.depth.data)]
        self.put = 0
        self.got: dict[object, int] = {}
        self.released: dict[object, int] = {}
        self.turns: dict[object, tuple[int, int, int]] = {}
        self.passed = 0  # items of which all places were got

    def join(self, reader: object, turn: tuple[int, int, int] | None = None) -> None:
        """
        One more gets each place; or takes a turn: it is so many of how many readers, each of which
        has the next item of so many places.
        """
        self.got[reader] = self.released[reader] = 0
        if turn is not None:
            self.turns[reader] = turn
            self.got[reader] = self.released[reader] = turn[0] * turn[2]

    def _at(self, number: int) -> Sequence[Slot]:
        return self.places[number % len(self.places)]

    def may_put(self) -> bool:
        """Whether the next place is free."""
        return self.put < min(self.released.values(), default=self.put + 1) + len(self.places)

    def next_put(self, op: PutOp) -> Sequence[Slot]:
        """The slots of the next place, to be filled."""
        self.put += 1
        for slot, given in zip(self._at(self.put - 1), op.slots, strict=True):
            slot.fill(filled_elements(given))
        return self._at(self.put - 1)

    def may_get(self, reader: object) -> bool:
        """Whether the next place is full."""
        number = self.got[reader]
        return number < self.put and not any(slot.missing for slot in self._at(number))

    def next_get(self, reader: object) -> Sequence[Slot]:
        """The slots of the next place, which are full."""
        self.got[reader] += 1
        return self._at(self.got[reader] - 1)

    def release(self, reader: object, behind: int, op: Operation) -> None:
        """Gives back all but the last places that a reader has."""
        if not behind and self.released[reader] == self.got[reader]:
            raise TileError(f"{spot(op)}: nothing is left to release")
        before = min(self.released.values())
        count = max(self.released[reader], self.got[reader] - behind)
        if reader in self.turns:
            _, readers, places = self.turns[reader]
            if count == self.got[reader] and count % places == 0:  # the end of its item
                count = self.got[reader] = count + (readers - 1) * places
        self.released[reader] = count
        for number in range(before, min(self.released.values())):
            for slot in self._at(number):
                slot.close()

    def may_turn(self, reader: object) -> bool:
        """Whether the items before a reader's next one were passed on."""
        return self.passed * self.turns[reader][2] == self.got[reader]

    def next_turn(self) -> None:
        """All places of an item were got."""
        self.passed += 1

    def check_end(self, op: Operation) -> None:
        """TileError unless all that was put was got and released."""
        for reader, count in self.got.items():
            kept = count - self.released[reader]
            if kept:
                raise TileError(f"{spot(op)}: {reader} ends with {kept} places not released")
            least = min(self.got.values()) if reader in self.turns else count
            if least != self.put:
                raise TileError(f"{spot(op)}: {reader} gets {least} of {self.put} places")
