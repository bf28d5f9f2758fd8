"""Loops that stay loops in the program: `mlc.fori_loop`, `while_loop`, `scan` and `map`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BOOL, I64
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.control import CHECKPOINT, ForOp, WhileOp, YieldOp, loop_region
from mlc.dialects.tensor.letters import spell
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.frontend.errors import located
from mlc.frontend.numpy.registry import eager
from mlc.frontend.numpy.values import convert, is_integer, lift, number
from mlc.frontend.trace.containers import Structure, flatten, leaf_names, unflatten
from mlc.frontend.trace.kinds import is_tuple
from mlc.frontend.trace.regions import Carry, run_body, trace_body
from mlc.frontend.trace.symbolic import as_dim
from mlc.frontend.trace.trace import current, here, lift_size
from mlc.frontend.trace.tracer import Tracer

C = TypeVar("C")
ONE = Dim.const(1)


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
    first = lift(lower)
    count = lift(upper) - first if not (isinstance(lower, int) and lower == 0) else lift(upper)
    trips = convert(_integer(count, "fori_loop"), I64)

    def run(block: Block, carry: Carry) -> tuple[Any, None]:
        index, *arguments = block.args
        index.name_hint = "i"
        with here().inside(block):
            i = Tracer(here(), index, weak=True) + first
            values = carry.inside(arguments)
        return run_body(block, body, (i, values)), None

    made = trace_body(Carry.of("fori_loop", init, "carry"), _for_region, run)
    made.region.block.add_op(YieldOp.create(operands=made.returned))
    loop = ForOp(trips, made.carry.values, made.region)
    here().b.insert(loop)
    return made.carry.results(loop.outs)


def _for_region(carried: list[SSAValue]) -> Region:
    return loop_region([x.type for x in carried])


def _integer(count: Tracer, function: str) -> SSAValue:
    if not is_integer(count.row) or count.ndim:
        message = (
            f"{function}: the bounds are {count.row.numpy} {spell(count.dims)}; expected integers."
        )
        raise located(DTypeError, message)
    return count.value


def while_loop(cond: Callable[[C], Any], body: Callable[[C], C], init: C) -> C:
    """
    ``carry = init; while cond(carry): carry = body(carry)``, as one loop.

    The carry is an array, a number or a container of them; its shapes stay the same. Outside a
    compiled function it is that Python loop.
    """
    if current() is None:
        carry = init
        while cond(carry):
            carry = body(carry)
        return carry

    def region(carried: list[SSAValue]) -> Region:
        return Region(Block(arg_types=[x.type for x in carried]))

    def run(block: Block, carry: Carry) -> tuple[Any, None]:
        with here().inside(block):
            values = carry.inside(block.args)
        return run_body(block, body, (values,)), None

    made = trace_body(Carry.of("while_loop", init, "carry"), region, run)
    made.region.block.add_op(YieldOp.create(operands=made.returned))
    starts = made.carry.values
    test = Block(arg_types=[x.type for x in starts])
    with here().inside(test):
        values = made.carry.inside(test.args)
    outcome = run_body(test, cond, (values,))
    with here().inside(test):
        condition = condition_value(outcome, "while_loop", "the condition returns")
    test.add_op(YieldOp.create(operands=[condition]))
    loop = WhileOp(starts, Region(test), made.region)
    here().b.insert(loop)
    return made.carry.results(loop.outs)


def condition_value(outcome: Any, function: str, subject: str) -> SSAValue:
    """A 0-d bool; DTypeError for anything else."""
    remedy = "Compare it with something, or reduce it with .any() or .all()."
    if flatten(outcome)[1] != flatten(0)[1]:
        kind = type(outcome).__name__
        raise located(DTypeError, f"{function}: {subject} a {kind}; expected one bool.")
    value = lift(outcome, function)
    if value.row is not BOOL or value.ndim:
        message = f"{function}: {subject} {value.row.numpy} {spell(value.dims)}; expected one bool."
        raise located(DTypeError, message, remedy=remedy)
    return value.value


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    checkpoint: bool = False,
) -> tuple[Any, Any]:
    """
    ``carry, y = f(carry, x)`` for each x along the first axes of `xs`; gives (carry, stacked ys).

    Carry, `xs` and ys are arrays or containers of them. Without `xs`, `length` says how often.
    `reverse` goes from the last x to the first; ys keep their places. With `checkpoint`, reverse
    mode keeps about 2 sqrt(n) carries of n trips, and runs each trip two times more; without, it
    keeps what it needs of every trip. Outside a compiled function it is a Python loop.
    """
    leaves, structure = flatten(xs)
    given = [x for x in leaves if x is not None]
    if current() is None:
        return _eager_scan(f, init, leaves, structure, length, reverse)
    arrays = [lift(x, "scan") for x in given]
    pairs = zip(leaf_names(xs, "xs"), leaves, strict=True)
    trips = _length(arrays, [name for name, x in pairs if x is not None], length)
    last = lift_size(trips - 1)

    def run(block: Block, carry: Carry) -> tuple[Any, tuple[Any, SSAValue]]:
        index, *arguments = block.args
        index.name_hint = "i"
        with here().inside(block):
            at = (last - Tracer(here(), index)).value if reverse else index
            rest = iter([_part(x, at) for x in arrays])
            part = unflatten(structure, [None if x is None else next(rest) for x in leaves])
            values = carry.inside(arguments)
        outcome = run_body(block, f, (values, part))
        if not is_tuple(outcome) or len(outcome) != 2:
            kind = type(outcome).__name__
            message = f"scan: the body returns a {kind}; expected (carry, y)."
            raise located(DTypeError, message)
        return outcome[0], (outcome[1], at)

    made = trace_body(Carry.of("scan", init, "carry"), _for_region, run)
    y, at = made.extra
    ys, starts, following = _stacked(made.region.block, y, at, trips)
    made.region.block.add_op(YieldOp.create(operands=[*made.returned, *following]))
    count = lift_size(trips).value
    loop = ForOp(count, [*made.carry.values, *starts], made.region)
    if checkpoint:
        loop.attributes[CHECKPOINT] = UnitAttr()
    here().b.insert(loop)
    carried = len(made.returned)
    stacked = [Tracer(here(), value) for value in loop.outs[carried:]]
    return made.carry.results(loop.outs[:carried]), ys.with_arrays(stacked).container()


def _part(x: Tracer, at: SSAValue) -> Tracer:
    """x[at]; of no elements, what stands for one: the loop never runs."""
    trace = here()
    if x.dims[0].constant == 0:
        return Tracer(trace, number(0, x.row, x.dims[1:]))
    part = tensor_type(x.row.ir, (ONE, *x.dims[1:]))
    offsets = [at, *(number(0, I64) for _ in x.dims[1:])]
    row = trace.emit(DynamicSliceOp, x.value, *offsets, declared=part)
    whole = tensor_type(x.row.ir, x.dims[1:])
    return Tracer(trace, trace.emit(ReshapeOp, row, declared=whole))


def _stacked(
    block: Block, y: Any, at: SSAValue, trips: Dim
) -> tuple[Carry, list[SSAValue], list[SSAValue]]:
    """The outputs of all trips: their container, what they start as, and what each trip yields."""
    trace = here()
    with trace.inside(block):
        ys = Carry.of("scan", y, "y")
    starts: list[SSAValue] = []
    following: list[SSAValue] = []
    for x in ys.arrays:
        start = number(0, x.row, (trips, *x.dims))
        whole = block.insert_arg(start.type, len(block.args))
        if trips.constant == 0:
            following.append(whole)
            starts.append(start)
            continue
        with trace.inside(block):
            row = tensor_type(x.row.ir, (ONE, *x.dims))
            update = trace.emit(ReshapeOp, x.value, declared=row)
            offsets = [at, *(number(0, I64) for _ in x.dims)]
            following.append(trace.emit(DynamicUpdateOp, whole, update, *offsets))
        starts.append(start)
    return ys, starts, following


def _length(arrays: Sequence[Tracer], names: Sequence[str], length: Any) -> Dim:
    """How many trips; ShapeError where the arrays do not agree."""
    found = None if length is None else as_dim(length)
    if length is not None and found is None:
        message = f"scan: length is {length!r}; expected an integer known when compiling."
        raise located(DTypeError, message)
    said = f"length is {found}"
    for x, name in zip(arrays, names, strict=True):
        if not x.ndim:
            message = f"scan: {name} is a single number; expected an axis to go along."
            raise located(ShapeError, message)
        if found is not None and x.dims[0] != found:
            message = f"scan: {said} and {name} has {spell(x.dims)}; expected one first axis."
            raise located(ShapeError, message)
        found, said = x.dims[0], f"{name} has {spell(x.dims)}"
    if found is None:
        raise located(ShapeError, "scan: without xs, say how many trips: length=…")
    return found


def _eager_scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    leaves: Sequence[Any],
    structure: Structure,
    length: int | None,
    reverse: bool,
) -> tuple[Any, Any]:
    """The Python loop that `scan` is outside a compiled function."""
    sizes: set[int] = {len(x) for x in leaves if x is not None}
    if length is not None:
        sizes.add(length)
    if len(sizes) != 1:
        message = f"scan: first axes of {sorted(sizes)} elements; expected one length."
        raise ShapeError(message)
    (count,) = sizes
    if count == 0:  # only tracing the body says what its outputs are
        return eager(scan, (f, init, unflatten(structure, leaves), length, reverse), {})
    carry, ys, shape = init, list[list[Any]](), None
    for k in reversed(range(count)) if reverse else range(count):
        carry, y = f(carry, unflatten(structure, [None if x is None else x[k] for x in leaves]))
        found, shape = flatten(y)
        ys.append(found)
    assert shape is not None
    if reverse:
        ys.reverse()
    stacked = [None if x[0] is None else np.stack(x) for x in zip(*ys, strict=True)]
    return carry, unflatten(shape, stacked)


def map_(f: Callable[[Any], Any], xs: Any) -> Any:
    """``f(x)`` for each x along the first axes of `xs`, stacked: one x at a time, in one loop."""

    def step(carry: None, x: Any) -> tuple[None, Any]:
        from mlc.frontend.trace.access import call

        return carry, f(x) if current() is None else call(f, (x,), {})

    return scan(step, None, xs)[1]
