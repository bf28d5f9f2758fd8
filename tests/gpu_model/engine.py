"""Copies of boxes and products of groups: what is done later than it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

from mlc.dialects import gpu_products as gp
from mlc.dialects.dtypes import dtype_of, named_dtype
from mlc.dialects.launch import TensorMap
from mlc.dialects.tile.layout import wgmma_acc
from tests.gpu_model.clocks import Clock, Known, ModelError
from tests.gpu_model.memory import Memory
from tests.gpu_model.shared import Shared, swizzled

Array = NDArray[Any]
ROW, EIGHT = 128, 8


class Box:
    """A box of an array: where its elements lie in memory and in a slot, and which are there."""

    def __init__(self, described: TensorMap, at: Sequence[int], slot: int, op: Operation) -> None:
        item = named_dtype(described.dtype).bytes
        if slot % ROW:
            raise ModelError(f"{op.name}: a box at byte {slot}; expected a multiple of {ROW}")
        strides = [s * item for s in described.strides] + [item]
        if described.address % 16 or any(s % 16 for s in strides[:-1]):
            raise ModelError(f"{op.name}: memory or strides that are no multiples of 16 bytes")
        places = np.meshgrid(
            *(np.arange(a, a + n) for a, n in zip(at, described.box, strict=True)), indexing="ij"
        )
        inside = np.ones(described.box, bool)
        far = np.full(described.box, described.address, np.int64)
        for x, size, stride in zip(places, described.sizes, strides, strict=True):
            inside &= (x >= 0) & (x < size)
            far += x * stride
        near = slot + np.arange(far.size) * item
        bytes_ = np.arange(item)
        self.inside = np.repeat(inside.reshape(-1), item)
        self.far = (far.reshape(-1, 1) + bytes_).reshape(-1)
        self.near = swizzled((near.reshape(-1, 1) + bytes_).reshape(-1))

    def load(self, memory: Memory, op: Operation) -> Array:
        """The bytes, 0 for those outside."""
        found = np.zeros(self.far.size, np.uint8)
        found[self.inside] = memory.data[memory.places(self.far[self.inside], op)]
        return found

    def store(self, memory: Memory, values: Array, op: Operation) -> None:
        """Writes those inside."""
        memory.data[memory.places(self.far[self.inside], op)] = values[self.inside]


class Pending:
    """Sums that a product still adds to."""

    def __init__(self, run: Callable[[Clock], Array]) -> None:
        self.run: Callable[[Clock], Array] | None = run
        self.value: Array | None = None
        self.told: Known | None = None  # by the first warp that has waited
        self.together: list[Pending] = [self]

    def done(self, clock: Clock) -> Array:
        """The sums, for a warp that has waited."""
        if self.run is not None:
            self.value, self.run = self.run(clock), None
            self.told = clock.tell()
        assert self.value is not None
        assert self.told is not None
        clock.learn(self.told)
        return self.value


def _addresses(
    word: int, rows: Array, depth: int, item: int, *, turned: bool, op: Operation
) -> Array:
    """Where a factor's bytes lie [row, summed element, byte], as a descriptor says."""
    start, leading, stride = ((word >> by & 0x3FFF) << 4 for by in (0, 16, 32))
    if word >> 62 & 3 != 1:
        raise ModelError(f"{op.name}: a descriptor that does not swizzle 128 bytes")
    if start & 7 * ROW:
        raise ModelError(f"{op.name}: a factor at {start}, inside of eight swizzled rows")
    per, k = ROW // item, np.arange(depth)
    if turned:
        across = start + rows // per * leading + rows % per * item
        at = across[:, None] + (k // EIGHT * stride + k % EIGHT * ROW)[None]
    else:
        down = start + rows // EIGHT * stride + rows % EIGHT * ROW
        at = down[:, None] + (k * item)[None]
    return swizzled(at[:, :, None] + np.arange(item))


def product(
    op: gp.WgmmaOp, shared: Shared, warp: int, lhs: Array, rhs: Array,
    begin: Pending | Array | None, clock: Clock,
) -> Pending:  # fmt: skip
    """A warp's 16 rows of a group's product, which begins here."""
    kind = dtype_of(op.element)
    depth, columns = op.depth, op.columns.value.data
    rows = np.arange(16) + 16 * (warp % 4)
    sides: list[list[Array]] = []
    numbers = (
        (lhs, rows, op.lhs_step, op.lhs_box, op.lhs_turned),
        (rhs, np.arange(columns), op.rhs_step, op.rhs_box, op.rhs_turned),
    )
    for factor, lines, by, box, turned in numbers:
        if factor.ndim == 2:
            sides.append([*_held(factor, op.steps.value.data, depth)])
            continue
        if (factor != factor[0]).any():
            raise ModelError(f"{op.name}: a descriptor that differs from thread to thread")
        sides.append(
            [
                _addresses(
                    int(factor[0]) + (offset >> 4), lines, depth, kind.bytes,
                    turned=turned is not None, op=op,
                )
                for offset in op.offsets(by, box)
            ]
        )  # fmt: skip
    described = [at for side in sides for at in side if at.ndim == 3]
    for at in described:
        shared.by_engine(at.reshape(-1), op, clock)
    versions = [shared.versions(at) for at in described]

    def values(part: Array) -> Array:
        if part.ndim == 2:
            return part
        raw = np.ascontiguousarray(shared.data[part]).view(kind.numpy)[..., 0]
        return raw.astype(np.float64)

    def run(clock: Clock) -> Array:
        for at in described:
            shared.history.read(at.reshape(-1), clock)
        if [shared.versions(at) for at in described] != versions:
            raise ModelError(f"{op.name}: a factor is overwritten before it is waited for")
        found = begin.done(clock) if isinstance(begin, Pending) else begin
        total = np.zeros((16, columns)) if found is None else _matrix(found, columns)
        for a, b in zip(*sides, strict=True):
            total = (total + values(a) @ values(b).T).astype(np.float32)
        return _fragment(total)

    return Pending(run)


@cache
def _places(columns: int) -> tuple[Array, Array]:
    """Row and column of each lane's sums, of a warp's 16 rows."""
    layout = wgmma_acc(columns) if not columns & (columns - 1) else None
    if layout is None:
        number = np.arange(columns // 2)
        row = np.arange(32)[:, None] // 4 + 8 * (number >> 1 & 1)
        return row, 8 * (number >> 2) + (number & 1) + 2 * (np.arange(32)[:, None] % 4)
    at = np.array(
        [[layout.place(r, lane, 0, 0) for r in range(columns // 2)] for lane in range(32)]
    )
    return at[..., 0], at[..., 1]


def _matrix(sums: Array, columns: int) -> Array:
    found = np.zeros((16, columns), sums.dtype)
    found[_places(columns)] = sums
    return found


def _fragment(matrix: Array) -> Array:
    return matrix[_places(matrix.shape[1])].astype(np.float32)


def _held(factor: Array, steps: int, depth: int) -> Iterator[Array]:
    """The 16 rows of a warp's factor in registers, step by step."""
    whole = _matrix(factor, steps * depth).astype(np.float64)
    for step in range(steps):
        yield whole[:, step * depth : (step + 1) * depth]
