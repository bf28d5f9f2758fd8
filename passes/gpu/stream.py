"""The words of a stream that blocks of a GPU compute by wgmma: functions of form and target."""

from __future__ import annotations

from math import prod

from mlc.dialects.dtypes import BF16, F16
from mlc.dialects.target import GpuTarget
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.words import Raster, Roles, Stages, Tile, Words
from mlc.passes.gpu.block import SLACK_BYTES
from mlc.passes.tile.stream_form import VALUE, StreamForm
from mlc.passes.tile.streams import QUERIES, WIDE

GROUPS = 2
COLUMNS = 128  # of scores in a trip, and of a factor that leaves registers for so many
NARROW = 64  # columns of factors of which four groups have room, with half as many scores each
WIDEST = 256  # columns of a factor. SOURCE: PTX ISA, wgmma
AHEAD = 256  # columns that rings hold, where there is room
LEAST = (16, 64)  # rows and columns of scores from which a tile is worth it


def choose_stream(form: StreamForm, target: GpuTarget) -> Words:
    """The words of a stream that suits; none where the target has no program for it."""
    if "wgmma" not in target.tensor_core_kinds or not target.has_tma:
        return ()
    depth, wide = form.size(form.depth), form.size(VALUE)
    dtypes = {factor.dtype for factor in form.factors}
    fits = depth % 64 == 0 and depth <= WIDEST and wide in (64, 128, 256)
    least = (form.size(form.row), form.size(form.column))
    if len(dtypes) > 1 or not dtypes <= {BF16, F16} or not fits:
        return ()
    if any(n < m for n, m in zip(least, LEAST, strict=True)):
        return ()
    groups, columns, registers = _groups(form, target)
    rows = groups * GROUP_ROWS
    results = rows * 2 * 64 * 2
    queries = 2 * rows * depth * (QUERIES if max(depth, wide) <= WIDE else 1)
    room = target.shared_bytes_per_block - SLACK_BYTES - results - queries
    stages = min(room // (2 * columns * (depth + wide)), AHEAD // columns)
    if stages < 2:
        return ()
    return (
        Tile(rows, columns, depth),
        Stages(stages),
        Roles(1, groups, *registers),
        _raster(form, rows, target),
    )


def _groups(form: StreamForm, target: GpuTarget) -> tuple[int, int, tuple[int, int]]:
    """Groups of warps, the columns of a trip, and the registers of a thread of each role."""
    depth, wide = form.size(form.depth), form.size(VALUE)
    four = 2 * GROUPS * GROUP_ROWS
    even = form.size(form.row) % four == 0 and _tiles(form, four) >= target.sm_count
    plain = len(form.stream.inputs) == len(form.factors) and not form.diagonal
    if max(depth, wide) <= NARROW and even and plain:
        return 2 * GROUPS, COLUMNS // 2, (32, 112)
    return GROUPS, COLUMNS if max(depth, wide) <= COLUMNS else COLUMNS // 2, (24, 240)


def _raster(form: StreamForm, rows: int, target: GpuTarget) -> Raster:
    """
    Tiles of one factor's rows side by side, which share the other factors in level 2. Where later
    tiles have more columns blocks take one of each end, unless there are too few for pairs: then
    the largest tiles of all come first.
    """
    if not form.diagonal:
        return Raster(1)
    if _tiles(form, rows) >= 2 * target.sm_count:
        return Raster(1, paired=True)
    return Raster(form.size(form.outer[-1]) if form.outer else 1)


def _tiles(form: StreamForm, rows: int) -> int:
    return prod(form.size(c) for c in form.outer) * -(-form.size(form.row) // rows)
