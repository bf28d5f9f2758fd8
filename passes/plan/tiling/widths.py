"""
In what dtype the ops of a tile loop compute: values of 16 bits that never leave it are f32 (D1).

What the program rounds stays rounded; factors are rounded where a machine multiplies them so; what
a loop hands on is rounded once. Statistics of rows are kept as they are, beside what is rounded,
for the walks that compute the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue

from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import F32, DType
from mlc.dialects.numerics import is_strict
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.target.intrinsics import rows_of
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.create import full
from mlc.dialects.tensor.op import OpBuilder, Tensor, TensorOp, element_dtype
from mlc.dialects.tensor.reduce import ContractOp, Reduction
from mlc.dialects.tensor.tile import TileOp
from mlc.dialects.tensor.tiles import is_phase
from mlc.passes.plan.widen import NARROW, computes
from mlc.passes.tensor.constants import splat

WIDE = "mlc.wide"
"""Attribute of a conversion: what it rounds is read as it is by those that compute in f32."""

Rounds = Callable[[SSAValue, DType], SSAValue]
"""A value of a loop in a narrower dtype."""


def is_widened(op: TensorOp) -> bool:
    """Whether an op computes in f32 in a loop what has 16 bits outside."""
    return computes(op) and not is_strict(op)


def result_of(op: TensorOp) -> DType:
    """The dtype of a member's result in the loop."""
    dtype = element_dtype(op.results[0])
    return F32 if dtype in NARROW and is_widened(op) else dtype


def type_in_loop(op: TensorOp) -> Tensor:
    """The type of a member's result as its loop computes it."""
    return tensor_type(result_of(op).ir, op.shape)


def summand_of(op: Reduction) -> DType:
    """The dtype in which a member's summands are compared or added in the loop."""
    dtype = op.summand()
    return F32 if dtype in NARROW and is_widened(op) else dtype


def converted(b: OpBuilder, x: SSAValue, dtype: DType) -> SSAValue:
    """A value in a dtype; constants are written in it."""
    if element_dtype(x) is dtype:
        return x
    number = splat(x)
    if number is not None:
        return full(b, number.item(), dtype, shape_of(x.type))
    return b(ConvertOp, x, declared=tensor_type(dtype.ir, shape_of(x.type)))


def operands_in_loop(
    b: OpBuilder, op: TensorOp, tiles: Sequence[SSAValue], rounded: Rounds
) -> tuple[list[SSAValue], DType]:
    """What a member, or a view, takes in a loop, given tiles of its operands, and what it gives."""
    given = [element_dtype(x) for x in op.operands]
    result = element_dtype(op.results[0])
    if isinstance(op, ConvertOp):
        return list(tiles), result
    if is_view(op):
        same = all(element_dtype(x) is k for x, k in zip(tiles, given, strict=True))
        return (list(tiles), result) if same else (_widened(b, tiles), F32)
    if is_widened(op) and not (isinstance(op, ContractOp) and _multiplies(op, given[0])):
        return _widened(b, tiles), result_of(op)
    exact = [rounded(x, k) for x, k in zip(tiles, given, strict=True)]
    return (_widened(b, exact), result_of(op)) if is_widened(op) else (exact, result)


def _widened(b: OpBuilder, tiles: Sequence[SSAValue]) -> list[SSAValue]:
    return [converted(b, x, F32) if element_dtype(x) in NARROW else x for x in tiles]


def _multiplies(op: ContractOp, dtype: DType) -> bool:
    """Whether the target has instructions that multiply factors of a dtype."""
    module = op.get_toplevel_object()
    if not isinstance(module, ModuleOp):
        return False
    return any(dtype.name in row.dtypes for row in rows_of(cpu_of(module, "a tile loop")))


def is_kept_wide(op: TensorOp, rows: int, members: Collection[Operation]) -> bool:
    """Whether a result is one number for each row, which others than members compute with."""
    if result_of(op) is element_dtype(op.results[0]):
        return False
    users = (use.operation for use in op.results[0].uses)
    long = [n for n in op.shape if n.constant != 1]
    return len(long) <= rows and any(isinstance(x, TensorOp) and x not in members for x in users)


def rounded_after(b: OpBuilder, wide: SSAValue, op: TensorOp, *, is_kept: bool) -> SSAValue:
    """What a loop gives, in the dtype of a member; `is_kept`: those that can read it as it is."""
    dtype = element_dtype(op.results[0])
    if element_dtype(wide) is dtype:
        return wide
    found = b(ConvertOp, wide, declared=tensor_type(dtype.ir, shape_of(wide.type)))
    if is_kept:
        assert isinstance(found.owner, ConvertOp)
        found.owner.attributes[WIDE] = UnitAttr()
    return found


def as_it_was(value: SSAValue) -> SSAValue:
    """What a value is rounded from, where those that compute in f32 may read that."""
    owner = value.owner
    return owner.x if isinstance(owner, ConvertOp) and WIDE in owner.attributes else value


def widened_from(value: SSAValue) -> SSAValue | None:
    """What a conversion widens to f32: whoever reads it reads that, and converts what it reads."""
    owner = value.owner
    if not isinstance(owner, ConvertOp) or element_dtype(value) is not F32:
        return None
    return owner.x if element_dtype(owner.x) in NARROW else None


def read_wide(narrow: SSAValue, wide: SSAValue) -> None:
    """Loops that widen a value, or tiles of it, read what it was rounded from."""
    for use in list(narrow.uses):
        user = use.operation
        if not isinstance(user, TensorOp) or not is_phase(user):
            continue
        (result,) = user.results
        if isinstance(user, ConvertOp) and result.type == wide.type:
            result.replace_all_uses_with(wide)
        elif isinstance(user, TileOp) or (is_view(user) and len(user.operands) == 1):
            operands = [wide, *user.operands[1:]]
            made = user.on(operands, tensor_type(F32.ir, shape_of(result.type)))
            assert user.parent is not None
            user.parent.insert_op_before(made, user)
            read_wide(result, made.results[0])
        else:
            continue
        if result.first_use is None:
            user.detach()
            user.erase()
