"""Tiles in registers: rows of vectors, computed at once or where they are asked for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from xdsl.ir import Operation, SSAValue

from mlc.dialects.dot import TileType
from mlc.dialects.tile.control import BarrierOp, ForOp, IfOp
from mlc.dialects.tile.copy import CopyOp
from mlc.dialects.tile.element import MapOp, ReadOp
from mlc.dialects.tile.memory import FillOp, LoadOp, StoreOp
from mlc.dialects.tile.region import YieldOp
from mlc.lazy_dataclass import dataclass

RowOf = Callable[[tuple[int, ...]], Sequence[SSAValue]]
"""Place on all axes but the last -> the vectors of that row."""
TilesOf = Callable[[TileType], Sequence[SSAValue]]
"""A kind of tile registers -> those that cover the fragment, row by row."""


@dataclass(frozen=True)
class Fragment:
    """A tile of vectors along its last axis."""

    shape: tuple[int, ...]
    lanes: int
    row: RowOf
    tiles: TilesOf | None = None  # as tile registers, where that needs no other memory
    held: Sequence[SSAValue] = ()  # the tile registers that it is in

    @property
    def vectors(self) -> int:
        """In each row."""
        return self.shape[-1] // self.lanes if self.shape else 1

    @property
    def rows(self) -> Iterator[tuple[int, ...]]:
        """Aliases on all axes but the last."""
        return itertools.product(*map(range, self.shape[:-1]))

    def all(self) -> list[SSAValue]:
        """Every vector, row by row."""
        return [vector for row in self.rows for vector in self.row(row)]

    @staticmethod
    def of(shape: tuple[int, ...], lanes: int, values: Sequence[SSAValue]) -> Fragment:
        """The tile of these vectors, row by row."""
        per_row = shape[-1] // lanes if shape else 1
        strides = [math.prod(shape[k + 1 : -1]) for k in range(len(shape) - 1)]

        def row(place: tuple[int, ...]) -> Sequence[SSAValue]:
            number = sum(k * stride for k, stride in zip(place, strides, strict=True))
            return values[number * per_row : (number + 1) * per_row]

        return Fragment(shape, lanes, row)


def waits(op: LoadOp | MapOp) -> bool:
    """
    Whether a tile is computed row by row where it is used, so that few vectors wait in registers:
    it has one use, in the same block, before which nothing is written that it reads.
    """
    user = _user(op)
    if user is None:
        return False
    while isinstance(user, MapOp) and (after := _user(user)) is not None and waits(user):
        user = after
    between = op.next_op
    while between is not None and between is not user:
        if isinstance(between, StoreOp | CopyOp | FillOp | ForOp | IfOp | BarrierOp):
            return False
        between = between.next_op
    return not isinstance(user, StoreOp) or _is_apart(op, user)


def _user(op: LoadOp | MapOp) -> Operation | None:
    """The one op that takes the tile row by row."""
    results = op.results
    if len(results) != 1 or (use := results[0].get_user_of_unique_use()) is None:
        return None
    return use if isinstance(use, StoreOp | MapOp | YieldOp) and use.parent is op.parent else None


def _is_apart(op: LoadOp | MapOp, store: StoreOp) -> bool:
    """Whether writing one row changes nothing that a later one reads."""
    if isinstance(op, LoadOp):
        same = (op.at, op.axes, *op.positions) == (store.at, store.axes, *store.positions)
        return op.view is not store.view or same
    return all(x.view is not store.view for x in op.body.block.ops if isinstance(x, ReadOp))
