"""A traced program to look at and to compile: what `step.lower(…)` gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from mlc.cached_property import cached_property
from mlc.dialects.dims import Shape
from mlc.dialects.errors import MlcError
from mlc.dialects.signature import EntrySignature
from mlc.frontend.call.arguments import Call, known_sizes
from mlc.frontend.call.program import Program
from mlc.frontend.errors import relocated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mlc.dialects.target import CpuTarget, GpuTarget
    from mlc.frontend.call.compile import Settings
    from mlc.levels import Levels
    from mlc.options import Options, RuleFile
    from mlc.passes.report.report import Plan
    from mlc.passes.report.timeline import Memory
    from mlc.passes.tensor.multilinear import Multilinearity
    from mlc.runtime.returned import Returned
    from mlc.stages import Traced

Level = Literal["trace", "tensor", "stablehlo", "plan", "tiles", "loops", "code"]

_LEVELS: tuple[Level, ...] = get_args(Level)


class Lowered:
    """The program for given argument types."""

    def __init__(
        self,
        program: Program,
        settings: Settings,
        parameters: Sequence[str],
        call: Call,
        shapes: tuple[Shape, ...],
    ) -> None:
        self._program = program
        self._settings = settings
        self._parameters = parameters
        self.call = call
        self.shapes = shapes

    @property
    def name(self) -> str:
        """The function's name in the IR."""
        return self._program.name

    @property
    def module(self) -> Any:
        """A copy of the traced module."""
        return self._program.module.clone()

    @property
    def signature(self) -> EntrySignature:
        """Arguments, results and symbols of the native entry."""
        return self._program.signature

    @cached_property
    def levels(self) -> Levels:
        """The program at every level, and what is known of it there; needs no machine to run on."""
        from mlc.levels import Levels

        module, options = self.module, options_of(self._settings, runs=False)
        return Levels(None, self.name, self.signature, options, self.sizes, fresh=module)

    @property
    def traced(self) -> Traced:
        """The first of the stages that the program goes through."""
        from mlc.executable import own_name
        from mlc.levels import Levels
        from mlc.stages import Traced

        module, options = self.module, options_of(self._settings)
        name = own_name(module, options)
        program = Levels(None, name, self.signature, options, self.sizes, fresh=module)
        return Traced(program, self.captured, self._returned)

    @property
    def sizes(self) -> dict[str, int]:
        """The symbols' values in the call that was traced, as far as they are known."""
        leaves = zip(self.call.leaves, self.shapes, strict=True)
        return {
            symbol: size
            for leaf, shape in leaves
            for dim, size in zip(shape, known_sizes(leaf), strict=True)
            if (symbol := dim.single_symbol) is not None and size is not None
        }

    def text(self, level: Level = "tensor") -> str:
        """At the end of a level; "trace": as it was traced; "stablehlo": in that dialect."""
        if level not in _LEVELS:
            raise ValueError(f"no level is called {level!r}; expected one of {', '.join(_LEVELS)}")
        return f"{self.levels.traced}\n" if level == "trace" else self.levels.text(level)

    def asm(self) -> str:
        """The assembly: on a GPU, PTX. Any machine can write it."""
        return self.levels.asm()

    def plan(self, **sizes: int) -> Plan:
        """The kernels and the buffers between them, for these values of the symbols."""
        return self.levels.report(sizes)

    def memory(self, **sizes: int) -> Memory:
        """What a call allocates, for these values of the symbols."""
        return self.levels.memory(sizes)

    def explain(
        self,
        format: Literal["text", "json", "html"] = "text",  # noqa: A002 - as users call it
        **sizes: int,
    ) -> str:
        """Plan, costs, memory step by step, and what passes decided."""
        from mlc.frontend.call.notebook import explanation

        explained = self.levels.explain(sizes)
        if format != "text":
            return explained.said(format)
        return explanation(explained.said("text"), lambda: explained.said("html"))

    @property
    def described(self) -> str:
        """The arguments' types: ``f32[B, 784], int``."""
        from mlc.frontend.call.loaded_program import describe

        return describe(self.call, self.shapes)

    def _repr_html_(self) -> str:
        from mlc.frontend.call.notebook import html_of

        return html_of(self)

    def check_contract(self) -> None:
        """ContractError where the program does not keep what `contract=` promises."""
        if self._settings.contract is not None:
            from mlc.frontend.call.contract import Contract, facts_of

            facts = facts_of(
                self.name, self.levels, self._program, self.call, self._parameters,
                self.levels.known_sizes({}), compilations=1,
            )  # fmt: skip
            Contract.parse(self._settings.contract).check(facts)

    def multilinearity(self, *groups: str | Sequence[str]) -> Multilinearity:
        """
        Whether the results are linear in each named argument while all else is fixed, in exact
        arithmetic; `why` of the answer names what is in the way. Several names in one group vary
        together: ``x + y`` is multilinear in ``("x", "y")``, not in ``"x", "y"``. Names are those
        of parameters, or of leaves such as ``w[0]``. ValueError where an argument is unknown.
        """
        from mlc.dialects.program import entry_function
        from mlc.passes.tensor.expand_transforms import one_function
        from mlc.passes.tensor.multilinear import multilinearity

        names = [self.call.leaves[k].name for k in self._program.inputs]
        hidden = [f"captured array {k}" for k in range(len(self._program.hidden))]
        listed = [(group,) if isinstance(group, str) else tuple(group) for group in groups]
        if unknown := [name for group in listed for name in group if name not in names]:
            raise ValueError(
                f"multilinearity: no argument is called {unknown[0]!r}; expected one of"
                f" {', '.join(names)}"
            )
        positions = [[names.index(name) for name in group] for group in listed]
        function = entry_function(one_function(self._program.module))
        return multilinearity(function, positions, [*names, *hidden])

    def arguments(self) -> list[Any]:
        """What the native entry takes in the call that was traced."""
        inputs = [self.call.leaves[k].value for k in self._program.inputs]
        return [*inputs, *self.captured]

    @property
    def captured(self) -> Sequence[NDArray[Any]]:
        """The arrays from outside that it reads, the last arguments of the native entry, now."""
        return self._program.read_hidden(self.call.values) or ()

    def compile(self) -> Any:
        """The compiled program."""
        made = executable_of(self._program, self._settings, slow=None)
        made.captured, made.returned = self.captured, self._returned
        return made

    def _returned(self) -> Returned | None:
        from mlc.frontend.call.returning import returned_of

        return returned_of(self._program)


def is_gpu(settings: Settings) -> bool:
    """Whether the function is for a GPU, without asking for one."""
    from mlc import knobs
    from mlc.dialects.target.known import GPUS

    name = settings.target or knobs.current().target or "host"
    return name.startswith("cuda") or name in {target.name for target in GPUS}


def options_of(settings: Settings, *, runs: bool = True) -> Options:
    """The pipeline's options. `runs`: whether "cuda" must be a GPU of this process."""
    from mlc import knobs
    from mlc.options import Options

    return Options(
        target=_target_of(settings, runs),
        threads=settings.threads,
        numerics=settings.numerics,
        fusion=settings.fusion or knobs.current().fusion,
        peak_bytes=settings.peak_bytes,
        schedule=settings.schedule,
        tune=settings.tune,
        discover=_rules_of(settings),
    )


def _rules_of(settings: Settings) -> RuleFile | None:
    """What to search with; MlcError where the file cannot be read."""
    from mlc.options import RuleFile

    path = settings.discover
    if path is None or path is True:
        return None if path is None else RuleFile(by=settings.discover_by)
    try:
        return RuleFile(path, Path(path).read_text(encoding="utf-8"), settings.discover_by)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        expected = "True, or a file of rewrite rules (docs/rules.md)"
        raise MlcError(f"discover={path!r}: {why}; expected {expected}") from None


def _target_of(settings: Settings, runs: bool) -> CpuTarget | GpuTarget:
    """The machine that the function names, else the environment, else this one."""
    from mlc import knobs
    from mlc.dialects.target.known import named_target
    from mlc.runtime.probe import host_target

    def cuda() -> GpuTarget:
        from mlc.runtime.cuda import described_gpu, gpu_target

        return gpu_target() if runs else described_gpu()

    name = settings.target or knobs.current().target or "host"
    try:
        return named_target(name, host=host_target, cuda=cuda)
    except ValueError as error:
        if settings.target is not None:
            raise
        remedy = "unset MLC_TARGET to compile for the machine mlc runs on"
        raise knobs.KnobError(f"MLC_TARGET={name}: {error}; {remedy}") from None


def executable_of(program: Program, settings: Settings, *, slow: Callable[..., Any] | None) -> Any:
    """The program's code, from the caches where they have it."""
    from mlc.executable import compile_module

    options = options_of(settings)
    try:
        # the pipeline rewrites the module it is given; ours stays for `text` and the interpreter
        module = program.module.clone()
        return compile_module(module, program.signature, options, slow=slow, source=program.module)
    except MlcError as error:
        if "location" not in error.__dict__:
            raise
        raise relocated(error) from None  # of a derivative, which is taken only now
