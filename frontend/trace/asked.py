"""
What Python asks of traced values that it cannot be told, and what to write instead: in the names of
the function that asks.
"""

from __future__ import annotations

import dis
import linecache
from collections.abc import Sequence
from types import FrameType, FunctionType
from typing import Any

from mlc.frontend.errors import ConcretizationError, NotSupportedError, located
from mlc.frontend.trace.kinds import class_of, is_dict, is_series
from mlc.frontend.trace.source import definition_of, name_of, user_frame
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.transform import gather

MAX_DEPTH = 20
"""Calls of one function inside each other, each in a branch on a traced value."""


def check_key(obj: Any, key: Tracer) -> None:
    """Refuses an item of a list or dict that only the compiled function could pick."""
    if not (is_series(obj) or is_dict(obj)):
        return
    if key.origins or key.from_constants() is not None:
        return
    held, picks = name_of(obj) or "xs", name_of(key) or "index"
    kind = class_of(obj).__name__
    remedy = f"Stack its arrays, which must be of one shape: np.stack({held})[{picks}]."
    if is_dict(obj):
        remedy = (
            f"Decide where it is called, with the key as static=…, or compare: if {picks} == …:"
        )
    raise located(
        ConcretizationError,
        f"an item of the {kind} {held} is picked by a number that exists only when the program"
        f" runs; expected one known when compiling, since the items of a {kind} are Python's.",
        remedy=remedy,
    )


def may_be_rows(obj: Any, key: Tracer) -> bool:
    """
    Whether an item of a list that the data pick is a row of its items. What a trip's number picks
    is an item of its own where the trips stand one after another.
    """
    from mlc.frontend.staging.counted import MixedError, layout_of

    bound, known = here().bound, here().bound.ranges.of(key.value)
    if not is_series(obj) or (known.symbols() and bound.are_of_trips(known.symbols())):
        return False
    try:
        layout_of(obj)
    except MixedError:
        return False
    return True


def check_depth(functions: Sequence[FunctionType], branches: int) -> None:
    """Refuses a recursion that nothing ends while it is traced."""
    if min(branches, functions.count(functions[-1])) <= MAX_DEPTH:
        return
    name = functions[-1].__name__
    raise located(
        NotSupportedError,
        f"{name} calls itself more than {MAX_DEPTH} times, each time in a branch that only the"
        " compiled function takes, so nothing ends it while it is compiled.",
        remedy=f"Write {name} with while: its arguments become the variables of the loop.",
        site=definition_of(functions[-1]),
    )


def truth_remedy(value: object) -> str:
    """What to write where a truth value is asked that only the compiled function knows."""
    frame = user_frame()
    if frame is not None and isinstance(value, Tracer) and not value.origins:
        gather(frame.f_code)
    if frame is not None and not linecache.getline(frame.f_code.co_filename, frame.f_lineno):
        return _without_source(frame)
    name = name_of(value) or "condition"
    return (
        f"Ask it in an `if` or `while` of a function whose source is known, use np.where({name}, a,"
        " b), or mark an argument that decides about the program as static=(…)."
    )


def _without_source(frame: FrameType) -> str:
    """The call that a loop or branch would be, with the names that it uses."""
    code = frame.f_code
    begin = (
        f"The source of {code.co_name} is not available, so it runs as it is. Define it in a file,"
        " or write "
    )
    steps = list(dis.get_instructions(code))
    loops = [
        step
        for step in steps
        if "JUMP" in step.opname
        and isinstance(step.argval, int)
        and step.argval <= frame.f_lasti < step.offset
    ]
    # where Python has copied the test to the end of the loop, that jumps back behind this one
    behind = [s for s in steps if "BACKWARD" in s.opname and s.offset > frame.f_lasti]
    if not loops and behind and behind[0].argval > frame.f_lasti:
        loops = [s for s in behind if s.argval - frame.f_lasti <= 24]
    inside = [
        step.argval
        for step in steps
        if step.opname == "STORE_FAST" and loops and frame.f_lasti < step.offset <= loops[-1].offset
    ]
    if loops:
        names = list(dict.fromkeys(inside)) or ["state"]
        state = ", ".join(names)
        begin += f"{state} = mlc.while_loop("
        if len(names) == 1:
            return f"{begin}lambda {state}: …, lambda {state}: …, {state})."
        return (
            f"{begin}test, body, ({state})), where test and body begin with {state} = their"
            f" argument, and body returns ({state})."
        )
    used = [name for name in code.co_varnames if name in frame.f_locals]
    state = ", ".join(used)
    return f"{begin}mlc.cond(…, lambda {state}: …, lambda {state}: …, {state})."
