"""Programs that somebody has broken, and what the model says of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from mlc.runtime.tiles.memory import TileError
from mlc.text import parse_text
from tests.gpu_model.clocks import ModelError
from tests.gpu_model.machine import Model

NUMBERS = "wrong numbers"
ORDERS = 4  # in which the warps run: a fault need not show in each
WAIT, ARRIVE = r"mlc_gpu\.barrier_wait [^\n]*", r"mlc_gpu\.barrier_arrive [^\n]*"


@dataclass(frozen=True)
class Fault:
    """An edit of the first, second … place at which a pattern is found, and what it leads to."""

    pattern: str
    instead: str
    message: str
    place: int | None = 0  # None: all
    function: int | None = None  # of the module, where the places are


def broken(text: str, fault: Fault) -> str:
    """The program with the fault; `%ZERO` and `%ONE` are constants of it."""
    if fault.function is not None:
        parts = re.split(r"(?=func\.func @)", text)
        only = Fault(fault.pattern, fault.instead, fault.message, fault.place)
        parts[1 + fault.function] = broken(parts[1 + fault.function], only)
        return "".join(parts)
    found = [*re.finditer(fault.pattern, text)]
    assert found, fault.pattern
    if fault.place is None:
        return re.sub(fault.pattern, fault.instead, text)
    at = found[fault.place]
    instead = at.expand(fault.instead)
    for name, value in (("ZERO", 0), ("ONE", 1)):
        if f"%{name}" in instead:
            constant = re.search(rf"(%\d+) = arith\.constant {value} : i32", text)
            assert constant
            instead = instead.replace(f"%{name}", constant[1])
    return text[: at.start()] + instead + text[at.end() :]


def verdict(
    text: str, fault: Fault, agrees: Callable[[Model], bool], blocks: int | None = None
) -> str:
    """What the model says of a program with a fault, in one of several orders."""
    edited = broken(text, fault)
    assert edited != text, fault.pattern
    module = parse_text(edited, "loops")
    for seed in range(ORDERS):
        try:
            if not agrees(Model(module, seed, blocks)):
                return NUMBERS
        except (ModelError, TileError) as error:
            return str(error)
    return ""
