"""
Why two lines do not share a kernel: what the plan costs, and what the best plan costs in which they
do. Both plans are made by the planner, the second with that one decision forced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from mlc.backends import backend_of
from mlc.dialects.analysis.trips import kernel_numbers
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import entry_function
from mlc.dialects.signature import EntrySignature
from mlc.dialects.tensor.op import TensorOp
from mlc.lazy_dataclass import dataclass
from mlc.levels import Levels
from mlc.options import Options
from mlc.passes.cost.sizes import sizes_of
from mlc.passes.plan.fusion.choose_fusion import ChooseFusionPass
from mlc.passes.remarks import Remark, listening, place
from mlc.passes.report.explain.edges import (
    NUMBER,
    RULES,
    Line,
    computing,
    describe,
    kernel_with,
    kernels_of,
    number_of,
    number_ops,
    ops_of,
    path_between,
    producers_of,
    rule_between,
)
from mlc.passes.report.explain.markup import seconds
from mlc.passes.report.report import Plan
from mlc.passes.tensor.expand_transforms import one_function
from mlc.pipeline import apply_step

CHOOSING = ChooseFusionPass.name


@dataclass(frozen=True, kw_only=True)
class Edge:
    """A consumer that reads a producer: whether they share a kernel, and the cost of both ways."""

    producer: str  # "exp f32[64, 10]"
    producer_line: str
    consumer: str
    consumer_line: str
    together: bool
    kernels: tuple[int, ...]  # that compute the producer, and then the consumer
    legal: bool  # to be in one kernel
    rule: str  # why they are apart: a name in docs/plan.md, or "cost"
    sentence: str
    remedy: str  # what would make it legal; empty where it is
    chosen_s: float  # predicted, of a call
    other_s: float | None  # with the other decision; None: there is no such plan
    searched_s: tuple[float, float] | None  # of both by the cost that the search compared
    chosen_kernels: int
    other_kernels: int | None
    measured_s: tuple[float, float] | None = None  # of both plans

    def text(self) -> str:
        """The answer in a few lines."""
        lines = [
            f"{self.producer} ({self.producer_line}) -> {self.consumer} ({self.consumer_line})"
        ]
        numbers = ", ".join(map(str, self.kernels))
        if self.together:
            lines.append(f"  in one kernel: {numbers}")
        else:
            lines.append(f"  not in one kernel: kernels {numbers}")
            lines.append(
                f"  legal: {'yes' if self.legal else 'no'}; rule {self.rule}: {self.sentence}"
            )
        if self.remedy:
            lines.append(f"  what would help: {self.remedy}")
        lines.append(f"  this plan: {seconds(self.chosen_s)}, {self.chosen_kernels} kernels")
        if self.other_s is not None:
            change = f"{100 * (self.other_s / self.chosen_s - 1):+.1f}%"
            other = "apart" if self.together else "together"
            lines.append(
                f"  the best plan with them {other}: {seconds(self.other_s)},"
                f" {self.other_kernels} kernels ({change})"
            )
        if self.searched_s is not None:
            here, there = self.searched_s
            lines.append(
                f"  by the cost of the search, which decided: {seconds(here)} and {seconds(there)}"
                f" ({100 * (there / here - 1):+.1f}%)"
            )
        if self.measured_s is not None:
            here, there = self.measured_s
            change = f"{100 * (there / here - 1):+.1f}%"
            lines.append(f"  measured: {seconds(here)} and {seconds(there)} ({change})")
        return "\n".join(lines)


@dataclass(frozen=True)
class WhyNot:
    """The edges between two lines; `path`: how they are connected where no edge joins them."""

    producer: str
    consumer: str
    edges: tuple[Edge, ...]
    path: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.edges:
            return "\n".join(edge.text() for edge in self.edges)
        said = f"{self.consumer} reads nothing that {self.producer} computes"
        if not self.path:
            return f"{said}, not by way of other ops either"
        return "\n".join([f"{said}; there are ops in between:", *(f"  {op}" for op in self.path)])

    def to_json(self) -> str:
        """The answer as JSON; docs/explain.md has its fields."""
        return json.dumps(asdict(self), indent=1)


@dataclass(frozen=True)
class Calls:
    """Calls that measure plans, and what makes code of these."""

    arguments: Sequence[object]
    compiled: Callable[[ModuleOp, EntrySignature, Options], Callable[..., object]]


def why_not(
    levels: Levels,
    producer: Line,
    consumer: Line,
    sizes: Mapping[str, int],
    calls: Calls | None = None,
) -> WhyNot:
    """
    The answer for each op of the one line that an op of the other one reads. `calls`: those that
    measure both plans. MlcError where a line has no ops.
    """
    trial = _Trial(levels, sizes)
    function, traced = _function(trial.module), _function(one_function(levels.at_trace()))
    makers = ops_of(function, producer, traced)
    readers = ops_of(function, consumer, traced)
    pairs = [(p, c) for c in readers for p in makers if p in producers_of(c)]
    if pairs:
        edges = [_edge(trial, p, c, calls) for p, c in pairs]
        return WhyNot(str(producer), str(consumer), tuple(edges))
    ways = [way for p in makers for c in readers if (way := path_between(p, c))]
    shortest = min(ways, key=len) if ways else []
    path = tuple(f"{describe(op)} ({place(op)})" for op in shortest)
    return WhyNot(str(producer), str(consumer), (), path)


def unfused(
    levels: Levels,
    sizes: Mapping[str, int],
    calls: Calls | None = None,
    most: int | None = None,
) -> list[Edge]:
    """
    The answers for edges whose ops share no kernel, in program order of the consumers: all, or the
    first `most`.
    """
    trial = _Trial(levels, sizes)
    kernels = trial.made().kernels
    found: list[Edge] = []
    for consumer in computing(_function(trial.module)):
        for producer in producers_of(consumer):
            numbers = number_of(producer), number_of(consumer)
            assert numbers[0] is not None
            assert numbers[1] is not None
            if kernel_with(kernels, numbers[0], numbers[1]) is None:
                if len(found) == most:
                    return found
                found.append(_edge(trial, producer, consumer, calls))
    return found


@dataclass(frozen=True)
class _Made:
    """A plan that was made with some decisions forced."""

    module: ModuleOp
    plan: Plan
    kernels: Mapping[KernelOp, int]  # the kernel of which each op is one, or a phase
    remarks: tuple[Remark, ...]
    searched_s: float  # by the cost that the search compares; 0 where nothing was searched


class _Trial:
    """A program just before kernels are formed, and the plans made of it."""

    def __init__(self, levels: Levels, sizes: Mapping[str, int]) -> None:
        self.levels = levels
        self.sizes = sizes
        self.module = levels.at("tensor")
        self.steps = backend_of(levels.options.target).stage("plan").steps
        self.names = [step.name for step in self.steps]
        self._apply(self.module, 0, self.names.index(CHOOSING))
        number_ops(_function(self.module))
        self._made: dict[tuple[str, ...], _Made] = {}

    def _apply(self, module: ModuleOp, first: int, end: int) -> None:
        for step in self.steps[first:end]:
            apply_step(step, module, self.levels.options, Context())

    def made(self, *forced: str) -> _Made:
        """The plan with these decisions forced."""
        if forced not in self._made:
            module = self.module.clone()
            with listening() as heard:
                choosing = ChooseFusionPass(self.levels.options.fusion, forced=forced)
                with sizes_of(module):
                    searched_s = choosing.choose_all(module)
                self._apply(module, self.names.index(CHOOSING) + 1, len(self.steps))
            self._made[forced] = _Made(
                module,
                self.levels.report_of(module, self.sizes),
                kernel_numbers(module),
                tuple(heard),
                searched_s,
            )
        return self._made[forced]

    def callable(self, made: _Made, calls: Calls) -> Callable[..., object]:
        """The plan as code."""
        module = made.module.clone()
        for op in module.walk():
            op.attributes.pop(NUMBER, None)
        return calls.compiled(module, self.levels.signature, self.levels.options)


def _edge(trial: _Trial, producer: TensorOp, consumer: TensorOp, calls: Calls | None) -> Edge:
    first, second = number_of(producer), number_of(consumer)
    assert first is not None
    assert second is not None
    chosen = trial.made()
    together = kernel_with(chosen.kernels, first, second)
    unfused = trial.levels.options.fusion == "none"  # whatever is asked
    asked = f"{'inline' if together is None else 'store'}:{first}"
    forced = chosen if unfused else trial.made(asked)
    joined = kernel_with(forced.kernels, first, second)
    differs = (joined is None) != (together is None)
    legal = together is not None or joined is not None
    rule = "cost"
    if unfused:
        rule = "fusion"
    elif not legal:
        rule = _rule(forced.remarks, producer) or rule_between(
            producer, consumer, producers_of(consumer)[producer]
        )
    sentence, remedy = RULES.get(rule, ("the planner held a plan without it for cheaper", ""))
    both = dict.fromkeys([*kernels_of(chosen.kernels, first), *kernels_of(chosen.kernels, second)])
    edge = Edge(
        producer=describe(producer),
        producer_line=place(producer),
        consumer=describe(consumer),
        consumer_line=place(consumer),
        together=together is not None,
        kernels=tuple(both) if together is None else (together,),
        legal=legal,
        rule=rule,
        sentence=sentence,
        remedy=remedy,
        chosen_s=chosen.plan.predicted_s,
        other_s=forced.plan.predicted_s if differs else None,
        searched_s=(chosen.searched_s, forced.searched_s)
        if differs and chosen.searched_s
        else None,
        chosen_kernels=chosen.plan.kernel_count,
        other_kernels=forced.plan.kernel_count if differs else None,
    )
    if calls is None or not differs:
        return edge
    functions = [trial.callable(made, calls) for made in (chosen, forced)]
    both_s = backend_of(trial.levels.options.target).measure(functions, calls.arguments)
    return replace(edge, measured_s=(both_s[0], both_s[1]))


def _rule(remarks: Sequence[Remark], producer: TensorOp) -> str | None:
    """The rule by which the planner stored a value although it was asked not to."""
    for remark in remarks:
        made = remark.decision
        if made is None or made.decision != "store" or made.rule not in RULES:
            continue
        if remark.op == producer.name and remark.where == place(producer):
            return made.rule
    return None


def _function(module: ModuleOp) -> FuncOp:
    return entry_function(module)
