"""`mlc.cond`: a choice between two functions that is made when the compiled function runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dtypes import DType
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.control import IfOp, YieldOp
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import common_dtype, convert
from mlc.frontend.trace.loops import condition_value
from mlc.frontend.trace.regions import Carry, run_body
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer


def cond(pred: Any, f: Callable[..., Any], g: Callable[..., Any], *operands: Any) -> Any:
    """
    ``f(*operands) if pred else g(*operands)``; only the one that is chosen runs.

    Both give the same container of arrays, with the same shapes and dtypes. Outside a compiled
    function, and for a `pred` that is known when compiling, it is that expression.
    """
    if current() is None:
        return f(*operands) if pred else g(*operands)
    if not isinstance(pred, Tracer):
        from mlc.frontend.trace.access import call

        return call(f if pred else g, operands, {})
    condition = condition_value(pred, "cond", "the condition is")
    blocks = [Block(), Block()]
    outcomes = [_branch(b, h, operands) for b, h in zip(blocks, (f, g), strict=True)]
    results = _joined(*outcomes)
    for block, outcome in zip(blocks, outcomes, strict=True):
        values = _converted(block, outcome, results)
        block.add_op(YieldOp.create(operands=values))
    op = IfOp(condition, Region(blocks[0]), Region(blocks[1]))
    here().b.insert(op)
    weak = [x.weak and y.weak for x, y in zip(outcomes[0].arrays, outcomes[1].arrays, strict=True)]
    made = [Tracer(here(), value, weak=w) for value, w in zip(op.outs, weak, strict=True)]
    return outcomes[0].with_arrays(made).container()


def _branch(block: Block, function: Callable[..., Any], operands: tuple[Any, ...]) -> Carry:
    outcome = run_body(block, function, operands)
    with here().inside(block):
        return Carry.of("cond", outcome, "result")


def _joined(then: Carry, otherwise: Carry) -> list[DType]:
    """The results' dtypes; an error that names the leaf where the branches do not agree."""
    if then.structure != otherwise.structure:
        message = (
            "cond: the first function returns another structure than the second; expected one"
            f" structure: {', '.join(then.names)} against {', '.join(otherwise.names)}."
        )
        raise located(ShapeError, message)
    dtypes: list[DType] = []
    for name, x, y in zip(then.names, then.leaves, otherwise.leaves, strict=True):
        if not (isinstance(x, Tracer) and isinstance(y, Tracer)):
            if isinstance(x, Tracer) or isinstance(y, Tracer) or x != y:
                message = f"cond: {name} is {_kind(x)} in the first function and {_kind(y)} in the"
                raise located(DTypeError, f"{message} second; expected arrays of both.")
            continue
        if x.dims != y.dims:
            message = (
                f"cond: {name} is {spell(x.dims)} in the first function and {spell(y.dims)} in the"
                " second; expected one shape."
            )
            raise located(ShapeError, message)
        dtype = common_dtype("cond", (x, y))
        if any(not z.weak and z.row is not dtype for z in (x, y)):
            message = (
                f"cond: {name} is {x.row.numpy} in the first function and {y.row.numpy} in the"
                " second; expected one dtype."
            )
            raise located(DTypeError, message, remedy=f"Convert it with .astype({dtype.numpy}).")
        dtypes.append(dtype)
    return dtypes


def _kind(leaf: Any) -> str:
    return "an array" if isinstance(leaf, Tracer) else repr(leaf)


def _converted(block: Block, outcome: Carry, dtypes: list[DType]) -> list[SSAValue]:
    with here().inside(block):
        pairs = zip(outcome.arrays, dtypes, strict=True)
        return [convert(x.value, dtype) for x, dtype in pairs]
