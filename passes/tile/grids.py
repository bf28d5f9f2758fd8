"""
Blocks of columns and rows that workers share together.

Of a product whose rows alone are shared every worker reads all that is packed; of blocks near a
square it reads less, and on many cores, which read from one another's caches, that is much of the
time. Which blocks there are does not depend on how many workers a call has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.target import CpuTarget
from mlc.dialects.tile.words import Block, Pack, Register, Words
from mlc.passes.tile.predict import Prediction, Problem, predict

WORTH = 0.97
"""Of the time with rows alone on all cores of a machine, what a grid has to be below."""
ALIKE = 1.02
"""Times that are taken as equal: of such grids the one whose workers read least."""
DEARER = 1.05
"""Of the time with rows alone on one worker, what a grid may take there."""
FINER = 3
"""Numbers of blocks of rows that are tried: finer ones may come out evener."""


def with_columns(words: Words, problem: Problem, target: CpuTarget) -> Words:
    """
    The words with blocks of columns before those of rows, where that pays on all cores and costs
    one worker little.
    """
    if target.cores == 1 or not any(isinstance(x, Pack) and x.team for x in words):
        return words
    whole = replace(problem, threads=target.cores)
    alone = predict(whole, words, target).seconds
    one = DEARER * predict(problem, words, target).seconds
    offered = _grids(words, problem, target)
    even = [x for x in offered if predict(problem, x, target).seconds <= one]
    grids = [(predict(whole, x, target), x) for x in even]
    best = min((found.seconds for found, _ in grids), default=alone)
    if best >= WORTH * alone:
        return words
    fast = [(_far(found), x) for found, x in grids if found.seconds <= ALIKE * best]
    return min(fast, key=lambda x: x[0])[1]


def _far(found: Prediction) -> int:
    """Bytes that a worker reads from level 3 and memory."""
    return found.bytes[2] + found.bytes[3]


def _grids(words: Words, problem: Problem, target: CpuTarget) -> Iterator[Words]:
    """Blocks of columns and of rows, a whole number of both together for each core."""
    at = next(k for k, x in enumerate(words) if isinstance(x, Block) and x.axis == "m")
    rows, tile = words[at], next(x for x in words if isinstance(x, Register))
    pack = next(x for x in words if isinstance(x, Pack) and x.team)
    assert isinstance(rows, Block)
    depth = min([problem.k, *(x.step for x in words if isinstance(x, Block) and x.axis == "k")])
    item = named_dtype(pack.dtype or problem.dtypes[1]).bytes
    if depth * problem.n * item > (target.l3_bytes or target.l2_bytes) // 2:
        return
    # blocks of columns around the copy have no use: its columns are shared
    outer = tuple(x for x in words[:at] if not (isinstance(x, Block) and x.axis == "n"))
    tall, wide = ceil(problem.m / tile.m), ceil(problem.n / tile.n)
    parts = 2
    while parts <= min(target.cores, wide):
        across = ceil(wide / parts) * tile.n
        least = max(1, target.cores // parts)
        fewest = ceil(ceil(tall / least) * tile.m / rows.step)
        columns = Block("n", across, team=True)
        for times in range(fewest, fewest + FINER):
            down = ceil(tall / (least * times)) * tile.m
            yield (*outer, columns, replace(rows, step=down), *words[at + 1 :])
        parts *= 2
