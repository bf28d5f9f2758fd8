# pyright: basic
"""Convolutions and pools of ONNX, over any number of axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from math import ceil, prod
from typing import Any

import numpy as np

from mlc.dialects.dtypes import is_real
from mlc.frontend.importers.bounds import FAR, check_between
from mlc.frontend.importers.onnx.run import ROWS, At, in_f32, row, traced
from mlc.frontend.importers.onnx.values import arange, cut, full, some, taken
from mlc.frontend.numpy.creation import zeros

Array = Any
PLACES = 32
"""Of a window, up to which its elements are combined one by one: a kernel of a few slices."""
_MOST = 1 << 14
"""Places of a window that the program is written out for."""


class Windows:
    """How windows of `sizes` lie over the last axes of an input."""

    def __init__(self, at: At, space: Sequence[int], sizes: Sequence[int]) -> None:
        rank = len(space)
        self.space, self.sizes = list(space), [int(n) for n in sizes]
        said = at.node.said
        self.strides = [int(n) for n in at.get("strides") or [1] * rank]
        self.apart = [int(n) for n in at.get("dilations") or [1] * rank]
        spans = [(n - 1) * d + 1 for n, d in zip(self.sizes, self.apart, strict=True)]
        self.low, self.high = self._around(at, spans)
        check_between("pads", [*self.low, *self.high], 0, FAR - 1)
        wide = [n + a + b for n, a, b in zip(space, self.low, self.high, strict=True)]
        self.counts: list[Any] = []
        for k, (n, span, stride) in enumerate(zip(wide, spans, self.strides, strict=True)):
            count = (n - span) // stride + 1
            if at.get("ceil_mode", 0):
                count = ceil((n - span) / stride) + 1
                if (count - 1) * stride >= space[k] + self.low[k]:
                    count -= 1  # a window that begins behind the input
            self.counts.append(some(count, f"{said}: a window lies inside"))
        self.beyond = [  # past the padding, where the last window reaches
            max(0, (c - 1) * s + span - n) if at.get("ceil_mode", 0) else 0
            for c, s, span, n in zip(self.counts, self.strides, spans, wide, strict=True)
        ]

    def _around(self, at: At, spans: Sequence[int]) -> tuple[list[int], list[int]]:
        how = at.get("auto_pad", "NOTSET")
        rank = len(self.space)
        if how in ("NOTSET", "") or at.get("pads"):
            pads = [int(n) for n in at.get("pads") or [0] * 2 * rank]
            return pads[:rank], pads[rank:]
        if how == "VALID":
            return [0] * rank, [0] * rank
        total = [
            max(0, (-(-n // s) - 1) * s + span - n)
            for n, s, span in zip(self.space, self.strides, spans, strict=True)
        ]
        less = [n // 2 for n in total]
        more = [n - m for n, m in zip(total, less, strict=True)]
        return (less, more) if how == "SAME_UPPER" else (more, less)

    def padded(self, x: Array, value: Any) -> Array:
        """The input with `value` around it."""
        around = [(a, b + c) for a, b, c in zip(self.low, self.high, self.beyond, strict=True)]
        if not any(a or b for a, b in around):
            return x
        lead = x.ndim - len(around)
        return np.pad(x, [(0, 0)] * lead + around, constant_values=value)

    def places(self) -> Iterator[tuple[int, ...]]:
        """The places in a window. ValueError where they are too many to be written out."""
        if (count := prod(self.sizes)) > _MOST:
            raise ValueError(f"a window of {count} places; expected {_MOST} at most")
        return itertools.product(*(range(n) for n in self.sizes))

    def part(self, x: Array, place: Sequence[int]) -> Array:
        """Of each window of a padded input the element at a place."""
        where = tuple(
            slice(p * d, p * d + (c - 1) * s + 1 if not _is_none(c) else p * d, s)
            for p, d, c, s in zip(place, self.apart, self.counts, self.strides, strict=True)
        )
        return x[(..., *where)]

    def folded(self, x: Array, pair: Any, whole: Callable[[Array, int], Array]) -> Array:
        """
        Each window of a padded input as one element: `pair` combines two, `whole` an axis. Small
        windows place by place, large ones axis by axis, whose program does not grow with them.
        """
        if prod(self.sizes) <= PLACES:
            return reduce(pair, (self.part(x, place) for place in self.places()))
        first = x.ndim - len(self.sizes)
        for k, (n, d, c, s) in enumerate(
            zip(self.sizes, self.apart, self.counts, self.strides, strict=True)
        ):
            places = arange(c)[:, None] * s + arange(n) * d
            x = whole(taken(x, places, first + k), first + k + 1)
        return x

    @property
    def are_one(self) -> bool:
        """Whether there is one window, of elements side by side."""
        one = all(isinstance(n, int) and n == 1 for n in self.counts)
        pairs = zip(self.sizes, self.apart, strict=True)
        return one and all(n == 1 or d == 1 for n, d in pairs)

    def met(self, w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """
        Known weights without the places that meet padding alone, in every window: a window is
        smaller then, and so is the padding.
        """
        for k, (n, count) in enumerate(zip(self.space, self.counts, strict=True)):
            if not isinstance(n, int) or not isinstance(count, int) or not count or not n:
                continue
            step, apart, low = self.strides[k], self.apart[k], self.low[k]
            firsts = [p * apart - low for p in range(self.sizes[k])]  # in the first window
            seen = [p for p, first in enumerate(firsts) if _meets(first, step, count, n)]
            if len(seen) in (0, self.sizes[k]):
                continue
            end = firsts[seen[-1]] + (count - 1) * step + 1
            if firsts[seen[0]] > 0 or end < n:
                continue  # the input would have to be cut, too
            w = cut(w, 2 + k, slice(seen[0], seen[-1] + 1))
            self.sizes[k], self.beyond[k] = seen[-1] + 1 - seen[0], 0
            self.low[k], self.high[k] = -firsts[seen[0]], end - n
        return np.ascontiguousarray(w)

    @property
    def empty(self) -> bool:
        """Whether no window lies inside."""
        return any(_is_none(count) for count in self.counts)


def _meets(first: int, step: int, count: int, n: int) -> bool:
    """Whether one of `count` numbers from `first` by steps is one of 0 to n - 1."""
    inside = first if first >= 0 else first % step  # the first that is not below 0
    return inside < n and inside <= first + (count - 1) * step


def _is_none(count: Any) -> bool:
    """Whether there are no windows; of a size that varies every call checks that there are."""
    return isinstance(count, int) and count == 0


def convolve(x: Array, w: Array, windows: Windows, groups: int) -> Array:
    """(N, C, …) by (F, C / groups, …), over windows of the padded x."""
    from mlc.frontend import nn

    if len(windows.sizes) == 2 and is_real(x.dtype) and not windows.empty:
        return nn.conv(
            traced(x), traced(w), stride=tuple(windows.strides), dilation=tuple(windows.apart),
            groups=groups,
        )  # fmt: skip
    if len(windows.sizes) == 1 and is_real(x.dtype) and not windows.empty:
        return nn.conv(
            traced(x)[:, :, None], traced(w)[:, :, None], stride=(1, windows.strides[0]),
            dilation=(1, windows.apart[0]), groups=groups,
        )[:, :, 0]  # fmt: skip
    shape = (x.shape[0], groups, x.shape[1] // groups, *windows.counts)
    grouped = w.reshape(groups, -1, *w.shape[1:])
    total: Array = None
    for place in windows.places():
        here = grouped[(slice(None), slice(None), slice(None), *place)]
        part = windows.part(x, place).reshape(shape)
        product = np.einsum("ngc...,gfc->ngf...", part, here)
        total = product if total is None else total + product
    return total.reshape(x.shape[0], w.shape[0], *windows.counts)


@row("Conv")
def _conv(at: At, x: Array, w: Array, bias: Array = None) -> Array:
    windows = Windows(at, x.shape[2:], w.shape[2:])
    if isinstance(w, np.ndarray):
        w = windows.met(w)
    groups = int(at.get("group", 1))
    if isinstance(w, np.ndarray) and groups == 1 and windows.are_one:
        found = _met_once(windows.padded(x, 0), w, windows)
    else:
        found = convolve(windows.padded(x, 0), w, windows, groups)
    return found if bias is None else found + bias.reshape(-1, *[1] * (x.ndim - 2))


def _met_once(x: Array, w: np.ndarray[Any, Any], windows: Windows) -> Array:
    """One window of neighbours: a product, whose known weights lie as it walks them."""
    part = x[(..., *(slice(0, n) for n in windows.sizes))]
    flat = part.reshape(x.shape[0], w[0].size)
    found = flat @ traced(np.ascontiguousarray(w.reshape(w.shape[0], -1).T))
    return found.reshape(x.shape[0], w.shape[0], *[1] * len(windows.sizes))


@row("ConvInteger")
def _conv_integer(at: At, x: Array, w: Array, zero: Array = None, w_zero: Array = None) -> Array:
    wide = x.astype(np.int32) - (0 if zero is None else zero.astype(np.int32))
    weights = w.astype(np.int32)
    if w_zero is not None:
        weights = weights - w_zero.astype(np.int32).reshape(-1, *[1] * (w.ndim - 1))
    windows = Windows(at, x.shape[2:], w.shape[2:])
    return convolve(windows.padded(wide, 0), weights, windows, int(at.get("group", 1)))


@row("ConvTranspose")
def _conv_transpose(at: At, x: Array, w: Array, bias: Array = None) -> Array:
    rank, groups = x.ndim - 2, int(at.get("group", 1))
    strides = [int(n) for n in at.get("strides") or [1] * rank]
    apart = [int(n) for n in at.get("dilations") or [1] * rank]
    extra = [int(n) for n in at.get("output_padding") or [0] * rank]
    spans = [(n - 1) * d + 1 for n, d in zip(w.shape[2:], apart, strict=True)]
    whole_sizes = [
        (n - 1) * s + span for n, s, span in zip(x.shape[2:], strides, spans, strict=True)
    ]
    wanted, pads = at.get("output_shape"), at.get("pads") or [0] * 2 * rank
    how = at.get("auto_pad", "NOTSET")
    if wanted is None and how.startswith("SAME"):
        wanted = [n * s for n, s in zip(x.shape[2:], strides, strict=True)]
    check_between("pads", list(pads), 0, FAR - 1)
    low, high = list(pads[:rank]), list(pads[rank:])
    if wanted is not None:
        wanted = [int(n) for n in wanted][-rank:]
        total = [f + e - n for f, e, n in zip(whole_sizes, extra, wanted, strict=True)]
        # more at the end, where the halves differ, but for SAME_LOWER; what lacks is added there
        halves = [t - t // 2 if how == "SAME_LOWER" else t // 2 for t in total]
        low = [max(0, half) for half in halves]
        high = [t - a for t, a in zip(total, low, strict=True)]
    count, channels = x.shape[0], x.shape[1] // groups
    space = [f + e for f, e in zip(whole_sizes, extra, strict=True)]
    whole = zeros((count, w.shape[1] * groups, *space), x.dtype)
    grouped = x.reshape(count, groups, channels, *x.shape[2:])
    weights = w.reshape(groups, channels, *w.shape[1:])
    for place in itertools.product(*(range(n) for n in w.shape[2:])):
        part = np.einsum("ngc...,gcf->ngf...", grouped, weights[(..., *place)])
        part = part.reshape(count, -1, *x.shape[2:])
        where = tuple(
            slice(p * d, p * d + (n - 1) * s + 1, s)
            for p, d, n, s in zip(place, apart, x.shape[2:], strides, strict=True)
        )
        whole[(slice(None), slice(None), *where)] += part
    found = whole[
        (..., *(slice(a, n - max(b, 0)) for a, n, b in zip(low, space, high, strict=True)))
    ]
    if any(b < 0 for b in high):
        found = np.pad(found, [(0, 0), (0, 0), *((0, max(0, -b)) for b in high)])
    return found if bias is None else found + bias.reshape(-1, *[1] * rank)


# pools


@row("MaxPool")
def _max_pool(at: At, x: Array) -> Any:
    windows = Windows(at, x.shape[2:], at.get("kernel_shape"))
    least = -np.inf if is_real(x.dtype) else np.iinfo(x.dtype).min
    wide = windows.padded(x, least)
    if len(at.node.outputs) < 2 or not at.node.outputs[1]:
        return windows.folded(wide, np.maximum, lambda v, axis: v.max(axis))
    best: Array = None
    place: Array = None
    numbers = windows.padded(_numbers(x, int(at.get("storage_order", 0))), 0)
    for where in windows.places():
        value, number = windows.part(wide, where), windows.part(numbers, where)
        place = number if best is None else np.where(value > best, number, place)
        best = value if best is None else np.maximum(best, value)
    return best, place


def _numbers(x: Array, columns: int) -> Array:
    """Each element's place in the whole input."""
    space = x.shape[2:]
    order = arange(prod(space)).reshape(space[::-1] if columns else space)
    order = order.T if columns else order
    lead = arange(x.shape[0] * x.shape[1]) * prod(space)
    return (lead.reshape(*x.shape[:2], *[1] * len(space)) + order).astype(np.int64)


@row("MaxUnpool")
def _max_unpool(at: At, x: Array, places: Array, shape: Array = None) -> Array:
    if shape is not None:
        wanted = tuple(at.ints(shape, "the shape"))
    windows = Windows(at, x.shape[2:], at.get("kernel_shape"))
    own = [
        (n - 1) * s - a - b + k
        for n, s, a, b, k in zip(
            x.shape[2:], windows.strides, windows.low, windows.high, windows.sizes, strict=True
        )
    ]
    natural = (*x.shape[:2], *own)
    wanted = natural if shape is None else wanted
    flat = zeros(prod(natural), x.dtype)
    flat[places.reshape(-1)] = x.reshape(-1)
    found = flat.reshape(natural)
    around = [(0, m - n) for n, m in zip(natural, wanted, strict=True)]
    return np.pad(found, around) if any(b for _, b in around) else found


@row("AveragePool")
@in_f32
def _average_pool(at: At, x: Array) -> Array:
    windows = Windows(at, x.shape[2:], at.get("kernel_shape"))
    wide = windows.padded(x, 0)
    inside = full([1, 1, *x.shape[2:]], 1, x.dtype)
    if at.get("count_include_pad", 0):
        around = [(0, 0), (0, 0), *zip(windows.low, windows.high, strict=True)]
        inside = np.pad(inside, around, constant_values=1)
        inside = np.pad(inside, [(0, 0), (0, 0), *((0, n) for n in windows.beyond)])
    else:
        inside = windows.padded(inside, 0)
    return _summed(windows, wide) / _summed(windows, inside)


def _summed(windows: Windows, x: Array) -> Array:
    return windows.folded(x, lambda a, b: a + b, lambda v, axis: v.sum(axis).astype(v.dtype))


@row("LpPool")
@in_f32
def _lp_pool(at: At, x: Array) -> Array:
    windows, p = Windows(at, x.shape[2:], at.get("kernel_shape")), at.get("p", 2)
    return _summed(windows, windows.padded(np.abs(x) ** p, 0)) ** np.asarray(1 / p, x.dtype)


for _name, _fold in {
    "GlobalAveragePool": lambda x, a: x.mean(a, keepdims=True),
    "GlobalMaxPool": lambda x, a: x.max(a, keepdims=True),
}.items():
    ROWS[_name] = lambda at, x, fold=_fold: fold(x, tuple(range(2, x.ndim)))


@row("GlobalLpPool")
@in_f32
def _global_lp(at: At, x: Array) -> Array:
    p = at.get("p", 2)
    total = (np.abs(x) ** p).sum(tuple(range(2, x.ndim)), keepdims=True)
    return total ** np.asarray(1 / p, x.dtype)


@row("LRN")
@in_f32
def _lrn(at: At, x: Array) -> Array:
    size = at.get("size")
    alpha, beta, bias = at.get("alpha", 1e-4), at.get("beta", 0.75), at.get("bias", 1.0)
    low = (size - 1) // 2
    low, high = min(low, x.shape[1]), min(size - 1 - low, x.shape[1])  # beyond, all is 0
    wide = np.pad(x * x, [(0, 0), (low, high), *[(0, 0)] * (x.ndim - 2)])
    total = sum(wide[:, k : k + x.shape[1]] for k in range(low + high + 1))
    base = np.asarray(bias, x.dtype) + np.asarray(alpha / size, x.dtype) * total
    return x / base ** np.asarray(beta, x.dtype)


@row("Col2Im")
def _col2im(at: At, x: Array, image: Array, block: Array) -> Array:
    space, sizes = at.ints(image, "the image's shape"), at.ints(block, "the block's shape")
    check_between("the image's shape", space, 1, FAR - 1)
    check_between("the block's shape", sizes, 1, FAR - 1)
    windows = Windows(at, space, sizes)
    count, channels = x.shape[0], x.shape[1] // prod(sizes)
    parts = x.reshape(count, channels, *sizes, *windows.counts)
    wide = [n + a + b for n, a, b in zip(space, windows.low, windows.high, strict=True)]
    whole = zeros((count, channels, *wide), x.dtype)
    for place in windows.places():
        where = tuple(
            slice(p * d, p * d + (c - 1) * s + 1, s)
            for p, d, c, s in zip(
                place, windows.apart, windows.counts, windows.strides, strict=True
            )
        )
        whole[(slice(None), slice(None), *where)] += parts[(slice(None), slice(None), *place)]
    return whole[(..., *(slice(a, a + n) for a, n in zip(windows.low, space, strict=True)))]
