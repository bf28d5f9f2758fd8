"""What a loop hands on: what its last trip left, what was before it, or that nothing was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from xdsl.ir import SSAValue

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.staging.joins import Held, Misfit, Undecided, equal_values
from mlc.frontend.staging.options import or_unset
from mlc.frontend.staging.rolled import Rolled
from mlc.frontend.staging.variables import Elements, Variable
from mlc.frontend.staging.wholes import after_trips
from mlc.frontend.trace.containers import unflatten
from mlc.frontend.trace.source import user_site
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Whole


def put_results(
    rolled: Rolled, results: Sequence[SSAValue], none: Callable[[], Tracer] | None
) -> None:
    """
    The variables hold what the loop's last trip gave. `none`: whether there was no trip; None where
    there surely was one.
    """
    rest = zip(results, rolled.arguments, rolled.yielded, strict=True)
    shared: list[tuple[Tracer, Tracer]] = []  # what may be one array
    begun: list[tuple[Callable[[], None], list[Any], int, Any]] = []  # what numbers were before
    for c, end in zip(rolled.carried, rolled.ends, strict=True):
        base = c.start if c.seen else end
        made: list[Any] = []
        changed = not c.seen
        for k, leaf in enumerate(c.leaves):
            kept, last = base.leaves[k], end.leaves[k]
            if leaf is None:
                made.append(kept)
                continue
            if k in c.steps:
                changed, (value, _, _) = True, next(rest)
                assert rolled.counting is not None
                assert rolled.counting.trips is not None
                part = c.steps[k].result(value, rolled.counting.trips)
                made.append(Tracer(here(), part, weak=leaf.weak))
                continue
            if k in c.sizes:
                changed = True
                made.append(Tracer(here(), c.taken(k, (x for x, _, _ in rest)), weak=leaf.weak))
                continue
            value, argument, yielded = next(rest)
            whole = next(rest)[0] if k in c.wholes else None
            if c.seen and (yielded is argument or _is_kept(kept, last)):
                made.append(kept)
                continue
            changed = True
            made.append(Tracer(here(), value, weak=leaf.weak))
            if whole is not None:
                made[-1].whole = Whole(whole, c.wholes[k][1])
            if c.converts(k):
                put = partial(_put, c.variable, base, made)
                begun.append((put, made, k, kept))
            if not isinstance(c.variable, Elements):  # after no trip, or after the last one
                shared += [(made[-1], x) for x in (kept, last) if isinstance(x, Tracer)]
        if changed:
            _put(c.variable, base, made)
    for one, other in shared:
        if here().visible(other.known):
            one.share(other)
        if other.is_another:
            one.show(other)
    for widening in rolled.lists:
        widening.settle()
    unset = [c.variable for c in rolled.carried if c.may_be_unset]
    if (begun or unset) and none is not None:
        without = none()
        for put, made, k, start in begun:
            made[k] = after_trips(start, made[k], without)
            put()
        for variable in unset:
            variable.put(_or_unset(variable, without))


def _put(variable: Variable, held: Held, leaves: Sequence[Any]) -> None:
    variable.put(unflatten(held.structure, leaves))


def _or_unset(variable: Variable, none: Tracer) -> Any:
    """What the last trip left in a variable that has no value before the first."""
    found = or_unset(variable.name, Held.of(variable.get()), none)
    if found is not None:
        return found
    text = "has a value only where the loop before has run a trip."
    misfit = Misfit(NotSupportedError, text, f"Give {variable.name} a value before the loop.")
    return Undecided(variable.name, misfit, user_site())


def _is_kept(start: Any, end: Any) -> bool:
    return (
        not isinstance(start, Tracer) and not isinstance(end, Tracer) and equal_values(start, end)
    )
