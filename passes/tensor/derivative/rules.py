"""What both modes ask of `mlc.rule`: that it may be used, and its body where it is used up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.errors import DTypeError, MlcError
from mlc.dialects.tensor.control import yield_of
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.passes.tensor.derivative.active import Varied
from mlc.passes.tensor.derivative.emit import read_inside


def placed_at(error: MlcError, op: Operation) -> MlcError:
    """The error with the source location of the innermost op that it came from."""
    error.__dict__.setdefault("location", op.location)
    return error


def check_closed(op: RuleOp, varied: Varied) -> None:
    """DTypeError where regions read a value from around that varies: no rule speaks of it."""
    for x in read_inside(op):
        if x in varied:
            name = f" {x.name_hint!r}" if x.name_hint else ""
            message = (
                f"custom_{op.kind.data}: the function or its rule reads a value{name} from"
                " around it that varies with what is differentiated by; expected it among the"
                " arguments, for which the rule states derivatives. Pass it as an argument, or"
                " make it a constant with mlc.stop_gradient."
            )
            raise placed_at(DTypeError(message), op)


def check_linear(block: Block, tangents: Sequence[SSAValue], what: str) -> None:
    """DTypeError where a rule's region is not linear in these of its arguments."""
    linear = Varied(tangents).mark(block.ops)
    for op in block.ops:
        if not isinstance(op, TensorOp):
            continue
        given = [k for k, x in enumerate(op.operands) if x in linear]
        joint = op.jointly_linear()
        product = len(given) > 1 and joint == op.linear_operands()
        if product or not set(given) <= set(joint):
            message = (
                f"{what} is not linear in what it is given: {op.name} of it; expected sums,"
                " products with what does not depend on it, and other linear functions."
            )
            raise placed_at(DTypeError(message), op)


def inline_rule(op: RuleOp) -> list[SSAValue]:
    """The ops of the body take the op's place; gives what the results are called now."""
    body, block = op.body.block, op.parent
    assert block is not None
    for argument, value in zip(body.args, op.inputs, strict=True):
        argument.replace_all_uses_with(value)
    last = yield_of(body)
    values = list(last.values)
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    body.erase_op(last)
    for inner in list(body.ops):
        inner.detach()
        block.insert_op_before(inner, op)
    block.erase_op(op, safe_erase=False)
    return values


USED_UP = "mlc.used_up"


def use_up(op: RuleOp) -> None:
    """Notes that the body is what the rule itself computes as the result."""
    op.attributes[USED_UP] = UnitAttr()


def is_used_up(op: RuleOp) -> bool:
    """Whether reverse mode has replaced the body by what the rule computes."""
    return USED_UP in op.attributes


def inline_used(blocks: Iterable[Block]) -> dict[SSAValue, SSAValue]:
    """
    Rules through which reverse mode has gone are used up: the next derivative is that of the result
    as the rule computes it, which may state a rule again. Gives new names of results.
    """
    found: dict[SSAValue, SSAValue] = {}
    for op in [op for block in blocks for op in block.walk()]:
        if isinstance(op, RuleOp) and is_used_up(op):
            results = list(op.results)
            found.update(zip(results, inline_rule(op), strict=True))
    return {old: _last(found, new) for old, new in found.items()}


def _last(renamed: dict[SSAValue, SSAValue], value: SSAValue) -> SSAValue:
    while value in renamed:
        value = renamed[value]
    return value
