"""
The axes of a convolution whose positions lie in strips: rows of positions are an axis of their own.
"""

from __future__ import annotations

from mlc.dialects.analysis.matmul_axes import ContractionRoles
from mlc.dialects.dims import Dim
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tile.words import Strip, Words
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.axes import SPARE, Axes

ROW = "y"
"""The axis of rows of positions."""


@dataclass(frozen=True)
class Windows:
    """A convolution as products of strips: batches g, rows y of positions, m, n, what is summed."""

    roles: ContractionRoles
    axes: Axes
    operand: str  # the factor that is read in strips: its axis of positions is m of a, n of b
    steps: tuple[tuple[int, int], ...]  # of rows and of positions in a row: stride, dilation
    windows: tuple[str, ...]  # letters of the window along them


def in_strips(words: Words) -> bool:
    """Whether a schedule has strips."""
    return any(isinstance(word, Strip) for word in words)


def windows_of(op: Product | None) -> Windows | None:
    """
    How a convolution lies in strips: with channels first positions are columns, with channels last
    rows of the product. None where the result ends with neither, or filters and channels are one.
    """
    if not isinstance(op, ConvOp):
        return None
    (left, _), result, summed = op.words()
    sliding = {c: pair for pair in op.axes[0] if len(pair) > 1 for _, c in pair if c in result}
    spots = [c for c in result if c in sliding]
    filters = "".join(c for c in result if c not in left)
    if not spots or not filters or not summed or len(summed) > len(SPARE):
        return None
    first, grid = result[-1] == spots[-1], spots[-2:]
    if not (first or result.endswith(filters)) or len(filters) > 1:
        return None
    if any(op.sizes()[c].constant is None for c in grid):
        return None
    batch = "".join(c for c in result if c not in filters and c not in grid)
    batch = "".join(c for c in batch if op.sizes()[c] != Dim.const(1))
    rows = {ROW: grid[0]} if len(grid) > 1 else {}
    m, n = (filters, grid[-1]) if first else (grid[-1], filters)
    known = {**({"g": batch} if batch else {}), **rows, "m": m, "n": n}
    axes = Axes({**known, **dict(zip(_spare(), summed, strict=False))}, op.sizes())
    roles = ContractionRoles(batch=batch, m=m, n=n, k=summed, swapped=first)
    terms = [sliding[c] for c in grid]
    steps = tuple(
        (next(n for n, x in pair if x == c), next(n for n, x in pair if x != c))
        for c, pair in zip(grid, terms, strict=True)
    )
    inner = tuple(next(x for _, x in pair if x != c) for c, pair in zip(grid, terms, strict=True))
    letters = tuple(axes.of(c)[0] for c in inner)
    return Windows(roles, axes, "b" if first else "a", steps, letters)


def _spare() -> str:
    return SPARE.replace(ROW, "")
