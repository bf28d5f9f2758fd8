"""Ops that move elements, in StableHLO: shapes, slices, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import I64
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.letters import split, split_one
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp, PadOp
from mlc.dialects.tensor.scatter import MODES, ScatterOp
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    ConcatOp,
    JoinOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from mlc.lowering.stablehlo.elements import Elements
from mlc.lowering.stablehlo.text import Unsaid, Value, Writer, integers, static

ZERO, ONE = Dim.const(0), Dim.const(1)
Row = Callable[[Writer, TensorOp, Sequence[Value]], Value]


def _constant(w: Writer, op: TensorOp, _: Sequence[Value]) -> Value:
    return w.constant(np.asarray(op.reference()), op.dtype)


def _iota(w: Writer, op: TensorOp, _: Sequence[Value]) -> Value:
    assert isinstance(op, IotaOp)
    return w.convert(w.iota(op.axis.value.data, op.shape), op.dtype)


def _size(w: Writer, op: TensorOp, _: Sequence[Value]) -> Value:
    assert isinstance(op, SizeOp)
    return w.size(op.dim)


def _broadcast(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, BroadcastOp)
    word, result = split_one(op.letters.data)
    return w.broadcast(xs[0], [result.index(c) for c in word], op.shape)


def _transpose(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, TransposeOp)
    word, result = split_one(op.letters.data)
    return w.transpose(xs[0], [word.index(c) for c in result])


def _slice(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, SliceOp)
    (x,), firsts, lasts, steps, backwards = xs, list[Dim](), list[Dim](), list[int](), list[int]()
    for axis, (offset, step, size) in enumerate(
        zip(op.offsets.data, op.steps.data, op.shape, strict=True)
    ):
        stride = step.constant
        if stride is None:
            raise Unsaid(f"a slice by steps of {step}")
        last = offset + (size - 1) * stride
        first, limit = (offset, last + 1) if stride > 0 else (last, offset + 1)
        if size.constant == 0:
            first = limit = ZERO
        if stride < 0:
            backwards.append(axis)
        firsts.append(first)
        lasts.append(limit)
        steps.append(max(abs(stride), 1))
    found = sliced(w, x, firsts, lasts, steps, op.shape)
    if not backwards:
        return found
    return w.emit("reverse", [found], x.dtype, op.shape, f"dimensions = {integers(backwards)}")


def sliced(
    w: Writer, x: Value, first: Shape | list[Dim], limit: Shape | list[Dim], steps: Sequence[int],
    shape: Shape,
) -> Value:  # fmt: skip
    """A part of an array: `slice`, or `real_dynamic_slice` where sizes are open."""
    known = static(tuple(first)), static(tuple(limit))
    if known[0] is not None and known[1] is not None and static(x.shape) is not None:
        names = ("start_indices", "limit_indices", "strides")
        parts = zip(names, (known[0], known[1], steps), strict=True)
        said = ", ".join(f"{name} = {integers(each)}" for name, each in parts)
        return w.emit("slice", [x], x.dtype, shape, said)
    strides = w.constant(np.array(steps, np.int64), I64)
    both = [x, w.sizes(tuple(first)), w.sizes(tuple(limit)), strides]
    return w.emit("real_dynamic_slice", both, x.dtype, shape)


def beginning(w: Writer, x: Value, shape: Shape) -> Value:
    """The first elements along each axis; the array itself where those are all."""
    if x.shape == shape:
        return x
    rank = len(shape)
    return sliced(w, x, [ZERO] * rank, shape, [1] * rank, shape)


def _concat(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, ConcatOp | JoinOp)
    said = f"dimension = {op.axis.value.data} : i64"
    return w.emit("concatenate", xs, op.dtype, op.shape, said)


def _pad(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    """`pad`, or `dynamic_pad` where sizes are open."""
    assert isinstance(op, PadOp)
    low, high, rank = op.low.data, op.high.data, len(op.shape)
    known = static(low), static(high)
    if known[0] is not None and known[1] is not None:
        said = (
            f"edge_padding_low = {integers(known[0])}, edge_padding_high = {integers(known[1])},"
            f" interior_padding = {integers([0] * rank)}"
        )
        return w.emit("pad", xs, op.dtype, op.shape, said)
    inner = w.constant(np.zeros(rank, np.int64), I64)
    both = [*xs, w.sizes(low), w.sizes(high), inner]
    return w.emit("dynamic_pad", both, op.dtype, op.shape)


def _dynamic_slice(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, DynamicSliceOp)
    x, *offsets = xs
    sizes = static(op.shape)
    if sizes is None:
        raise Unsaid("a part of an open size at an offset that data say")
    said = f"slice_sizes = {integers(sizes)}"
    return w.emit("dynamic_slice", [x, *offsets], x.dtype, op.shape, said)


def _dynamic_update(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, DynamicUpdateOp)
    return w.emit("dynamic_update_slice", xs, op.dtype, op.shape)


class _Places:
    """
    The letters of a gather or scatter as dimension numbers: those that only the source has are a
    window, those that it shares with an index go along with it, digits say where windows begin.
    """

    def __init__(self, w: Writer, letters: str, source: Value, indices: Sequence[Value]) -> None:
        words, self.result = split(letters)
        self.word, others = words[0], words[1:]
        self.outer = [c for c in self.result if any(c in other for other in others)]
        self.window = [c for c in self.word if not c.isdigit() and c not in self.outer]
        self.order = [*self.outer, *self.window]  # of the axes, as StableHLO has them
        self.sizes = [source.shape[k] if c in self.window else ONE for k, c in enumerate(self.word)]
        dims = {
            c: d
            for other, x in zip(others, indices, strict=True)
            for c, d in zip(other, x.shape, strict=True)
        }
        shape = tuple(dims[c] for c in self.outer)
        self.shape = (
            *shape,
            *(n for n, c in zip(self.sizes, self.word, strict=True) if c in self.window),
        )
        parts: list[Value] = []
        for c, size in zip(self.word, source.shape, strict=True):
            if c.isdigit():
                index, other = indices[int(c)], others[int(c)]
                turned = w.transpose(
                    index, sorted(range(len(other)), key=lambda k: self.outer.index(other[k]))
                )
                whole = w.broadcast(
                    turned, [k for k, x in enumerate(self.outer) if x in other], shape
                )
                zero = w.full(0, I64, shape)
                extent = w.broadcast(w.size(size), (), shape)
                below = w.compare("LT", whole, zero)
                index = w.same("select", below, w.same("add", whole, extent), whole)
                parts.append(w.reshape(index, (*shape, ONE)))
        rank = len(shape)
        self.indices = w.emit(
            "concatenate", parts, I64, (*shape, Dim.const(len(parts))), f"dimension = {rank} : i64"
        )

    def numbers(self, names: Mapping[str, str]) -> str:
        """The dimension numbers; `names` are the op's own for each part."""
        places = [k for k, c in enumerate(self.word) if c.isdigit()]
        shared = [k for k, c in enumerate(self.word) if c in self.outer]
        first = len(self.outer)
        lists = {
            names["window"]: [first + k for k in range(len(self.window))],
            names["dropped"]: places,
            names["shared"]: shared,
            names["beside"]: [self.outer.index(self.word[k]) for k in shared],
            names["places"]: places,
        }
        said = "".join(f"{name} = {each}, " for name, each in lists.items() if each)
        return f"{said}index_vector_dim = {first}"


_GATHER = {
    "window": "offset_dims", "dropped": "collapsed_slice_dims", "shared": "operand_batching_dims",
    "beside": "start_indices_batching_dims", "places": "start_index_map",
}  # fmt: skip
_SCATTER = {
    "window": "update_window_dims", "dropped": "inserted_window_dims",
    "shared": "input_batching_dims", "beside": "scatter_indices_batching_dims",
    "places": "scatter_dims_to_operand_dims",
}  # fmt: skip


def _gather(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, GatherOp)
    places = _Places(w, op.letters.data, xs[0], xs[1:])
    said = f"dimension_numbers = #stablehlo.gather<{places.numbers(_GATHER)}>"
    sizes = static(tuple(places.sizes))
    if sizes is not None:
        said += f", slice_sizes = {integers(sizes)}"
        found = w.emit("gather", [xs[0], places.indices], op.dtype, places.shape, said)
    else:
        both = [xs[0], places.indices, w.sizes(tuple(places.sizes))]
        found = w.emit("dynamic_gather", both, op.dtype, places.shape, said)
    return w.transpose(found, [places.order.index(c) for c in places.result])


def _scatter(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, ScatterOp)
    x, *indices, update = xs
    places = _Places(w, op.letters.data, x, indices)
    turned = w.transpose(update, [places.result.index(c) for c in places.order])
    monoid = MODES[op.mode.data]

    def combined(old: Value, new: Value) -> list[Value]:
        if monoid is None:
            return [new]
        b = Elements(w, ())
        state = monoid.combine(b, op.dtype, (b.stands(old),), (b.stands(new),))
        return [b.of(monoid.finalise(b, state))]

    region = w.region([(op.dtype, ()), (op.dtype, ())], combined)
    said = f"scatter_dimension_numbers = #stablehlo.scatter<{places.numbers(_SCATTER)}>"
    return w.emit("scatter", [x, places.indices, turned], op.dtype, op.shape, said, [region])


ROWS: Mapping[type[TensorOp], Row] = {
    ConstantOp: _constant, IotaOp: _iota, SizeOp: _size, BroadcastOp: _broadcast,
    TransposeOp: _transpose, ReshapeOp: lambda w, op, xs: w.reshape(xs[0], op.shape),
    SliceOp: _slice, ConcatOp: _concat, JoinOp: _concat, PadOp: _pad,
    DynamicSliceOp: _dynamic_slice, DynamicUpdateOp: _dynamic_update, GatherOp: _gather,
    ScatterOp: _scatter,
}  # fmt: skip
"""By class: an op, and its operands."""
