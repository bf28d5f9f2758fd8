# pyright: basic
"""Rows of convolutions and pools; each way back is the pull-back of the way there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from mlc.dialects.dtypes import is_real
from mlc.frontend import nn
from mlc.frontend.importers.fx.run import At, constant, row
from mlc.frontend.numpy.creation import arange
from mlc.frontend.trace.kinds import is_series
from mlc.frontend.transforms.derivatives import vjp

Array = Any


def _each(given: Any, rank: int, default: int = 0) -> tuple[int, ...]:
    """One integer for each axis, of which PyTorch may give one, or none."""
    several = tuple(given) if is_series(given) else (given,)
    if not several:
        return (default,) * rank
    return several * rank if len(several) == 1 else several


def _convolved(
    rank: int, stride: Any, padding: Any, dilation: Any, transposed: bool, beyond: Any, groups: int
) -> Callable[..., Array]:
    """(x, w, bias or nothing) -> their convolution; lines are images of one row."""
    options: dict[str, Any] = {
        "stride": _each(stride, rank, 1), "padding": _each(padding, rank),
        "dilation": _each(dilation, rank, 1), "groups": groups,
    }  # fmt: skip
    if transposed:
        options["output_padding"] = _each(beyond, rank)
    convolve = nn.conv_transpose if transposed else nn.conv

    def convolution(x: Array, w: Array, *bias: Array) -> Array:
        return convolve(x, w, bias=bias[0] if bias else None, **options)

    return convolution


@row("convolution", "_convolution")
def _convolution(at: At, x: Array, w: Array, bias: Array, *options: Any) -> Array:
    found = _convolved(w.ndim - 2, *options[:6])
    return found(x, w) if bias is None else found(x, w, bias)


@row("convolution_backward")
def _convolution_backward(
    at: At, g: Array, x: Array, w: Array, bias_sizes: Any, *options: Any
) -> tuple[Array, ...]:
    *said, wanted = options
    forward = _convolved(w.ndim - 2, *said)
    places = [k for k in range(2) if wanted[k]]

    def of_wanted(*parts: Array) -> Array:
        given = dict(zip(places, parts, strict=True))
        return forward(given.get(0, x), given.get(1, w))

    found: list[Array] = [None, None, None]
    if places:
        _, pull = vjp(of_wanted, *(x if k == 0 else w for k in places))
        for k, cotangent in zip(places, pull(g), strict=True):
            found[k] = cotangent
    if wanted[2]:
        found[2] = g.sum((0, *range(2, g.ndim)))
    return tuple(found)


# pools


def _pooled(
    rank: int, window: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
    ceil: bool = False,
) -> dict[str, Any]:  # fmt: skip
    sizes = _each(window, rank)
    return {
        "window": sizes, "stride": _each(stride, rank) if stride else sizes,
        "padding": _each(padding, rank), "dilation": _each(dilation, rank, 1), "ceil_mode": ceil,
    }  # fmt: skip


def _batched(pool: Callable[[Array], Array], x: Array, rank: int) -> Array:
    """A pool of (channels, …) or (batch, channels, …)."""
    return pool(x[None])[0] if x.ndim == rank + 1 else pool(x)


def _rank(at: At) -> int:
    return 3 if "3d" in at.name else 1 if "1d" in at.name else 2


@row("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pool(at: At, x: Array, *options: Any) -> tuple[Array, Array]:
    rank = _rank(at)
    said = _pooled(rank, *options)
    found = _batched(partial(nn.max_pool, **said), x, rank)
    return found, _largest(at, x, rank, found, said) if at.uses(1) else None


def _largest(at: At, x: Array, rank: int, found: Array, said: Any) -> Array:
    """Where in its image the first largest element of each window is."""
    space, counts = x.shape[-rank:], found.shape[-rank:]
    if not all(isinstance(n, int) for n in (*space, *counts)):
        raise at.refuse("places of the largest in an image whose size varies")
    numbers = arange(prod(space)).reshape(space)
    around = [(p, p + s * c) for p, s, c in
              zip(said["padding"], said["stride"], said["window"], strict=True)]  # fmt: skip
    before = [(0, 0)] * (x.ndim - rank)
    wide = np.pad(x, before + around, constant_values=-np.inf if is_real(x.dtype) else 0)
    places = np.pad(numbers, around)
    best: Array = None
    for where in itertools.product(*(range(n) for n in said["window"])):
        part = tuple(
            slice(k * d, k * d + (c - 1) * s + 1, s)
            for k, d, c, s in zip(where, said["dilation"], counts, said["stride"], strict=True)
        )
        here, value = np.broadcast_to(places[part], found.shape), wide[(..., *part)]
        # from the last to the first, the first that is as large stays
        hit = (value == found) | (value != value)
        best = (here, hit) if best is None else (
            np.where(best[1], best[0], here), best[1] | hit)  # fmt: skip
    return best[0]


@row(
    "max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward",
    "adaptive_max_pool2d_backward", "adaptive_max_pool3d_backward",
)  # fmt: skip
def _max_pool_backward(at: At, g: Array, x: Array, *options: Any) -> Array:
    """The pull-back of the elements at the places that the way there has found."""
    places, lead = options[-1], x.shape[: x.ndim - _rank(at)]

    def picked(x: Array) -> Array:
        flat = places.reshape((*lead, -1))
        return np.take_along_axis(x.reshape((*lead, -1)), flat, -1).reshape(places.shape)

    return vjp(picked, x)[1](g)[0]


def _averaged(
    rank: int, window: Any, stride: Any = (), padding: Any = 0, ceil: bool = False,
    with_padding: bool = True, divisor: Any = None,
) -> Callable[[Array], Array]:  # fmt: skip
    said = _pooled(rank, window, stride, padding, 1, ceil)

    def pool(x: Array) -> Array:
        if divisor is not None:
            return nn.reduce_window(x, "sum", **said) / divisor
        return nn.avg_pool(x, count_include_pad=with_padding and not ceil, **said)

    return lambda x: _batched(pool, x, rank)


def _average_of(
    at: At, window: Any, stride: Any = (), padding: Any = 0, ceil: bool = False,
    with_padding: bool = True, divisor: Any = None,
) -> Callable[[Array], Array]:  # fmt: skip
    rank = _rank(at)
    if divisor is None and ceil and with_padding and any(_each(padding, rank)):
        return _averaged_to_the_end(rank, _pooled(rank, window, stride, padding, 1, ceil))
    return _averaged(rank, window, stride, padding, ceil, with_padding, divisor)


def _averaged_to_the_end(rank: int, said: dict[str, Any]) -> Callable[[Array], Array]:
    """Padding counts, but not what a last window has behind it."""

    def pool(x: Array) -> Array:
        found = nn.reduce_window(x, "sum", **said)
        for axis in range(rank):
            window, stride, pad = (said[k][axis] for k in ("window", "stride", "padding"))
            starts = arange(found.shape[2 + axis]) * stride
            counts = np.minimum(starts + window, x.shape[2 + axis] + 2 * pad) - starts
            found = found / counts.reshape((-1, *[1] * (rank - 1 - axis))).astype(x.dtype)
        return found

    return lambda x: _batched(pool, x, rank)


@row("avg_pool2d", "avg_pool3d", "avg_pool1d")
def _avg_pool(at: At, x: Array, *options: Any) -> Array:
    return _average_of(at, *options)(x)


@row("avg_pool2d_backward", "avg_pool3d_backward")
def _avg_pool_backward(at: At, g: Array, x: Array, *options: Any) -> Array:
    return vjp(_average_of(at, *options), x)[1](g)[0]


@row("_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive_pool(at: At, x: Array, sizes: Sequence[int]) -> Array:
    return _adaptive(at, x.shape, sizes)(x)


@row("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def _adaptive_pool_backward(at: At, g: Array, x: Array) -> Array:
    return vjp(_adaptive(at, x.shape, g.shape[-_rank(at) :]), x)[1](g)[0]


def _adaptive(at: At, shape: Sequence[Any], sizes: Sequence[Any]) -> Callable[[Array], Array]:
    rank = _rank(at)
    space, axes = shape[-rank:], tuple(range(-rank, 0))
    if all(n == 1 for n in sizes):
        return lambda x: x.mean(axes, keepdims=True)
    if not all(isinstance(n, int) for n in (*space, *sizes)):
        raise at.refuse("an adaptive pool of an image whose size varies")
    if not any(n % m for n, m in zip(space, sizes, strict=True)):
        return _averaged(rank, tuple(n // m for n, m in zip(space, sizes, strict=True)))

    def pool(x: Array) -> Array:
        for axis, n, m in zip(axes, space, sizes, strict=True):
            x = np.moveaxis(np.moveaxis(x, axis, -1) @ _shares(n, m, at.dtype), -1, axis)
        return x

    return pool


def _window(size: int, count: int, place: int) -> tuple[int, int]:
    """Where a window of an adaptive pool begins and ends."""
    return place * size // count, -(-(place + 1) * size // count)


def _shares(size: int, count: int, dtype: Any) -> Array:
    """What each element of an axis has of the mean of each window."""
    found = np.zeros((size, count))
    for place in range(count):
        start, end = _window(size, count, place)
        found[start:end, place] = 1 / (end - start)
    return constant(found.astype(dtype))


@row("adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_max_pool(at: At, x: Array, sizes: Sequence[int]) -> tuple[Array, Array]:
    """The largest of each window, and where in its image it is."""
    rank = _rank(at)
    space = x.shape[-rank:]
    if not all(isinstance(n, int) for n in space):
        raise at.refuse("an adaptive pool of an image whose size varies")
    lead = x.ndim - rank
    numbers = np.arange(prod(space)).reshape(space)
    for axis, (n, m) in enumerate(zip(space, sizes, strict=True)):
        ends = [_window(n, m, place) for place in range(m)]
        most = max(end - start for start, end in ends)
        # a shorter window has its last element again
        inside = np.array([[min(start + k, end - 1) for k in range(most)] for start, end in ends])
        numbers = np.take(numbers, inside, 2 * axis)
        x = np.take(x, constant(inside), lead + 2 * axis)
    order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
    x = x.transpose([*range(lead), *(lead + k for k in order)])
    x = x.reshape((*x.shape[: lead + rank], -1))
    numbers = numbers.transpose(order).reshape((*sizes, -1))
    if not at.uses(1):
        return x.max(-1), None
    best = np.argmax(x, -1)
    wide = np.broadcast_to(constant(numbers), x.shape)
    return x.max(-1), np.take_along_axis(wide, best[..., None], -1)[..., 0]


@row("replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward")
def _replication_backward(at: At, g: Array, x: Array, widths: Sequence[Any]) -> Array:
    """The pull-back of picks of the nearest elements."""

    def padded(x: Array) -> Array:
        for k, (low, high) in enumerate(zip(widths[::2], widths[1::2], strict=True)):
            size = x.shape[-1 - k]
            places = np.clip(arange(size + low + high) - low, 0, size - 1)
            x = np.take(x, places, x.ndim - 1 - k)
        return x

    return vjp(padded, x)[1](g)[0]
