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
from typing import Any, Literal, TypeVar, cast

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
LONGEST_CHAIN = 100
"""More rewrites one of the other's result than rules need; rules that undo each other exceed it."""

OpT = TypeVar("OpT", bound=TensorOp)
Rule = Callable[[OpT, "Rewrite"], SSAValue | None]


Ask = tuple[int, Callable[[type], bool]]
"""What must be true of the class of what makes an operand (an op, or a block for its arguments)."""


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


Heard = Callable[[Entry, Operation, SSAValue, Sequence[Operation]], object]
"""A rule, the op that it is applied to, the value that replaces it, and what was built."""


@dataclass
class _Limit:
    most: int | None
    heard: Heard | None
    applied: list[str]


_limit: ContextVar[_Limit | None] = ContextVar("mlc_rules", default=None)


@contextmanager
def limited(
    most: int | None = None, heard: Heard | None = None
) -> Generator[list[str], None, None]:
    """
    The names of the rules that are applied in the block, in order, and at most so many. `heard` is
    told of each before the op is replaced.
    """
    limit = _Limit(most, heard, [])
    token = _limit.set(limit)
    try:
        yield limit.applied
    finally:
        _limit.reset(token)


class Deferred:
    """
    A rule that is made when an op is met of which all is so that it asks: most rules are for ops
    that few programs have.
    """

    def __init__(
        self,
        make: Callable[[], tuple[Rule[Any], Equivalence]],
        asks: Callable[[], tuple[Ask, ...]],
    ) -> None:
        self._make = make
        self._asks = asks
        self._made: tuple[Rule[Any], Equivalence] | None = None
        self._asked: tuple[Ask, ...] | None = None

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Of the operands of ops of its classes."""
        if self._asked is None:
            self._asked = self._asks()
        return self._asked

    def entry(self, op: type[Operation]) -> Entry:
        """The rule, for one of its classes of ops."""
        if self._made is None:
            self._made = self._make()
        return Entry(op, *self._made)


class _Table:
    """The rules for one class of ops, by the classes of what makes the operands they ask about."""

    def __init__(
        self, found: Sequence[tuple[type[Operation], Entry | Deferred]], allowed: int
    ) -> None:
        self._found = found
        self._allowed = allowed
        asked = {k for _, each in found if isinstance(each, Deferred) for k, _ in each.asks}
        self._positions = tuple(sorted(asked))
        self._only = self._positions[0] if len(self._positions) == 1 else None
        self._by_makers: dict[object, tuple[Entry, ...]] = {}
        if not self._positions:
            self._by_makers[()] = self._entries(())

    def rules(self, op: Operation) -> tuple[Entry, ...]:
        """Those that may match an op of this class."""
        operands = op.operands
        if self._only is not None:
            key: object = operands[self._only].owner.__class__
        else:
            key = tuple([operands[k].owner.__class__ for k in self._positions])
        found = self._by_makers.get(key)
        if found is None:
            makers = key if isinstance(key, tuple) else (key,)
            found = self._by_makers[key] = self._entries(cast("tuple[type, ...]", makers))
        return found

    def _entries(self, makers: tuple[type, ...]) -> tuple[Entry, ...]:
        by_position = dict(zip(self._positions, makers, strict=True))
        found: list[Entry] = []
        for op, each in self._found:
            if isinstance(each, Entry):
                entry = each
            elif all(holds(by_position[k]) for k, holds in each.asks):
                entry = each.entry(op)
            else:
                continue
            if EQUIVALENCE.index(entry.equivalence) <= self._allowed:
                found.append(entry)
        return tuple(found)


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
        self._tables: dict[int, dict[type[Operation], _Table | None]] = {}
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

    def entries(self) -> list[Entry]:
        """All rules."""
        return [
            each.entry(op) if isinstance(each, Deferred) else each
            for op, found in self._by_op.items()
            for each in found
        ]

    def sweep(self, module: ModuleOp) -> None:
        """Applies the rules to every op of the module that is used, regions included."""
        sweep = _Sweep(self, MODES.index(numerics_of(module)))
        for op in module.body.block.ops:
            for region in op.regions:
                for block in region.blocks:
                    sweep.block(block)

    def table(self, op: type[Operation], allowed: int) -> _Table | None:
        """The rules for ops of a class under a numerics mode; None where there are none."""
        found = [(op, each) for base in op.__mro__ for each in self._by_op.get(base, ())]
        return _Table(found, allowed) if found else None

    def tables(self, allowed: int) -> dict[type[Operation], _Table | None]:
        """Those of the classes that were met under a numerics mode."""
        return self._tables.setdefault(allowed, {})


class _Sweep:
    """One pass over a module."""

    def __init__(self, rules: Rules, allowed: int) -> None:
        self.rules, self.allowed = rules, allowed
        self.tables = rules.tables(allowed)
        self.limit = _limit.get()
        self.rewrite = Rewrite()
        self.chains: dict[Operation, int] = {}  # rewrites that led to an op, where there were any

    def block(self, block: Block) -> None:
        """Applies the rules to the ops of a block, until none matches."""
        op = block.first_op
        while op is not None:
            for region in op.regions:
                for inner in region.blocks:
                    self.block(inner)
            before = op.prev_op
            value = self._rewritten(op)
            if value is None:
                op = op.next_op
                continue
            self._count(op)
            op.results[0].replace_all_uses_with(value)
            old, op = op, block.first_op if before is None else before.next_op
            if op is old:
                op = old.next_op
            block.erase_op(old)

    def _count(self, op: Operation) -> None:
        chain = self.chains.pop(op, 0) + 1
        if chain > LONGEST_CHAIN:
            raise CompilerBug(f"rules for '{op.name}' undo each other")
        for new in self.rewrite.built:
            self.chains[new] = chain

    def _rewritten(self, op: Operation) -> SSAValue | None:
        kind = op.__class__
        try:
            table = self.tables[kind]
        except KeyError:
            table = self.tables[kind] = self.rules.table(kind, self.allowed)
        if table is None or op.results[0].first_use is None:
            return None
        rules = table.rules(op)
        limit = self.limit
        if not rules or (limit is not None and len(limit.applied) == limit.most):
            return None
        rewrite = self.rewrite
        rewrite.anchor = op
        rewrite.built.clear()
        for entry in rules:
            if (value := entry.rule(op, rewrite)) is not None:
                if entry.equivalence != "exact":
                    _say(op, entry, rewrite.built)
                if limit is not None:
                    limit.applied.append(entry.name)
                    if limit.heard is not None:
                        limit.heard(entry, op, value, rewrite.built)
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
