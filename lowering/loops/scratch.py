"""The memory that kernels on a CPU need while they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlc.dialects.analysis.access import nest_of, whole_of
from mlc.dialects.analysis.nests import HELD, ops_in
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.analysis.shares import is_dealt, shares_columns
from mlc.dialects.dims import product, shape_of
from mlc.dialects.errors import PlanError
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.order import BLOCKS
from mlc.lowering.loops.builder import item_bytes, memory_type
from mlc.lowering.loops.function import ONE, Scratch
from mlc.lowering.loops.opaque.library import library_scratch
from mlc.lowering.loops.opaque.sort import sort_scratch, sorting_of

ALIGNMENT = 64  # bytes; a cache line, and the widest vector


def scratch_of(op: KernelOp) -> tuple[Scratch, ...]:
    """The memory that a kernel on the CPU needs while it runs."""
    if op.is_nest:
        return held_arrays(op)
    if sorting_of(op) is not None:
        return sort_scratch(op)
    if isinstance(whole_of(op), LibraryOp):
        return library_scratch(op)
    return partial_states(op)


def held_arrays(op: KernelOp) -> tuple[Scratch, ...]:
    """What a nest holds, as large as it is in any trip."""
    held = [x.results[0] for x in ops_in(op.block) if HELD in x.attributes]
    if not held:
        return ()
    ranges = Ranges()
    ranges.bind_all(op)
    found: list[Scratch] = []
    for x in held:
        sizes = [ranges.greatest(dim) for dim in shape_of(x.type)]
        known = [size for size in sizes if size is not None]
        if len(known) != len(sizes):
            raise PlanError(f"{op.name}: {x.type} in a nest has no largest size")
        found.append(Scratch(memory_type(element_dtype(x)), product(known)))
    return tuple(found)


def partial_states(op: KernelOp) -> tuple[Scratch, ...]:
    """Where workers leave the states of blocks of a reduction to one element, or to few."""
    nest = nest_of(op)
    if not is_dealt(op) or nest is None or nest.reduction is None:
        return ()
    count = product(nest.sizes[: nest.rank])
    if count != ONE and not shares_columns(nest):
        return ()
    return tuple(Scratch(memory_type(x), count * BLOCKS, on_stack=True) for x in nest.states)


def reserved_bytes(scratch: Sequence[Scratch], sizes: Mapping[str, int], threads: int) -> int:
    """Bytes of the arena for the scratch of one kernel: each buffer begins at a cache line."""
    bytes_of = [
        (x.count * item_bytes(x.element)).evaluate(sizes) * x.copies_for(threads, sizes)
        for x in scratch
        if x.in_arena
    ]
    return sum(-(-n // ALIGNMENT) * ALIGNMENT for n in bytes_of)
