"""
Sums of squared differences from a mean, while the mean is not known yet (D18): those of a tile from
its own mean, joined with what was summed before.

n, m, s of the columns so far and of a tile: s = s₁ + s₂ + (m₂ - m₁)² n₁ n₂ / (n₁ + n₂).
SOURCE: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances", Stanford STAN-CS-79-773, 1979.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.analysis.views import root
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import F32, F64, I64, DType
from mlc.dialects.numerics import is_strict
from mlc.dialects.tensor.comparison import ConvertOp, MaxOp, MinOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.elementwise import AddOp, DivOp, MulOp, SubOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import broadcast_to
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.tiling.tile_scope import TileScope
from mlc.passes.tensor.constants import splat


def is_mean(runner: TensorOp, top: TensorOp, columns: int | None) -> bool:
    """Whether a row value is the sum over so many columns divided by their number."""
    if columns is None or is_strict(top) or top.dtype not in (F32, F64):
        return False
    if not isinstance(top, ReduceOp) or not isinstance(runner, MulOp | DivOp):
        return False
    sums = [k for k, x in enumerate(runner.operands) if root(x).owner is top]
    if len(sums) != 1 or (isinstance(runner, DivOp) and sums != [0]):
        return False
    found = splat(runner.operands[1 - sums[0]])
    if found is None:
        return False
    wanted = columns if isinstance(runner, DivOp) else 1 / columns
    return found.item() == runner.dtype.numpy.type(wanted).item()


@dataclass(frozen=True)
class Columns:
    """The columns that a loop walks: how many there are, and in a tile."""

    count: int
    step: int

    def of_tile(self, b: OpBuilder, position: SSAValue, dtype: DType) -> tuple[SSAValue, SSAValue]:
        """How many lie before a tile, and in it, as numbers of a dtype."""
        rest = b(SubOp, full(b, self.count, I64, ()), position)
        own = b(MinOp, full(b, self.step, I64, ()), rest)
        scalar = tensor_type(dtype.ir, ())
        return b(ConvertOp, position, declared=scalar), b(ConvertOp, own, declared=scalar)


@dataclass(frozen=True)
class Moment:
    """What joins the squares of a tile to those before it: (m₂ - m₁)² n₁ n₂ / (n₁ + n₂)."""

    between: SSAValue

    @staticmethod
    def of(
        inner: TileScope, top: ReduceOp, columns: Columns, before: SSAValue, part: SSAValue
    ) -> Moment:
        """Of sums before a tile and in it; in the scope the mean is that of the tile from here."""
        b, dtype, shape = inner.b, top.dtype, shape_of(part.type)
        left, own = columns.of_tile(b, inner.positions[-1], dtype)
        some = b(MaxOp, left, full(b, 1, dtype, ()))
        weight = b(DivOp, b(MulOp, left, own), b(AddOp, left, own))
        # the whole sum that would have the tile's mean
        grown = broadcast_to(b, b(DivOp, full(b, columns.count, dtype, ()), own), shape)
        inner.bind(top, b(MulOp, part, grown))
        means = (b(DivOp, x, broadcast_to(b, n, shape)) for x, n in ((part, own), (before, some)))
        apart = b(SubOp, *means)
        return Moment(b(MulOp, b(MulOp, apart, apart), broadcast_to(b, weight, shape)))

    def joined(self, b: OpBuilder, before: SSAValue, part: SSAValue) -> SSAValue:
        """The squares so far, with a tile's."""
        return b(AddOp, b(AddOp, before, part), self.between)
