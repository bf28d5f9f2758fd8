"""What goes wrong between a user's Python and the IR: error classes, and their messages."""

from __future__ import annotations

from typing import TypeVar

from mlc.dialects.errors import MlcError
from mlc.frontend.source import Site, user_site

E = TypeVar("E", bound=MlcError)


class NotSupportedError(MlcError, NotImplementedError):
    """
    NumPy can do it, mlc cannot yet; the message names what to write instead.

        np.fft.fft(x)      # compute it before the call and pass the result as an argument
    """


class ConcretizationError(MlcError, TypeError):
    """
    Python asked a traced array for a value that only exists when the compiled function runs.

        if x.sum() > 0:            # np.where(x.sum() > 0, a, b)
        float(x)                   # x.astype(np.float64)
    """


class OutOfBoundsError(MlcError, IndexError):
    """
    An index lies outside its axis: ``x[9]`` of nine elements.

    Raised while tracing where the index is known, else by the compiled function.
    """


class AxisError(MlcError, ValueError, IndexError):
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


def relocated(error: MlcError) -> MlcError:
    """An error of the tensor level, with the user's line; one that has a line already as it is."""
    if "site" in error.__dict__:
        return error
    return located(type(error), str(error))
