"""A block as a graph of numbers, for searches that ask the same questions many times."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tensor.op import TensorOp
from mlc.passes.plan.legality import is_view
from mlc.passes.plan.tile_axes import AxisMaps

NOTHING, MEMBER, AFTER = 0, 1, 2
"""What an op is to a group: unrelated; a member, or a view of one; made from a member outside."""


class BlockGraph:
    """The ops of a block by their number, as they are now."""

    def __init__(self, block: Block, maps: AxisMaps) -> None:
        self.ops = list(block.ops)
        self.order: dict[Operation, int] = {op: k for k, op in enumerate(self.ops)}
        self.maps = maps
        self._readers: dict[TensorOp, tuple[TensorOp, ...]] = {}

    def readers_of(self, op: TensorOp) -> tuple[TensorOp, ...]:
        """The ops that read an op's result, directly or through views, each once."""
        found = self._readers.get(op)
        if found is None:
            found = self._readers[op] = tuple(dict.fromkeys(readers_of(op.results[0])))
        return found

    def convex(self, members: Collection[TensorOp], folds: Collection[TensorOp]) -> list[TensorOp]:
        """
        The members, in order, none of which needs a value that is made from another outside of
        them; what folds make is complete only after all members.
        """
        if not members:
            return []
        numbers = sorted(self.order[op] for op in members)
        wanted = set(numbers)
        role = [NOTHING] * (numbers[-1] + 1)
        kept: list[TensorOp] = []
        for k in range(numbers[0], numbers[-1] + 1):
            op = self.ops[k]
            given = NOTHING
            for producer in self.maps.producers_of(op):
                number = self.order.get(producer)
                if number is not None and role[number] > given:
                    given = role[number]
            if k in wanted and given != AFTER and isinstance(op, TensorOp):
                kept.append(op)
                role[k] = AFTER if op in folds else MEMBER
            elif self.maps.is_view(op):
                role[k] = given
            elif given:
                role[k] = AFTER
        return kept


def readers_of(value: SSAValue) -> Iterator[TensorOp]:
    """The ops that read a value, directly or through views."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, TensorOp):
            if is_view(user):
                yield from readers_of(user.results[0])
            else:
                yield user
