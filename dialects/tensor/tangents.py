"""
Tangents of reductions, scans, sorts and scatters, by ops that are linear in them.

At ties a largest element shares its derivative evenly with its equals, as `mlc.max` does; the
running one takes it from the latest of them, and a sort from the element that the stable order puts
there. Products are those of all other factors, so that factors of zero are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dims import Dim, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import I64, dtype_of
from mlc.dialects.tensor.comparison import CompareOp, ConvertOp, MaxOp, MinOp, SelectOp
from mlc.dialects.tensor.control import ForOp, IfOp, YieldOp, loop_region
from mlc.dialects.tensor.create import IotaOp, SizeOp, full
from mlc.dialects.tensor.elementwise import AddOp, DivOp, ExpOp, MulOp, SubOp
from mlc.dialects.tensor.functions import Log1pOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import ALPHABET, split
from mlc.dialects.tensor.op import OpBuilder, tensor_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.rounding import AbsOp
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.dialects.tensor.shape import BroadcastOp

if TYPE_CHECKING:
    from mlc.dialects.tensor.sort import SortOp
    from mlc.dialects.tensor.window import WindowOp

FAR = 1 << 62  # a position behind every element


def filled(b: OpBuilder, value: float, like: SSAValue) -> SSAValue:
    """One number in the type of another value."""
    kind = tensor_of(like)
    dtype = dtype_of(kind.element_type)
    return full(b, value if dtype.is_inexact else int(value), dtype, shape_of(kind))


def where(b: OpBuilder, condition: SSAValue, x: SSAValue, otherwise: float = 0.0) -> SSAValue:
    """x where the condition holds, elsewhere a number."""
    return b(SelectOp, condition, x, filled(b, otherwise, x))


def equal(b: OpBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """x == y"""
    return b(CompareOp, x, y, predicate="eq")


# Reductions


def reduce_tangent(
    b: OpBuilder, monoid: str, letters: str, x: SSAValue, result: SSAValue, tangent: SSAValue
) -> SSAValue:
    """Of a reduction of `x` by "prod", "max" or "min"."""
    if monoid == "prod":
        return _product_tangent(b, letters, x, tangent)
    (source,), kept = split(letters)
    spread = b(BroadcastOp, result, letters=f"{kept}->{source}", declared=tensor_of(x))
    chosen = equal(b, x, spread)
    total = b(ReduceOp, where(b, chosen, tangent), monoid="sum", letters=letters)
    ones = b(ConvertOp, chosen, declared=tensor_of(x))
    return b(DivOp, total, b(ReduceOp, ones, monoid="sum", letters=letters))


def _product_tangent(b: OpBuilder, letters: str, x: SSAValue, tangent: SSAValue) -> SSAValue:
    """Axis by axis: each tangent times the factors before it and those after it."""
    (word,), kept = split(letters)
    for letter in [c for c in word if c not in kept]:
        axis, smaller = word.index(letter), word.replace(letter, "")
        before, after = (
            b(ScanOp, x, monoid="prod", direction=way, kind="exclusive", axis=axis)
            for way in ("forward", "backward")
        )
        others = b(MulOp, before, after)
        text = f"{word}->{smaller}"
        tangent = b(ReduceOp, b(MulOp, tangent, others), monoid="sum", letters=text)
        x = b(ReduceOp, x, monoid="prod", letters=text)
        word = smaller
    return tangent


def window_tangent(b: OpBuilder, op: WindowOp, tangent: SSAValue) -> SSAValue:
    """Of a reduction of windows: that of the reduction of their elements, each read on its own."""
    words, result, _ = op.words()
    letters = f"{words[0]}->{result}"
    x, moved = (_elements(b, op, value) for value in (op.x, tangent))
    return reduce_tangent(b, op.monoid.data, letters, x, op.result, moved)


def _elements(b: OpBuilder, op: WindowOp, x: SSAValue) -> SSAValue:
    """The elements of the windows, with an axis for each letter."""
    (axes,), (words, _, _), sizes = op.axes, op.words(), op.sizes()
    source, indices, spelled = "", list[SSAValue](), list[str]()
    for axis in axes:
        if len(axis) == 1:
            source += axis[0][1]
            continue
        source += str(len(indices))
        kind = tensor_type(i64, tuple(sizes[c] for _, c in axis))
        steps = [
            b(MulOp, b(IotaOp, axis=k, declared=kind), full(b, scale, I64, shape_of(kind)))
            for k, (scale, _) in enumerate(axis)
        ]
        indices.append(b(AddOp, *steps))
        spelled.append("".join(c for _, c in axis))
    if not indices:
        return x
    return b(GatherOp, x, *indices, letters=f"{','.join([source, *spelled])}->{words[0]}")


# Scans


def scan_tangent(b: OpBuilder, op: ScanOp, tangent: SSAValue) -> SSAValue:
    """Of a running product, largest or smallest element, or log-sum-exp."""
    name = op.monoid.data
    if name == "prod":
        return _running_product(b, op, tangent)
    if name == "logsumexp":
        return _running_logsumexp(b, op, tangent)
    return _running_extremum(b, op, tangent)


def _again(b: OpBuilder, op: ScanOp, x: SSAValue, monoid: str, kind: str | None = None) -> SSAValue:
    """Another monoid along the same axis."""
    return b(
        ScanOp,
        x,
        monoid=monoid,
        direction=op.direction,
        kind=op.kind if kind is None else kind,
        axis=op.axis.value.data,
    )


def _running_product(b: OpBuilder, op: ScanOp, tangent: SSAValue) -> SSAValue:
    """The product times the sum of tangents over factors; where there are zeros, step by step."""
    x = op.x

    def regular(b: OpBuilder) -> SSAValue:
        return b(MulOp, op.result, _again(b, op, b(DivOp, tangent, x), "sum"))

    def with_zeros(b: OpBuilder) -> SSAValue:
        return _recurrence(b, op, tangent, 1.0, _multiplied_step)

    zero = equal(b, x, filled(b, 0.0, x))
    found = b(ReduceOp, zero, monoid="max", letters=f"{_word(op.shape)}->")
    return either(b, found, with_zeros, regular)


def either(
    b: OpBuilder,
    condition: SSAValue,
    then: Callable[[OpBuilder], SSAValue],
    otherwise: Callable[[OpBuilder], SSAValue],
) -> SSAValue:
    """What one of two programs gives."""
    blocks = Block(), Block()
    for block, emit in zip(blocks, (then, otherwise), strict=True):
        value = emit(OpBuilder(block.add_op))
        block.add_op(YieldOp.create(operands=[value]))
    choice = IfOp(condition, *(Region(block) for block in blocks))
    b.insert(choice)
    return choice.outs[0]


def _multiplied_step(
    b: OpBuilder, before: SSAValue, own: SSAValue, d: SSAValue, mine: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """p x, and d x + p t."""
    return b(MulOp, before, own), b(AddOp, b(MulOp, d, own), b(MulOp, before, mine))


def _running_extremum(b: OpBuilder, op: ScanOp, tangent: SSAValue) -> SSAValue:
    """The tangent of the latest element that is the extremum so far."""
    x, axis = op.x, op.axis.value.data
    so_far = _again(b, op, x, op.monoid.data, "inclusive")
    position = b(IotaOp, axis=axis, declared=tensor_type(i64, op.shape))
    latest, nowhere = ("min", FAR) if op.is_backward else ("max", -1)
    held = b(SelectOp, equal(b, x, so_far), position, filled(b, nowhere, position))
    place = _again(b, op, held, latest)
    length = b(SizeOp, dims=(op.shape[axis] - 1,))
    last = b(BroadcastOp, length, letters=f"->{_word(op.shape)}", declared=tensor_of(place))
    inside = b(MinOp, b(MaxOp, place, filled(b, 0, place)), last)
    return where(b, equal(b, inside, place), taken_along(b, tangent, inside, axis))


def _running_logsumexp(b: OpBuilder, op: ScanOp, tangent: SSAValue) -> SSAValue:
    """
    d[i] = d[i-1] exp(y[i-1] - y[i]) + t[i] exp(x[i] - y[i]): factors of at most one, where a sum
    over all elements would need the exponential of their largest.
    """
    return _recurrence(b, op, tangent, float("-inf"), _added_step)


def _added_step(
    b: OpBuilder, before: SSAValue, own: SSAValue, d: SSAValue, mine: SSAValue
) -> tuple[SSAValue, SSAValue]:
    after = logaddexp(b, before, own)
    shares = b(MulOp, d, _share(b, before, after)), b(MulOp, mine, _share(b, own, after))
    return after, b(AddOp, *shares)


Step = Callable[[OpBuilder, SSAValue, SSAValue, SSAValue, SSAValue], tuple[SSAValue, SSAValue]]
"""From what was so far, an element, and their tangents: what is now, and its tangent."""


def _recurrence(b: OpBuilder, op: ScanOp, tangent: SSAValue, start: float, step: Step) -> SSAValue:
    """The tangents of a scan one after the other, of which the first begins at `start`."""
    axis = op.axis.value.data
    dims = tuple(Dim.const(1) if k == axis else d for k, d in enumerate(op.shape))
    row = tensor_type(op.dtype.ir, dims)
    count = b(SizeOp, dims=(op.shape[axis],))
    starts = (full(b, start, op.dtype, dims), full(b, 0.0, op.dtype, dims), filled(b, 0.0, op.x))
    region = loop_region([v.type for v in starts])
    inner = OpBuilder(region.block.add_op)
    trip, before, carried, written = region.block.args
    one = full(inner, 1, I64, ())
    at = inner(SubOp, inner(SubOp, count, one), trip) if op.is_backward else trip
    zero = full(inner, 0, I64, ())
    offsets = [at if k == axis else zero for k in range(len(dims))]
    own, mine = (inner(DynamicSliceOp, v, *offsets, declared=row) for v in (op.x, tangent))
    after, moved = step(inner, before, own, carried, mine)
    given = carried if op.is_exclusive else moved
    written = inner(DynamicUpdateOp, written, given, *offsets)
    region.block.add_op(YieldOp.create(operands=[after, moved, written]))
    loop = ForOp(count, starts, region)
    b.insert(loop)
    return loop.outs[2]


def logaddexp(b: OpBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """log(exp(x) + exp(y)), of which either choice of the larger is the whole function."""
    first = b(CompareOp, x, y, predicate="gt")
    larger, smaller = b(SelectOp, first, x, y), b(SelectOp, first, y, x)
    endless = equal(b, b(AbsOp, larger), filled(b, float("inf"), x))  # inf - inf is NaN
    apart = b(SubOp, smaller, b(SelectOp, endless, filled(b, 0.0, x), larger))
    return b(AddOp, larger, b(Log1pOp, b(ExpOp, apart)))


def _share(b: OpBuilder, part: SSAValue, total: SSAValue) -> SSAValue:
    """exp(part - total); 0 for a part of nothing."""
    nothing = equal(b, part, filled(b, float("-inf"), part))
    return b(SelectOp, nothing, filled(b, 0.0, part), b(ExpOp, b(SubOp, part, total)))


# Order


def sort_tangent(b: OpBuilder, op: SortOp, tangent: SSAValue) -> SSAValue:
    """The tangents in the order of the elements."""
    from mlc.dialects.tensor.sort import ArgsortOp

    order = b(ArgsortOp, op.x, order=op.order)
    return taken_along(b, tangent, order, len(op.shape) - 1)


def _word(shape: Shape) -> str:
    return ALPHABET[: len(shape)]


def taken_along(b: OpBuilder, x: SSAValue, positions: SSAValue, axis: int) -> SSAValue:
    """x[…, positions[…, i, …], …] along an axis, as np.take_along_axis."""
    word = _word(shape_of(x.type))
    source = f"{word[:axis]}0{word[axis + 1 :]}"
    return b(GatherOp, x, positions, letters=f"{source},{word}->{word}")


# Scatter


def scatter_tangent(
    b: OpBuilder, op: ScatterOp, base: SSAValue | None, written: SSAValue | None
) -> SSAValue:
    """Of "mul", "max" and "min": `base` and `written` are the tangents of array and update."""
    base = filled(b, 0.0, op.x) if base is None else base
    written = filled(b, 0.0, op.update) if written is None else written
    rule = _multiplied if op.mode.data == "mul" else _won
    return rule(b, op, base, written)


def _scattered(b: OpBuilder, op: ScatterOp, mode: str, x: SSAValue, update: SSAValue) -> SSAValue:
    return b(ScatterOp, x, *op.indices, update, mode=mode, letters=op.letters)


def _read(b: OpBuilder, op: ScatterOp, x: SSAValue) -> SSAValue:
    """The elements of x where the scatter writes."""
    return b(GatherOp, x, *op.indices, letters=op.letters.data)


def _won(b: OpBuilder, op: ScatterOp, base: SSAValue, written: SSAValue) -> SSAValue:
    """Evenly from all that are as large as the result."""
    stayed = equal(b, op.x, op.result)
    came = equal(b, op.update, _read(b, op, op.result))
    total = _scattered(b, op, "add", where(b, stayed, base), where(b, came, written))
    ones = (b(ConvertOp, c, declared=tensor_of(v)) for c, v in ((stayed, op.x), (came, op.update)))
    return b(DivOp, total, _scattered(b, op, "add", *ones))


def _multiplied(b: OpBuilder, op: ScatterOp, base: SSAValue, written: SSAValue) -> SSAValue:
    """Each tangent times all other factors of its element; factors of zero are counted apart."""
    x, update = op.x, op.update
    zero = equal(b, update, filled(b, 0.0, update))
    factors = b(SelectOp, zero, filled(b, 1.0, update), update)
    product = _scattered(b, op, "mul", x, factors)
    kind = tensor_type(i64, shape_of(update.type))
    marks = b(ConvertOp, zero, declared=kind)
    counts = _scattered(b, op, "add", full(b, 0, I64, op.shape), marks)
    others = b(SubOp, _read(b, op, counts), marks)
    partial = b(DivOp, _read(b, op, product), factors)
    partial = where(b, equal(b, others, filled(b, 0, others)), partial)
    by_base = b(MulOp, base, _scattered(b, op, "mul", filled(b, 1.0, x), update))
    return _scattered(b, op, "add", by_base, b(MulOp, written, partial))
