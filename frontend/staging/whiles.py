"""`while`: Python's loop as long as Python decides, then one loop in the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any

from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.tensor.control import WhileOp, YieldOp
from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.branches import choice, deciding, staged_branch, unless_raised
from mlc.frontend.staging.exits import (
    BREAKS,
    ENDED,
    FALL,
    Exit,
    exit_of,
)
from mlc.frontend.staging.handed_on import put_results
from mlc.frontend.staging.journal import journaled
from mlc.frontend.staging.loop_exits import (
    State,
    behind,
    finished,
    goes_on,
    rest_of_loop,
    unleft,
)
from mlc.frontend.staging.magnitudes import MOST_TRIPS
from mlc.frontend.staging.rolled import Peel, Rolled, enter
from mlc.frontend.staging.trials import (
    MANY,
    MOST_OPS,
    MOST_PEELED,
    MOST_SHORT,
    SHORT,
    TYPES,
    Added,
    attempted,
    check_slices,
    code_of,
    decision,
    has_changed,
    kept_loop,
    said,
)
from mlc.frontend.staging.tried import at_end, one_trip, tried_body
from mlc.frontend.staging.truth import truth
from mlc.frontend.staging.unrolled import unsettled
from mlc.frontend.staging.untouched import NoTrip, rolled_while
from mlc.frontend.staging.variables import Body, Local, traced
from mlc.frontend.trace.effects import effects_of
from mlc.frontend.trace.trace import here
from mlc.lazy_dataclass import dataclass


class _Changes(Exception):  # noqa: N818 - it never reaches a user
    """A loop's test changes something: it must stand in the body."""


def _asked(
    block: Block, rolled: Rolled, variables: Sequence[Local], test: Callable[[], Any]
) -> SSAValue:
    """What a test gives in its block. Raises _Changes where it changes something."""
    enter(rolled.carried, block.args)
    before = [variable.get() for variable in variables]
    with journaled(block) as journal:
        value = test()
    if has_changed(variables, before, journal):
        journal.undo()
        raise _Changes
    return lift(value).value


def staged(
    local: list[Local],
    body: Callable[[], Exit | None],
    test: Callable[[], Any] | None,
    leaving: bool,
    runs: bool,
    trips: Any = None,
    none: NoTrip | None = None,
) -> tuple[Rolled, State | None, frozenset[int]]:
    """
    `mlc.while` over a body, in the program; what it left is in the variables. `none`: whether there
    was no trip.
    """
    state = State.fresh() if leaving else None
    possible: frozenset[int] = frozenset({FALL})

    def trip(_: Sequence[SSAValue]) -> None:
        nonlocal possible
        with here().bound.loop(block := here().scopes[-1]):
            if (found := effects_of(here())) is not None and found.changes_in(block):
                found.clear()  # else there were no such trip
            code = exit_of(body)
        if state is not None:
            possible = state.note(code)

    variables: Sequence[Local] = [*local, *([state.code, state.value] if state else [])]
    rolled, variables, none = rolled_while(
        variables, trip, unleft, runs, trips, none, code_of(body)
    )
    block = Block(arg_types=[x.type for x in rolled.starts])

    def going() -> Any:
        found = effects_of(here())
        raised = found.raised() if found is not None and found.escapes else None
        if raised is None:
            return wanting()
        return choice("the test", raised, lambda: False, wanting)

    def wanting() -> Any:
        if state is None:
            assert test is not None
            return truth(test(), staying=False)
        runs: Any = state.code.get() == FALL
        if test is None:
            return runs
        wanted = test
        return choice("the test", runs, lambda: truth(wanted(), staying=False), lambda: False)

    held = traced(block, partial(_asked, block, rolled, variables, going), variables, lambda x: x)
    block.add_op(YieldOp.create(operands=[held.outcome]))
    rolled.body.block.add_op(YieldOp.create(operands=rolled.yielded))
    loop = WhileOp(rolled.starts, Region(block), Region(rolled.body.block))
    check_slices(loop)
    here().b.insert(loop)
    rolled.watch_integers()
    put_results(rolled, loop.outs, none)
    return rolled, state, possible


@dataclass(frozen=True)
class While:
    """while test(): body()"""

    test: Body
    body: Body
    otherwise: Body | None
    local: list[Local]
    leaving: bool
    read: tuple[str, ...] = ()  # names of variables that are read after it
    peeled: tuple[str, ...] = ()

    def run(self) -> Exit | None:
        """How it was left."""
        local, added, why = self.local, Added(), ""
        trial = here().trial
        if trial is not None and (decided := truth(self.test(), staying=False)) is not False:
            one_trip(self.body, self.body, MANY, local)
            trial.around |= decided is not True
            at_end(self.otherwise)
            return None
        trip, stays = -1, False
        while True:
            trip += 1
            decided, changes = decision(self.test, local)
            if not isinstance(decided, bool):
                return deciding(decided, partial(self._staged, local, changes=changes))
            if not decided:
                said(added, trip, why or f"{SHORT}, and Python decides its test")
                return self.otherwise() if self.otherwise else None
            if trip == 0 and not changes:
                stays = tried_body(self.body, local).stays(MANY, self.read)
            if not changes and (stays or self._may_be_long(trip)):
                kept, code, why = self._kept(MOST_OPS if stays else added.ops())
                if kept:
                    return code
                stays = stays and why.startswith(TYPES) and trip < MOST_PEELED
            if self.leaving:
                known, code = attempted(self.body, local)
                if not known:
                    return self._trip() if changes else self._staged(local)
            else:
                code = self.body()
            if not goes_on(code):
                said(added, trip + 1, why or SHORT)
                return behind(code)

    def _may_be_long(self, trip: int) -> bool:
        """Whether one loop may be better from this trip on: at once where it was so before."""
        known = code_of(self.body) in here().long_loops
        return (known and 0 < trip <= MOST_PEELED) or (trip >= MANY and trip & (trip - 1) == 0)

    def _kept(self, before: int) -> tuple[bool, Exit | None, str]:
        """The rest as one loop although Python decides, if its trips are long together."""
        known, code = here().long_loops, code_of(self.body)
        ops = MOST_OPS if code in known else before
        if ops <= MOST_SHORT:
            return False, None, SHORT
        try:
            found = kept_loop(lambda: self._staged(self.local, checked=True), ops, self.local)
            if found[0]:
                known.add(code)
            return found
        except Peel as peel:  # later trips may have other types
            return False, None, f"{TYPES}: {peel}"

    def _staged(
        self,
        local: list[Local],
        *,
        checked: bool = False,
        changes: bool = False,
    ) -> Exit | None:
        """
        `checked`: Python decides the test, and has its integers; `changes`: to ask changes
        something, such as a name that the body reads.
        """
        test: Body | None = self.test
        if self.leaving and _is_true(self.test):
            test = None
        try:
            rolled, state, possible = self._one_loop(local, test, changes)
        except Peel as peel:
            if checked:
                raise
            return self._after_first_trip(peel, test)
        except _Changes:
            return self._staged(local, checked=checked, changes=True)
        if checked:
            rolled.check_integers(MOST_TRIPS)
        alone = test is None or changes
        return finished(state, possible, alone, self.otherwise, self.local)

    def _one_loop(
        self, local: list[Local], test: Body | None, changes: bool
    ) -> tuple[Rolled, State | None, frozenset[int]]:
        if changes:
            return staged(local, self._tested(), None, True, True)
        return staged(local, self.body, test, self.leaving, test is None)

    def _tested(self) -> Body:
        """The test and a trip, as a trip of an endless loop."""

        @wraps(self.body)
        def tested() -> Exit | None:
            decided = truth(self.test(), staying=False)

            def trip() -> Exit | None:
                if isinstance(decided, bool):
                    return self.body() if decided else ENDED
                both = (self.body, lambda: ENDED)
                return staged_branch(decided, both, None, self.local, later=True)

            return unless_raised(trip, self.local)  # by the test

        return tested

    def _after_first_trip(self, peel: Peel, test: Body | None) -> Exit | None:
        chain = (*self.peeled, str(peel))
        if len(chain) > MOST_PEELED:
            raise unsettled(peel.name, chain)
        again = replace(self, peeled=chain)
        decided = True if test is None else truth(test(), staying=False)
        if decided is True:
            return again._trip()
        if decided is False:
            return self.otherwise() if self.otherwise else None
        both = (again._trip, self.otherwise)
        return staged_branch(decided, both, None, self.local, later=False, apart=True)

    def _trip(self) -> Exit | None:
        """A trip whose test is true, and the loop after it."""
        code = self.body()
        if code is not None and code.only == BREAKS:
            return None
        return self.after(None if goes_on(code) else code)

    def after(self, code: Exit | None) -> Exit | None:
        """The loop after a trip that was left so; `break` leaves it."""
        return rest_of_loop(code, self.run, self.local)


def at_each_trip(test: Body) -> Body:
    """A loop's test, which says of sizes what it says in each trip, and not in all of them."""

    @wraps(test)
    def asked() -> Any:
        trace = here()
        before, trace.ints.asks_sizes = trace.ints.asks_sizes, True
        try:
            return test()
        finally:
            trace.ints.asks_sizes = before

    return asked


def _is_true(test: Body) -> bool:
    """Whether the test is a constant: `while True`."""
    return not code_of(test).co_names and not code_of(test).co_freevars
