"""Memory of tile programs: bounded reads and writes, unwritten elements, and who touched what."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from mlc.dialects.dtypes import DType
from mlc.dialects.errors import MlcError
from mlc.lazy_dataclass import dataclass

Array = NDArray[Any]
Aliases = Sequence[Any]
"""A whole number or an array of them for each axis."""
UNWRITTEN = 0xA5
"""Every byte of an integer that nobody has written."""
_NOBODY, _MANY = -1, -2


class TileError(MlcError):
    """
    A tile program that is wrong whatever it computes: workers that race, or wait for ever.

    ``mlc_tile.dot at k.mlir:7: worker 1 reads what worker 0 writes`` — add an mlc_tile.barrier.
    """


def spot(op: Operation) -> str:
    """An op and its place in the text."""
    at = op.location
    if isinstance(at, FileLineColLoc):
        return f"{op.name} at {at.filename.data}:{at.line.data}"
    return op.name


def unwritten(shape: Sequence[int], dtype: DType) -> Array:
    """What memory holds at first: NaN; of integers a pattern."""
    if dtype.kind in ("float", "complex", "storage"):
        return np.full(shape, np.nan, dtype.numpy)
    if dtype.kind == "bool":
        return np.ones(shape, dtype.numpy)
    pattern = bytes([UNWRITTEN]) * (math.prod(shape) * dtype.bytes)
    return np.frombuffer(pattern, dtype.numpy).reshape(shape).copy()


@dataclass(frozen=True)
class Access:
    """Who reads or writes: a worker, between two of its team's barriers, in an op."""

    worker: int
    epoch: int
    op: Operation


class Memory(ABC):
    """What elements are read from, at computed places."""

    def __init__(self, shape: Sequence[int], dtype: DType) -> None:
        self.shape, self.dtype = tuple(shape), dtype

    @abstractmethod
    def at(self, places: tuple[Array, ...], inside: Array, by: Access) -> Array:
        """The elements at places on every axis; those that count are `inside`."""

    def write(self, places: Aliases, values: Any, by: Access, *, where: Any = True) -> None:
        """Writes elements to places inside, where a condition holds."""
        raise TileError(f"{spot(by.op)}: writes memory that is computed where it is read")

    def read(
        self, places: Aliases, fill: Any, by: Access, *, clamped: Collection[int] = ()
    ) -> Array:
        """
        The elements at places; outside `fill`. On the axes `clamped` the last element stands for
        what is behind it.
        """
        arrays = [np.array(p) for p in np.broadcast_arrays(*places)] if places else []
        for axis in clamped:
            arrays[axis] = np.minimum(arrays[axis], max(self.shape[axis] - 1, 0))
        inside = self._inside(arrays)
        if not inside.any():
            return np.full(inside.shape, fill, self.dtype.numpy)
        safe = tuple(np.where(inside, p, 0) for p in arrays)
        found = self.at(safe, inside, by)
        return np.where(inside, found, np.asarray(fill, self.dtype.numpy))

    def _inside(self, arrays: Sequence[Array]) -> Array:
        inside = np.ones(arrays[0].shape if arrays else (), bool)
        for p, n in zip(arrays, self.shape, strict=True):
            inside &= (p >= 0) & (p < n)
        return inside


class Computed(Memory):
    """Memory that is not there: its elements are computed where they are read."""

    def __init__(
        self,
        shape: Sequence[int],
        dtype: DType,
        compute: Callable[[tuple[Array, ...], Array, Access], Array],
    ) -> None:
        super().__init__(shape, dtype)
        self.compute = compute

    def at(self, places: tuple[Array, ...], inside: Array, by: Access) -> Array:
        return self.compute(places, inside, by)


class Stored(Memory):
    """Memory that is there. What a team shares notes who read and wrote each element last."""

    def __init__(
        self, array: Array, dtype: DType, *, shared: bool = False, constant: bool = False
    ) -> None:
        super().__init__(array.shape, dtype)
        self.array, self.shared, self.constant = array, shared, constant
        if shared:
            self.written = [np.full(array.shape, _NOBODY, np.int64) for _ in range(2)]
            self.seen = [np.full(array.shape, _NOBODY, np.int64) for _ in range(2)]

    def forget(self) -> None:
        """Nobody has written it."""
        self.array[...] = unwritten(self.shape, self.dtype)

    def at(self, places: tuple[Array, ...], inside: Array, by: Access) -> Array:
        if self.shared:
            at = tuple(p[inside] for p in places)
            self._not_written_by_others(at, by)
            workers, epochs = self.seen
            again = (epochs[at] == by.epoch) & (workers[at] != by.worker)
            workers[at] = np.where(again, _MANY, by.worker)
            epochs[at] = by.epoch
        return np.asarray(self.array[places])

    def write(self, places: Aliases, values: Any, by: Access, *, where: Any = True) -> None:
        if self.constant:
            raise TileError(f"{spot(by.op)}: writes an argument that is only read")
        arrays = np.broadcast_arrays(*places, values, where)
        *wanted, given, holds = arrays
        inside = self._inside(wanted) & holds
        at = tuple(p[inside] for p in wanted)
        found = given[inside].astype(self.dtype.numpy)
        if self.shared:
            self._not_touched_by_others(at, found, by)
        self.array[at] = found

    def _not_touched_by_others(self, at: tuple[Array, ...], found: Array, by: Access) -> None:
        (workers, epochs), (readers, read) = self.written, self.seen
        sizes = (found.size, self.dtype.bytes)
        bits = [x.view(np.uint8).reshape(sizes) for x in (self.array[at], found)]
        same = (bits[0] == bits[1]).all(axis=1)  # those who write the same do no harm
        now = epochs[at] == by.epoch
        _no_race(now & ~same, workers[at], by, "writes what worker {} writes")
        _no_race((read[at] == by.epoch) & ~same, readers[at], by, "writes what worker {} reads")
        workers[at] = np.where(now & (workers[at] != by.worker), _MANY, by.worker)
        epochs[at] = by.epoch

    def _not_written_by_others(self, at: tuple[Array, ...], by: Access) -> None:
        workers, epochs = self.written
        now = (epochs[at] == by.epoch) & (workers[at] != _MANY)
        _no_race(now, workers[at], by, "reads what worker {} writes")


def _no_race(now: Array, workers: Array, by: Access, said: str) -> None:
    """TileError where another worker touched an element since the last barrier."""
    others = workers[now & (workers != by.worker)]
    if others.size:
        other = "another" if others[0] == _MANY else str(others[0])
        raise TileError(
            f"{spot(by.op)}: worker {by.worker} {said.format(other)}, with no mlc_tile.barrier"
            " between"
        )


def whole(array: Array, dtype: DType) -> Stored:
    """A fragment, as memory of its own."""
    return Stored(array, dtype, constant=True)
