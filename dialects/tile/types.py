"""The types of tile programs: memory, and tiles in registers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

from xdsl.dialects.builtin import NoneAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.dims import Dim, DimsAttr, Shape
from mlc.dialects.dtypes import DType, dtype_of
from mlc.dialects.tile.layout import LayoutAttr

Layout = Literal["", "rows", "strided", "shared", "sw32", "sw64", "sw128"]
LAYOUTS: tuple[Layout, ...] = ("", "rows", "strided", "shared", "sw32", "sw64", "sw128")
SLOTS = LAYOUTS[3:]
"""Of tiles that a GPU's block of threads shares."""


def _check_element(name: str, element: Attribute) -> None:
    try:
        dtype_of(element)
    except TypeError as error:
        raise VerifyException(f"{name}: {error}") from None


@irdl_attr_definition
class ViewType(ParametrizedAttribute, TypeAttribute):
    """
    Memory: an argument, part of the arena, or scratch. Row-major, if it does not say that its
    strides are known when the program runs: those of all axes (`strided`), or of all but the last,
    whose elements lie side by side (`rows`). A slot is a tile of a GPU's shared memory: row-major
    (`shared`), or with the 16-byte parts of its rows permuted, which repeats after so many bytes
    (`sw128`).

    ```mlir
    !mlc_tile.view<"M"x1024xf32>
    !mlc_tile.view<"M"x1024xf32, strided>
    !mlc_tile.view<128x64xbf16, sw128>
    ```
    """

    name = "mlc_tile.view"
    dims: DimsAttr
    element: Attribute
    layout: StringAttr

    def verify(self) -> None:
        _check_element(self.name, self.element)
        if self.layout.data not in LAYOUTS:
            raise VerifyException(
                f"{self.name}: layout {self.layout.data!r}; expected rows, strided or none, or of a"
                f" slot {', '.join(SLOTS)}"
            )
        if self.is_slot:
            self._check_slot()
        for dim in self.shape:
            if dim.constant is not None and dim.constant < 0:
                raise VerifyException(f"{self.name}: size {dim}; expected none below 0")

    def _check_slot(self) -> None:
        sizes = [dim.constant for dim in self.shape]
        if not sizes or any(size is None or size < 1 for size in sizes):
            raise VerifyException(f"{self.name}: a slot's sizes are numbers from 1 on")
        row, part = (sizes[-1] or 0) * self.dtype.bytes, self.layout.data.removeprefix("sw")
        if part.isdigit() and row % int(part):
            raise VerifyException(
                f"{self.name}: rows of {row} bytes; {self.layout.data} permutes whole {part} bytes"
            )

    @property
    def is_slot(self) -> bool:
        """Whether it lies in memory that a GPU's block of threads shares."""
        return self.layout.data in SLOTS

    @property
    def shape(self) -> Shape:
        """The sizes."""
        return self.dims.data

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return dtype_of(self.element)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dims, element = _parse_shape(parser)
            layout = parser.parse_identifier() if parser.parse_optional_punctuation(",") else ""
        return (DimsAttr(dims), element, StringAttr(layout))

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_shape(printer, self.shape, self.element)
            if self.layout.data:
                printer.print_string(f", {self.layout.data}")


@irdl_attr_definition
class FragType(ParametrizedAttribute, TypeAttribute):
    """
    A tile in registers, always of its full size: numbers, once the word `register` has cut it.
    Where a target spreads it over threads, how it does so is its layout; a CPU's has none.

    ```mlir
    !mlc_tile.frag<12x32xf32>
    ```
    """

    name = "mlc_tile.frag"
    dims: DimsAttr
    element: Attribute
    layout: Attribute

    def verify(self) -> None:
        _check_element(self.name, self.element)
        for dim in self.dims.data:
            if dim.constant is not None and dim.constant < 1:
                raise VerifyException(f"{self.name}: size {dim}; expected at least 1")
        if isinstance(self.layout, LayoutAttr):
            found = self.layout.data
            if found.shape != self.shape or not found.covers:
                sizes = "x".join(map(str, found.shape))
                said = "" if found.covers else ", not all of whose elements somebody holds"
                raise VerifyException(f"{self.name}: {self.layout} is of a tile {sizes}{said}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes; -1 where one is no number yet."""
        return tuple(-1 if dim.constant is None else dim.constant for dim in self.dims.data)

    @property
    def dtype(self) -> DType:
        """Of the elements."""
        return dtype_of(self.element)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            dims, element = _parse_shape(parser)
            layout = parser.parse_attribute() if parser.parse_optional_punctuation(",") else None
        return (DimsAttr(dims), element, NoneAttr() if layout is None else layout)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_shape(printer, self.dims.data, self.element)
            if not isinstance(self.layout, NoneAttr):
                printer.print_string(", ")
                printer.print_attribute(self.layout)


def _parse_shape(parser: AttrParser) -> tuple[Shape, Attribute]:
    """``"M"x1024xf32``."""
    dims: list[Dim] = []
    while True:
        start = parser.pos
        element = parser.parse_optional_type()
        if element is not None:
            return tuple(dims), element
        text = parser.parse_optional_str_literal()
        if text is None:
            dims.append(Dim.const(parser.parse_shape_dimension(allow_dynamic=False)))
        else:
            try:
                dims.append(Dim.of(text))
            except ValueError as error:
                parser.raise_error(str(error), start)
        parser.parse_shape_delimiter()


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """
    A tile that is being computed; `mlc_tile.wait` gives it.

    ```mlir
    !mlc_tile.token<!mlc_tile.frag<64x256xf32>>
    ```
    """

    name = "mlc_tile.token"
    tile: FragType


def _print_shape(printer: Printer, shape: Shape, element: Attribute) -> None:
    for dim in shape:
        printer.print_string(f"{dim}x" if dim.constant is not None else f'"{dim}"x')
    printer.print_attribute(element)


@lru_cache(maxsize=8192)
def view_type(element: Attribute, shape: Shape, layout: Layout = "") -> ViewType:
    """The interned type."""
    return ViewType(DimsAttr(shape), element, StringAttr(layout))


@lru_cache(maxsize=8192)
def frag_type(element: Attribute, shape: tuple[int, ...]) -> FragType:
    """The interned type."""
    return FragType(DimsAttr(tuple(map(Dim.const, shape))), element, NoneAttr())


def view_of(value: SSAValue) -> ViewType:
    """The value's type, which is a view's."""
    assert isinstance(value.type, ViewType)
    return value.type


def frag_of(value: SSAValue) -> FragType:
    """The value's type, which is a fragment's."""
    assert isinstance(value.type, FragType)
    return value.type


def rank_of(kind: Attribute) -> int:
    """How many axes a view or a fragment has."""
    assert isinstance(kind, ViewType | FragType)
    return len(kind.dims.data)
