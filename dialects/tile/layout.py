"""
How a tile lies over the threads of a GPU: a linear map over F2 from the bits of (register, lane,
warp, group) to the bits of an element's coordinates.

SOURCE: "Linear layouts: robust code generation of efficient tensor computation using F2", arXiv
2505.23819; PTX ISA, fragments of wgmma.mma_async and mma.sync
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from mlc.lazy_dataclass import dataclass

LEVELS = ("register", "lane", "warp", "group")
Vector = tuple[int, ...]
"""A coordinate along each axis."""

GROUP_ROWS = 64
"""Of sums that a group of four warps has. SOURCE: PTX ISA, wgmma"""


@dataclass(frozen=True)
class LinearLayout:
    """Of each bit of each level where the element lies if that bit alone is set."""

    bases: tuple[tuple[Vector, ...], ...]  # a level each, the lowest bit first

    @property
    def rank(self) -> int:
        """How many axes the tile has."""
        return len(next((v for level in self.bases for v in level), ()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The tile's sizes."""
        vectors = [v for level in self.bases for v in level]
        return tuple(1 << max(v[axis].bit_length() for v in vectors) for axis in range(self.rank))

    def place(self, *numbers: int) -> Vector:
        """Where the element lies that this register of this lane, warp and group holds."""
        found = [0] * self.rank
        for number, level in zip(numbers, self.bases, strict=True):
            for bit, vector in enumerate(level):
                if number >> bit & 1:
                    found = [x ^ y for x, y in zip(found, vector, strict=True)]
        return tuple(found)

    @property
    def covers(self) -> bool:
        """Whether each element of the tile is held by somebody: whether the map's rank is full."""
        width = [size.bit_length() - 1 for size in self.shape]
        rows: list[int] = []
        for vector in (v for level in self.bases for v in level):
            row = 0
            for x, bits in zip(vector, width, strict=True):
                row = row << bits | x
            for known in rows:
                row = min(row, row ^ known)
            if row:
                rows.append(row)
        return len(rows) == sum(width)

    def sliced(self, axis: int) -> LinearLayout:
        """The layout of what a reduction along an axis leaves: many hold one element."""
        return LinearLayout(
            tuple(tuple(v[:axis] + v[axis + 1 :] for v in level) for level in self.bases)
        )


def _bits(size: int, step: Callable[[int], Vector], start: int = 1) -> tuple[Vector, ...]:
    """Vectors for start, 2·start, … below a size."""
    return tuple(step(start << k) for k in range((size // start).bit_length() - 1))


def mma_acc(n: int, warps: int = 1) -> LinearLayout:
    """Sums of `mma.sync` m16n8, and of `wgmma`: a quad of lanes holds 8 columns of a row."""
    registers = ((0, 1), (8, 0), *_bits(n, lambda x: (0, x), 8))
    lanes = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))
    return LinearLayout((registers, lanes, _bits(16 * warps, lambda x: (x, 0), 16), ()))


def wgmma_acc(n: int) -> LinearLayout:
    """Sums of `wgmma` m64: 16 rows for each of four warps. So lies its operand in registers."""
    return mma_acc(n, 4)


def rows(m: int, n: int) -> LinearLayout:
    """A warp reads along rows of n elements, of which each lane holds an equal part."""
    each = max(n // 32, 1)
    return LinearLayout(
        (
            (*_bits(each, lambda x: (0, x)), *_bits(m, lambda x: (x, 0))),
            _bits(n, lambda x: (0, x), each),
            (),
            (),
        )
    )


def columns(m: int, n: int) -> LinearLayout:
    """The same along columns."""
    turned = rows(n, m)
    return LinearLayout(tuple(tuple((v[1], v[0]) for v in level) for level in turned.bases))


CONSTRUCTORS: dict[str, tuple[Callable[..., LinearLayout], int]] = {
    "wgmma_acc": (wgmma_acc, 1),
    "mma_acc": (mma_acc, 1),
    "rows": (rows, 2),
    "columns": (columns, 2),
}
"""By name, with how many sizes each takes."""


def spelled(layout: LinearLayout) -> str | None:
    """The constructor that makes a layout, if there is one."""
    shape = layout.shape
    for name, (make, count) in CONSTRUCTORS.items():
        if len(shape) == 2 and min(shape) >= 8 and make(*shape[2 - count :]) == layout:
            return f"{name}({', '.join(map(str, shape[2 - count :]))})"
    return None


@irdl_attr_definition
class LayoutAttr(Data[LinearLayout]):
    """
    How a tile lies over threads: by a constructor, or by where each bit leads.

    ```mlir
    #mlc_tile.layout<wgmma_acc(256)>
    #mlc_tile.layout<register [[0, 1], [8, 0]], lane [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]>
    ```
    """

    name = "mlc_tile.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> LinearLayout:
        with parser.in_angle_brackets():
            at, name = parser.pos, parser.parse_identifier()
            if name in CONSTRUCTORS:
                make, count = CONSTRUCTORS[name]
                sizes = parser.parse_comma_separated_list(
                    parser.Delimiter.PAREN, parser.parse_integer
                )
                if len(sizes) != count or any(n < 8 or n & (n - 1) for n in sizes):
                    parser.raise_error(
                        f"{name} of {sizes}; expected {count} powers of two from 8 on", at
                    )
                return make(*sizes)
            found: dict[str, tuple[Vector, ...]] = {}
            while True:
                if name not in LEVELS or name in found:
                    known = ", ".join((*CONSTRUCTORS, *LEVELS))
                    parser.raise_error(f"found {name!r}; expected one of {known}, once", at)
                found[name] = tuple(_vectors(parser))
                if parser.parse_optional_punctuation(",") is None:
                    break
                at, name = parser.pos, parser.parse_identifier()
            layout = LinearLayout(tuple(found.get(level, ()) for level in LEVELS))
            if len({len(v) for level in layout.bases for v in level}) != 1:
                parser.raise_error("expected coordinates along the same axes for each bit", at)
            return layout

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            levels = (
                f"{name} {[list(v) for v in vectors]}"
                for name, vectors in zip(LEVELS, self.data.bases, strict=True)
                if vectors
            )
            printer.print_string(spelled(self.data) or ", ".join(levels))


def _vectors(parser: AttrParser) -> Sequence[Vector]:
    def one() -> Vector:
        found = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        return tuple(found)

    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, one)
