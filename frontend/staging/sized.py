"""Arrays of which two bodies leave different sizes: both fill one that has room, and count."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim, Shape, highest, shape_of
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.placing import PadOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.indexing import Run, sliced
from mlc.frontend.trace.program_sizes import bound_symbol
from mlc.frontend.trace.symbolic import bounds, is_bound
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer

ZERO = Dim.const(0)


def room_for(x: Shape, y: Shape) -> Shape:
    """The least shape known to hold both."""
    return tuple(a if a == b else _larger(a, b) for a, b in zip(x, y, strict=True))


def _larger(x: Dim, y: Dim) -> Dim:
    limits = here().limits
    a, b = highest(x, limits), highest(y, limits)
    low, high = bounds(a - b)
    if low is not None and low >= 0:
        return a
    return b if high is not None and high <= 0 else a + b


def hidden_in(block: Block, dims: Shape) -> list[bool]:
    """Which sizes say symbols that are bound in a block, and that no type around it may say."""
    if not any(map(is_bound, dims)):
        return [False] * len(dims)
    own = {op.symbol.data for op in block.walk() if isinstance(op, BindOp)}
    return [not own.isdisjoint(dim.symbols()) for dim in dims]


def padded(x: SSAValue, room: Shape) -> SSAValue:
    """The array with elements behind it, up to a shape."""
    dims = shape_of(x.type)
    if dims == room:
        return x
    trace = here()
    zero = full(trace.b, 0, element_dtype(x), ())
    high = tuple(n - d for d, n in zip(dims, room, strict=True))
    return trace.emit(PadOp, x, zero, low=(ZERO,) * len(dims), high=high)


def cut(x: SSAValue, sizes: Sequence[SSAValue | None]) -> SSAValue:
    """The first elements, along each axis that has a number as many as it says."""
    pairs = zip(shape_of(x.type), sizes, strict=True)
    return first_of(x, [d if size is None else bound_symbol(size, d) for d, size in pairs])


def first_of(x: SSAValue, dims: Sequence[Dim]) -> SSAValue:
    """The first elements, along each axis as many as said."""
    return sliced(x, [Run(ZERO, 1, dim) for dim in dims])


def more_room(
    name: str, leaf: Tracer, sizes: list[Tracer | None] | None, dims: Shape
) -> tuple[Tracer, list[Tracer | None]] | None:
    """
    The leaf with room for another shape, and the numbers that say how much of it is used; None
    where nothing changes.
    """
    if len(dims) != leaf.ndim or dims == leaf.dims:
        return None
    if sizes is None and not any(map(is_bound, (*dims, *leaf.dims))):
        return None
    room = room_for(leaf.dims, dims)
    if sizes is not None and room != leaf.dims:
        message = f"{name} grows in a loop of the program: there is no largest size."
        remedy = "Write into an array of the largest size that is made before the loop."
        raise located(NotSupportedError, message, remedy=remedy)
    differs = [a != b for a, b in zip(leaf.dims, dims, strict=True)]
    if sizes is not None and all(x is not None for x, d in zip(sizes, differs, strict=True) if d):
        return None
    known = sizes or [None] * leaf.ndim
    found = [
        x if x is not None or not d else lift_size(dim)
        for x, d, dim in zip(known, differs, leaf.dims, strict=True)
    ]
    return Tracer(here(), padded(leaf.value, room), weak=leaf.weak), found
