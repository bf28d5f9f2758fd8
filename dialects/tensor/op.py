"""The contract of a tensor op: every fact about it, on one class.

A fact an op does not state has the default of its family (`Elementwise`, `IndexMapped`), or raises,
naming op and fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, StringAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.dims import Dim, DimsAttr, Shape, as_tensor, dims_fault, product, shape_of
from mlc.dialects.dtypes import KINDS, DType, dtype_of
from mlc.dialects.errors import DTypeError, MlcError
from mlc.dialects.tensor.element import ElementBuilder, Point
from mlc.lazy_dataclass import dataclass

Tensor = TensorType[Attribute]
Array = NDArray[Any]
SAME, ONCE, AGAIN = 0, 1, 2
"""How a value is read: at the reader's own point; each element at most once; repeatedly."""

OpaqueTemplate = Literal["scan", "gather", "sort", "copy", "library", "stream"]


@dataclass(frozen=True, kw_only=True)
class OpCost:
    """Work of one op on its own: arithmetic operations and bytes of operands and result."""

    flops: Dim
    bytes_read: Dim
    bytes_written: Dim


class OpBuilder:
    """Builds tensor ops in order: ``b(MulOp, x, y)``. `insert` decides where they go."""

    def __init__(self, insert: Callable[[Operation], object]) -> None:
        self.insert = insert

    def __call__(
        self,
        op: type[TensorOp],
        *operands: SSAValue,
        declared: Tensor | None = None,
        **properties: object,
    ) -> SSAValue:
        """The result of a new op whose type is inferred."""
        new = op.make(*operands, declared=declared, **properties)
        self.insert(new)
        return new.results[0]


class TensorOp(IRDLOperation):
    """A pure op on tensors with one result."""

    SOURCE: ClassVar[str] = "NumPy 2 reference manual"
    FLOPS: ClassVar[int] = 0  # arithmetic operations per element of the iteration space
    # time of one element relative to an addition; measured: docs/measurements.md
    WEIGHT: ClassVar[float] = 1.0
    KINDS: ClassVar[tuple[str, ...]] = KINDS  # of the dtypes it is defined for
    # why its derivative is zero wherever it exists; empty where there is one
    NO_DERIVATIVE: ClassVar[str] = ""
    CHECKS: ClassVar[bool] = False  # reports run-time errors by `ElementBuilder.check`
    SITE: ClassVar[str] = "index"  # which error that is
    IS_FREE: ClassVar[bool] = False  # costs nothing where it is read: says what or where it is
    MOVES: ClassVar[bool] = False  # its elements are operands' elements, at other points
    # where its result and operand 0 both are in memory, they are the same memory
    SHARES_MEMORY: ClassVar[bool] = False
    IS_EXPONENTIAL: ClassVar[bool] = False  # f(x + y) = f(x) f(y), and 0 far below 0
    COMMUTES: ClassVar[bool] = False  # its operands may change places: the same bits

    traits = traits_def(Pure())

    @classmethod
    def make(
        cls, *operands: SSAValue, declared: Tensor | None = None, **properties: object
    ) -> TensorOp:
        """A new op with its result type inferred; raises ShapeError or DTypeError.

        `declared` is the result type for ops where it is a choice (broadcast, convert, iota,
        reshape).
        """
        attributes = {name: as_attribute(value) for name, value in properties.items()}
        result = cls.infer([tensor_of(x) for x in operands], attributes, declared)
        return cls.create(operands=operands, result_types=[result], properties=attributes)

    def on(self, operands: Sequence[SSAValue], result: Attribute | None = None) -> TensorOp:
        """The op on other operands, with its line and name; `result`: of another type."""
        new = type(self).create(
            operands=operands,
            result_types=[self.results[0].type if result is None else result],
            properties=dict(self.properties),
            attributes=dict(self.attributes),
        )
        new.location = self.location
        new.results[0].name_hint = self.results[0].name_hint
        return new

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        """The result type. Raises ShapeError or DTypeError that a user can act on."""
        raise _missing(cls, "infer")

    def reference(self, *operands: Array) -> Array:
        """The meaning, on NumPy arrays of the operands' dtypes and (concrete) shapes."""
        raise _missing(type(self), "reference")

    def element(self, b: ElementBuilder, at: Point) -> SSAValue:
        """One element, at a point of the iteration space (for most ops: of the result)."""
        raise _missing(type(self), "element")

    def iteration(self) -> Shape:
        """The iteration space: the result's axes, then any that are reduced."""
        return self.shape

    def cost(self) -> OpCost:
        """Work when the op runs alone."""
        return OpCost(
            flops=product(self.iteration()) * self.FLOPS,
            bytes_read=sum((bytes_of(x.type) for x in self.operands), Dim.const(0)),
            bytes_written=bytes_of(self.results[0].type),
        )

    def partials(self, b: OpBuilder) -> tuple[SSAValue | None, ...]:
        """Elementwise ops: d result / d operand for each operand; None where it is zero.

        Each has the result's shape.
        """
        raise _missing(type(self), "partials")

    def transpose(self, b: OpBuilder, cotangent: SSAValue, operand: int) -> SSAValue:
        """Linear ops: the cotangent of `operand`; the other operands are held fixed."""
        raise _missing(type(self), "transpose")

    def linear_operands(self) -> tuple[int, ...]:
        """The positions in each of which the result is linear while the others are fixed."""
        return ()

    def jointly_linear(self) -> tuple[int, ...]:
        """
        The operands for which `transpose` holds: those of `linear_operands`, and those in which the
        result is linear only together, as a sum is in both of its own.
        """
        return self.linear_operands()

    def accumulate(
        self, b: OpBuilder, total: SSAValue, cotangent: SSAValue, operand: int
    ) -> SSAValue:
        """
        Linear ops that read few elements of a large operand: `total` with its cotangent added where
        those elements are.
        """
        raise _missing(type(self), "accumulate")

    def jvp(self, b: OpBuilder, tangents: Sequence[SSAValue | None]) -> SSAValue | None:
        """
        The other ops: the tangent of the result, by ops linear in the operands' tangents (None:
        zero), at least one of which there is. Reverse mode transposes these.
        """
        raise _missing(type(self), "jvp")

    @classmethod
    def states(cls, fact: str) -> bool:
        """Whether the op or its family states a fact of this name."""
        return getattr(cls, fact) is not getattr(TensorOp, fact)

    def stored_operands(self) -> tuple[int, ...]:
        """The operands read at computed positions: these must lie in memory."""
        return ()

    @property
    def commutes(self) -> bool:
        """Whether its operands may change places."""
        return self.COMMUTES

    @property
    def only_moves(self) -> bool:
        """Whether it is an index map, or made of nothing: kernels hold a copy where they read."""
        return self.MOVES

    @property
    def is_cheap(self) -> bool:
        """Whether computing its result again costs no more than reading it."""
        return self.IS_FREE

    def reads(self, operand: int) -> int:
        """How often elements of an operand are read: SAME, ONCE or AGAIN."""
        return ONCE if self.only_moves else SAME

    def batch(
        self, b: OpBuilder, operands: Sequence[SSAValue], batched: Sequence[bool]
    ) -> SSAValue:
        """The op over a new leading axis that the operands marked `batched` carry."""
        raise _missing(type(self), "batch")

    def harmless(self, b: OpBuilder, operand: int) -> SSAValue | None:
        """Ops with `CHECKS`: a value of an operand for which no run-time error is reported, in its
        shape; None where the operand's value causes none."""
        return None

    @property
    def site(self) -> str:
        """Which run-time error it reports."""
        return self.SITE

    @property
    def may_fail(self) -> bool:
        """Whether it reports run-time errors by `ElementBuilder.check`."""
        return self.CHECKS

    @property
    def shape(self) -> Shape:
        """The result's dims."""
        return shape_of(self.results[0].type)

    @property
    def dtype(self) -> DType:
        """The result's dtype."""
        return element_dtype(self.results[0])

    def verify_(self) -> None:
        for value in (*self.operands, *self.results):
            if fault := tensor_fault(value.type):
                raise VerifyException(f"{self.name}: {fault}")
        try:
            expected = self.infer(
                [tensor_of(x) for x in self.operands],
                self.properties,
                tensor_of(self.results[0]),
            )
        except (MlcError, TypeError) as error:
            raise VerifyException(str(error)) from error
        found = self.results[0].type
        if found != expected:
            given = ", ".join(str(x.type) for x in self.operands)
            raise VerifyException(
                f"{self.name}: operands ({given}) give {expected},"
                f" but the result is declared as {found}"
            )


class OpaqueOp(TensorOp):
    """
    The family of ops whose result is written as a whole, not element by element: each has a kernel
    of its own, into which producers may be fused and from which nobody reads.
    """

    TEMPLATE: ClassVar[OpaqueTemplate]  # shape of its loop nest (D17)

    @property
    def runs_along(self) -> int | None:
        """The one axis whose positions depend on one another; None: all do."""
        return None


def as_attribute(value: object) -> Attribute:
    """A Python value as the property that ops store: str, int or dims."""
    match value:
        case Attribute():
            return value
        case str():
            return StringAttr(value)
        case int():
            return IntegerAttr(value, i64)
        case tuple():
            return DimsAttr(tuple(Dim.of(d) for d in value))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            raise TypeError(f"no attribute stands for {value!r}")


def tensor_of(value: SSAValue) -> Tensor:
    """The value's type, which is a tensor's."""
    return as_tensor(value.type)


def element_dtype(value: SSAValue) -> DType:
    """The dtype of a tensor's elements."""
    return dtype_of(tensor_of(value).element_type)


def tensor_fault(kind: Attribute) -> str | None:
    """Why a type is not that of a tensor that programs compute with; None when it is."""
    if not isinstance(kind, TensorType):
        return f"{kind} is no tensor"
    tensor = cast("Tensor", kind)
    try:
        dtype_of(tensor.element_type)
    except TypeError as error:
        return str(error)
    return dims_fault(tensor)


def bytes_of(kind: Attribute) -> Dim:
    """Bytes of a tensor in memory."""
    return product(shape_of(kind)) * dtype_of(as_tensor(kind).element_type).bytes


def text_property(properties: dict[str, Attribute], name: str) -> str:
    """The text of a string property."""
    value = properties[name]
    assert isinstance(value, StringAttr)
    return value.data


def one_of_property(
    op: str,
    properties: dict[str, Attribute],
    name: str,
    known: Iterable[str],
    error: type[MlcError] = DTypeError,
) -> str:
    """The text of a string property, which is one of these. Raises `error`."""
    found = text_property(properties, name)
    if found not in known:
        raise error(f"{op}: {name} {found!r}; expected one of {', '.join(known)}")
    return found


def int_property(properties: dict[str, Attribute], name: str) -> int:
    """The value of an integer property."""
    value = properties[name]
    assert isinstance(value, IntegerAttr)
    return value.value.data


def same_array(value: Any, dtype: DType) -> Array:
    """The array (or NumPy scalar) in the op's dtype."""
    return np.asarray(value, dtype=dtype.numpy)


def _missing(op: type[TensorOp], fact: str) -> NotImplementedError:
    return NotImplementedError(f"{op.name} does not state its `{fact}`")
