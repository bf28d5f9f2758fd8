"""How a kernel's loop nest is spread over a GPU's threads: pure functions of nest and target."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from xdsl.ir import BlockArgument

from mlc.dialects.analysis.access import Nest, contiguous_votes, group_sizes
from mlc.dialects.analysis.matmul_axes import thread_roles
from mlc.dialects.dims import Dim, product
from mlc.dialects.dtypes import F32
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.gpu import STATIC_SHARED_BYTES
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.order import Order
from mlc.dialects.tensor.reduce import ContractOp, Product
from mlc.dialects.tile.nest_words import Share, Stage, Threads, Unroll, Vector
from mlc.passes.gpu.block import blocks_of, known_sizes
from mlc.passes.gpu.mma import warps_of
from mlc.passes.gpu.predict import (
    BLOCK_THREADS,
    OF_WINDOWS,
    PARTS,
    STAGED,
    gpu_product,
    product_seconds,
)
from mlc.passes.gpu.rows import rows_of
from mlc.passes.gpu.stream import choose_words
from mlc.passes.gpu.tiles import ProductSizes
from mlc.passes.tile.stream_block import StreamBlock, holds_streams

ACCESS_BYTES = 16  # the widest load or store of one thread. Source: PTX ISA, ld
MOST_LANES = 8  # of a vector: bytes take half an access, so that code stays short
WARP_ROW = 1024  # elements up to which a warp, or part of it, reduces a row: two vectors a thread
ROW_UNROLL = 4  # vectors that a thread reads at once along a row; half where states are pairs
COLUMN_WIDTH = 32  # threads side by side that reduce columns
COLUMN_UNROLL = 4  # rows that such a thread reads at once
BLOCKS_PER_SM = 2  # from which on columns are not cut into shares of their rows
CELL_UNROLL = 4  # vectors of a thread, where that leaves enough blocks
CELL_UNROLLS = (1, 2, CELL_UNROLL, 8)
FEWEST = 4  # rows and columns of a tile of threads
LARGE_TILE = 1024  # rows and columns from which a block multiplies 128 x 128
PAIR = 2  # sums side by side that a thread of a warp's product has
DEPTH = 16  # summed elements that a block stages at once
SLOTS, RESIDENT = 2, 2
"""Tiles of a product that are staged at once, and blocks of a multiprocessor: the second multiplies
while the first waits. Measured: docs/measurements.md, products of f32 on a GPU"""
MOST_SHARES, LEAST_STEPS = 32, 2  # of the summed elements, and steps of each


def gpu_schedules(nest: Nest | None, kernel: KernelOp, target: GpuTarget) -> Iterator[Schedule]:
    """The schedules that a kernel on a GPU may have, the best first."""
    lanes = max(1, min(MOST_LANES, ACCESS_BYTES // _widest(kernel)))
    if kernel.template.data == "rows":
        for words in rows_of(kernel, target):
            yield Schedule((Threads(BLOCK_THREADS), *words))
    elif nest is None and holds_streams(kernel):
        yield Schedule(choose_words(StreamBlock.of_kernel(kernel), target))
    elif nest is None:
        yield Schedule((Vector(lanes), Threads(BLOCK_THREADS)))
    elif nest.reduction is None:
        lanes = _lanes_of_rows(nest, lanes)
        for unroll in _cell_unrolls(nest, lanes, target):
            yield _of_vectors(lanes, len(nest.sizes) - 1, unroll, BLOCK_THREADS)
    else:
        if isinstance(nest.reduction, Product):
            yield from _of_product(nest, nest.reduction, kernel, target)
        yield _reduction(nest, lanes, target)


def _of_product(nest: Nest, op: Product, kernel: KernelOp, target: GpuTarget) -> Iterator[Schedule]:
    """Of a product: by groups of warps, by warps, or by threads."""
    nests = chain(_by_warps(op, target), _by_threads(op, target, nest.order))
    best = next(nests, None)
    if best is None:
        return
    if isinstance(op, ContractOp):
        for words in blocks_of(kernel, op, target):
            yield best.having(*words)
    yield best
    yield from nests


def _by_warps(op: Product, target: GpuTarget) -> Iterator[Schedule]:
    """The tiles of a product or convolution that warps multiply; none where they do not."""
    for stage in warps_of(op, target):
        yield Schedule((Vector(PAIR), Threads(BLOCK_THREADS), stage))


def refused_threads(op: Product) -> str | None:
    """Why a block's threads keep no tile of a product; None where they do."""
    roles = thread_roles(op)
    if roles is None:
        return "it is no product of matrices"
    if op.dtype.kind == "bool":
        return "bool is no sum"
    sizes = op.sizes()
    m, n = (product(sizes[c] for c in word).constant for word in (roles.m, roles.n))
    if (m is not None and m < FEWEST) or (n is not None and n < FEWEST):
        few = [f"{x} = {y}" for x, y in (("m", m), ("n", n)) if y is not None and y < FEWEST]
        return f"{' and '.join(few)}: fewer than {FEWEST}, so it is a reduction like others"
    return None


def _by_threads(op: Product, target: GpuTarget, order: Order) -> Iterator[Schedule]:
    """The tiles of a matrix product that a block keeps in registers; none where there is none."""
    roles = thread_roles(op)
    if roles is None or refused_threads(op) is not None:
        return
    sizes = op.sizes()
    m, n = (product(sizes[c] for c in word).constant for word in (roles.m, roles.n))
    large = m is not None and n is not None and min(m, n) >= LARGE_TILE and op.dtype.bytes == 4
    block, tile = (128, 8) if large else (64, 4)
    known = known_sizes(op, roles)
    axis = len(op.words()[1]) - 1
    found = [
        _schedule(stage, share, axis, op.summand().bytes)
        for stage, share in (
            *_plain(op, block, tile),
            *_staged(op, known, block, target),
            *_in_parts(op, known, order, target),
        )
    ]
    if known is not None:
        values = gpu_product(op, known, op.summand())
        found.sort(key=lambda x: product_seconds(values, x, target))
    yield from found


def _schedule(cut: Stage, share: int, axis: int, item: int) -> Schedule:
    """
    The words that cut so; `axis`: the last of the result. With a number of blocks where ptxas would
    rather spill some numbers than have a block less: sums of 64 bits, and tiles that
    threads divide.
    """
    resident = RESIDENT if item == 8 else RESIDENT + 1 if item < 8 and cut.parts else 0
    stage = replace(cut, resident=cut.resident or resident)
    shares = (Share(share),) if share else ()
    lanes = 1 if stage.parts else 4
    return Schedule((Vector(lanes, axis), *shares, Threads(BLOCK_THREADS), stage))


def _plain(op: Product, block: int, tile: int) -> Iterator[tuple[Stage, int]]:
    """Tiles whose results are stored in fours, side by side in memory."""
    if isinstance(op, ContractOp):
        yield Stage(block, block, DEPTH, rows=tile, columns=tile), 0


def _staged(
    op: Product, sizes: ProductSizes | None, least: int, target: GpuTarget
) -> Iterator[tuple[Stage, int]]:
    """
    Tiles that are staged by asynchronous copies, where those of `least` rows and columns divide a
    product whose factors are copied as they lie.
    """
    memory = all(isinstance(x, BlockArgument) for x in op.operands)
    alike = memory and isinstance(op, ContractOp) and op.dtype is F32
    if not alike or not target.has_async_copy or sizes is None or not sizes.k or sizes.k % DEPTH:
        return
    if sizes.m % least or sizes.n % least:
        return
    for rows, columns, _ in STAGED:
        if sizes.m % rows == 0 and sizes.n % columns == 0:
            yield (
                Stage(
                    rows, columns, DEPTH, rows=rows // 16, columns=columns // 16, slots=SLOTS,
                    resident=RESIDENT,
                ),
                0,
            )  # fmt: skip


def _in_parts(
    op: Product, sizes: ProductSizes | None, order: Order, target: GpuTarget
) -> Iterator[tuple[Stage, int]]:
    """
    Small tiles whose summed elements a block's threads, and several blocks, divide: elements of a
    share, where there are several.
    """
    item = op.summand().bytes
    if sizes is None or order != "any" or op.summand().kind == "complex":
        return
    windows = not isinstance(op, ContractOp)
    for rows, columns, parts, deep, _ in (*OF_WINDOWS, *PARTS) if windows else PARTS:
        least = max(parts, BLOCK_THREADS // min(rows, columns))
        depths = (deep >> n for n in range(8) if deep >> n >= least)
        shared = ((n, item * (n * (rows + columns + 8) + parts * rows * columns)) for n in depths)
        depth = next(
            (n for n, size in shared if n < 2 * sizes.k and size <= STATIC_SHARED_BYTES), least
        )
        high = rows * columns * parts // (4 * BLOCK_THREADS)
        stage = Stage(rows, columns, depth, rows=high, columns=4, parts=parts)
        yield stage, 0
        blocks = sizes.batches * -(-sizes.m // rows) * -(-sizes.n // columns)
        most = min(MOST_SHARES, sizes.k // (LEAST_STEPS * depth))
        wanted = min(most, 4 * target.sm_count // max(blocks, 1))
        if wanted > 1:
            share = -(-sizes.k // wanted)
            yield stage, -(-share // depth) * depth


def _reduction(nest: Nest, lanes: int, target: GpuTarget) -> Schedule:
    """Threads run along a reduced axis, or along the result's last axis where memory does."""
    assert nest.reduction is not None
    if len(nest.sizes) == nest.rank:
        return _of_vectors(lanes, nest.rank - 1, 1, BLOCK_THREADS)
    votes = contiguous_votes(nest)
    reduced = range(nest.rank, len(nest.sizes))
    candidates = [*([nest.rank - 1] if nest.rank else []), *reduced]
    one = Dim.const(1)
    useful = [axis for axis in candidates if nest.sizes[axis] != one] or candidates
    axis = max(useful, key=lambda axis: (votes[axis], axis))
    if axis < nest.rank:
        return _columns(nest, axis, lanes, target)
    states = len(nest.reduction.combiner().state(nest.reduction.summand()))
    unroll = ROW_UNROLL if states == 1 else ROW_UNROLL // 2
    group = next(g for g in nest.groups(frozenset()) if axis in g)
    size = product(nest.sizes[a] for a in group).constant
    threads = BLOCK_THREADS
    if nest.rank and size is not None and size <= WARP_ROW:
        threads = min(target.warp_lanes, _power_of_two(-(-size // (2 * lanes))))
    return _of_vectors(lanes, axis, unroll, threads)


def _columns(nest: Nest, axis: int, lanes: int, target: GpuTarget) -> Schedule:
    """Columns side by side; so many shares of the rows that every multiprocessor has work."""
    assert nest.reduction is not None
    states = list(nest.reduction.combiner().state(nest.reduction.summand()))
    groups = nest.groups(frozenset())
    columns = product(nest.sizes[a] for a in next(g for g in groups if axis in g)).constant
    if len(states) > 1 or states[0].kind in ("bool", "complex") or columns is None:
        lanes = 1
    else:
        lanes = math.gcd(columns, lanes) or 1
    rows = product(nest.sizes[a] for a in next(g for g in groups if g[0] >= nest.rank)).constant
    kept = product(nest.sizes[: nest.rank]).constant
    share = 0
    if rows and kept:
        blocks = -(-kept // (COLUMN_WIDTH * lanes))
        least = BLOCK_THREADS // COLUMN_WIDTH * COLUMN_UNROLL  # rows of a trip
        shares = min(-(-BLOCKS_PER_SM * target.sm_count // blocks), rows // (4 * least))
        share = -(-rows // shares) if shares > 1 else 0
    schedule = _of_vectors(lanes, axis, COLUMN_UNROLL, BLOCK_THREADS)
    return schedule.having(Share(share)) if share else schedule


def _of_vectors(lanes: int, axis: int, unroll: int, threads: int) -> Schedule:
    several = (Unroll(unroll),) if unroll > 1 else ()
    return Schedule((Vector(lanes, axis), *several, Threads(threads)))


def _cell_unrolls(nest: Nest, lanes: int, target: GpuTarget) -> list[int]:
    """
    Vectors that a thread may compute, the best first: several where the grid is many times the
    machine.
    """
    sizes = list(group_sizes(nest, nest.groups(frozenset())))
    row, total = sizes[-1].constant if sizes else None, product(nest.sizes).constant
    if row is None or total is None:
        return [1]
    waves = total // (CELL_UNROLL * lanes) // (target.max_threads_per_sm * target.sm_count)
    best = CELL_UNROLL if waves >= 4 else 1
    fit = [n for n in CELL_UNROLLS if n == 1 or row >= BLOCK_THREADS * n * lanes]
    return sorted(fit, key=lambda n: (n != best, n))


def _lanes_of_rows(nest: Nest, lanes: int) -> int:
    """Lanes that divide the rows, so that each row begins at an aligned place."""
    sizes = group_sizes(nest, nest.groups(frozenset()))
    row = sizes[-1].constant if len(sizes) > 1 else None
    return lanes if row is None or row == 0 else math.gcd(row, lanes)


def _power_of_two(least: int) -> int:
    """The smallest power of two that is not below `least`."""
    return 1 << max(0, least - 1).bit_length()


def _widest(kernel: KernelOp) -> int:
    """Bytes of the widest element that the kernel reads or writes."""
    values = [*kernel.inputs, *kernel.outs]
    return max(element_dtype(x).bytes for x in values)
