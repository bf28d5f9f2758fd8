"""A block as a graph of numbers, for searches that ask the same questions many times."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator

from xdsl.ir import Block, Operation, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.analysis.axes import AxisMaps
from mlc.dialects.analysis.views import is_view
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction


class BlockGraph:
    """The ops of a block by their number, as they are now."""

    def __init__(self, block: Block, maps: AxisMaps) -> None:
        self.ops = list(block.ops)
        self.maps = maps
        self._numbers: dict[Operation, int] = {op: k for k, op in enumerate(self.ops)}
        numbers = self._numbers
        self._producers = [
            [numbers[p] for p in maps.producers_of(op) if p in numbers] for op in self.ops
        ]
        self._readers: dict[SSAValue, list[tuple[int, TensorOp]]] = {}
        self._dissolving: dict[SSAValue, bool] = {}

    def number(self, op: Operation) -> int | None:
        """The op's place in the block; None where it stands elsewhere."""
        return self._numbers.get(op)

    @cached_property
    def _bits(self) -> list[int]:
        """Of each op its own bit; none of views."""
        return [0 if self.maps.is_view(op) else 1 << k for k, op in enumerate(self.ops)]

    @cached_property
    def before(self) -> list[int]:
        """For each op the ops that its operands are made from, as bits; views do not count."""
        found: list[int] = []
        own: list[int] = []  # with the op's own bit
        for bit, producers in zip(self._bits, self._producers, strict=True):
            bits = 0
            for producer in producers:
                bits |= own[producer]
            found.append(bits)
            own.append(bits | bit)
        return found

    @cached_property
    def behind(self) -> list[int]:
        """For each op the ops that are made from its result, as bits; views do not count."""
        found = [0] * len(self.ops)
        for number in range(len(self.ops) - 1, -1, -1):
            bits = found[number] | self._bits[number]
            for producer in self._producers[number]:
                found[producer] |= bits
        return found

    def readers_near(self, value: SSAValue, op: Operation, count: int) -> Iterator[TensorOp]:
        """The ops of the block that read a value, through views too: at most so many around one."""
        found = self._readers.get(value)
        if found is None:
            numbered = {self.number(reader): reader for reader in readers_of(value)}
            found = [(k, reader) for k, reader in numbered.items() if k is not None]
            found.sort(key=lambda reader: reader[0])
            self._readers[value] = found
        if len(found) > count:
            place = bisect_left(found, self._numbers[op], key=lambda reader: reader[0])
            start = min(max(place - count // 2, 0), len(found) - count)
            found = found[start : start + count]
        return (reader for _, reader in found)

    def may_dissolve(self, value: SSAValue) -> bool:
        """Whether all that read a value may compute it themselves."""
        found = self._dissolving.get(value)
        if found is None:
            kinds = (Elementwise, Reduction)
            found = all(isinstance(user, kinds) for user in all_readers(value))
            self._dissolving[value] = found
        return found

    def ordered(self, members: Collection[TensorOp]) -> list[TensorOp]:
        """Ops as they stand in the block."""
        return sorted(members, key=self._numbers.__getitem__)


def all_readers(value: SSAValue) -> Iterator[Operation]:
    """Whatever reads a value, directly or through views."""
    pending, seen = [value], set[Operation]()
    while pending:
        for use in pending.pop().uses:
            user = use.operation
            if not is_view(user):
                yield user
            elif user not in seen:
                seen.add(user)
                pending.append(user.results[0])


def readers_of(value: SSAValue) -> Iterator[TensorOp]:
    """The tensor ops that read a value, directly or through views."""
    return (op for op in all_readers(value) if isinstance(op, TensorOp))


class ConvexSet:
    """Ops of a block with no path from one to another that leaves the set."""

    def __init__(self, graph: BlockGraph) -> None:
        self.graph = graph
        self.members = 0
        self.before = 0
        self.behind = 0
        self.closed = 0  # what is made from members that are complete only at the end

    def add(self, op: Operation, *, ends: bool) -> bool:
        """Takes an op in unless a path would leave the set. `ends`: nothing in it may read this."""
        number = self.graph.number(op)
        assert number is not None
        bit = 1 << number
        members = self.members | bit
        before = self.before | self.graph.before[number]
        behind = self.behind | self.graph.behind[number]
        closed = self.closed | (self.graph.behind[number] if ends else 0)
        if before & behind & ~members or closed & members:
            return False
        self.members, self.before, self.behind = members, before, behind
        self.closed = closed
        return True

    def take(self, other: ConvexSet) -> None:
        """All that another set of the same graph has."""
        self.members, self.before, self.behind = other.members, other.before, other.behind
        self.closed = other.closed
