"""
Values that are computed again where they are read late, instead of being kept: what that frees and
costs by estimate, and the program that does it.

The model of a block are the values that a plan of it stores, in program order, each with the stored
values that it is computed from. A value may leave memory in the longest stretch in which nobody
reads it; who reads it behind the stretch reads a copy, computed before the first of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.aliases import root_of, values_from_outside
from mlc.dialects.analysis.views import is_view
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.ops import work_of_op
from mlc.passes.cost.sizes import elements_of, stored_bytes
from mlc.passes.cost.work import ATTO, Clock, Work, level_of, moved

LEAST_STRETCH = 3
"""Readers closer than this run at about the same time: nothing is live in between."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A stored value, or an op without one that reads stored values."""

    op: Operation
    bytes: int  # of the arena
    reads: tuple[int, ...]  # nodes
    seconds: float  # of computing it again from these
    again: bool  # whether it may be computed again
    last_early: int  # its last reader before the stretch; its last one where there is no stretch
    stretch: int  # in nodes; 0: all readers are close


@dataclass(frozen=True)
class Step:
    """A node of a program, or its copy; `reads`: nodes, and whether the copy of each."""

    node: int
    copy: bool
    reads: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Profile:
    """What is live by estimate. `peak_bytes`: at the step `peak`."""

    peak_bytes: int
    peak: int
    seconds: float  # of all copies


class Model:
    """The stored values of one block."""

    def __init__(self, block: Block, stored: Collection[SSAValue], clock: Clock) -> None:
        self.block = block
        self.clock = clock
        self.order = {op: k for k, op in enumerate(block.ops)}
        self.node_of: dict[SSAValue, int] = {}
        anchors: list[tuple[Operation, list[Operation], set[int]]] = []
        for op in block.ops:
            is_stored = any(x in stored for x in op.results)
            if not is_stored and isinstance(op, TensorOp):
                continue
            anchors.append((op, *self._cone(op)))
            if not isinstance(op, TensorOp) or is_stored:
                self.node_of.update(dict.fromkeys(op.results, len(anchors) - 1))
        readers: dict[int, list[int]] = {}
        pinned: set[int] = set()  # read inside of loops and branches
        for n, (op, _, reads) in enumerate(anchors):
            for k in reads:
                readers.setdefault(k, []).append(n)
            if isinstance(op, ControlOp):
                pinned |= {self.node_of[x] for x in values_from_outside(op) if x in self.node_of}
        last = block.last_op
        results = set(map(root_of, last.operands)) if last is not None else set[SSAValue]()
        self.nodes = [
            self._node(n, op, cone, reads, readers.get(n, []), pinned, results)
            for n, (op, cone, reads) in enumerate(anchors)
        ]
        self.candidates = [n for n, node in enumerate(self.nodes) if node.again and node.stretch]

    def _cone(self, op: Operation) -> tuple[list[Operation], set[int]]:
        """The ops that are computed on the way to `op`, with it, and the nodes that they read."""
        outside = values_from_outside(op) if isinstance(op, ControlOp) else ()
        pending: list[SSAValue] = [*op.operands, *outside]
        cone: dict[Operation, None] = {op: None}
        reads: set[int] = set()
        while pending:
            value = pending.pop()
            owner = value.owner
            if value in self.node_of:
                reads.add(self.node_of[value])
            elif isinstance(owner, TensorOp) and owner in self.order and owner not in cone:
                cone[owner] = None
                pending += owner.operands
        return list(cone), reads

    def _node(
        self,
        number: int,
        op: Operation,
        cone: Iterable[Operation],
        reads: set[int],
        readers: Sequence[int],
        pinned: set[int],
        results: set[SSAValue],
    ) -> Node:
        leaves = any(x in results for x in op.results)
        again = number not in pinned and not leaves and all(map(_may_repeat, cone))
        size = 0 if leaves else sum(stored_bytes(x.type) for x in op.results)
        positions = [number, *readers]
        gaps = [(later - here, here) for here, later in zip(positions, readers, strict=False)]
        stretch, last_early = max(gaps, default=(0, number), key=lambda gap: gap[0])
        if stretch < LEAST_STRETCH:
            stretch, last_early = 0, positions[-1]
        return Node(
            op=op,
            bytes=size,
            reads=tuple(sorted(reads)),
            seconds=self._seconds(cone, size) if again else 0.0,
            again=again,
            last_early=last_early,
            stretch=stretch,
        )

    def _seconds(self, cone: Iterable[Operation], size: int) -> float:
        ops = [op for op in cone if isinstance(op, TensorOp) and op.FLOPS]
        target = self.clock.target
        work = Work(write=moved(size, level_of(size, target)), starts=1)
        for op in ops:
            work = work + work_of_op(type(op), op.dtype, elements_of(op.iteration()), target)
        return self.clock.seconds(work) / ATTO

    # What is live -------------------------------------------------------------------------------

    def is_late(self, node: int, at: int, kept: Collection[int]) -> bool:
        """Whether the node `at` reads a copy of a value."""
        found = self.nodes[node]
        return found.again and node not in kept and at > found.last_early

    def needed(self, at: int, kept: Collection[int], made: Collection[int]) -> list[int]:
        """The copies that have to be made before the node `at` may run, in order."""
        pending, found = list(self.nodes[at].reads), set[int]()
        while pending:
            n = pending.pop()
            if n not in found and n not in made and self.is_late(n, at, kept):
                found.add(n)
                pending += self.nodes[n].reads
        return sorted(found)

    def steps(self, kept: Collection[int]) -> list[Step]:
        """The program in which only the candidates in `kept` are live through their stretches."""
        made: set[int] = set()
        found: list[Step] = []
        for at in range(len(self.nodes)):
            for n in (*self.needed(at, kept, made), at):
                reads = tuple((k, self.is_late(k, at, kept)) for k in self.nodes[n].reads)
                found.append(Step(n, n != at, reads))
                if n != at:
                    made.add(n)
        return found

    def profile(self, kept: Collection[int]) -> Profile:
        """What is live in that program."""
        steps = self.steps(kept)
        last = {(s.node, s.copy): k for k, s in enumerate(steps)}
        for k, step in enumerate(steps):
            last.update(dict.fromkeys(step.reads, k))
        dying: dict[int, int] = {}
        live = most = peak = 0
        for k, step in enumerate(steps):
            size = self.nodes[step.node].bytes
            live += size
            end = last[step.node, step.copy]
            dying[end] = dying.get(end, 0) + size
            if live > most:
                most, peak = live, k
            live -= dying.get(k, 0)
        seconds = sum(self.nodes[s.node].seconds for s in steps if s.copy)
        return Profile(most, peak, seconds)

    def least_seconds(self, freed: int) -> float:
        """
        No choice that frees so many bytes where most is live takes less: the largest value of the
        Lagrange dual, l freed - sum of max(0, l bytes - seconds) over what may be freed there.
        """
        peak = self.profile(self.candidates).peak  # nothing is copied: steps are nodes
        there = [
            self.nodes[n]
            for n in self.candidates
            if self.nodes[n].last_early < peak
            and peak < self.nodes[n].last_early + self.nodes[n].stretch
        ]
        prices = {node.seconds / node.bytes for node in there if node.bytes}

        def dual(price: float) -> float:
            gains = (price * node.bytes - node.seconds for node in there)
            return price * freed - sum(gain for gain in gains if gain > 0)

        return max(map(dual, prices), default=0.0)

    # The program --------------------------------------------------------------------------------

    def rewrite(self, kept: Collection[int]) -> int:
        """Writes that program into the block; how many values are computed again."""
        made: dict[int, SSAValue] = {}
        copies: dict[tuple[Operation, tuple[SSAValue, ...]], SSAValue] = {}
        for at, node in enumerate(self.nodes):
            copied = self.needed(at, kept, made)
            local: dict[SSAValue, SSAValue] = {}
            for n in copied:
                self._operands(self.nodes[n].op, at, kept, made, local, copies, again=True)
                again = self.nodes[n].op
                assert isinstance(again, TensorOp)
                made[n] = _copied(again, local, copies, node.op)
            self._operands(node.op, at, kept, made, local, copies)
            for k, x in enumerate(node.op.operands):
                if local.get(x, x) is not x:
                    node.op.operands[k] = local[x]
        self._sweep()
        return len(made)

    def _operands(
        self,
        op: Operation,
        at: int,
        kept: Collection[int],
        made: Mapping[int, SSAValue],
        local: dict[SSAValue, SSAValue],
        copies: dict[tuple[Operation, tuple[SSAValue, ...]], SSAValue],
        *,
        again: bool = False,
    ) -> None:
        """
        Puts into `local` what an op reads when it stands at the node `at`. `again`: what was not
        stored on the way to it is computed again too, or else it would have to be stored now.
        """
        inner: dict[TensorOp, None] = {}
        pending = list(op.operands)
        while pending:
            value = pending.pop()
            owner = value.owner
            if value in local and not (again and local[value] is value):
                continue
            node = self.node_of.get(value)
            if node is not None:
                local[value] = made[node] if self.is_late(node, at, kept) else value
            elif isinstance(owner, TensorOp) and owner in self.order and owner not in inner:
                inner[owner] = None
                pending += owner.operands
        for each in sorted(inner, key=self.order.__getitem__):
            value = each.results[0]
            changes = any(local.get(x, x) is not x for x in each.operands) or (
                again and not is_view(each) and not isinstance(each, ReshapeOp)
            )
            before = self.nodes[at].op
            local[value] = _copied(each, local, copies, before) if changes else value

    def _sweep(self) -> None:
        """What has no reader any more goes."""
        for op in reversed(list(self.order)):
            if isinstance(op, TensorOp) and op.results[0].first_use is None:
                self.block.erase_op(op)


def _may_repeat(op: Operation) -> bool:
    return isinstance(op, TensorOp) and not op.CHECKS and not isinstance(op, OpaqueOp)


def _copied(
    op: TensorOp,
    local: Mapping[SSAValue, SSAValue],
    copies: dict[tuple[Operation, tuple[SSAValue, ...]], SSAValue],
    before: Operation,
) -> SSAValue:
    """The value of the op on other operands, computed once."""
    operands = tuple(local.get(x, x) for x in op.operands)
    found = copies.get((op, operands))
    if found is None:
        new = op.on(operands)
        assert before.parent is not None
        before.parent.insert_op_before(new, before)
        found = copies[op, operands] = new.results[0]
    return found
