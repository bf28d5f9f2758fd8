"""What a nest counts: arithmetic of all trips, and the bytes that they read and write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from xdsl.ir import Block, BlockArgument, SSAValue

from mlc.dialects.analysis.nests import is_number, loop_of
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.analysis.trips import UNKNOWN_TRIPS, trips_of
from mlc.dialects.cost import CostAttr
from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.control import ControlOp, yield_of
from mlc.dialects.tensor.op import TensorOp, bytes_of, element_dtype
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import SliceOp
from mlc.passes.cost.places import array_of

ONE = Dim.const(1)


def nest_cost(kernel: KernelOp) -> CostAttr:
    """Arithmetic of all trips; of each input what `nest_reads` says; of each result all."""
    flops = Dim.const(0)
    largest = largest_in(kernel)
    for op, times in _runs(kernel.block, ONE, largest):
        flops = flops + times * _elements(op, largest) * op.FLOPS
    total = sum(_reads(kernel, largest).values(), Dim.const(0))
    written = sum((bytes_of(x.type) for x in kernel.outs), Dim.const(0))
    return CostAttr((flops, total, written))


def nest_reads(kernel: KernelOp, over: Collection[int] = ()) -> dict[SSAValue, Dim]:
    """
    Bytes of each input: of the elements that all trips read, but no more than it has. What the
    loop begins with is all read, unless it lies where the result does: the inputs in `over`.
    """
    return _reads(kernel, largest_in(kernel), over)


def nest_writes(kernel: KernelOp) -> Sequence[Dim]:
    """Bytes of each result: of the elements that all trips store, but no more than it has."""
    largest, loop = largest_in(kernel), loop_of(kernel.block)
    assert loop is not None
    stored = dict[SSAValue, Dim]()
    for op, times in _runs(kernel.block, ONE, largest):
        if isinstance(op, DynamicUpdateOp):
            elements = _product(shape_of(op.update.type), largest)
            size = times * elements * element_dtype(op.result).bytes
            array = array_of(op.result)
            stored[array] = stored.get(array, Dim.const(0)) + size
    found: list[Dim] = []
    for out, value in zip(kernel.outs, yield_of(kernel.block).values, strict=True):
        found.append(_at_most(bytes_of(out.type), stored.get(array_of(value), Dim.const(0))))
    return found


def _reads(kernel: KernelOp, largest: Largest, over: Collection[int] = ()) -> dict[SSAValue, Dim]:
    read = dict[SSAValue, Dim]()
    for op, times in _runs(kernel.block, ONE, largest):
        for k, given in enumerate(op.operands):
            part = isinstance(op, SliceOp | DynamicSliceOp) and k == 0
            x = array_of(given) if part else given
            if isinstance(x, BlockArgument) and x.block is kernel.block and not is_number(x):
                elements = _product(shape_of(op.results[0].type if part else x.type), largest)
                size = times * elements * element_dtype(x).bytes
                read[x] = read.get(x, Dim.const(0)) + size
    loop = loop_of(kernel.block)
    assert loop is not None
    for k, x in enumerate(kernel.block.args):
        whole, part = bytes_of(x.type), read.get(x, Dim.const(0))
        read[x] = _at_most(whole, part) if k in over or x not in loop.starts else whole
    return read


def _at_most(whole: Dim, part: Dim) -> Dim:
    """The part where it is known to be less."""
    few, limit = part.constant, whole.constant
    return part if few is not None and limit is not None and few < limit else whole


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
    return _product(op.iteration(), largest)


def _product(shape: Sequence[Dim], largest: Largest) -> Dim:
    space = [(dim, largest(dim)) for dim in shape]
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
