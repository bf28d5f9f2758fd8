"""
Python loops that tracing has unrolled become loops again.

Every op of a program costs time to compile, each trip's kernels anew. Where a block repeats itself,
op for op, with operands that are the same in every trip, or come from the trip itself or from those
before it, one `mlc.for` computes the same.

SOURCE: Stitt and Vahid, New decompilation techniques for binary-level co-processor generation,
ICCAD 2005 (loop rerolling); here on values in SSA form, whose uses say what is carried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation
from xdsl.passes import ModulePass

from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import SliceOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import remark
from mlc.passes.tensor.periods import runs
from mlc.passes.tensor.repeated import Repeated, repeated, rolled

LEAST_TRIPS = 8
LEAST_OPS = 256
"""Of all trips: below, compiling saves less than fusing ops of several trips may."""


@dataclass(frozen=True)
class RollLoopsPass(ModulePass):
    """
    y = f(f(f(…f(x)…)))  ->  y = x; for … { y = f(y) }

    What is elementwise from trip to trip stays unrolled: such trips share one kernel, and no memory
    lies between them. Slices whose offsets grow by the same steps become dynamic ones.
    `least_trips`, and `least_ops` of all trips: what repeats itself less stays.
    """

    name = "mlc-roll-loops"

    least_trips: int = LEAST_TRIPS
    least_ops: int = LEAST_OPS

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pending = [b for f in op.body.block.ops for region in f.regions for b in region.blocks]
        while pending:
            block = pending.pop()
            while (found := self._found(block)) is not None:
                loop = rolled(found)
                remark(loop, f"{found.trips} equal parts of the program are one loop (exact)")
            pending += [b for op in block.ops if isinstance(op, ControlOp) for b in op.blocks]

    def _found(self, block: Block) -> Repeated | None:
        """What to roll next in a block, the most ops first."""
        ops, words = _sequence(block, self.least_trips)
        if len(ops) < self.least_ops:
            return None
        for run in runs(words, self.least_trips):
            found = repeated(ops, run)
            if found is not None and self._is_worth(found):
                return found
        return None

    def _is_worth(self, found: Repeated) -> bool:
        enough = found.trips >= self.least_trips and found.trips * found.period >= self.least_ops
        return enough and not found.is_elementwise


def _sequence(block: Block, least_trips: int) -> tuple[list[Operation], list[int]]:
    """
    The ops of a block that may repeat, and a number for each, equal for those that differ in
    operands at most. What is computed from arguments alone, for all trips, may stand anywhere.
    """
    numbers: dict[Hashable, int] = {}
    words: dict[Operation, int] = {}
    for op in block.ops:
        if op is not block.last_op:
            key = _word(op) if isinstance(op, TensorOp) else id(op)
            words[op] = numbers.setdefault(key, len(numbers))
    counts = Counter(words.values())
    free: set[Operation] = set()
    for op, word in words.items():
        is_few = isinstance(op, TensorOp) and counts[word] < least_trips
        from_arguments = all(x.owner in free or x.owner not in words for x in op.operands)
        if isinstance(op, ConstantOp) or (is_few and from_arguments):
            free.add(op)
    ops = [op for op in words if op not in free]
    return ops, [words[op] for op in ops]


def _word(op: TensorOp) -> Hashable:
    """Equal for ops that compute the same of their operands, slices at whatever offsets."""
    moves = isinstance(op, SliceOp) and all(d.constant is not None for d in op.offsets.data)
    properties = {k: v for k, v in op.properties.items() if not (moves and k == "offsets")}
    return (
        type(op),
        op.results[0].type,
        *(x.type for x in op.operands),
        *sorted(properties.items(), key=lambda pair: pair[0]),
        moves,
    )
