"""How a body is left: at its end, or by `break`, `continue` or `return` (python.md §1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlc.dialects.errors import CompilerBug, MlcError
from mlc.frontend.errors import ConcretizationError, LeakError, NotSupportedError, located
from mlc.frontend.staging.joins import RAISED, UNBOUND, Held, Join
from mlc.frontend.staging.variables import Local
from mlc.frontend.trace.deferred import is_deferred
from mlc.frontend.trace.effects import Raised, effects, effects_of, must_wait
from mlc.frontend.trace.source import Site, is_raised_by_user, of_local, site_of_error
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.transform import take_care
from mlc.lazy_dataclass import dataclass

FALL, BREAKS, CONTINUES, RETURNS, ENDS = range(5)
"""ENDS: a loop's test is false."""


@dataclass(frozen=True)
class Exit:
    """A code: `possible` says what it can be, where only the compiled function knows which."""

    code: int | Tracer
    possible: frozenset[int]
    value: Any = UNBOUND  # with RETURNS

    @property
    def surely(self) -> bool:
        """Whether the statements after it do not run."""
        return FALL not in self.possible

    @property
    def only(self) -> int | None:
        """What the code can only be."""
        return next(iter(self.possible)) if len(self.possible) == 1 else None


BREAK = Exit(BREAKS, frozenset({BREAKS}))
ENDED = Exit(ENDS, frozenset({ENDS}))
CONTINUE = Exit(CONTINUES, frozenset({CONTINUES}))


def returns(value: Any) -> Exit:
    """`return value`"""
    return Exit(RETURNS, frozenset({RETURNS}), value)


def left(code: Exit | None) -> Any:
    """What a function returns whose statements all have run."""
    if code is None:
        return None
    assert code.possible == frozenset({RETURNS}), code
    if code.value is RAISED:
        raise Raised
    if (found := effects_of(current())) is not None and found.raised() is not None:
        found.escapes = True
    return code.value


def falls_or_raises(code: Exit) -> bool:
    """Whether only an error may keep the statements after it from running; those are told then."""
    found = code.value is RAISED and code.possible == frozenset({FALL, RETURNS})
    if found:
        take_care(here().functions)
        effects().escapes = True
    return found


RAISES = Exit(RETURNS, frozenset({RETURNS}), RAISED)


def exit_of(body: Callable[[], Exit | None]) -> Exit | None:
    """How a body is left, also by an error: in it, or in a function that it calls."""
    return _tried(body, RAISES)


def value_of(body: Callable[[], Any]) -> Any:
    """The value of an expression, or that it is left by an error."""
    return _tried(body, RAISED)


def _tried(body: Callable[[], Any], raised: Any) -> Any:
    """
    body(), or `raised`. An error is one of the program where only the compiled function knows
    whether it gets there, or does something before. Of what no trip's number may be to blame for,
    or a size, that is said once tracing has ended with it: then nothing helps against it.
    """
    try:
        return body()
    except Raised:
        return raised
    except Exception as error:
        if isinstance(error, REFUSALS) or not must_wait() or is_deferred(error.args):
            raise
        users = isinstance(error, MlcError) or is_raised_by_user(error)
        site = site_of_error(error)
        if not users or not isinstance(error, IndexError | KeyError | ZeroDivisionError):
            found = type(error), site if users else None
            if found[1] is None or found not in here().fatal:
                error.__dict__[_FATAL] = found
                raise
        if isinstance(error, NameError) and here().functions:
            error = of_local(error, here().functions[-1])
        error.__traceback__ = error.__context__ = None
        if isinstance(error, AttributeError):
            error.obj = None  # a traced value perhaps
        take_care(here().functions, 2)
        effects().fail(error, site=site)
        return raised


Fatal = tuple[type[Exception], Site]
"""An error's class and place."""

_FATAL = "__mlc_fatal__"

REFUSALS = (NotSupportedError, ConcretizationError, LeakError, CompilerBug)
"""What says what the compiler has not, and is no error of the function's."""


def may_not_come_up(error: BaseException) -> bool:
    """Whether an error has left a body that only the compiled function knows whether it runs."""
    return _FATAL in error.__dict__


def fatal_error(error: Exception) -> Fatal | None:
    """What an error is to be known by where the program may raise it; None of any other."""
    found = error.__dict__.get(_FATAL)
    return None if found is None or found[1] is None else found


def after(code: Exit | None, rest: Callable[[], Any] | bool | None, local: Sequence[Local]) -> Any:
    """The statements after a body, if it was not left."""
    if code is None or code.possible == frozenset({FALL}):
        return rest() if callable(rest) else None
    if code.surely or rest is None:
        return code
    if rest is False and falls_or_raises(code):
        return None
    if rest is False:
        raise located(
            NotSupportedError,
            "a branch may be left by return, break or continue inside `with`, `try` or `match`,"
            " which only the compiled function knows.",
            remedy="Set a variable there, and leave behind the statement.",
        )
    from mlc.frontend.staging.branches import staged_branch

    assert callable(rest)
    number: Any = code.code
    other = Exit(number, code.possible - {FALL}, code.value)
    falls: Any = number == FALL
    return staged_branch(falls, (rest, lambda: other), None, local, later=True)


@dataclass(frozen=True)
class HeldExit:
    """How a body was left, as it is known in it."""

    code: Held
    possible: frozenset[int]
    value: Held | None

    @staticmethod
    def of(code: Exit | None) -> HeldExit:
        """In the body."""
        if code is None:
            return HeldExit(Held.of(FALL), frozenset({FALL}), None)
        value = Held.of(code.value) if RETURNS in code.possible else None
        return HeldExit(Held.of(code.code), code.possible, value)


def joined_exit(join: Join, x: HeldExit, y: HeldExit) -> Exit | None:
    """How either of two bodies was left, with holes. Raises Misfit."""
    possible = x.possible | y.possible
    if possible == frozenset({FALL}):
        return None
    code: Any = next(iter(possible))
    if len(possible) > 1:
        code = join.value("", x.code, y.code)
    value: Any = UNBOUND
    if x.value is not None and y.value is not None:
        value = join.value("what is returned", x.value, y.value)
    elif x.value is not None:
        value = join.beside_zeros(x.value, 0)
    elif y.value is not None:
        value = join.beside_zeros(y.value, 1)
    return Exit(code, possible, value)
