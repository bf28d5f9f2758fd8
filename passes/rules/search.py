"""
Programs that rules lead to, applied in any order, each judged as a whole.

SOURCE: Jia et al., "TASO: Optimizing Deep Learning Computation with Automatic Generation of Graph
Substitutions", SOSP 2019, section 5.1.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import MODES, numerics_of
from mlc.dialects.program import entry_function
from mlc.dialects.structural_hash import structural_hash
from mlc.fingerprint import fingerprint
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import place
from mlc.passes.rules.load import FAMILIES, family
from mlc.passes.rules.match import Matcher, root_classes
from mlc.passes.rules.rule import Rule
from mlc.passes.tensor.cse import CsePass
from mlc.passes.tensor.dce import DcePass
from mlc.passes.tensor.rules import EQUIVALENCE, Rewrite

ALPHA = 1.05  # SOURCE: as above
GAIN = 1.1
"""Less is nothing: where plans differ by a tenth, predictions name the faster one in 90 % of pairs
(docs/cost-model.md)."""
PLANS = 200  # that are judged, unless somebody says how many
MET = 2
"""Programs that are met at most for each plan: those that differ in the order of ops or operands
are one plan, but a rule may match in one of them only. measured: docs/measurements.md."""

Judge = Callable[[ModuleOp], float]
"""Seconds that a program should take; the program stays as it is."""


@dataclass(frozen=True)
class Taken:
    """A rule that was applied: where, and what the whole program should take then."""

    rule: str
    at: str
    predicted_s: float
    matcher: int  # of those of `matchers_of`
    op: int  # of the function, in the order in which they stand


@dataclass(frozen=True)
class _State:
    """A program, what it should take, and how it came about."""

    module: ModuleOp
    predicted_s: float
    steps: tuple[Taken, ...]
    modules: tuple[ModuleOp, ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best program that was found, beside the one that was given."""

    start: ModuleOp
    start_s: float
    best: ModuleOp
    best_s: float
    modules: tuple[ModuleOp, ...]
    """Programs on the way, the best one last; none where it is the one that was given."""
    judged: int
    seen: int
    curve: tuple[tuple[int, float], ...]
    """Plans judged, and what the best program so far should take: where that changed."""

    def rows(self) -> Iterator[tuple[str, float | None]]:
        """What was done, and what the program should take then; None: it is no program yet."""
        yield "as it is", self.start_s

    def counted(self) -> str:
        """How much was tried."""
        return f"{self.judged} plans judged, of {self.seen} programs"

    def best_after(self, plans: int) -> float:
        """What the best program should take, after so many plans: 1 or more."""
        return next(seconds for n, seconds in reversed(self.curve) if n <= plans)

    def csv(self) -> str:
        """The curve as a table, to its end."""
        rows = dict([*self.curve, (self.judged, self.curve[-1][1])])
        lines = [f"{plans},{seconds * 1e6:.3f}" for plans, seconds in rows.items()]
        return "\n".join(["plans,predicted_us", *lines]) + "\n"

    def said(self, measured: Sequence[float] = ()) -> str:
        """Each row with predicted and, where it was measured, real time."""
        rows, times = [*self.rows()], iter(measured)
        width = max(len(name) for name, _ in rows)
        lines = [" " * width + "  predicted" + "   measured" * bool(measured)]
        for name, seconds in rows:
            said = "" if seconds is None else f"{seconds * 1e6:8.2f} us"
            real = f"{next(times) * 1e6:8.2f} us" if measured and said else ""
            lines.append(f"{name:{width}}{said}{real}".rstrip())
        return "\n".join([*lines, self.counted()])


@dataclass(frozen=True, kw_only=True)
class Search(Found):
    """What came of a search: the program after each step."""

    steps: tuple[Taken, ...]

    def rows(self) -> Iterator[tuple[str, float | None]]:
        """Each step."""
        yield from super().rows()
        yield from ((f"{x.rule}  {x.at}", x.predicted_s) for x in self.steps)


class Program(Protocol):
    """What a frontier is of."""

    @property
    def module(self) -> ModuleOp: ...
    @property
    def predicted_s(self) -> float: ...


P = TypeVar("P", bound=Program)


class Frontier(Generic[P]):
    """
    Programs that were met, those of one structural hash judged once, and which one to go on from:
    none that should take more than `alpha` times as long as the best one.
    """

    def __init__(
        self,
        start: P,
        judge: Judge,
        plans: int,
        alpha: float,
        progress: Callable[[str, float], None],
    ) -> None:
        self.start = self.best = start
        self.judged = {structural_hash(start.module): start.predicted_s}
        self.curve = [(1, start.predicted_s)]
        self.plans, self.alpha = plans, alpha
        self._judge, self._progress = judge, progress
        self._numbers = count()
        self._queue = [(start.predicted_s, next(self._numbers), start)]

    def seconds(self, module: ModuleOp) -> float:
        """What a program should take."""
        meant = structural_hash(module)
        if meant not in self.judged:
            self._progress(f"{self.best.predicted_s * 1e6:.1f} us", len(self.judged) / self.plans)
            self.judged[meant] = self._judge(module)
        return self.judged[meant]

    def put(self, program: P) -> None:
        """A program that was met."""
        if program.predicted_s < self.best.predicted_s:
            self.best = program
            self.curve.append((len(self.judged), program.predicted_s))
        if program.predicted_s <= self.alpha * self.best.predicted_s:
            heapq.heappush(self._queue, (program.predicted_s, next(self._numbers), program))

    def next(self) -> P | None:
        """The best program that nobody went on from yet; None where it leads nowhere."""
        if not self._queue:
            return None
        *_, program = heapq.heappop(self._queue)
        return program if program.predicted_s <= self.alpha * self.best.predicted_s else None


def search(
    module: ModuleOp,
    matchers: Sequence[Matcher],
    judge: Judge,
    *,
    plans: int = PLANS,
    alpha: float = ALPHA,
    progress: Callable[[str, float], None] = lambda what, part: None,
) -> Search:
    """
    The best of at most so many programs, which rules lead to. A program that should take more than
    `alpha` times as long as the best one leads nowhere; one that gains less than `GAIN` is not
    taken. Programs of one structural hash are judged once. It is the same each time; more plans
    give no worse a program. `module` is cleaned.
    """
    clean(module)
    start = _State(module, judge(module), ())
    met = Frontier(start, judge, plans, alpha, progress)
    seen = {fingerprint(module)}
    while len(met.judged) < plans and (state := met.next()) is not None:
        for matcher, op, at, changed in _changed(state.module, matchers):
            if len(met.judged) >= plans or len(seen) >= MET * plans:
                break
            if (written := fingerprint(changed)) in seen:
                continue
            seen.add(written)
            predicted_s = met.seconds(changed)
            step = Taken(matchers[matcher].rule.name, at, predicted_s, matcher, op)
            modules = (*state.modules, changed)
            met.put(_State(changed, predicted_s, (*state.steps, step), modules))
    progress("", 0.0)
    best = start if start.predicted_s < GAIN * met.best.predicted_s else met.best
    return Search(
        start=start.module, start_s=start.predicted_s, best=best.module, best_s=best.predicted_s,
        modules=best.modules, judged=len(met.judged), seen=len(seen), curve=tuple(met.curve),
        steps=best.steps,
    )  # fmt: skip


def matchers_of(module: ModuleOp, rules: Sequence[Rule]) -> list[Matcher]:
    """
    Those that the module's numerics allow of these rules and of those that come with mlc, in both
    ways where they say so.
    """
    return [Matcher(rule) for rule in allowed_rules(module, rules)]


def allowed_rules(module: ModuleOp, rules: Sequence[Rule]) -> list[Rule]:
    """As `matchers_of`, the rules."""
    allowed = MODES.index(numerics_of(module))
    found: list[Rule] = []
    for rule in (*rules, *(rule for name in FAMILIES for rule in family(name))):
        if EQUIVALENCE.index(rule.equivalence) <= allowed:
            found += [rule, rule.reversed()] if rule.is_two_way else [rule]
    return found


def op_at(module: ModuleOp, number: int) -> Operation:
    """An op of the function, by its place."""
    return list(entry_function(module).body.walk())[number]


def applied(matcher: Matcher, op: Operation) -> bool:
    """In place; whether the rule could be applied."""
    rewrite: Any = Rewrite()
    rewrite.anchor = op
    try:
        value = matcher.rewriter()(op, rewrite)
    except MlcError:  # it makes something that has no type here
        return False
    if value is None:
        return False
    op.results[0].replace_all_uses_with(value)
    return True


def clean(module: ModuleOp) -> None:
    """Equal values are one, and no value is left that nobody reads."""
    for cleaning in (CsePass(), DcePass()):
        cleaning.apply(Context(), module)


def _changed(
    module: ModuleOp, matchers: Sequence[Matcher]
) -> Iterator[tuple[int, int, str, ModuleOp]]:
    """Programs that one application leads to: matcher and op by number, place, program."""
    for number, op in enumerate(list(entry_function(module).body.walk())):
        for k, matcher in enumerate(matchers):
            if isinstance(op, root_classes(matcher.rule)) and matcher.found(op) is not None:
                copy = module.clone()
                if applied(matcher, op_at(copy, number)):
                    clean(copy)
                    yield k, number, place(op), copy
