"""Ops that place tensors inside one another: pad, and slices whose offsets are values.

Each says which element lies where, so consumers fold it into their own reads; none costs a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType, UnitAttr, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
)

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.create import IotaOp, SizeOp, full
from mlc.dialects.tensor.element import ElementBuilder, Ix, Point
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.op import AGAIN, ONCE, SAME, Array, OpBuilder, Tensor, TensorOp, tensor_of
from mlc.dialects.tensor.shape import (
    ReshapeOp,
    SliceOp,
    broadcast_to,
)

ZERO = Dim.const(0)
ONE = Dim.const(1)


def all_of(b: ElementBuilder, conditions: Sequence[SSAValue]) -> SSAValue | None:
    """The conjunction of bool elements; None where there is none."""
    if not conditions:
        return None
    return reduce(lambda x, y: b.apply(arith.AndIOp, x, y), conditions)


def _dims(properties: dict[str, Attribute], name: str) -> Shape:
    value = properties[name]
    assert isinstance(value, DimsAttr)
    return value.data


@irdl_op_definition
class PadOp(TensorOp):
    """
    `x` with `low` elements of `value` before and `high` after it on each axis; a negative number
    takes elements away.

    ```mlir
    %0 = mlc.pad %x, %zero [<1, 0>, <0, 2>] : tensor<2x3xf32>, tensor<f32> -> tensor<3x5xf32>
    ```
    """

    name = "mlc.pad"
    IS_FREE: ClassVar[bool] = True
    MOVES: ClassVar[bool] = True
    SOURCE: ClassVar[str] = "StableHLO specification, pad without interior padding"
    x = operand_def(TensorType)
    value = operand_def(TensorType)
    low = prop_def(DimsAttr)
    high = prop_def(DimsAttr)
    result = result_def(TensorType)
    assembly_format = (
        "$x `,` $value `[` $low `,` $high `]` attr-dict"
        " `:` type($x) `,` type($value) `->` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        x, value = operands
        low, high = _dims(properties, "low"), _dims(properties, "high")
        if value.element_type != x.element_type or shape_of(value) != ():
            raise DTypeError(f"mlc.pad: the value is {value}; expected one element of {x}")
        dims = shape_of(x)
        if not len(low) == len(high) == len(dims):
            raise ShapeError(
                f"mlc.pad: {len(dims)} axes, {len(low)} low and {len(high)} high paddings;"
                " expected as many of each"
            )
        shape = tuple(a + n + c for a, n, c in zip(low, dims, high, strict=True))
        if any(n.constant is not None and n.constant < 0 for n in shape):
            raise ShapeError(f"mlc.pad: of {spell(dims)} no elements would be left: {spell(shape)}")
        return tensor_type(x.element_type, shape)

    def reference(self, *operands: Array) -> Array:
        raise NotImplementedError("pad needs its concrete paddings: call reference_at")

    def reference_at(
        self, x: Array, value: Array, low: tuple[int, ...], high: tuple[int, ...]
    ) -> Array:
        """The meaning for concrete paddings."""
        ends = list(zip(low, x.shape, high, strict=True))
        result = np.full([a + n + c for a, n, c in ends], value[()], x.dtype)
        # an end may take away elements that the other one added
        kept = [(max(-a, 0), max(min(n, n + c), -a, 0)) for a, n, c in ends]
        source = tuple(slice(start, end) for start, end in kept)
        place = tuple(slice(start + a, end + a) for (start, end), a in zip(kept, low, strict=True))
        result[place] = x[source]
        return result

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        inside: list[SSAValue] = []
        point: list[Ix] = []
        zero = b.constant(0, I64)
        bounds = zip(at, shape_of(self.x.type), self.low.data, self.high.data, strict=True)
        for p, size, low, high in bounds:
            source = p if low == ZERO else b.affine(p, 1, -low)
            point.append(source)
            if not _at_most_zero(low):
                inside.append(b.compare("ge", b.position(source), zero, I64))
            if not _at_most_zero(high):
                inside.append(b.compare("lt", b.position(source), b.size(size), I64))
        where = all_of(b, inside)
        if where is None:
            return b.fetch(self.x, tuple(point))
        return b.select(where, b.fetch(self.x, tuple(point), where=where), b.fetch(self.value, ()))

    def jointly_linear(self) -> tuple[int, ...]:
        return (0, 1)

    def reads(self, operand: int) -> int:
        return super().reads(operand) if shape_of(self.operands[operand].type) else AGAIN

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        """To `x` go the elements that it gave; to the value goes the sum of the others."""
        from mlc.dialects.tensor.elementwise import SubOp

        zero = full(b, 0.0, self.dtype, ())
        low, high = (tuple(-d for d in widths.data) for widths in (self.low, self.high))
        inner = b(PadOp, cotangent, zero, low=low, high=high)
        return inner if operand == 0 else b(SubOp, _total(b, cotangent), _total(b, inner))

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        low, high = (ZERO, *self.low.data), (ZERO, *self.high.data)
        x, value = operands
        if not batched[1]:
            return b(PadOp, x, value, low=low, high=high)
        (count,) = shape_of(value.type)
        x = x if batched[0] else broadcast_to(b, x, (count, *shape_of(x.type)))
        return _pad_with_many(b, self, x, value, low, high)


def _pad_with_many(
    b: OpBuilder, op: PadOp, x: SSAValue, values: SSAValue, low: Shape, high: Shape
) -> SSAValue:
    """pad where each entry of the new axis has a value of its own."""
    from mlc.dialects.tensor.comparison import SelectOp

    (count,) = shape_of(values.type)
    everywhere = full(b, True, BOOL, shape_of(x.type)[1:])
    inside = b(PadOp, everywhere, full(b, False, BOOL, ()), low=low[1:], high=high[1:])
    shape = (count, *op.shape)
    padded = b(PadOp, x, full(b, 0.0, op.dtype, ()), low=low, high=high)
    ones = tensor_type(op.dtype.ir, (count, *[ONE] * len(op.shape)))
    filled = broadcast_to(b, b(ReshapeOp, values, declared=ones), shape)
    return b(SelectOp, broadcast_to(b, inside, shape), padded, filled)


def sliced_back(b: OpBuilder, op: SliceOp, part: SSAValue) -> SSAValue:
    """Zeros of the slice's operand with `part` where the slice was read."""
    from mlc.dialects.tensor.elementwise import AddOp, MulOp
    from mlc.dialects.tensor.letters import ALPHABET
    from mlc.dialects.tensor.scatter import ScatterOp

    low, high = [ZERO] * len(op.shape), [ZERO] * len(op.shape)
    sizes = shape_of(op.x.type)
    for axis, ((offset, step), size) in enumerate(zip(op.starts(), sizes, strict=True)):
        dims = shape_of(part.type)
        count = dims[axis]
        if step in (1, -1):
            low[axis] = offset if step == 1 else offset - count + 1
            high[axis] = size - low[axis] - count
            if step == -1:
                part = _turned(b, part, axis)
            continue
        kind = tensor_type(i64, (count,))
        places = b(MulOp, b(IotaOp, axis=0, declared=kind), full(b, step, I64, (count,)))
        places = b(AddOp, places, broadcast_to(b, b(SizeOp, dims=(offset,)), (count,)))
        word = ALPHABET[: len(dims)]
        letters = f"{word[:axis]}0{word[axis + 1 :]},{word[axis]}->{word}"
        zeros = full(b, 0.0, op.dtype, (*dims[:axis], size, *dims[axis + 1 :]))
        part = b(ScatterOp, zeros, places, part, mode="add", letters=letters)
    if all(d == ZERO for d in (*low, *high)):
        return part
    return b(PadOp, part, full(b, 0.0, op.dtype, ()), low=tuple(low), high=tuple(high))


def _turned(b: OpBuilder, x: SSAValue, axis: int) -> SSAValue:
    """The elements along an axis in reverse order."""
    dims = shape_of(x.type)
    offsets = tuple(d - 1 if k == axis else ZERO for k, d in enumerate(dims))
    steps = tuple(Dim.const(-1) if k == axis else ONE for k in range(len(dims)))
    return b(SliceOp, x, offsets=offsets, steps=steps, declared=tensor_of(x))


def _total(b: OpBuilder, x: SSAValue) -> SSAValue:
    from mlc.dialects.tensor.letters import ALPHABET
    from mlc.dialects.tensor.reduce import ReduceOp

    letters = ALPHABET[: len(shape_of(x.type))]
    return b(ReduceOp, x, monoid="sum", letters=f"{letters}->")


def _at_most_zero(dim: Dim) -> bool:
    return dim.constant is not None and dim.constant <= 0


class _Offset(TensorOp):
    """
    Ops on a part of `x` that begins at values: one i64 per axis, clamped so that it fits. `fits`:
    they are known to lie so already, and nothing is clamped.
    """

    SOURCE: ClassVar[str] = "StableHLO specification, dynamic_slice and dynamic_update_slice"
    irdl_options = (ParsePropInAttrDict(),)
    fits = opt_prop_def(UnitAttr)

    @classmethod
    def check_offsets(cls, x: Tensor, part: Tensor, offsets: Sequence[Tensor]) -> None:
        """Raises unless there is one i64 per axis, and the part fits."""
        dims, sizes = shape_of(x), shape_of(part)
        if len(offsets) != len(dims) or len(sizes) != len(dims):
            raise ShapeError(
                f"{cls.name}: {len(dims)} axes, {len(offsets)} offsets, a part of {len(sizes)}"
                " axes; expected as many of each"
            )
        for k, offset in enumerate(offsets):
            if offset != tensor_type(i64, ()):
                raise DTypeError(f"{cls.name}: offset {k} is {offset}; expected tensor<i64>")
        for axis, (size, part_size) in enumerate(zip(dims, sizes, strict=True)):
            room = (size - part_size).constant
            if room is not None and room < 0:
                raise ShapeError(
                    f"{cls.name}: axis {axis} has {size} elements, the part has {part_size}"
                )

    def starts(
        self, b: ElementBuilder, offsets: Sequence[SSAValue], x: Shape, part: Shape
    ) -> list[SSAValue]:
        """The offsets, as i64 elements: clamped, if they may not fit."""
        if self.fits is not None:
            return [b.fetch(offset, ()) for offset in offsets]
        zero = b.constant(0, I64)
        found: list[SSAValue] = []
        for offset, size, count in zip(offsets, x, part, strict=True):
            last = b.size(size - count)
            value = b.apply(arith.MinSIOp, b.fetch(offset, ()), last)
            found.append(b.apply(arith.MaxSIOp, value, zero))
        return found


def _clamped(offsets: Sequence[Array], x: tuple[int, ...], part: tuple[int, ...]) -> list[int]:
    triples = zip(offsets, x, part, strict=True)
    return [max(min(int(o[()]), n - c), 0) for o, n, c in triples]


@irdl_op_definition
class DynamicSliceOp(_Offset):
    """
    result[i] = x[offset + i], with offsets that are values; they are clamped to fit.

    ```mlir
    %0 = mlc.dynamic_slice %x[%i, %j] : tensor<9x4xf32>, tensor<i64>, tensor<i64> -> tensor<2x4xf32>
    ```
    """

    name = "mlc.dynamic_slice"
    IS_FREE: ClassVar[bool] = True
    MOVES: ClassVar[bool] = True
    x = operand_def(TensorType)
    offsets = var_operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = (
        "$x `[` $offsets `]` attr-dict `:` type($x) `,` type($offsets) `->` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        cls.check_offsets(operands[0], declared, operands[1:])
        return tensor_type(operands[0].element_type, shape_of(declared))

    def reference_at(self, operands: Sequence[Array], shape: tuple[int, ...]) -> Array:
        """The meaning for a concrete result shape."""
        x, *offsets = operands
        starts = _clamped(offsets, x.shape, shape)
        return x[tuple(slice(a, a + n) for a, n in zip(starts, shape, strict=True))]

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        starts = self.starts(b, self.offsets, shape_of(self.x.type), self.shape)
        point = tuple(b.shift(p, start) for p, start in zip(at, starts, strict=True))
        return b.fetch(self.x, point)

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def reads(self, operand: int) -> int:
        return super().reads(operand) if shape_of(self.operands[operand].type) else AGAIN

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        zeros = full(b, 0.0, self.dtype, shape_of(self.x.type))
        return b(DynamicUpdateOp, zeros, cotangent, *self.offsets)

    def accumulate(
        self, b: OpBuilder, total: SSAValue, cotangent: SSAValue, operand: int
    ) -> SSAValue:
        from mlc.dialects.tensor.elementwise import AddOp

        before = b(DynamicSliceOp, total, *self.offsets, declared=tensor_of(self.result))
        return b(DynamicUpdateOp, total, b(AddOp, before, cotangent), *self.offsets)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        x, *offsets = operands
        count = shape_of(operands[list(batched).index(True)].type)[0]
        if not any(batched[1:]):
            zero = full(b, 0, I64, ())
            declared = tensor_type(self.dtype.ir, (count, *self.shape))
            return b(DynamicSliceOp, x, zero, *offsets, declared=declared)
        from mlc.dialects.tensor.index import GatherOp

        source, words, indices = positions_of(
            b, self.shape, shape_of(self.x.type), offsets, batched[1:]
        )
        lead = words[0][0]
        result = lead + "".join(word[-1] for word in words)
        source = lead + source if batched[0] else source
        return b(GatherOp, x, *indices, letters=f"{','.join([source, *words])}->{result}")


def positions_of(
    b: OpBuilder, part: Shape, x: Shape, offsets: Sequence[SSAValue], batched: Sequence[bool]
) -> tuple[str, list[str], list[SSAValue]]:
    """For offsets that differ along a new axis: the source's letters, the index tensors' letters
    and the positions (count, size of the part) on each axis."""
    from mlc.dialects.tensor.comparison import MaxOp, MinOp
    from mlc.dialects.tensor.elementwise import AddOp

    count = shape_of(offsets[list(batched).index(True)].type)[0]
    indices: list[SSAValue] = []
    words: list[str] = []
    for axis, (offset, size, length, many) in enumerate(
        zip(offsets, part, x, batched, strict=True)
    ):
        starts = offset if many else broadcast_to(b, offset, (count,))
        last = broadcast_to(b, b(SizeOp, dims=(length - size,)), (count,))
        starts = b(MaxOp, b(MinOp, starts, last), full(b, 0, I64, (count,)))
        column = b(ReshapeOp, starts, declared=tensor_type(i64, (count, ONE)))
        steps = b(IotaOp, axis=1, declared=tensor_type(i64, (count, size)))
        indices.append(b(AddOp, broadcast_to(b, column, (count, size)), steps))
        words.append("B" + "abcdefghij"[axis])
    return "".join(map(str, range(len(x)))), words, indices


@irdl_op_definition
class DynamicUpdateOp(_Offset):
    """
    `x` with `update` written at offsets that are values; they are clamped to fit.

    ```mlir
    %0 = mlc.dynamic_update %x, %u[%i] : tensor<9xf32>, tensor<2xf32>, tensor<i64> -> tensor<9xf32>
    ```
    """

    name = "mlc.dynamic_update"
    x = operand_def(TensorType)
    update = operand_def(TensorType)
    offsets = var_operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = (
        "$x `,` $update `[` $offsets `]` attr-dict"
        " `:` type($x) `,` type($update) `,` type($offsets) `->` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        x, update, *offsets = operands
        if x.element_type != update.element_type:
            raise DTypeError(f"mlc.dynamic_update: {update} does not fit {x}; expected one dtype")
        cls.check_offsets(x, update, offsets)
        return x

    def reference(self, *operands: Array) -> Array:
        x, update, *offsets = operands
        starts = _clamped(offsets, x.shape, update.shape)
        result = x.copy()
        result[tuple(slice(a, a + n) for a, n in zip(starts, update.shape, strict=True))] = update
        return result

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        part = shape_of(self.update.type)
        starts = self.starts(b, self.offsets, self.shape, part)
        zero = b.constant(0, I64)
        inside: list[SSAValue] = []
        point: list[Ix] = []
        for p, start, count, size in zip(at, starts, part, self.shape, strict=True):
            if count == size:
                point.append(p)
                continue
            back = b.shift(p, b.apply(arith.SubiOp, zero, start))
            position = b.position(back)
            inside.append(b.compare("ge", position, zero, I64))
            inside.append(b.compare("lt", position, b.size(count), I64))
            point.append(back)
        where = all_of(b, inside)
        if where is None:
            return b.fetch(self.update, tuple(point))
        new = b.fetch(self.update, tuple(point), where=where)
        return b.select(where, new, b.fetch(self.x, at))

    def jointly_linear(self) -> tuple[int, ...]:
        return (0, 1)

    def reads(self, operand: int) -> int:
        if not shape_of(self.operands[operand].type):
            return AGAIN
        return ONCE if operand == 1 else SAME

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        part = tensor_of(self.update)
        if operand == 1:
            return b(DynamicSliceOp, cotangent, *self.offsets, declared=part)
        zeros = full(b, 0.0, self.dtype, shape_of(part))
        return b(DynamicUpdateOp, cotangent, zeros, *self.offsets)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        count = shape_of(operands[list(batched).index(True)].type)[0]
        x, update, *offsets = operands
        x = x if batched[0] else broadcast_to(b, x, (count, *self.shape))
        part = shape_of(self.update.type)
        update = update if batched[1] else broadcast_to(b, update, (count, *part))
        if not any(batched[2:]):
            return b(DynamicUpdateOp, x, update, full(b, 0, I64, ()), *offsets)
        from mlc.dialects.tensor.scatter import ScatterOp

        source, words, indices = positions_of(b, part, self.shape, offsets, batched[2:])
        result = "B" + "".join(word[-1] for word in words)
        letters = f"{','.join(['B' + source, *words])}->{result}"
        return b(ScatterOp, x, *indices, update, mode="set", letters=letters)


PLACING: tuple[type[TensorOp], ...] = (PadOp, DynamicSliceOp, DynamicUpdateOp)
