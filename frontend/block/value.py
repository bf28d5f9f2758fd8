"""A block: what a value of a block program is, for all programs of the grid at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn, cast

import numpy as np

import mlc.frontend.numpy as mnp
from mlc.dialects.dtypes import BOOL, F32, I32, I64, DType, numpy_dtype
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend.block import parts
from mlc.frontend.block.parts import Part
from mlc.frontend.block.spans import Line, Span, whole_region
from mlc.frontend.errors import ConcretizationError, NotSupportedError, located
from mlc.frontend.trace.tracer import Tracer

Operand = Any
"""A block, or a number of Python."""


class Block:
    """
    Numbers in the shape of a block, one such block for each program of the grid.

    `line`: of integers that are linear in the positions; `conditions`: of a mask, lines that are
    >= 0 where it is true. Both know what they are without an array; `part` makes one.
    """

    __array_ufunc__ = None
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(
        self,
        grid: tuple[int, ...],
        shape: tuple[int, ...],
        row: DType,
        made: Part | None = None,
        *,
        line: Line | None = None,
        conditions: tuple[Line, ...] | None = None,
    ) -> None:
        self.grid = grid
        self.shape = shape
        self.row = row
        self.line = line
        self.conditions = conditions
        self._part = made

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.row.numpy

    @property
    def sizes(self) -> tuple[int, ...]:
        """The grid's axes, then the block's."""
        return (*self.grid, *self.shape)

    @property
    def part(self) -> Part:
        """The value as an array."""
        if self._part is None:
            if self.line is not None:
                core = _line_array(self.line, self.sizes, self.row)
            else:
                core = _mask_array(self.conditions or (), self.sizes)
            self._part = Part(core, whole_region(self.sizes))
        return self._part

    def whole(self) -> Tracer:
        """The value as an array over all positions; of size 1 along what it does not depend on."""
        return parts.whole(self.part, self.sizes).core

    # Shapes

    def expanded(self, axis: int) -> Block:
        """With a new axis of the block, of one position."""
        at = len(self.grid) + axis
        shape = (*self.shape[:axis], 1, *self.shape[axis:])

        def inserted(line: Line) -> Line:
            return Line(line.constant, (*line.steps[:at], 0, *line.steps[at:]))

        made = None if self._part is None else _with_axis(self._part, at)
        return self._like(shape, inserted, made)

    def without(self, axis: int) -> Block:
        """Without an axis of the block that has one position."""
        at = len(self.grid) + axis
        shape = (*self.shape[:axis], *self.shape[axis + 1 :])
        made = None if self._part is None else _without_axis(self._part, at)
        return self._like(
            shape, lambda line: replace(line, steps=(*line.steps[:at], *line.steps[at + 1 :])), made
        )

    def spread(self, shape: tuple[int, ...]) -> Block:
        """The block repeated along axes of one position, as NumPy broadcasts."""
        block = self
        while len(block.shape) < len(shape):
            block = block.expanded(0)
        if block.shape == shape:
            return block
        first = len(self.grid)
        wide = {k + first: n for k, n in enumerate(shape) if block.shape[k] != n}
        if any(block.sizes[k] != 1 for k in wide):
            message = f"a block of shape {self.shape} does not fit one of shape {shape}"
            raise located(ShapeError, message, remedy="Give it axes of size 1: x[:, None].")

        def still(line: Line) -> Line:
            return replace(
                line, steps=tuple(0 if k in wide else step for k, step in enumerate(line.steps))
            )

        made = block._part
        if made is not None:
            region = tuple(
                Span(s.axes, 0, n, n) if (n := wide.get(s.axes[0])) is not None else s
                for s in made.region
            )
            made = Part(made.core, region, made.outside)
        return block._like(shape, still, made)

    def _like(
        self, shape: tuple[int, ...], of_line: Callable[[Line], Line], made: Part | None
    ) -> Block:
        line = None if self.line is None else of_line(self.line)
        conditions = None
        if self.conditions is not None:
            conditions = tuple(map(of_line, self.conditions))
        return Block(self.grid, shape, self.row, made, line=line, conditions=conditions)

    def __getitem__(self, key: object) -> Block:
        """`x[:, None]`: new axes."""
        keys = cast("tuple[object, ...]", key if isinstance(key, tuple) else (key,))
        block, axis = self, 0
        for entry in keys:
            if entry is None:
                block = block.expanded(axis)
            elif entry != slice(None):
                message = "a block has no elements to index"
                remedy = "Index with `:` and `None`; compute addresses and load what you need."
                raise located(NotSupportedError, message, remedy=remedy)
            axis += 1
        if axis > len(block.shape):
            message = f"a block of shape {self.shape} is indexed with {len(keys)} entries"
            raise located(ShapeError, message)
        return block

    def __setitem__(self, key: object, value: object) -> NoReturn:
        message = "elements of a block cannot be assigned"
        raise located(NotSupportedError, message, remedy="Use tl.where(condition, new, old).")

    # Conversions

    def to(self, dtype: Any) -> Block:
        """The elements in another dtype."""
        row = numpy_dtype(np.dtype(dtype))
        if row is self.row:
            return self
        if self.line is not None and row in (I32, I64):
            return Block(self.grid, self.shape, row, line=self.line)
        made = self.part
        outside = made.outside
        if isinstance(outside, Tracer):
            outside = outside.astype(row.numpy)
        core = made.core.astype(row.numpy)
        return Block(self.grid, self.shape, row, Part(core, made.region, outside))

    def __bool__(self) -> NoReturn:
        message = "a block's value is known only when the kernel runs, and Python asks for it now"
        raise located(ConcretizationError, message, remedy="Use tl.where(condition, a, b).")

    def __index__(self) -> NoReturn:
        message = "a block's value is known only when the kernel runs, and Python asks for a number"
        remedy = "Sizes and trip counts are numbers: pass them as arguments, or as tl.constexpr."
        raise located(ConcretizationError, message, remedy=remedy)

    __int__ = __float__ = __index__

    def __array__(self, dtype: object = None, copy: object = None) -> NoReturn:
        message = "NumPy's functions do not take blocks"
        raise located(NotSupportedError, message, remedy="Use those of mlc.block.language: tl.exp.")

    def __iter__(self) -> NoReturn:
        message = "a block cannot be walked element by element"
        raise located(NotSupportedError, message, remedy="Write it for the whole block.")

    def __repr__(self) -> str:
        return f"<block {self.row.name}{list(self.shape)} of a grid {self.grid}>"


def _line_array(line: Line, sizes: Sequence[int], row: DType) -> Tracer:
    rank = len(sizes)
    total: Any = None
    for axis in line.axes:
        at = mnp.arange(sizes[axis], dtype=row.numpy) * line.steps[axis]
        shaped = at.reshape(tuple(sizes[axis] if k == axis else 1 for k in range(rank)))
        total = shaped if total is None else total + shaped
    if total is None:
        return mnp.full((1,) * rank, line.constant, dtype=row.numpy)
    return total + line.constant if line.constant else total


def _mask_array(conditions: Sequence[Line], sizes: Sequence[int]) -> Tracer:
    total: Any = mnp.full((1,) * len(sizes), True)
    for line in conditions:
        total = total & (_line_array(line, sizes, I64) >= 0)
    return total


def _with_axis(part: Part, at: int) -> Part:
    moved = [
        Span(tuple(a + (a >= at) for a in s.axes), s.first, s.end, s.size) for s in part.region
    ]
    region = tuple(sorted([*moved, Span((at,), 0, 1, 1)], key=lambda span: span.axes))
    number = next(k for k, span in enumerate(region) if span.axes == (at,))
    return _reshaped(part, region, lambda shape: (*shape[:number], 1, *shape[number:]))


def _without_axis(part: Part, at: int) -> Part:
    number = next(k for k, span in enumerate(part.region) if span.axes == (at,))
    region = tuple(
        Span(tuple(a - (a > at) for a in s.axes), s.first, s.end, s.size)
        for k, s in enumerate(part.region)
        if k != number
    )
    return _reshaped(part, region, lambda shape: (*shape[:number], *shape[number + 1 :]))


def _reshaped(part: Part, region: tuple[Span, ...], shape: Callable[[Any], Any]) -> Part:
    outside = part.outside
    if isinstance(outside, Tracer):
        outside = outside.reshape(shape(outside.shape))
    return Part(part.core.reshape(shape(part.core.shape)), region, outside)


# Elementwise functions


def elementwise(
    function: Callable[..., Any], *operands: Operand, row: DType | None = None
) -> Block:
    """A function of blocks and numbers, element by element; operands become `row` before."""
    blocks = [x for x in operands if isinstance(x, Block)]
    shape = broadcast(blocks)
    given = [x.spread(shape) if isinstance(x, Block) else x for x in operands]
    if row is not None:
        given = [x.to(row.numpy) if isinstance(x, Block) else row.numpy.type(x) for x in given]
    made = [x.part for x in given if isinstance(x, Block)]

    def of_cores(*cores: Tracer) -> Tracer:
        rest = iter(cores)
        return function(*(next(rest) if isinstance(x, Block) else x for x in given))

    frame = blocks[0]
    part = parts.combined(of_cores, made, (*frame.grid, *shape))
    return Block(frame.grid, shape, part.core.row, part)


def broadcast(blocks: Sequence[Block]) -> tuple[int, ...]:
    """The common shape of blocks."""
    try:
        return np.broadcast_shapes(*(x.shape for x in blocks))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in blocks)
        raise located(ShapeError, f"blocks of shapes {shapes} do not fit each other") from None


def common_row(*operands: Operand) -> DType:
    """
    The dtype of an operation: of kinds bool, integer, float the highest; of one kind the widest.
    Python's numbers take the dtype of the blocks, unless theirs is a higher kind.
    """
    rows = [x.row for x in operands if isinstance(x, Block)]
    order = ("bool", "uint", "int", "float")
    for row in rows:
        if row.kind not in order:
            raise located(DTypeError, f"blocks of {row.name} are not computed with")
    numbers = [x for x in operands if not isinstance(x, Block)]
    kind = max((_rank(row) for row in rows), default=0)
    wanted = max((_rank_of_number(x) for x in numbers), default=0)
    if wanted > kind:
        return F32 if wanted == 2 else I32
    of_kind = [row for row in rows if _rank(row) == kind]
    found = of_kind[0]
    for row in of_kind[1:]:
        found = _wider(found, row)
    return found


def _rank(row: DType) -> int:
    return {"bool": 0, "uint": 1, "int": 1}.get(row.kind, 2)


def _rank_of_number(x: object) -> int:
    if isinstance(x, bool | np.bool_):
        return 0
    return 1 if isinstance(x, int | np.integer) else 2


def _wider(a: DType, b: DType) -> DType:
    if a.bytes != b.bytes:
        return a if a.bytes > b.bytes else b
    if a is b:
        return a
    return F32 if a.is_inexact else next(x for x in (a, b) if x.kind == "uint")


def is_whole_number(value: object) -> bool:
    """An integer of Python or NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def line_of(value: object, like: Block) -> Line | None:
    """An operand as a line; None where it is none."""
    if isinstance(value, Block):
        return value.line
    if is_whole_number(value):
        return Line(int(cast("int", value)), (0,) * len(like.sizes))
    return None


def of_line(like: Block, line: Line) -> Block:
    """The block of a line; of 64 bits where 32 do not hold it."""
    ends = [abs(s) * (n - 1) for s, n in zip(line.steps, like.sizes, strict=True)]
    wide = abs(line.constant) + sum(ends) > I32.highest
    return Block(like.grid, like.shape, I64 if wide else I32, line=line)


def of_conditions(like: Block, conditions: tuple[Line, ...]) -> Block:
    """The mask of lines."""
    return Block(like.grid, like.shape, BOOL, conditions=conditions)
