"""`mlc blame`: the first step of a compilation that changes what a program means, made small."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlc.backends import Level, Step
from mlc.calls import ASSUMED_SIZE, load_arrays, random_inputs
from mlc.dialects.dims import as_tensor
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.errors import CompilerBug, MlcError
from mlc.dialects.program import UNROLLED, entry_function
from mlc.dialects.tensor.op import tensor_fault
from mlc.differences import Transformed, transforms_of
from mlc.executable import compile_module
from mlc.frontend.importers.mlir import signature_of
from mlc.lazy_dataclass import dataclass
from mlc.levels import Levels
from mlc.options import Options
from mlc.passes.remarks import place
from mlc.passes.tensor.expand_transforms import one_function
from mlc.passes.tensor.rules import limited
from mlc.pipeline import apply_step, prepare, steps_of
from mlc.programs import Opened, portable_text
from mlc.reduce import Array, Case, reduced
from mlc.runtime.interpret import interpret
from mlc.waiting import progress

TOLERANCE = {8: 1e-9, 4: 1e-3, 2: 0.1, 1: 0.5}
"""Of floats by their bytes, of the largest result: more than sums in another order differ by."""

INTERPRETED: tuple[Level, ...] = ("tensor", "plan", "tiles")
CODE = "code"
FEW = 6  # ops that are said of a small program


@dataclass(frozen=True)
class Blame:
    """The step that is wrong, its rule if it has rules, and a small program that shows it."""

    step: str
    stage: str
    fault: str
    rule: str | None
    case: Case
    program: Case | None = None
    """What uses the small program wrong: of derivatives and batches."""

    def __str__(self) -> str:
        is_code = self.step == CODE
        where = "loops, or code of them" if is_code else f"pass {self.step} ({self.stage})"
        rule = f", rule {self.rule}" if self.rule else ""
        lines = [f"{where}{rule}: {self.fault}", *(f"  {text}" for text in self.ops())]
        return "\n".join(lines)

    def ops(self) -> list[str]:
        """The ops of the small program, the last ones first."""
        said = [_said(op) for op in reversed(self.case.ops())]
        return said[:FEW] + [f"and {len(said) - FEW} more"] * (len(said) > FEW)

    def write(self, stem: str) -> list[Path]:
        """The small program as text, and its inputs."""
        text, inputs = Path(f"{stem}.mlir"), Path(f"{stem}.npz")
        case = self.program or self.case
        module = case.module.clone()
        entry_function(module).attributes.pop(UNROLLED, None)
        text.write_text(portable_text(module), encoding="utf-8")
        named: Mapping[str, Any] = {f"input_{k}": x for k, x in enumerate(case.arrays)}
        np.savez(inputs, **named)
        return [text, inputs]


def blame(levels: Levels, arrays: Sequence[Array], sizes: Mapping[str, int]) -> Blame | None:
    """
    The first step after which the interpreter, or in the end compiled code, gives other results for
    these arrays than the program does as it was traced; None where all agree. Derivatives are
    compared with differences, and batches with examples one by one, first of all. Each step is said
    on a terminal.
    """
    options, traced = levels.options, levels.at_trace()
    for check, case in transforms_of(traced, arrays, sizes):
        if check.fault(case):
            return _small(case, check, "tensor")
    module = one_function(traced)
    prepare(module, options)
    start = Case(module, arrays, sizes)
    wanted = start.results()
    checks = [(stage, check) for stage in INTERPRETED for check in _checks(stage, options)]
    for number, (stage, check) in enumerate(checks):
        progress(check.name.removeprefix("mlc-")[:15], number / len(checks))
        case = Case(module, arrays, sizes)
        if check.fault(case, wanted):
            return _small(case, check, stage)
        if stage != "tiles":
            module = check.made
    if options.target.name == "host":
        check = _Compiled(options)
        if check.fault(start, wanted):
            return _small(start, check, CODE)
    return None


def blame_program(program: Opened, inputs: Sequence[str], seed: int) -> Blame | None:
    """
    `blame` of what a command line names, with arrays from files or at random; symbols without a
    size have 8. MlcError where the files hold too few arrays, or too many.
    """
    levels = program.levels
    sizes = {**dict.fromkeys(levels.signature.symbols, ASSUMED_SIZE), **levels.sizes}
    own = len(levels.signature.args) - len(program.captured)
    arrays = load_arrays(inputs) if inputs else random_inputs(levels.signature, sizes, seed)[:own]
    if len(arrays) != own:
        raise MlcError(f"--inputs: expected {own} arrays, found {len(arrays)}")
    try:
        return blame(levels, [*arrays, *program.captured], {} if inputs else sizes)
    finally:
        progress("", 0.0)


def _checks(stage: Level, options: Options) -> list[_After]:
    """Of each step; of tiles, which are made from plans, with those before it."""
    steps = steps_of(stage, options)
    first = [0 if stage == "tiles" else k for k in range(len(steps))]
    return [_After(steps[a : k + 1], options) for k, a in enumerate(first)]


class _After:
    """A pass, perhaps behind others, as what may be at fault."""

    def __init__(self, steps: Sequence[Step], options: Options) -> None:
        self.name = steps[-1].name
        self.made = ModuleOp([])
        """What it has made last."""
        self._steps = steps
        self._options = options

    def fault(self, case: Case, wanted: Sequence[Array] | None = None) -> str:
        """What is wrong with the results; empty where nothing is. The case stays as it is."""
        return _fault(case, lambda: self._results(case), wanted)

    def rule(self, case: Case) -> str | None:
        """The rule whose application makes the results wrong; None: it is no pass of rules."""
        with limited() as applied:
            self.fault(case)
        low, high = 0, len(applied)  # right after so many applications, and wrong
        while high - low > 1:
            most = (low + high) // 2
            with limited(most):
                wrong = self.fault(case)
            low, high = (low, most) if wrong else (most, high)
        return applied[high - 1] if applied else None

    def _results(self, case: Case) -> list[Array]:
        self.made = case.module.clone()
        for step in self._steps:
            self.made = apply_step(step, self.made, self._options, Context())
        return interpret(self.made, case.arrays, case.sizes)


class _Compiled:
    """All that follows the levels that are interpreted."""

    name = CODE

    def __init__(self, options: Options) -> None:
        self._options = options

    def fault(self, case: Case, wanted: Sequence[Array] | None = None) -> str:
        """As `_After.fault`."""
        return _fault(case, lambda: self._results(case), wanted)

    def rule(self, case: Case) -> str | None:
        """None."""

    def _results(self, case: Case) -> list[Array]:
        signature = signature_of(entry_function(case.module))
        call = compile_module(case.module.clone(), signature, self._options)
        found: Any = call(*(x.copy() for x in case.arrays))
        several = len(signature.results) > 1
        return list(found) if several else [found]


def _small(case: Case, check: _After | _Compiled | Transformed, stage: str) -> Blame:
    wrong = _kind(check.fault(case))
    small = reduced(case, lambda c: _kind(check.fault(c)) == wrong)
    program = check.written(small) if isinstance(check, Transformed) else None
    return Blame(check.name, stage, check.fault(small), check.rule(small), small, program)


def _kind(fault: str) -> str:
    """Of an error its class."""
    return fault.partition(":")[0] if fault.startswith("raises ") else "differs" * bool(fault)


def _fault(
    case: Case, results: Callable[[], Sequence[Array]], wanted: Sequence[Array] | None = None
) -> str:
    """How results differ from the program's own; MlcError where it has none."""
    wanted = case.results() if wanted is None else wanted
    tolerance = _tolerance(case.module)
    try:
        found = results()
    except MlcError as error:
        if isinstance(error, CompilerBug):
            return f"raises {type(error).__name__}: {error}"
        raise
    except Exception as error:  # noqa: BLE001 - whatever a pass raises is its fault
        return f"raises {type(error).__name__}: {error}"
    for k, (x, y) in enumerate(zip(found, wanted, strict=True)):
        if fault := difference(np.asarray(x), y, tolerance):
            return f"result {k}: {fault}"
    return ""


def _tolerance(module: ModuleOp) -> float:
    """For what is computed with the shortest floats of a program."""
    values = (x for op in module.walk() for x in (*op.results, *op.operands))
    kinds = {as_tensor(x.type) for x in values if tensor_fault(x.type) is None}
    dtypes = [dtype_of(x.element_type) for x in kinds]
    return max((TOLERANCE[x.part.bytes] for x in dtypes if x.is_inexact), default=0.0)


def difference(found: Array, wanted: Array, tolerance: float) -> str:
    """The place at which two arrays differ most, and what stands there; empty where none does."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        kinds = [f"{x.dtype}{list(x.shape)}" for x in (wanted, found)]
        return f"expected {kinds[0]}, found {kinds[1]}"
    if not found.size:
        return ""
    apart = _apart(found, wanted, tolerance)
    place = np.unravel_index(int(np.argmax(apart)), found.shape)
    if not apart[place] > 0:
        return ""
    at = f" at [{', '.join(map(str, place))}]" if place else ""
    return f"expected {wanted[place]}, found {found[place]}{at}"


def _apart(found: Array, wanted: Array, tolerance: float) -> Array:
    """How far elements are apart, where that is too far; else 0."""
    if wanted.dtype.kind in "biu":
        return np.asarray(found != wanted).astype(np.float64)
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    x, y = found.astype(wide), wanted.astype(wide)
    with np.errstate(all="ignore"):
        largest = np.max(np.abs(y), where=np.isfinite(y), initial=0.0)
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        both = np.isfinite(x) & np.isfinite(y)
        distance = np.where(both, np.abs(x - y), np.inf)
        return np.where(same | (distance <= tolerance * largest), 0.0, distance)


def _said(op: Operation) -> str:
    at = place(op)
    text = str(op).partition("\n")[0].strip()
    return f"{text}{'  ' * bool(at)}{at}"
