"""
Random programs over the whole tensor dialect: the reference of the program, of the program after
every pass of the pipeline, and compiled code give the same results at several sizes.

400 programs, and 1,000 in slow tests (`--programs=N`: as many as you like; from 5,000 on every op
must occur often), `PER_BATCH` of which share a function and so a compilation. Hypothesis makes
every decision, from a fixed seed. Of a program that fails, the first value that comes out wrong on
its own is printed as text that `mlc opt` reads; after a crash of the process, its last batch stands
in `batch.mlir` below pytest's temporary folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from mlc.dialects.tensor.control import CONTROL
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.positions import PositionsOp
from mlc.dialects.tensor.registry import OPS
from tests.differential.batch import (
    TILED,
    WAYS,
    Batch,
    Way,
    guarded,
    random_batch,
    random_rows,
    smallest,
)
from tests.differential.elementwise import ELEMENTWISE

T = TypeVar("T")

PER_BATCH = 20
SHARDS = 10  # tests; two processes take turns
ROW_SHARDS = 5  # of programs of rows
ROW_SHARE = 2  # of programs there is one of rows
LEAST_USES = 2  # of each op in each shard that is not elementwise: 20 in all
LEAST_LAST = 10  # of each elementwise op in each shard whose programs end with it: 20 in all


@dataclass(frozen=True)
class Hypothesis:
    """Decisions by hypothesis."""

    draw: st.DrawFn

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def number(self, low: int, high: int) -> int:
        return low if low >= high else self.draw(st.integers(low, high))


@st.composite
def batches(draw: st.DrawFn, last: Sequence[type[TensorOp]]) -> Batch:
    """A batch of programs, as a strategy."""
    return random_batch(Hypothesis(draw), last)


@st.composite
def rows(draw: st.DrawFn) -> Batch:
    """A batch of programs of what tile loops are made of, as a strategy."""
    return random_rows(Hypothesis(draw), PER_BATCH)


def last_ops(shard: int) -> list[type[TensorOp]]:
    """The elementwise ops with which a shard's programs end; each op has two shards."""
    assert 2 * len(ELEMENTWISE) <= SHARDS * PER_BATCH, "too few programs for so many ops"
    return [ELEMENTWISE[(shard * PER_BATCH + k) % len(ELEMENTWISE)] for k in range(PER_BATCH)]


@pytest.fixture(params=[400, pytest.param(1000, marks=pytest.mark.slow)])
def programs(request: pytest.FixtureRequest) -> int:
    """How many there are in all shards."""
    return request.config.getoption("--programs") or request.param


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_level_means_the_same(shard: int, programs: int, tmp_path: Path) -> None:
    last = last_ops(shard)
    wanted = -(-programs // (PER_BATCH * SHARDS))
    found = compared(batches(last), WAYS, wanted, shard, tmp_path)
    uses = {op.name: found[op.name] for op in (*OPS, *CONTROL)}
    print(f"{wanted * PER_BATCH} programs; uses of each op: {uses}")
    apart = (*ELEMENTWISE, PositionsOp)  # how many there are no program's types say
    least = {op.name: LEAST_USES for op in (*OPS, *CONTROL) if op not in apart}
    least |= {op.name: LEAST_LAST for op in last}
    rare = {name: uses[name] for name in least if uses[name] < least[name]}
    assert programs < 5000 or not rare, f"ops that hardly occur: {rare}"


@pytest.mark.parametrize("shard", range(ROW_SHARDS))
def test_tile_loops_mean_the_same(shard: int, programs: int, tmp_path: Path) -> None:
    wanted = -(-programs // (ROW_SHARE * PER_BATCH * ROW_SHARDS))
    found = compared(rows(), TILED, wanted, shard, tmp_path)
    least = {"all": 15, "columns": 5, "rescaled": 1}
    rare = {kind: found[kind] for kind in least if found[kind] < least[kind]}
    assert not rare, f"tile loops that hardly occur: {rare}"


def compared(
    programs: st.SearchStrategy[Batch], ways: Sequence[Way], count: int, number: int, folder: Path
) -> Counter[str]:
    """
    Checks so many batches of shard `number`, each in the next way after those of the shard before
    (the first of a shard does not count: hypothesis begins with the simplest batch that there is);
    how often each op and tile loop occurs.
    """
    found: Counter[str] = Counter()
    checked = 0

    def check(batch: Batch) -> None:
        nonlocal checked
        way = ways[(number * (count - 1) + checked - 1) % len(ways)]
        checked += 1
        (folder / "batch.mlir").write_text(f"// {way}, {batch.runs}\n{batch.module}\n")
        if guarded(batch, way):
            pytest.fail(report(batch, way), pytrace=False)
        found.update(batch.coverage() + batch.loops)

    # the seed decides, not the name of the test, and nothing is read from or left on the disk
    chosen = settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    seed(number)(chosen(given(programs)(check)))()
    assert checked == count
    return found


def report(batch: Batch, way: Way) -> str:
    """The failure: what, where, the text, and the arguments."""
    alone, fault = smallest(batch, way)
    text = [fault, str(way), str(alone.module)]
    for sizes in alone.runs:
        text.append(f"arguments at {dict(sizes)}:")
        text += [
            f"  {k}: {np.array2string(x, threshold=40)}"
            for k, x in enumerate(alone.arrays(sizes)[:-1])
        ]
    return "\n".join(text)
