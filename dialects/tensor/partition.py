"""Partition: the element of one rank in its place, those before it and behind it on their sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, prop_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import numpy_dtype
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.op import Array, OpBuilder, Tensor, one_of_property, text_property
from mlc.dialects.tensor.sort import Sorting

KEPT = ("all", "first")


class Partitioned(Sorting):
    """
    The family: along the last axis; the elements that come before the one of rank `kth`, then those
    equal to it, then the others, each group in the operand's order. Of a rank too large, the last
    one. With `keep` "first", what is up to and at rank `kth` and no more.
    """

    SOURCE: ClassVar[str] = "NumPy 2 reference manual, partition; the order within groups is ours"
    WEIGHT: ClassVar[float] = 30.0
    GIVES_POSITIONS: ClassVar[bool] = False
    order = prop_def(StringAttr)
    kth = prop_def(IntegerAttr)
    keep = prop_def(StringAttr)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$order $kth $keep $x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def check(cls, x: Tensor, properties: dict[str, Attribute]) -> None:
        """Raises unless there is an axis, an order and one rank that may exist."""
        super().check(x, properties)
        keep = one_of_property(cls.name, properties, "keep", KEPT, ShapeError)
        rank, length = _number(properties["kth"]), shape_of(x)[-1].constant
        known = length is not None and (length > 0 or keep == "first")
        if rank < 0 or (known and length is not None and length <= rank):
            raise ShapeError(f"{cls.name}: rank {rank} of {length} elements")
        if keep == "first" and length is None:
            raise ShapeError(f"{cls.name}: the first of {shape_of(x)[-1]} elements; give a number")

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        (x,) = operands
        cls.check(x, properties)
        shape = shape_of(x)
        if text_property(properties, "keep") == "first":
            shape = (*shape[:-1], Dim.const(_number(properties["kth"]) + 1))
        return tensor_type(i64 if cls.GIVES_POSITIONS else x.element_type, shape)

    @property
    def rank(self) -> int:
        """The rank of the element that gets its place."""
        return _number(self.properties["kth"])

    @property
    def keeps_first(self) -> bool:
        """Whether the result ends at that rank."""
        return text_property(self.properties, "keep") == "first"

    def places(self, x: Array) -> Array:
        """The positions, in the order of the result."""
        length = x.shape[-1]
        if length == 0:
            return np.zeros(x.shape, np.int64)
        # 16-bit floats as f32, whose order NumPy knows with NaN
        x = x.astype(numpy_dtype(x.dtype).accumulator.numpy, copy=False)
        ascends = text_property(self.properties, "order") == "ascending"
        kth = min(self.rank, length - 1)
        place = kth if ascends else length - 1 - kth
        of_rank = np.sort(x, axis=-1)[..., place : place + 1]
        low, high = (x, of_rank) if ascends else (of_rank, x)
        with np.errstate(invalid="ignore"):
            before = (low < high) | ((low == low) & (high != high))
            equal = (low == high) | ((low != low) & (high != high))
        groups = np.where(before, 0, np.where(equal, 1, 2))
        found = np.argsort(groups, axis=-1, kind="stable")
        return found[..., : kth + 1] if self.keeps_first else found

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        names = self.properties
        kth, keep = names["kth"], names["keep"]
        return b(type(self), operands[0], order=names["order"], kth=kth, keep=keep)


def _number(attribute: Attribute) -> int:
    assert isinstance(attribute, IntegerAttr)
    return int(attribute.value.data)


@irdl_op_definition
class PartitionOp(Partitioned):
    """
    The elements, partitioned.

    ```mlir
    %0 = mlc.partition "ascending" 4 : i64 "all" %x : tensor<3x9xf32> -> tensor<3x9xf32>
    ```
    """

    name = "mlc.partition"

    def reference(self, *operands: Array) -> Array:
        return np.take_along_axis(operands[0], self.places(operands[0]), axis=-1)

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        from mlc.dialects.tensor.tangents import taken_along

        if tangents[0] is None or not self.dtype.is_inexact:
            return None
        places = b(ArgpartitionOp, self.x, order=self.order, kth=self.kth, keep=self.keep)
        return taken_along(b, tangents[0], places, len(self.shape) - 1)


@irdl_op_definition
class ArgpartitionOp(Partitioned):
    """
    The positions of the elements, partitioned.

    ```mlir
    %0 = mlc.argpartition "descending" 4 : i64 "first" %x : tensor<3x9xf32> -> tensor<3x5xi64>
    ```
    """

    name = "mlc.argpartition"
    GIVES_POSITIONS: ClassVar[bool] = True
    NO_DERIVATIVE: ClassVar[str] = "gives positions"

    def reference(self, *operands: Array) -> Array:
        return self.places(operands[0])


PARTITION = (PartitionOp, ArgpartitionOp)
