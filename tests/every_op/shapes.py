"""Shape classes: sizes of the axes m, n, k, which may be symbols, and layouts of arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dims import Dim, Shape

Array = NDArray[Any]
Sizes = Mapping[str, int]

SYMBOLS = ("m", "n", "k")


def sizes(m: int, n: int, k: int) -> Sizes:
    """Sizes of the three axes."""
    return MappingProxyType({"m": m, "n": n, "k": k})


SIZES: Mapping[str, Sizes] = MappingProxyType(
    {
        "zero_outer": sizes(0, 5, 3),
        "zero_inner": sizes(3, 0, 4),
        "zero_summed": sizes(3, 4, 0),
        "one": sizes(1, 1, 1),
        "odd": sizes(3, 7, 5),
        "one_over": sizes(1, 65, 17),  # the last vector holds one element
        "large": sizes(5, 150, 37),  # n: more than 8 vectors of 16 lanes, and a masked end
        "tall": sizes(41, 3, 19),  # m: more than a register tile's rows
    }
)


@dataclass(frozen=True)
class ShapeClass:
    """`symbolic`: m, n, k are symbols, one compilation for all `runs`; `strided`: any strides."""

    name: str
    runs: tuple[str, ...]
    symbolic: bool = False
    strided: bool = False

    def dims(self, *axes: str | int | Dim) -> Shape:
        """Axes such as "m", "2*n" or 3 as dims of this class."""
        known = {s: Dim.const(v) for s, v in SIZES[self.runs[0]].items()}
        found = (Dim.of(axis) for axis in axes)
        return tuple(d if self.symbolic else d.substitute(known) for d in found)


STATIC = tuple(ShapeClass(name, (name,)) for name in SIZES)
SHAPE_CLASSES = (
    *STATIC,
    ShapeClass("odd_strided", ("odd",), strided=True),
    ShapeClass("large_strided", ("large",), strided=True),
    ShapeClass("symbolic", tuple(SIZES), symbolic=True),
    ShapeClass("symbolic_strided", tuple(SIZES), symbolic=True, strided=True),
)


def _contiguous(x: Array) -> Array:
    return x


def _every_other(x: Array) -> Array:
    """The same elements two apart on every axis."""
    wide = np.zeros([2 * n + 1 for n in x.shape], dtype=x.dtype)
    view = wide[tuple(slice(1, 2 * n + 1, 2) for n in x.shape)]
    view[...] = x
    return view


def _backwards(x: Array) -> Array:
    """The same elements with every stride negative."""
    flip = tuple(slice(None, None, -1) for _ in x.shape)
    return np.ascontiguousarray(x[flip])[flip]


def _columns_first(x: Array) -> Array:
    """The same elements, the first axis with unit stride."""
    return np.asfortranarray(x)


def _repeated(x: Array) -> Array:
    """The first row again and again, with stride 0; other elements than x."""
    return np.broadcast_to(x[:1], x.shape) if x.ndim and x.shape[0] else x


LAYOUTS: Mapping[str, Callable[[Array], Array]] = MappingProxyType(
    {
        "contiguous": _contiguous,
        "every_other": _every_other,
        "backwards": _backwards,
        "columns_first": _columns_first,
        "repeated": _repeated,
    }
)
