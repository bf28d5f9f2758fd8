"""How a loop of the program is left: a code and a value beside what its trips carry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CellType
from typing import Any

from mlc.frontend.staging.branches import choice, staged_branch
from mlc.frontend.staging.exits import BREAKS, CONTINUES, ENDS, FALL, RETURNS, Exit, HeldExit, after
from mlc.frontend.staging.variables import Body, Local
from mlc.lazy_dataclass import dataclass


@dataclass
class State:
    """What a staged loop with exits carries beside the user's variables."""

    code: Local
    value: Local

    @staticmethod
    def fresh() -> State:
        """Not left yet."""
        return State(Local("", CellType(FALL)), Local("what is returned", CellType(), True))

    def note(self, code: Exit | None) -> frozenset[int]:
        """How a trip was left; `continue` is its end."""
        if code is None:
            self.code.put(FALL)
            return frozenset({FALL})
        number: Any = code.code
        if CONTINUES in code.possible:
            if isinstance(number, int):
                number = FALL
            else:
                held = number
                number = choice("", held == CONTINUES, lambda: FALL, lambda: held)
        self.code.put(number)
        if RETURNS in code.possible:
            self.value.put(code.value)
        return frozenset(FALL if x == CONTINUES else x for x in code.possible)


def after_loop(
    state: State | None, possible: frozenset[int], endless: bool
) -> tuple[Exit | None, Any]:
    """How the loop was left, and whether its `else` runs (True, False or a traced bool)."""
    if state is None or possible == frozenset({FALL}):
        return None, True
    code: Any = state.code.get()
    ended: Any = (code == ENDS if ENDS in possible else False) if endless else code == FALL
    if RETURNS not in possible:
        return None, ended
    value: Any = state.value.get()
    falls = possible - {RETURNS, FALL} if endless else {FALL}
    if not falls:
        return Exit(RETURNS, frozenset({RETURNS}), value), False
    if not possible <= {FALL, RETURNS}:
        left: Any = code
        code = choice("", left == RETURNS, lambda: RETURNS, lambda: FALL)
    return Exit(code, frozenset({FALL, RETURNS}), value), ended


def unleft(_: Any) -> HeldExit:
    """Of a body whose state says how it was left."""
    return HeldExit.of(None)


def goes_on(code: Exit | None) -> bool:
    """Whether the loop goes on after a trip that was left so."""
    return code is None or code.only == CONTINUES


def behind(code: Exit | None) -> Exit | None:
    """How statements are left that end with a loop which is left so."""
    return None if code is None or code.only == BREAKS else code


def rest_of_loop(
    code: Exit | None, run: Callable[[], Exit | None], local: Sequence[Local]
) -> Exit | None:
    """The other trips, after one that was left so."""
    if code is None or goes_on(code):
        return run()
    if isinstance(code.code, int):
        return behind(code)
    state = State.fresh()
    possible = state.note(code)
    if possible == frozenset({FALL}):  # `continue` where the trip was left at all
        return run()
    number: Any = state.code.get()
    value = state.value.get()
    goes: Any = number == FALL

    def stopped() -> Exit | None:
        others = possible - {FALL}
        if others == frozenset({BREAKS}):
            return None
        if others == frozenset({RETURNS}):
            return Exit(RETURNS, others, value)
        mixed = choice("", number == RETURNS, lambda: RETURNS, lambda: FALL)
        return Exit(mixed, frozenset({FALL, RETURNS}), value)

    return staged_branch(goes, (run, stopped), None, local, later=False, apart=True)


def finished(
    state: State | None,
    possible: frozenset[int],
    endless: bool,
    otherwise: Body | None,
    local: Sequence[Local],
) -> Exit | None:
    """How a loop of the program was left, and its `else`."""
    code, ended = after_loop(state, possible, endless)
    if otherwise is None or ended is False:
        return code
    if ended is True:
        return otherwise()

    def ends() -> Exit | None:
        return staged_branch(ended, (otherwise, None), None, local, later=False)

    return ends() if code is None else after(code, ends, local)
