"""`mlc.compile`: a Python function becomes a callable that traces, compiles and dispatches."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from math import inf
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Self, TypeVar, cast, overload

from mlc.collector import collector_off, imported
from mlc.fork import RenewedLock
from mlc.frontend.call.disabled import EVERY, is_disabled
from mlc.frontend.trace.definitions import keep_text
from mlc.knobs import FUSIONS, MOST_THREADS, Fusion, byte_count, is_thread_count
from mlc.lazy_dataclass import dataclass
from mlc.runtime.float_flags import float_flags_kept

if TYPE_CHECKING:
    from mlc.frontend.call.dispatcher import Dispatcher
    from mlc.frontend.call.lowered import Lowered
    from mlc.frontend.call.specialisation import Dynamic, Typical
    from mlc.frontend.call.stats import Stats
    from mlc.stages import Traced

P = ParamSpec("P")
R = TypeVar("R")
Numerics = Literal["strict", "standard", "fast"]
By = Literal["search", "saturation"]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of `mlc.compile`."""

    target: str | None = None
    threads: int | None = None
    numerics: Numerics = "standard"
    dynamic: Dynamic = False
    typical: Typical = False
    static: tuple[str, ...] = ()
    donate: tuple[str, ...] = ()
    contract: str | None = None
    fusion: Fusion | None = None
    peak_bytes: int | None = None
    schedule: str | None = None
    tune: float | None = None
    discover: str | Literal[True] | None = None
    discover_by: By = "search"
    fallback: Literal["numpy"] | None = None


class Compiled(Generic[P, R]):
    """
    A compiled function. Each has a class of its own, whose `__call__` becomes the native entry as
    soon as there is one that takes the arguments as they are (decisions.md D2).
    """

    __name__: str
    __wrapped__: Callable[P, R]

    def __init__(self, function: Callable[P, R], settings: Settings) -> None:
        functools.update_wrapper(self, function)
        self.__name__ = _name_of(function)
        self._function = function
        self._settings = settings
        self._lock = RenewedLock()
        self._lazy: Dispatcher | None = None
        EVERY.add(self)

    @property
    def _dispatcher(self) -> Dispatcher:
        if self._lazy is None:
            with self._lock(), float_flags_kept(), collector_off():
                from mlc.frontend.call.dispatcher import Dispatcher  # imports the compiler

                imported("mlc.frontend")
                if self._lazy is None:
                    self._lazy = Dispatcher(self, self._function, self._settings)
        return self._lazy

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result, from compiled code."""
        if is_disabled():
            return self._function(*args, **kwargs)
        return cast("R", self._dispatcher.slow(*args, **kwargs))

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: the object is the first argument."""
        return self if instance is None else MethodType(self, instance)

    def __mlc_function__(self) -> Callable[P, R]:
        """The Python function, for a compiled function that calls this one."""
        return self._function

    def __repr__(self) -> str:
        return f"<compiled function {getattr(self._function, '__qualname__', self.__name__)}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        name = getattr(self._function, "__qualname__", "")
        found: object = sys.modules.get(getattr(self._function, "__module__", ""))
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is self:
            return name  # by reference, as functions are pickled
        return _compiled, (self._function, self._settings)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def reference(self, *args: Any, **kwargs: Any) -> Any:
        """The result by the reference interpreter: traced, but no code is generated."""
        return self._dispatcher.reference(args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """
        The traced program for these arguments; a `TensorSpec` stands for an array. Parameters
        annotated with one need no argument.
        """
        return self._dispatcher.lower(args, kwargs)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """
        The first of the stages that the program for these arguments goes through; `next()` of each
        gives the one behind it. Arguments as of `lower`.
        """
        return self.lower(*args, **kwargs).traced

    def with_options(self, **options: Any) -> Compiled[P, R]:
        """The same function, compiled with other options where `options` names them."""
        own = {field.name: getattr(self._settings, field.name) for field in fields(Settings)}
        return compile(**{**own, **options})(self._function)

    def stats(self) -> Stats:
        """Calls, compilations and the reason of each."""
        return self._dispatcher.stats()


def _name_of(function: Any) -> str:
    """A function's name; of a partial function its function's, of an object its class's."""
    while isinstance(function, functools.partial):
        function = cast("Any", function.func)
    return getattr(function, "__name__", type(function).__name__)


# The decorator


@overload
def compile(  # noqa: A001 - mlc.compile
    function: Callable[P, R],
    /,
    *,
    target: str | None = None,
    threads: int | None = None,
    numerics: Numerics = "standard",
    dynamic: Dynamic = False,
    typical: Typical = False,
    static: Sequence[str] | str = (),
    donate: Sequence[str] | str = (),
    contract: str | None = None,
    fusion: Fusion | None = None,
    peak_bytes: int | str | None = None,
    schedule: str | Sequence[str] | None = None,
    tune: float | None = None,
    discover: str | os.PathLike[str] | bool | None = None,
    discover_by: By = "search",
    fallback: Literal["numpy"] | None = None,
) -> Compiled[P, R]: ...


@overload
def compile(  # noqa: A001 - mlc.compile
    *,
    target: str | None = None,
    threads: int | None = None,
    numerics: Numerics = "standard",
    dynamic: Dynamic = False,
    typical: Typical = False,
    static: Sequence[str] | str = (),
    donate: Sequence[str] | str = (),
    contract: str | None = None,
    fusion: Fusion | None = None,
    peak_bytes: int | str | None = None,
    schedule: str | Sequence[str] | None = None,
    tune: float | None = None,
    discover: str | os.PathLike[str] | bool | None = None,
    discover_by: By = "search",
    fallback: Literal["numpy"] | None = None,
) -> Callable[[Callable[P, R]], Compiled[P, R]]: ...


def compile(  # noqa: A001 - mlc.compile
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Any:
    """
    Compiles a NumPy function at its first call.

    `target`: "host" (default), a machine's name, "cuda". `threads`: of its parallel loops.
    `numerics`: "standard", "strict" (the bits of `reference`) or "fast" (docs/numerics.md).
    `dynamic`: ``{"x": {0: "B"}}`` names sizes that vary, True means all. `static`: parameters whose
    values are part of the program.

    `typical`: what sizes that vary mostly are, ``{"B": 8}``: programs are right for all sizes, and
    planned for these. True: about the sizes of the call that they are made at.

    `donate`: parameters whose arrays, in containers too, are updated in place: a result that takes
    the place of one is written into its memory, and the same ndarray comes back. The places are
    found by structure, as in ``return params, state``, then by dtype and shape; an array whose
    place no result takes is a remark in `stats()`. Donated arrays are writeable and C-contiguous
    and share no memory with other arguments, else ValueError or NotSupportedError. An error or
    Ctrl-C on the way leaves them partly updated, and two threads must not donate the same array.

    `contract`: what every program made for the function must keep, such as
    ``"kernels<=1; intermediates==0; bytes<=5*n*4; compiles<=1; peak<=x.nbytes; inplace(w)"``; else
    ContractError at the call that made it, naming what is in the way.

    `fusion`: which ops share a kernel: "exact" (default) searches for the plan of least predicted
    time; "all", "fnr" (fuse, no redundancy) and "greedy" are rules of thumb, "none" stores every
    value. The environment variable MLC_FUSION says it for functions that do not.

    `peak_bytes`: what a call may allocate for results and between kernels, 2**26 or "64MiB";
    arguments are not counted. Values that wait long for their readers, as the forward pass makes
    them for the backward pass, are computed again until it is kept; MemoryLimitError where that is
    not enough. Sizes must be known: each has a program of its own.

    `schedule`: how the function's one matrix product or convolution is cut, as words such as
    ``"block(k, 256), pack(b, panels 64), register(m 6, n 64), via(fma)"``, a string or a list
    (docs/tiles.md; ``mlc tile`` lists what the compiler considers). Where no `grain` says from how
    much work on workers share it, the compiler's holds. Words that do not parse raise ValueError at
    the first call, those that cannot be applied an error that names axis and rule.

    `tune`: seconds for which the schedules of kernels with known sizes are measured at the first
    call, on random numbers, instead of trusting the prediction: of products, and on GPUs of most
    kernels. What is found stays in the cache, and `explain` says it. Sums may be added up in
    another order than without, and on another day in another one yet, but in "strict".

    `discover`: True compiles the best of 200 programs that the rewrite rules of mlc lead to, in any
    order, judged by their plans, where it should be a tenth faster; a file adds rules of yours
    (docs/superopt.md). A program is searched for once, and `explain` says each step. Open sizes
    count as 1024. A file that cannot be read, and a rule that is wrong, are errors at the first
    call. `discover_by`: "search" applies one rule after the other, "saturation" all of them at
    once, which reaches further in long programs.

    `fallback`: "numpy" runs the Python function where it cannot be compiled, and warns of the line
    that says why, once for arguments of these types.
    """
    settings = settings_of(options)
    if function is None:

        def decorate(decorated: Callable[..., Any]) -> Compiled[..., Any]:
            return _compiled(decorated, settings)

        return decorate
    return _compiled(function, settings)


def _compiled(function: Any, settings: Settings) -> Compiled[..., Any]:
    if isinstance(function, staticmethod | classmethod):
        kind = type(cast("object", function)).__name__
        raise TypeError(f"@mlc.compile stands above @{kind}; put @{kind} above it")
    if isinstance(function, Compiled):
        function = function.__mlc_function__()
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"mlc.compile expects a function, found {function!r}")
    own_call = getattr(type(function), "__call__", None)  # noqa: B004 - the function itself
    if isinstance(own_call, FunctionType) and not hasattr(function, "__wrapped__"):
        function = MethodType(own_call, function)  # an object of the user's that is called
    keep_text(function)
    own = type(
        "Compiled", (Compiled,), {"__doc__": Compiled.__doc__, "__module__": Compiled.__module__}
    )
    return own(function, settings)


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The options of `mlc.compile` by name; TypeError or ValueError where one means nothing."""
    options = dict(options)
    schedule = options.get("schedule")
    if isinstance(schedule, list | tuple):
        options["schedule"] = schedule = ", ".join(map(str, cast("Sequence[object]", schedule)))
    if schedule is not None and not isinstance(schedule, str):
        raise TypeError(f"schedule={schedule!r}; expected words such as 'register(m 6, n 64)'")
    for name in ("static", "donate"):
        names = options.pop(name, ())
        options[name] = (names,) if isinstance(names, str) else tuple(names)
    known = tuple(Settings.__dataclass_fields__)
    if unknown := sorted(options.keys() - set(known)):
        accepted = ", ".join(known)
        raise TypeError(f"mlc.compile has no option {unknown[0]!r}; expected one of {accepted}")
    settings = Settings(**options)
    if settings.numerics not in ("strict", "standard", "fast"):
        raise ValueError(f"numerics={settings.numerics!r}; expected 'strict', 'standard' or 'fast'")
    if settings.numerics == "strict" and (settings.target or "").startswith("cuda"):
        from mlc.frontend.errors import NotSupportedError

        raise NotSupportedError(
            f'mlc.compile: numerics="strict" with target={settings.target!r}: GPUs combine sums in'
            ' an order of their own; use a CPU target, or "standard"'
        )
    if settings.fusion not in (None, *FUSIONS):
        expected = ", ".join(map(repr, FUSIONS))
        raise ValueError(f"fusion={settings.fusion!r}; expected one of {expected}")
    if settings.fallback not in (None, "numpy"):
        raise ValueError(f"fallback={settings.fallback!r}; expected 'numpy' or None")
    if settings.peak_bytes is not None:
        settings = replace(settings, peak_bytes=_bytes(settings.peak_bytes))
    settings = replace(settings, discover=_rules(settings.discover))
    if settings.discover_by not in ("search", "saturation"):
        expected = "'search' or 'saturation'"
        raise ValueError(f"discover_by={settings.discover_by!r}; expected {expected}")
    seconds = settings.tune
    if seconds is not None and not (type(seconds) in (int, float) and 0 < seconds < inf):
        raise ValueError(f"tune={seconds!r}; expected seconds, more than 0")
    threads = settings.threads
    if threads is not None and not is_thread_count(threads):
        raise ValueError(f"threads={threads!r}; expected an integer from 1 to {MOST_THREADS}")
    _check_dynamic(settings.dynamic)
    _check_typical(settings.typical)
    if settings.contract is not None:
        from mlc.frontend.call.contract import Contract

        Contract.parse(settings.contract)
    return settings


def _bytes(given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    if isinstance(given, str):
        with suppress(ValueError, OverflowError):
            return byte_count(given)
    raise ValueError(f'peak_bytes={given!r}; expected bytes such as 2**26 or "64MiB"')


def _rules(given: object) -> str | Literal[True] | None:
    if given is None or isinstance(given, bool):
        return given or None
    if isinstance(given, str | os.PathLike) and given != "":
        return os.fspath(cast("str | os.PathLike[str]", given))
    raise ValueError(f"discover={given!r}; expected True, or a file of rewrite rules")


def _check_typical(typical: Any) -> None:
    if isinstance(typical, bool):
        return
    form = 'expected True, or sizes of symbols such as typical={"B": 8}'
    if not isinstance(typical, dict):
        raise TypeError(f"typical={typical!r}; {form}")
    for name, size in cast("dict[object, object]", typical).items():
        if not isinstance(name, str) or type(size) is not int or size < 0:
            raise ValueError(f"typical={typical!r}; {form}")


def _check_dynamic(dynamic: Any) -> None:
    form = 'expected True, or axes with symbols such as dynamic={"x": {0: "B"}}'
    if isinstance(dynamic, bool):
        return
    if not isinstance(dynamic, dict):
        raise TypeError(f"dynamic={dynamic!r}; {form}")
    for axes in cast("dict[object, object]", dynamic).values():
        by_axis = cast("dict[object, object]", axes) if isinstance(axes, dict) else None
        if by_axis is None or any(type(axis) is not int for axis in by_axis):
            raise TypeError(f"dynamic={dynamic!r}; {form}")
