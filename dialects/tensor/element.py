"""What an op may say about one element of its result, and to whom it says it.

An op's `element` fact is written once against `ElementBuilder`. The lowering implements the
protocol for vector lanes, for single elements and for GPU threads; an analysis may implement it to
look at the arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from xdsl.ir import Attribute, Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import DType


class Ix:
    """The position along one axis at which an element is wanted.

    Opaque to ops; the builder makes and reads it.
    """

    __slots__ = ()


Point = tuple[Ix, ...]
"""One position per axis."""


class ElementBuilder(Protocol):
    """Arithmetic on elements (single values or lanes of them) and positions."""

    def constant(self, value: complex, dtype: DType) -> SSAValue:
        """The same value for every element."""
        ...

    def apply(self, op: type[Operation], *operands: SSAValue) -> SSAValue:
        """An arith or math op whose result type is that of its first operand."""
        ...

    def compare(self, predicate: str, lhs: SSAValue, rhs: SSAValue, dtype: DType) -> SSAValue:
        """eq ne lt le gt ge as IEEE 754 and NumPy define them; gives bool elements.

        Only ne is true for NaN.
        """
        ...

    def select(self, condition: SSAValue, if_true: SSAValue, if_false: SSAValue) -> SSAValue:
        """`if_true` where the bool element holds."""
        ...

    def real(self, value: SSAValue) -> SSAValue:
        """The real part of a complex element."""
        ...

    def imag(self, value: SSAValue) -> SSAValue:
        """The imaginary part of a complex element."""
        ...

    def pair(self, real: SSAValue, imag: SSAValue) -> SSAValue:
        """The complex element with these parts."""
        ...

    def convert(self, value: SSAValue, source: DType, target: DType) -> SSAValue:
        """The element in another dtype, as `mlc.convert` defines it."""
        ...

    def bitcast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The same bits as another register type of the same size, `DType.register`."""
        ...

    def size(self, dim: Dim) -> SSAValue:
        """A dim as an i64 element."""
        ...

    def position(self, at: Ix) -> SSAValue:
        """A position as an i64 element."""
        ...

    def at_element(self, value: SSAValue) -> Ix:
        """An i64 element as a position."""
        ...

    def affine(self, at: Ix, scale: int, offset: Dim) -> Ix:
        """scale * at + offset."""
        ...

    def shift(self, at: Ix, by: SSAValue) -> Ix:
        """at + by, for an i64 element that is the same for all lanes."""
        ...

    def plus(self, a: Ix, b: Ix) -> Ix:
        """a + b, for positions that move along different axes."""
        ...

    def check(self, ok: SSAValue, site: Operation, value: SSAValue, extent: SSAValue) -> None:
        """Reports a run-time error of `site` where the bool element `ok` is false.

        `value` is the offending i64 element.
        """
        ...

    def fetch(self, tensor: SSAValue, at: Point, where: SSAValue | None = None) -> SSAValue:
        """The element of another tensor; nothing is read for lanes where `where` is false."""
        ...


def by_kind(
    float_: type[Any],
    int_: type[Any],
    bool_: type[Any],
    *,
    uint: type[Any] | None = None,
    complex_: type[Any] | None = None,
) -> Mapping[str, type[Any]]:
    """An arith op for each kind of dtype; without `uint`, unsigned ones share the signed one."""
    found = {"float": float_, "int": int_, "uint": uint or int_, "bool": bool_}
    return MappingProxyType(found if complex_ is None else {**found, "complex": complex_})
