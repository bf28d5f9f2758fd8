"""
Rules: rewrites of one op into a value that means the same, and the sweep that applies them.

One forward sweep reaches the fixpoint: a rule looks only at operands, and what it creates is
visited before the sweep goes on. This is a plain loop over a block, not a pattern walker, because
it runs in every first call (a sweep over 30 ops that match nothing takes 0.1 ms).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TypeVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.errors import CompilerBug
from mlc.dialects.numerics import MODES, Numerics, numerics_of
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark

Equivalence = Literal["exact", "reassociating", "approximate"]
EQUIVALENCE: tuple[Equivalence, ...] = ("exact", "reassociating", "approximate")
"""What results have in common, by the weakest numerics that allows it (D1): every bit; the same
terms in another order or with fewer roundings; less, for numbers near the ends of the range."""
REWRITES_PER_OP = 100  # more than any chain of rules needs; rules that undo each other exceed it

OpT = TypeVar("OpT", bound=TensorOp)
Rule = Callable[[OpT, "Rewrite"], SSAValue | None]


@dataclass(frozen=True)
class Entry:
    """A rule, the class of op that it rewrites, and what its results have in common with the op."""

    op: type[Operation]
    rule: Rule[Any]
    equivalence: Equivalence

    @property
    def name(self) -> str:
        """Of the rule."""
        return self.rule.__name__.strip("_")


@dataclass
class _Limit:
    most: int | None
    applied: list[str]


_limit: ContextVar[_Limit | None] = ContextVar("mlc_rules", default=None)


@contextmanager
def limited(most: int | None = None) -> Generator[list[str], None, None]:
    """The names of the rules that are applied in the block, in order, and at most so many."""
    limit = _Limit(most, [])
    token = _limit.set(limit)
    try:
        yield limit.applied
    finally:
        _limit.reset(token)


class Deferred:
    """A rule that is made when an op of its class is met: few programs have ops of all classes."""

    def __init__(self, make: Callable[[], tuple[Rule[Any], Equivalence]]) -> None:
        self._make = make
        self._made: tuple[Rule[Any], Equivalence] | None = None

    def entry(self, op: type[Operation]) -> Entry:
        """The rule, for one of its classes of ops."""
        if self._made is None:
            self._made = self._make()
        return Entry(op, *self._made)


class Rewrite(OpBuilder):
    """Builds ops in front of the op being rewritten, at its source location."""

    def __init__(self) -> None:
        super().__init__(self._insert)
        self.anchor: Operation | None = None
        self.built: list[Operation] = []
        """What the rule at work has built."""

    def _insert(self, new: Operation) -> None:
        anchor = self.anchor
        assert anchor is not None
        assert anchor.parent is not None
        new.location = anchor.location
        self.built.append(new)
        anchor.parent.insert_op_before(new, anchor)


class Rules:
    """
    Rules by op class, in the order they are tried. Each carries the weakest `numerics` that allows
    it (D1): "strict" rules keep every bit, "standard" ones may change the order of a reduction.
    """

    def __init__(self, *included: Rules) -> None:
        self._by_op: dict[type[Operation], list[Entry | Deferred]] = {}
        self._resolved: dict[tuple[type[Operation], int], tuple[Entry, ...]] = {}
        for rules in included:
            self.include(rules)

    def include(self, rules: Rules) -> None:
        """Those rules, too, behind the ones that are here."""
        for op, entries in rules._by_op.items():
            self._by_op.setdefault(op, []).extend(entries)

    def on(
        self, op: type[OpT], *, numerics: Numerics = "strict"
    ) -> Callable[[Rule[OpT]], Rule[OpT]]:
        """Registers a rule for ops of this class and its subclasses."""

        def register(rule: Rule[OpT]) -> Rule[OpT]:
            self.add(op, Entry(op, rule, EQUIVALENCE[MODES.index(numerics)]))
            return rule

        return register

    def add(self, op: type[Operation], entry: Entry | Deferred) -> None:
        """A rule for ops of this class and its subclasses."""
        self._by_op.setdefault(op, []).append(entry)

    def _made(self, op: type[Operation]) -> list[Entry]:
        """The rules that are registered for this very class."""
        found = self._by_op.get(op, ())
        return [each.entry(op) if isinstance(each, Deferred) else each for each in found]

    def entries(self) -> list[Entry]:
        """All rules."""
        return [entry for op in self._by_op for entry in self._made(op)]

    def of(self, op: type[Operation], allowed: int) -> tuple[Entry, ...]:
        """The rules for one class under a numerics mode."""
        found = self._resolved.get((op, allowed))
        if found is None:
            found = tuple(
                entry
                for base in op.__mro__
                for entry in self._made(base)
                if EQUIVALENCE.index(entry.equivalence) <= allowed
            )
            self._resolved[op, allowed] = found
        return found

    def sweep(self, module: ModuleOp) -> None:
        """Applies the rules to every op of the module that is used, regions included."""
        allowed = MODES.index(numerics_of(module))
        rewrite = Rewrite()
        for op in module.body.block.ops:
            for region in op.regions:
                for block in region.blocks:
                    self._sweep_block(block, rewrite, allowed)

    def _sweep_block(self, block: Block, rewrite: Rewrite, allowed: int) -> None:
        op = block.first_op
        budget = REWRITES_PER_OP
        while op is not None:
            for region in op.regions:
                for inner in region.blocks:
                    self._sweep_block(inner, rewrite, allowed)
            before = op.prev_op
            value = self._rewritten(op, rewrite, allowed)
            if value is None:
                op = op.next_op
                budget += REWRITES_PER_OP
                continue
            budget -= 1
            if budget < 0:
                raise CompilerBug(f"rules for '{op.name}' undo each other")
            op.results[0].replace_all_uses_with(value)
            old, op = op, block.first_op if before is None else before.next_op
            if op is old:
                op = old.next_op
            block.erase_op(old)

    def _rewritten(self, op: Operation, rewrite: Rewrite, allowed: int) -> SSAValue | None:
        rules = self.of(type(op), allowed)
        if not rules or op.results[0].first_use is None:
            return None
        limit = _limit.get()
        if limit is not None and len(limit.applied) == limit.most:
            return None
        rewrite.anchor = op
        rewrite.built.clear()
        for entry in rules:
            if (value := entry.rule(op, rewrite)) is not None:
                if entry.equivalence != "exact":
                    _say(op, entry, rewrite.built)
                if limit is not None:
                    limit.applied.append(entry.name)
                return value
        return None


def _say(op: Operation, entry: Entry, built: Sequence[Operation]) -> None:
    """A remark on a rule that changes bits, with the arithmetic before and after it."""
    before, after = (
        sum((x.cost().flops for x in ops if isinstance(x, TensorOp)), Dim.const(0))
        for ops in ((op,), built)
    )
    text = (entry.rule.__doc__ or "").strip()
    remark(
        op,
        f"{entry.name} ({entry.equivalence}): {text}; {before} operations of this op, then {after}",
    )
