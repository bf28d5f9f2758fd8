"""`mlc.compile`: a Python function becomes a callable that traces, compiles and dispatches."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast, overload

from mlc.frontend.spec import TensorSpec
from mlc.frontend.stats import Artifact, Stats

if TYPE_CHECKING:
    from mlc.frontend.arguments import Call, Parameters
    from mlc.frontend.dispatch import Dynamic, Family, Policy
    from mlc.frontend.lowered import Lowered
    from mlc.frontend.program import Program
    from mlc.frontend.ready import Ready

P = ParamSpec("P")
R = TypeVar("R")
Numerics = Literal["strict", "standard", "fast"]
MAX_CHAIN = 4
"""Native entries asked one after another before Python dispatches (each costs about 20 ns)."""

MAX_VARIANTS = 32
"""Programs kept that differ only in values read from outside."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of `mlc.compile`."""

    target: str | None = None
    threads: int | None = None
    numerics: Numerics = "standard"
    dynamic: Dynamic = False
    static: tuple[str, ...] = ()


class Compiled:
    """
    A compiled function. Each has a class of its own, whose `__call__` becomes the native entry as
    soon as there is one that takes the arguments as they are (decisions.md D2).
    """

    def __init__(self, function: Callable[..., Any], settings: Settings) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._settings = settings
        self._lock = threading.RLock()
        self._lazy: _Dispatcher | None = None

    @property
    def _dispatcher(self) -> _Dispatcher:
        if self._lazy is None:
            with self._lock:
                if self._lazy is None:
                    self._lazy = _Dispatcher(self, self._function, self._settings)
        return self._lazy

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result, from compiled code."""
        return self._dispatcher.call(args, kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """As a method: the object is the first argument."""
        return self if instance is None else MethodType(self, instance)

    def __mlc_function__(self) -> Callable[..., Any]:
        """The Python function, for a compiled function that calls this one."""
        return self._function

    def __repr__(self) -> str:
        return f"<compiled function {self._function.__qualname__}>"

    def __reduce__(self) -> str:
        return self._function.__qualname__  # by reference, as functions are pickled

    def __copy__(self) -> Compiled:
        return self

    def __deepcopy__(self, memo: object) -> Compiled:
        return self

    def reference(self, *args: Any, **kwargs: Any) -> Any:
        """The result by the reference interpreter: traced, but no code is generated."""
        return self._dispatcher.reference(args, kwargs)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The traced program for these arguments; a `TensorSpec` stands for an array."""
        return self._dispatcher.lower(args, kwargs)

    def stats(self) -> Stats:
        """Calls, compilations and the reason of each."""
        return self._dispatcher.stats()


class _Dispatcher:
    """The programs of one function, and the choice among them."""

    def __init__(self, owner: Compiled, function: Callable[..., Any], settings: Settings) -> None:
        from mlc.frontend.arguments import Parameters
        from mlc.frontend.dispatch import Policy

        self.owner = owner
        self.function = function
        self.settings = settings
        self.parameters: Parameters = Parameters(function, settings.static)
        self.policy: Policy = Policy(_with_annotations(self.parameters, settings.dynamic))
        self.families: dict[Hashable, Family] = {}
        self.ready: dict[Hashable, list[Ready]] = {}
        self.forced_static: set[str] = set()
        self.remarks: list[str] = []
        self.artifacts: list[Artifact] = []
        self.calls = 0
        self.chain: list[Ready] = []  # those whose native entries stand before this dispatcher
        self.lock = threading.RLock()

    # calls

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that no native entry took."""
        from mlc.frontend.trace import current

        if current() is not None:
            from mlc.frontend.access import call

            return call(self.function, args, kwargs)
        self.calls += 1
        values = self.parameters.bind(args, kwargs)
        call = self.parameters.call(values, self.forced_static)
        found = self.find(call)
        if found is None:
            with self.lock:
                found = self.find(call) or self.compile(values)
            ready, call = found
        else:
            ready, call = found
        return ready.run(call)

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        """What the native entries pass on."""
        return self.call(args, kwargs)

    def find(self, call: Call) -> tuple[Ready, Call] | None:
        """The program that serves the call, if there is one."""
        for ready in self.ready.get(self.policy.family_key(call), ()):
            if ready.fits(call):
                return ready, call
        return None

    # compiling

    def compile(self, values: list[Any]) -> tuple[Ready, Call]:
        """A new program for the call, and the call as that program takes it."""
        from mlc.frontend.ready import Ready, describe

        call, program, shapes, because = self.traced(values)
        key = self.policy.family_key(call)
        programs = self.ready.setdefault(key, [])
        ready = Ready(program, tuple(shapes), call)
        ready.build(self.settings, self.slow)
        same = [r for r in programs if r.shapes == ready.shapes]
        if len(same) >= MAX_VARIANTS:
            programs.remove(same[-1])
        programs.insert(0, ready)
        self.artifacts.append(
            Artifact(
                signature=describe(call, shapes),
                because=because,
                trace_s=program.trace_s,
                compile_s=ready.compile_s,
                from_cache=ready.from_cache,
            )
        )
        self.install(ready, call)
        return ready, call

    def install(self, ready: Ready, call: Call) -> None:
        """Puts the program's native entry in front, where it needs nothing of Python."""
        entry = ready.native_entry
        plain = all(leaf.kind in ("array", "float", "int") for leaf in call.leaves)
        whole = len(call.leaves) == self.parameters.count and self.parameters.plain
        program = ready.program
        alone = program.needs_nothing_from_outside and program.direct_result
        if entry is None or not (plain and whole and alone) or len(self.chain) >= MAX_CHAIN:
            return
        entry.set_slow(self.chain[0].native_builtin if self.chain else self.slow)
        self.chain.insert(0, ready)
        type(self.owner).__call__ = entry.builtin  # pyright: ignore[reportAttributeAccessIssue]

    def traced(self, values: list[Any]) -> tuple[Call, Program, Sequence[Any], str]:
        """The program for a call, traced again for what tracing found that it must know."""
        from mlc.dialects.errors import MlcError
        from mlc.frontend.dispatch import Family, explain_mismatch, match_sizes
        from mlc.frontend.errors import SpecialiseSignal

        while True:
            call = self.parameters.call(values, self.forced_static)
            family = self.families.setdefault(self.policy.family_key(call), Family())
            shapes = self.policy.shapes(call, family)
            if (fault := explain_mismatch(call, shapes)) is not None:
                raise fault
            because = self.reason(call, shapes)
            if because is None:
                shapes, because = _static_shapes(call), OUTSIDE_ASSUMPTIONS
            try:
                program = self.trace(call, shapes)
                if not program.assumptions_hold(match_sizes(call, shapes) or {}):
                    shapes, because = _static_shapes(call), OUTSIDE_ASSUMPTIONS
                    program = self.trace(call, shapes)
                return call, program, shapes, because
            except SpecialiseSignal as signal:
                self.specialise(signal, call, shapes)
            except MlcError as error:
                if family.static_because is not None or not self.chosen_symbols(call, shapes):
                    raise
                family.static_because = str(error).partition("\n")[0]
                self.remarks.append(f"each size has its own program: {family.static_because}")

    def trace(self, call: Call, shapes: Sequence[Any]) -> Program:
        """The program for given shapes."""
        from mlc.frontend.program import trace_program

        name = self.function.__name__
        numerics = self.settings.numerics
        return trace_program(self.function, name, self.parameters, call, shapes, numerics=numerics)

    def chosen_symbols(self, call: Call, shapes: Sequence[Any]) -> bool:
        """Whether a size is symbolic by the policy and not by the user's wish."""
        return any(
            dim.constant is None and leaf.kind == "array" and self.policy.explicit(leaf, axis) is None
            for leaf, shape in zip(call.leaves, shapes, strict=True)
            for axis, dim in enumerate(shape)
        )

    def reason(self, call: Call, shapes: Sequence[Any]) -> str | None:
        """Why a program with these shapes is made; None where there is one that does not fit."""
        programs = self.ready.get(self.policy.family_key(call), [])
        same = [r for r in programs if r.shapes == tuple(shapes)]
        if same and any(r.fits_outside(call) for r in same):
            return None
        if same:
            return f"changed since the last program: {', '.join(same[0].changed(call)) or 'captured values'}"
        if not programs:
            others = "first call" if not self.ready else "first call with these dtypes, ranks, layouts and static values"
            return others
        symbols = sorted({s for shape in shapes for dim in shape for s in dim.symbols()})
        if symbols:
            return f"sizes differ from those of earlier calls: {', '.join(symbols)} became symbolic"
        return "sizes differ from those of earlier calls"

    def specialise(self, signal: Any, call: Call, shapes: Sequence[Any]) -> None:
        """Fixes what tracing asked for; an error where the user wants it dynamic."""
        from mlc.frontend.errors import ConcretizationError

        before = len(self.forced_static) + len(self.policy.pinned)
        self.forced_static |= signal.arguments
        for leaf, shape in zip(call.leaves, shapes, strict=True):
            for axis, dim in enumerate(shape):
                if not dim.symbols() & signal.symbols:
                    continue
                if leaf.kind == "spec" or self.policy.explicit(leaf, axis) is not None:
                    raise ConcretizationError(
                        f"axis {axis} of {leaf.name} is declared dynamic ({dim}), but its size decides about"
                        f" the program: {signal.because}. Leave the axis out of dynamic=, or keep the size symbolic."
                    )
                self.policy.pinned.add((leaf.name, axis))
        if len(self.forced_static) + len(self.policy.pinned) == before:
            raise ConcretizationError(f"the program depends on a value that is not known: {signal.because}")
        self.remarks.append(f"specialised: {signal.because}")

    # looking inside

    def reference(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call by the interpreter."""
        from mlc.frontend.ready import Ready

        values = self.parameters.bind(args, kwargs)
        call, program, shapes, _ = self.traced_static(values)
        ready = Ready(program, tuple(shapes), call)
        ready.interpret()
        return ready.run(call)

    def traced_static(self, values: list[Any]) -> tuple[Call, Program, Sequence[Any], str]:
        """The program for exactly these sizes; leaves no trace in the statistics."""
        from mlc.frontend.errors import SpecialiseSignal

        forced = set(self.forced_static)
        while True:
            call = self.parameters.call(values, forced)
            shapes = _static_shapes(call)
            try:
                return call, self.trace(call, shapes), shapes, "reference"
            except SpecialiseSignal as signal:
                if not signal.arguments - forced:
                    self.specialise(signal, call, shapes)
                forced |= signal.arguments

    def lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
        """The traced program with the sizes the user gives."""
        from mlc.frontend.lowered import Lowered

        values = self.parameters.bind(args, kwargs)
        forced = self.forced_static
        call = self.parameters.call(values, forced)
        explicit = any(leaf.kind == "spec" for leaf in call.leaves) or self.settings.dynamic is False
        traced = self.traced_static(values) if explicit else self.traced(values)
        call, program, shapes, _ = traced
        return Lowered(program, self.settings, call, tuple(shapes))

    def stats(self) -> Stats:
        """The counters."""
        native = sum(ready.native_calls for ready in self.chain)
        fresh = [a for a in self.artifacts if not a.from_cache]
        return Stats(
            calls=self.calls + native,
            compilations=len(fresh),
            cache_hits=len(self.artifacts) - len(fresh),
            trace_s=sum(a.trace_s for a in self.artifacts),
            compile_s=sum(a.compile_s for a in self.artifacts),
            artifacts=tuple(self.artifacts),
            remarks=tuple(self.remarks),
        )


OUTSIDE_ASSUMPTIONS = "sizes outside what the symbolic program assumes"


def _static_shapes(call: Call) -> list[Any]:
    """The sizes of this call; those of a `TensorSpec` as the user gave them."""
    from mlc.dialects.dims import Dim

    return [
        leaf.value.dims if leaf.kind == "spec" else tuple(Dim.const(size) for size in leaf.shape)
        for leaf in call.leaves
    ]


def _with_annotations(parameters: Parameters, dynamic: Dynamic) -> Dynamic:
    """`dynamic` with the symbols that parameters' `TensorSpec` annotations name."""
    if isinstance(dynamic, bool) and dynamic:
        return True
    given = {} if isinstance(dynamic, bool) else {name: dict(axes) for name, axes in dynamic.items()}
    for parameter in parameters.parameters:
        annotation: object = parameter.annotation
        if isinstance(annotation, TensorSpec):
            symbolic = {k: str(dim) for k, dim in enumerate(annotation.dims) if dim.constant is None}
            if symbolic:
                given.setdefault(parameter.name, symbolic)
    return given or False


# The decorator


@overload
def compile(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def compile(
    *,
    target: str | None = None,
    threads: int | None = None,
    numerics: Numerics = "standard",
    dynamic: Dynamic = False,
    static: Sequence[str] | str = (),
    donate: Sequence[str] | str = (),
    contract: object = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def compile(  # noqa: A001 - mlc.compile
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Any:
    """
    Compiles a NumPy function at its first call.

    `target`: "host" (default), a machine's name, "cuda". `threads`: of its parallel loops.
    `numerics`: "strict", "standard" or "fast". `dynamic`: ``{"x": {0: "B"}}`` names sizes that vary,
    True means all. `static`: parameters whose values are part of the program.
    """
    settings = _settings(options)
    if function is None:
        return lambda f: _compiled(f, settings)
    return _compiled(function, settings)


def _compiled(function: Any, settings: Settings) -> Compiled:
    if isinstance(function, staticmethod | classmethod):
        kind = type(cast("object", function)).__name__
        raise TypeError(f"@mlc.compile stands above @{kind}; put @{kind} above it")
    if isinstance(function, Compiled):
        function = function.__mlc_function__()
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"mlc.compile expects a function, found {function!r}")
    own = type("Compiled", (Compiled,), {"__doc__": Compiled.__doc__, "__module__": Compiled.__module__})
    return own(function, settings)


_NOT_YET = {
    "donate": "arguments are not reused for results yet; leave donate= away",
    "contract": "numerical contracts are not checked yet; leave contract= away",
}


def _settings(options: dict[str, Any]) -> Settings:
    for name, text in _NOT_YET.items():
        if options.pop(name, None):
            from mlc.frontend.errors import NotSupportedError

            raise NotSupportedError(f"mlc.compile: {name}= is not supported yet: {text}")
    static = options.pop("static", ())
    options["static"] = (static,) if isinstance(static, str) else tuple(static)
    known = ("target", "threads", "numerics", "dynamic", "static")
    if unknown := sorted(options.keys() - set(known)):
        accepted = ", ".join((*known, *_NOT_YET))
        raise TypeError(f"mlc.compile has no option {unknown[0]!r}; expected one of {accepted}")
    settings = Settings(**options)
    if settings.numerics not in ("strict", "standard", "fast"):
        raise ValueError(f"numerics={settings.numerics!r}; expected 'strict', 'standard' or 'fast'")
    threads = settings.threads
    if threads is not None and (not isinstance(threads, int) or threads < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"threads={threads!r}; expected an integer >= 1")
    _check_dynamic(settings.dynamic)
    return settings


def _check_dynamic(dynamic: Any) -> None:
    form = 'expected True, or axes with symbols such as dynamic={"x": {0: "B"}}'
    if isinstance(dynamic, bool):
        return
    if not isinstance(dynamic, dict):
        raise TypeError(f"dynamic={dynamic!r}; {form}")
    for axes in cast("dict[object, object]", dynamic).values():
        if not isinstance(axes, dict):
            raise TypeError(f"dynamic={dynamic!r}; {form}")
