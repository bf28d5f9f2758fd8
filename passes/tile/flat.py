"""
Words and the numbers of `Schedule`, for the loops that lowering/loops/contract.py writes: they
block, pack b alone and keep one register tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.plan import Schedule
from mlc.dialects.tile.words import Block, Edge, Pack, Register, Via, Word, Words
from mlc.passes.tile.predict import Problem

INSTRUCTIONS = ("fma", "mul_add")
"""What those loops multiply with; the others are for a tile program."""


def obstacle(problem: Problem, words: Words) -> str | None:
    """The first word that today's loops of a product do not follow, and why; None: they do."""
    packs = any(isinstance(word, Pack) and word.operand == "b" for word in words)
    cut: list[str] = []
    for word in words:
        if (said := _refused(problem, word, packs, cut)) is not None:
            return f"{word}: {said}"
        if isinstance(word, Block):
            cut.append(word.axis)
    return None


def _refused(problem: Problem, word: Word, packs: bool, cut: Sequence[str]) -> str | None:
    match word:
        case Block(axis="n" | "k") if not packs or "m" in cut:
            return "blocks of columns and of the summed axis stand around a copy of b"
        case Block() | Edge(axis="m", how="clamp") | Edge(axis="n", how="mask"):
            return None
        case Pack(operand="a"):
            return "a is read where it lies"
        case Pack(group=group) if group > 1:
            return "summed indices lie one by one in a panel"
        case Pack():
            return None
        case Register(n=columns) if not packs and problem.n > columns:
            return f"b is read in place where one tile holds all its columns, and n = {problem.n}"
        case Register():
            return None
        case Via(row=row) if row in INSTRUCTIONS:
            return None
        case _:
            return "no pass applies it yet"


def flat_schedule(problem: Problem, words: Words, like: Schedule) -> Schedule:
    """The numbers that say the same; lanes, unrolling and grain are those of `like`."""
    if (said := obstacle(problem, words)) is not None:
        raise ValueError(f"schedule {said}")
    tile = next(word for word in words if isinstance(word, Register))
    sizes = {"m": problem.m, "n": problem.n, "k": problem.k}
    steps = {word.axis: word.step for word in words if isinstance(word, Block)}
    blocks = {axis: min(steps.get(axis, size), size) for axis, size in sizes.items()}
    tiled = replace(like, tile_m=tile.m, tile_n=tile.n, block_m=0, block_n=0, block_k=0)
    if not any(isinstance(word, Pack) for word in words):
        return tiled
    return replace(
        tiled,
        block_m=ceil(blocks["m"] / tile.m) * tile.m,
        block_n=ceil(blocks["n"] / tile.n) * tile.n,
        block_k=blocks["k"],
    )


def words_of(problem: Problem, schedule: Schedule) -> Words | None:
    """The words for a product's numbers; None where they say nothing of register tiles."""
    s = schedule
    if not s.tile_m:
        return None
    team = problem.threads > 1
    edges = [
        edge
        for edge, left in (
            (Edge("m", "clamp"), problem.m % s.tile_m), (Edge("n", "mask"), problem.n % s.tile_n)
        )
        if left
    ]  # fmt: skip
    row = "mul_add" if named_dtype(problem.dtypes[2]).is_integer else "fma"
    end: Words = (Register(s.tile_m, s.tile_n), Via(row), *edges)
    rows = ceil(ceil(problem.m / s.tile_m) / problem.threads) * s.tile_m
    if not s.block_n:
        return (Block("m", rows, team=True), *end) if team else end
    outer = [
        Block(axis, step)
        for axis, step, size in (("n", s.block_n, problem.n), ("k", s.block_k, problem.k))
        if step < size
    ]
    each = min(s.block_m, rows)
    inner = (Block("m", each, team=team),) if team or each < problem.m else ()
    return (*outer, Pack("b", s.tile_n, team=team), *inner, *end)
