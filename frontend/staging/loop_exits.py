"""How a loop of the program is left: a code and a value beside what its trips carry."""

from __future__ import annotations

from types import CellType
from typing import Any

from mlc.frontend.staging.branches import choice
from mlc.frontend.staging.exits import CONTINUES, ENDS, FALL, RETURNS, Exit
from mlc.frontend.staging.variables import Local
from mlc.lazy_dataclass import dataclass


@dataclass
class State:
    """What a staged loop with exits carries beside the user's variables."""

    code: Local
    value: Local

    @staticmethod
    def fresh() -> State:
        """Not left yet."""
        return State(Local("", CellType(FALL)), Local("what is returned", CellType()))

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
