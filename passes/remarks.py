"""
Remarks: what a pass wants its user to know, such as an optimisation it left out and why.

A pass says `remark(op, text)`. Nobody listens unless a caller holds `listening()`, as `mlc opt`
and the pipeline do.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A choice that was made by cost, and the best one that was left."""

    value: str  # what is decided on: "f32[64, 10]"
    decision: str  # "store", "inline", "tile", …
    chosen_s: float  # the predicted seconds of the plan with this decision
    other_s: float | None  # of the best plan without it; None: there is no legal one
    rule: str  # the rule that forces it, or "cost"


@dataclass(frozen=True)
class Remark:
    """One remark, with the user's file and line where the op knows them."""

    op: str
    text: str
    where: str  # "file:line" or ""
    decision: Decision | None = None

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}remark: {self.op}: {self.text}"


_listeners: ContextVar[list[Remark] | None] = ContextVar("mlc_remarks", default=None)


def remark(op: Operation, text: str, decision: Decision | None = None) -> None:
    """Tell the listener, if there is one."""
    heard = _listeners.get()
    if heard is not None:
        heard.append(Remark(op.name, text, place(op), decision))


def is_heard() -> bool:
    """Whether there is a listener: remarks that cost time are made for one only."""
    return _listeners.get() is not None


def place(op: Operation) -> str:
    """``file:line`` of the user's code that gave rise to the op; empty where unknown."""
    location = op.location
    if isinstance(location, FileLineColLoc):
        return f"{location.filename.data}:{location.line.data}"
    return ""


@contextmanager
def listening() -> Generator[list[Remark], None, None]:
    """Collects the remarks made inside the block."""
    heard: list[Remark] = []
    token = _listeners.set(heard)
    try:
        yield heard
    finally:
        _listeners.reset(token)


@contextmanager
def unheard() -> Generator[None, None, None]:
    """Nobody listens inside the block, where a pass tries what may not become the plan."""
    token = _listeners.set(None)
    try:
        yield
    finally:
        _listeners.reset(token)
