"""The programs of one compiled function, and the choice among them at a call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from mlc.dialects.errors import MlcError
from mlc.dialects.typical import ATTRIBUTE as TYPICAL
from mlc.dialects.typical import typical_attribute
from mlc.fork import RenewedLock
from mlc.frontend.call.arguments import Call, Parameters
from mlc.frontend.call.changing import Changing
from mlc.frontend.call.donation import check_donated, donated_leaves
from mlc.frontend.call.fast_paths import MISS, Route, make_route, missing
from mlc.frontend.call.loaded_program import CaughtError, Ready, describe
from mlc.frontend.call.lowered import Lowered, is_gpu
from mlc.frontend.call.notebook import users_traceback
from mlc.frontend.call.program import Program, Tracing, trace_program
from mlc.frontend.call.specialisation import (
    Family,
    Policy,
    explain_mismatch,
    match_sizes,
    static_shapes,
    symbols_of,
    typical_sizes,
    with_annotations,
)
from mlc.frontend.call.stats import Artifact, Stats
from mlc.frontend.errors import ConcretizationError, NotSupportedError, SpecialiseSignal
from mlc.frontend.trace import access
from mlc.frontend.trace.kinds import is_scalar
from mlc.frontend.trace.source import definition_of
from mlc.frontend.trace.trace import current
from mlc.runtime.float_flags import float_flags_kept
from mlc.waiting import waiting

if TYPE_CHECKING:
    from mlc.frontend.call.changing import Changing
from mlc.frontend.call.compile import Compiled, Settings

MAX_CHAIN = 4
"""Native entries asked one after another before Python dispatches (each costs about 20 ns)."""

MAX_VARIANTS = 32
"""Programs kept that differ only in values read from outside."""

MAX_ALIKE = 8
"""Programs of the same symbols, for sizes of which the function does one thing or another."""

MAX_ROUTES = 8
"""Short ways tried before the full dispatch (a miss costs about 0.5 us)."""


class Dispatcher:
    """The programs of one function, and the choice among them."""

    def __init__(
        self, owner: Compiled[..., Any], function: Callable[..., Any], settings: Settings
    ) -> None:
        self.owner = owner
        self.function = function
        self.settings = settings
        on_gpu = is_gpu(settings)
        self.parameters: Parameters = Parameters(
            function, settings.static, settings.donate, on_gpu=on_gpu
        )
        self.policy: Policy = Policy(with_annotations(self.parameters, settings.dynamic))
        self.families: dict[Hashable, Family] = {}
        self.ready: dict[Hashable, list[Ready]] = {}
        self.forced_static: set[str] = set()
        self.changing = Changing(symbols_of(self.policy.dynamic))
        self.not_compiled: set[Hashable] = set()
        self.remarks: list[str] = []
        self.artifacts: list[Artifact] = []
        self.calls = 0
        self.argument_bytes_copied = 0
        self.chain: list[Ready] = []  # those whose native entries stand before this dispatcher
        self.routes: list[Route] = []
        self.positional_count = self.parameters.count if self.parameters.plain else -1
        self.lock = RenewedLock()

    # calls

    def slow(self, *args: Any, **kwargs: Any) -> Any:
        """The call where there is no native entry in front, and what native entries pass on."""
        values: Sequence[Any] | None = args
        if kwargs or len(args) != self.positional_count:
            values = self.parameters.ordered(args, kwargs)
            if values is not None and self.chain:
                return self.chain[0].native_builtin(*values)
        if values is not None:
            failed = False
            for route in self.routes:
                try:
                    outcome = route(values)
                except CaughtError:
                    failed = True  # what is raised next has nothing to do with it
                    break
                if outcome is not MISS:
                    self.calls += 1
                    return outcome
            if failed:
                self.calls += 1
                return self.run_again(*args, **kwargs)
        try:
            return self.call(args, kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is goes on
            raise error.with_traceback(users_traceback(error))  # noqa: B904 - the same error

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The full dispatch."""
        if current() is not None:
            return access.call(self.function, args, kwargs)
        self.calls += 1
        values = self.parameters.bind(args, kwargs)
        call = self.call_of(values)
        self.check(call)
        self.count_copies(call)
        found = self.find(call)
        if found is None:
            with self.lock(), float_flags_kept():
                found = self.find(call) or self.compiled(values, call)
        if found is None:
            return self.function(*args, **kwargs)
        ready, call = found
        return self._run(ready, call, args, kwargs)

    def call_of(self, values: list[Any]) -> Call:
        """The call, as far as it is known what programs are for."""
        changing = self.changing
        return self.parameters.call(values, self.forced_static, changing.as_sizes, changing.limits)

    def _run(self, ready: Ready, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call by its program, or by Python where the function may catch what it raises."""
        with suppress(CaughtError):
            return ready.run(call)
        if ready.program.outcome is not None:
            ready.program.outcome.check_python_may_run()
        run = self.function if ready.program.catches else self.run_again
        return run(*args, **kwargs)  # nothing has been written or printed yet

    def run_again(self, *args: Any, **kwargs: Any) -> Any:
        """A call that has failed, by Python, which raises what comes first after what is before."""
        result = self.function(*args, **kwargs)
        text = f"{self.owner.__name__} ran as Python: compiled, it ended with an error."
        warnings.warn(text, RuntimeWarning, stacklevel=2)
        return result

    def compiled(self, values: list[Any], call: Call) -> tuple[Ready, Call] | None:
        """As `compile`; None where the function runs as Python because it cannot be compiled."""
        if self.settings.fallback is None:
            return self.compile(values)
        key = self.policy.family_key(call)
        if key in self.not_compiled:
            return None
        try:
            return self.compile(values)
        except MlcError as error:
            self.not_compiled.add(key)
            text = f"{self.owner.__name__} runs as Python: {error}"
            self.remarks.append(text)
            site = error.__dict__.get("site") or definition_of(self.function)
            place = (site.filename, site.line) if site is not None else ("<unknown>", 1)
            warnings.warn_explicit(text, RuntimeWarning, *place)
            return None

    def count_copies(self, call: Call) -> None:
        """Counts the arrays that compiled code cannot address as they are."""
        for leaf in call.leaves:
            if because := leaf.copied_because:
                self.argument_bytes_copied += leaf.value.nbytes
                remark = f"argument {leaf.name} is copied at each call: {because}"
                if remark not in self.remarks:
                    self.remarks.append(remark)

    def check(self, call: Call) -> None:
        """Raises where an option does not fit the arguments."""
        self.policy.check(call)
        if self.settings.donate:
            groups = donated_leaves(call, self.settings.donate, self.parameters.names)
            check_donated(call, [k for group in groups for k in group], self.owner.__name__)

    def find(self, call: Call) -> tuple[Ready, Call] | None:
        """The program that serves the call, if there is one."""
        for ready in self.ready.get(self.policy.family_key(call), ()):
            if ready.fits(call):
                return ready, call
        return None

    def check_contract(self, text: str, ready: Ready, call: Call) -> None:
        """ContractError where a new program does not keep the function's contract."""
        from mlc.frontend.call.contract import Contract, facts_of

        facts = facts_of(
            self.owner.__name__, ready.executable.levels, ready.program, call,
            self.parameters.names, match_sizes(call, ready.shapes) or {},
            compilations=len(self.artifacts) + 1,
        )  # fmt: skip
        Contract.parse(text).check(facts)

    # compiling

    def compile(self, values: list[Any]) -> tuple[Ready, Call]:
        """A new program for the call, and the call as that program takes it."""
        with waiting(self.owner.__name__):
            call, program, shapes, because = self.traced(values)
            ready = Ready(program, tuple(shapes))
            try:
                ready.build(self.settings, slow=missing)
            except MlcError as error:
                if not self.is_apart(error):
                    raise
                ready = None
        if ready is None:
            return self.compile(values)
        programs = self.ready.setdefault(self.policy.family_key(call), [])
        if self.settings.contract is not None:
            self.check_contract(self.settings.contract, ready, call)
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
        for unused in program.unused:
            remark = f"donated argument {unused}: no result of its type is left to take its place"
            if remark not in self.remarks:
                self.remarks.append(remark)
        self.install(ready, call)
        return ready, call

    def install(self, ready: Ready, call: Call) -> None:
        """Puts the program's native entry in front, or else a short way to it."""
        entry, program = ready.native_entry, ready.program
        assert entry is not None
        plain = all(leaf.kind in ("array", "float", "int") for leaf in call.leaves)
        whole = len(call.leaves) == self.parameters.count and self.parameters.plain
        python = program.catches or ready.again
        alone = program.needs_nothing_from_outside and program.direct_result and not python
        if plain and whole and alone and len(self.chain) < MAX_CHAIN:
            entry.set_slow(self.chain[0].native_builtin if self.chain else self.slow)
            self.chain.insert(0, ready)
            type(self.owner).__call__ = entry.builtin
            if not any(is_scalar(leaf.given) for leaf in call.leaves):
                return
        again = self.run_again if ready.again else None
        made = make_route(program, call, ready.shapes, entry.builtin, self.slow, again)
        front = self.slow  # a bound method: no frame of `__call__`
        if made is not None:
            self.routes = [made[0], *self.routes][:MAX_ROUTES]
            front = made[1] if self.parameters.plain else front
        if not self.chain:
            type(self.owner).__call__ = front

    def traced(
        self, values: list[Any], *, guarded: bool = True
    ) -> tuple[Call, Program, Sequence[Any], str]:
        """The program for a call, traced again for what tracing found that it must know."""
        while True:
            call = self.call_of(values)
            if self.changing.counts(call):
                call = self.call_of(values)
            family = self.families.setdefault(self.policy.family_key(call), Family())
            shapes = self.policy.shapes(call, family)
            if (fault := explain_mismatch(call, shapes)) is not None:
                raise fault
            because = self.reason(call, shapes)
            for ready in self.ready.get(self.policy.family_key(call), ()):
                self.changing.learn(ready.program.guards, call.values)
            if because is None:
                shapes, because = static_shapes(call), OUTSIDE_ASSUMPTIONS
            try:
                program = self.trace(call, shapes, guarded)
                if program.ints.is_outside:
                    continue
                if program.assumptions_hold(match_sizes(call, shapes) or {}, call.values):
                    return call, program, shapes, because
                shapes, because = static_shapes(call), OUTSIDE_ASSUMPTIONS
                program = self.trace(call, shapes, guarded)
                if program.assumptions_hold({}, call.values):
                    return call, program, shapes, because
                self.is_apart(because)
            except SpecialiseSignal as signal:
                self.specialise(signal, call, shapes)
            except Exception as error:
                if self.is_apart(error):
                    continue
                if not isinstance(error, MlcError):
                    raise
                if self.changing.fix(list(self.changing.inputs.values())):
                    continue
                if family.static_because is not None or not self.chosen_symbols(call, shapes):
                    raise
                if not self.policy.ones_apart and family.has_ones():
                    self.policy.ones_apart = True
                    self.families.clear()
                    continue
                family.static_because = str(error).partition("\n")[0]
                self.remarks.append(f"each size has its own program: {family.static_because}")

    def is_apart(self, error: Exception | str) -> bool:
        """Whether an error may be due to a number that was a size: its value is apart."""
        name = self.changing.failed()
        if name is None:
            return False
        remark = f"a value of {name} has its own program: {str(error).partition(chr(10))[0]}"
        if remark not in self.remarks:
            self.remarks.append(remark)
        return True

    def trace(self, call: Call, shapes: Sequence[Any], guarded: bool) -> Program:
        """The program for given shapes; `guarded`: its guards are asked at each call."""
        self.changing.begin()
        symbols = {s for shape in shapes for dim in shape for s in dim.symbols()}
        if symbols and self.settings.peak_bytes is not None:
            raise NotSupportedError(
                f"{self.owner.__name__}: peak_bytes= needs sizes that are known when the"
                f" function is compiled; {', '.join(sorted(symbols))} varies: leave it out of"
                " dynamic= and of TensorSpec"
            )
        how = Tracing(
            numerics=self.settings.numerics,
            donated=self.settings.donate,
            varying=self.changing.inputs,
            as_sizes=self.changing.as_sizes,
            limits=self.changing.limits,
            sizes=self.policy.chosen_sizes(call, shapes),
            guarded=guarded,
        )
        name = self.owner.__name__
        program = trace_program(self.function, name, self.parameters, call, shapes, how)
        self.changing.limit(program.ints.limits)
        typical = typical_sizes(self.settings.typical, call, shapes)
        if named := {name: typical[name] for name in typical if name in symbols}:
            program.module.attributes[TYPICAL] = typical_attribute(named)
        return program

    def chosen_symbols(self, call: Call, shapes: Sequence[Any]) -> bool:
        """Whether a size is symbolic by the policy and not by the user's wish."""
        return any(
            dim.constant is None
            and leaf.kind == "array"
            and self.policy.explicit(leaf, axis) is None
            for leaf, shape in zip(call.leaves, shapes, strict=True)
            for axis, dim in enumerate(shape)
        )

    def reason(self, call: Call, shapes: Sequence[Any]) -> str | None:
        """Why a program with these shapes is made; None where there is one that does not fit."""
        programs = self.ready.get(self.policy.family_key(call), [])
        same = [r for r in programs if r.shapes == tuple(shapes)]
        if same and any(r.fits_outside(call) for r in same):
            decided = any(a.decided for r in same for a in r.program.assumptions)
            return DECIDES_OTHERWISE if decided and len(same) <= MAX_ALIKE else None
        if same:
            changed = ", ".join(same[0].changed(call)) or "captured values"
            return f"changed since the last program: {changed}"
        if not programs:
            return (
                "first call"
                if not self.ready
                else "first call with these dtypes, ranks, layouts and static values"
            )
        symbols = sorted({s for shape in shapes for dim in shape for s in dim.symbols()})
        if symbols:
            return f"sizes differ from those of earlier calls: {', '.join(symbols)} became symbolic"
        return "sizes differ from those of earlier calls"

    def specialise(self, signal: Any, call: Call, shapes: Sequence[Any]) -> None:
        """Fixes what tracing asked for; an error where the user wants it dynamic."""
        if self.changing.fix(signal.arguments) or self.changing.is_no_size(signal.symbols):
            self.remarks.append(f"specialised: {signal.because}")
            return
        self.changing.decides({x.name: x.value for x in call.leaves if x.name in signal.arguments})
        before = len(self.forced_static) + len(self.policy.pinned)
        self.forced_static |= signal.arguments
        for leaf, shape in zip(call.leaves, shapes, strict=True):
            for axis, dim in enumerate(shape):
                if not dim.symbols() & signal.symbols:
                    continue
                said = self.policy.explicit(leaf, axis) is not None
                if said or (leaf.kind == "spec" and leaf.value.dims[axis].constant is None):
                    error = ConcretizationError(
                        f"axis {axis} of {leaf.name} is declared dynamic ({dim}), but its"
                        " size decides"
                        f" about the program: {signal.because}. Leave the axis out of dynamic=, or"
                        " keep the size symbolic."
                    )
                    error.symbols = signal.symbols
                    raise error
                self.policy.pinned.add((leaf.name, axis))
        if len(self.forced_static) + len(self.policy.pinned) == before:
            raise ConcretizationError(
                f"the program depends on a value that is not known: {signal.because}"
            )
        self.remarks.append(f"specialised: {signal.because}")

    # looking inside

    def reference(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call by the interpreter."""
        values = self.parameters.bind(args, kwargs)
        call, program, shapes, _ = self.traced_static(values)
        self.check(call)
        ready = Ready(program, tuple(shapes))
        ready.interpret()
        return self._run(ready, call, args, kwargs)

    def traced_static(self, values: list[Any]) -> tuple[Call, Program, Sequence[Any], str]:
        """The program for exactly these sizes; leaves no trace in the statistics."""
        forced = set(self.forced_static)
        by_policy = True  # sizes of specs that `dynamic=True` would have vary do so
        while True:
            call = self.parameters.call(values, forced)
            shapes = self.policy.declared(call) if by_policy else static_shapes(call)
            try:
                program = self.trace(call, shapes, guarded=False)
                if not program.ints.is_outside:
                    return call, program, shapes, "reference"
                forced |= program.ints.limits.keys()
            except MlcError:
                if self.policy.dynamic is not True or shapes == static_shapes(call):
                    raise
                by_policy = False
            except SpecialiseSignal as signal:
                if not signal.arguments - forced:
                    self.specialise(signal, call, shapes)
                forced |= signal.arguments

    def lower(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Lowered:
        """The traced program with the sizes the user gives."""
        values = self.parameters.bind_specs(args, kwargs)
        call = self.parameters.call(values, self.forced_static)
        self.check(call)
        explicit = (
            any(leaf.kind == "spec" for leaf in call.leaves) or self.settings.dynamic is False
        )
        traced = self.traced_static(values) if explicit else self.traced(values, guarded=False)
        call, program, shapes, _ = traced
        return Lowered(program, self.settings, self.parameters.names, call, tuple(shapes))

    def stats(self) -> Stats:
        """The counters."""
        programs = [ready for family in self.ready.values() for ready in family]
        native = sum(ready.native_calls for ready in programs if ready.native_entry is not None)
        fresh = [a for a in self.artifacts if not a.from_cache]
        return Stats(
            calls=max(self.calls, native),  # native calls include those that Python passed on
            compilations=len(fresh),
            cache_hits=len(self.artifacts) - len(fresh),
            trace_s=sum(a.trace_s for a in self.artifacts),
            compile_s=sum(a.compile_s for a in self.artifacts),
            argument_bytes_copied=self.argument_bytes_copied,
            artifacts=tuple(self.artifacts),
            remarks=tuple(self.remarks),
        )


DECIDES_OTHERWISE = "sizes for which the function decides otherwise"
OUTSIDE_ASSUMPTIONS = "sizes outside what the symbolic program assumes"
