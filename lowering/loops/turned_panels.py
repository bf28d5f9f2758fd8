"""Panels of a factor that lies along the summed axis: squares of it are turned in registers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from mlc.dialects.analysis.transposed_reads import square_side
from mlc.dialects.lanes import vector_type
from mlc.dialects.tensor.reduce import ContractOp
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.builder import memory_type
from mlc.lowering.loops.contraction_nest import ContractionNest
from mlc.lowering.loops.kernel import KernelScope
from mlc.lowering.loops.turn import turned


def turned_factor(s: KernelScope, nest: ContractionNest) -> Buffer | None:
    """The rhs in memory, where its rows are columns of the panel and lie in one piece each."""
    tensor, word = nest.op.operands[nest.rhs], nest.words[nest.rhs]
    buffer = s.inputs.get(tensor) if isinstance(nest.op, ContractOp) else None
    if buffer is None or buffer.turned is not None or buffer.dtype is not nest.dtype:
        return None
    lies = word[-1:] == nest.roles.k and len(nest.n) == 1 and buffer.strides[-1:] == (1,)
    known = nest.op.dtype is nest.dtype and nest.dtype.kind == "float"
    return (
        buffer if lies and known and nest.dtype.bytes in (4, 8) and s.schedule.lanes > 1 else None
    )


def pack_turned(
    s: KernelScope,
    nest: ContractionNest,
    source: Buffer,
    panel: SSAValue,
    batch: Mapping[str, Position],
    column: Index,
    place: tuple[Index, int],
    depth: tuple[Index, Index],
) -> Index:
    """
    Writes the steps of a panel that make whole squares; gives how many these are. `place`: where
    the panel begins in its memory, and its columns; `depth`: first step, and how many there are.
    """
    b, (start, columns) = s.b, place
    side = square_side(s.schedule.lanes)
    kind = vector_type(memory_type(source.dtype), side)
    whole = b.mul(b.div(depth[1], side), side)

    def square(c: Index, k: Index) -> None:
        rows: list[SSAValue] = []
        for i in range(side):
            at = {
                **batch,
                nest.n: Position(b.add(b.add(column, c), i)),
                nest.roles.k: Position(b.add(depth[0], k), 1),
            }
            bases, _ = source.indices(b, [at[letter] for letter in nest.words[nest.rhs]])
            rows.append(b.load_vector(source.memref, bases, kind, None, None))
        for i, value in enumerate(turned(b, rows, source.dtype.bytes)):
            row = b.mul(b.add(k, i), columns)
            b.store_vector(value, panel, [b.add(start, b.add(row, c))], None)

    def squares(c: Index) -> None:
        b.loop(0, whole, side, partial(square, c))

    b.loop(0, columns, side, squares, (), {"mlc.no_unroll": UnitAttr()})
    return whole
