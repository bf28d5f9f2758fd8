"""Reverse and forward mode through `mlc.rule`: the user's own derivatives, and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tensor.control import YieldOp, discard, yield_of
from mlc.dialects.tensor.markers import BarrierOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.passes.tensor.derivative.emit import (
    Emitter,
    Values,
    body_ops,
    extend_results,
    extend_yield,
    is_differentiable,
    read_inside,
)
from mlc.passes.tensor.derivative.reverse import Reverse
from mlc.passes.tensor.derivative.rules import check_closed, check_linear, is_used_up, use_up


def copied(b: Emitter, block: Block, values: Sequence[SSAValue]) -> Values:
    """A copy of a region's ops with its arguments replaced; gives what it yields."""
    renamed: dict[SSAValue, SSAValue] = dict(zip(block.args, values, strict=True))
    b.copies(body_ops(block), renamed)
    return [renamed.get(x, x) for x in yield_of(block).values]


def pull_rule(sweep: Reverse, op: RuleOp, cotangents: Sequence[SSAValue | None]) -> None:
    """By the rule that the op states."""
    if op.kind.data != "checkpoint":
        check_closed(op, sweep.varied)
    match op.kind.data:
        case "vjp":
            _pull_vjp(sweep, op, cotangents)
        case "jvp":
            _pull_jvp(sweep, op, cotangents)
        case _:
            _pull_checkpoint(sweep, op, cotangents)


def _pull_vjp(sweep: Reverse, op: RuleOp, cotangents: Sequence[SSAValue | None]) -> None:
    """
    The body becomes `forward`, whose residuals the copy of `backward` reads. Without residuals, one
    that reads values from around it stays, and so refuses derivatives by these.
    """
    forward, backward = (region.block for region in op.rules)
    count = op.count
    residuals = [x.type for x in yield_of(forward).values[count:]]
    if not is_used_up(op) and (residuals or not read_inside(op)):
        _replace_ops(op.body.block, forward)
        _keep(op, extend_results(op, residuals))
        use_up(op)
    given = cotangent_values(sweep.b, op, cotangents)
    found = copied(sweep.b, backward, [*op.results[count:], *given])
    for x, cotangent in zip(op.inputs, found, strict=True):
        sweep.add(x, cotangent)


def _keep(op: RuleOp, values: Values) -> None:
    op.properties["kept"] = IntegerAttr(len(values), i64)


def _replace_ops(old: Block, new: Block) -> None:
    """A block's ops become copies of those of another one with the same arguments."""
    discard(old)
    renamed: dict[SSAValue, SSAValue] = dict(zip(new.args, old.args, strict=True))
    Emitter(old).copies(list(new.ops), renamed)


def cotangent_values(
    b: Emitter, op: RuleOp, cotangents: Sequence[SSAValue | None]
) -> list[SSAValue]:
    """The rule wants a value for each result: zeros where there is no cotangent."""
    return b.or_zeros(cotangents[: op.count], op.results[: op.count])


def _pull_jvp(sweep: Reverse, op: RuleOp, cotangents: Sequence[SSAValue | None]) -> None:
    """The rule's tangents are linear in its operands' tangents: transposed. The body becomes the
    rule's own result."""
    like = [x for x in op.inputs if is_differentiable(x)]
    rule = op.rules[0].block
    check_linear(rule, rule.args[len(op.inputs) :], "custom_jvp: the rule's tangent")

    def emit(b: Emitter, tangents: Values) -> list[SSAValue | None]:
        rest = iter(tangents)
        given = [next(rest) if is_differentiable(x) else b.zeros(x.type) for x in op.inputs]
        results = copied(b, rule, [*op.inputs, *given])
        return list(results[len(results) // 2 :])

    for x, cotangent in zip(like, sweep.transposed(emit, like, cotangents), strict=True):
        sweep.add(x, cotangent)
    if not is_used_up(op):
        body = op.body.block
        discard(body)
        b = Emitter(body, op.location)
        tangents = [b.zeros(x.type) for x in op.inputs]
        found = copied(b, rule, [*body.args, *tangents])
        body.add_op(YieldOp.create(operands=found[: op.count]))
        use_up(op)


def _pull_checkpoint(sweep: Reverse, op: RuleOp, cotangents: Sequence[SSAValue | None]) -> None:
    """The body runs again, from operands that common subexpressions do not recognise."""
    b, body = sweep.b, op.body.block
    again = [b(BarrierOp, x) for x in op.inputs]
    pairs = zip(op.inputs, again, strict=True)
    sweep.varied.values |= {new for old, new in pairs if old in sweep.varied}
    kept = _kept_values(op)
    renamed: dict[SSAValue, SSAValue] = dict(zip(body.args, again, strict=True))
    copies: list[tuple[Operation, SSAValue | None]] = []
    for inner in body_ops(body):
        (new,) = b.copies([inner], renamed)
        sweep.varied.mark([new])
        value = kept.get(inner)
        if value is not None:  # what reads it reads the kept value, and is no known expression
            value = b(BarrierOp, value)
            sweep.varied.add(value)
            renamed[inner.results[0]] = value
        copies.append((new, value))
    outcome = [renamed.get(x, x) for x in yield_of(body).values]
    for value, cotangent in zip(outcome, cotangents, strict=False):
        sweep.add(value, cotangent)
    for new, value in reversed(copies):
        if value is not None:
            for contribution in sweep.pending.pop(value, []):
                sweep.add(new.results[0], contribution)
        sweep.run([new])
    for x, copy in zip(op.inputs, again, strict=True):
        sweep.add(x, sweep.take(copy))


def _kept_values(op: RuleOp) -> dict[Operation, SSAValue]:
    """For ops that the policy keeps, their values as results of the rule's op."""
    names = set(op.saved.data.split(","))
    chosen = [x for x in body_ops(op.body.block) if x.name in names]
    if chosen and not op.kept.value.data:
        values = [x.results[0] for x in chosen]
        extend_yield(op.body.block, values)
        _keep(op, extend_results(op, [x.type for x in values]))
    return dict(zip(chosen, op.results[op.count :], strict=True))
