"""
Which convolutions are cut into strips, and how: rows of positions and the register tile that take
the least time, on one worker and on several.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from math import ceil, prod

from mlc.dialects.analysis.layouts import layouts_of
from mlc.dialects.analysis.matmul_axes import SMALL_CONTRACTION
from mlc.dialects.dims import product
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import is_strict
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.tiles import is_phase
from mlc.dialects.tile.words import Pack, Register, Strip, Via, Words
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.work import ATTO, FAR, Work, clock, of_cycles, seconds
from mlc.passes.tile.canonical import canonical, product_of
from mlc.passes.tile.choose import TAKE_S, WIDEST, fits_registers
from mlc.passes.tile.cut import dot_of
from mlc.passes.tile.predict import usable_rows
from mlc.passes.tile.products import grain_of, words_after
from mlc.passes.tile.steps import step_cycles
from mlc.passes.tile.windows import ROW, Windows, windows_of

MOST_WORKERS = 16
"""For which work is cut: strips are the same for teams of any size."""
MOST_TILE_ROWS = 16
MANY = 8
"""Batches, where how many there are is known only when the program runs."""
MOST_WASTE = 1.6
"""Where more than this is computed, as rows are short or filters few, there are no strips."""


@dataclass(frozen=True)
class Shape:
    """A convolution by values alone: positions are `rows` of `width`, with filters a product."""

    operand: str
    batch: int
    rows: int
    width: int
    filters: int
    depth: int  # summed elements
    channels: int  # of them, for each place in the window
    strides: tuple[int, int]
    reach: tuple[int, int]  # places that windows read beyond, of one remainder
    item: int
    grouped: bool  # whether batches have weights of their own

    @property
    def macs(self) -> int:
        """Multiplications."""
        return self.batch * self.rows * self.width * self.filters * self.depth

    def pitch(self) -> int:
        """Elements of a row of a strip."""
        return self.width + self.reach[1]

    def copied(self, rows: int) -> int:
        """Elements of a strip of so many rows of positions."""
        each = (rows + self.reach[0]) * self.pitch()
        return self.channels * each * self.strides[0] * self.strides[1]


@dataclass(frozen=True)
class Strips:
    """A way to cut: rows of a strip, and the register tile."""

    rows: int
    tile: Register
    unit: int
    cost: int  # attoseconds
    waste: float  # the time of a strip, to that of multiplying what is wanted


def words_of_strips(kernel: KernelOp, target: CpuTarget, grain_s: float) -> Words | None:
    """A convolution's words; None where strips waste too much. `grain_s`: a worker's least."""
    op = product_of(kernel)
    windows = windows_of(op)
    if op is None or windows is None or is_phase(kernel) or op.dtype is not op.summand():
        return None
    shape = _shape(op, windows, {})
    row = _row(op, target)
    if shape is None or row is None or shape.macs < SMALL_CONTRACTION:
        return None
    found = choose_strips(shape, row, target)
    if found is None or (found.waste > MOST_WASTE and not shape.grouped):
        return None
    panels = found.tile.m if shape.operand == "b" else found.tile.n
    weights = Pack("a" if shape.operand == "b" else "b", panels, team=not shape.grouped)
    trip = seconds(_trip(shape, found.rows, found.tile, row, target), target)
    strip = Strip(shape.operand, found.rows, found.unit, dynamic=trip >= TAKE_S * ATTO)
    via = Via("mul_add" if is_strict(kernel) else row.name)
    first = (strip, weights) if shape.grouped else (weights, strip)
    words = (*first, found.tile, via)
    try:
        program = canonical(kernel, "", words, layouts_of(kernel))
    except MlcError:
        return None
    return (*words, *words_after(dot_of(program)), grain_of(row, target, grain_s))


def _row(op: Product, target: CpuTarget) -> Intrinsic | None:
    """The instruction that strips are multiplied by: of single elements of a."""
    rows = usable_rows((op.dtype.name,) * 3, target)
    return next((x for x in rows if x.shape[0] == x.group == 1), None)


def _shape(op: Product, windows: Windows, known: Mapping[str, int]) -> Shape | None:
    """The values; None where some are not known, or weights are as large as a cache."""
    axes, (left, right), sizes = windows.axes, op.words()[0], op.sizes()
    free = {axis: axes.size(axis).constant for axis in (ROW, "m", "n") if axis in axes.letters}
    depth = product(sizes[c] for c in windows.roles.k).constant
    counts = [axes.size(c).constant for c in windows.windows]
    named = dict.fromkeys(axes.size("g").symbols(), MANY) if "g" in axes.letters else {}
    batch = axes.size("g").evaluate({**named, **known}) if "g" in axes.letters else 1
    if None in free.values() or not depth or not all(counts) or 0 in free.values() or batch == 0:
        return None
    reach = [d * ((n or 1) - 1) // s for (s, d), n in zip(windows.steps, counts, strict=True)]
    strides = [s if (n or 1) > 1 else 1 for (s, _), n in zip(windows.steps, counts, strict=True)]
    if len(reach) == 1:
        reach, strides = [0, *reach], [1, *strides]
    along = "n" if windows.operand == "b" else "m"
    inner = prod(n or 1 for n in counts)
    rows, width = free.get(ROW) or 1, free[along] or 1
    if inner > rows * width:
        return None  # windows larger than what slides: of a gradient to weights
    if batch == 1 and ROW not in free:
        return None  # one strip: tile programs have no axis of one place that it would be cut from
    return Shape(
        windows.operand, batch, rows, width, free["m" if along == "n" else "n"] or 1,
        depth, depth // inner, (strides[0], strides[1]),
        (reach[0], reach[1]), op.dtype.bytes,
        any(c in left and c in right for c in windows.roles.batch),
    )  # fmt: skip


@lru_cache(maxsize=512)
def choose_strips(shape: Shape, row: Intrinsic, target: CpuTarget) -> Strips | None:
    """The cut that takes the least time; None where no strip fits level 2."""
    found: list[Strips] = []
    counts = sorted({ceil(shape.rows / parts) for parts in range(1, shape.rows + 1)})
    for rows in counts:
        if shape.copied(rows) * shape.item > target.l2_bytes // 2:
            break
        found += [
            _cut(shape, rows, Register(m, vectors * row.shape[1]), row, target)
            for m in range(1, MOST_TILE_ROWS + 1)
            for vectors in range(1, WIDEST + 1)
            if fits_registers(row, m, vectors, target)
        ]
    return min(found, key=lambda x: x.cost, default=None)


def _trip(shape: Shape, rows: int, tile: Register, row: Intrinsic, target: CpuTarget) -> Work:
    """Of one strip: arithmetic, copies, and waiting for weights that level 2 does not hold."""
    lanes, loops = row.shape[1], target.loops
    unit, across = (tile.n, tile.m) if shape.operand == "b" else (tile.m, tile.n)
    span = (rows - 1) * shape.pitch() + shape.width
    tiles = ceil(span / unit) * ceil(shape.filters / across)
    step = step_cycles(row, tile.m, tile.n // lanes, target, apart=False)
    copied = shape.copied(rows)
    strided = max(shape.strides) > 1 and shape.operand == "b"
    copy = copied * loops.strided_pack_cycles if strided else copied / lanes * loops.pack_cycles
    trip = tiles * (shape.depth * step + loops.tile_start_cycles) + copy
    weights, wait = shape.filters * shape.depth, 0
    if shape.grouped:
        trip += weights / lanes * loops.pack_cycles
    elif weights * shape.item > target.l2_bytes // 2:  # they come again for every strip
        wait = weights * shape.item * clock(target).byte[FAR]
    return Work(core=of_cycles(trip, target), wait=wait)


def _cut(shape: Shape, rows: int, tile: Register, row: Intrinsic, target: CpuTarget) -> Strips:
    """One way and its time: of a strip, times the strips that a worker has."""
    trip = seconds(_trip(shape, rows, tile, row, target), target)
    unit = tile.n if shape.operand == "b" else tile.m
    trips = shape.batch * ceil(shape.rows / rows)
    shared = ceil(trips / MOST_WORKERS) * MOST_WORKERS
    cost = trip * (3 * trips + shared) // 4
    cycles = shape.macs / shape.batch / (row.shape[1] * target.fma_ports)
    wanted = of_cycles(cycles, target)
    return Strips(rows, tile, unit, cost, trip * ceil(shape.rows / rows) / wanted)


def work_of_strips(
    kernel: KernelOp, words: Words, sizes: Mapping[str, int], target: CpuTarget
) -> Work:
    """Of a convolution that these words cut into strips, on one worker."""
    op = product_of(kernel)
    windows = windows_of(op)
    assert op is not None
    assert windows is not None
    shape = _shape(op, windows, sizes)
    strip = next(x for x in words if isinstance(x, Strip))
    tile = next(x for x in words if isinstance(x, Register))
    row = _row(op, target)
    if shape is None or row is None:
        return Work()
    trips = shape.batch * ceil(shape.rows / strip.rows)
    return _trip(shape, strip.rows, tile, row, target).times(trips)
