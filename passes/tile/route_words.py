"""
The words that routes put together for a product, and what decides which of them may be.
"""

from __future__ import annotations

from math import ceil

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.target.intrinsics import Intrinsic
from mlc.dialects.tile.words import Block, Edge, Pack, Register, Via, Word, Words
from mlc.passes.tile.problem import Problem


def ends_of(problem: Problem, row: Intrinsic, tile: Register) -> Words:
    """Register tile, instruction, and what happens at edges."""
    edges: list[Word] = []
    if problem.m % tile.m:
        edges.append(Edge("m", "pack" if row.in_tiles else "clamp"))
    if problem.n % tile.n:
        edges.append(Edge("n", "pack" if row.in_tiles else "mask"))
    if problem.k % row.shape[2]:
        edges.append(Edge("k", "pack"))
    return (tile, Via(row.name), *edges)


def packed_panels(
    operand: str, panels: int, row: Intrinsic, problem: Problem, *, team: bool = False
) -> Pack:
    """Panels for an instruction, in its dtype."""
    which = "ab".index(operand)
    wanted = row.dtypes[which]
    dtype = "" if wanted == problem.dtypes[which] else wanted
    rows = row.in_tiles and operand == "a"  # a tile's rows are a's
    depth = row.shape[2] if row.in_tiles else 1
    return Pack(operand, panels, row.group, depth, dtype, rows=rows, team=team)


def blocks_of(axis: str, step: int, extent: int, *, dynamic: bool = False) -> Words:
    """A loop over blocks, where there are several."""
    return (Block(axis, step, team=dynamic, dynamic=dynamic),) if step < extent else ()


def shares_of(axis: str, extent: int, unit: int, threads: int) -> Words:
    """A loop whose trips workers share, where there are workers."""
    return (Block(axis, share_of(extent, unit, threads), team=True),) if threads > 1 else ()


def share_of(extent: int, unit: int, threads: int) -> int:
    """Equal parts of whole register tiles, one for each worker."""
    return ceil(ceil(extent / unit) / threads) * unit


def rounded(size: int, unit: int, extent: int) -> int:
    """Whole register tiles, of at most `size` and of no more than there are; equal blocks."""
    most = max(1, size // unit)
    tiles = ceil(extent / unit)
    return ceil(tiles / ceil(tiles / most)) * unit


def item_bytes(row: Intrinsic) -> int:
    return named_dtype(row.dtypes[1]).bytes


def in_place(problem: Problem, row: Intrinsic) -> bool:
    """Whether an instruction can take both factors as they lie."""
    same = problem.dtypes[1] == row.dtypes[1]
    return row.group == 1 and problem.b_unit == "n" and same and not row.in_tiles


def has_whole_rows(problem: Problem, row: Intrinsic, m: int) -> bool:
    """Whether no tile of so many rows of an a that is not packed lies outside."""
    return not row.in_tiles or problem.m % m == 0


def a_in_place(problem: Problem, row: Intrinsic) -> bool:
    """Whether a is read as it lies: element by element, groups side by side, or rows of a tile."""
    if problem.dtypes[0] != row.dtypes[0]:
        return False
    whole = problem.a_rows if row.in_tiles else row.shape[0] == 1
    whole = whole and problem.k % row.shape[2] == 0
    return row.group == 1 or (whole and problem.a_unit == "k")
