"""`for`: Python's loop as long as Python decides, then one loop in the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, wraps
from types import CellType
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, UnitAttr, i64
from xdsl.ir import Region, SSAValue

from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.control import CHECKED, INDEX, PARALLEL, PEELED, ForOp, YieldOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.branches import staged_branch, unless_raised
from mlc.frontend.staging.exits import (
    RAISES,
    Exit,
    exit_of,
)
from mlc.frontend.staging.handed_on import put_results
from mlc.frontend.staging.items import Items, items_of
from mlc.frontend.staging.loop_exits import (
    behind,
    finished,
    goes_on,
    rest_of_loop,
    unleft,
)
from mlc.frontend.staging.marks import inspected
from mlc.frontend.staging.rolled import Peel, roll
from mlc.frontend.staging.stepped import Change, Counting, TripSizes
from mlc.frontend.staging.trials import (
    FEW,
    MANY,
    MOST_OF_FEW,
    MOST_PEELED,
    MOST_SHORT,
    PYTHONS,
    SHORT,
    TYPES,
    Added,
    attempted,
    check_slices,
    code_of,
    has_loop,
    kept_loop,
    said,
)
from mlc.frontend.staging.tried import at_end, tried_trip, trip_among
from mlc.frontend.staging.unrolled import unsettled
from mlc.frontend.staging.untouched import no_trip
from mlc.frontend.staging.variables import Body, Local
from mlc.frontend.staging.walked import Listed, Unsteady, Walk, Walked, changed, listed
from mlc.frontend.staging.whiles import While, staged
from mlc.frontend.trace.draws import Trips
from mlc.frontend.trace.effects import effects
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

MOST_NESTED = 50  # trips of a list, each in a branch of the one before
MOST_EXACT = 2**12
"""Trips that rather stand one by one than that Python runs calls whose integers leave 64 bits."""


@dataclass(frozen=True)
class For:
    """for item in items: body(item)"""

    body: Body
    otherwise: Body | None
    local: list[Local]
    leaving: bool
    read: tuple[str, ...] = ()  # names of variables that are read after it
    sliced: bool = False  # variables begin or end slices
    peeled: tuple[str, ...] = ()

    def run(self, value: Any) -> Exit | None:
        """How it was left."""
        items = items_of(value)
        with here().walking(() if items is None else items.arrays):
            return self._run(value, items)

    def _run(self, value: Any, items: Items | None) -> Exit | None:
        local = self.local
        if items is not None and here().trial is not None:
            return self._tried_among(items)
        if items is not None and items.parallel:
            # an error that has come up before would go from trip to trip, which have no order
            return unless_raised(partial(self._parallel, items, local), local)
        if items is not None and not items.known:
            return self._counted(items, value) if items.series else self._traced(items, local)
        walk = Walk(value if items is None else items)
        tried, stays = (False, False) if items is None else self._is_long(items)
        few, dear = items is not None and 1 < items.count < MANY, False
        added, k, why = Added(), -1, PYTHONS if items is None else SHORT
        sizes = TripSizes(local)
        for k, item in enumerate(walk):
            if k == 1 and few and not stays and items is not None:
                many, dear = added.are_many(items.count)
                tried = tried or many
            tried = tried or bool(sizes.changes)
            if items is not None and tried and k <= MOST_PEELED:
                roll_rest = partial(self._rolled, items.after(k), local, sizes.changes)
                try:
                    least = MANY if self.sliced and not k else 0
                    before = MOST_SHORT if dear or stays else 0 if items.count >= least else None
                    outer = self.read if self.sliced else ()
                    kept, code, why = kept_loop(roll_rest, before, local, outer)
                except Peel as peel:  # the next trip may have the types of those behind it
                    why = f"{TYPES}: {peel}"
                else:
                    if kept:
                        here().long_loops.update((code_of(self.body),) * dear)
                        return code
                    tried = False  # what needs its number stands there once for each
                    sizes.look()
            if self.leaving:
                known, code = attempted(lambda item=item: self.body(item), local)
                if not known:
                    if items is not None:
                        return self._traced(items.after(k), local)
                    return self._nested(walk.rest(item))
            else:
                code = self.body(item)
            if not goes_on(code):
                said(added, k + 1, why)
                return behind(code)
            walk.check()
            sizes.after_trip()
        said(added, k + 1, why)
        if walk.listed is not None and walk.listed.is_open:
            return self._listed(walk.listed)
        return self.otherwise() if self.otherwise else None

    def _is_long(self, items: Items) -> tuple[bool, bool]:
        """Whether trips are so many, or so long, that one loop may be better; or surely is."""
        count = items.count
        if count > 1 and code_of(self.body) in here().long_loops:
            return True, True
        if count < 2 or (self.sliced and not FEW <= count < MANY):
            return count >= FEW, False
        most = (MOST_OF_FEW if FEW <= count < MANY else MOST_SHORT) // count
        trip = tried_trip(items, self.body, self.local, most)
        stays = trip.stays(count, self.read)
        return stays or (count >= FEW and (self.sliced or trip.ops > most)), stays

    def _tried_among(self, items: Items) -> None:
        """In a trial."""
        trip_among(items, self.body, self.local, self.read)
        here().trial.around |= self.sliced and (not items.known or items.count >= FEW)
        at_end(self.otherwise)

    def _counted(self, items: Items, value: Any) -> Exit | None:
        """Over lists whose length only the compiled function knows, and which trips may change."""
        held = [series[0] for series in items.series]

        def stays(_: Exit | None) -> bool:
            pairs = zip(items.series, held, strict=True)
            return all(len(series) == 1 and series[0] is x for series, x in pairs)

        try:
            stayed, code = attempted(lambda: self._traced(items, self.local), self.local, stays)
        except Unsteady:
            stayed, code = False, None
        if stayed:
            return code
        if self.peeled:  # the whole loop goes another way
            raise Unsteady
        if value is not items.series[0]:
            raise changed()
        return self._listed(listed(value))

    def _listed(self, items: Listed) -> Exit | None:
        """A list whose length only the compiled function knows, as it is in each trip."""
        place = Local("", CellType(items.first))

        @wraps(self.body)
        def trip() -> Exit | None:
            k = place.get()
            place.put(k + 1)
            return self.body(items.place(k))

        def test() -> Any:
            return items.after(place.get() - items.first).count > 0

        variables = [*self.local, place]
        return While(test, trip, self.otherwise, variables, self.leaving).run()

    def _nested(self, items: Items | Listed | Walked) -> Exit | None:
        """Trips that differ, each where the one before has not left the loop."""
        if isinstance(items, Listed) and items.is_open:
            return self._listed(items)
        if not items.count:
            return self.otherwise() if self.otherwise else None
        if items.count > MOST_NESTED:
            message = f"a loop over {items.count} Python values is left where only the compiled"
            remedy = "Go over an array, or a range, or stack the values: np.stack(values)."
            raise located(NotSupportedError, f"{message} function knows.", remedy=remedy)
        code = self.body(items.at(0))  # what trips before have written is seen
        if isinstance(items, Walked):
            items.check()
        return rest_of_loop(code, lambda: self._nested(items.after(1)), self.local)

    def _parallel(self, items: Items, local: list[Local]) -> Exit | None:
        """One loop in any case, which runs to its end."""
        if self.leaving:
            message = "a loop over mlc.prange is left by break or return; its trips have no order."
            raise located(NotSupportedError, message, remedy="Go over range(…).")
        if items.known and not items.count:
            return self.otherwise() if self.otherwise else None
        if not items.checked or here().marks is not None:
            with here().trips_at_once():
                return self._traced(items, local)
        meet, error = inspected(items, lambda trips: self._traced(trips, local), local)

        def run() -> Exit | None:
            with here().trips_at_once():
                return self._traced(items, local)

        if isinstance(meet, bool):
            return run()

        def fails() -> Exit:
            effects().fail(error)
            return RAISES

        return staged_branch(meet, (fails, None), run, local, later=False)

    def _traced(self, items: Items, local: list[Local]) -> Exit | None:
        """One loop over traced places; where these must be known, one trip after another."""
        block = here().scopes[-1]
        before = block.last_op
        try:
            return self._rolled(items, local)
        except Peel as peel:
            return self._after_first_trip(items, peel)
        except MlcError:
            if items.parallel or has_loop(block, before):
                raise  # what is behind the loop fails
            if items.known:
                return self._nested(items)
            with suppress(MlcError):
                iter(items)  # of a size: the program is for this size
            raise

    def _rolled(
        self, items: Items, local: list[Local], changes: Mapping[int, Change] | None = None
    ) -> Exit | None:
        """`changes`: of variables' sizes in the trip before."""
        trips = Trips(here().draws, here().scopes[-1], items.count if items.known else 0)
        if self.leaving:
            place = Local("", CellType(0))

            @wraps(self.body)
            def trip() -> Exit | None:
                with trips.trip(here().scopes[-1], place.get()):
                    code = self.body(items.at(place.get()))
                place.put(place.get() + 1)
                return code

            def test() -> Any:
                return place.get() < items.count

            variables = [*local, place]
            runs = items.known and items.count > 0
            none = no_trip(place.get)
            _, state, possible = staged(variables, trip, test, True, runs, items.count, none)
            trips.end(left=True)
            return finished(state, possible, False, self.otherwise, self.local)
        count, runs = lift(items.count).value, items.known and items.count > 0

        def step(arguments: Sequence[SSAValue]) -> None:
            index = arguments[0]
            index.name_hint = "i"
            block, number = here().scopes[-1], Tracer(here(), index, weak=True)
            with trips.trip(block, number):
                item = items.at(number)
                self.body(item) if runs else exit_of(partial(self.body, item))

        code = code_of(self.body)
        counting = Counting(count, self.sliced, not items.parallel, changes or {})
        rolled = roll(local, [INDEX], step, unleft, items.count, True, code=code, counting=counting)
        rolled.body.block.add_op(YieldOp.create(operands=rolled.yielded))
        if items.known and items.count <= MOST_EXACT and not items.parallel:
            rolled.check_integers(items.count)
        elif not items.parallel:
            rolled.watch_integers()
        loop = ForOp(count, rolled.starts, Region(rolled.body.block))
        if items.parallel:
            loop.attributes[PARALLEL] = UnitAttr()
            if items.checked:
                loop.attributes[CHECKED] = UnitAttr()
            if self.peeled:
                loop.attributes[PEELED] = IntegerAttr(len(self.peeled), i64)
        check_slices(loop)
        here().b.insert(loop)
        put_results(rolled, loop.outs, None if runs else no_trip(lambda: items.count))
        trips.end()
        return self.otherwise() if self.otherwise else None

    def _after_first_trip(self, items: Items, peel: Peel) -> Exit | None:
        chain = (*self.peeled, str(peel))
        if len(chain) > MOST_PEELED:
            raise unsettled(peel.name, chain)
        again = replace(self, peeled=chain)

        def trip() -> Exit | None:
            code = self.body(items.at(0))
            return rest_of_loop(code, lambda: again.run(items.after(1)), self.local)

        if items.known:
            return trip() if items.count else None
        some: Any = items.count > 0
        return staged_branch(
            some, (trip, self.otherwise), None, self.local, later=False, apart=True
        )
