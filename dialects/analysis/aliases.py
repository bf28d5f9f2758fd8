"""
Which values of a planned function may lie in one another's memory, and which must keep what they
hold while a kernel writes: what planning buffers and lowering the entry share.

Regions hand buffers on without copying: a carried value, what it starts as, what is yielded for it
and the result form one group. Each kernel that makes a value of a group writes where no live value
of the group lies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.dialects.builtin import IntegerAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

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
        self.live: dict[KernelOp, tuple[SSAValue, ...]] = {}
        """By kernel: what it reads, and what is read after it; in program order."""
        self.after: dict[KernelOp, frozenset[SSAValue]] = {}
        """By kernel: what is read after it, its own results included."""
        self.calls: dict[CallOp, tuple[SSAValue, ...]] = {}
        """As `live`, of calls of tile programs."""
        self.moving: set[SSAValue] = set()
        """Groups of which a value may lie in one of several slots."""
        self._parent: dict[SSAValue, SSAValue] = {}
        self._order: dict[SSAValue, int] = {}
        block = function.body.block
        self._join(block)
        self._walk(block, ())
        for op in (*self.live, *self.calls):
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
            elif isinstance(op, KernelOp) and (k := op.overwritten) is not None:
                self._unite((op.inputs[k], op.outs[0]))
            for value in op.results:
                self._order[value] = len(self._order)

    def _walk(self, block: Block, after: Iterable[SSAValue]) -> dict[SSAValue, None]:
        """Notes what is live at each kernel, backwards; gives what is live at the beginning."""
        live = dict.fromkeys(after)
        for op in reversed(block.ops):
            if isinstance(op, KernelOp):
                self.after[op] = frozenset(live)
            for value in op.results:
                live.pop(value, None)
            if isinstance(op, ControlOp):
                self._control(op, live)
            elif memory_view(op) is not None:
                continue  # its uses count as uses of what it looks at
            live.update(dict.fromkeys(map(root_of, op.operands)))
            if isinstance(op, KernelOp):
                self.live[op] = tuple(sorted(live, key=self._order.__getitem__))
            elif isinstance(op, CallOp):
                self.calls[op] = tuple(sorted(live, key=self._order.__getitem__))
        for argument in block.args:
            live.pop(argument, None)
        return live

    def _control(self, op: ControlOp, live: dict[SSAValue, None]) -> None:
        if not op.repeats:
            branches = [self._walk(block, tuple(live)) for block in op.blocks]
            for found in branches:
                live.update(found)
            return
        live.update(dict.fromkeys(values_from_outside(op)))  # the next trip reads them again
        for block in op.blocks:
            is_test = isinstance(op, WhileOp) and block is op.condition.block
            self._walk(block, (*live, *(block.args if is_test else ())))


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
