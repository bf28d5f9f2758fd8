"""
What rewritten control flow does when it is traced: Python's way where Python can decide, else a
region for each way.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from mlc.dialects.errors import MlcError
from mlc.frontend.errors import NotSupportedError, SpecialiseSignal, located
from mlc.frontend.numpy.python_numbers import item
from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.branches import choice, staged_branch, unless_raised
from mlc.frontend.staging.counted import as_array, counted_of, is_counted
from mlc.frontend.staging.exits import (
    BREAK,
    CONTINUE,
    RAISES,
    REFUSALS,
    Exit,
    after,
    falls_or_raises,
    left,
    may_not_come_up,
    returns,
)
from mlc.frontend.staging.items import Items
from mlc.frontend.staging.journal import touched
from mlc.frontend.staging.lazy import Lazy
from mlc.frontend.staging.list_methods import equal_lists
from mlc.frontend.staging.loops import For
from mlc.frontend.staging.many import making
from mlc.frontend.staging.sometimes import check_compared, is_in, unsure
from mlc.frontend.staging.truth import negated, truth
from mlc.frontend.staging.variables import alone, locals_of
from mlc.frontend.staging.variants import Variants, facts_of
from mlc.frontend.staging.whiles import While, at_each_trip
from mlc.frontend.staging.wholes import has_class
from mlc.frontend.trace.captures import recognised, told_apart
from mlc.frontend.trace.deferred import Raising, is_deferred
from mlc.frontend.trace.effects import effects, must_wait
from mlc.frontend.trace.hashed import as_key
from mlc.frontend.trace.kinds import class_of, is_array, is_dict
from mlc.frontend.trace.source import user_site
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer

Body = Callable[..., Any]


class Flow:
    """The part of `__mlc__` that control flow goes through (rewrite.py)."""

    BREAK = BREAK
    CONTINUE = CONTINUE

    @staticmethod
    def returns(value: Any) -> Exit:
        """`return value` in a body."""
        return returns(value)

    @staticmethod
    def leave(code: Exit | None) -> Any:
        """What the function returns, of how its statements were left."""
        return left(code)

    @staticmethod
    def shares(*variables: Body) -> None:
        """A function is called that may bind variables anew which these read."""
        for variable in variables:
            function: Any = variable
            for cell in function.__closure__:
                touched(cell)

    @staticmethod
    def branch(
        test: Any,
        then: Body | None,
        otherwise: Body | None,
        rest: Body | bool | None,
        names: tuple[str, ...],
        later: bool,
    ) -> Exit | None:
        """
        if test: then() else: otherwise(); rest()

        `rest` is False where the statements after it are not at hand. `later`: only the second
        branch may leave.
        """
        decided = truth(test)
        local = locals_of((then, otherwise, rest), names)

        def run() -> Exit | None:
            if isinstance(decided, bool):
                body = then if decided else otherwise
                return after(body() if body else None, rest, local)
            return staged_branch(decided, (then, otherwise), rest, local, later=later)

        code = unless_raised(run, local)
        if rest is False and code is not None and falls_or_raises(code):
            return None
        return code

    @staticmethod
    def going_on(rest: Body, names: tuple[str, ...]) -> Exit | None:
        """rest(), unless an error has been raised in a function that was called."""
        return unless_raised(rest, locals_of((rest,), names))

    @staticmethod
    def loop(
        test: Body,
        body: Body,
        otherwise: Body | None,
        rest: Body | bool | None,
        names: tuple[str, ...],
        leaving: bool,
        own: tuple[str, ...],
        read: tuple[str, ...],
    ) -> Exit | None:
        """
        while test(): body()
        else: otherwise()

        `leaving`: the body may be left by break or return; `own`: variables that are a trip's own;
        `read`: those that are read after the loop.
        """
        local = locals_of((test, body, otherwise, rest), names)
        body = alone(body, [x for x in local if x.name in own])
        with here().walking(()):
            code = While(at_each_trip(test), body, otherwise, local, leaving, read).run()
        return after(code, rest, local)

    @staticmethod
    def each(
        items: Any,
        body: Body,
        otherwise: Body | None,
        rest: Body | bool | None,
        names: tuple[str, ...],
        leaving: bool,
        own: tuple[str, ...],
        read: tuple[str, ...],
        sliced: bool,
    ) -> Exit | None:
        """
        for item in items: body(item)
        else: otherwise()

        `read`: variables that are read after the loop; `sliced`: variables begin or end slices.
        """
        local = locals_of((body, otherwise, rest), names)
        body = alone(body, [x for x in local if x.name in own])
        if isinstance(items, Items) and items.each is not None:
            items, body = replace(items, each=None), making(items, body)
        return after(For(body, otherwise, local, leaving, read, sliced).run(items), rest, local)

    # expressions

    @staticmethod
    def lazy(*parts: Any) -> Lazy:
        """A generator expression that a call gets first (comprehensions.py)."""
        return Lazy(*parts)

    @staticmethod
    def choose(test: Any, then: Body, otherwise: Body) -> Any:
        """then() if test else otherwise()"""
        decided = truth(test)
        if isinstance(decided, bool):
            return then() if decided else otherwise()
        return choice("the value", decided, then, otherwise)

    @staticmethod
    def both(value: Any, *others: Body) -> Any:
        """value and other() and …"""
        if not others:
            return value
        first, *rest = others
        return Flow.choose(value, lambda: Flow.both(first(), *rest), lambda: value)

    @staticmethod
    def either(value: Any, *others: Body) -> Any:
        """value or other() or …"""
        if not others:
            return value
        first, *rest = others
        return Flow.choose(value, lambda: value, lambda: Flow.either(first(), *rest))

    @staticmethod
    def all_true(value: Any, *others: Body) -> bool | Tracer:
        """Whether `value and other() and …` is true."""
        decided = truth(value)
        if not others:
            return decided
        first, *rest = others
        last: list[Any] = []
        found = Flow.choose(
            decided, lambda: _noted(Flow.all_true(first(), *rest), last), lambda: False
        )
        return _meaning(found, (decided, *last[-1:]), 0)

    @staticmethod
    def any_true(value: Any, *others: Body) -> bool | Tracer:
        """Whether `value or other() or …` is true."""
        decided = truth(value)
        if not others:
            return decided
        first, *rest = others
        last: list[Any] = []
        found = Flow.choose(
            decided, lambda: True, lambda: _noted(Flow.any_true(first(), *rest), last)
        )
        return _meaning(found, (decided, *last[-1:]), 1)

    @staticmethod
    def opposite(value: Any) -> Any:
        """not value"""
        decided = truth(value)
        if isinstance(decided, bool):
            return not decided
        made = negated(decided)
        here().meaning[made.value] = facts_of(decided, 1), facts_of(decided, 0)
        return made

    @staticmethod
    def compared(words: tuple[str, ...], first: Any, second: Any, *others: Body) -> Any:
        """first < second < other() …"""
        value = _compared(words[0], first, second)
        if not others:
            return value
        return Flow.both(value, lambda: Flow.compared(words[1:], second, others[0](), *others[1:]))

    @staticmethod
    def same(value: Any, other: Any) -> Any:
        """value is other"""
        if isinstance(other, Variants):
            value, other = other, value
        if isinstance(value, bool):
            value, other = other, value
        if isinstance(value, Tracer) and isinstance(other, bool):  # a bool of Python's, or NumPy's
            pythons = not value.dims and has_class(value, bool)
            said: Any = value if other else Flow.opposite(value)
            return pythons and (said if pythons is True else item(said & Tracer(here(), pythons)))
        if not isinstance(value, Variants):
            told_apart(value, other)
            return value is other
        return value.asked(lambda option: option is other)

    @staticmethod
    def differs(value: Any, other: Any) -> Any:
        """value is not other"""
        return Flow.opposite(Flow.same(value, other))

    @staticmethod
    def equal(value: Any, other: Any) -> Any:
        """value == other, of what may be collections"""
        check_compared((value, other))
        if is_counted(value) or is_counted(other):
            return equal_lists(value, other)
        return value == other

    @staticmethod
    def unequal(value: Any, other: Any) -> Any:
        """value != other"""
        check_compared((value, other))
        if is_counted(value) or is_counted(other):
            return Flow.opposite(equal_lists(value, other))
        return value != other

    @staticmethod
    def inside(value: Any, container: Any) -> Any:
        """value in container"""
        if is_counted(container):
            container = as_array(counted_of(container))
        if isinstance(container, Tracer):
            return item((container == value).any())  # a bool of Python's, as `in` always gives
        if is_array(container) and isinstance(value, Tracer):
            return Flow.inside(value, lift(container))
        recognised(value)
        if unsure(container) is not None:
            return is_in(value, container)
        if class_of(value) in (dict, list, tuple):
            check_compared((value, container))
        series = isinstance(container, list | tuple | dict | set | frozenset)
        parts: list[Any] = list(container) if series else []  # pyright: ignore[reportUnknownArgumentType]
        if not any(isinstance(x, Tracer) for x in (value, *parts)):
            return (value if isinstance(container, list | tuple) else as_key(value)) in container
        found = Flow.any_true(False, *(_equal(value, part) for part in parts))
        return item(found) if isinstance(found, Tracer) else found

    @staticmethod
    def outside(value: Any, container: Any) -> Any:
        """value not in container"""
        return Flow.opposite(Flow.inside(value, container))

    # errors

    @staticmethod
    def catches() -> None:
        """Errors are caught from here on: if one comes up at a call, Python runs that call."""
        trace = current()
        if trace is not None:
            outcome = effects().outcome
            outcome.catches = True
            if trace.passing:
                outcome.transformed = user_site()

    @staticmethod
    def caught() -> None:
        """
        The function has caught an error. One that says what the compiler has not, or that other
        sizes would not raise, is none of the function's own; nor is one of a branch that may not
        run, until the program raises it.
        """
        error, trace = sys.exc_info()[1], current()
        if trace is None or error is None:
            return
        if not isinstance(error, Exception) or isinstance(error, REFUSALS):
            raise error
        if isinstance(error, MlcError) and trace.symbols:
            because = f"{type(error).__name__} is caught by the function"
            raise SpecialiseSignal(frozenset(), frozenset(trace.symbols), because) from None
        if may_not_come_up(error):
            raise error
        if isinstance(error, MlcError):  # the function sees what Python says
            error.args = (str(error).partition("\n")[0],)

    @staticmethod
    def raising() -> None:
        """A generator is about to raise an error."""
        trace = current()
        if trace is not None and trace.journals:
            raise located(
                NotSupportedError,
                "a generator raises an error where only the compiled function knows whether it"
                " gets there.",
                remedy="Yield a value instead, and raise where the generator is gone over.",
            )

    @staticmethod
    def is_series(value: Any) -> Any:
        """Whether a pattern for series may fit."""
        if isinstance(value, Variants):
            return value.asked(Flow.is_series)
        return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)

    @staticmethod
    def is_mapping(value: Any) -> Any:
        """Whether a pattern for mappings may fit."""
        return value.asked(Flow.is_mapping) if isinstance(value, Variants) else is_dict(value)

    @staticmethod
    def raises(error: Any, *cause: Any) -> Exit:
        """raise error from cause"""
        return _raised(error, cause, must_wait())

    @staticmethod
    def raises_inside(error: Any, *cause: Any) -> Exit:
        """The same, where the function may catch it: at once, or Python does it at the call."""
        trace = current()
        return _raised(error, cause, trace is not None and bool(trace.journals))

    @staticmethod
    def assertion(*message: Any) -> Any:
        """What `assert test, message` raises."""
        if is_deferred(message):
            return Raising(AssertionError, message, {})
        return AssertionError(*message)


def _raised(error: Any, cause: tuple[Any, ...], waits: bool) -> Exit:
    """`waits`: the program raises it, after what it does before."""
    trace = current()
    surely = trace is not None and bool(trace.passing) and not trace.journals
    if surely and is_deferred(error):
        raise located(
            NotSupportedError,
            "a function of which a derivative or a batch is taken raises an error in any case, and"
            " says a value in it.",
            remedy="Leave the value out of its text.",
        )
    if is_deferred(error) or (waits and not surely):
        effects().fail(error, *cause)
        return RAISES
    if cause:
        raise error from cause[0]
    raise error


def _equal(value: Any, part: Any) -> Callable[[], Any]:
    return lambda: value is part or value == part


def _noted(value: Any, last: list[Any]) -> Any:
    last.append(value)
    return value


def _meaning(found: Any, parts: Sequence[Any], side: int) -> Any:
    """What is known of kinds where `first and …` is true, `first or …` is false."""
    for part in parts:
        if isinstance(found, Tracer) and isinstance(part, Tracer) and found is not part:
            facts = list(here().meaning.get(found.value, ((), ())))
            facts[side] = (*facts[side], *_facts(part, side))
            here().meaning[found.value] = tuple(facts)
    return found


def _facts(part: Tracer, side: int) -> Any:
    """Of a value that may stand in a branch: what it says is so wherever it has run."""
    return here().meaning.get(part.known, ((), ()))[side]


def _compared(word: str, x: Any, y: Any) -> Any:
    if word in ("is_", "is_not"):
        return (Flow.same if word == "is_" else Flow.differs)(x, y)
    if word in ("in", "not in"):
        return (Flow.inside if word == "in" else Flow.outside)(x, y)
    if word in ("eq", "ne"):
        return (Flow.equal if word == "eq" else Flow.unequal)(x, y)
    return getattr(operator, word)(x, y)
