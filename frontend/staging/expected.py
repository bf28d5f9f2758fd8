"""
What a loop's body is expected to change, from how it was traced before: in a loop around it that is
traced again. Each loop in a loop would be traced twice as often as the one around it otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import Block, SSAValue

from mlc.frontend.staging.carried import Carried
from mlc.frontend.staging.joins import UNBOUND, Held, Undecided
from mlc.frontend.staging.options import is_number_or_array
from mlc.frontend.staging.stepped import Counting
from mlc.frontend.staging.variables import Elements, Local, Variable
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.value import Value


def expected(
    changed: Sequence[Carried],
    local: Sequence[Local],
    alone: set[str],
    counting: Counting | None = None,
) -> list[Carried]:
    """
    What a body may change: numbers in any case, again what changed before, and arrays whose sizes
    have.
    """
    found = [Carried.of(v) for v in local if is_number(v.get())]
    now = {id(v.cell): v for v in local}
    for before in changed:
        match variable := now.get(key_of(before.variable), before.variable):
            case Local() if id(variable.cell) in now:
                value = variable.get()
                unclear = isinstance(value, Tracer) and value.may_be_written()
                if value is UNBOUND:
                    again = not before.seen and _is_fixed(before)
                    found += [Carried.unseen(variable, before.start)] if again else []
                elif not (isinstance(value, Undecided) or unclear or is_number(value)):
                    found.append(Carried.of(variable, variable.name in alone))
            case Elements(array=array) if is_visible(array):
                found.append(Carried.of(variable))
            case _:
                pass
    kinds = {key_of(c.variable): c for c in changed}
    known = ((c, kinds.get(key_of(c.variable))) for c in found)
    asked = [c if before is None else c.asked(before) for c, before in known]
    return asked if counting is None else _stepping(asked, local, alone, counting)


def _stepping(
    carried: Sequence[Carried], local: Sequence[Local], alone: set[str], counting: Counting
) -> list[Carried]:
    """With room for sizes that change as they did in the trip before the loop."""
    made: dict[int, Carried] = {}
    for variable in local:
        value = variable.get()
        found = counting.hoped(variable, value) if isinstance(value, Tracer) else None
        if found is not None:
            leaf, steps = found
            started = Carried.of(variable, variable.name in alone)
            made[key_of(variable)] = replace(started, leaves=[leaf], steps={0: steps})
    return [*(c for c in carried if key_of(c.variable) not in made), *made.values()]


def unchanged(
    hoped: set[int], carried: Sequence[Carried], ends: Sequence[Held], block: Block
) -> set[int]:
    """Which of what was expected to change has not."""
    arguments = set[SSAValue](block.args)
    return {
        key
        for c, end in zip(carried, ends, strict=True)
        if (key := key_of(c.variable)) in hoped
        and c.seen
        and all(
            x in arguments for x, leaf in zip(end.values, c.leaves, strict=True) if leaf is not None
        )
    }


def _is_fixed(carried: Carried) -> bool:
    """Whether its sizes are numbers."""
    arrays = (x for x in carried.leaves if x is not None)
    return all(dim.constant is not None for x in arrays for dim in x.dims)


def key_of(variable: Variable) -> int:
    """The same for what is one variable: arrays themselves compare element by element."""
    match variable:
        case Local():
            return id(variable.cell)
        case Elements():
            return id(variable.array)
        case _:
            return id(variable)


def is_visible(array: Value) -> bool:
    """Whether an array is there outside of what is traced."""
    return array.from_outside() is not None or here().visible(array.known)


def is_number(value: Any) -> bool:
    """Whether it is a number, of Python's or the program's."""
    if not is_number_or_array(value):
        return False
    return not (isinstance(value, Tracer) and value.is_place) and not getattr(value, "shape", ())
