"""
Layered drawings of acyclic graphs: who reads stands below who is read.

SOURCE: Sugiyama, Tagawa, Toda, "Methods for Visual Understanding of Hierarchical System
Structures", IEEE Trans. SMC 11(2), 1981: longest-path layers, ordered by barycentres.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlc.lazy_dataclass import dataclass

SWEEPS = 4  # over all layers; more change little in graphs of hundreds of kernels
MAX_IN_ROW = 8  # boxes beside one another; a wider layer goes on in the next row
GAP_X, GAP_Y = 18, 34  # pixels between boxes
TIP = 7  # pixels of an arrowhead
FAR = 12  # rows that an edge passes in lanes; of longer ones both ends are drawn
STUB = 12  # pixels of an end


@dataclass(frozen=True)
class Size:
    """Width and height in pixels."""

    width: float
    height: float


def rows_of(
    count: int, edges: Iterable[tuple[int, int]], floating: Iterable[int] = ()
) -> list[list[int]]:
    """
    The items 0 … count - 1 in rows, each below all that it reads. Edges are (producer, consumer)
    with producer < consumer, unless the producer is `floating`: such items, which read nothing,
    stand right above their first reader.
    """
    readers: list[list[int]] = [[] for _ in range(count)]
    makers: list[list[int]] = [[] for _ in range(count)]
    for producer, consumer in edges:
        readers[producer].append(consumer)
        makers[consumer].append(producer)
    layer = [0] * count
    free = set(floating)
    fixed = [k for k in range(count) if k not in free]
    for k in fixed:
        layer[k] = max((layer[p] + 1 for p in makers[k]), default=0)
    for k in free:
        layer[k] = max(0, min((layer[c] for c in readers[k]), default=0) - 1)
    layers: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for k in range(count):
        layers[layer[k]].append(k)
    _order(layers, makers, readers)
    return [found[k : k + MAX_IN_ROW] for found in layers for k in range(0, len(found), MAX_IN_ROW)]


def with_lanes(
    rows: Sequence[Sequence[int]], edges: Iterable[tuple[int, int]]
) -> tuple[list[list[int]], dict[tuple[int, int], int]]:
    """
    The rows with room for edges that pass by: in each row between a producer and the last reader
    that is not `far` an item stands for what leads on, numbered after all others, by (producer,
    row).
    """
    row_of = {k: r for r, row in enumerate(rows) for k in row}
    across = {k: (i + 0.5) / len(row) for row in rows for i, k in enumerate(row)}
    readers: dict[int, list[int]] = {}
    for producer, consumer in edges:
        if 0 < row_of[consumer] - row_of[producer] <= FAR:
            readers.setdefault(producer, []).append(consumer)
    whole = [list(row) for row in rows]
    lanes: dict[tuple[int, int], int] = {}
    first = len(row_of)
    for producer, found in readers.items():
        start, end = row_of[producer], max(row_of[k] for k in found)
        for row in range(start + 1, end):
            below = [across[k] for k in found if row_of[k] > row]
            part = (row - start) / (end - start)
            lanes[producer, row] = number = first + len(lanes)
            across[number] = (1 - part) * across[producer] + part * sum(below) / len(below)
            whole[row].append(number)
    return [sorted(row, key=across.__getitem__) for row in whole], lanes


def _order(
    layers: Sequence[list[int]], makers: Sequence[list[int]], readers: Sequence[list[int]]
) -> None:
    """Sorts each layer by where its neighbours stand, down and up in turn."""
    at: dict[int, float] = {}
    for found in layers:
        at |= {k: i / len(found) for i, k in enumerate(found)}
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = makers if down else readers
        for found in layers if down else reversed(layers):
            centre = {
                k: sum(at[n] for n in near) / len(near) if (near := neighbours[k]) else at[k]
                for k in found
            }
            found.sort(key=centre.__getitem__)
            at |= {k: i / len(found) for i, k in enumerate(found)}


def positions(
    rows: Sequence[Sequence[int]], sizes: Sequence[Size], gap_y: float = GAP_Y
) -> tuple[dict[int, tuple[float, float]], Size]:
    """The upper left corner of each item, rows centred, and the size of the whole."""
    widths = [sum(sizes[k].width + GAP_X for k in row) + GAP_X for row in rows]
    total = max(widths, default=0.0)
    y = gap_y
    found: dict[int, tuple[float, float]] = {}
    for row, width in zip(rows, widths, strict=True):
        x = (total - width) / 2 + GAP_X
        for k in row:
            found[k] = (x, y)
            x += sizes[k].width + GAP_X
        y += max(sizes[k].height for k in row) + gap_y
    return found, Size(total, y)
