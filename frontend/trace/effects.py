"""
What a call does beside its results: errors that it raises, and calls such as that of `print`.

Both are values of the program. `error` is the number of what is raised, 0 of nothing; it is an
array that branches write and loops carry, and a result that Python looks at after the call. A call
is told to Python while the program runs (dialects/tensor/telling.py); `token` is what the last one
has left.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import itertools
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from types import FunctionType
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Block, BlockArgument, SSAValue

from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.telling import FIRST, LISTENERS
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.trace.deferred import Found, Maker, Raising, Recipe, recipe_of
from mlc.frontend.trace.packing import Layout, packed
from mlc.frontend.trace.paths import HiddenInput, object_path
from mlc.frontend.trace.source import Site, user_site
from mlc.frontend.trace.trace import Trace, current, here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.unread import unread_checks
from mlc.lazy_dataclass import dataclass

_WORDS = itertools.count()


@dataclass(eq=False)
class Outcome:
    """The errors and calls of one program, as Python raises and makes them."""

    faults: list[tuple[Recipe, Site | None, tuple[int, ...]]] = field(default_factory=list[Any])
    calls: list[tuple[Maker, Layout]] = field(default_factory=list[Any])
    failed: list[BaseException] = field(default_factory=list[BaseException])
    word: float = field(default_factory=lambda: FIRST + next(_WORDS))
    raises: bool = False  # whether the program has an error among its results
    catches: bool = False  # whether the function catches errors that a call may end with
    transformed: Site | None = None  # a `try` in a function of which this is a derivative or batch
    unread: bool = False  # whether something may fail that no result needs
    waits: bool = False  # a call may begin again: others are made when it has ended
    heard: list[tuple[Maker, Found]] = field(default_factory=list[Any])
    results: int = 0  # how many of its results are errors, what they say, and what was told

    def check_python_may_run(self) -> None:
        """NotSupportedError where what has failed is no function of Python's."""
        if self.transformed is None:
            return
        raise located(
            NotSupportedError,
            "an error has come up that a function catches, in its derivative or a batch of it:"
            " Python, which catches errors, cannot run these.",
            remedy="Ask by `if` before what would raise it.",
            site=self.transformed,
        )

    def listen(self) -> NDArray[Any]:
        """The input by which the program tells this one."""
        LISTENERS[self.word] = self
        return np.array([self.word])

    def hear(self, number: int, words: NDArray[Any]) -> None:
        """Makes a call; what that raises is raised after the program."""
        make, layout = self.calls[number]
        found = Found(layout.values(words))
        if self.waits:
            self.heard.append((make, found))
            return
        try:
            make(found)
        except BaseException as error:  # noqa: BLE001 - whatever it is, native code cannot raise it
            self.failed.append(error)

    def check(self) -> None:
        """Makes the calls that have waited; raises what a call has raised."""
        heard, self.heard = self.heard, []
        for make, found in heard:
            make(found)
        if self.failed:
            error = self.failed[0]
            self.failed.clear()
            raise error

    def fails(self, values: Sequence[Any]) -> bool:
        """Whether a call of the program ends with an error, by its last results."""
        return self.raises and bool(int(values[0]))

    def raise_for(self, values: Sequence[Any]) -> None:
        """Raises the error that a call of the program ends with, from its last results."""
        if not self.fails(values):
            return
        number = int(values[0])
        recipe, site, slots = self.faults[number - 1]
        found = recipe.make(Found(np.asarray(values[1 + slot])[()] for slot in slots))
        error, cause = _error(found[0]), found[1]
        if cause is not _NOTHING:
            error.__cause__ = cause
        _raise_at(error, site)


class Raised(BaseException):
    """
    The statements that are traced end here: what they raise is noted (`Effects.fail`).

    A BaseException, so that a user's `except Exception` lets it pass.
    """


_NOTHING = object()


def _raise_at(error: BaseException, site: Site | None) -> NoReturn:
    """Raises it so that tracebacks show the user's line."""
    if site is None:
        raise error
    lines = "\n" * (site.line - 1)
    code = compile(f"{lines}raise error", site.filename, "exec")
    exec(code.replace(co_name=site.function), {"error": error})
    raise AssertionError("the line before raises")


def _error(found: Any) -> BaseException:
    """An error of its own for each call."""
    if isinstance(found, type):
        return found()
    with contextlib.suppress(Exception):
        return copy.copy(found).with_traceback(None)
    return found.with_traceback(None)


class Effects:
    """Of one trace."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.outcome = Outcome()
        self.escapes = False  # what called a function that has raised may go on
        self._numbers: dict[Any, int] = {}
        self._told: dict[Any, int] = {}
        self._error: tuple[Tracer, SSAValue] | None = None
        self._slots: list[tuple[Tracer, SSAValue]] = []
        self._token: tuple[Tracer, SSAValue] | None = None
        self._left: dict[Tracer, SSAValue] = {}  # arrays from outside, and what they are at first

    @property
    def any(self) -> bool:
        """Whether something may have been raised or told."""
        return self._error is not None or self._token is not None

    def raised(self) -> Tracer | None:
        """Whether an error has been raised, as far as is known here; None for certainly not."""
        if self._error is None or self._error[0].known is self._error[1]:
            return None
        from mlc.frontend import numpy as names

        return names.not_equal(self._error[0], 0)

    @property
    def state(self) -> SSAValue | None:
        """Changes where something is raised."""
        return None if self._error is None else self._error[0].known

    def changes_in(self, block: Block) -> bool:
        """Whether an error may have been raised, of which the block gets to know."""
        state = self.state
        return isinstance(state, BlockArgument) and state.owner is block

    def clear(self) -> None:
        """Here it is known that nothing has been raised."""
        assert self._error is not None
        self._error[0].write(self._error[1])

    def fail(self, error: Any, cause: Any = _NOTHING, site: Site | None = None) -> None:
        """`raise error`, here or at a site; the first one counts."""
        site = site or user_site()
        recipe = recipe_of((error, cause), keeps=False)
        if self._error is None:
            self._error = self._state(I64, ())
        slots = self._places(recipe.leaves)
        key = (site, recipe.key, slots)
        if key not in self._numbers:
            kept = Recipe(recipe.make, (), ())
            self.outcome.faults.append((kept, site, slots))
            self._numbers[key] = len(self.outcome.faults)
        before = self.raised()
        for slot, leaf in zip(slots, recipe.leaves, strict=True):
            self._write(self._slots[slot][0], leaf.value, before)
        from mlc.frontend.numpy.values import number

        self._write(self._error[0], number(self._numbers[key], I64), before)

    def _write(self, place: Tracer, new: SSAValue, before: Tracer | None) -> None:
        if before is not None:
            from mlc.frontend import numpy as names

            wide = names.broadcast_to(before, place.dims) if place.dims else before
            new = self.trace.emit(SelectOp, wide.value, place.value, new)
        place.write(new)

    @property
    def _states(self) -> dict[Tracer, SSAValue]:
        """What branches, loops and transformations give on, with what it is at first."""
        others = (self._error, *self._slots, self._token)
        return dict(x for x in (*others, *self._left.items()) if x is not None)

    def now(self) -> dict[Tracer, SSAValue]:
        """What has been done, as it is known here."""
        return {x: x.known for x in self._states}

    def taken_back(self, before: dict[Tracer, SSAValue]) -> tuple[tuple[Tracer, SSAValue], ...]:
        """What has been done since; it is as it was again."""
        first = self._states
        changed = [(x, v) for x, v in self.now().items() if before.get(x, first[x]) is not v]
        for state, _ in changed:
            state.become(before.get(state, first[state]))
        return tuple(changed)

    def examples(self, values: Sequence[tuple[Tracer, Tracer]]) -> list[SSAValue]:
        """Of states and their values for many examples: those of the first that has failed."""
        from mlc.frontend import numpy as names

        error = next((x for state, x in values if self._error and state is self._error[0]), None)
        first = 0 if error is None or not error.ndim else names.argmax(names.not_equal(error, 0))
        return [(x[first] if x.ndim > state.ndim else x).value for state, x in values]

    def _state(self, row: Any, dims: Any) -> tuple[Tracer, SSAValue]:
        """A value of the whole program, which starts as 0."""
        from mlc.frontend.numpy.values import number

        with self.trace.inside(self.trace.block):
            start = number(0, row, dims)
        place = Tracer(self.trace, start)
        self.trace.states.add(place)
        return place, start

    def _places(self, leaves: Sequence[Tracer]) -> tuple[int, ...]:
        """Where what a message says is kept."""
        found: list[int] = []
        for leaf in leaves:
            same = (
                k
                for k, (slot, _) in enumerate(self._slots)
                if k not in found and slot.row is leaf.row and slot.dims == leaf.dims
            )
            k = next(same, None)
            if k is None:
                k = len(self._slots)
                self._slots.append(self._state(leaf.row, leaf.dims))
            found.append(k)
        return tuple(found)

    def tell(self, function: Callable[..., Any], args: Sequence[Any], kwargs: Any) -> None:
        """function(*args, **kwargs), each time that the program gets here."""
        from mlc.frontend import numpy as names

        if kwargs.get("file") is sys.stdout:
            kwargs = {name: x for name, x in kwargs.items() if name != "file"}
        recipe = recipe_of(Raising(_of_now(function), args, kwargs), keeps=False)
        layout = Layout.of(recipe.leaves)
        key = (user_site(), recipe.key, layout)
        if key not in self._told:
            self._told[key] = len(self.outcome.calls)
            self.outcome.calls.append((recipe.make, layout))
        if self._token is None:
            self._token = self._listener()
        number = np.array([float(self._told[key])])
        token, _ = self._token
        row = names.concatenate([token, number, *packed(recipe.leaves)])
        token.write(self.trace.emit(LibraryOp, row.value, routine="tell"))

    def _listener(self) -> tuple[Tracer, SSAValue]:
        trace, word = self.trace, self.outcome.listen()
        source = HiddenInput(object_path(word, "print"))
        value = trace.read_hidden(word, source)
        trace.arrays[id(word)] = Tracer(trace, value)
        trace.keep.append(word)
        token = Tracer(trace, value)
        trace.states.add(token)
        return token, value

    def left(self, array: NDArray[Any], name: str) -> Tracer:
        """
        An array from outside that each call takes as the last one has left it: what is written to
        it here goes through loops, branches and transformations, and is stored after the call.
        """
        place = self.trace.hidden_argument(array, HiddenInput(object_path(array, name)))
        if place not in self._left:
            self._left[place] = place.known
            place.captured = None  # it may be written
            self.trace.states.add(place)
        return place

    def results(self) -> list[SSAValue]:
        """The program's last results: the error, what its message says, and the token."""
        found: list[SSAValue] = []
        if self._error is not None and self._error[0].known is not self._error[1]:
            self.outcome.raises = True
            found = [x.value for x, _ in (self._error, *self._slots)]
        if self._token is not None:
            found.append(self._token[0].value)
        return found


def effects() -> Effects:
    """Of the current trace."""
    trace = here()
    if not isinstance(trace.effects, Effects):
        trace.effects = Effects(trace)
    return trace.effects


def effects_of(trace: Trace | None) -> Effects | None:
    """Those that there are."""
    found = None if trace is None else trace.effects
    return found if isinstance(found, Effects) else None


def catches(trace: Trace) -> bool:
    """Whether a call may raise an error that the function catches."""
    found = effects_of(trace)
    return found is not None and found.outcome.catches


def may_begin_again(trace: Trace) -> bool:
    """Whether a call that has begun may be run anew, on the arguments as they were."""
    return trace.room is not None or catches(trace)


def concluded(trace: Trace, results: list[SSAValue], written: Sequence[SSAValue]) -> Outcome | None:
    """
    What a call does beside its results; what Python needs for it is put behind these, and what it
    has written behind that.
    """
    beside = effects_of(trace)
    found = [] if beside is None else beside.results()
    checks, others = unread_checks(trace, (*results, *written, *found))
    found += checks
    results += [*found, *written]
    if beside is None and not (found or others):
        return None
    outcome = effects().outcome
    outcome.results, outcome.unread = len(found), others
    outcome.waits = may_begin_again(trace)
    return outcome


def must_wait() -> bool:
    """Whether what is raised here must be raised by the compiled function, after what it does."""
    trace = current()
    if trace is None:
        return False
    found = effects_of(trace)
    written = any(x.version for x in (*trace.inputs, *trace.arrays.values()))
    before = written or bool(trace.stores) or (trace.checks and len(trace.scopes) == 1)
    return bool(trace.journals) or before or (found is not None and found.any)


_LEVELS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
_WRITES = frozenset({"write", "writelines", "flush"})


def is_told(function: Any) -> bool:
    """Whether a call writes for somebody to read: it is made when the program gets there."""
    name = getattr(function, "__name__", "")
    if isinstance(function, FunctionType):
        return function.__module__ == "logging" and name in _LEVELS
    writes = name in _WRITES and isinstance(getattr(function, "__self__", None), io.IOBase)
    return writes or function is print or function is warnings.warn


def _written(stream: str, name: str, *args: Any) -> None:
    """A method of sys.stdout or sys.stderr, whichever that is now."""
    getattr(getattr(sys, stream), name)(*args)


@functools.cache
def _stream_method(stream: str, name: str) -> Callable[..., None]:
    return functools.partial(_written, stream, name)


def _of_now(function: Any) -> Any:
    """The same of the streams that there are when the program gets there."""
    owner = getattr(function, "__self__", None)
    for stream in ("stdout", "stderr"):
        if owner is not None and owner is getattr(sys, stream):
            return _stream_method(stream, function.__name__)
    return function
