"""
What it takes to read or write a part of an array that lies in memory with its axes in some order,
and to bring an array's axes into another order.

A part whose neighbours lie apart asks for a cache line for each of its elements, of which the rest
is nobody's until the next part is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from xdsl.ir import Attribute

from mlc.dialects.analysis.transposed_reads import SHORT
from mlc.dialects.dims import Dim, as_tensor, shape_of
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.target import CpuTarget, Target
from mlc.passes.cost.sizes import by_sizes, elements_of, estimate, stored_bytes
from mlc.passes.cost.streams import Stream, Traffic, work_of_traffic
from mlc.passes.cost.traffic import LINE_BYTES
from mlc.passes.cost.work import of_cycles, seconds

ONE = Dim.const(1)
Order = tuple[int, ...]
"""The axes of an array as they lie in memory, the outermost first."""


def apart(part: Attribute, whole: Attribute, order: Order) -> int:
    """How many elements of the array lie from one element of a part to the next; 1: neighbours."""
    steps = 1
    for axis in reversed(order):
        if shape_of(part)[axis] != ONE:
            break
        steps *= estimate(shape_of(whole)[axis])
    return steps


@by_sizes
def part_seconds(part: Attribute, whole: Attribute, order: Order, target: CpuTarget) -> int:
    """
    Attoseconds in which one core reads or writes a part of an array, beside what is computed of it.

    The array was touched once since the same lines were: loops walk along it part by part.
    """
    item = dtype_of(as_tensor(part).element_type).bytes
    count, held = elements_of(shape_of(part)), stored_bytes(whole)
    if not count:
        return 0
    step = apart(part, whole, order) * item
    if step == item:  # in vectors
        lanes = target.lanes(8 * item)
        row = estimate(next(d for d in (shape_of(part)[k] for k in reversed(order)) if d != ONE))
        vectors, rest = divmod(row, lanes)
        each = vectors * target.loops.vector_step_cycles
        each += (rest > 0) * target.loops.masked_load_cycles
        core = of_cycles(each * (count // row), target)
        return _moved(Stream(count * item, held), core, target)
    each = target.loops.alone_cycles(item, step, target.cache_line_bytes)
    lines = count * min(step, LINE_BYTES) // LINE_BYTES
    return _moved(Stream(count * item, held, lines), of_cycles(each * count, target), target)


@by_sizes
def turn_seconds(kind: Attribute, order: Order, target: CpuTarget) -> int:
    """Attoseconds of one core that writes an array once more, with its axes in another order."""
    sizes, loops = [estimate(d) for d in shape_of(kind)], target.loops
    count, size = prod(sizes), stored_bytes(kind)
    in_tiles = min(sizes[order[-1]], sizes[-1]) >= SHORT
    item = dtype_of(as_tensor(kind).element_type).bytes
    alone = loops.alone_cycles(item, item * sizes[-1], target.cache_line_bytes)
    core = of_cycles((loops.turned(item) if in_tiles else alone) * count, target)
    whole = Stream(size, 2 * size)
    return seconds(work_of_traffic(Traffic((whole,), (whole,), size), core, target), target)


def _moved(stream: Stream, core: int, target: CpuTarget) -> int:
    return seconds(work_of_traffic(Traffic((stream,), ()), core, target), target)


PARTS: Mapping[type[Target], tuple[Any, Any]] = {CpuTarget: (part_seconds, turn_seconds)}
"""For each kind of machine where parts are costed: `part_seconds` and `turn_seconds`."""
