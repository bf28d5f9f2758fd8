"""Where a kernel's inputs and outputs lie in memory, and positions along their axes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from mlc.dialects.dims import product, shape_of
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.element import Ix
from mlc.dialects.tensor.op import element_dtype
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder


@dataclass(frozen=True)
class Position(Ix):
    """base + step * lane number, or base + lanes where the positions were read from memory."""

    base: Index
    step: int = 0
    lanes: SSAValue | None = None


ORIGIN = Position(0)


@dataclass(frozen=True)
class TurnedTile:
    """A part of a buffer, its last axis and another one changed for each other."""

    memref: SSAValue  # rows along the buffer's last axis, columns along `axis`
    axis: int  # of the tensor
    row: Index  # of the buffer, where the tile begins
    column: Index

    def serves(self, at: Sequence[Position]) -> bool:
        """Whether the lanes run along `axis`, one after the other."""
        rest = [p for k, p in enumerate(at) if k != self.axis]
        return (
            at[self.axis].step == 1
            and not any(p.step for p in rest)
            and all(p.lanes is None for p in at)
        )

    def indices(self, b: LoopBuilder, at: Sequence[Position]) -> list[Index]:
        """Of lane 0."""
        return [b.sub(at[-1].base, self.row), b.sub(at[self.axis].base, self.column)]


@dataclass(frozen=True)
class Buffer:
    """A kernel's input or output in memory."""

    memref: SSAValue
    dtype: DType
    groups: tuple[tuple[int, ...], ...]  # the tensor axes that each memref axis walks
    sizes: tuple[Index, ...]  # of every tensor axis
    strides: tuple[Index, ...]  # of every memref axis, in elements
    turned: TurnedTile | None = None  # where it is read along another axis than its last

    def indices(self, b: LoopBuilder, at: Sequence[Position]) -> tuple[list[Index], list[int]]:
        """For each memref axis the index of lane 0, and how far it moves from lane to lane."""
        bases: list[Index] = []
        steps: list[int] = []
        for group in self.groups:
            base: Index = 0
            step = 0
            for axis in group:
                base = b.add(b.mul(base, self.sizes[axis]), at[axis].base)
                # in a joined group only the last axis of several elements moves
                step = at[axis].step or (step if self.sizes[axis] == 1 else 0)
            bases.append(base)
            steps.append(step)
        return bases, steps


def buffer_of(
    b: LoopBuilder,
    memref: SSAValue,
    tensor: SSAValue,
    merged: Sequence[tuple[int, ...]],
    strides: Sequence[Index] | None,
) -> Buffer:
    """A kernel's memref argument with its tensor axes; `strides` where it is not row-major."""
    shape = shape_of(tensor.type)
    sizes = tuple(b.dim(dim) for dim in shape)
    assert isinstance(memref.type, MemRefType)
    if strides is None:
        ends = [group[-1] + 1 for group in merged]
        strides = [b.dim(product(shape[end:])) for end in ends]
    return Buffer(memref, element_dtype(tensor), tuple(merged), sizes, tuple(strides))
