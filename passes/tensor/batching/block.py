"""The batched program of a block: its ops one after another, each over a new leading axis."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import MulOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, TransposeOp, broadcast_to
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.batching.control import rule_of
from mlc.passes.tensor.batching.spread import Spread


@dataclass(frozen=True)
class Lane:
    """A value of the batched program; `batched`: its first axis is the batch's."""

    value: SSAValue
    batched: bool


def batch_block(
    block: Block,
    outputs: Sequence[SSAValue],
    arguments: Sequence[Lane],
    size: Dim,
    b: OpBuilder,
) -> list[Lane]:
    """
    Emits through `b` the program of `block` for `size` examples at once, and gives its `outputs`.

    `arguments` replace the block's, one for each. The block itself stays as it is; it may refer to
    values around it, which are the same for all examples and remain. An op that reads nothing
    batched is copied. NotImplementedError for an op with regions of which nobody says how it is
    batched.
    """
    pairs = list(zip(block.args, arguments, strict=True))
    spread = Spread(argument for argument, lane in pairs if lane.batched)
    spread.block(block)
    batcher = Batcher(size, b, spread)
    batcher.bind(block.args, [lane.value for lane in arguments])
    batcher.block(block)
    return [Lane(batcher.now(x), spread.varies(x)) for x in outputs]


def to_front(b: OpBuilder, x: SSAValue, axis: int) -> SSAValue:
    """`x` with an axis moved to the front."""
    return _moved(b, x, axis, 0)


def from_front(b: OpBuilder, x: SSAValue, axis: int) -> SSAValue:
    """`x` with its first axis moved to `axis`."""
    return _moved(b, x, 0, axis)


def _moved(b: OpBuilder, x: SSAValue, source: int, target: int) -> SSAValue:
    if source == target:
        return x
    letters = ALPHABET[: len(shape_of(x.type))]
    rest = letters[:source] + letters[source + 1 :]
    return b(TransposeOp, x, letters=f"{letters}->{rest[:target]}{letters[source]}{rest[target:]}")


class Batcher:
    """
    The batched program as it grows. `mask` says which examples really run the code at hand, as
    bool (size,): ops that may fail get harmless operands for the others. None: all do.
    """

    def __init__(self, size: Dim, b: OpBuilder, spread: Spread) -> None:
        self.size = size
        self.spread = spread
        self.mask: SSAValue | None = None
        self.b = OpBuilder(self._insert)
        self._targets = [b.insert]
        self._anchor: Operation | None = None
        self._now: dict[SSAValue, SSAValue] = {}

    def _insert(self, op: Operation) -> None:
        self._targets[-1](op)
        if self._anchor is not None:
            op.location = self._anchor.location

    # Values --------------------------------------------------------------------------------------

    def bind(self, values: Iterable[SSAValue], now: Iterable[SSAValue]) -> None:
        """From here on the batched program has `now` for the values."""
        for value, new in zip(values, now, strict=True):
            self._now[value] = new
            if new.name_hint is None:
                new.name_hint = value.name_hint

    def varies(self, value: SSAValue) -> bool:
        """Whether the value has the batch axis."""
        return self.spread.varies(value)

    def now(self, value: SSAValue) -> SSAValue:
        """The value as the batched program has it."""
        return self._now.get(value, value)

    def lanes(self, value: SSAValue) -> SSAValue:
        """The value for each example, repeated where all have the same."""
        new = self.now(value)
        return new if self.varies(value) else self.repeated(new)

    def like(self, value: SSAValue, model: SSAValue) -> SSAValue:
        """The value, for each example where `model` varies."""
        return self.lanes(value) if self.varies(model) else self.now(value)

    def repeated(self, value: SSAValue) -> SSAValue:
        """(size, …): the same for each example."""
        return broadcast_to(self.b, value, (self.size, *shape_of(value.type)))

    # Examples that do not take part --------------------------------------------------------------

    def choose(self, mask: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
        """`x` for the examples in the mask, else `y`; all (size, …)."""
        letters = ALPHABET[: len(shape_of(x.type))]
        if len(letters) > 1:
            declared = tensor_type(BOOL.ir, shape_of(x.type))
            mask = self.b(BroadcastOp, mask, letters=f"{letters[0]}->{letters}", declared=declared)
        return self.b(SelectOp, mask, x, y)

    def both(self, mask: SSAValue | None, other: SSAValue) -> SSAValue:
        """The examples in both."""
        return other if mask is None else self.b(MulOp, mask, other)

    def others(self, mask: SSAValue) -> SSAValue:
        """The examples that are not in the mask."""
        return self.b(CompareOp, mask, full(self.b, False, BOOL, (self.size,)), predicate="eq")

    def some(self, mask: SSAValue) -> SSAValue:
        """Whether any example is in the mask."""
        return self.b(ReduceOp, mask, monoid="sum", letters="a->")

    def total(self, x: SSAValue) -> SSAValue:
        """The sum over the examples of a value that varies."""
        letters = ALPHABET[: len(shape_of(x.type))]
        return self.b(ReduceOp, x, monoid="sum", letters=f"{letters}->{letters[1:]}")

    @contextmanager
    def masked(self, mask: SSAValue | None) -> Generator[None, None, None]:
        """Only these examples run what comes until the end."""
        outer, self.mask = self.mask, mask
        try:
            yield
        finally:
            self.mask = outer

    # Ops -----------------------------------------------------------------------------------------

    @contextmanager
    def inside(self, block: Block) -> Generator[None, None, None]:
        """Ops go to the end of `block` until the end."""
        self._targets.append(block.add_op)
        try:
            yield
        finally:
            self._targets.pop()

    def fresh(self, old: Block) -> Block:
        """An empty block with the old one's arguments, each as it varies; they are bound."""
        types = [
            tensor_type(tensor_of(x).element_type, (self.size, *shape_of(x.type)))
            if self.varies(x)
            else x.type
            for x in old.args
        ]
        block = Block(arg_types=types)
        self.bind(old.args, block.args)
        return block

    def insert(self, op: Operation) -> None:
        """Adds an op that is not a tensor op."""
        self._insert(op)

    def block(self, block: Block) -> None:
        """The block's ops, without its terminator, each where the old one has its location."""
        outer = self._anchor
        for op in block.ops:
            if isinstance(op, YieldOp | ReturnOp):
                break
            self._anchor = op
            if not self.spread.touches(op):
                self._insert(op.clone(self._now))
            elif isinstance(op, ControlOp):
                self.control(op)
            else:
                assert isinstance(op, TensorOp), op.name
                self._tensor_op(op)
        self._anchor = outer

    def control(self, op: ControlOp) -> None:
        """One with regions, of which something varies."""
        rule_of(op).emit(self, op)

    def _tensor_op(self, op: TensorOp) -> None:
        operands = [self.now(x) for x in op.operands]
        varying = [self.varies(x) for x in op.operands]
        if op.CHECKS and self.mask is not None:
            for k, x in enumerate(operands):
                harmless = op.harmless(self.b, k) if varying[k] else None
                if harmless is not None:
                    operands[k] = self.choose(self.mask, x, self.repeated(harmless))
        result = op.batch(self.b, operands, varying)
        result.name_hint = op.results[0].name_hint
        self._now[op.results[0]] = result

    def zeros(self, model: SSAValue) -> SSAValue:
        """Zeros of the type that `model` has for each example."""
        dtype = element_dtype(model)
        return full(self.b, 0, dtype, (self.size, *shape_of(model.type)))
