"""
Programs that are equal, all at once: the ops of a block, on classes of equal values.

An e-graph of our own: it is made of the ops of the tensor level, so that what rules ask of ops, of
types and of numbers is asked of it as of a program. SOURCE: Nelson, Oppen, JACM 27(2), 1980, for
congruence; Willsey et al., egg, POPL 2021, for rebuilding it once for many unions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeGuard

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.structural_hash import numbered
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import OpBuilder, Tensor, TensorOp
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True, eq=False)
class Applied:
    """A rule that was applied, where, and what else had been applied to make what it matched."""

    number: int
    rule: str
    at: str
    because: tuple[Applied, ...]


class Node:
    """
    An op on classes: `op` says what it is and its types, `args` what it reads. `place`: where it
    may stand, of the op that it was made for; `made_by`: the rule, None of what was there.
    """

    __slots__ = ("args", "made_by", "number", "op", "place", "same")

    def __init__(
        self, op: TensorOp, args: tuple[int, ...], place: int, number: int, made_by: Applied | None
    ) -> None:
        self.op, self.args, self.place, self.number = op, args, place, number
        self.made_by = made_by
        self.same: Node | None = None  # which it turned out to be

    def kept(self) -> Node:
        """The node that is kept of those that are equal."""
        node = self
        while node.same is not None:
            node = node.same
        return node


class Class:
    """Values that are equal. `leaf`: one that is there without any op; `value` stands for all."""

    __slots__ = ("leaf", "nodes", "parents", "value")

    def __init__(self, value: SSAValue, leaf: SSAValue | None) -> None:
        self.value, self.leaf = value, leaf
        self.nodes: list[Node] = []
        self.parents: list[tuple[Node, int]] = []


class EGraph:
    """
    Of a block: ops of one result without regions are nodes, everything else is an anchor, which
    stays where it is. What comes from outside of the block is a leaf.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.classes: dict[int, Class] = {}
        self.anchors: list[tuple[int, Operation]] = []
        self.changed: set[int] = set()
        """Classes that are new or became larger, until somebody clears it."""
        self.count = 0  # of nodes
        self._roots: list[int] = []
        self._ids: dict[SSAValue, int] = {}
        self._memo: dict[Hashable, tuple[Node, int]] = {}
        self._pending: list[int] = []
        for argument in block.args:
            self.class_of(argument)
        for place, op in enumerate(block.ops):
            if is_plain(op):
                self.add(op, place)
            else:
                self.anchors.append((place, op))

    # Classes ------------------------------------------------------------------------------------

    def find(self, number: int) -> int:
        """The class that a class has become a part of."""
        roots = self._roots
        while roots[number] != number:
            roots[number] = roots[roots[number]]
            number = roots[number]
        return number

    def class_of(self, value: SSAValue) -> int:
        """Of a value, which is a leaf where it is new."""
        known = self._ids.get(value)
        if known is not None:
            return self.find(known)
        return self._new(Class(value, value))

    def value(self, number: int) -> SSAValue:
        """What stands for the values of a class."""
        return self.classes[self.find(number)].value

    def _new(self, made: Class) -> int:
        number = len(self._roots)
        self._roots.append(number)
        self.classes[number] = made
        self._ids[made.value] = number
        self.changed.add(number)
        return number

    # Growing ------------------------------------------------------------------------------------

    def add(self, op: TensorOp, place: int, made_by: Applied | None = None) -> Node:
        """The node of an op whose operands are values of the graph: an equal one, if there is."""
        args = tuple(map(self.class_of, op.operands))
        key = self._key(op, args)
        known = self._memo.get(key)
        if known is not None:
            self._ids.setdefault(op.results[0], known[1])
            return known[0].kept()
        node = Node(op, args, place, self.count, made_by)
        self.count += 1
        made = Class(op.results[0], None)
        made.nodes.append(node)
        number = self._new(made)
        self._memo[key] = node, number
        for x in dict.fromkeys(args):
            self.classes[x].parents.append((node, number))
        return node

    def union(self, one: SSAValue, other: SSAValue) -> None:
        """Says that two values are equal; `rebuild` draws the conclusions."""
        self._join(self.class_of(one), self.class_of(other))

    def _join(self, one: int, other: int) -> None:
        one, other = sorted((self.find(one), self.find(other)))
        if one == other:
            return
        self._roots[other] = one
        kept, gone = self.classes[one], self.classes.pop(other)
        kept.nodes += gone.nodes
        kept.parents += gone.parents
        kept.value = min(kept.value, gone.value, key=_rank)
        kept.leaf = gone.leaf if kept.leaf is None else kept.leaf
        self.changed.discard(other)
        self.changed.add(one)
        self._pending.append(one)

    def rebuild(self) -> None:
        """Ops of one kind that read equal values are equal."""
        while self._pending:
            pending = sorted({self.find(x) for x in self._pending})
            self._pending.clear()
            for number in pending:
                self._repair(self.find(number))

    def _repair(self, number: int) -> None:
        parents = self.classes[number].parents
        kept: list[tuple[Node, int]] = []
        self.classes[number].parents = kept
        met: set[Node] = set()
        for node, of in parents:
            if node in met or node.same is not None:
                continue
            met.add(node)
            node.args = tuple(map(self.find, node.args))
            key = self._key(node.op, node.args)
            known = self._memo.get(key)
            mine = self.find(of)
            if known is None or (first := known[0].kept()) is node:
                self._memo[key] = node, mine
                kept.append((node, mine))
                continue
            node.same = first
            self.classes[mine].nodes.remove(node)
            self._join(known[1], mine)
        if self.find(number) != number:  # what was kept of it belongs to what it is part of now
            self.classes[self.find(number)].parents += kept

    def _key(self, op: TensorOp, args: tuple[int, ...]) -> Hashable:
        """Equal for ops that compute the same, whatever their index letters are called."""
        properties = [
            numbered(value.data) if name == "letters" and isinstance(value, StringAttr) else value
            for name, value in sorted(op.properties.items())
        ]
        operands = sorted(args) if op.commutes else args
        return type(op), op.results[0].type, *operands, "", *properties

    # Looking ------------------------------------------------------------------------------------

    def read_by(self, anchor: Operation) -> list[SSAValue]:
        """The values of the block, and from outside, that an anchor and its regions read."""
        inside = [x for op in anchor.walk() if op is not anchor for x in op.operands]
        return [*anchor.operands, *(x for x in inside if x in self._ids)]

    def above(self, classes: set[int], steps: int) -> list[int]:
        """Classes, and those that are made of them by so many ops at most, in order."""
        found = {self.find(x) for x in classes}
        last = found
        for _ in range(steps):
            readers = (of for x in last for _, of in self.classes[x].parents)
            last = {self.find(of) for of in readers} - found
            found = found | last
        return sorted(found)


class Growing(OpBuilder):
    """Builds ops into a graph."""

    def __init__(self, graph: EGraph, root: Node, made_by: Applied) -> None:
        super().__init__(lambda new: None)
        self.graph, self.root, self.made_by = graph, root, made_by
        self.nodes: dict[SSAValue, Node] = {}
        """What was built, by the values of their classes."""

    def __call__(
        self,
        op: type[TensorOp],
        *operands: SSAValue,
        declared: Tensor | None = None,
        **properties: object,
    ) -> SSAValue:
        new = op.make(*operands, declared=declared, **properties)
        new.location = self.root.op.location
        node = self.graph.add(new, self.root.place, self.made_by)
        value = self.graph.value(self.graph.class_of(new.results[0]))
        self.nodes[value] = node
        return value


def is_plain(op: Operation) -> TypeGuard[TensorOp]:
    """Whether an op is its name, its properties and what it reads."""
    return isinstance(op, TensorOp) and len(op.results) == 1 and not op.regions


def blocks_of(op: Operation) -> Iterator[Block]:
    """The blocks in an op, outer ones first."""
    for inner in op.walk():
        for region in inner.regions:
            yield from region.blocks


def derivation(nodes: Sequence[Node]) -> list[Applied]:
    """The rules that made these nodes, and all that made what those matched, in order."""
    found: dict[int, Applied] = {}
    pending = [node.made_by for node in nodes if node.made_by is not None]
    while pending:
        step = pending.pop()
        if step.number not in found:
            found[step.number] = step
            pending += step.because
    return [found[number] for number in sorted(found)]


def _rank(value: SSAValue) -> int:
    """Which of equal values says most: of what is a constant rules know the number."""
    if isinstance(value.owner, ConstantOp):
        return 0
    return 1 if isinstance(value, BlockArgument) else 2
