"""
`mlc mutants`: programs beside a given one that are right at most positions of its result, corrected
at the others, and what that should take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mlc.dialects.numerics import MODES
from mlc.dialects.program import entry_function
from mlc.frontend.importers.mlir import signature_of
from mlc.lazy_dataclass import dataclass
from mlc.levels import Levels
from mlc.options import Options
from mlc.passes.cost.prediction import call_seconds
from mlc.passes.partial.compare import TESTS, Comparison, Pair, compare, pair_of, share_at
from mlc.passes.partial.correct import corrected, wrong_boxes
from mlc.passes.partial.mutants import Mutant, mutants
from mlc.passes.partial.regions import Box
from mlc.passes.report.explain.markup import seconds
from mlc.passes.rules.residues import PRIME
from mlc.passes.tensor.expand_transforms import one_function
from mlc.passes.tensor.rules import EQUIVALENCE
from mlc.pipeline import prepare
from mlc.programs import Opened, portable_text
from mlc.waiting import progress

LEAST_SHARE = 0.6
"""Of the positions that are tried first: what is right at fewer is not looked at any more."""
TRIED = 16


@dataclass(frozen=True)
class Found:
    """A mutant, where it is wrong, and the program that it is with corrections."""

    mutant: Mutant
    comparison: Comparison
    module: ModuleOp
    predicted_s: float

    def row(self) -> tuple[str, ...]:
        """Of the table."""
        known = self.comparison
        share, count = f"{known.share():.0%}", str(len(known.regions()))
        return (share, count, str(known.tested), seconds(self.predicted_s), known.equivalence)


@dataclass(frozen=True)
class Search:
    """What was found, the fastest first; `tried` mutants there were, of which few are right."""

    original: ModuleOp
    predicted_s: float
    tried: int
    found: tuple[Found, ...]
    allowed: int
    is_given: bool
    """Whether one mutant was given, and none looked for."""

    def best(self) -> Found | None:
        """The fastest of those that numerics allow."""
        allowed = (f for f in self.found if self.is_allowed(f))
        return next(allowed, None)

    def is_allowed(self, found: Found) -> bool:
        """Whether the numerics of the program allow what a mutant has in common with it."""
        return EQUIVALENCE.index(found.comparison.equivalence) <= self.allowed

    def __str__(self) -> str:
        lines = [f"original, predicted {seconds(self.predicted_s)}:", _text(self.original)]
        if not self.is_given:
            said = f"{self.tried} mutants have its type; {len(self.found)} are right at"
            lines.append(f"{said} {LEAST_SHARE:.0%} of {TRIED} positions or more:")
        rows = [("right", "regions", "tested", "predicted", "class", "mutant")]
        rows += [(*f.row(), f.mutant.says) for f in self.found]
        widths = [max(len(row[k]) for row in rows) for k in range(5)]
        for row in rows if self.found else ():
            cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=True)]
            lines.append("  ".join([*cells, row[-1]]))
        if (best := self.best()) is not None:
            lines += ["", *self.details(best)]
        return "\n".join(lines)

    def details(self, best: Found) -> list[str]:
        """The mutant with its regions, and with corrections."""
        known = best.comparison
        lines = [f"mutant, {best.mutant.says}:", _text(ModuleOp([best.mutant.function.clone()]))]
        if known.why:
            lines.append(f"compared at every position, since theorem 1 does not hold: {known.why}")
        wrong = [spelled(box) for box in wrong_boxes(known)]
        lines.append(f"wrong at {'; '.join(wrong) or 'no position'}")
        tests = f"{known.tests} tests at {known.tested} positions of {len(known.regions())} regions"
        terms = f"{known.tested} ({known.degree}/{PRIME})^{known.tests}"
        terms += f" + {known.doubt:.1e} for comparisons" if known.doubt else ""
        lines.append(
            f"{tests}, modulo {PRIME}, degree {known.degree}: wrong with probability <= {terms}"
            f" = {known.bound:.1e}"
        )
        lines.append(f"class {known.equivalence}")
        faster = best.predicted_s < self.predicted_s
        verdict = "" if faster else f", no faster than the original ({seconds(self.predicted_s)})"
        lines.append(f"with corrections, predicted {seconds(best.predicted_s)}{verdict}:")
        lines.append(_text(best.module))
        return lines


def spelled(box: Box) -> str:
    """A region: the positions along each axis, with a step where only one phase is wrong."""
    return f"[{', '.join(map(str, box))}]"


def search(program: Opened, given: Opened | None = None, tests: int = TESTS) -> Search:
    """The mutants of a program, or the one that is given, by the time that they should take."""
    options = program.levels.options
    original = _module(program)
    function = entry_function(original)
    pair_of(function, function)  # raises PartialError where nothing can be compared with it
    if given is not None:
        listed = [Mutant("as given", entry_function(_module(given)))]
    else:
        listed = list(mutants(function))
    found: list[Found] = []
    for number, mutant in enumerate(listed):
        progress("mutants", number / len(listed))
        pair = pair_of(function, mutant.function)
        if given is None and share_at(pair, TRIED) < LEAST_SHARE:
            continue
        found.append(_found(pair, mutant, function, options, tests))
    progress("", 0.0)
    found.sort(key=lambda f: f.predicted_s)
    allowed = MODES.index(options.numerics)
    return Search(
        original,
        predicted(original, options),
        len(listed),
        tuple(found),
        allowed,
        given is not None,
    )


def _found(pair: Pair, mutant: Mutant, function: FuncOp, options: Options, tests: int) -> Found:
    comparison = compare(pair, tests)
    module = corrected(pair, comparison, function.sym_name.data)
    prepare(module, options)
    return Found(mutant, comparison, module, predicted(module, options))


def _module(program: Opened) -> ModuleOp:
    module = one_function(program.levels.at_trace())
    prepare(module, program.levels.options)
    return module


def predicted(module: ModuleOp, options: Options) -> float:
    """Seconds of a call on one thread, by the plan that the program gets."""
    module = module.clone()
    function = entry_function(module)
    name = function.sym_name.data
    one = replace(options, threads=1, tune=None, discover=None)
    levels = Levels(None, name, signature_of(function), one, {}, fresh=module)
    return call_seconds(levels.plan(), options.target, {})


def _text(module: ModuleOp) -> str:
    return portable_text(module.clone())


def of_command_line(
    program: Opened, given: Opened | None, tests: int, output: str | None
) -> Sequence[str]:
    """What `mlc mutants` prints; the best program with corrections is written to `output`."""
    result = search(program, given, tests)
    lines = [str(result)]
    best = result.best()
    if best is None and result.found:
        lines.append(f"numerics allow none of these classes: {MODES[result.allowed]}")
    elif best is None:
        lines.append("found none: mutants are made of convolutions, with known sizes")
    elif output is not None:
        Path(output).write_text(_text(best.module), encoding="utf-8")
        lines.append(output)
    return lines
