"""The states of a block's values: what a mode of fusion decides, and what it says about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from xdsl.ir import Block, SSAValue

from mlc.dialects.dtypes import dtype_of
from mlc.dialects.target import Target
from mlc.dialects.target.known import named_target
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.op import TensorOp, tensor_of
from mlc.knobs import Fusion
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.work import ATTO, clock
from mlc.passes.plan.fusion.entries import Entry
from mlc.passes.plan.fusion.legality import WHY, Chosen, State
from mlc.passes.plan.fusion.search import (
    HEURISTICS,
    Choices,
    Counts,
    Found,
    Search,
    follow,
    fuse_all,
    improved,
    parts_of,
    replay,
)
from mlc.passes.plan.fusion.state import Partial
from mlc.passes.plan.fusion.table import Table
from mlc.passes.plan.memory.in_place.ownership import Ownership
from mlc.passes.remarks import Decision, is_heard, remark

STEP_MS = (0.08, 0.0006)
"""
Of trying one decision: each, and for each op of the part. Numbers, not a clock, so that one program
has one plan. Measured: docs/measurements.md, Planner.
"""

BUDGET_MS = 50.0
IMPROVE_MS, PLAN_MS = 200.0, 0.018
"""For plans beside those that no search has proved, and of one plan for each op. As above."""
US = ATTO // 10**6


@dataclass(kw_only=True)
class Planner:
    """How the values of one function are decided; counts what the searches of its blocks did."""

    fusion: Fusion = "exact"
    target: Target = field(default_factory=lambda: named_target("avx2"))
    forced: Mapping[SSAValue, State] = field(default_factory=dict[SSAValue, State])
    budget_ms: float = BUDGET_MS
    says: bool = True  # decisions are remarks, and improved: not where the plan is a guess
    counts: Counts = field(default_factory=Counts)
    cost: int = 0
    bound: int = 0

    def __post_init__(self) -> None:
        self._left_ms, self._improve_ms = self.budget_ms, IMPROVE_MS

    def states(self, block: Block, ownership: Ownership) -> dict[SSAValue, State]:
        """What each computed value of the block becomes (not of the blocks inside it)."""
        table = Table(block, ownership, clock(self.target))
        for entry in table.of.values():
            entry.forced = self.forced.get(entry.op.results[0])
        states: dict[SSAValue, State] = {}
        parts = sorted(parts_of(table), key=len)  # small ones are searched to their ends
        plans = [self._decide(table, part) for part in parts]
        cost, bound = sum(found.cost for found in plans), sum(found.bound for found in plans)
        self.cost += cost
        self.bound += bound
        for part, found in zip(parts, plans, strict=True):
            for entry in part:
                state = found.choices.get(entry.number)
                if entry.kind == "reduction":  # what follows one joins it, unless asked not to
                    state = entry.forced
                if state is not None and entry.kind in ("cell", "reduction"):
                    states[entry.op.results[0]] = state
            if self.says and is_heard():
                _say(table, part, found, cost - found.cost)
        if self.says and is_heard() and bound < cost:
            _say_gap(block, cost, bound)
        return states

    def _decide(self, table: Table, part: Sequence[Entry]) -> Found:
        points = sum(entry.is_point() for entry in part)
        if not points:
            return _settled(follow(table, part, fuse_all))
        if self.fusion != "exact":
            return _settled(follow(table, part, HEURISTICS[self.fusion]))
        starts = [follow(table, part, choose) for choose in HEURISTICS.values()]
        step_ms = STEP_MS[0] + STEP_MS[1] * len(part)
        search = Search(table, part, steps=int(self._left_ms / step_ms))
        found = search.run(starts)
        self._left_ms -= search.counts.visited * step_ms
        self.counts.add(search.counts)
        if found.bound < found.cost and self.says:
            plan_ms = PLAN_MS * len(part)
            better, tried = improved(table, part, found, int(self._improve_ms / plan_ms))
            self._improve_ms -= tried * plan_ms
            found = Found(cost=better.cost, bound=found.bound, choices=better.choices)
        return found


def states_of(block: Block, ownership: Ownership, planner: Planner) -> dict[SSAValue, Chosen]:
    """What each value of a block, and of the blocks inside it, becomes."""
    found: dict[SSAValue, Chosen] = {}
    if planner.fusion == "none":
        values = (op.results[0] for op in block.walk() if isinstance(op, TensorOp))
        return dict.fromkeys(values, "apart")
    found.update(planner.states(block, ownership))
    for op in reversed(list(block.ops)):  # the last ones first, as they are grouped
        if isinstance(op, ControlOp):
            for inner in op.blocks:
                found.update(states_of(inner, ownership, planner))
    return found


def _settled(found: Found) -> Found:
    return Found(cost=found.cost, bound=found.cost, choices=found.choices)


# Remarks ----------------------------------------------------------------------------------------


def _say(table: Table, part: Sequence[Entry], found: Found, rest: int) -> None:
    """
    A remark on each value that was decided on, with the cost of the block's plan and of the one
    that differs there; `rest`: of the other parts.
    """
    cost = found.cost + rest
    for entry in part:
        state = found.choices.get(entry.number)
        if entry.kind != "cell" or state is None or not entry.readers:
            continue
        if entry.rule is not None:
            _remark(entry, state, cost, None, entry.rule)
        elif entry.is_point() or entry.forced is not None:
            other: State = "buffer" if state == "inline" else "inline"
            changed: Choices = {**found.choices, entry.number: other}
            flipped = _flipped(table, part, entry, changed)
            if flipped is not None:
                rule = "forced" if entry.forced else "cost"
                _remark(entry, state, cost, flipped + rest, rule)
            else:
                _remark(entry, state, cost, None, _why(table, part, entry, found.choices))


def _flipped(table: Table, part: Sequence[Entry], entry: Entry, choices: Choices) -> int | None:
    """The cost of these choices, if what is asked of the entry is legal."""
    forced, entry.forced = entry.forced, None
    found = replay(table, part, choices)
    entry.forced = forced
    return found.cost if found.choices.get(entry.number) == choices[entry.number] else None


def _why(table: Table, part: Sequence[Entry], entry: Entry, choices: Choices) -> str:
    """The rule for which the value is stored in this plan."""
    plan = Partial(table)
    for other in part:
        if other is entry:
            return plan.why_stored(entry, plan.demands[entry.number]) or "cost"
        plan.step(other, other.forced or choices.get(other.number, "inline"))
    return "cost"


def _remark(entry: Entry, state: State, cost: int, other: int | None, rule: str) -> None:
    tensor = tensor_of(entry.op.results[0])
    shape = ", ".join(str(d) if d >= 0 else "?" for d in tensor.get_shape())
    verb = "stored" if state == "buffer" else "computed where it is read"
    text = f"{verb}: {WHY.get(rule, rule)}"
    if other is not None:
        text += f": the plan takes {cost / US:.3f} us, and {other / US:.3f} us with it "
        text += "computed where it is read" if state == "buffer" else "stored"
    decision = Decision(
        value=f"{dtype_of(tensor.element_type).name}[{shape}]",
        decision="store" if state == "buffer" else "inline",
        chosen_s=cost / ATTO,
        other_s=None if other is None else other / ATTO,
        rule=rule,
    )
    remark(entry.op, text, decision)


def _say_gap(block: Block, cost: int, bound: int) -> None:
    last = block.last_op
    assert last is not None
    gap = 100 * (cost - bound) / cost
    text = f"the plan of {cost / US:.3f} us is within {gap:.1f}% of the least possible:"
    remark(last, f"{text} the search ended before it knew more")
