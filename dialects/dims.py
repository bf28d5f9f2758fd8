"""Dims of tensor types: polynomials (sizes.py) as the encoding of types with symbolic sizes."""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, TensorType
from xdsl.ir import Attribute, Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from mlc.dialects import definition as definition  # before xDSL's ops are defined
from mlc.dialects.sizes import (
    MOST,
    Atom,
    Dim,
    FloorDiv,
    Shape,
    constant_product,
    highest,
    product,
)

__all__ = [
    "MOST",
    "Atom",
    "Dim",
    "DimsAttr",
    "FloorDiv",
    "Shape",
    "as_tensor",
    "constant_product",
    "dims_fault",
    "highest",
    "parse_dim",
    "product",
    "shape_of",
    "spell_dim",
    "symbols_said",
    "tensor_type",
]


@irdl_attr_definition
class DimsAttr(Data[tuple[Dim, ...]]):
    """
    The encoding of a tensor type with symbolic dims.

    ```mlir
    tensor<?x784xf32, #mlc.dims<"B", 784>>
    ```
    """

    name = "mlc.dims"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Dim, ...]:
        def one() -> Dim:
            return parse_dim(parser)

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, one))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_list(self.data, lambda dim: printer.print_string(spell_dim(dim)))


def parse_dim(parser: AttrParser) -> Dim:
    """A dim as it is printed in attributes: a number, or an expression in quotes."""
    value = parser.parse_optional_integer(allow_boolean=False, allow_negative=True)
    if value is not None:
        if not -MOST <= value < MOST:
            parser.raise_error(f"{value} is no size: it needs more than 64 bits")
        return Dim.const(value)
    text = parser.parse_str_literal()
    try:
        return Dim.of(text)
    except ValueError as error:
        parser.raise_error(str(error))


def spell_dim(dim: Dim) -> str:
    """A dim as `parse_dim` reads it."""
    return str(dim) if dim.constant is not None else f'"{dim}"'


_WIDEST_BYTES = 16  # of an element
_DIMS, _SYMBOLS = "_mlc_dims", "_mlc_symbols"  # of a type's own dictionary, never compared


def as_tensor(kind: Attribute) -> TensorType[Attribute]:
    """The type itself, which must be a tensor's."""
    assert isinstance(kind, TensorType)
    return cast("TensorType[Attribute]", kind)


def shape_of(kind: Attribute) -> Shape:
    """The dims of a tensor type, symbols from its encoding: found once, and kept on the type."""
    known = kind.__dict__.get(_DIMS)
    if known is None:
        assert isinstance(kind, TensorType)
        if isinstance(kind.encoding, DimsAttr):
            known = kind.encoding.data
        else:
            known = tuple(Dim.const(size) for size in kind.get_shape())
        vars(kind)[_DIMS] = known
    return known


def symbols_said(kind: Attribute) -> frozenset[str]:
    """The symbols in the dims of a type, which are a tensor's: kept as its dims are."""
    known = kind.__dict__.get(_SYMBOLS)
    if known is None:
        dims = shape_of(cast("Attribute", kind)) if isinstance(kind, TensorType) else ()
        known = frozenset[str]().union(*(dim.symbols() for dim in dims if dim.constant is None))
        vars(kind)[_SYMBOLS] = known
    return known


@lru_cache(maxsize=8192)
def tensor_type(element_type: Attribute, shape: Shape) -> TensorType[Attribute]:
    """The interned tensor type; the encoding is present exactly when a dim is symbolic."""
    sizes = [dim.constant for dim in shape]
    if None in sizes:
        return TensorType(
            element_type, [DYNAMIC_INDEX if s is None else s for s in sizes], DimsAttr(shape)
        )
    return TensorType(element_type, [s for s in sizes if s is not None])


def dims_fault(kind: TensorType[Attribute]) -> str | None:
    """Why a tensor type and its dims encoding disagree (D6), or None when they agree."""
    sizes = kind.get_shape()
    if isinstance(kind.encoding, NoneAttr):
        if DYNAMIC_INDEX in sizes:
            return f"{kind} has unknown sizes without names; expected #mlc.dims<…>"
        return _size_fault(kind, tuple(map(Dim.const, sizes)))
    if not isinstance(kind.encoding, DimsAttr):
        return f"{kind} has an encoding that is not #mlc.dims"
    dims = kind.encoding.data
    if len(dims) != len(sizes):
        return f"{kind} names {len(dims)} dims for {len(sizes)} axes"
    for axis, (size, dim) in enumerate(zip(sizes, dims, strict=True)):
        expected = DYNAMIC_INDEX if dim.constant is None else dim.constant
        if size != expected:
            found = "?" if size == DYNAMIC_INDEX else size
            return f"{kind}: axis {axis} is {found} but its dim is {dim}"
    return _size_fault(kind, dims)


def _size_fault(kind: TensorType[Attribute], dims: Shape) -> str | None:
    """Why there can be no tensor of these sizes."""
    if any(size is not None and size < 0 for size in (dim.constant for dim in dims)):
        return f"{kind} has a negative size"
    if any(abs(c) * _WIDEST_BYTES >= MOST for _, c in product(dims).terms):
        return f"{kind} has more elements than memory has addresses"
    return None
