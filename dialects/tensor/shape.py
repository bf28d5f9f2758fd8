"""Ops that move elements without arithmetic: broadcast, transpose, reshape, slice, concat.

The first, second and fourth are index maps: they cost nothing once folded into their consumer's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import eq, operand_def, prop_def, result_def, var_operand_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, Shape, product, shape_of, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.element import ElementBuilder, Ix, Point
from mlc.dialects.tensor.letters import ALPHABET, bind, fresh, spell, split, split_one
from mlc.dialects.tensor.op import (
    AGAIN,
    Array,
    OpaqueOp,
    OpaqueTemplate,
    OpBuilder,
    Tensor,
    TensorOp,
    int_property,
    tensor_of,
    text_property,
)

_NOWHERE = Ix()  # a position that is multiplied by 0


class IndexMapped(TensorOp):
    """The family of ops whose result element is one operand element at another point."""

    IS_FREE: ClassVar[bool] = True
    MOVES: ClassVar[bool] = True

    def operand_point(self, b: ElementBuilder, at: Point) -> Point:
        """Where in operand 0 the element of `at` lies."""
        raise NotImplementedError(self.name)

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        return b.fetch(self.operands[0], self.operand_point(b, at))

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)


@irdl_op_definition
class BroadcastOp(IndexMapped):
    """
    Repeats the operand along the letters it lacks.

    ```mlir
    %0 = mlc.broadcast "n->mn" %row : tensor<4xf32> -> tensor<3x4xf32>
    ```
    """

    name = "mlc.broadcast"
    letters = prop_def(StringAttr)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$letters $x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        text = text_property(properties, "letters")
        source, result = split_one(text)
        if source != "".join(c for c in result if c in source):
            raise ShapeError(
                f"mlc.broadcast {text!r}: operand letters must keep their order in the result"
            )
        bind(cls.name, text, (source, result), (shape_of(operands[0]), shape_of(declared)))
        return tensor_type(operands[0].element_type, shape_of(declared))

    def reference_at(self, x: Array, shape: tuple[int, ...]) -> Array:
        """The meaning for a concrete result shape."""
        (source,), result = split(self.letters.data)
        column = x.reshape([x.shape[source.index(c)] if c in source else 1 for c in result])
        return np.broadcast_to(column, shape)

    def operand_point(self, b: ElementBuilder, at: Point) -> Point:
        (source,), result = split(self.letters.data)
        return tuple(at[result.index(c)] for c in source)

    def reads(self, operand: int) -> int:
        return AGAIN

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        from mlc.dialects.tensor.reduce import ReduceOp

        (source,), result = split(self.letters.data)
        return b(ReduceOp, cotangent, monoid="sum", letters=f"{result}->{source}")

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        new = fresh(self.letters.data)
        (source,), result = split(self.letters.data)
        shape = (shape_of(operands[0].type)[0], *self.shape)
        declared = tensor_type(self.dtype.ir, shape)
        return b(
            BroadcastOp, operands[0], letters=f"{new}{source}->{new}{result}", declared=declared
        )


def broadcast_to(b: OpBuilder, x: SSAValue, shape: Shape) -> SSAValue:
    """`x` repeated along new leading axes (and unit axes) to `shape`.

    Aligned at the last axis, as NumPy does.
    """
    found = shape_of(x.type)
    if found == shape:
        return x
    lead = len(shape) - len(found)
    ones = Dim.const(1)
    kept = [i for i, dim in enumerate(found) if not (dim == ones and shape[lead + i] != ones)]
    if len(kept) != len(found):
        x = b(
            ReshapeOp,
            x,
            declared=tensor_type(tensor_of(x).element_type, tuple(found[i] for i in kept)),
        )
    letters = ALPHABET[: len(shape)]
    source = "".join(letters[lead + i] for i in kept)
    declared = tensor_type(tensor_of(x).element_type, shape)
    if shape_of(x.type) == shape:
        return x
    return b(BroadcastOp, x, letters=f"{source}->{letters}", declared=declared)


@irdl_op_definition
class TransposeOp(IndexMapped):
    """
    Axes in another order.

    ```mlir
    %0 = mlc.transpose "mn->nm" %x : tensor<3x4xf32> -> tensor<4x3xf32>
    ```
    """

    name = "mlc.transpose"
    letters = prop_def(StringAttr)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$letters $x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        text = text_property(properties, "letters")
        source, result = split_one(text)
        if sorted(source) != sorted(result):
            raise ShapeError(f"mlc.transpose {text!r}: both sides must have the same letters")
        sizes = bind(cls.name, text, (source,), (shape_of(operands[0]),))
        return tensor_type(operands[0].element_type, tuple(sizes[c] for c in result))

    def permutation(self) -> tuple[int, ...]:
        """For each axis of the result, the operand's axis."""
        (source,), result = split(self.letters.data)
        return tuple(source.index(c) for c in result)

    def reference(self, *operands: Array) -> Array:
        return np.transpose(operands[0], self.permutation())

    def operand_point(self, b: ElementBuilder, at: Point) -> Point:
        (source,), result = split(self.letters.data)
        return tuple(at[result.index(c)] for c in source)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        (source,), result = split(self.letters.data)
        return b(TransposeOp, cotangent, letters=f"{result}->{source}")

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        new = fresh(self.letters.data)
        (source,), result = split(self.letters.data)
        return b(TransposeOp, operands[0], letters=f"{new}{source}->{new}{result}")


@irdl_op_definition
class ReshapeOp(TensorOp):
    """
    The same elements in row-major order under another shape.

    ```mlir
    %0 = mlc.reshape %x : tensor<3x4xf32> -> tensor<12xf32>
    ```
    """

    name = "mlc.reshape"
    IS_FREE: ClassVar[bool] = True
    MOVES: ClassVar[bool] = True
    SHARES_MEMORY: ClassVar[bool] = True
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        before, after = shape_of(operands[0]), shape_of(declared)
        if product(before) != product(after):
            raise ShapeError(
                f"mlc.reshape: cannot give {spell(before)} ({product(before)} elements) the shape"
                f" {spell(after)} ({product(after)} elements); expected equal counts"
            )
        return tensor_type(operands[0].element_type, after)

    def reference_at(self, x: Array, shape: tuple[int, ...]) -> Array:
        """The meaning for a concrete result shape."""
        return np.reshape(x, shape)

    @property
    def only_moves(self) -> bool:
        return self.unit_axes_only()

    def unit_axes_only(self) -> bool:
        """Whether only axes of size 1 come or go, so that the op is an index map."""
        one = Dim.const(1)
        before, after = shape_of(self.x.type), self.shape
        return [d for d in before if d != one] == [d for d in after if d != one]

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        """Only where `unit_axes_only`: others are views of a buffer or kernel boundaries."""
        assert self.unit_axes_only(), "a reshape that regroups axes reads a buffer, not an element"
        one = Dim.const(1)
        rest = iter(p for p, dim in zip(at, self.shape, strict=True) if dim != one)
        before = shape_of(self.x.type)
        start = b.affine(at[0] if at else _NOWHERE, 0, Dim.const(0))
        return b.fetch(self.x, tuple(start if d == one else next(rest) for d in before))

    def linear_operands(self) -> tuple[int, ...]:
        return (0,)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        return b(ReshapeOp, cotangent, declared=tensor_of(self.x))

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        shape = (shape_of(operands[0].type)[0], *self.shape)
        return b(ReshapeOp, operands[0], declared=tensor_type(self.dtype.ir, shape))


def known_ends(count: Dim, offset: Dim, step: Dim | int) -> tuple[int, int] | None:
    """The first and the last place that a slice reads of an axis; None where nobody knows."""
    first, last = offset.constant, (offset + (count - 1) * step).constant
    return None if first is None or last is None or count.constant == 0 else (first, last)


@irdl_op_definition
class SliceOp(IndexMapped):
    """
    result[i] = x[offset + step * i] on every axis; a negative step walks backwards.

    ```mlir
    %0 = mlc.slice %x[<3>, <-1>] : tensor<4xf32> -> tensor<4xf32>
    ```
    """

    name = "mlc.slice"
    SOURCE: ClassVar[str] = "NumPy 2 reference manual, basic indexing"
    x = operand_def(TensorType)
    offsets = prop_def(DimsAttr)
    steps = prop_def(DimsAttr)
    result = result_def(TensorType)
    assembly_format = "$x `[` $offsets `,` $steps `]` attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        assert declared is not None
        offsets, steps = properties["offsets"], properties["steps"]
        assert isinstance(offsets, DimsAttr)
        assert isinstance(steps, DimsAttr)
        before, after = shape_of(operands[0]), shape_of(declared)
        if not len(before) == len(after) == len(offsets.data) == len(steps.data):
            raise ShapeError(
                f"mlc.slice: {len(before)} axes, {len(offsets.data)} offsets,"
                f" {len(steps.data)} steps and {len(after)} result axes; expected as many of each"
            )
        bounds = zip(before, after, offsets.data, steps.data, strict=True)
        for axis, (size, count, offset, step) in enumerate(bounds):
            extent, ends = size.constant, known_ends(count, offset, step)
            if extent is None or ends is None:
                continue
            first, last = ends
            if not (0 <= first < extent and 0 <= last < extent):
                raise ShapeError(
                    f"mlc.slice: axis {axis} has {extent} elements;"
                    f" the slice reads from {first} to {last}"
                )
        return tensor_type(operands[0].element_type, after)

    def starts(self) -> tuple[tuple[Dim, int], ...]:
        """(offset, step) of each axis."""
        pairs = zip(self.offsets.data, self.steps.data, strict=True)
        return tuple((offset, step.evaluate({})) for offset, step in pairs)

    def reference_at(self, x: Array, shape: tuple[int, ...], offsets: tuple[int, ...]) -> Array:
        """The meaning for concrete offsets and result shape."""
        axes = zip(shape, offsets, self.starts(), strict=True)
        for axis, (count, offset, (_, step)) in enumerate(axes):
            x = np.take(x, offset + step * np.arange(count), axis=axis)
        return x

    def operand_point(self, b: ElementBuilder, at: Point) -> Point:
        pairs = zip(at, self.starts(), strict=True)
        return tuple(b.affine(p, step, offset) for p, (offset, step) in pairs)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        """Zeros, with the cotangent where the slice was read."""
        from mlc.dialects.tensor.placing import sliced_back

        return sliced_back(b, self, cotangent)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        starts = self.starts()
        shape = (shape_of(operands[0].type)[0], *self.shape)
        return b(
            SliceOp,
            operands[0],
            offsets=(Dim.const(0), *(o for o, _ in starts)),
            steps=(Dim.const(1), *(Dim.const(s) for _, s in starts)),
            declared=tensor_type(self.dtype.ir, shape),
        )


class Concatenation(TensorOp):
    """The family of ops whose result is the operands one after another along an axis."""

    axis = prop_def(IntegerAttr.constr(eq(i64)))
    parts = var_operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$axis $parts attr-dict `:` type($parts) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        axis = int_property(properties, "axis")
        if not operands:
            raise ShapeError(f"{cls.name}: no operands; expected at least one array to concatenate")
        first = shape_of(operands[0])
        if not 0 <= axis < len(first):
            raise ShapeError(f"{cls.name}: axis {axis} of arrays with {len(first)} axes")
        total = Dim.const(0)
        for k, part in enumerate(operands):
            shape = shape_of(part)
            if part.element_type != operands[0].element_type:
                raise DTypeError(
                    f"{cls.name}: operand {k} is {part.element_type},"
                    f" operand 0 is {operands[0].element_type}"
                )
            if len(shape) != len(first) or any(
                i != axis and d != e for i, (d, e) in enumerate(zip(shape, first, strict=True))
            ):
                raise ShapeError(
                    f"{cls.name}: operand {k} is {spell(shape)}, operand 0 is {spell(first)};"
                    f" expected equal sizes on every axis but {axis}"
                )
            total = total + shape[axis]
        return tensor_type(operands[0].element_type, (*first[:axis], total, *first[axis + 1 :]))

    def reference(self, *operands: Array) -> Array:
        return np.concatenate(operands, axis=self.axis.value.data)

    def piece_offsets(self) -> tuple[Dim, ...]:
        """Where along the axis each operand begins: the op is written piece by piece."""
        axis, starts, at = self.axis.value.data, list[Dim](), Dim.const(0)
        for part in self.parts:
            starts.append(at)
            at = at + shape_of(part.type)[axis]
        return tuple(starts)

    def linear_operands(self) -> tuple[int, ...]:
        return ()  # affine in each operand alone

    def jointly_linear(self) -> tuple[int, ...]:
        return tuple(range(len(self.parts)))

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        axis, part = self.axis.value.data, tensor_of(self.parts[operand])
        starts = [Dim.const(0)] * len(self.shape)
        starts[axis] = self.piece_offsets()[operand]
        steps = (Dim.const(1),) * len(self.shape)
        return b(SliceOp, cotangent, offsets=tuple(starts), steps=steps, declared=part)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        size = shape_of(operands[list(batched).index(True)].type)[0]
        parts = [
            x if k else broadcast_to(b, x, (size, *shape_of(x.type)))
            for x, k in zip(operands, batched, strict=True)
        ]
        return b(type(self), *parts, axis=self.axis.value.data + 1)


@irdl_op_definition
class ConcatOp(Concatenation, OpaqueOp):
    """
    The operands one after another along an axis, in memory.

    ```mlir
    %0 = mlc.concat 0 %a, %b : tensor<2xf32>, tensor<3xf32> -> tensor<5xf32>
    ```
    """

    name = "mlc.concat"
    TEMPLATE: ClassVar[OpaqueTemplate] = "copy"

    def pieces(self) -> Iterator[tuple[SSAValue, tuple[Dim, ...]]]:
        """
        What is written, and where each piece begins: the operands, or their pieces where they are
        concatenations that share the kernel.
        """
        axis = self.axis.value.data
        for part, offset in zip(self.parts, self.piece_offsets(), strict=True):
            inner = part.owner
            none = (Dim.const(0),) * len(self.shape)
            found = inner.pieces() if isinstance(inner, ConcatOp) else ((part, none),)
            for piece, start in found:
                yield piece, (*start[:axis], start[axis] + offset, *start[axis + 1 :])


@irdl_op_definition
class JoinOp(Concatenation):
    """
    The operands one after another along an axis, each read where it lies: an index map, for whoever
    reads elements so seldom that asking each time which operand holds one costs less than a copy.

    ```mlir
    %0 = mlc.join 0 %a, %b : tensor<2xf32>, tensor<3xf32> -> tensor<5xf32>
    ```
    """

    name = "mlc.join"
    IS_FREE: ClassVar[bool] = True
    MOVES: ClassVar[bool] = True

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        axis = self.axis.value.data
        parts = list(zip(self.parts, self.piece_offsets(), strict=True))
        if len(parts) == 1:
            return b.fetch(parts[0][0], at)
        place, zero = b.position(at[axis]), b.constant(0, I64)
        found: SSAValue | None = None
        for k, (part, start) in enumerate(parts):
            inner = b.affine(at[axis], 1, -start) if k else at[axis]
            inside: list[SSAValue] = []
            if k:
                inside.append(b.compare("ge", b.position(inner), zero, I64))
            if k + 1 < len(parts):
                size = b.size(shape_of(part.type)[axis])
                inside.append(b.compare("lt", b.position(inner) if k else place, size, I64))
            where = inside[0] if len(inside) == 1 else b.apply(arith.AndIOp, *inside)
            value = b.fetch(part, (*at[:axis], inner, *at[axis + 1 :]), where=where)
            found = value if found is None else b.select(where, value, found)
        assert found is not None
        return found
