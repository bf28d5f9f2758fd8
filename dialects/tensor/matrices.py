"""Stacks of matrices as tensor ops, with the operators of linear algebra."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, SelectOp
from mlc.dialects.tensor.complex_parts import ComplexOp, ImagOp, RealOp
from mlc.dialects.tensor.create import IotaOp, full
from mlc.dialects.tensor.elementwise import AddOp, DivOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.dialects.tensor.library import LibraryOp

ZERO, ONE = Dim.const(0), Dim.const(1)


@dataclass(frozen=True)
class Mat:
    """A stack of matrices, or of vectors, with the operators of linear algebra."""

    b: OpBuilder
    value: SSAValue

    def of(self, op: type[TensorOp], *operands: SSAValue, **properties: object) -> Mat:
        """A new op's result."""
        return Mat(self.b, self.b(op, *operands, **properties))  # pyright: ignore[reportArgumentType]

    @property
    def shape(self) -> Shape:
        """All dims."""
        return shape_of(self.value.type)

    @property
    def dtype(self) -> DType:
        """The elements' dtype."""
        return element_dtype(self.value)

    @property
    def word(self) -> str:
        """A letter for each axis."""
        return ALPHABET[: len(self.shape)]

    def __add__(self, other: Mat) -> Mat:
        return self.of(AddOp, self.value, other.value)

    def __sub__(self, other: Mat) -> Mat:
        return self.of(SubOp, self.value, other.value)

    def __mul__(self, other: Mat) -> Mat:
        return self.of(MulOp, self.value, other.value)

    def __truediv__(self, other: Mat) -> Mat:
        return self.of(DivOp, self.value, other.value)

    def __matmul__(self, other: Mat) -> Mat:
        lead = self.word[:-2]
        text = f"{lead}YX,{lead}XZ->{lead}YZ"
        return self.of(ContractOp, self.value, other.value, letters=text)

    def trace_of_product(self, other: Mat) -> Mat:
        """tr(self @ other), without the product."""
        lead = self.word[:-2]
        text = f"{lead}YX,{lead}XY->{lead}"
        return self.of(ContractOp, self.value, other.value, letters=text)

    def filled(self, value: float) -> Mat:
        """One number in this type."""
        return Mat(self.b, full(self.b, value, self.dtype, self.shape))

    def times(self, value: float) -> Mat:
        """A multiple."""
        return self * self.filled(value)

    @property
    def conj(self) -> Mat:
        """The complex conjugate."""
        if self.dtype.kind != "complex":
            return self
        b, x = self.b, self.value
        return self.of(ComplexOp, b(RealOp, x), b(NegOp, b(ImagOp, x)))

    @property
    def real(self) -> Mat:
        """The real part, in the same dtype."""
        if self.dtype.kind != "complex":
            return self
        return Mat(self.b, self.b(RealOp, self.value)).cast(self.dtype)

    def cast(self, dtype: DType) -> Mat:
        """In another dtype."""
        if dtype is self.dtype:
            return self
        kind = tensor_type(dtype.ir, self.shape)
        return Mat(self.b, self.b(ConvertOp, self.value, declared=kind))

    @property
    def H(self) -> Mat:  # noqa: N802  the field's name
        """The conjugate transpose of each matrix."""
        word = self.word
        text = f"{word}->{word[:-2]}{word[-1]}{word[-2]}"
        x = self.conj
        return x.of(TransposeOp, x.value, letters=text)

    def where(self, condition: SSAValue, otherwise: float = 0.0) -> Mat:
        """These elements where the condition holds, a number elsewhere."""
        return self.of(SelectOp, condition, self.value, self.filled(otherwise).value)

    def among(self, predicate: str) -> Mat:
        """The elements whose row and column compare so, zero elsewhere."""
        kind = tensor_type(i64, self.shape)
        axes = len(self.shape)
        rows, columns = (self.b(IotaOp, axis=k, declared=kind) for k in (axes - 2, axes - 1))
        return self.where(self.b(CompareOp, rows, columns, predicate=predicate))

    @property
    def diagonal(self) -> Mat:
        """The diagonal of a square matrix."""
        only, word = self.among("eq"), self.word
        return self.of(ReduceOp, only.value, monoid="sum", letters=f"{word}->{word[:-1]}")

    @property
    def trace(self) -> Mat:
        """The sum of the diagonal."""
        only, word = self.among("eq"), self.word
        return self.of(ReduceOp, only.value, monoid="sum", letters=f"{word}->{word[:-2]}")

    @property
    def total(self) -> Mat:
        """The sum of each matrix."""
        word = self.word
        return self.of(ReduceOp, self.value, monoid="sum", letters=f"{word}->{word[:-2]}")

    def everywhere(self, n: Dim) -> Mat:
        """A number as each element of a square matrix."""
        kind = tensor_type(self.dtype.ir, (*self.shape, n, n))
        letters = f"{self.word}->{self.word}YZ"
        return Mat(self.b, self.b(BroadcastOp, self.value, letters=letters, declared=kind))

    def as_rows(self, rows: Dim) -> Mat:
        """A vector as each row of a matrix."""
        return self._spread(f"{self.word[:-1]}Z{self.word[-1]}", (rows, self.shape[-1]))

    def as_columns(self, columns: Dim) -> Mat:
        """A vector as each column of a matrix."""
        return self._spread(f"{self.word}Z", (self.shape[-1], columns))

    def _spread(self, word: str, core: Shape) -> Mat:
        kind = tensor_type(self.dtype.ir, (*self.shape[:-1], *core))
        return Mat(
            self.b, self.b(BroadcastOp, self.value, letters=f"{self.word}->{word}", declared=kind)
        )

    def columns(self, count: Dim) -> Mat:
        """The first columns."""
        kind = tensor_type(self.dtype.ir, (*self.shape[:-1], count))
        offsets, steps = (ZERO,) * len(self.shape), (ONE,) * len(self.shape)
        return Mat(self.b, self.b(SliceOp, self.value, offsets=offsets, steps=steps, declared=kind))

    def library(self, routine: str, *others: Mat) -> list[Mat]:
        """The results of another routine on this and other operands."""
        from mlc.dialects.tensor.library import LibraryOp

        op = LibraryOp.make(self.value, *(x.value for x in others), routine=routine)
        self.b.insert(op)
        assert isinstance(op, LibraryOp)
        return unpacked(self.b, op)

    def solve(self, right: Mat) -> Mat:
        """self^-1 right"""
        return self.library("solve", right)[0]


def unpacked(b: OpBuilder, op: LibraryOp) -> list[Mat]:
    """The results of a routine, which lie side by side."""
    from mlc.dialects.tensor.library import ROUTINES

    lead, dtype = op.shape[:-1], op.dtype
    shapes = ROUTINES[op.routine.data].shapes(op.cores())
    return [
        Mat(b, b(ReshapeOp, x, declared=tensor_type(dtype.ir, (*lead, *core))))
        for x, core in zip(op.split(b, op.result), shapes, strict=True)
    ]
