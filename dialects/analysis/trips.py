"""How often the ops of a planned function run, with which sizes, and the numbers of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from xdsl.ir import Operation

from mlc.dialects.dims import Dim
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, loops_around
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.tiles import TilesOp, enclosing_tiles


def trips_of(op: ControlOp, sizes: Mapping[str, int] | None = None) -> Dim | None:
    """
    How often a loop runs; None where data decides, and for `while` and `if`. Tile loops need the
    values of the symbols.
    """
    if isinstance(op, TilesOp):
        known = [n.evaluate(sizes or {}) for n in op.extents]
        return Dim.const(prod(-(-n // s) for n, s in zip(known, op.steps, strict=True)))
    owner = op.count.owner if isinstance(op, ForOp) else None
    if isinstance(owner, SizeOp):
        return owner.dim
    if isinstance(owner, ConstantOp):
        return Dim.const(max(0, int(owner.array()[()])))
    return None


UNKNOWN_TRIPS = 100
"""Of a loop whose count only the call knows."""


def times_run(op: Operation) -> int:
    """How often a call runs an op of the entry, at a guess where data decides."""
    runs, around = 1, op.parent_op()
    while around is not None:
        if isinstance(around, ForOp):
            count = trips_of(around)
            known = None if count is None else count.constant
            runs *= UNKNOWN_TRIPS if known is None else max(known, 1)
        elif isinstance(around, WhileOp):
            runs *= UNKNOWN_TRIPS
        around = around.parent_op()
    return runs


def runs_of(op: Operation, sizes: Mapping[str, int]) -> int | None:
    """How often a call runs an op of the entry; None where data decides."""
    runs = 1
    for loop in loops_around(op):
        trips = trips_of(loop, sizes)
        if trips is None:
            return None
        runs *= trips.evaluate(sizes)
    return runs


def outermost_tiles(op: Operation) -> TilesOp | None:
    """The outermost tile loop around an op: the kernel of which the op is a phase."""
    return next(reversed(list(enclosing_tiles(op))), None)


def running_kernels(root: Operation) -> list[KernelOp]:
    """The kernels and phases that run, in program order."""
    return [op for op in root.walk() if isinstance(op, KernelOp) and op.unwritten is None]


def kernel_numbers(root: Operation) -> dict[KernelOp, int]:
    """The numbers of kernels in program order; the phases of a tile loop have that of the loop."""
    found: dict[KernelOp, int] = {}
    kernels: dict[Operation, int] = {}
    for op in running_kernels(root):
        loop = outermost_tiles(op)
        found[op] = kernels.setdefault(op if loop is None else loop, len(kernels))
    return found


def phase_numbers(root: Operation) -> dict[KernelOp, int]:
    """Of each phase of a tile loop, its number among the phases of that loop."""
    found: dict[KernelOp, int] = {}
    counts: dict[TilesOp, int] = {}
    for op in running_kernels(root):
        if (loop := outermost_tiles(op)) is not None:
            found[op] = counts.get(loop, 0)
            counts[loop] = found[op] + 1
    return found


def sizes_at(op: Operation, sizes: Mapping[str, int]) -> Mapping[str, int]:
    """The values of all symbols where an op stands: tiles have their largest size."""
    loops = list(enclosing_tiles(op))
    return {**sizes, **{name: n for loop in loops for name, n in loop.sizes.items()}}


def trips_at(op: Operation, sizes: Mapping[str, int]) -> list[tuple[Mapping[str, int], int]]:
    """
    The runs of an op in one run of its kernel: the values of all symbols, and how many runs have
    them. The last tile along an axis may be smaller than the others; loops that data repeat count
    once.
    """
    around: list[Operation] = []
    if (kernel := outermost_tiles(op)) is not None:
        above = op.parent_op()
        while above is not None and above is not kernel:
            around.append(above)
            above = above.parent_op()
        around.append(kernel)
    found: list[tuple[Mapping[str, int], int]] = [(sizes, 1)]
    for loop in reversed(around):
        found = [(inner, n * m) for here, n in found for inner, m in _trips(loop, here)]
    return found


def _trips(loop: Operation, sizes: Mapping[str, int]) -> list[tuple[Mapping[str, int], int]]:
    """The trips of a loop as the symbols' values inside, and how many trips have them."""
    if not isinstance(loop, TilesOp):
        known = trips_of(loop, sizes) if isinstance(loop, ControlOp) and loop.repeats else None
        return [(sizes, 1 if known is None else known.evaluate(sizes))]
    found: list[tuple[Mapping[str, int], int]] = [(sizes, 1)]
    for name, extent, step in zip(loop.symbols, loop.extents, loop.steps, strict=True):
        whole, rest = divmod(extent.evaluate(sizes), step)
        tiles = [(step, whole), (rest, 1)] if rest else [(step, whole)]
        found = [
            ({**here, name: size} if name else here, n * m)
            for here, n in found
            for size, m in tiles
        ]
    return found


def share_of(op: Operation, sizes: Mapping[str, int]) -> float:
    """
    The part of the trips of tile loops in which an op runs that branches there may leave out: those
    ask whether a mask has an element in a tile, and it is taken for a triangle.
    """
    share, branches, around = 1.0, 0, op.parent_op()
    while isinstance(around, ControlOp):
        branches += isinstance(around, IfOp)
        if isinstance(around, TilesOp):
            trips = trips_of(around, sizes)
            if branches and trips is not None and (count := trips.evaluate(sizes)):
                share *= (count + 1) / (2 * count)
            branches = 0
        around = around.parent_op()
    return share


def times_in_call(op: Operation, sizes: Mapping[str, int]) -> float:
    """How often a call runs a kernel or a phase at its `sizes_at`; once what data repeats."""
    loop = outermost_tiles(op)
    if loop is None:
        return runs_of(op, sizes) or 1
    trips = sum(count for _, count in trips_at(op, sizes))
    return (runs_of(loop, sizes) or 1) * trips * share_of(op, sizes)
