"""
Views cancel and compose; arithmetic moves in front of the broadcast that would repeat it.

Everything here moves elements and changes none, so every rule is exact.
"""

from __future__ import annotations

from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects.dims import Dim, Shape, product, shape_of, tensor_type
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.letters import ALPHABET, split
from mlc.dialects.tensor.op import OpBuilder, TensorOp, element_dtype, tensor_of
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    ConcatOp,
    IndexMapped,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from mlc.passes.rules.load import deferred
from mlc.passes.tensor.constants import splat, splat_constant
from mlc.passes.tensor.rules import Rewrite, Rules

VIEW_RULES = Rules()
"""
Those of `passes/rules/views.rules`, and what no pattern states: views of constants, reshapes that
join or cut axes, and ops of any number of operands.
"""


def letters(op: BroadcastOp | TransposeOp) -> tuple[str, str]:
    """The letters of operand and result."""
    (source,), result = split(op.letters.data)
    return source, result


def _view_of_splat(op: TensorOp, b: Rewrite) -> SSAValue | None:
    """transpose(splat)  ->  splat"""
    value = splat(op.operands[0])
    if value is None:
        return None
    symbolic = any(dim.constant is None for dim in op.shape)
    if symbolic and isinstance(op, BroadcastOp) and not shape_of(op.x.type):
        return None  # the canonical form of a splat of symbolic shape
    return splat_constant(b, value, op.dtype, op.shape)


for _view in (IndexMapped, ReshapeOp):
    VIEW_RULES.on(_view)(_view_of_splat)


VIEW_RULES.include(deferred("views"))


@VIEW_RULES.on(ReshapeOp)
def reshape_of_transpose(op: ReshapeOp, b: Rewrite) -> SSAValue | None:
    """
    reshape (transpose x) : (4, 6) -> (6, 4) -> (2, 3, 4)  ->  transpose (reshape x)

    where x is an argument, and only axes that are neighbours in it, too, are joined: the reshape
    is then a view of the argument, and the transpose an index map. (Computed values are better
    written in the transposed order.) A transpose that only moves axes of size 1 moves nothing.
    """
    inner = op.x.owner
    if not isinstance(inner, TransposeOp):
        return None
    order, sizes = inner.permutation(), shape_of(inner.x.type)
    longer = [axis for axis in order if sizes[axis] != Dim.const(1)]
    if longer == sorted(longer):
        return b(ReshapeOp, inner.x, declared=tensor_of(op.result))
    if not isinstance(inner.x, BlockArgument):
        return None
    groups = regrouped(shape_of(op.x.type), op.shape)
    if groups is None:
        return None
    for before, _ in groups:
        axes = [order[axis] for axis in before]
        if axes != list(range(axes[0], axes[0] + len(axes))):
            return None
    # the groups in the order in which they lie in x
    ranked = sorted(range(len(groups)), key=lambda g: order[groups[g][0][0]])
    axes_before = [axis for g in ranked for axis in groups[g][1]]
    shape = tuple(op.shape[axis] for axis in axes_before)
    letters_ = ALPHABET[: len(shape)]
    flat = b(ReshapeOp, inner.x, declared=tensor_type(op.dtype.ir, shape))
    result = "".join(letters_[axes_before.index(axis)] for axis in range(len(shape)))
    return b(TransposeOp, flat, letters=f"{letters_}->{result}")


def regrouped(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]] | None:
    """
    The shortest runs of axes, before and after a reshape, that hold as many elements each; None
    where a run has axes on one side alone.
    """
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        left, right = [i], [j]
        while (a := product(before[k] for k in left)) != (c := product(after[k] for k in right)):
            if a.constant is not None and c.constant is not None:
                grow = a.constant < c.constant
            else:
                grow = c.exact_quotient(a) is not None
                if not grow and a.exact_quotient(c) is None:
                    return None
            side, stop = (left, len(before)) if grow else (right, len(after))
            if side[-1] + 1 >= stop:
                return None
            side.append(side[-1] + 1)
        groups.append((left, right))
        i, j = left[-1] + 1, right[-1] + 1
    return groups if i == len(before) and j == len(after) else None


Place = tuple[int, Dim, Dim]
"""A run on one axis of a whole: the axis, where it begins, and the whole's size there."""


def regrouped_slice(before: Shape, after: Shape, place: Place) -> tuple[Shape, Place] | None:
    """
    For a reshape of a slice, the shape of the reshaped whole and the slice's place in it; None
    where the sliced axis is joined with others, or cut where the slice does not begin.
    """
    axis, offset, total = place
    if any(dim.constant == 0 for dim in (*before, *after)):
        return None
    for left, right in regrouped(before, after) or ():
        if left == [axis] and right:
            inner = product(after[k] for k in right[1:])
            start, size = offset.exact_quotient(inner), total.exact_quotient(inner)
            if start is None or size is None:
                return None
            return (*after[: right[0]], size, *after[right[0] + 1 :]), (right[0], start, size)
    return None


def slice_of_reshape(op: ReshapeOp, b: OpBuilder) -> SSAValue | None:
    """reshape(slice(x))  ->  slice(reshape(x)), where the slice is a run on one axis; else None"""
    inner = op.x.owner
    if not isinstance(inner, SliceOp):
        return None
    whole, part = shape_of(inner.x.type), shape_of(op.x.type)
    cut = [k for k, dim in enumerate(part) if dim != whole[k]]
    starts = inner.starts()
    if len(cut) != 1 or any(step != 1 for _, step in starts):
        return None
    found = regrouped_slice(part, op.shape, (cut[0], starts[cut[0]][0], whole[cut[0]]))
    if found is None:
        return None
    shape, (axis, offset, _) = found
    flat = b(ReshapeOp, inner.x, declared=tensor_type(op.dtype.ir, shape))
    zero = Dim.const(0)
    return b(
        SliceOp,
        flat,
        offsets=tuple(offset if k == axis else zero for k in range(len(shape))),
        steps=(Dim.const(1),) * len(shape),
        declared=tensor_of(op.result),
    )


@VIEW_RULES.on(ReshapeOp)
def reshape_of_slice(op: ReshapeOp, b: Rewrite) -> SSAValue | None:
    """
    reshape (slice x) : (4, 6) -> (4, 4) -> (4, 2, 2)  ->  slice (reshape x)

    where x lies in memory: the reshape is a view of it, and the slice an index map.
    """
    inner = op.x.owner
    if not isinstance(inner, SliceOp) or op.unit_axes_only():
        return None
    in_memory = isinstance(inner.x, BlockArgument) or isinstance(inner.x.owner, Reduction)
    return slice_of_reshape(op, b) if in_memory else None


@VIEW_RULES.on(SliceOp)
def slice_of_broadcast(op: SliceOp, b: Rewrite) -> SSAValue | None:
    """slice(broadcast(x))  ->  broadcast(slice(x))"""
    inner = op.x.owner
    if not isinstance(inner, BroadcastOp):
        return None
    source, result = letters(inner)
    axes = [result.index(c) for c in source]
    starts = [op.starts()[axis] for axis in axes]
    x = b(
        SliceOp,
        inner.x,
        offsets=tuple(offset for offset, _ in starts),
        steps=tuple(Dim.const(step) for _, step in starts),
        declared=tensor_type(op.dtype.ir, tuple(op.shape[axis] for axis in axes)),
    )
    return b(BroadcastOp, x, letters=inner.letters, declared=tensor_of(op.result))


@VIEW_RULES.on(ConcatOp)
def concat_of_concat(op: ConcatOp, b: Rewrite) -> SSAValue | None:
    """concat(a, concat(b, c))  ->  concat(a, b, c) along one axis"""

    def parts(value: SSAValue) -> tuple[SSAValue, ...]:
        owner = value.owner
        same = isinstance(owner, ConcatOp) and owner.axis == op.axis and value.has_one_use()
        return tuple(owner.operands) if isinstance(owner, ConcatOp) and same else (value,)

    flat = [inner for part in op.parts for inner in parts(part)]
    return b(ConcatOp, *flat, axis=op.axis) if len(flat) > len(op.parts) else None


@VIEW_RULES.on(ConcatOp)
def concat_of_slices(op: ConcatOp, b: Rewrite) -> SSAValue | None:
    """concat(x[0 ... 3], x[3 ... 7], y)  ->  concat(x[0 ... 7], y)"""
    axis = op.axis.value.data
    joined = [op.parts[0]]
    for part in op.parts[1:]:
        whole = _joined(joined[-1], part, axis, b)
        joined[-1:] = [joined[-1], part] if whole is None else [whole]
    return b(ConcatOp, *joined, axis=op.axis) if len(joined) < len(op.parts) else None


def _joined(first: SSAValue, second: SSAValue, axis: int, b: Rewrite) -> SSAValue | None:
    """The slice that holds the one and then the other."""
    one, two = first.owner, second.owner
    if not (isinstance(one, SliceOp) and isinstance(two, SliceOp) and one.x is two.x):
        return None
    starts, counts = list(one.starts()), list(one.shape)
    begin, step = starts[axis]
    distance, next_step = two.starts()[axis][0] - begin, two.starts()[axis][1]
    if counts[axis].constant == 1:
        step = distance.constant or 0
    if two.shape[axis].constant == 1:
        next_step = step
    if not step or next_step != step or distance != step * counts[axis]:
        return None
    counts[axis] += two.shape[axis]
    for k, start in enumerate(two.starts()):
        if k != axis and (start != starts[k] or two.shape[k] != counts[k]):
            return None
    return b(
        SliceOp,
        one.x,
        offsets=tuple(offset for offset, _ in starts),
        steps=tuple(Dim.const(step if k == axis else s) for k, (_, s) in enumerate(starts)),
        declared=tensor_type(one.dtype.ir, tuple(counts)),
    )


@VIEW_RULES.on(Elementwise)
def compute_before_broadcast(op: Elementwise, b: Rewrite) -> SSAValue | None:
    """
    exp(broadcast(x))  ->  broadcast(exp(x)): the same elements, computed once; of several operands,
    along the axes that any of them has: broadcast "n->mn" x + broadcast "->mn" s is one "n->mn".
    """
    axes = _axes_of_operands(op)
    if axes is None:
        return None
    first = next(x.owner for x in op.operands if splat(x) is None)
    assert isinstance(first, BroadcastOp)
    _, word = letters(first)
    kept = "".join(word[axis] for axis in axes)
    shape = tuple(op.shape[axis] for axis in axes)
    operands = [_along(b, x, axes, shape) for x in op.operands]
    small = b(type(op), *operands, declared=tensor_type(op.dtype.ir, shape), **dict(op.properties))
    return b(BroadcastOp, small, letters=f"{kept}->{word}", declared=tensor_of(op.results[0]))


def _axes_of_operands(op: Elementwise) -> list[int] | None:
    """The axes along which any operand changes; None where none is a broadcast or all axes are."""
    found: set[int] = set()
    broadcasts = False
    for x in op.operands:
        if splat(x) is not None:
            continue
        if not isinstance(x.owner, BroadcastOp):
            return None
        broadcasts = True
        found.update(_pattern(x.owner))
    return sorted(found) if broadcasts and len(found) < len(op.shape) else None


def _pattern(op: BroadcastOp) -> tuple[int, ...]:
    """The result's axes that the operand has."""
    source, result = letters(op)
    return tuple(result.index(c) for c in source)


def _along(b: Rewrite, x: SSAValue, axes: list[int], shape: Shape) -> SSAValue:
    """A broadcast value, along some of its axes alone."""
    value, owner = splat(x), x.owner
    element = tensor_of(x).element_type
    if value is not None:
        return splat_constant(b, value, dtype_of(element), shape)
    assert isinstance(owner, BroadcastOp)
    pattern = _pattern(owner)
    if list(pattern) == axes:
        return owner.x
    source = "".join(ALPHABET[axis] for axis in pattern)
    result = "".join(ALPHABET[axis] for axis in axes)
    kind = tensor_type(element, shape)
    return b(BroadcastOp, owner.x, letters=f"{source}->{result}", declared=kind)


@VIEW_RULES.on(Elementwise)
def compute_before_reshape(op: Elementwise, b: Rewrite) -> SSAValue | None:
    """
    exp(reshape(x))  ->  reshape(exp(x)), where x is computed for it alone: the reshape, which reads
    memory, no longer stands between ops that run in one loop
    """
    found: ReshapeOp | None = None
    computed = False
    for x in op.operands:
        if splat(x) is not None:
            continue
        inner = x.owner
        if not isinstance(inner, ReshapeOp) or inner.unit_axes_only():
            return None
        if found is not None and shape_of(inner.x.type) != shape_of(found.x.type):
            return None
        found = inner
        alone = x.has_one_use() and inner.x.has_one_use()
        computed |= alone and isinstance(inner.x.owner, (Elementwise, Reduction))
    if found is None or not computed:
        return None
    shape = shape_of(found.x.type)
    operands = [_before_reshape(b, x, shape) for x in op.operands]
    flat = b(type(op), *operands, declared=tensor_type(op.dtype.ir, shape), **dict(op.properties))
    return b(ReshapeOp, flat, declared=tensor_of(op.results[0]))


def _before_reshape(b: Rewrite, x: SSAValue, shape: Shape) -> SSAValue:
    value, owner = splat(x), x.owner
    if value is None:
        assert isinstance(owner, ReshapeOp)
        return owner.x
    return splat_constant(b, value, element_dtype(x), shape)
