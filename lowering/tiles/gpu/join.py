"""Parts of an item, which several blocks have, as one: whoever has the last steps adds the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import F32
from mlc.dialects.errors import CompilerBug, MlcError
from mlc.dialects.gpu_async import GROUP_THREADS, WarpBarrierOp
from mlc.dialects.gpu_clusters import AwaitOp, SignalOp
from mlc.dialects.lanes import vector_type
from mlc.dialects.tile.pipeline import GROUP_WARPS, JoinOp
from mlc.dialects.tile.types import frag_of, view_of
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Buffer
from mlc.lowering.tiles.gpu.scope import PAIR, BlockScope, joined, split

QUAD = 4
"""Numbers of an access."""


def join(k: BlockScope, op: JoinOp, rest: Callable[[], None]) -> None:
    """
    A warp without the last steps writes its sums, and says so. One that has them waits for the same
    warps of the other blocks, and adds what they have written.
    """
    if frag_of(op.value).dtype is not F32:
        raise MlcError(f"tiles to GPU: {op.name} of {op.value.type}; expected f32")
    if k.piece is None:
        raise CompilerBug(f"{op.name} outside of items that come in parts")
    b, (parts, piece), here = k.b, k.piece, _Meeting(k, op)
    others = b.choose(b.compare("gt", piece.first, 0), parts.others, 0)

    def arrive(number: Index) -> None:
        here.wait(parts.owner(piece.item, number))

    def step(number: Index, *totals: SSAValue) -> Sequence[SSAValue]:
        (total,) = totals
        found = here.read(parts.owner(piece.item, number))
        pairs = zip(split(b, total), found, strict=True)
        return [joined(b, [b.value(arith.AddfOp(x, y)) for x, y in pairs])]

    def finish() -> None:
        b.loop(0, others, 1, arrive)
        (total,) = b.loop(0, others, 1, step, [joined(b, k.pairs[op.value])])
        k.pairs[op.body.block.args[0]] = split(b, total)
        rest()

    is_last = b.compare("ge", piece.end, parts.steps)
    b.when(is_last, finish, lambda: here.write(k.pairs[op.value]))


class _Meeting:
    """Memory through which blocks that share an item meet: what a warp writes lies by threads."""

    def __init__(self, k: BlockScope, op: JoinOp) -> None:
        self.k = k
        self.partial, self.arrived = (self._memory(x) for x in (op.partial, op.arrived))
        work, b = op.work, k.b
        assert isinstance(b, GpuBuilder)
        self.cluster, self.rank = work.blocks, k.words.index(k.threads.rank)
        self.block = b.div(b.block_number(), work.blocks)
        self.groups = view_of(op.partial).shape[1].constant or 1
        self.group = k.s.indices[op.group]
        self.count = len(k.pairs[op.value]) * PAIR // QUAD

    def _memory(self, view: SSAValue) -> SSAValue:
        buffer = self.k.s.memory[view]
        assert isinstance(buffer, Buffer)
        return buffer.memref

    def _tile(self, block: Index) -> Index:
        """The number of this group's tile of a block, of all that blocks of the same rank have."""
        b = self.k.b
        own = b.add(b.mul(block, self.cluster), self.rank)
        return b.add(b.mul(own, self.groups), self.group)

    def _places(self, block: Index) -> list[Index]:
        """Where this thread has four numbers of a block's part: those of all lie side by side."""
        b, member = self.k.b, self.k.words.index(self.k.threads.member)
        first = b.mul(b.add(b.mul(self._tile(block), self.count * GROUP_THREADS), member), QUAD)
        return [b.add(first, number * GROUP_THREADS * QUAD) for number in range(self.count)]

    def _flag(self, block: Index) -> SSAValue:
        """Where a warp says that its part is written."""
        b = self.k.b
        warp = self.k.words.index(self.k.threads.warp)
        return b.index(b.add(b.mul(self._tile(block), GROUP_WARPS), warp))

    def write(self, pairs: Sequence[SSAValue]) -> None:
        """This warp's part, for the one who adds it."""
        b, each = self.k.b, QUAD // PAIR
        for number, at in enumerate(self._places(self.block)):
            four = joined(b, pairs[each * number : each * (number + 1)])
            b.store_vector(four, self.partial, [at], None)
        b.add_op(WarpBarrierOp.create())
        b.add_op(SignalOp.of(self.arrived, self._flag(self.block), self.k.threads.first))

    def wait(self, block: Index) -> None:
        """Until the same warp of another block has written its part."""
        self.k.b.add_op(AwaitOp.of(self.arrived, self._flag(block)))

    def read(self, block: Index) -> list[SSAValue]:
        """What it has written."""
        b, kind = self.k.b, vector_type(F32.ir, QUAD)
        places = self._places(block)
        fours = (b.load_vector(self.partial, [at], kind, None, None) for at in places)
        return [pair for four in fours for pair in split(b, four)]
