"""
Programs that rules lead to, all at once: equality saturation, and the program of it that should
take least time as a whole.

SOURCE: Willsey et al., egg, POPL 2021; Yang et al., "Equality Saturation for Tensor Graph
Superoptimization", MLSys 2021, for tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.program import entry_function
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.work import ATTO
from mlc.passes.rules.egraph import EGraph, blocks_of, derivation
from mlc.passes.rules.ematch import NODES, ROUNDS, Saturation, Sought
from mlc.passes.rules.extract import Choice, Counted, Estimate, Extraction, extracted
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.search import ALPHA, GAIN, MET, PLANS, Found, Frontier, Judge, clean

PATIENCE = 30
"""Plans in a row that are no better, behind which none is. measured: docs/measurements.md."""


@dataclass(frozen=True, kw_only=True)
class Saturated(Found):
    """What came of saturation; `rules` are those that made the ops of the best program."""

    rules: tuple[tuple[str, str], ...]
    """Name and place."""
    nodes: int
    rounds: int
    is_complete: bool
    """Whether the rules said nothing any more: else a count was reached."""

    def rows(self) -> Iterator[tuple[str, float | None]]:
        """The rules, and what all of them lead to."""
        yield from super().rows()
        yield from ((f"{rule}  {at}", None) for rule, at in self.rules)
        if self.modules:
            yield "all of these", self.best_s

    def counted(self) -> str:
        """How much was tried."""
        ended = "complete" if self.is_complete else "not complete"
        return f"{super().counted()}; {self.nodes} ops in {self.rounds} rounds, {ended}"


def saturate(
    module: ModuleOp,
    rules: Sequence[Rule],
    judge: Judge,
    estimate: Estimate,
    *,
    plans: int = PLANS,
    alpha: float = ALPHA,
    nodes: int = NODES,
    rounds: int = ROUNDS,
    progress: Callable[[str, float], None] = lambda what, part: None,
) -> Saturated:
    """
    The best of at most so many programs of an e-graph that `rules` have made, of at most so many
    ops for each block in so many rounds. It is the same each time; more plans give no worse a
    program. `module` is cleaned. `alpha`, and what is not taken, are as for `search`.
    """
    clean(module)
    blocks = blocks_of(entry_function(module))
    sought = [Sought(rule) for rule in rules]
    grown = [Saturation(EGraph(block), sought, nodes, rounds) for block in blocks]
    progress("plans", 0.0)
    extractions = [Extraction(each.graph, each.moves, estimate) for each in grown]
    picked = _Picked(module, extractions, judge, alpha, plans, progress)
    picked.look()
    progress("", 0.0)
    best, start_s = picked.best, picked.start.predicted_s
    gains = start_s >= GAIN * best.predicted_s
    rules_of = [
        (step.rule, step.at)
        for x, choice in zip(extractions, best.choices, strict=True)
        for step in derivation([*(x.needed(choice) or {}).values()])
    ]
    return Saturated(
        start=module, start_s=start_s, best=best.module if gains else module,
        best_s=best.predicted_s if gains else start_s,
        modules=(best.module,) if gains else (), judged=len(picked.judged), seen=picked.seen,
        curve=tuple(picked.curve), rules=tuple(dict.fromkeys(rules_of)) if gains else (),
        nodes=sum(each.graph.count for each in grown),
        rounds=max((each.rounds for each in grown), default=0),
        is_complete=all(each.is_complete for each in grown),
    )  # fmt: skip


@dataclass(frozen=True)
class _Program:
    """A choice for each block, as a module, and what it should take."""

    module: ModuleOp
    choices: tuple[Choice, ...]
    predicted_s: float


class _Picked(Frontier[_Program]):
    """The programs of e-graphs that were judged."""

    def __init__(
        self,
        module: ModuleOp,
        extractions: Sequence[Extraction],
        judge: Judge,
        alpha: float,
        plans: int,
        progress: Callable[[str, float], None],
    ) -> None:
        choices = tuple(x.written_down() for x in extractions)
        super().__init__(_Program(module, choices, judge(module)), judge, plans, alpha, progress)
        self.extractions = extractions
        self.seen = 1
        self._met = {self._key(choices)}

    def look(self) -> None:
        """Judges what estimates say is best, and then what is near to the best so far."""
        self._take(tuple(x.better(x.least(x.apart), x.apart) for x in self.extractions))
        self._take(tuple(x.better(x.least(x.fused), x.fused) for x in self.extractions))
        while not self._is_over() and (program := self.next()) is not None:
            for choices in self._near(program.choices):
                if self._is_over():
                    break
                self._take(choices)

    def _is_over(self) -> bool:
        plans = len(self.judged)
        is_stuck = plans >= self.curve[-1][0] + PATIENCE
        return is_stuck or plans >= self.plans or self.seen >= MET * self.plans

    def _take(self, choices: tuple[Choice, ...]) -> None:
        """Judges a program that is new."""
        key = self._key(choices)
        if self._is_over() or key in self._met:
            return
        self._met.add(key)
        made = extracted(self.start.module, self.extractions, choices)
        if made is None:
            return
        clean(made)
        self.seen += 1
        self.put(_Program(made, choices, self.seconds(made)))

    def _near(self, choices: tuple[Choice, ...]) -> list[tuple[Choice, ...]]:
        """What differs a little: what the estimate says is cheap first, and what can be faster."""
        limit = self.alpha * self.best.predicted_s * ATTO
        found: list[tuple[int, int, tuple[Choice, ...]]] = []
        pairs = [*zip(self.extractions, choices, strict=True)]
        total = sum(x.cost(choice, x.fused) or 0 for x, choice in pairs)
        for k, (x, choice) in enumerate(pairs):
            counted = Counted(x, choice)
            for change in x.near(choice):
                least = counted.difference(change, x.fused)
                if least is not None and total + least <= limit:
                    cost = counted.difference(change, x.apart) or 0
                    made = (*choices[:k], {**choice, **change}, *choices[k + 1 :])
                    found.append((cost, len(found), made))
        return [made for *_, made in sorted(found, key=lambda each: each[:2])]

    def _key(self, choices: tuple[Choice, ...]) -> tuple[object, ...]:
        """Equal for choices of the same nodes that are needed."""
        return tuple(
            tuple(node.number for node in (x.needed(c) or {}).values())
            for x, c in zip(self.extractions, choices, strict=True)
        )
