"""
What is tried before it is known how a loop will stand: a trip, or all of them as one loop. What is
not kept leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from inspect import unwrap
from types import CodeType
from typing import Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.nests import NotANestError, held_in
from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.bind import BindOp, bound_in, symbols_in
from mlc.dialects.tensor.calls import FunctionUse, PullBackOp, PushForwardOp
from mlc.dialects.tensor.control import ForOp, WhileOp, YieldOp, discard
from mlc.dialects.tensor.create import ConstantOp, dense_array
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import BroadcastOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.staging.exits import Exit, exit_of
from mlc.frontend.staging.joins import Undecided
from mlc.frontend.staging.journal import Journal, journaled
from mlc.frontend.staging.truth import truth
from mlc.frontend.staging.unrolled import reason_of, unrolled
from mlc.frontend.staging.variables import Local
from mlc.frontend.trace.trace import here

ONE = Dim.const(1)

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

MOST_STORED, MOST_OF_LEAST = 64, 300
"""Of the trips of a loop of few around or in other loops: ops on arrays that are no elements, each
about a kernel of its own, for which compiling takes some 30 ms; and ops, where the trips are fewer
than `FEW`."""

MOST_KERNELS = 16
"""Of trips whose arrays are not elementwise of those before: ops on arrays, each about a kernel of
its own, from which they are one loop (docs/measurements.md, Loops of few trips)."""

MOST_PEELED = 3
"""Types that have not settled after so many trips are a mistake."""

MOST_SHORT = 300
"""Likewise of all other trips, whose kernels are the same in each."""

SHORT = (
    f"they are too few, or too short (one loop from {FEW} trips of more than {MOST_KERNELS} ops)"
)
TYPES = "types change"
"""Why the rest of a loop is not one yet."""

_TIMES: dict[type[FunctionUse], int] = {PullBackOp: 3, PushForwardOp: 2}
"""How many ops a derivative is for one of its function: each op, its partials, and their products
with what goes back; forward one of both."""

PYTHONS = "it goes over Python values, which have no place in a program by their number"
"""Why a loop is not tried as one."""

FAULTS = (MlcError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Of a body that asks its number for what only a Python int has, or that fails in any case."""


def is_known(code: Exit | None) -> bool:
    """Whether Python knows how statements were left."""
    return code is None or isinstance(code.code, int)


def attempted(
    body: Callable[[], Exit | None],
    local: Sequence[Local],
    fits: Callable[[Exit | None], bool] = is_known,
) -> tuple[bool, Any]:
    """
    Runs one trip. (True, how it was left), or (False, None) where that does not fit; then
    everything is as before.
    """
    block = Block()
    put_back = saved(local)
    with here().draws.once(here().scopes[-1], block), journaled(block) as journal:
        code = exit_of(body)
    if fits(code):
        keep(block, journal)
        return True, code
    put_back()
    journal.undo()
    return False, None


def decision(test: Callable[[], Any], local: Sequence[Local]) -> tuple[Any, bool]:
    """
    Whether a loop goes on: what Python knows, or a value of which nothing stays, in the program or
    of what to ask changes: the loop asks itself. And whether to ask changes something.
    """
    put_back, block = saved(local), Block()
    before = [variable.get() for variable in local]
    with journaled(block) as journal:
        found = truth(test(), staying=False)
    changes = has_changed(local, before, journal)
    if isinstance(found, bool):
        keep(block, journal)
    else:
        put_back()
        journal.undo()
        discard(block)
    return found, changes


def has_changed(local: Sequence[Local], before: Sequence[Any], journal: Journal) -> bool:
    """Whether variables are others than before, or what was written down says more."""
    kept = all(x is variable.get() for x, variable in zip(before, local, strict=True))
    return not kept or bool(journal.values or journal.objects)


def saved(local: Sequence[Local]) -> Callable[[], None]:
    """What gives the variables the values again that they have now; what is said since is not."""
    before = [variable.get() for variable in local]
    said, trace = dict(here().unrolled), here()
    put_draws_back = trace.draws.saved()

    def put_back() -> None:
        trace.unrolled = said
        put_draws_back()
        for variable, value in zip(local, before, strict=True):
            variable.put(value)

    return put_back


def keep(block: Block, journal: Journal) -> None:
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


class Added:
    """What trips add to the program from here on."""

    def __init__(self) -> None:
        self._block = here().scopes[-1]
        self._last = self._block.last_op
        self._unrolled = here().loops_unrolled

    def some(self) -> bool:
        """Whether they add anything."""
        return here().scopes[-1] is self._block and self._block.last_op is not self._last

    def ops(self) -> int:
        """How many ops; 0 where that cannot be said."""
        return sum(1 for op in self._ops() for _ in written_out(op))

    def _ops(self) -> Iterator[Operation]:
        if here().scopes[-1] is not self._block:
            return
        op = self._block.first_op if self._last is None else self._last.next_op
        while op is not None:
            yield op
            op = op.next_op

    def are_many(self, trips: int) -> tuple[bool, bool]:
        """
        Whether so many trips of these ops may rather be a loop, and whether it is one although they
        are short: each computes arrays, in loops one in the other.
        """
        ops = trips * self.ops()
        if trips >= FEW and ops > MOST_OF_FEW:
            return True, False
        if trips >= FEW and any(in_trips(op) > MOST_OPS for op in self._ops()):
            return True, True  # what takes the time is the same code in each trip
        if len(here().scopes) == 1 and here().loops_unrolled == self._unrolled:
            return False, False
        stored = trips * sum(computes_array(x) for op in self._ops() for x in written_out(op))
        dear = stored > MOST_STORED and (trips >= FEW or ops > MOST_OF_LEAST)
        return dear, dear


def written_out(op: Operation) -> Iterator[Operation]:
    """
    An op and those in it, those of the functions that they name as often as what is made of them
    goes over them.
    """
    for inner in op.walk():
        yield inner
        if isinstance(inner, FunctionUse):
            for _ in range(_TIMES.get(type(inner), 1)):
                for named in here().block_of(inner).ops:
                    yield from written_out(named)


def computes_array(op: Operation) -> bool:
    """Whether an op computes more than an element; what only takes parts of arrays does not."""
    if not isinstance(op, TensorOp) or op.MOVES:
        return False
    return product(shape_of(op.results[0].type)) != ONE


def said(added: Added, trips: int, why: str) -> None:
    """Says why trips stand one after another, if they added anything to the program."""
    if trips > 1 and added.some():
        here().loops_unrolled += 1
        unrolled(trips, why)


def kept_loop(
    roll: Callable[[], Exit | None],
    before: int | None,
    local: Sequence[Local],
    read: Collection[str] = (),
) -> tuple[bool, Exit | None, str]:
    """
    One loop, and how it was left, where its trips one after another are too long, with the ops that
    stand there `before` it (None: they are few), or sizes of slices are their numbers; else all is
    as it was, and why. `read`: variables that may be used after it, and must have a value. Raises
    Peel.
    """
    block = Block()
    put_back = saved(local)
    try:
        with here().draws.once(here().scopes[-1], block), journaled(block) as journal:
            code = roll()
        lost = [v.name for v in local if v.name in read and isinstance(v.get(), Undecided)]
        long = before is not None and _is_long(block, before)
        if not lost and (_is_sliced(block) or (long and _may_end(block))):
            keep(block, journal)
            put_back = saved(local)
            return True, code, ""
        why = f"{lost[0]} of the last trip is used after it" if lost else _ends_or_short(long)
        journal.undo()
    except FAULTS as error:
        why = reason_of(error)
    finally:
        put_back()
    discard(block)
    return False, None, why


def _ends_or_short(long: bool) -> str:
    if long:
        return "Python decides its test on what no loop carries"
    return "they are so few ops together, or elementwise, that one loop would gain nothing"


def code_of(body: Callable[..., Any]) -> CodeType:
    """What a loop's body or test is compiled to, each time that the loop runs the same."""
    function: Any = unwrap(body)
    return function.__code__


def has_loop(block: Block, before: Operation | None) -> bool:
    """Whether a loop stands behind an op of a block."""
    op = block.last_op
    while op is not before and op is not None:
        if isinstance(op, ForOp | WhileOp):
            return True
        op = op.prev_op
    return False


def check_slices(loop: ForOp | WhileOp) -> None:
    """
    For a GPU: raises NotSupportedError where sizes are numbers of trips and the loop is no kernel,
    so that its trips, whose sizes are known, stand one after another.
    """
    bound = here().bound
    if not here().on_gpu or bound.inside or not any(map(bound.is_symbol, bound_in(loop))):
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
    ops = before + sum(map(in_trips, block.ops))
    most = MOST_OPS if len(here().scopes) == 1 else MOST_OPS_INSIDE
    return ops > most or (ops > MOST_SHORT and not _is_elementwise(block))


def in_trips(op: Operation, counts: Callable[[Operation], bool] = lambda _: True) -> int:
    """How many ops that count one is if the loops in it, or it, were their trips."""
    itself, trips = int(counts(op)), 1
    if isinstance(op, ForOp):
        counted = op.operands[0].owner
        trips = int(dense_array(counted.value)) if isinstance(counted, ConstantOp) else MANY
    elif isinstance(op, WhileOp):
        trips = MANY
    elif isinstance(op, FunctionUse):
        named = here().block_of(op).ops
        return itself + _TIMES.get(type(op), 1) * sum(in_trips(x, counts) for x in named)
    inner = (x for region in op.regions for block in region.blocks for x in block.ops)
    return itself + trips * sum(in_trips(x, counts) for x in inner)


def _is_elementwise(block: Block) -> bool:
    """
    Whether what loops make of the trips before is elementwise, and they compute arrays; and no trip
    computes something of its own that is not, such as a sort, which would be a kernel each.
    """
    changing, own = set[SSAValue](), set[SSAValue]()
    arrays = False
    for op in (x for loop in block.ops if isinstance(loop, ForOp | WhileOp) for x in loop.walk()):
        if isinstance(op, ForOp | WhileOp):
            changing.update(x for inner in op.blocks for x in op.carried_in(inner))
            own.update(x for inner in op.blocks for x in inner.args)
        arrays |= any(product(shape_of(x.type)).constant != 1 for x in op.results)
        varies = not own.isdisjoint(op.operands)
        own.update(op.results if varies else ())
        if changing.isdisjoint(op.operands):
            if varies and not (_moves(op) or _is_of_elements(op)):
                return False
            continue
        named = [x for x in written_out(op) if x is not op] if isinstance(op, FunctionUse) else [op]
        if not all(map(_is_of_elements, named)):
            return False
        changing.update(op.results)
    return arrays


def _moves(op: Operation) -> bool:
    return isinstance(op, TensorOp) and (op.MOVES or op.IS_FREE)


def _is_of_elements(op: Operation) -> bool:
    of_one = isinstance(op, BroadcastOp) and not shape_of(op.operands[0].type)
    return of_one or isinstance(op, Elementwise | ForOp | FunctionUse | YieldOp | ReturnOp)
