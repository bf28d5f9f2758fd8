"""
What is tried before it is known how a loop will stand: a trip, or all of them as one loop. What is
not kept leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from xdsl.ir import Block

from mlc.dialects.dims import product, shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.control import ForOp, WhileOp, YieldOp, discard
from mlc.dialects.tensor.create import ConstantOp, dense_array
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.frontend.staging.exits import Exit
from mlc.frontend.staging.journal import Journal, journaled
from mlc.frontend.staging.variables import Local
from mlc.frontend.trace.trace import here

MANY = 32
"""Trips from which a loop whose trips Python could run one after another may stay one."""

MOST_OPS, MOST_OPS_INSIDE = 20_000, 1_000
"""Of such trips together; of a loop within a loop or branch of the program. A program of 18,000 ops
takes seconds to plan (docs/measurements.md, First call)."""

MOST_SCALARS = 300
"""Likewise of trips that compute single numbers and elements, which are registers in a loop."""

FAULTS = (MlcError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Of a body that asks its number for what only a Python int has, or that fails in any case."""


def attempted(body: Callable[[], Exit | None], local: Sequence[Local]) -> tuple[bool, Any]:
    """
    Runs one trip. (True, how it was left), or (False, None) where only the compiled function knows
    how; then everything is as before.
    """
    block = Block()
    put_back = _saved(local)
    with journaled(block) as journal:
        code = body()
    if code is None or isinstance(code.code, int):
        _keep(block, journal)
        return True, code
    put_back()
    journal.undo()
    return False, None


def _saved(local: Sequence[Local]) -> Callable[[], None]:
    """What gives the variables the values again that they have now."""
    before = [variable.get() for variable in local]

    def put_back() -> None:
        for variable, value in zip(local, before, strict=True):
            variable.put(value)

    return put_back


def _keep(block: Block, journal: Journal) -> None:
    """What was tried is done."""
    trace = here()
    for op in list(block.ops):
        op.detach()
        trace.scopes[-1].add_op(op)
    for value, old in journal.values.values():
        trace.note_write(value, old)
    if trace.journals:
        for key, entry in journal.objects.items():
            trace.journals[-1].objects.setdefault(key, entry)


@contextmanager
def trying() -> Generator[None]:
    """What others can see, such as a line that is printed, must not happen meanwhile."""
    trace = here()
    trace.tried += 1
    try:
        yield
    finally:
        trace.tried -= 1


def ops_of(trip: Callable[[], Any], count: int, local: Sequence[Local]) -> int:
    """How many ops trips one after another are, by the first one; 0 where that cannot be said."""
    block = Block()
    put_back = _saved(local)
    try:
        with trying(), journaled(block) as journal:
            trip()
        journal.undo()
    except FAULTS:
        return 0  # as its trips say themselves
    finally:
        put_back()
    found = count * _unrolled(block)
    discard(block)
    return found


def kept_loop(
    roll: Callable[[], Exit | None], ops: int, local: Sequence[Local]
) -> tuple[bool, Exit | None]:
    """
    One loop, and how it was left, where trips one after another are too long; else everything
    is as before. Raises Peel.
    """
    block = Block()
    most = MOST_OPS if len(here().scopes) == 1 else MOST_OPS_INSIDE
    put_back = _saved(local)
    try:
        with trying(), journaled(block) as journal:
            code = roll()
        if ops > most or _is_scalar(block):
            _keep(block, journal)
            put_back = _saved(local)
            return True, code
        journal.undo()
    except FAULTS:
        pass
    finally:
        put_back()
    discard(block)
    return False, None


def _unrolled(block: Block) -> int:
    """How many ops a block would hold if its loops were their trips."""
    total = 0
    for op in block.ops:
        trips = 1
        if isinstance(op, ForOp):
            counted = op.operands[0].owner
            trips = int(dense_array(counted.value)) if isinstance(counted, ConstantOp) else MANY
        elif isinstance(op, WhileOp):
            trips = MANY
        total += 1 + trips * sum(_unrolled(x) for region in op.regions for x in region.blocks)
    return total


def _is_scalar(block: Block) -> bool:
    """Whether loops compute numbers and elements alone."""
    loops = [op for op in block.ops if isinstance(op, ForOp | WhileOp)]
    inner = (x for loop in loops for x in loop.walk() if not x.regions)
    return all(
        isinstance(op, DynamicUpdateOp | YieldOp)
        or all(product(shape_of(x.type)).constant == 1 for x in op.results)
        for op in inner
    )
