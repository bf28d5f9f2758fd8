"""What goes wrong between a user's Python and the IR: error classes, and their messages."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from mlc.dialects.errors import MlcError
from mlc.frontend.trace.source import Site, raising_frame, site_of, user_site

E = TypeVar("E", bound=Exception)


BESIDE = (
    "an error is raised, a line printed, or a number drawn, in a function that a loop or branch of"
    " mlc's is made of."
)
_ANOTHER = (
    "as another, which is written: which of them it is depends on the branch that ran, or the trip."
)
ALIASED = f"an array {{}} that may be the same one {_ANOTHER}"
ALIASED_VARIABLE = f"may be the same array {_ANOTHER}"
COPY = "Give the variable an array of its own before: x = x.copy()."
FOREIGN = (
    "a traced value of another call is used here; a compiled function must return its results and"
    " not store them in lists, globals or attributes"
)
INSIDE = "a value from inside a loop body is used outside it; return it in the loop's carry"
OUTSIDE = "a traced value is used outside the compiled function that made it; return it instead"


class NotSupportedError(MlcError, NotImplementedError):
    """
    NumPy can do it, mlc cannot yet; the message names what to write instead.

        np.fft.fft(x)      # compute it before the call and pass the result as an argument
    """


class ConcretizationError(MlcError, TypeError):
    """
    Python asked a traced array for a value that only exists when the compiled function runs.

        np.zeros(x.sum())          # take the size from x.shape, or from a Python int
        float(x)                   # x.astype(np.float64)
    """

    symbols: frozenset[str] = frozenset()
    """The sizes declared dynamic that decide about the program."""


class OutOfBoundsError(MlcError, IndexError):
    """
    An index lies outside its axis: ``x[9]`` of nine elements.

    Raised while tracing where the index is known, else by the compiled function.
    """


class AxisError(MlcError, np.exceptions.AxisError):
    """An axis that the array does not have: ``x.sum(axis=2)`` of a matrix."""


class LeakError(MlcError, RuntimeError):
    """
    A traced value is used outside the function or loop body that made it.

        kept.append(x)             # return it instead
    """


class SpecialiseSignal(BaseException):
    """
    Not an error: tracing needs to know a value. The caller traces again with it fixed.

    `arguments`: names of Python scalar arguments; `symbols`: names of symbolic sizes.
    A BaseException, so that a user's `except Exception` lets it pass.
    """

    def __init__(self, arguments: frozenset[str], symbols: frozenset[str], because: str) -> None:
        super().__init__(because)
        self.arguments = arguments
        self.symbols = symbols
        self.because = because


def located(kind: type[E], message: str, *, remedy: str = "", site: Site | None = None) -> E:
    """An error with the user's line and a caret under the expression."""
    where = site or user_site()
    parts = [message]
    if where is not None:
        parts.append(where.excerpt())
    if remedy:
        parts.append(remedy)
    error = kind("\n".join(parts))
    error.__dict__["site"] = where
    return error


MISFITS = ("positional argument", "required keyword-only argument", "multiple values for argument")
"""What Python says where a call's arguments do not fit the function's parameters."""


def misfit(error: TypeError) -> TypeError:
    """The error, with the user's line where arguments do not fit one of our functions."""
    frame = raising_frame(error)
    caller = "" if frame is None else str(frame.f_globals.get("__name__"))
    ours = caller.startswith("mlc.") and not isinstance(error, MlcError)
    site = user_site() if ours and any(text in str(error) for text in MISFITS) else None
    return error if site is None else TypeError(f"{error}\n{site.excerpt()}")


def relocated(error: MlcError) -> MlcError:
    """
    An error of the tensor level, with the user's line: that of the op that it names, or else the
    one that runs. One that has a line already stays as it is.
    """
    if "site" in error.__dict__:
        return error
    place: object = error.__dict__.get("location")
    site = site_of(place) if place is not None else None
    return located(type(error), str(error), site=site)


@contextmanager
def at_user_lines() -> Generator[None]:
    """Errors of the tensor level get the user's line."""
    try:
        yield
    except MlcError as error:
        raise relocated(error) from None
