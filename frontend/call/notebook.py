"""What notebooks and terminals show: programs as HTML, and errors without the compiler's frames."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from mlc.dialects.errors import CompilerBug, MlcError

if TYPE_CHECKING:
    from mlc.frontend.call.lowered import Lowered

HEIGHT_PX = 640
"""Of the frame that shows the page of `explain`."""

_SHOWN = ("tensor", "plan")
"""Levels whose text a notebook shows, folded."""


class Explanation(str):
    """The text of `explain`; a notebook shows its page."""

    __slots__ = ("page",)
    page: Callable[[], str]

    def _repr_html_(self) -> str:
        return _framed(self.page())


def explanation(text: str, page: Callable[[], str]) -> Explanation:
    """A text of `explain`, with what makes the page that says the same."""
    made = Explanation(text)
    made.page = page
    return made


def html_of(lowered: Lowered) -> str:
    """A lowered function: its signature, and its programs, folded."""
    from html import escape  # which few programs need, with all names of characters

    folded = [
        f"<details{' open' * (level == _SHOWN[0])}><summary>{level}</summary>"
        f"<pre>{escape(lowered.text(level))}</pre></details>"
        for level in _SHOWN
    ]
    return f"<b>{escape(lowered.name)}</b> lowered for {escape(lowered.described)}{''.join(folded)}"


def _framed(page: str) -> str:
    from html import escape

    return (
        f'<iframe srcdoc="{escape(page)}" style="width: 100%; height: {HEIGHT_PX}px; border: 0">'
        "</iframe>"
    )


def users_traceback(error: BaseException) -> TracebackType | None:
    """
    An error's traceback without the compiler's frames. The message has the user's line; all frames
    stay of compiler bugs, and of errors that are none of ours but come from the compiler.
    """
    whole, frames = error.__traceback__, list[TracebackType]()
    step = whole
    while step is not None:
        frames.append(step)
        step = step.tb_next
    told = isinstance(error, MlcError) and not isinstance(error, CompilerBug)
    users = [step for step in frames if not _is_ours(step)]
    if not users or not (told or users[-1] is frames[-1]):
        return whole
    made: TracebackType | None = None
    for step in reversed(users):
        made = TracebackType(made, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return made


def _is_ours(step: TracebackType) -> bool:
    name = str(step.tb_frame.f_globals.get("__name__", ""))
    return name.partition(".")[0] in ("mlc", "xdsl")
