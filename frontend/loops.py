"""`mlc.fori_loop`: a counted loop that stays one loop in the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from xdsl.ir import SSAValue

from mlc.dialects.dtypes import I64, DType
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.control import ForOp, YieldOp, loop_region
from mlc.dialects.tensor.letters import spell
from mlc.frontend.containers import Structure, flatten, leaf_names, unflatten
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import common_dtype, convert, is_integer, lift
from mlc.frontend.trace import current, here
from mlc.frontend.tracer import Tracer

C = TypeVar("C")
MAX_ROUNDS = 4
"""bool -> int64 -> float32 -> float64 is the longest way a carried dtype can go."""


def fori_loop(lower: Any, upper: Any, body: Callable[[Any, C], C], init: C) -> C:
    """
    ``carry = init; for i in range(lower, upper): carry = body(i, carry)``, as one loop.

    The carry is an array, a number or a container of them; its shapes stay the same. Outside a
    compiled function it is that Python loop.
    """
    if current() is None:
        carry = init
        for i in range(lower, upper):
            carry = body(i, carry)
        return carry
    leaves, structure = flatten(init)
    carried = [lift(leaf) for leaf in leaves]
    first = lift(lower)
    count = lift(upper) - first if not (isinstance(lower, int) and lower == 0) else lift(upper)
    trips = convert(_integer(count), I64)
    for _ in range(MAX_ROUNDS):
        dtypes = _joined_dtypes(carried, body, structure, first, init)
        if all(x.row is dtype for x, dtype in zip(carried, dtypes, strict=True)):
            break
        carried = [
            Tracer(here(), convert(x.value, d)) for x, d in zip(carried, dtypes, strict=True)
        ]
    loop, results = _loop(carried, body, structure, first, init, trips)
    here().b.insert(loop)
    return unflatten(structure, [Tracer(here(), r) for r in results])


def _integer(count: Tracer) -> SSAValue:
    if not is_integer(count.row) or count.ndim:
        message = (
            f"fori_loop: the bounds are {count.row.numpy} {spell(count.dims)}; expected integers."
        )
        raise located(DTypeError, message)
    return count.value


def _loop(
    carried: list[Tracer],
    body: Callable[[Any, Any], Any],
    structure: Structure,
    first: Tracer,
    init: Any,
    trips: SSAValue,
) -> tuple[ForOp, list[SSAValue]]:
    values = [x.value for x in carried]
    region, outcome = _traced_body(carried, body, structure, first)
    returned = [
        convert_inside(region, x, c, name)
        for x, c, name in zip(outcome, carried, leaf_names(init, "carry"), strict=True)
    ]
    region.block.add_op(YieldOp.create(operands=returned))
    loop = ForOp(trips, values, region)
    return loop, list(loop.outs)


def convert_inside(region: Any, x: Tracer, start: Tracer, name: str) -> SSAValue:
    """A body's result in the dtype of the carried value; ShapeError where its shape is another."""
    if x.dims != start.dims:
        message = (
            f"fori_loop: {name} starts as {spell(start.dims)} and the body returns"
            f" {spell(x.dims)}; expected one shape."
        )
        raise located(ShapeError, message)
    with here().inside(region.block):
        return convert(x.value, start.row)


def _traced_body(
    carried: list[Tracer], body: Callable[[Any, Any], Any], structure: Structure, first: Tracer
) -> tuple[Any, list[Tracer]]:
    from mlc.frontend.access import call

    trace = here()
    region = loop_region([x.value.type for x in carried])
    index, *arguments = region.block.args
    index.name_hint = "i"
    with trace.inside(region.block):
        i = Tracer(trace, index, weak=True) + first
        values = [Tracer(trace, a, weak=x.weak) for a, x in zip(arguments, carried, strict=True)]
        outcome, found = flatten(call(body, (i, unflatten(structure, values)), {}))
        if found != structure:
            message = (
                "fori_loop: the body returns another structure than it gets; expected the carry's."
            )
            raise located(ShapeError, message)
        traced = [lift(x) for x in outcome]
        for x in traced:
            _ = x.value  # re-reads written views while the body is open
    return region, traced


def _joined_dtypes(
    carried: list[Tracer],
    body: Callable[[Any, Any], Any],
    structure: Structure,
    first: Tracer,
    init: Any,
) -> list[DType]:
    """The dtypes in which the carry can stay, by tracing the body once to see what it returns."""
    _, outcome = _traced_body(carried, body, structure, first)
    joined: list[DType] = []
    for start, end, name in zip(carried, outcome, leaf_names(init, "carry"), strict=True):
        dtype = common_dtype("fori_loop", (start, end))
        if not start.weak and dtype is not start.row and dtype.kind != start.row.kind:
            message = (
                f"fori_loop: {name} starts as {start.row.numpy} and the body returns"
                f" {end.row.numpy}."
            )
            raise located(
                DTypeError,
                message,
                remedy=f"Start it as {end.row.numpy}, or convert it at the body's end.",
            )
        joined.append(dtype)
    return joined
