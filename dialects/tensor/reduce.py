"""Reductions over axes, and contractions: a summand at each point, combined by a monoid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import operand_def, opt_prop_def, prop_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, Shape, product, shape_of, tensor_type
from mlc.dialects.dtypes import BF16, F16, F32, NUMBERS, DType, dtype_of, named_dtype
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.element import ElementBuilder, Ix, Point, by_kind
from mlc.dialects.tensor.elementwise import STORAGE_REMEDY
from mlc.dialects.tensor.letters import bind, fresh, split, split_one, words_of
from mlc.dialects.tensor.monoid import MONOIDS, Monoid
from mlc.dialects.tensor.op import (
    AGAIN,
    Array,
    OpBuilder,
    Tensor,
    TensorOp,
    element_dtype,
    one_of_property,
    same_array,
    tensor_of,
    text_property,
)
from mlc.dialects.tensor.order import Order, contract
from mlc.dialects.tensor.shape import BroadcastOp

ROUNDED = (BF16.name, F16.name)
"""To what products may round their factors."""


def remedy_for(dtype: DType) -> str:
    """What to write instead, where a dtype cannot be reduced."""
    if dtype.kind == "storage":
        return STORAGE_REMEDY
    return "complex numbers have no order; reduce x.real, x.imag or abs(x)"


class Reduction(TensorOp):
    """The family. Its iteration space is the result's axes, then the reduced ones.

    `element` is the summand.
    """

    KINDS: ClassVar[tuple[str, ...]] = (*NUMBERS, "bool")
    FLOPS: ClassVar[int] = 1

    def combiner(self) -> Monoid:
        """How summands are combined."""
        raise NotImplementedError(self.name)

    def summand(self) -> DType:
        """The dtype in which summands are combined."""
        raise NotImplementedError(self.name)

    def words(self) -> tuple[tuple[str, ...], str, str]:
        """The letters of the operands, of the result and of the reduced axes.

        The last are in the operands' order.
        """
        raise NotImplementedError(self.name)

    def order(self) -> Order:
        """How the reference combines summands, and compiled code with numerics "strict"."""
        if not self.summand().is_inexact or self.combiner().name not in ("sum", "prod"):
            return "any"
        return self._inexact_order() if self.words()[2] else "in turn"

    def _inexact_order(self) -> Order:
        return "in turn"

    def sizes(self) -> dict[str, Dim]:
        """The dim of every letter."""
        operands, _, _ = self.words()
        pairs = zip(operands, self.operands, strict=True)
        return {c: d for word, x in pairs for c, d in zip(word, shape_of(x.type), strict=True)}

    def iteration(self) -> Shape:
        _, result, reduced = self.words()
        sizes = self.sizes()
        return tuple(sizes[c] for c in result + reduced)

    def operand_point(self, b: ElementBuilder, operand: int, at: Mapping[str, Ix]) -> Point:
        """Where an operand is read, for a position of each of its letters."""
        operands, _, _ = self.words()
        return tuple(at[c] for c in operands[operand])

    def points(self, b: ElementBuilder, at: Point) -> tuple[Point, ...]:
        """For a point of the iteration space, the point in each operand."""
        _, result, reduced = self.words()
        known = dict(zip(result + reduced, at, strict=True))
        return tuple(self.operand_point(b, k, known) for k in range(len(self.operands)))

    def window_axes(self) -> tuple[int, ...]:
        """The axes of the iteration space that walk over a few neighbours: never by vectors."""
        return ()


@irdl_op_definition
class ReduceOp(Reduction):
    """
    Combines the elements along the letters that the result lacks.

    ```mlir
    %0 = mlc.reduce "sum" "mn->m" %x : tensor<3x4xf32> -> tensor<3xf32>
    ```
    """

    name = "mlc.reduce"
    monoid = prop_def(StringAttr)
    letters = prop_def(StringAttr)
    x = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$monoid $letters $x attr-dict `:` type($x) `->` type($result)"

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        name = one_of_property(cls.name, properties, "monoid", MONOIDS)
        text = text_property(properties, "letters")
        monoid = MONOIDS[name]
        dtype = dtype_of(operands[0].element_type)
        if dtype.kind not in monoid.kinds:
            raise DTypeError(
                f"mlc.reduce {name!r} is not defined for {dtype.name}; expected"
                f" {' or '.join(monoid.kinds)}: {remedy_for(dtype)}"
            )
        source, result = split_one(text)
        if result != "".join(c for c in source if c in result):
            raise ShapeError(
                f"mlc.reduce {text!r}: result letters must be operand letters in their order"
            )
        sizes = bind(cls.name, text, (source,), (shape_of(operands[0]),))
        reduced = [c for c in source if c not in result]
        if len(monoid.state(dtype)) > 1 and len(reduced) != 1:
            raise ShapeError(
                f"mlc.reduce {name!r} {text!r}: {len(reduced)} reduced axes, expected one"
            )
        if monoid.needs_element and any(sizes[c].constant == 0 for c in reduced):
            raise ShapeError(f"zero-size array to reduction operation {name} which has no identity")
        return tensor_type(monoid.result(dtype).ir, tuple(sizes[c] for c in result))

    def combiner(self) -> Monoid:
        return MONOIDS[self.monoid.data]

    def summand(self) -> DType:
        return self.combiner().accumulator(element_dtype(self.x))

    def words(self) -> tuple[tuple[str, ...], str, str]:
        return words_of(self.letters.data)

    def axes(self) -> tuple[int, ...]:
        """The reduced axes of the operand."""
        (source,), _, reduced = self.words()
        return tuple(source.index(c) for c in reduced)

    def reference(self, *operands: Array) -> Array:
        if not self.axes():
            return operands[0]
        found = self.combiner().reference(operands[0], self.axes(), self.order())
        return same_array(found, self.dtype)

    def _inexact_order(self) -> Order:
        # a complex 1 does not keep every number: nothing may be multiplied by the product of none
        product_of_pairs = self.monoid.data == "prod" and self.dtype.kind == "complex"
        return "in turn" if product_of_pairs else "in lanes"

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        source = element_dtype(self.x)
        return b.convert(b.fetch(self.x, self.points(b, at)[0]), source, self.summand())

    def linear_operands(self) -> tuple[int, ...]:
        return (0,) if self.monoid.data == "sum" and self.dtype.is_inexact else ()

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        (source,), result, _ = self.words()
        return b(BroadcastOp, cotangent, letters=f"{result}->{source}", declared=tensor_of(self.x))

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        from mlc.dialects.tensor.tangents import reduce_tangent

        tangent = tangents[0]
        if tangent is None or not self.dtype.is_inexact:
            return None
        return reduce_tangent(b, self.monoid.data, self.letters.data, self.x, self.result, tangent)

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        new = fresh(self.letters.data)
        (source,), result, _ = self.words()
        return b(ReduceOp, operands[0], monoid=self.monoid, letters=f"{new}{source}->{new}{result}")


class Product(Reduction):
    """
    The family of sums of products of two operands. `rounds`: factors of f32 are rounded to that
    dtype of 16 bits before they are multiplied, and so are those of its derivatives.
    """

    FLOPS: ClassVar[int] = 2
    rounds = opt_prop_def(StringAttr)

    @property
    def rounding(self) -> dict[str, Any]:
        """`rounds`, as another product takes it."""
        return {} if self.rounds is None else {"rounds": self.rounds}

    def rounded(self) -> DType | None:
        """What factors are rounded to."""
        return None if self.rounds is None else named_dtype(self.rounds.data)

    @classmethod
    def check_dtypes(cls, operands: Sequence[Tensor], properties: dict[str, Attribute]) -> None:
        """Raises unless both are of one dtype that computes, and are rounded to a narrower one."""
        if operands[0].element_type != operands[1].element_type:
            found = " and ".join(dtype_of(x.element_type).name for x in operands)
            raise DTypeError(
                f"{cls.name}: dtypes {found} differ; expected one dtype (mlc.convert makes it so)"
            )
        dtype = dtype_of(operands[0].element_type)
        if dtype.kind == "storage":
            raise DTypeError(f"{cls.name} is not defined for {dtype.name}: {remedy_for(dtype)}")
        if "rounds" in properties:
            name = text_property(properties, "rounds")
            if name not in ROUNDED or dtype is not F32:
                raise DTypeError(
                    f"{cls.name}: factors of {dtype.name} are rounded to {name}; expected f32, and"
                    f" {' or '.join(ROUNDED)}"
                )

    def reads(self, operand: int) -> int:
        return AGAIN

    def combiner(self) -> Monoid:
        return MONOIDS["sum"]

    def summand(self) -> DType:
        return self.dtype.accumulator

    def multiply(self, operands: Sequence[Array]) -> Array:
        """The sum of products of arrays whose axes have the op's letters, in its dtype."""
        words, result, summed = self.words()
        text = f"{','.join(words)}->{result}"
        if self.dtype.kind == "bool":
            counts = np.einsum(text, *(x.astype(np.int64) for x in operands))
            return counts > 0
        if (narrow := self.rounded()) is not None:
            operands = [x.astype(narrow.numpy) for x in operands]
        wide: list[Any] = [x.astype(self.summand().numpy, copy=False) for x in operands]
        if (order := self.order()) == "any":
            return same_array(np.einsum(text, *wide, optimize=True), self.dtype)
        return same_array(contract(order, words, result, summed, wide), self.dtype)

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        left, right = self.factors(b, at)
        op = by_kind(arith.MulfOp, arith.MuliOp, arith.AndIOp, complex_=arith.MulfOp)
        return b.apply(op[self.dtype.kind], left, right)

    def factors(self, b: ElementBuilder, at: Point) -> tuple[SSAValue, SSAValue]:
        """The elements of both operands at a point, in the dtype of the sum."""
        pairs = zip(self.operands, self.points(b, at), strict=True)
        kind, narrow = self.dtype, self.rounded()
        found = [b.fetch(x, p) for x, p in pairs]
        if narrow is not None:
            found, kind = [b.convert(x, kind, narrow) for x in found], narrow
        left, right = (b.convert(x, kind, self.summand()) for x in found)
        return left, right

    def linear_operands(self) -> tuple[int, ...]:
        return (0, 1)

    def flops(self) -> Dim:
        """Multiplications and additions."""
        return product(self.iteration()) * 2


PRODUCT = (
    "$letters $lhs `,` $rhs (`rounds` $rounds^)? attr-dict"
    " `:` type($lhs) `,` type($rhs) `->` type($result)"
)
"""The text of a product of two operands."""


def sum_order(words: Sequence[str], result: str) -> Order:
    """Of a product of matrices "in turn", of one with a vector "in lanes"."""
    free = [[c for c in result if c not in other] for other in reversed(words)]
    return "in turn" if all(free) else "in lanes"


@irdl_op_definition
class ContractOp(Product):
    """
    out[m, n] = sum_k lhs[m, k] * rhs[k, n], for any letters.

    Matrix products, batched and outer ones, and every transposed operand. lhs: (M, K), rhs: (K, N),
    out: (M, N).

    ```mlir
    %0 = mlc.contract "mk,kn->mn" %a, %b : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
    %1 = mlc.contract "mk,kn->mn" %a, %b rounds "bf16"
         : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
    ```
    """

    name = "mlc.contract"
    SOURCE: ClassVar[str] = "NumPy einsum with two operands (D21)"
    letters = prop_def(StringAttr)
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = PRODUCT

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        text = text_property(properties, "letters")
        words, result = split(text)
        if len(words) != 2:
            raise ShapeError(f"mlc.contract {text!r}: {len(words)} operands, expected two")
        cls.check_dtypes(operands, properties)
        sizes = bind(cls.name, text, words, [shape_of(x) for x in operands])
        if unknown := [c for c in result if c not in sizes]:
            raise ShapeError(
                f"mlc.contract {text!r}: result letter {unknown[0]!r} is in no operand"
            )
        return tensor_type(operands[0].element_type, tuple(sizes[c] for c in result))

    def words(self) -> tuple[tuple[str, ...], str, str]:
        return words_of(self.letters.data)

    def reference(self, *operands: Array) -> Array:
        return self.multiply(operands)

    def _inexact_order(self) -> Order:
        words, result, _ = self.words()
        return sum_order(words, result)

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        words, result, _ = self.words()
        wanted, other = words[operand], words[1 - operand]
        present = "".join(c for c in wanted if c in result or c in other)
        value = b(
            ContractOp,
            cotangent,
            self.operands[1 - operand],
            letters=f"{result},{other}->{present}",
            **self.rounding,
        )
        if present == wanted:
            return value
        return b(
            BroadcastOp,
            value,
            letters=f"{present}->{wanted}",
            declared=tensor_of(self.operands[operand]),
        )

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        new = fresh(self.letters.data)
        words, result, _ = self.words()
        left, right = (f"{new}{w}" if k else w for w, k in zip(words, batched, strict=True))
        letters = f"{left},{right}->{new}{result}"
        return b(ContractOp, *operands, letters=letters, **self.rounding)
