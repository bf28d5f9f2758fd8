"""One step of a register tile along the summed axis: instructions, loads and cycles."""

from __future__ import annotations

from math import ceil

from mlc.dialects.target import CpuTarget
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.words import Register

# SOURCE: Intel and AMD optimization guides; Arm Neoverse N1 and V1 guides.
LOADS_PER_CYCLE = 2
TILE_LOAD_CYCLES = 8  # of a tile register: Intel optimization manual, chapter 20
ROW_ADDRESSES = 11  # of the registers for integers, what a tile's loop leaves for rows of a


def step_shape(row: Intrinsic, tile: Register) -> tuple[int, int]:
    """Instructions along both sides of a register tile."""
    return ceil(tile.m / row.shape[0]), ceil(tile.n / row.shape[1])


def row_addresses(row: Intrinsic, rows: int) -> int:
    """Addresses of a's rows that one step loads again: no register holds them."""
    return 0 if row.in_tiles else max(0, rows * row.shape[0] - ROW_ADDRESSES)


def step_cycles(
    row: Intrinsic,
    rows: int,
    columns: int,
    target: CpuTarget,
    *,
    apart: bool,
    shifted: bool = False,
) -> float:
    """
    Cycles of one step of a register tile: multiplying, loading, or waiting for the sums. `apart`: a
    is read in place, each row by an address of its own. `shifted`: as if there were a row more.
    """
    each = TILE_LOAD_CYCLES if row.in_tiles else 1 / LOADS_PER_CYCLE
    loading = (rows + columns + (row_addresses(row, rows) if apart else 0)) * each
    multiplying = (rows + shifted) * columns / row.starts(target)
    return max(multiplying + loading * target.loops.load_share, loading, float(row.latency_cycles))
