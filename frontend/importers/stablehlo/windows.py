# pyright: basic
"""Ops of StableHLO that fold: reduce, windows, select_and_scatter, products, convolutions."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlc.dialects.dtypes import is_real, numpy_dtype
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.stablehlo.program import Op, Region, TensorKind
from mlc.frontend.importers.stablehlo.shapes import MONOIDS, check_numbers, of_dtype, pad, sizes_of
from mlc.frontend.importers.stablehlo.text import numpy_of
from mlc.frontend.numpy.creation import ones, zeros
from mlc.frontend.trace.loops import fori_loop, scan

Array = Any
Apply = Callable[..., tuple[Array, ...]]
"""A region as a function of arrays: element by element."""


_UNROLLED = 16
"""Steps of a fold by a region that are written out; more are a loop."""


def monoid_of(region: Region) -> str | None:
    """The op that a region of two arguments is; "set" where it gives the second one back."""
    *ops, end = region.ops
    first, second = region.arguments if len(region.arguments) == 2 else ("", "")
    if not ops and end.operands == (second,):
        return "set"
    if len(ops) != 1 or end.operands != ops[0].results or ops[0].name not in MONOIDS:
        return None
    return ops[0].name if set(ops[0].operands) == {first, second} else None


def reduce(op: Op, apply: Apply, *given: Array) -> tuple[Array, ...]:
    """Folds along some axes: by NumPy where it has the fold, else one element after the other."""
    count = len(given) // 2
    xs, starts = given[:count], given[count:]
    axes = tuple(int(a) for a in op.get("dimensions"))
    how = monoid_of(op.regions[0])
    if how is not None and how != "set" and count == 1:
        x, start = xs[0], starts[0]
        folded = _folded(of_dtype(how, x.dtype), x, axes)
        return (apply(np.broadcast_to(start, folded.shape), folded)[0],)
    kept = [a for a in range(xs[0].ndim) if a not in axes]
    shape = tuple(xs[0].shape[a] for a in kept)
    flat = [x.transpose(*axes, *kept).reshape(-1, *shape) if x.ndim else x for x in xs]
    if not axes:
        return apply(*starts, *flat)
    carry = tuple(np.broadcast_to(s, shape) for s in starts)
    trips = flat[0].shape[0]
    if not isinstance(trips, int) or trips > _UNROLLED:

        def trip(k: Array, carried: tuple[Array, ...]) -> tuple[Array, ...]:
            return tuple(apply(*carried, *(x[k] for x in flat)))

        return fori_loop(0, trips, trip, carry)
    for k in range(trips):
        carry = tuple(apply(*carry, *(x[k] for x in flat)))
    return carry


def _folded(how: str, x: Array, axes: tuple[int, ...]) -> Array:
    if how == "and" and x.dtype.kind == "b":
        return x.all(axis=axes)
    if how == "or" and x.dtype.kind == "b":
        return x.any(axis=axes)
    if how in ("minimum", "maximum") and not all(isinstance(n, int) and n for n in x.shape):
        row = numpy_dtype(x.dtype)
        initial = row.highest if how == "minimum" else row.lowest
        found = MONOIDS[how].reduce(x, axis=axes, initial=initial)
    else:
        found = MONOIDS[how].reduce(x, axis=axes)
    return found.astype(x.dtype)


# windows

_MOST = 1 << 12
"""Elements of a window that is not a running fold: each is an op of its own."""


class Windows:
    """How windows lie over an operand: sizes, strides, dilations and padding for each axis."""

    def __init__(self, op: Op, rank: int) -> None:
        self.line = op.line

        def numbers(name: str, default: int) -> list[Any]:
            found = op.get(name)
            if found is None:
                return [default] * rank
            return found if isinstance(found, list) else [int(n) for n in np.ravel(found)]

        self.sizes = numbers("window_dimensions", 1)
        self.strides = numbers("window_strides", 1)
        self.apart = numbers("window_dilations", 1)
        self.spread = numbers("base_dilations", 1)
        for name, found in (
            ("window_dimensions", self.sizes), ("window_strides", self.strides),
            ("window_dilations", self.apart), ("base_dilations", self.spread),
        ):  # fmt: skip
            check_numbers(name, found, 1)
        around = numbers("padding", 0) if op.get("padding") is not None else [0] * 2 * rank
        self.around = list(zip(around[::2], around[1::2], strict=True))

    def padded(self, x: Array, value: Array) -> Array:
        """The operand with what is around and between its elements."""
        low, high = zip(*self.around, strict=True) if self.around else ((), ())
        return pad(x, value, low, high, [n - 1 for n in self.spread])

    def offsets(self) -> Iterator[tuple[int, ...]]:
        """The places in a window, in order."""
        if not all(isinstance(n, int) for n in self.sizes) or math.prod(self.sizes) > _MOST:
            raise NotSupportedError(
                f"line {self.line}: a window of {' x '.join(map(str, self.sizes))} elements;"
                f" expected no more than {_MOST}, or all elements before each one"
            )
        return itertools.product(*(range(n) for n in self.sizes))

    def part(self, x: Array, offset: Sequence[int], count: Sequence[int]) -> Array:
        """Of each window the element at one place; `count` windows along each axis."""
        return x[self.slices(offset, count)]

    def slices(self, offset: Sequence[int], count: Sequence[int]) -> tuple[slice, ...]:
        """Where these elements lie in the padded operand."""
        return tuple(
            slice(o * a, o * a + (n - 1) * s + 1 if n else o * a, s)
            for o, a, n, s in zip(offset, self.apart, count, self.strides, strict=True)
        )

    def counts(self, shape: Sequence[Any]) -> list[Any]:
        """How many windows lie along each axis of an operand of this shape."""
        return [
            (low + (n - 1) * b + 1 + high - ((w - 1) * a + 1)) // s + 1
            for n, (low, high), w, s, a, b in zip(
                shape, self.around, self.sizes, self.strides, self.apart, self.spread, strict=True
            )
        ]

    def walks(self, shape: Sequence[int], result: Sequence[int]) -> int | None:
        """The axis along which results add up all that came before, where windows do just that."""
        long = [a for a, n in enumerate(self.sizes) if not isinstance(n, int) or n > 1]
        plain = {*self.strides, *self.apart, *self.spread} == {1}
        if len(long) != 1 or not plain or tuple(shape) != tuple(result):
            return None
        (axis,) = long
        others = all(pair == (0, 0) for a, pair in enumerate(self.around) if a != axis)
        before = tuple(self.around[axis]) == (shape[axis] - 1, 0)
        return axis if others and before and self.sizes[axis] == shape[axis] else None


_RUNNING = ("add", "multiply", "minimum", "maximum")


def reduce_window(op: Op, apply: Apply, *given: Array) -> tuple[Array, ...]:
    """A fold over each window."""
    count = len(given) // 2
    xs, starts = given[:count], given[count:]
    windows, kind = Windows(op, xs[0].ndim), op.kinds[0]
    assert isinstance(kind, TensorKind)
    shape = windows.counts(xs[0].shape) if None in kind.shape else sizes_of(op)
    how = monoid_of(op.regions[0])
    axis = windows.walks(xs[0].shape, shape) if count == 1 else None
    if axis is not None and how in _RUNNING and xs[0].dtype.kind != "b":
        found = MONOIDS[how].accumulate(xs[0], axis=axis).astype(xs[0].dtype)
        return (apply(np.broadcast_to(starts[0], shape), found)[0],)
    padded = [windows.padded(x, s) for x, s in zip(xs, starts, strict=True)]
    carry = tuple(np.broadcast_to(s, shape) for s in starts)
    for offset in windows.offsets():
        carry = tuple(apply(*carry, *(windows.part(x, offset, shape) for x in padded)))
    return carry


def scanned(op: Op, apply: Apply, *given: Array) -> tuple[Array, ...]:
    """Each slice of an axis with what was carried to it: results of all slices, then the last."""
    count, carries = (int(n) for n in op.get("operandSegmentSizes"))
    axis, backwards = int(op.get("dimension")), bool(op.get("is_reverse"))
    xs, starts = given[:count], given[count:]
    how = monoid_of(replace(op.regions[0], ops=_ending_once(op.regions[0])))
    if count == carries == 1 and how in _RUNNING and xs[0].dtype.kind != "b":
        turned = np.flip(xs[0], axis) if backwards else xs[0]
        found = MONOIDS[how].accumulate(turned, axis=axis).astype(turned.dtype)
        running = MONOIDS[how](np.expand_dims(starts[0], axis), found)
        last = np.take(running, -1, axis) if running.shape[axis] != 0 else starts[0]
        return np.flip(running, axis) if backwards else running, last

    def trip(carried: tuple[Array, ...], slices: tuple[Array, ...]) -> tuple[Any, Any]:
        found = apply(*slices, *carried)
        return found[-carries:], found[:-carries]

    ahead = tuple(np.moveaxis(x, axis, 0) for x in xs)
    last, results = scan(trip, starts, ahead, reverse=backwards)
    return (*(np.moveaxis(y, 0, axis) for y in results), *last)


def _ending_once(region: Region) -> tuple[Op, ...]:
    """The ops of a region, whose end gives one value where all that it gives are the same."""
    *ops, end = region.ops
    return (*ops, replace(end, operands=tuple(dict.fromkeys(end.operands))))


def select_and_scatter(
    op: Op, select: Apply, combine: Apply, x: Array, source: Array, start: Array
) -> Array:
    """To the element of each window that `select` chooses comes what the source has for it."""
    windows = Windows(op, x.ndim)
    padded = windows.padded(x, np.zeros((), x.dtype))
    inside = windows.padded(ones(x.shape, bool), np.zeros((), bool))
    shape = source.shape
    first, *others = windows.offsets()
    best, known = windows.part(padded, first, shape), windows.part(inside, first, shape)
    place: Array = zeros(shape, np.int64)
    for number, offset in enumerate(others, 1):
        value, here = windows.part(padded, offset, shape), windows.part(inside, offset, shape)
        keeps = select(best, value)[0] & known
        takes = here & ~keeps
        best = np.where(takes, value, best)
        place = np.where(takes, number, place)
        known = known | here
    grown = np.broadcast_to(start, padded.shape).copy()
    for number, offset in enumerate(windows.offsets()):
        at = windows.slices(offset, shape)
        mine = (place == number) & known
        grown[at] = np.where(mine, combine(grown[at], source)[0], grown[at])
    cut = tuple(
        slice(max(low, 0), max(low, 0) + (n - 1) * b + 1 if n else 0, b)
        for n, (low, _), b in zip(x.shape, windows.around, windows.spread, strict=True)
    )
    return grown[cut]


# products


def dot_general(op: Op, x: Array, y: Array) -> Array:
    """Sums of products over contracting axes; batching axes go along."""
    numbers = op.get("dot_dimension_numbers") or {}
    batch, summed = (
        [numbers.get(f"{side}_{kind}_dimensions", []) for side in ("lhs", "rhs")]
        for kind in ("batching", "contracting")
    )
    letters = iter("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    left, right = [""] * x.ndim, [""] * y.ndim
    result = ""
    for a, b in zip(*batch, strict=True):
        left[a] = right[b] = letter = next(letters)
        result += letter
    for a, b in zip(*summed, strict=True):
        left[a] = right[b] = next(letters)
    for names in (left, right):
        for k, name in enumerate(names):
            if not name:
                names[k] = next(letters)
                result += names[k]
    x, y = _widened(op, x, y)
    return np.einsum(f"{''.join(left)},{''.join(right)}->{result}", x, y)


def _widened(op: Op, x: Array, y: Array) -> tuple[Array, Array]:
    """The factors in the result's dtype, unless theirs is wider: sums do not wrap."""
    kind = op.kinds[0]
    assert isinstance(kind, TensorKind)
    dtype = max((x.dtype, y.dtype, numpy_of(kind)), key=lambda dtype: dtype.itemsize)
    dtype = numpy_of(kind) if dtype.itemsize == numpy_of(kind).itemsize else dtype
    return x.astype(dtype), y.astype(dtype)


_NUMBERS = re.compile(r"\[([^\]]*)\]\s*x\s*\[([^\]]*)\]\s*->\s*\[([^\]]*)\]")


def convolution(op: Op, x: Array, w: Array, padding: Sequence[Any] | None = None) -> Array:
    """
    A convolution with any order of axes, groups, strides, dilations of both, and padding: what the
    op says, or `padding`.
    """
    from mlc.frontend import nn

    order = _NUMBERS.search(str(op.get("dimension_numbers")))
    if order is None:
        raise NotSupportedError(
            f"line {op.line}: convolution's dim_numbers {op.get('dimension_numbers')}"
        )
    xs, ws, ys = ([part.strip() for part in each.split(",")] for each in order.groups())
    rank = len(xs) - 2
    space = [str(k) for k in range(rank)]
    x = x.transpose(*(xs.index(c) for c in ("b", "f", *space)))
    w = w.transpose(*(ws.index(c) for c in ("o", "i", *space)))

    def numbers(name: str, default: int, count: int = rank) -> list[int]:
        given = op.get(name)
        return [default] * count if given is None else [int(n) for n in np.ravel(given)]

    if any(op.get("window_reversal") or ()):
        flips = tuple(a + 2 for a, r in enumerate(op.get("window_reversal")) if int(r))
        w = np.flip(w, flips)
    strides, apart = numbers("window_strides", 1), numbers("rhs_dilation", 1)
    spread, around = numbers("lhs_dilation", 1), padding or numbers("padding", 0, 2 * rank)
    low, high = around[::2], around[1::2]
    for name, found in (
        ("stride", strides), ("rhs_dilate", apart), ("lhs_dilate", spread),
    ):  # fmt: skip
        check_numbers(name, found, 1)
    x, w = _widened(op, x, w)
    zero = np.zeros((), x.dtype)
    x = pad(x, zero, [0, 0, *low], [0, 0, *high], [0, 0, *(n - 1 for n in spread)])
    groups, batches = int(op.get("feature_group_count", 1)), int(op.get("batch_group_count", 1))
    if batches > 1:
        x = x.reshape(batches, -1, *x.shape[1:])
        parts = np.split(w, batches)
        y = np.concatenate(
            [_plain(nn, x[k], part, strides, apart, 1) for k, part in enumerate(parts)], axis=1
        )
    else:
        y = _plain(nn, x, w, strides, apart, groups)
    own = ("b", "f", *space)
    return y.transpose(*(own.index(c) for c in ys))


def _plain(
    nn: Any, x: Array, w: Array, strides: Sequence[int], apart: Sequence[int], groups: int
) -> Array:
    """(N, C, …) by (F, C / groups, …): sums over the places of a window."""
    sizes = w.shape[2:]
    spans = [(n - 1) * a + 1 for n, a in zip(sizes, apart, strict=True)]
    counts = [
        (n - span) // s + 1 if n >= span else 0
        for n, span, s in zip(x.shape[2:], spans, strides, strict=True)
    ]
    if is_real(x.dtype) and len(sizes) == 2 and all(counts):
        return nn.conv(x, w, stride=tuple(strides), dilation=tuple(apart), groups=groups)
    shape = (x.shape[0], groups, x.shape[1] // groups)
    total = zeros((x.shape[0], w.shape[0], *counts), x.dtype)
    grouped = w.reshape(groups, -1, *w.shape[1:])
    if math.prod(sizes) > _MOST:
        raise NotSupportedError(f"a window of {math.prod(sizes)} places; expected {_MOST} at most")
    for offset in itertools.product(*(range(n) for n in sizes)):
        at = tuple(
            slice(o * a, o * a + (n - 1) * s + 1 if n else o * a, s)
            for o, a, n, s in zip(offset, apart, counts, strides, strict=True)
        )
        part = x[(slice(None), slice(None), *at)].reshape(*shape, *counts)
        here = grouped[(slice(None), slice(None), slice(None), *offset)]
        total = total + np.einsum("ngc...,gfc->ngf...", part, here).reshape(total.shape)
    return total
