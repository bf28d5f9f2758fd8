"""Loops whose trips stand one after another in the program, and why: `explain` says it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType

from mlc.dialects.errors import MlcError
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.trace.source import Site, site_of_error, user_site
from mlc.frontend.trace.trace import current, here

MOST_NAMED = 200
"""Characters of an error's text in a reason."""


def unrolled(trips: int, why: str, site: Site | None = None) -> None:
    """Says of the loop at the user's line that its trips were traced one by one."""
    where = site or user_site()
    if where is not None:
        place = f"{where.filename}:{where.line}"
        here().unrolled.setdefault(place, f"{trips} trips stand one after another: {why}")


def without_source(code: CodeType) -> None:
    """Says so of each loop of a function whose text is not known."""
    trace = current()
    if trace is None:
        return
    for line in _loop_lines(code):
        why = "the text of the function is not known, and Python runs it"
        trace.unrolled.setdefault(
            f"{code.co_filename}:{line}", f"trips stand one after another: {why}"
        )


def _loop_lines(code: CodeType) -> Iterator[int]:
    """Where control goes back to, in the code and that of functions inside it."""
    import dis

    instructions = list(dis.get_instructions(code))
    lines = {x.offset: x.positions.lineno for x in instructions if x.positions is not None}
    for x in instructions:
        if "JUMP_BACKWARD" in x.opname and (line := lines.get(x.argval)) is not None:
            yield line
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _loop_lines(inner)


def reason_of(error: BaseException) -> str:
    """Why a loop is none with its trip's number as a value, by what the trial raised."""
    text = str(error).partition("\n")[0]
    if len(text) > MOST_NAMED:
        text = text[:MOST_NAMED] + " …"
    site = site_of_error(error)
    line = "" if site is None else f" at line {site.line}"
    if isinstance(error, TypeError | LookupError) and not isinstance(error, NotSupportedError):
        return f"the number of the trip, or what it picks, is needed by Python{line}: {text}"
    return f"as one loop it raises {type(error).__name__}{line}: {text}"


def unsettled(name: str, chain: Sequence[str]) -> MlcError:
    """The error of a loop whose types differ at each trip."""
    message = f"a loop changes the type of {name} at every trip: " + "; then ".join(chain) + "."
    remedy = f"Give {name} before the loop the type that it has in it."
    return located(NotSupportedError, message, remedy=remedy)
