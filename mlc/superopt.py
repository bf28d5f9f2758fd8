"""
`mlc superopt`: rewrites that the passes do not make by themselves, tried in any order and judged by
the plan that follows.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from mlc import registry
from mlc.backends import RULES
from mlc.certificate import Text
from mlc.dialects.errors import MlcError
from mlc.dialects.numerics import MODES, numerics_of
from mlc.dialects.program import entry_function
from mlc.lazy_dataclass import dataclass
from mlc.levels import Levels
from mlc.passes.remarks import place
from mlc.passes.rules.load import FAMILIES, family
from mlc.passes.rules.match import Matcher
from mlc.passes.rules.rule import Rule
from mlc.passes.tensor.rules import EQUIVALENCE, Rewrite
from mlc.pipeline import apply_step, prepare, run_pipeline
from mlc.programs import portable_text
from mlc.waiting import progress

ALPHA = 1.05  # SOURCE: Jia et al., TASO, SOSP 2019, section 5.1
GAIN = 1.1
"""Less is nothing: where plans differ by a tenth, predictions name the faster one in 90 % of pairs
(docs/cost-model.md)."""
PLANS = 200  # that are judged, unless somebody says how many
CLEANING = ("mlc-cse", "mlc-dce")


@dataclass(frozen=True)
class Taken:
    """A rule that was applied: where, and what the whole program should take then."""

    rule: str
    at: str
    predicted_s: float


@dataclass(frozen=True)
class _State:
    """A program, what it should take, and how it came about."""

    module: ModuleOp
    predicted_s: float
    steps: tuple[Taken, ...]
    modules: tuple[ModuleOp, ...] = field(default=())


@dataclass(frozen=True)
class Search:
    """The best program that was found, beside the one that was given."""

    start: ModuleOp
    start_s: float
    best: ModuleOp
    steps: tuple[Taken, ...]
    modules: tuple[ModuleOp, ...]
    """The program after each step."""
    judged: int
    seen: int

    @property
    def best_s(self) -> float:
        """What the best program should take."""
        return self.steps[-1].predicted_s if self.steps else self.start_s

    def text(self) -> str:
        """The best program."""
        return portable_text(self.best.clone())

    def said(self, measured: Sequence[float] = ()) -> str:
        """Each step with predicted and, where it was measured, real time."""
        rows = [
            ("as it is", self.start_s),
            *((f"{x.rule}  {x.at}", x.predicted_s) for x in self.steps),
        ]
        width = max(len(name) for name, _ in rows)
        lines = [" " * width + "  predicted" + "   measured" * bool(measured)]
        for k, (name, seconds) in enumerate(rows):
            real = f"{measured[k] * 1e6:8.2f} us" if measured else ""
            lines.append(f"{name:{width}}{seconds * 1e6:8.2f} us{real}")
        lines.append(f"{self.judged} plans judged, of {self.seen} programs")
        return "\n".join(lines)


def superopt(
    levels: Levels, rules: Sequence[Rule] = (), *, plans: int = PLANS, alpha: float = ALPHA
) -> Search:
    """
    The best of at most so many programs, which rules lead to, those that come with mlc and `rules`,
    in both ways where they say so. Judged is the plan that follows, fusion included. A program that
    should take more than `alpha` times as long as the best one leads nowhere; one that gains less
    than `GAIN` is not taken. It is the same each time; more plans give no worse a program.
    """
    module = levels.at_trace()
    prepare(module, levels.options)
    matchers = list(_matchers(rules, numerics_of(module)))
    for step in RULES:
        module = apply_step(step, module, levels.options, Context())
    _clean(module)
    start = _State(module, _predicted(module, levels), ())
    best, judged, number = start, 1, 0
    seen = {_key(module)}
    queue: list[tuple[float, int, _State]] = [(start.predicted_s, 0, start)]
    while queue and judged < plans:
        _, _, state = heapq.heappop(queue)
        if state.predicted_s > alpha * best.predicted_s:
            break
        for rule, at, changed in _changed(state.module, matchers):
            if judged >= plans:
                break
            if (key := _key(changed)) in seen:
                continue
            seen.add(key)
            judged, number = judged + 1, number + 1
            progress(f"{best.predicted_s * 1e6:.1f} us", judged / plans)
            predicted_s = _predicted(changed, levels)
            step = Taken(rule, at, predicted_s)
            made = _State(changed, predicted_s, (*state.steps, step), (*state.modules, changed))
            if predicted_s < best.predicted_s:
                best = made
            if predicted_s <= alpha * best.predicted_s:
                heapq.heappush(queue, (predicted_s, number, made))
    progress("", 0.0)
    if start.predicted_s < GAIN * best.predicted_s:
        best = start
    return Search(
        start.module, start.predicted_s, best.module, best.steps, best.modules, judged, len(seen)
    )


def compiled(levels: Levels, module: ModuleOp) -> Callable[..., object]:
    """A program of a search as code in this process."""
    from mlc.executable import compile_module

    return compile_module(module.clone(), levels.signature, levels.options)


def _matchers(rules: Sequence[Rule], numerics: str) -> Iterator[Matcher]:
    """Both ways of each rule that the numerics allow, and that makes nothing up."""
    allowed = MODES.index(numerics)
    for rule in (*rules, *(rule for name in FAMILIES for rule in family(name))):
        if EQUIVALENCE.index(rule.equivalence) <= allowed:
            yield Matcher(rule)
            if rule.is_two_way:
                yield Matcher(rule.reversed())


def _changed(module: ModuleOp, matchers: Sequence[Matcher]) -> Iterator[tuple[str, str, ModuleOp]]:
    """Programs that one application leads to: rule, place, program."""
    for number, op in enumerate(list(entry_function(module).body.walk())):
        for matcher in matchers:
            if isinstance(op, matcher.root_classes()) and matcher.found(op) is not None:
                copy = module.clone()
                root = list(entry_function(copy).body.walk())[number]
                if _applied(matcher, root):
                    _clean(copy)
                    yield matcher.rule.name, place(op), copy


def _applied(matcher: Matcher, op: Operation) -> bool:
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


def _clean(module: ModuleOp) -> None:
    """Equal values are one, and no value is left that nobody reads."""
    for name in CLEANING:
        registry.load(name)().apply(Context(), module)


def _predicted(module: ModuleOp, levels: Levels) -> float:
    """Seconds of the plan that follows."""
    planned = run_pipeline(module.clone(), levels.options, until="plan")
    return levels.report_of(planned, {}).predicted_s


def _key(module: ModuleOp) -> str:
    """Of a program as it is written: rules ask in which order operands stand."""
    return hashlib.sha256("\n".join(Text().module(module)).encode()).hexdigest()
