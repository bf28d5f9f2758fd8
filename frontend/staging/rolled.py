"""
A loop that stays a loop: what its trips carry, and the types that this has (python.md §2).

The body is traced with a value for everything that it is known to change. If it changes more, or
leaves other types than it got, it is traced again. Numbers that start with another type are
converted where that changes nothing in the first trip; else the first trip stands before the loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import CellType, CodeType
from typing import Any

from xdsl.ir import Attribute, Block, SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of
from mlc.dialects.dtypes import DType
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import discard
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.values import common_dtype, convert, lift
from mlc.frontend.numpy.whole_numbers import check_growing
from mlc.frontend.staging.alike import alike
from mlc.frontend.staging.carried import Carried, asking, take_unseen, without_asked
from mlc.frontend.staging.expected import expected, is_number, is_visible, key_of, unchanged
from mlc.frontend.staging.joins import (
    RAISED,
    UNBOUND,
    Held,
    Misfit,
    Undecided,
    contents_held,
    described,
    equal_values,
)
from mlc.frontend.staging.journal import contents_of, reachable
from mlc.frontend.staging.magnitudes import MOST_TRIPS, growing, stays_within
from mlc.frontend.staging.options import is_number_or_array, widened, zero_of
from mlc.frontend.staging.sized import more_room, padded
from mlc.frontend.staging.sometimes import before_trips
from mlc.frontend.staging.stepped import Counting
from mlc.frontend.staging.variables import Elements, Item, Local, Traced, traced
from mlc.frontend.staging.variants import Variants
from mlc.frontend.staging.wholes import is_class, is_pythons_int, kind_of
from mlc.frontend.staging.widening import Widening, confirmed, made_wide, widenings
from mlc.frontend.trace.containers import unflatten
from mlc.frontend.trace.integer_rules import USUAL
from mlc.frontend.trace.source import user_site
from mlc.frontend.trace.trace import here, lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Value
from mlc.lazy_dataclass import dataclass

MAX_ROUNDS = 8
"""Each round finds something that is carried, or a type: chains of more are mistakes."""


class Peel(Exception):  # noqa: N818 - it never reaches a user
    """The first trip has other types than the others: it must stand before the loop."""

    def __init__(self, name: str, before: str, after: str) -> None:
        super().__init__(f"{name} is {before} before the loop and {after} after its first trip")
        self.name = name
        self.before = before
        self.after = after


@dataclass
class Rolled:
    """A body that gives the types that it gets."""

    carried: list[Carried]
    body: Traced
    yielded: list[SSAValue]
    ends: list[Held]
    arguments: list[SSAValue]
    lists: Sequence[Widening] = ()
    counting: Counting | None = None

    @property
    def starts(self) -> list[SSAValue]:
        """The values of the first trip."""
        return [x.value for c in self.carried for x in c.arrays]

    @property
    def converts(self) -> bool:
        """Whether what it hands on after no trip has another type than before, or no value."""
        wide = any(c.converts(k) for c in self.carried for k in range(len(c.leaves)))
        return wide or any(c.may_be_unset for c in self.carried)

    def _integers(self) -> dict[int, Any]:
        """What numbers that are carried as Python's start as, by their places."""
        begun: dict[int, Any] = {}
        place = 0
        for c in self.carried:
            for k, leaf in enumerate(c.leaves):
                if is_pythons_int(leaf):
                    begun[place] = c.start.leaves[k] if c.seen else leaf
                place += c.width(k)
        return begun

    def watch_integers(self) -> None:
        """Lets the loop look at such numbers, where these may leave 64 bits in many trips."""
        begun = self._integers()
        known = {k: abs(x) if type(x) is int else USUAL for k, x in begun.items()}
        if begun and not stays_within(self.body.block, known, MOST_TRIPS, carried=True):
            check_growing(growing(self.body.block, begun))

    def check_integers(self, trips: int) -> None:
        """Raises where a number of Python's would leave 64 bits, in which the loop has it."""
        begun = {k: abs(x) for k, x in self._integers().items() if type(x) is int}
        if not stays_within(self.body.block, begun, trips):
            message = "an integer of Python's grows beyond 64 bits in a loop that stays one."
            raise located(NotSupportedError, message, remedy="Carry it as a float, or as np.int64.")


Trace = Callable[[Block], Any]


def roll(
    local: Sequence[Local],
    first: Sequence[Attribute],
    body: Callable[[Sequence[SSAValue]], Any],
    given: Callable[[Any], Any],
    trips: Any = None,
    whole: bool = False,
    *,
    code: CodeType,
    counting: Counting | None = None,
) -> Rolled:
    """
    A body traced until it gives the types that it gets. `code`: what it is compiled to; where it
    was rolled before, in a loop around it that is traced again, what it changed then is carried
    from the beginning: else each loop in a loop would be traced twice as often as the one around.

    `first`: types of the block's first arguments, which `body` gets. `given`: of its outcome.
    `trips`: how many there are at most, if that is known; `whole`: all of them are run. `counting`:
    of a loop whose first argument is the number of its trip. Raises Peel, MlcError.
    """
    lists: dict[int, Widening] = {}
    alone = {v.name for v in local if v.get() is not UNBOUND and references(v) <= ALONE}
    carried: list[Carried] = expected(here().changed_in.get(code, ()), local, alone, counting)
    hoped = {key_of(c.variable) for c in carried if not is_number(c.variable.get())}
    original: tuple[list[Carried], Traced, list[Any]] | None = None
    for _ in range(MAX_ROUNDS):
        types = [x.value.type for c in carried for x in c.arrays]
        block = Block(arg_types=[*first, *types])
        trip = traced(
            block, partial(_entered, body, block, carried, len(first), counting), local, given
        )
        if _lose_sizes(block, trip, local):
            original = None
            discard(block)
            continue
        if wide := widenings(trip, trips, whole=whole):
            carried, original = made_wide(carried, wide, lists), None
            discard(block)
            continue
        if found := _found(carried, trip, local, alone):
            carried, original = [*carried, *found], None
            if not take_unseen(block, found):
                carried = asking(carried, [_left(c, trip, local) for c in carried]) or carried
                continue
        ends = [_end(c, trip, local) for c in carried]
        if fitting := _fitting(carried, ends, counting) or asking(carried, ends):
            carried, original = fitting, None
            discard(block)
            continue
        wider, changed = _wider(carried, ends)
        if not changed:
            if original is not None:
                _check_first_trip(original, carried, trip, ends)
            if missed := unchanged(hoped, carried, ends, block):
                kept = [c for c in carried if key_of(c.variable) not in missed]
                carried, original, hoped = kept, None, set[int]()
                discard(block)
                continue
            here().changed_in[code] = carried
            carried = without_asked(block, len(first), carried, ends)
            arguments: list[SSAValue] = list(block.args[len(first) :])
            every = confirmed(lists.values(), carried, ends, arguments)
            given_on = _yielded(block, carried, ends, arguments)
            return Rolled(carried, trip, given_on, ends, arguments, every, counting)
        if original is None:
            original = carried, trip, _plain_values(carried, ends)
        carried = wider
    message = "a loop changes what it carries, or its types, at every trip."
    raise located(NotSupportedError, message)


def _check_first_trip(
    original: tuple[list[Carried], Traced, list[Any]],
    carried: list[Carried],
    trip: Traced,
    ends: list[Held],
) -> None:
    """Raises Peel where a trip that begins with other types does something else."""
    before, other, given = original
    if not alike(other.block, trip.block, (given, _plain_values(carried, ends))):
        pairs = zip(before, carried, strict=True)
        old, new = next((b, c) for b, c in pairs if _types(b) != _types(c))
        raise Peel(old.variable.name, _types(old), _types(new))


def _entered(
    body: Callable[[Sequence[SSAValue]], Any],
    block: Block,
    carried: list[Carried],
    first: int,
    counting: Counting | None,
) -> Any:
    with nullcontext() if counting is None else counting.loop(block):
        stepped = counting is not None and any(c.steps for c in carried)
        trip = counting.trip() if counting is not None and stepped else None
        enter(carried, block.args[first:], trip)
        return body(block.args[:first])


def enter(
    carried: Sequence[Carried], arguments: Sequence[SSAValue], trip: Dim | None = None
) -> None:
    """In a region: the variables hold its arguments."""
    rest = iter(arguments)
    for c in carried:
        c.enter([next(rest) for _ in c.arrays], trip)


def references(variable: Local) -> int:
    """How many references there are to what a variable holds."""
    return sys.getrefcount(variable.cell.cell_contents)


ALONE = references(Local("", CellType([])))
"""Of what nothing but the variable leads to."""


def _lose_sizes(block: Block, trip: Traced, local: Sequence[Local]) -> bool:
    """
    Variables that a trip leaves with a size that it computes, or with what depends on a branch, are
    its own: before and after it they are used by mistake. Whether some were not so yet.
    """
    bound = {op.symbol.data for op in block.walk() if isinstance(op, BindOp)}
    found = False
    for variable, end in zip(local, trip.locals, strict=True):
        if isinstance(end.value, Undecided) and not isinstance(variable.get(), Undecided):
            variable.put(end.value)
            found = True
            continue
        arrays = [x for x in end.leaves if isinstance(x, Tracer)]
        if arrays and isinstance(start := variable.get(), Tracer) and start.ndim == arrays[0].ndim:
            continue  # there may be room for both
        own = any(not bound.isdisjoint(dim.symbols()) for x in arrays for dim in x.dims)
        if own and not isinstance(variable.get(), Undecided):
            text = "has a size of its own after each trip, which the loop cannot hand on."
            remedy = "Reduce it in the loop, or write it into an array of the largest size."
            misfit = Misfit(NotSupportedError, text, remedy)
            variable.put(Undecided(variable.name, misfit, user_site()))
            found = True
    return found


def _found(
    carried: list[Carried],
    trip: Traced,
    local: Sequence[Local],
    alone: set[str],
) -> list[Carried]:
    """What the body has changed and that was not carried."""
    known = {key_of(c.variable) for c in carried}
    found: list[Carried] = []
    for variable, end in zip(local, trip.locals, strict=True):
        start = variable.get()
        if key_of(variable) in known or end.value is start or end.value is UNBOUND:
            continue
        unclear = isinstance(start, Tracer) and start.may_be_written()
        if unclear or isinstance(end.value, Undecided) or isinstance(start, Undecided):
            continue
        if start is not UNBOUND:
            started = Carried.of(variable, variable.name in alone)
            found.append(_checked(started, _with_options(started, end, trip)))
        elif (wide := widened(Held.of(start), end, variable.name)) is not None:
            found.append(Carried.started(variable, Held.of(wide)))
        else:
            found.append(Carried.unseen(variable, end))
    arrays = (x for x in trip.journal.arrays if id(x) not in known and is_visible(x))
    found += [Carried.of(Elements(_name_of(array), array)) for array in arrays]
    for obj, _ in trip.journal.objects.values():
        if not reachable(obj):
            continue  # the trip's own
        places = {
            c.variable.key
            for c in carried
            if isinstance(c.variable, Item) and c.variable.obj is obj
        }
        held = contents_held(contents_of(obj))
        ends = trip.objects[id(obj)]
        changed = [k for k in held if k in ends and not held[k].same(ends[k]) and k not in places]
        if not (changed or held.keys() != ends.keys()):
            continue
        kind = type(obj).__name__
        for k in (*changed, *_placed(obj, held, ends, trip)):
            started = Carried.of(Item(f"place {k!r} of the {kind}", obj, k))
            found.append(_checked(started, _with_options(started, ends[k], trip)))
    return found


def _placed(obj: Any, held: dict[Any, Held], ends: dict[Any, Held], trip: Traced) -> list[Any]:
    """The places that a trip sets and that were not there: now they are, but hold nothing."""
    new = [key for key in ends if key not in held]
    starts = {key: before_trips(obj, key, ends[key], trip.block) for key in new}
    if [*held, *new] != list(ends) or any(x is None for x in starts.values()):
        raise _grows(type(obj).__name__)
    for key, start in starts.items():
        Item("", obj, key).put(start)
    return new


def _grows(kind: str) -> MlcError:
    message = f"a {kind} gets other places in a loop that stays a loop."
    remedy = "Make an array of the right size before the loop, and write into it: out[i] = …"
    return located(NotSupportedError, message, remedy=remedy)


def _checked(carried: Carried, end: Held) -> Carried:
    """Peel where a trip leaves another kind of container than it gets."""
    raised = carried.start.value is RAISED
    if raised and (end.value is RAISED or end.value is UNBOUND):
        return carried
    if not carried.seen and (raised or carried.start.structure != end.structure):
        return Carried.unseen(carried.variable, end)
    wide = widened(carried.start, end, carried.variable.name)
    if wide is not None and carried.start.structure != end.structure:
        return Carried.started(carried.variable, Held.of(wide), carried.alone)
    if carried.start.structure != end.structure:
        name = carried.variable.name
        raise Peel(name, described(carried.start.value), described(end.value))
    for name, x, y in zip(
        carried.start.names(carried.variable.name),
        carried.start.leaves,
        end.leaves,
        strict=True,
    ):
        if is_number_or_array(x) != is_number_or_array(y):
            raise Peel(name, described(x), described(y))
        if not is_number_or_array(x) and not equal_values(x, y):
            raise Peel(name, described(x), described(y))
    return carried


def _name_of(array: Value) -> str:
    return array.hint or "an array"


def _left(carried: Carried, trip: Traced, local: Sequence[Local]) -> Held:
    match carried.variable:
        case Elements(array=array):
            return trip.arrays[id(array)]
        case Item(obj=obj, key=key):
            return trip.objects[id(obj)][key]
        case variable:
            return next(end for v, end in zip(local, trip.locals, strict=True) if v == variable)


def _end(carried: Carried, trip: Traced, local: Sequence[Local]) -> Held:
    return _with_options(carried, _left(carried, trip, local), trip)


def _with_options(carried: Carried, end: Held, trip: Traced) -> Held:
    """What a trip leaves, as one of the options that are carried; zeros where it raises."""
    if end.value is RAISED and carried.start.value is not RAISED:
        with here().inside(trip.block):
            zeros = [zero_of(x) for x in carried.start.leaves]
            return Held.of(unflatten(carried.start.structure, zeros))
    if isinstance(end.value, Variants) or not isinstance(carried.start.value, Variants):
        return end
    with here().inside(trip.block):
        wide = widened(end, carried.start, carried.variable.name)
        return end if wide is None else Held.of(wide)


# Types


def _wider(carried: list[Carried], ends: list[Held]) -> tuple[list[Carried], bool]:
    """The carry with the types that can last; whether they are others."""
    made: list[Carried] = []
    changed = False
    for c, end in zip(carried, ends, strict=True):
        names = (c.start if c.seen else end).names(c.variable.name)
        leaves: list[Tracer | None] = []
        for k, (name, leaf, last) in enumerate(zip(names, c.leaves, end.leaves, strict=True)):
            if leaf is None:
                leaves.append(None)
                continue
            new = _lasting(name, leaf, last, k in c.sizes or k in c.steps)
            changed = changed or new is not leaf
            leaves.append(new)
        made.append(replace(c, leaves=leaves))
    return made, changed


def _fitting(carried: list[Carried], ends: list[Held], counting: Counting | None) -> list[Carried]:
    """The carry with what trips leave: containers, room for sizes; none where it is so already."""
    made = [_checked(c, end) for c, end in zip(carried, ends, strict=True)]
    if any(x is not c for x, c in zip(made, carried, strict=True)):
        return made
    made.clear()
    changed = False
    for c, end in zip(carried, ends, strict=True):
        leaves, sizes, steps = list(c.leaves), dict(c.sizes), dict(c.steps)
        pairs = zip(c.leaves, end.leaves, strict=True) if len(leaves) == len(end.leaves) else ()
        for k, (leaf, last) in enumerate(pairs):
            if leaf is None or not c.seen or not isinstance(last, Tracer):
                continue
            if counting is not None and k not in sizes:
                if k in steps:
                    if (wanted := counting.after(steps[k])) != last.dims:
                        raise Peel(c.variable.name, spell(wanted), spell(last.dims))
                    continue
                if (stepped := counting.steps(leaf, last.dims)) is not None:
                    changed = True
                    leaves[k], steps[k] = stepped
                    continue
            if (found := more_room(c.variable.name, leaf, sizes.get(k), last.dims)) is not None:
                changed = True
                leaves[k], sizes[k] = found
        made.append(replace(c, leaves=leaves, sizes=sizes, steps=steps))
    return made if changed else []


def _lasting(name: str, start: Tracer, end: Any, sized: bool) -> Tracer:
    """The start with a type that a trip can give; raises Peel where none is safe."""
    dims, row, weak = _type_of(end)
    if dims != start.dims and not sized:
        raise Peel(name, spell(start.dims), spell(dims))
    both = start.weak and weak
    if row is start.row:
        return start if start.weak == both else Tracer(here(), start.value, weak=both)
    probe = end if isinstance(end, Tracer) else lift(end)
    dtype = common_dtype(name, (start, probe))
    if dtype is start.row and weak and kind_of(end, start.row) is not None:
        return start
    if start.weak and (dtype is row or weak):
        return Tracer(here(), convert(start.value, dtype), weak=both)
    raise Peel(name, str(start.row.numpy), str(row.numpy))


def _type_of(leaf: Any) -> tuple[Shape, DType, bool]:
    found = leaf if isinstance(leaf, Tracer) else lift(leaf)
    return found.dims, found.row, found.weak or isinstance(leaf, bool)


def _types(c: Carried) -> str:
    return ", ".join(
        f"{'Python ' if x.weak else ''}{x.row.numpy} {spell(x.dims)}" for x in c.arrays
    )


def _yielded(
    block: Block, carried: list[Carried], ends: list[Held], arguments: Sequence[SSAValue]
) -> list[SSAValue]:
    made: list[SSAValue] = []
    with here().inside(block):
        for c, end in zip(carried, ends, strict=True):
            for k, leaf in enumerate(c.leaves):
                if leaf is None:
                    continue
                value = end.values[k]
                value = convert(lift(end.leaves[k]).value if value is None else value, leaf.row)
                if k in c.steps:
                    value = c.steps[k].written(arguments[len(made)], value)
                sizes = c.sizes.get(k, ())
                dims = zip(shape_of(value.type), sizes, strict=False)
                made.append(padded(value, leaf.dims) if sizes else value)
                made += [lift_size(dim).value for dim, x in dims if x is not None]
                if k in c.wholes:
                    made.append(is_class(end.leaves[k], c.wholes[k][1]))
    return made


def _plain_values(carried: list[Carried], ends: list[Held]) -> list[Any]:
    """What the body gives, not converted: values, and Python's numbers."""
    return [
        value if value is not None else last
        for c, end in zip(carried, ends, strict=True)
        for leaf, last, value in zip(c.leaves, end.leaves, end.values, strict=True)
        if leaf is not None
    ]
