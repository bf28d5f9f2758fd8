"""Which kernels workers share, and for how many there is work: what passes and lowering ask."""

from __future__ import annotations

from mlc.dialects.analysis.access import Nest, nest_of, whole_of
from mlc.dialects.analysis.nests import HELD, loop_of, ops_in
from mlc.dialects.analysis.trips import UNKNOWN_TRIPS, trips_of
from mlc.dialects.dims import Dim, DimsAttr, highest, product, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.bind import at_most
from mlc.dialects.tensor.control import PARALLEL, ForOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.order import BLOCK_ELEMENTS
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.tiles import TilesOp, bounds_of, enclosing_tiles, is_phase
from mlc.dialects.tile.kernel import CallOp, called
from mlc.dialects.tile.words import grain_of

TEAM = "mlc.team"
"""Function attribute: one team runs the whole body, and waits where ops say so."""
DYNAMIC = "mlc.dynamic"
"""Attribute of a tile loop: workers take its trips, or chunks of them, one by one."""
LOADS = "mlc.loads"
"""Attribute of a tile loop whose kernels are tile programs: what `loads_of_tiles` says of it."""
WAIT = "mlc.wait"
"""Attribute of an op of such a function: workers wait before it, or before a condition is read."""


WAKING = 5
"""Shares of work that repay waking a worker that sleeps; one repays a worker that is awake."""


FEW_ROWS = 16
"""Rows from which workers share these; fewer are cut into blocks if they are long."""
LONG_ROW = 16 * BLOCK_ELEMENTS
"""Elements from which a row has blocks enough to be shared."""


def loads_of(kernel: KernelOp | CallOp) -> Dim:
    """For how many workers there is work enough: the points of the nest by the grain."""
    if isinstance(kernel, CallOp):
        program = called(kernel)
        return Dim.const(1) if program is None else at_most(kernel, program.loads)
    if not (grain := _grain(kernel)):
        return Dim.const(1)
    if kernel.is_nest:
        return at_most(kernel, dealt_trips(kernel)) // grain
    nest, whole = nest_of(kernel), whole_of(kernel)
    shape = shape_of(kernel.outs[0].type)
    if isinstance(whole, ScatterOp):
        shape = (*shape, *shape_of(whole.update.type))
    return at_most(kernel, product(nest.sizes if nest is not None else shape)) // grain


def dealt_trips(nest: KernelOp) -> Dim:
    """
    The trips of a nest's loop that may run at once: 1 where they must follow one another, or hold
    arrays, of which there is one for all workers.
    """
    loop = loop_of(nest.block)
    if not isinstance(loop, ForOp) or PARALLEL not in loop.attributes:
        return Dim.const(1)
    if any(HELD in op.attributes for op in ops_in(nest.block)):
        return Dim.const(1)
    return trips_of(loop) or Dim.const(UNKNOWN_TRIPS)


def _grain(kernel: KernelOp) -> int:
    """The points of the nest for each worker; 0 where its words share nothing."""
    if kernel.schedule is None:
        return 1
    schedule = kernel.schedule.data
    return schedule.shared if schedule.cuts else max(schedule.grain, 1)


def shares_columns(nest: Nest) -> bool:
    """Whether a reduction has few long rows, of which workers take blocks: by sizes alone (D1)."""
    rows, columns = (
        product(x).constant for x in (nest.sizes[: nest.rank], nest.sizes[nest.rank :])
    )
    if nest.reduction is None or nest.order != "any" or rows is None or columns is None:
        return False
    return 1 < rows < FEW_ROWS and columns >= LONG_ROW


def is_dealt(kernel: KernelOp | CallOp) -> bool:
    """Whether a kernel is a function of (worker, workers); others run on one worker."""
    if isinstance(kernel, KernelOp):
        whole = whole_of(kernel)
        if is_phase(kernel) or (isinstance(whole, LibraryOp) and whole.length is None):
            return False
    loads = loads_of(kernel).constant
    return loads is None or loads > 1


def loads_of_tiles(op: TilesOp) -> Dim:
    """As `loads_of`, of all phases of a tile loop."""
    known = op.attributes.get(LOADS)
    if isinstance(known, DimsAttr):
        return known.data[0]
    total = Dim.const(0)
    for kernel in op.walk():
        if not isinstance(kernel, KernelOp):
            continue
        bounds, nest = bounds_of(kernel), nest_of(kernel)
        points = product(nest.sizes if nest else shape_of(kernel.outs[0].type))
        work = highest(points, bounds)
        for loop in enclosing_tiles(kernel):
            for extent, step in zip(loop.extents, loop.steps, strict=True):
                work = work * ((highest(extent, bounds) + (step - 1)) // step)
        words = kernel.schedule.data.cuts if kernel.schedule is not None else ()
        if grain := (grain_of(words) or 1) if words else _grain(kernel):
            total = total + work // grain
    return total
