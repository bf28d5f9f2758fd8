"""The words of rows that blocks of a GPU keep in registers: functions of kernel and target."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mlc.dialects.dims import Shape, product, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tile.words import Hold, Words
from mlc.passes.tile.rows import space_of

ACCESS_BYTES = 16  # the widest load or store of one thread. Source: PTX ISA, ld
VECTORS = 4  # of a thread, so that enough bytes are under way
MOST_VECTORS = 8  # where that saves threads of other warps
MOST_ELEMENTS = 32  # of one fragment in a thread's registers
AHEAD_TIMES = 4  # as many rows there are, at least
WORD_BYTES = 4  # the least that blocks of a cluster send each other; narrow floats as f32
BLOCK_THREADS = 128  # of a block with several rows
MOST_THREADS = 1024
CLUSTERS = (2, 4, 8)
CLUSTER_THREADS = 512  # of each block of a cluster
RUNNING = 10 / 11
"""
Of the clusters of 8 blocks that have room, two blocks a multiprocessor, those that run at once: 30
of 33 on an H200. So many walk over the rows: 90 us instead of 95 of softmax 256 x 131072, 117 where
33 do. Measured: docs/measurements.md, "Rows, attention and blocks on a GPU"
"""
AHEAD_BYTES = 8 << 20
"""
Of rows that level 2 is asked for while others are computed, where each is a block's; blocks of a
cluster, which wait for each other, gain nothing. Measured: docs/measurements.md, "Rows, attention
and blocks on a GPU"
"""


def rows_of(kernel: KernelOp, target: GpuTarget) -> Iterator[Words]:
    """How rows may be held, the best first; no word where they are too long for registers."""
    space = space_of(kernel)
    size = None if space is None else product(space[1]).constant
    if space is None or not size:
        yield ()
        return
    whole = (*space[0], *space[1])
    wide = [x for x in (*kernel.inputs, *kernel.outs) if shape_of(x.type) == whole]
    item = max((element_dtype(x).bytes for x in wide), default=4)
    lanes = math.gcd(size, ACCESS_BYTES // item)
    vectors = size // lanes
    warp = target.warp_lanes
    each = _power_of_two(-(-vectors // VECTORS))
    if each > warp and vectors <= warp * MOST_VECTORS and lanes * MOST_VECTORS <= MOST_ELEMENTS:
        each = warp
    each = min(each, MOST_THREADS)
    if -(-vectors // each) * lanes > MOST_ELEMENTS:
        yield from _clusters(kernel, space[0], vectors, lanes, target)
        return
    count = product(space[0]).constant
    ahead = _ahead(kernel, *space) if each > warp else 0
    for threads, far in (
        (each, ahead),
        *([(each, 0)] if ahead else []),
        (2 * each, ahead),
        (each // 2, 0),
        (4 * each, 0),
    ):
        fits = 1 <= threads <= MOST_THREADS and -(-vectors // threads) * lanes <= MOST_ELEMENTS
        if fits and (threads == each or threads < 2 * vectors):
            rows = max(BLOCK_THREADS // threads, 1) if threads <= warp else 1
            if count is not None:
                rows = min(rows, _power_of_two(max(count, 1)))
            yield (Hold(rows, threads * rows, lanes, ahead=far),)


def _ahead(kernel: KernelOp, rows: Shape, columns: Shape) -> int:
    """Rows that are asked for before their block begins: 0 where they are few, or short."""
    read = [x for x in kernel.inputs if shape_of(x.type) == (*rows, *columns)]
    item_bytes = sum(element_dtype(x).bytes for x in read)
    count, size = product(rows).constant, product(columns).constant
    if not count or not size or not item_bytes:
        return 0
    ahead = AHEAD_BYTES // (size * item_bytes)
    return ahead if ahead * AHEAD_TIMES <= count else 0


def _clusters(
    kernel: KernelOp, rows: Shape, vectors: int, lanes: int, target: GpuTarget
) -> Iterator[Words]:
    """The fewest blocks that hold a row together; no word where the device has no clusters."""
    folds = (op for op in kernel.block.ops if isinstance(op, Reduction))
    sent = (op.summand() for op in folds)
    sends = target.has_tma and all(x.bytes >= WORD_BYTES or x.kind == "float" for x in sent)
    found = [
        (Hold(1, CLUSTER_THREADS, lanes, blocks, walkers=_walkers(blocks, rows, target)),)
        for blocks in CLUSTERS
        if sends and -(-vectors // (blocks * CLUSTER_THREADS)) * lanes <= MOST_ELEMENTS
    ]
    yield from found or [()]


def _walkers(blocks: int, rows: Shape, target: GpuTarget) -> int:
    """How many of the largest clusters walk over rows; 0 where each row has its own."""
    count, most = product(rows).constant, int(2 * target.sm_count // blocks * RUNNING)
    return most if blocks == CLUSTERS[-1] and count is not None and count > most else 0


def _power_of_two(least: int) -> int:
    """The smallest power of two that is not below `least`."""
    return 1 << max(0, least - 1).bit_length()
