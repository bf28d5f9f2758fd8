"""How a kernel's loop nest is spread over a GPU's threads: pure functions of nest and target."""

from __future__ import annotations

import math

from mlc.dialects.dims import Dim, product
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.nest import Nest, contiguous_votes, group_sizes
from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.roles import contraction_roles
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import ContractOp

ACCESS_BYTES = 16  # the widest load or store of one thread. Source: PTX ISA, ld
BLOCK_THREADS = 256  # 8 blocks fill an SM of 2048 threads at up to 32 registers each
WARP_ROW = 1024  # elements up to which a warp, or part of it, reduces a row: two vectors a thread
COLUMN_THREADS = 1024  # 32 columns side by side, 32 rows at a time
LARGE_TILE = 1024  # rows and columns from which a block multiplies 128 x 128


def choose_gpu_schedule(nest: Nest | None, kernel: KernelOp, target: GpuTarget) -> Schedule:
    """The schedule of one kernel on a GPU."""
    lanes = max(1, min(4, ACCESS_BYTES // _widest(kernel)))
    if nest is None:
        return Schedule(lanes=lanes, threads=BLOCK_THREADS)
    if nest.reduction is None:
        lanes = _lanes_of_rows(nest, lanes)
        return Schedule(lanes=lanes, vector_axis=len(nest.sizes) - 1, threads=BLOCK_THREADS)
    if isinstance(nest.reduction, ContractOp):
        tiled = choose_tile(nest.reduction)
        if tiled is not None:
            return tiled
    return _reduction(nest, lanes, target)


def choose_tile(op: ContractOp) -> Schedule | None:
    """The tile of a matrix product that a block keeps in registers; None where there is none.

    `block_*`: what a block computes and stages; `tile_*`: what one thread computes.
    """
    roles = contraction_roles(op)
    if roles is None or op.dtype.kind == "bool":
        return None
    sizes = op.sizes()
    m, n = (product(sizes[c] for c in word).constant for word in (roles.m, roles.n))
    if (m is not None and m < 4) or (n is not None and n < 4):
        return None
    large = m is not None and n is not None and min(m, n) >= LARGE_TILE and op.dtype.bytes == 4
    block, tile = (128, 8) if large else (64, 4)
    return Schedule(
        lanes=4,
        vector_axis=len(op.words()[1]) - 1,
        tile_m=tile,
        tile_n=tile,
        block_m=block,
        block_n=block,
        block_k=16,
        threads=BLOCK_THREADS,
    )


def _reduction(nest: Nest, lanes: int, target: GpuTarget) -> Schedule:
    """Threads run along a reduced axis, or along the result's last axis where memory does."""
    assert nest.reduction is not None
    if len(nest.sizes) == nest.rank:
        return Schedule(lanes=lanes, vector_axis=nest.rank - 1, threads=BLOCK_THREADS)
    votes = contiguous_votes(nest)
    reduced = range(nest.rank, len(nest.sizes))
    candidates = [*([nest.rank - 1] if nest.rank else []), *reduced]
    one = Dim.const(1)
    useful = [axis for axis in candidates if nest.sizes[axis] != one] or candidates
    axis = max(useful, key=lambda axis: (votes[axis], axis))
    if axis < nest.rank:
        return Schedule(vector_axis=axis, threads=COLUMN_THREADS)
    states = len(nest.reduction.combiner().state(nest.reduction.summand()))
    unroll = 4 if states == 1 else 2
    group = next(g for g in nest.groups(frozenset()) if axis in g)
    size = product(nest.sizes[a] for a in group).constant
    threads = BLOCK_THREADS
    if nest.rank and size is not None and size <= WARP_ROW:
        threads = min(target.warp_lanes, _power_of_two(-(-size // (2 * lanes))))
    return Schedule(lanes=lanes, vector_axis=axis, unroll=unroll, threads=threads)


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
    return max(dtype_of(tensor_of(x).element_type).bytes for x in values)
