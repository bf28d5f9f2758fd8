"""
The stages that a program goes through, each as a thing to look at and to go on from:

    Traced -> Planned -> Lowered -> Assembled -> Executable

Each has `module`, `signature` and `options`, prints as its text, and gives the next one by
`next()`; none is changed by those behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp

from mlc.artifact import Artifact, CodeUnit
from mlc.backends import backend_of
from mlc.building import build
from mlc.dialects.launch import LaunchPlan
from mlc.dialects.signature import EntrySignature
from mlc.executable import Executable, nothing_made, refusing
from mlc.levels import Levels
from mlc.options import Options
from mlc.passes.report.report import Plan
from mlc.passes.report.timeline import Memory
from mlc.pipeline import Report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mlc.runtime.returned import Returned


class Stage:
    """
    A program at one stage. `captured`: arrays of the surroundings, its last arguments; `returned`:
    what a function of Python's makes of its results.
    """

    def __init__(
        self,
        program: Levels,
        captured: Sequence[NDArray[Any]] = (),
        returned: Callable[[], Returned | None] = nothing_made,
    ) -> None:
        self._program, self.captured, self.returned = program, tuple(captured), returned

    @property
    def name(self) -> str:
        """The function's."""
        return self._program.name

    @property
    def signature(self) -> EntrySignature:
        """Arguments, results and symbols."""
        return self._program.signature

    @property
    def options(self) -> Options:
        """What it is compiled with, its machine among them."""
        return self._program.options

    @property
    def module(self) -> ModuleOp:
        """A new module of the program at this stage."""
        return self._program.at_trace()

    def __str__(self) -> str:
        return str(self.module)

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {self.name} for {self.options.target.name}>"


class Traced(Stage):
    """Functions of tensor ops, as the source says them; derivatives and batches are ops."""

    def next(self) -> Planned:
        """Derivatives and batches written out, ops rewritten, kernels and buffers chosen."""
        return Planned(self._program, self.captured, self.returned)


class Planned(Stage):
    """One function of kernels, and the buffers between them."""

    @property
    def module(self) -> ModuleOp:
        return self._program.plan().clone()

    def plan(self, **sizes: int) -> Plan:
        """The kernels, for these values of the symbols."""
        return self._program.report(sizes)

    def memory(self, **sizes: int) -> Memory:
        """What a call allocates, for these values of the symbols."""
        return self._program.memory(sizes)

    def next(self) -> Lowered:
        """Its kernels as loops."""
        return Lowered(self._program, self.captured, self.returned)


class Lowered(Stage):
    """Loops, of which the code is written."""

    @property
    def module(self) -> ModuleOp:
        return self._program.loops().clone()

    @property
    def units(self) -> tuple[CodeUnit, ...]:
        """The modules of LLVM IR."""
        return tuple(self._program.units())

    def next(self) -> Assembled:
        """Its code, compiled."""
        artifact = build(self.module, self._program, Report(), fresh=False)
        return Assembled(self._program, self.captured, self.returned, artifact)


class Assembled(Stage):
    """The code as bytes, beside the program that it is of."""

    def __init__(
        self,
        program: Levels,
        captured: Sequence[NDArray[Any]],
        returned: Callable[[], Returned | None],
        artifact: Artifact,
    ) -> None:
        super().__init__(program, captured, returned)
        self.artifact = artifact

    def __str__(self) -> str:
        host = self.artifact.host
        codes = (*self.artifact.kernels, *(() if isinstance(host, LaunchPlan) else host))
        return "\n".join(f"{code.name}: {len(code.image)} bytes" for code in codes)

    def next(self) -> Executable:
        """The code, loaded into this process."""
        options, target = self.options, self.options.target
        slow = refusing(self.name, self.signature)
        entry = backend_of(target).load(self.artifact, target, slow, options.threads)
        found = Executable(
            lambda: self._program, options, self.artifact, entry, from_cache=False, times_s={}
        )
        found.captured, found.returned = self.captured, self.returned
        return found
