"""Powers of integers by squaring, in as many steps as the largest exponent has bits."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import i1
from xdsl.dialects.vector import CombiningKindAttr, CombiningKindFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects import functions, vec
from mlc.dialects.lanes import lanes_of
from mlc.passes.math.lane_builder import Constants

_ANY = CombiningKindAttr(CombiningKindFlag.OR)
_WRAPS: Mapping[str, Attribute] = {"overflowFlags": arith.IntegerOverflowAttr("none")}


def expand_power(op: functions.IntegerPowerOp, constants: Constants) -> None:
    """A loop over the exponents' bits, which ends when no lane has any left."""
    kind = op.result.type
    zero, one = constants.get(0, kind), constants.get(1, kind)
    before, after = (Block(arg_types=(kind, kind, kind)) for _ in range(2))
    left = _some(before, before.args[2], zero)
    before.add_op(scf.ConditionOp.create(operands=(left, *before.args)))
    product, base, exponent = after.args
    odd = _differs(after, _added(after, arith.AndIOp, exponent, one), zero)
    more = _added(after, arith.MuliOp, product, base)
    select = arith.SelectOp.create(operands=(odd, more, product), result_types=(kind,))
    if lanes_of(kind) is not None:
        select = vec.SelectOp.of(odd, more, product)
    after.add_op(select)
    squared = _added(after, arith.MuliOp, base, base)
    rest = _added(after, arith.ShRUIOp, exponent, one)
    after.add_op(scf.YieldOp.create(operands=(select.results[0], squared, rest)))
    loop = scf.WhileOp.create(
        operands=(one, op.x, op.y),
        result_types=(kind, kind, kind),
        regions=[Region(before), Region(after)],
    )
    block = op.parent
    assert block is not None
    block.insert_op_before(loop, op)
    op.result.replace_all_uses_with(loop.results[0])
    op.detach()
    op.erase()


def _added(block: Block, kind: type[Operation], x: SSAValue, y: SSAValue) -> SSAValue:
    wraps = dict(_WRAPS) if kind is arith.MuliOp else {}
    op = kind.create(operands=(x, y), result_types=(x.type,), properties=wraps)
    block.add_op(op)
    return op.results[0]


def _differs(block: Block, x: SSAValue, y: SSAValue) -> SSAValue:
    """Where the two are not the same."""
    op: Operation = vec.CmpiOp.of("ne", x, y)
    block.add_op(op)
    return op.results[0]


def _some(block: Block, x: SSAValue, zero: SSAValue) -> SSAValue:
    """Whether any lane of x is not zero."""
    found = _differs(block, x, zero)
    if lanes_of(x.type) is None:
        return found
    properties: dict[str, Attribute] = {
        "kind": _ANY,
        "fastmath": arith.FastMathFlagsAttr("none"),
    }
    op = vector.ReductionOp.create(operands=(found,), result_types=(i1,), properties=properties)
    block.add_op(op)
    return op.results[0]
