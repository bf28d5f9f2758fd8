"""The words of a stream that blocks of a GPU compute by wgmma: functions of form and target."""

from __future__ import annotations

from mlc.dialects.dtypes import BF16, F16
from mlc.dialects.target import GpuTarget
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.words import Raster, Roles, Stages, Tile, Words
from mlc.passes.gpu.block import SLACK_BYTES
from mlc.passes.tile.stream_form import VALUE, StreamForm
from mlc.passes.tile.streams import QUERIES, WIDE

GROUPS = 2
COLUMNS = 128  # of scores in a trip, and of a factor that leaves registers for so many
WIDEST = 256  # columns of a factor. SOURCE: PTX ISA, wgmma
LEAST = (16, 64)  # rows and columns of scores from which a tile is worth it
RASTER_BYTES = 32 << 20
"""Of factors that blocks walk together, so that they stay in level 2; estimated."""


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
    columns = COLUMNS if max(depth, wide) <= COLUMNS else COLUMNS // 2
    rows = GROUPS * GROUP_ROWS
    results = GROUPS * 2 * GROUP_ROWS * 64 * 2
    room = (
        target.shared_bytes_per_block
        - SLACK_BYTES
        - results
        - 2 * rows * depth * (QUERIES if max(depth, wide) <= WIDE else 1)
    )
    stages = min(room // (2 * columns * (depth + wide)), 2)
    if stages < 2:
        return ()
    each = 2 * form.size(form.column) * (depth + wide)
    heads = form.size(form.outer[-1]) if form.outer else 1
    return (
        Tile(rows, columns, depth),
        Stages(stages),
        Roles(1, GROUPS, 24, 240),
        Raster(max(1, min(heads, RASTER_BYTES // each))),
    )
