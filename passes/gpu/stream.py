"""The words of streams that blocks of a GPU compute by wgmma: functions of form and target."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import BF16, BOOL, F16, DType
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tile.layout import GROUP_ROWS
from mlc.dialects.tile.words import Overlap, Raster, Roles, Stages, Tile, Words
from mlc.passes.gpu.block import SLACK_BYTES
from mlc.passes.gpu.tiles import REGISTERS_OF_THREE
from mlc.passes.tile.fold_form import FoldForm, reads_elements
from mlc.passes.tile.stream_block import StreamBlock
from mlc.passes.tile.stream_form import VALUE, StreamForm
from mlc.passes.tile.stream_kinds import form_of
from mlc.passes.tile.streams import QUERIES, WIDE

GROUPS = 2
COLUMNS = 128  # of scores in a trip, and of a factor that leaves registers for so many
CROWDED = 112  # of scores in a trip, where 128 spill up to 20 bytes
NARROW = 64  # columns of factors of which more groups have room
FEW = 32  # columns of a trip with few registers: 1.01 to 1.03 of the time of 64, which spill
MANY = ((3, 128, REGISTERS_OF_THREE, 1.0), (4, 64, (32, 112), 1.09))
"""
Groups that have room, columns of a trip, registers, and time for a row. SOURCE:
docs/measurements.md, "Rows, attention and blocks on a GPU".
"""
WIDEST = 256  # columns of a factor. SOURCE: PTX ISA, wgmma
AHEAD = 256  # columns that rings hold, where there is room
MOST_PRODUCTS = 2  # of rows and columns, and sums: more registers than a thread has
MOST_STAGES = 4  # of columns that are walked once
LEAST = (16, 64)  # rows and columns of scores from which a tile is worth it


def choose_words(block: StreamBlock, target: GpuTarget) -> Words:
    """The words of streams that suit; MlcError, or none where the target has no program."""
    form = form_of(block)
    if isinstance(form, FoldForm):
        return choose_fold(form, target)
    return choose_stream(form, target)


def choose_fold(form: FoldForm, target: GpuTarget) -> Words:
    """The words of a stream whose columns are walked once; none where there is no program."""
    if "wgmma" not in target.tensor_core_kinds or not target.has_tma:
        return ()
    if not _suits([x.dtype for x in form.factors], (form.row, form.column), form):
        return ()
    if any(x.word[-1] != VALUE for x in form.folds):
        return ()  # rows of results are stored as they lie
    depths = [x.depth for x in form.products] + [x.width for x in form.folds]
    many = max(len(form.folds), len(form.products)) > MOST_PRODUCTS
    many = many or sum(x.width for x in form.folds) > WIDEST
    if many or any(x not in (64, 128, WIDEST) for x in depths):
        return ()
    groups, columns, registers = _fold_groups(form)
    rows = groups * GROUP_ROWS
    results = rows * 2 * 64 * 2
    kept = 2 * rows * sum(form.width(x) for x in form.kept)
    room = target.shared_bytes_per_block - SLACK_BYTES - results - kept
    stages = min(room // (2 * columns * sum(form.width(x) for x in form.walked)), MOST_STAGES)
    if stages < 2:
        return ()
    return (
        Tile(rows, columns, form.products[0].depth),
        Stages(stages),
        Roles(1, groups, *registers),
        _raster(form, rows, target),
    )


def _fold_groups(form: FoldForm) -> tuple[int, int, tuple[int, int]]:
    """Groups of warps, the columns of a trip, and the registers of a thread of each role."""
    columns = FEW if _is_crowded(form) else NARROW
    if len(form.folds) == 1 and not form.diagonal and form.folds[0].width < WIDEST:
        return GROUPS + 1, columns, (32, 160)
    return GROUPS, columns, (24, 240)


def _is_crowded(form: FoldForm) -> bool:
    """
    Whether wide sums leave no registers for a matrix's elements, or for two of a last tile with
    masks, a diagonal in all columns' first tiles, and one loop more.
    """
    ends = form.size(form.column) % NARROW > 0
    loops = ends + (form.diagonal and form.upward) + bool(form.also)
    widest = max(x.width for x in form.folds)
    return widest == WIDEST or (widest > NARROW and (loops > 1 or reads_elements(form)))


def choose_stream(form: StreamForm, target: GpuTarget) -> Words:
    """The words of a stream that suits; none where the target has no program for it."""
    if "wgmma" not in target.tensor_core_kinds or not target.has_tma:
        return ()
    depth, wide = form.size(form.depth), form.size(VALUE)
    fits = depth % 64 == 0 and depth <= WIDEST and wide in (64, 128, 256)
    if not fits or not _suits([x.dtype for x in form.factors], (form.row, form.column), form):
        return ()
    groups, columns, registers = _groups(form, target)
    rows = groups * GROUP_ROWS
    results = rows * 2 * 64 * 2
    queries = 2 * rows * depth * (QUERIES if max(depth, wide) <= WIDE else 1)
    room = target.shared_bytes_per_block - SLACK_BYTES - results - queries
    stages = min(room // (2 * columns * (depth + wide)), AHEAD // columns)
    if stages < 2:
        return ()
    words = (
        Tile(rows, columns, depth),
        Stages(stages),
        Roles(1, groups, *registers),
        _raster(form, rows, target),
    )
    return (*words, Overlap("items")) if _overlaps(form, rows, columns, target) else words


def _overlaps(form: StreamForm, rows: int, columns: int, target: GpuTarget) -> bool:
    """
    Whether items share their ends: where they are of different lengths, so that groups do not all
    store at once and no ends are left over. Blocks have several, which store nothing but tiles: of
    one that is not there these are clipped. Trips are a loop, or both halves of code have no room.
    """
    alone = form.diagonal and len(form.statistics) == 0
    loops = form.size(form.column) > 2 * columns
    return alone and _is_plain(form) and loops and _tiles(form, rows) > target.sm_count


def _others(form: StreamForm) -> list[SSAValue]:
    """Arrays that a stream reads beside its factors."""
    factors = {x.argument for x in form.factors}
    return [x for x in form.stream.block.args if x not in factors and shape_of(x.type)]


def _reads_numbers(form: StreamForm) -> bool:
    """Whether numbers of memory are in registers while the last columns are masked."""
    return any(element_dtype(x) is not BOOL for x in _others(form))


def _is_plain(form: StreamForm) -> bool:
    """Whether a stream reads nothing but its factors, and numbers that stay in registers."""
    return not _others(form)


def _suits(dtypes: Sequence[DType], letters: Sequence[str], form: StreamForm | FoldForm) -> bool:
    """Whether factors are alike, and rows and columns as many as a tile wants."""
    least = [form.size(c) for c in letters]
    enough = all(n >= m for n, m in zip(least, LEAST, strict=True))
    alike = len(set(dtypes)) == 1 and set(dtypes) <= {BF16, F16}
    return alike and enough


def _groups(form: StreamForm, target: GpuTarget) -> tuple[int, int, tuple[int, int]]:
    """Groups of warps, the columns of a trip, and the registers of a thread of each role."""
    widest = max(form.size(form.depth), form.size(VALUE))
    if widest <= NARROW and _is_plain(form) and not form.diagonal:
        suited = [x for x in MANY if _tiles(form, x[0] * GROUP_ROWS) >= target.sm_count]
        if suited:
            return min(suited, key=lambda x: x[3] * _padded(form, x[0] * GROUP_ROWS))[:3]
    if widest == COLUMNS and form.size(form.column) % COLUMNS and _reads_numbers(form):
        return GROUPS, CROWDED, (24, 240)
    return GROUPS, COLUMNS if widest <= COLUMNS else COLUMNS // 2, (24, 240)


def _padded(form: StreamForm, rows: int) -> int:
    """Rows that tiles of so many compute."""
    return -(-form.size(form.row) // rows) * rows


def _raster(form: StreamForm | FoldForm, rows: int, target: GpuTarget) -> Raster:
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


def _tiles(form: StreamForm | FoldForm, rows: int) -> int:
    return prod(form.size(c) for c in form.outer) * -(-form.size(form.row) // rows)
