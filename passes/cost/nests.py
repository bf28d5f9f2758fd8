"""What a nest takes: its numbers wait for one another, from trip to trip."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from xdsl.ir import Block, SSAValue

from mlc.dialects.analysis.nests import is_number, loop_of, ops_in
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.analysis.trips import UNKNOWN_TRIPS, trips_of
from mlc.dialects.cost import CostAttr
from mlc.dialects.dims import Dim, product
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ControlOp, IfOp, yield_of
from mlc.dialects.tensor.op import TensorOp, bytes_of, tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.passes.cost.sizes import estimate

ONE = Dim.const(1)
LATENCY_CYCLES = 4.0  # of a sum or a product of floats; source: the guides that `fma_ports` cites
LOAD_CYCLES = 5.0  # of an element in level 1; as above
ISSUE_CYCLES = 0.3  # of an op that waits for nothing: about four of them begin in a cycle
TRIP_CYCLES = 1.0  # of counting and branching back


def nest_cost(kernel: KernelOp) -> CostAttr:
    """
    Arithmetic of all trips; of each input the elements that they read, but no more than it has; of
    each result all.
    """
    flops, read = Dim.const(0), dict[SSAValue, Dim]()
    read.update((x, Dim.const(0)) for x in kernel.block.args)
    largest = largest_in(kernel)
    for op, times in _runs(kernel.block, ONE, largest):
        flops = flops + times * _elements(op, largest) * op.FLOPS
        for x in op.operands:
            if x in read and not is_number(x):
                read[x] = read[x] + times * dtype_of(tensor_of(x).element_type).bytes
    loop = loop_of(kernel.block)
    assert loop is not None
    total = Dim.const(0)
    for x, bytes_ in read.items():
        whole = bytes_of(x.type)
        part, limit = bytes_.constant, whole.constant
        few = part is not None and limit is not None and part < limit
        total = total + (bytes_ if few and x not in loop.starts else whole)
    written = sum((bytes_of(x.type) for x in kernel.outs), Dim.const(0))
    return CostAttr((flops, total, written))


def nest_cycles(kernel: KernelOp, sizes: Mapping[str, int]) -> float:
    """Of one run on one core; loops whose count data decides run `UNKNOWN_TRIPS` times."""
    return _cycles(kernel.block, sizes, largest_in(kernel))


def trip_cycles(kernel: KernelOp) -> float:
    """Of one trip of a nest's loop, with the sizes that searches assume."""
    loop = loop_of(kernel.block)
    assert loop is not None
    largest = largest_in(kernel)
    return sum(_cycles(block, None, largest) for block in loop.blocks) + TRIP_CYCLES


Largest = Callable[[Dim], Dim]
"""Of a size that a trip's number may say, the greatest that it has in any trip."""


def largest_in(kernel: KernelOp) -> Largest:
    """As the numbers in a nest are bound."""
    ranges = Ranges()
    ranges.bind_all(kernel)

    def largest(dim: Dim) -> Dim:
        found = ranges.greatest(dim)
        return Dim.const(UNKNOWN_TRIPS) if found is None else found

    return largest


def _elements(op: TensorOp, largest: Largest) -> Dim:
    """Of an array; half of the most where they differ from trip to trip."""
    space = [(dim, largest(dim)) for dim in op.iteration()]
    return product(most if dim == most else most // 2 for dim, most in space)


def _runs(block: Block, times: Dim, largest: Largest) -> Iterator[tuple[TensorOp, Dim]]:
    """The ops of a block and how often they run: branches both."""
    for op in block.ops:
        if isinstance(op, TensorOp):
            yield op, times
        elif isinstance(op, ControlOp):
            inside = times * _trips(op, largest) if op.repeats else times
            for inner in op.blocks:
                yield from _runs(inner, inside, largest)


def _trips(loop: ControlOp, largest: Largest) -> Dim:
    known = trips_of(loop)
    return Dim.const(UNKNOWN_TRIPS) if known is None else largest(known)


def _cycles(block: Block, sizes: Mapping[str, int] | None, largest: Largest) -> float:
    """Of the loops in a block, and of what stands beside them."""
    total = 0.0
    for op in block.ops:
        if isinstance(op, IfOp):
            total += max(_cycles(inner, sizes, largest) for inner in op.blocks)
        elif isinstance(op, ControlOp) and op.repeats:
            trip = sum(_cycles(inner, sizes, largest) for inner in op.blocks)
            trip = max(trip, *map(_chain, op.blocks)) + TRIP_CYCLES
            total += max(_value(_trips(op, largest), sizes), 0) * trip
        elif isinstance(op, TensorOp) and (op.FLOPS or isinstance(op, DynamicUpdateOp)):
            elements = max(_value(_elements(op, largest), sizes), 1)
            elements = 1 if isinstance(op, DynamicUpdateOp) else elements
            total += ISSUE_CYCLES * max(op.WEIGHT, 1.0) * elements
    return total


def _value(dim: Dim, sizes: Mapping[str, int] | None) -> int:
    return estimate(dim) if sizes is None else dim.evaluate(sizes)


def _chain(block: Block) -> float:
    """The longest way from what a trip is given to what it gives: the next one waits for that."""
    late: dict[SSAValue, float] = dict.fromkeys(block.args[1:], 0.0)
    for op in ops_in(block):
        if isinstance(op, ControlOp):
            continue
        waits = [late[x] for x in op.operands if x in late and is_number(x)]
        if waits and isinstance(op, TensorOp):
            late[op.results[0]] = max(waits) + _latency(op)
    return max((late.get(x, 0.0) for x in yield_of(block).values), default=0.0)


def _latency(op: TensorOp) -> float:
    if isinstance(op, DynamicSliceOp):
        return LOAD_CYCLES
    if not op.FLOPS:
        return 0.0
    return max(LATENCY_CYCLES, 2 * op.WEIGHT) if op.dtype.is_inexact else 1.0
