"""
Python's integers in loops that are known to lie between ends: by what each trip keeps and by the
conditions under which it is run. A program does not look whether those stay within 64 bits.

`low + high` and `middle + 1` of a search, `2 * root + 1` of a heap: the loops' own tests say it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.invariants import LoopRanges
from mlc.dialects.dims import Dim
from mlc.frontend.trace.trace import Trace

MOST = 2**61
MOST_SIZES = 2**18
"""Of a size, which is below 2^40, and of at most eight: 2^58 each, with `MOST` below 2^62."""


def look_no_more(trace: Trace) -> None:
    """Of what lies between ends that 64 bits have, a program does not look whether it does."""
    wanted = {x for look, x in trace.ints.looked.items() if not look.uses}
    blocks = [trace.block, *(f.body.block for f in trace.private)]
    if wanted:
        trace.ints.look_no_more(_proven(blocks, wanted, trace.symbols))


def _proven(
    blocks: Sequence[Block], wanted: Collection[SSAValue], sizes: Sequence[str]
) -> set[SSAValue]:
    """Those of the values that are computed in the blocks and lie between such ends there."""
    ranges = LoopRanges()
    ops = list(chain.from_iterable(block.walk() for block in blocks))
    for block in blocks:
        for op in block.ops:
            ranges.bind_all(op)
    end = Dim.const(MOST)
    for name in sizes[:8]:
        end += Dim.symbol(name) * MOST_SIZES
    return {x for op in ops for x in op.results if x in wanted and _is_between(x, op, end, ranges)}


def _is_between(value: SSAValue, op: Operation, end: Dim, ranges: LoopRanges) -> bool:
    found, facts = ranges.of(value), ranges.facts(op)
    return all(ranges.follows(end - x, facts) for x in (found, -found))
