"""
Which values of a planned function may lie in one another's memory, and which must keep what they
hold while a kernel writes: what planning buffers and lowering the entry share.

Regions hand buffers on without copying: a carried value, what it starts as, what is yielded for it
and the result form one group. Each kernel that makes a value of a group writes where no live value
of the group lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.analysis.homes import block_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import DONATED
from mlc.dialects.tensor.control import ControlOp, WhileOp, yield_of
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.dialects.tile.kernel import CallOp


def donations_of(function: FuncOp) -> dict[int, int]:
    """The result that takes an argument's place, by argument."""
    found: dict[int, int] = {}
    for k, attributes in enumerate(function.arg_attrs or ()):
        number = attributes.data.get(DONATED)
        if isinstance(number, IntegerAttr):
            found[k] = number.value.data
    return found


def root_of(value: SSAValue) -> SSAValue:
    """The value whose memory reshapes and tiles look at."""
    while (view := memory_view(value.owner)) is not None:
        value = view.operands[0]
    return value


def memory_view(op: Operation | Block) -> TensorOp | None:
    """The op, where its result lies in memory where its first operand does."""
    return op if isinstance(op, TensorOp) and op.SHARES_MEMORY else None


class Aliases:
    """The groups and lives of one function's values; views count as what they look at."""

    def __init__(self, function: FuncOp) -> None:
        self.kernels: list[KernelOp] = []
        self.calls: list[CallOp] = []
        """Of tile programs."""
        self.moving: set[SSAValue] = set()
        """Groups of which a value may lie in one of several slots."""
        self._parent: dict[SSAValue, SSAValue] = {}
        self._order: dict[SSAValue, int] = {}
        self._places: dict[Operation, int] = {}
        self._last: dict[Block, dict[SSAValue, int]] = {}
        """By block: where its ops, and those in their regions, read a value last."""
        self._again: dict[ControlOp, set[SSAValue]] = {}
        """By loop: what its trips read from outside."""
        self._block = function.body.block
        self._join(self._block)
        self._read_in(self._block)
        for op in (*self.kernels, *self.calls):
            for value, buffer in zip(op.outs, op.buffers or (), strict=False):
                if len(buffer.data[1]) > 1:
                    self.moving.add(self.group(value))

    def group(self, value: SSAValue) -> SSAValue:
        """The value that stands for the group."""
        value = root_of(value)
        while (parent := self._parent.get(value)) is not None:
            value = parent
        return value

    def values(self) -> Iterable[SSAValue]:
        """All values of the function."""
        return self._order

    @cached_property
    def members(self) -> Mapping[SSAValue, Sequence[SSAValue]]:
        """By group: its values, in program order; views of them are not among them."""
        found: dict[SSAValue, list[SSAValue]] = {}
        for value in self._order:
            if memory_view(value.owner) is None:
                found.setdefault(self.group(value), []).append(value)
        return found

    def _unite(self, values: Iterable[SSAValue]) -> None:
        first, *others = (self.group(x) for x in values)
        for other in others:
            if other is not first:
                self._parent[other] = first

    def _join(self, block: Block) -> None:
        """Unites what regions hand on, and numbers all values."""
        for value in block.args:
            self._order[value] = len(self._order)
        for op in block.ops:
            if isinstance(op, ControlOp):
                for inner in op.blocks:
                    self._join(inner)
                for k, result in enumerate(op.results):
                    self._unite((result, *handed_on(op, k)))
                if isinstance(op, TilesOp) and op.spreads:
                    for value in zip(op.carried, op.next, strict=True):
                        self._unite(value)
                if isinstance(op, TilesOp):
                    ends = yield_of(op.body.block).values
                    for k, value in zip(op.meeting, op.so_far, strict=True):
                        self._unite((value, ends[k]))
            elif isinstance(op, KernelOp) and (k := op.overwritten) is not None:
                self._unite((op.inputs[k], op.outs[0]))
            for value in op.results:
                self._order[value] = len(self._order)

    def _read_in(self, block: Block) -> set[SSAValue]:
        """Notes where a block reads values last; gives those that are made around it."""
        last = self._last[block] = {}
        for at, op in enumerate(block.ops):
            self._places[op] = at
            if isinstance(op, KernelOp):
                self.kernels.append(op)
            elif isinstance(op, CallOp):
                self.calls.append(op)
            elif isinstance(op, ControlOp):
                inner = set[SSAValue]().union(*map(self._read_in, op.blocks))
                last.update(dict.fromkeys(inner, at))
                if op.repeats:
                    self._again[op] = inner
                if isinstance(op, WhileOp):
                    test = op.condition.block
                    self._last[test].update(dict.fromkeys(test.args, len(self._places)))
            elif memory_view(op) is not None:
                continue  # its uses count as uses of what it looks at
            last.update(dict.fromkeys(map(root_of, op.operands), at))
        return {value for value in last if block_of(value) is not block}

    # what is live -------------------------------------------------------------------------------

    def is_read_after(self, op: Operation, value: SSAValue) -> bool:
        """Whether a value is there after an op, and read: a value in memory, not a view of it."""
        block, at = op.parent, self._places[op]
        newest = at  # what is made later is not there; the op's own results are
        while block is not None:
            is_read = self._last[block].get(value, -1) > at
            if block_of(value) is block:
                return is_read and self._place(value) <= newest
            around = block.parent_op()
            if is_read or not isinstance(around, ControlOp):
                return is_read
            if value in self._again.get(around, ()):
                return True  # the next trip reads it again
            block, at = around.parent, self._places[around]
            newest = at - 1
        return False

    def is_live(self, op: Operation, value: SSAValue) -> bool:
        """Whether an op reads a value that lies in memory, or something after it does."""
        if value.owner is op:
            return False
        return value in map(root_of, op.operands) or self.is_read_after(op, value)

    def alive(self) -> Iterator[tuple[KernelOp, Sequence[SSAValue]]]:
        """Each kernel with what it reads and what is read after it, both in program order."""
        yield from self._alive(self._block, set())

    def _alive(
        self, block: Block, around: AbstractSet[SSAValue]
    ) -> Iterator[tuple[KernelOp, Sequence[SSAValue]]]:
        last = self._last[block]
        ending: dict[int, list[SSAValue]] = {}
        for value, at in last.items():
            if value not in around:
                ending.setdefault(at, []).append(value)
        here = {*around, *(x for x in last if self._place(x) < 0 or block_of(x) is not block)}
        for at, op in enumerate(block.ops):
            if isinstance(op, KernelOp):
                yield op, sorted(here, key=self._order.__getitem__)
            here.difference_update(ending.get(at, ()))
            if isinstance(op, ControlOp):
                for inner in op.blocks:
                    yield from self._alive(inner, here | self._again.get(op, set()))
            here.update(x for x in op.results if x in last)

    def _place(self, value: SSAValue) -> int:
        """Where the op that makes a value stands in its block; -1: before all of them."""
        owner = value.owner
        return -1 if isinstance(owner, Block) else self._places[owner]


def handed_on(op: ControlOp, k: int) -> Iterator[SSAValue]:
    """What lies where the k-th result may lie."""
    number = k - op.first_carried
    if number < 0:
        return  # its tiles go to memory of its own
    if isinstance(op, TilesOp) and op.spreads:
        start = op.starts[number]
        if is_unwritten(start):
            yield start
        return  # what chunks end with goes to memory of its own
    if starts := op.starts:
        yield starts[number]
        for block in op.blocks:
            yield op.carried_in(block)[number]
    for block in op.yielding():
        yield yield_of(block).values[k]


def is_unwritten(value: SSAValue) -> bool:
    """Whether nobody reads what a value is said to hold, so that it is not written."""
    return isinstance(value.owner, KernelOp) and value.owner.unwritten is not None


def values_from_outside(op: Operation) -> Iterator[SSAValue]:
    """The values that an op's regions read and do not define, views as what they look at."""
    inside: set[SSAValue] = set()
    for block in _blocks(op):
        inside.update(block.args)
        for inner in block.ops:
            inside.update(inner.results)
    for block in _blocks(op):
        for inner in block.ops:
            if memory_view(inner) is not None:
                continue
            for value in inner.operands:
                if (root := root_of(value)) not in inside:
                    yield root


def _blocks(op: Operation) -> Iterator[Block]:
    """The blocks inside an op, but not those of kernels."""
    for region in op.regions:
        for block in region.blocks:
            yield block
            for inner in block.ops:
                if inner.regions and not isinstance(inner, KernelOp):
                    yield from _blocks(inner)
