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
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import broadcast_to
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.widen import NARROW
from mlc.passes.tensor.constants import splat


def is_mean(runner: TensorOp, top: TensorOp, columns: int | None) -> bool:
    """
    Whether a row value is the sum over so many columns divided by their number; that is exact in 16
    bits, where a rounded one would be of another mean.
    """
    if columns is None or is_strict(top) or top.dtype not in (F32, F64, *NARROW):
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
    if runner.dtype not in NARROW:
        wanted = runner.dtype.numpy.type(wanted).item()
    return found.item() == wanted


@dataclass(frozen=True)
class Columns:
    """The columns that a loop walks: how many there are, and in a tile."""

    count: int
    step: int

    def of_tile(self, b: OpBuilder, position: SSAValue) -> SSAValue:
        """How many a tile has."""
        rest = b(SubOp, full(b, self.count, I64, ()), position)
        return b(MinOp, full(b, self.step, I64, ()), rest)

    def grown(self, b: OpBuilder, part: SSAValue, own: SSAValue) -> SSAValue:
        """The sum of all columns that has the mean of so many, whose sum is known."""
        dtype = element_dtype(part)
        factor = b(DivOp, full(b, self.count, dtype, ()), _number(b, own, dtype))
        return b(MulOp, part, broadcast_to(b, factor, shape_of(part.type)))


def between(
    b: OpBuilder, sums: tuple[SSAValue, SSAValue], counts: tuple[SSAValue, SSAValue]
) -> SSAValue:
    """What joins the squares of some columns to those before: (m₂ - m₁)² n₁ n₂ / (n₁ + n₂)."""
    dtype, shape = element_dtype(sums[0]), shape_of(sums[0].type)
    one = full(b, 1, dtype, ())
    left, right = (_number(b, n, dtype) for n in counts)
    weight = b(DivOp, b(MulOp, left, right), b(MaxOp, b(AddOp, left, right), one))
    means = (
        b(DivOp, x, broadcast_to(b, b(MaxOp, n, one), shape))
        for x, n in zip(sums, (left, right), strict=True)
    )
    apart = b(SubOp, *means)
    return b(MulOp, b(MulOp, apart, apart), broadcast_to(b, weight, shape))


def _number(b: OpBuilder, count: SSAValue, dtype: DType) -> SSAValue:
    return b(ConvertOp, count, declared=tensor_type(dtype.ir, ()))
