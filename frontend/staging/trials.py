"""
What is tried before it is known how a loop will stand: a trip, or all of them as one loop. What is
not kept leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import CodeType
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.nests import NotANestError, held_in
from mlc.dialects.dims import product, shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.bind import BindOp, bound_in, symbols_in
from mlc.dialects.tensor.control import ForOp, WhileOp, YieldOp, discard
from mlc.dialects.tensor.create import ConstantOp, dense_array
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.staging.exits import Exit, exit_of
from mlc.frontend.staging.joins import Undecided
from mlc.frontend.staging.journal import Journal, journaled
from mlc.frontend.staging.variables import Local
from mlc.frontend.trace.trace import here

MANY = 32
"""Trips from which a loop whose trips Python could run one after another may stay one."""

FEW = 5
"""Likewise where slices may end at trips' numbers: else each size has ops of its own."""

MOST_OPS, MOST_OPS_INSIDE = 20_000, 1_000
"""Of such trips together, of a loop within a loop or branch of the program, if they are elementwise
from trip to trip: one kernel then holds them all. A program of 18,000 ops takes seconds to plan
(docs/measurements.md, First call)."""

MOST_OF_FEW = 2_000
"""Ops of the trips of a loop of few, by the first of them, from which it may be one of numbers."""

MOST_TRIPS = 2**30
"""For which Python's integers must stay within 64 bits in a loop of which Python knows the end."""

MOST_PEELED = 3
"""Types that have not settled after so many trips are a mistake."""

MOST_SHORT = 300
"""Likewise of all other trips, whose kernels are the same in each."""

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
        code = exit_of(body)
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
    for value, old in journal.values.values():
        trace.note_write(value, old)
    if trace.journals:
        for key, entry in journal.objects.items():
            trace.journals[-1].objects.setdefault(key, entry)
    for op in list(block.ops):
        op.detach()
        trace.scopes[-1].add_op(op)


class _Enough(BaseException):
    """There are more ops than was asked for."""


class _Short(Block):
    """Raises _Enough where it would hold more ops than these if its loops were their trips."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def add_op(self, operation: Operation) -> None:
        super().add_op(operation)
        self._left -= _unrolled(operation)
        if self._left < 0:
            raise _Enough


def is_longer(trip: Callable[[], Any], most: int, local: Sequence[Local]) -> bool:
    """Whether a trip is more ops than `most`; not where that cannot be said."""
    block = _Short(most)
    put_back = _saved(local)
    longer = False
    try:
        with journaled(block) as journal:
            trip()
        journal.undo()
    except _Enough:
        longer = True
    except FAULTS:
        pass  # as its trips say themselves
    finally:
        put_back()
    discard(block)
    return longer


class Added:
    """What trips add to the program from here on."""

    def __init__(self) -> None:
        self._block = here().scopes[-1]
        self._last = self._block.last_op

    def ops(self) -> int:
        """How many ops; 0 where that cannot be said."""
        if here().scopes[-1] is not self._block:
            return 0
        op = self._block.first_op if self._last is None else self._last.next_op
        total = 0
        while op is not None:
            total += sum(1 for _ in op.walk())
            op = op.next_op
        return total


def kept_loop(
    roll: Callable[[], Exit | None],
    before: int | None,
    local: Sequence[Local],
    read: Collection[str] = (),
) -> tuple[bool, Exit | None]:
    """
    One loop, and how it was left, where its trips one after another are too long, with the ops that
    stand there `before` it (None: they are few), or sizes of slices are their numbers; else all is
    as it was. `read`: variables that may be used after it, and must have a value. Raises Peel.
    """
    block = Block()
    put_back = _saved(local)
    try:
        with journaled(block) as journal:
            code = roll()
        lost = any(v.name in read and isinstance(v.get(), Undecided) for v in local)
        long = before is not None and _is_long(block, before) and _may_end(block)
        if not lost and (_is_sliced(block) or long):
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


def code_of(body: Callable[..., Any]) -> CodeType:
    """What a loop's body or test is compiled to, each time that the loop runs the same."""
    function: Any = body
    return function.__code__


def check_slices(loop: ForOp | WhileOp) -> None:
    """Raises NotSupportedError where sizes are numbers of trips, and the loop is no kernel."""
    bound = here().bound
    if bound.inside or not any(map(bound.is_symbol, bound_in(loop))):
        return
    try:
        held_in(loop)
    except NotANestError as error:
        message = f"a loop with slices whose sizes differ from trip to trip {error}."
        remedy = "Let the sizes be those of arrays, and choose elements by np.where(…)."
        raise located(NotSupportedError, message, remedy=remedy) from None


def _is_sliced(block: Block) -> bool:
    """Whether there are sizes that are numbers of trips."""
    inner = (x for op in block.ops for x in op.walk() if not isinstance(x, BindOp))
    return any(here().bound.is_symbol(symbol) for x in inner for symbol in symbols_in(x))


def _may_end(block: Block) -> bool:
    """Whether no test is the same in every trip: then Python decides on what no loop carries."""
    loops = (op for op in block.ops if isinstance(op, WhileOp))
    return not any(isinstance(loop.test.owner, ConstantOp) for loop in loops)


def _is_long(block: Block, before: int) -> bool:
    """Whether trips one after another would be too many ops."""
    ops = before + sum(map(_unrolled, block.ops))
    most = MOST_OPS if len(here().scopes) == 1 else MOST_OPS_INSIDE
    return ops > most or (ops > MOST_SHORT and not _is_elementwise(block))


def _unrolled(op: Operation) -> int:
    """How many ops one is if the loops in it, or it, were their trips."""
    trips = 1
    if isinstance(op, ForOp):
        counted = op.operands[0].owner
        trips = int(dense_array(counted.value)) if isinstance(counted, ConstantOp) else MANY
    elif isinstance(op, WhileOp):
        trips = MANY
    inner = (x for region in op.regions for block in region.blocks for x in block.ops)
    return 1 + trips * sum(map(_unrolled, inner))


def _is_elementwise(block: Block) -> bool:
    """Whether what loops make of the trips before is elementwise, and they compute arrays."""
    changing = set[SSAValue]()
    arrays = False
    for op in (x for loop in block.ops if isinstance(loop, ForOp | WhileOp) for x in loop.walk()):
        if isinstance(op, ForOp | WhileOp):
            changing.update(x for inner in op.blocks for x in op.carried_in(inner))
        arrays |= any(product(shape_of(x.type)).constant != 1 for x in op.results)
        if changing.isdisjoint(op.operands):
            continue
        of_one = isinstance(op, BroadcastOp) and not shape_of(op.operands[0].type)
        if not (isinstance(op, Elementwise | ForOp | YieldOp) or of_one):
            return False
        changing.update(op.results)
    return arrays
