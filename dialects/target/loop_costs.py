"""
What loops take on a CPU beside the arithmetic that ports and lanes say: measured, one row for each
machine at hand. A host that has not been measured has zen3 or masks, by its registers for masks.

Cycles are of one core with operands in level 1, at the clock that the measured peak implies; how
each is measured: docs/measurements.md, Cost model. `mlc machine --measure` writes a row for the
machine it runs on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from functools import lru_cache

from mlc.lazy_dataclass import dataclass

CONFLICT_BYTES = 1024
"""Strides by such a power of two share few sets of level 1."""


@dataclass(frozen=True, kw_only=True)
class LoopCosts:
    """Measured on one machine. What an algorithm counts (steps, ops, trips) is not here."""

    name: str
    """Of the row; a row that `mlc machine --measure` made keeps that of the one it began with."""

    # rows of vectors

    row_start_cycles: float = 6.0
    """Starting the loop that carries the vector. Source: as `source`."""

    vector_step_cycles: float = 0.4
    """Of a vector, beside its ops: addresses and the loop's end. Source: as `source`."""

    tap_cycles: float = 1.0
    """A vector of those that are loaded of one array beside one another, as stencils do: it mostly
    lies in two lines. Source: docs/measurements.md, Stencils."""

    masked_store_cycles: float = 18.0
    """A vector that is stored in part. Source: as `source`."""

    masked_load_cycles: float = 3.0
    """A vector that is loaded in part. Source: as `source`."""

    light_op_factor: float = 8.0
    """An op of the first three of a loop, whose operands come from level 2, to one of the peak's.
    Source: docs/measurements.md, Op weights."""

    op_factor: float = 1.2
    """Likewise of those that follow. Source: as light_op_factor."""

    function_chain_factor: float = 1.1
    """Several long chains of operations in one kernel, to each in its own. Source: as `source`."""

    function_rest_cycles: float = 6.0
    """A vector of them behind the last whole trip of a reduction's loop. Source: as `source`."""

    function_cycles: str = ""
    """Of a vector: of each function that was measured "NAME F32 F64", with commas; the others by
    their WEIGHT. Source: as `source`."""

    # reductions

    reduce_step_cycles: float = 1.0
    """A vector combined into a state. Source: as `source`."""

    extreme_step_cycles: float = 5.0
    """A vector's positions beside its extremes. Source: as `source`."""

    fold_cycles: float = 5.0
    """A state of several vectors to one element, beside the next row's loads.
    Source: as `source`."""

    extreme_fold_cycles: float = 40.0
    """Likewise of extremes and their positions. Source: as `source`."""

    joined_fold_cycles: float = 5.0
    """Likewise, of several rows that are walked at once. Source: as `source`."""

    short_loop_cycles: float = 25.0
    """A loop of few trips. Source: as `source`."""

    few_rows_vector_cycles: float = 1.2
    """A vector down few rows, whose columns overlap. Source: as `source`."""

    many_rows_vector_cycles: float = 3.2
    """A vector down many rows. Source: as `source`."""

    down_step_cycles: float = 2.0
    """One step down the columns: an addition waits for the one before. Source: as `source`."""

    state_cycles: float = 2.0
    """A state that waits in level 1: loaded and stored. Source: as `source`."""

    # elements, one by one

    iota_cycles: float = 1.0
    """A position as a number. Source: as `source`."""

    strided_cycles: float = 1.2
    """An element of a row of which every so many are taken, beside the next one in its line.
    Source: as `source`."""

    column_cycles: float = 1.2
    """An element of a column, beside the next one in its line.
    Source: docs/measurements.md, Cost model."""

    apart_cycles: float = 2.0
    """Likewise, where each lies in another line. Source: docs/measurements.md, Cost model."""

    conflict_cycles: float = 6.0
    """Likewise, where strides by a power of two share few sets of level 1. Source: as `source`."""

    turned_cycles: float = 0.5
    """An element that is turned in a tile. Source: as `source`."""

    strided_f64_cycles: float = 1.2
    """As `strided_cycles`, of elements of eight bytes."""
    apart_f64_cycles: float = 2.0
    """As `apart_cycles`, of elements of eight bytes."""
    conflict_f64_cycles: float = 6.0
    """As `conflict_cycles`, of elements of eight bytes."""
    turned_f64_cycles: float = 0.5
    """As `turned_cycles`, of elements of eight bytes."""

    gathered_cycles: float = 1.5
    """An element at a computed position, checked. Source: as `source`."""

    gathered_row_cycles: float = 20.0
    """A row at a computed position. Source: as `source`."""

    sort_cycles: float = 0.8
    """An element, for each doubling of the row. Source: as `source`."""

    argsort_cycles: float = 6.4
    """Likewise of positions. Source: as `source`."""

    scan_cycles: float = 1.0
    """An element of a running sum, of four bytes. Source: as `source`."""
    scan_f64_cycles: float = 1.0
    """As `scan_cycles`, of elements of eight bytes."""

    scatter_cycles: float = 2.2
    """An update. Source: as `source`."""

    scatter_index_cycles: float = 6.0
    """Of each index but one of an update. Source: as `source`."""

    # loops of single elements

    issue_cycles: float = 1 / 6
    """An op that waits for nothing: six are dispatched in a cycle. Source: the guides that
    `fma_ports` cites, of Zen 3, Zen 4 and Golden Cove."""

    integer_cycles: float = 0.25
    """Likewise an op of integers: four units. Source: as issue_cycles."""

    integer_divide_cycles: float = 6.0
    """A division of integers of 64 bits that waits for nothing. Source: docs/measurements.md,
    Integer division."""

    integer_divide_latency_cycles: float = 15.0
    """Until it is there. Source: as integer_divide_cycles."""

    num_waiting_ops: int = 256
    """Ops that are dispatched and not done: of Zen 3; Zen 4 has 320, Golden Cove 512. Source: as
    issue_cycles."""

    add_latency_cycles: float = 3.0
    """Until a sum of floats is there. Source: as issue_cycles."""

    load_issue_cycles: float = 0.5
    """A load that waits for nothing. Source: as issue_cycles."""

    store_cycles: float = 1.0
    """A store. Source: as issue_cycles."""

    load_cycles: float = 5.0
    """Until level 1 answers. Source: as issue_cycles."""

    forward_cycles: float = 5.0
    """Until a load has what a store before it has written. Source: as issue_cycles."""

    blocked_cycles: float = 20.0
    """Until a vector is loaded of which a part has just been stored, or all of it in parts: what
    was stored must lie in level 1. Source: docs/measurements.md, Nests."""

    mispredict_cycles: float = 17.0
    """A branch that was foretold wrongly. Source: as issue_cycles."""

    mispredicted_share: float = 0.25
    """Of branches that data decide, foretold wrongly: of two ends that are as likely, half at
    most. Source: estimate."""

    num_learnt_branches: int = 32768
    """Branches that data decide in a call, all of which the next call like it foretells.
    Source: docs/measurements.md, Branches."""

    # products

    tile_start_cycles: float = 25.0
    """Around a register tile's loop. Source: as `source`."""

    tile_edge_cycles: float = 2.0
    """A row of a register tile that may lie past the end: where it is read, and whether it is
    stored. Source: docs/measurements.md, Register tiles."""

    pack_cycles: float = 2.0
    """A vector moved into a panel. Source: as `source`."""

    strided_pack_cycles: float = 1.5
    """An element that is copied in steps. Source: as `source`."""

    tile_epilogue_factor: float = 3.5
    """An op on a tile's sums, to one on a long row. Source: as `source`."""

    tile_peak_share: float = 0.77
    """Of the peak, in a register tile's loop. Source: as `source`."""

    load_share: float = 0.28
    """Of a load, what multiplying does not hide. Source: docs/measurements.md, Register tiles."""

    read_share: float = 0.1
    """Of reads, what arithmetic does not hide even where it takes longer. Source:
    docs/measurements.md, Reads under arithmetic."""

    tile_read_share: float = 0.2
    """Likewise of tile registers. Source: as read_share."""

    crossed_read_share: float = 0.2
    """More of b in place, where each vector crosses into another line. Source: as read_share."""

    # calls and waits

    fresh_memory_factor: float = 1.5
    """Moving values that no cache holds, to the streams alone: their memory is also given and
    cleared page by page. Source: docs/measurements.md, Tile loops."""

    call_s: float = 5e-9
    """The call alone: arguments, cancel poll, error word. Source: as `source`."""

    l2_first_s: float = 3e-9
    """Until level 2 answers that no stream has asked for before. Source: as `source`."""

    l3_first_s: float = 15e-9
    """Likewise level 3. Source: as `source`."""

    memory_first_s: float = 100e-9
    """Likewise memory. Source: as `source`."""

    l2_line_s: float = 5e-10
    """A line of level 2 asked for in no order, while others are on their way.
    Source: as `source`."""

    l3_line_s: float = 2e-9
    """Likewise of level 3. Source: as `source`."""

    memory_line_s: float = 40e-9
    """Likewise of memory. Source: as `source`."""

    num_lines_together: int = 6
    """Lines that one vector of gathered elements asks for at once. Source: as `source`."""

    # threads

    waking_s: float = 2.5e-5
    """Least work of a worker that may be asleep: half of what waking it costs, since it may be
    awake. Source: docs/measurements.md, Threads."""

    others_byte_s: float = 2.5e-10
    """Of a byte that another core has just written. Source: docs/measurements.md, Threads."""

    source: str
    """Where the figures come from."""

    @property
    def functions(self) -> Mapping[str, tuple[float, float]]:
        """Cycles of a vector of float32 and of float64, by the op's name."""
        return _functions(self.function_cycles)

    @property
    def first_s(self) -> tuple[float, float, float, float]:
        """Until levels 1, 2, 3 and memory answer; what level 1 takes is in the cycles."""
        return 0.0, self.l2_first_s, self.l3_first_s, self.memory_first_s

    @property
    def line_s(self) -> tuple[float, float, float, float]:
        """Of a line asked for in no order, of the same levels."""
        return 0.0, self.l2_line_s, self.l3_line_s, self.memory_line_s

    def turned(self, item: int) -> float:
        """Cycles of an element of `item` bytes that is turned in a tile."""
        return self.turned_f64_cycles if item > 4 else self.turned_cycles

    def scan(self, item: int) -> float:
        """Cycles of an element of `item` bytes of a running sum."""
        return self.scan_f64_cycles if item > 4 else self.scan_cycles

    def alone_cycles(self, item: int, step: int, line_bytes: int, *, in_row: bool = False) -> float:
        """
        Of an element of `item` bytes that is loaded alone, `step` bytes from the next one: in a
        column, or in a row of which every so many are taken.
        """
        wide = item > 4
        each = self.strided_f64_cycles if wide else self.strided_cycles
        each = each if in_row else max(each, self.column_cycles)
        if step >= line_bytes:
            each = max(each, self.apart_f64_cycles if wide else self.apart_cycles)
        if step % CONFLICT_BYTES == 0:
            each = max(each, self.conflict_f64_cycles if wide else self.conflict_cycles)
        return each

    @property
    def shared_s(self) -> float:
        """Work of a kernel that threads share: two workers' least; less runs on the caller."""
        return 2 * self.waking_s

    def differences(self) -> Iterator[tuple[str, object]]:
        """The fields in which it is not the row of its name."""
        row = LOOP_COSTS[self.name]
        for field in fields(self):
            if (value := getattr(self, field.name)) != getattr(row, field.name):
                yield field.name, value


@lru_cache(maxsize=16)
def _functions(text: str) -> dict[str, tuple[float, float]]:
    rows = (part.split() for part in text.split(",") if part)
    return {f"mlc.{name}": (float(single), float(double)) for name, single, double in rows}


ZEN3 = LoopCosts(
    name="zen3",
    function_cycles=(
        "exp 9 19.5, exp2 10.5 20, expm1 12 19, log 23 30, log2 30 39, log10 33 42, log1p 25 36, "
        "sqrt 5 9, rsqrt 8 14.5, cbrt 43 49, sin 21 28, cos 21 28, tan 35 44, asin 17.5 31, acos "
        "18.5 29, atan 30 43, sinh 18.5 28, cosh 14 23, tanh 23 34, asinh 64 76, acosh 54 68, "
        "atanh 42 51, div 3 5, pow 88 115, atan2 50 62, mod 13 14, rem 9 10, floor_div 21 26, "
        "hypot 18 10, erf 73 95, erfc 79 106, lgamma 270 140"
    ),
    apart_cycles=1.5,
    apart_f64_cycles=1.5,
    source="measured: AMD EPYC (Zen 3, AVX2), kernels of the model zoo; docs/measurements.md",
)

MASKS = replace(
    ZEN3,
    name="masks",
    function_cycles="",
    masked_store_cycles=2.0,
    apart_cycles=2.0,
    apart_f64_cycles=2.0,
    source="as zen3, with mask registers: estimate; apart_cycles measured on a Zen 4",
)

EMERALD_RAPIDS = replace(
    MASKS,
    name="emeraldrapids",
    function_cycles=(
        "div 7.2 12, sqrt 9.2 19.8, exp 5.1 8.3, log 4.2 9.2, log1p 10.1 12.2, tanh 10.9 21.2, "
        "sin 8.5 21.3, cos 9.5 20.5"
    ),
    row_start_cycles=0.55,
    vector_step_cycles=0.025,
    masked_store_cycles=1.5,
    masked_load_cycles=1.6,
    reduce_step_cycles=1.5,
    extreme_step_cycles=1.6,
    fold_cycles=0.5,
    extreme_fold_cycles=33.0,
    joined_fold_cycles=0.3,
    short_loop_cycles=1.6,
    few_rows_vector_cycles=1.7,
    many_rows_vector_cycles=1.95,
    down_step_cycles=0.6,
    iota_cycles=0.1,
    strided_cycles=0.28,
    conflict_cycles=3.1,
    turned_cycles=0.2,
    gathered_cycles=0.69,
    gathered_row_cycles=4.8,
    sort_cycles=0.39,
    argsort_cycles=2.3,
    scan_cycles=0.67,
    tile_epilogue_factor=1.1,
    l2_first_s=5.9e-9,
    l3_first_s=140e-9,
    memory_first_s=190e-9,
    l2_line_s=7.5e-10,
    l3_line_s=10.5e-9,
    memory_line_s=16.5e-9,
    source="measured: a guest with two cores of a Xeon (Emerald Rapids, AVX-512), "
    "busy, by `mlc machine --measure`; the others, apart_cycles and those of f64 too, as masks",
)

ZEN4 = replace(
    MASKS,
    name="zen4",
    function_cycles=(
        "div 3.2 5.9, sqrt 7.3 12.9, exp 6.4 9.3, log 6.2 10.5, log1p 10.9 14.3, tanh 12 27.5, "
        "sin 10.5 26.5, cos 10.7 29.4, pow 33 49, floor_div 21.7 25.9, mod 13.6 13.9, hypot 29 13, "
        "atan2 12.8 15.8, cbrt 21 22, exp2 5.1 7.2, expm1 8.5 13.6, log2 5.7 10.5, log10 7.4 11.2, "
        "tan 32 31, asin 17.4 27, acos 18.2 28, atan 12 15.4, sinh 16.4 24, cosh 9.3 12.8"
    ),
    tap_cycles=1.35,
    column_cycles=1.06,
    integer_divide_cycles=6.6,
    integer_divide_latency_cycles=16.0,
    row_start_cycles=0.375,
    vector_step_cycles=0.59,
    masked_store_cycles=0.7,
    masked_load_cycles=1.0,
    reduce_step_cycles=1.9,
    extreme_step_cycles=2.7,
    fold_cycles=1.65,
    extreme_fold_cycles=38.0,
    joined_fold_cycles=1.95,
    short_loop_cycles=4.6,
    few_rows_vector_cycles=1.9,
    many_rows_vector_cycles=2.0,
    down_step_cycles=0.13,
    iota_cycles=0.15,
    strided_cycles=0.27,
    apart_cycles=1.9,
    conflict_cycles=2.7,
    turned_cycles=0.22,
    strided_f64_cycles=0.55,
    apart_f64_cycles=1.6,
    conflict_f64_cycles=5.9,
    turned_f64_cycles=0.37,
    gathered_cycles=1.5,
    gathered_row_cycles=2.5,
    sort_cycles=0.35,
    argsort_cycles=1.8,
    scan_cycles=2.0,
    scan_f64_cycles=3.0,
    add_latency_cycles=3.1,
    num_waiting_ops=320,
    tile_epilogue_factor=1.24,
    l2_first_s=5.3e-9,
    l3_first_s=57e-9,
    memory_first_s=190e-9,
    l2_line_s=1.6e-9,
    l3_line_s=1.9e-9,
    memory_line_s=12.5e-9,
    source="measured: a guest with two cores of an EPYC (Zen 4, AVX-512), busy, by `mlc machine "
    "--measure`; the other figures as masks",
)

LOOP_COSTS = {row.name: row for row in (ZEN3, MASKS, EMERALD_RAPIDS, ZEN4)}


def loop_costs_for(num_mask_registers: int) -> LoopCosts:
    """The row of a processor that has not been measured; another one is named by who wants it."""
    return MASKS if num_mask_registers else ZEN3
