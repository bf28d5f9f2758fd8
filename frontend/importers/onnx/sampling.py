# pyright: basic
"""Ops of ONNX that read an image between its elements, and boxes of detection heads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from mlc.frontend.importers.onnx.elementwise import scalar
from mlc.frontend.importers.onnx.run import At, row, traced
from mlc.frontend.importers.onnx.windows import Windows
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.trace.loops import fori_loop, scan

Array = Any
CUBIC = -0.75
"""Keys's parameter of cubic interpolation. SOURCE: ONNX's GridSample, which is PyTorch's."""


@row("GridSample")
def _grid_sample(at: At, x: Array, grid: Array) -> Array:
    mode = str(at.get("mode", "linear"))
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    around = str(at.get("padding_mode", "zeros"))
    return grid_sample(x, grid, mode, around, bool(at.get("align_corners", 0)))


def grid_sample(x: Array, grid: Array, mode: str, around: str, corners: bool) -> Array:
    """x: (N, C, *space), grid: (N, *out, axes), the last axis of x first; (N, C, *out)."""
    space = x.shape[2:]
    places, ends = [], []
    for axis, n in enumerate(space):
        v = grid[..., len(space) - 1 - axis]
        v = (v + 1) / 2 * (n - 1) if corners else ((v + 1) * n - 1) / 2
        low, high = (0.0, n - 1.0) if corners else (-0.5, n - 0.5)
        if mode == "nearest":
            v = np.rint(v)
        if around == "border" and mode != "cubic":  # whose four neighbours are clipped instead
            v = np.clip(v, 0, n - 1)
        elif around == "reflection":
            v = _reflected(v, low, high)
        places.append(v)
        ends.append((low, high))
    line = arange(x.shape[0]).reshape((-1, *[1] * (grid.ndim - 2)))
    inner = np.moveaxis(traced(x), 1, -1)  # what belongs together lies together
    found = _between(inner, line, places, mode, around, ends)
    return np.moveaxis(found, -1, 1).astype(x.dtype)


def _reflected(v: Array, low: float, high: float) -> Array:
    """Places mirrored at both ends until they are between them."""
    span = high - low
    if span == 0:
        return np.full_like(v, low)
    apart = np.abs(v - low)
    turns = np.floor(apart / span)
    rest = apart - turns * span
    return np.where(np.remainder(turns, 2) == 0, low + rest, high - rest)


def _between(
    inner: Array, line: Array, places: Sequence[Array], mode: str, around: str,
    ends: Sequence[tuple[float, float]] = (),
) -> Array:  # fmt: skip
    """What lies at places between elements. inner: (N, *space, C); (N, *out, C)."""
    return sum(
        share[..., None] * _taken(inner, line, index, around, ends)
        for index, share in _neighbours(places, mode)
    )


def _neighbours(places: Sequence[Array], mode: str) -> list[tuple[list[Array], Array]]:
    """For each place the elements near it, and the share of each."""
    axes: list[list[tuple[Array, Array]]] = []
    for v in places:
        first = np.floor(v)
        t = v - first
        whole = first.astype(np.int64)
        if mode == "nearest":
            axes.append([(whole, np.ones_like(v))])
        elif mode == "linear":
            axes.append([(whole, 1 - t), (whole + 1, t)])
        else:
            axes.append([(whole + k - 1, _cubic(np.abs(t - (k - 1)))) for k in range(4)])
    return [
        ([index for index, _ in chosen], prod(share for _, share in chosen))
        for chosen in itertools.product(*axes)
    ]


def _cubic(apart: Array) -> Array:
    near = ((CUBIC + 2) * apart - (CUBIC + 3)) * apart * apart + 1
    far = ((CUBIC * apart - 5 * CUBIC) * apart + 8 * CUBIC) * apart - 4 * CUBIC
    return np.where(apart <= 1, near, far)


def _taken(
    inner: Array, line: Array, index: Sequence[Array], around: str,
    ends: Sequence[tuple[float, float]],
) -> Array:  # fmt: skip
    """Elements at places, those beyond the ends as `around` says. inner: (N, *space, C)."""
    inside: Array = None
    clipped = []
    for axis, i in enumerate(index):
        n, place = inner.shape[axis + 1], i
        if around == "zeros":
            here = (i >= 0) & (i < n)
            inside = here if inside is None else inside & here
        elif around == "reflection":
            place = np.trunc(_reflected(i.astype(np.float64), *ends[axis])).astype(np.int64)
        clipped.append(np.clip(place, 0, n - 1))
    found = inner[(line, *clipped)]
    return found if inside is None else np.where(inside[..., None], found, 0)


@row("DeformConv")
def _deform_conv(at: At, x: Array, w: Array, offset: Array, bias: Array = None,
                 mask: Array = None) -> Array:  # fmt: skip
    """x: (N, C, H, W), offset: (N, groups * kernel * 2, out), mask: (N, groups * kernel, out)."""
    if x.ndim != 4:
        raise at.refuse(f"x has {x.ndim} axes; expected 4")
    windows = Windows(at, x.shape[2:], w.shape[2:])
    groups, parts = int(at.get("group", 1)), int(at.get("offset_group", 1))
    count, channels = x.shape[:2]
    kernel, out = tuple(windows.sizes), tuple(windows.counts)
    moved = offset.reshape(count, parts, *kernel, 2, *out)
    places = []
    for axis in (0, 1):
        step = arange(kernel[axis]) * windows.apart[axis]
        begin = arange(out[axis]) * windows.strides[axis] - windows.low[axis]
        step = step.reshape([-1 if a == axis else 1 for a in (0, 1)] + [1, 1])
        begin = begin.reshape([1, 1] + [-1 if a == axis else 1 for a in (0, 1)])
        places.append(moved[:, :, :, :, axis] + (step + begin).astype(x.dtype))
    inner = np.moveaxis(traced(x).reshape(count * parts, channels // parts, *x.shape[2:]), 1, -1)
    places = [p.reshape(count * parts, *kernel, *out) for p in places]
    line = arange(count * parts).reshape(-1, 1, 1, 1, 1)
    found = _between(inner, line, places, "linear", "zeros")
    if mask is not None:
        found = found * mask.reshape(count * parts, *kernel, *out)[..., None]
    found = np.moveaxis(found, -1, 1).reshape(count, groups, channels // groups, *kernel, *out)
    weights = w.reshape(groups, -1, *w.shape[1:])
    total = np.einsum("ngcijyx,gfcij->ngfyx", found, weights).reshape(count, -1, *out)
    return total if bias is None else total + bias.reshape(-1, 1, 1)


# regions


@row("RoiAlign")
def _roi_align(at: At, x: Array, rois: Array, images: Array) -> Array:
    """x: (N, C, H, W), rois: (R, 4), images: (R,); (R, C, height, width)."""
    height, width = int(at.get("output_height", 1)), int(at.get("output_width", 1))
    default = "half_pixel" if at.version >= 16 else "output_half_pixel"
    centred = at.get("coordinate_transformation_mode", default) == "half_pixel"
    corners = rois * scalar(rois, at.get("spatial_scale", 1.0)) - (0.5 if centred else 0)
    start, size = corners[:, 1::-1], corners[:, 3:1:-1] - corners[:, 1::-1]  # of y, of x
    if not centred:
        size = np.maximum(size, 1)
    bins = size / np.array([height, width], rois.dtype)
    samples = int(at.get("sampling_ratio", 0))
    largest = at.get("mode", "avg") == "max"
    inner = np.moveaxis(traced(x), 1, -1)
    if samples > 0:
        counts = np.full((1, 2), samples, np.int64)
        most: list[Any] = [samples, samples]
    else:
        counts = np.maximum(np.ceil(bins), 0).astype(np.int64)
        most = [counts[:, a].max() for a in (0, 1)]

    def sample(k: Array, total: Array) -> Array:
        ys, xs = (
            _samples(start[:, a], bins[:, a], counts[:, a], step, number)
            for a, step, number in ((0, k // most[1], height), (1, k % most[1], width))
        )
        parts = _roi_parts(inner, images, ys, xs)
        wanted = (k // most[1] < counts[:, 0]) & (k % most[1] < counts[:, 1])
        wanted = wanted.reshape(-1, 1, 1, 1)
        if not largest:
            return total + np.where(wanted, sum(parts), scalar(x, 0))
        return np.where(wanted, reduce(np.maximum, parts, total), total)

    shape = (rois.shape[0], height, width, x.shape[1])
    total = full(shape, -np.inf if largest else 0, x.dtype)
    total = fori_loop(0, most[0] * most[1], sample, total)
    if largest:
        total = np.where(np.isneginf(total), scalar(x, 0), total)
    else:
        total = total / np.maximum(counts[:, 0] * counts[:, 1], 1).astype(x.dtype).reshape(
            -1, 1, 1, 1
        )
    return np.moveaxis(total, -1, 1)


def _samples(start: Array, bins: Array, counts: Array, step: Array, number: int) -> Array:
    """Where the samples numbered `step` of each bin lie. (R, number)."""
    place = traced(step).astype(bins.dtype) + scalar(bins, 0.5)
    inside = place * bins / np.maximum(counts, 1).astype(bins.dtype)
    return (start + inside)[:, None] + arange(number).astype(bins.dtype) * bins[:, None]


def _roi_parts(inner: Array, images: Array, ys: Array, xs: Array) -> list[Array]:
    """The four neighbours of each sample, times their shares. (R, height, width, C) each."""
    sides: list[list[tuple[Array, Array]]] = []
    inside: Array = None
    for axis, v in enumerate((ys[:, :, None], xs[:, None, :])):
        n = inner.shape[axis + 1]
        here = (v >= -1) & (v <= n)
        inside = here if inside is None else inside & here
        place = np.clip(v, 0, n - 1)
        first = np.floor(place)
        t, whole = place - first, first.astype(np.int64)
        sides.append([(whole, 1 - t), (np.minimum(whole + 1, n - 1), t)])
    line = images.astype(np.int64).reshape(-1, 1, 1)
    return [
        np.where(inside, a * b, scalar(a, 0))[..., None] * inner[line, i, j]
        for (i, a), (j, b) in itertools.product(*sides)
    ]


@row("MaxRoiPool")
def _max_roi_pool(at: At, x: Array, rois: Array) -> Array:
    """x: (N, C, H, W), rois: (R, 5), the image first; (R, C, height, width)."""
    height, width = (int(n) for n in at.get("pooled_shape"))
    scale = scalar(rois, at.get("spatial_scale", 1.0))
    ends = np.floor(rois[:, 1:] * scale + 0.5)  # as C's round, of numbers >= 0
    found = traced(x)[rois[:, 0].astype(np.int64)]
    least = scalar(x, -np.inf)
    for axis, count in ((3, width), (2, height)):
        low, high = ends[:, 3 - axis], ends[:, 5 - axis]
        size = np.maximum(high - low + 1, 1) / scalar(rois, count)
        number = arange(count).astype(rois.dtype)
        first = np.floor(number * size[:, None]) + low[:, None]
        last = np.ceil((number + 1) * size[:, None]) + low[:, None]
        line = arange(x.shape[axis]).astype(rois.dtype)
        inside = (line >= first[..., None]) & (line < last[..., None])  # (R, count, n)
        turned = np.moveaxis(found, axis, -1)
        middle = inside.reshape(inside.shape[0], *[1] * (turned.ndim - 2), *inside.shape[1:])
        best = np.where(middle, turned[..., None, :], least).max(-1)
        found = np.moveaxis(best, -1, axis)
    return np.where(np.isneginf(found), scalar(x, 0), found)


# boxes


@row("NonMaxSuppression")
def _non_max_suppression(at: At, boxes: Array, scores: Array, most: Array = None,
                         overlap: Array = None, least: Array = None) -> Array:  # fmt: skip
    """boxes: (N, B, 4), scores: (N, K, B); (found, 3): image, class and box, best first."""
    if most is None:
        return np.zeros((0, 3), np.int64)
    scores, boxes = traced(scores), traced(boxes)
    order = np.argsort(-scores, axis=-1, kind="stable")
    value = np.take_along_axis(scores, order, -1)
    line = arange(boxes.shape[0]).reshape(-1, 1, 1)
    sorted_boxes = boxes[line, order]  # (N, K, B, 4)
    limit = scalar(boxes, 0) if overlap is None else overlap.reshape(())
    near = _overlaps(sorted_boxes, bool(at.get("center_point_box", 0))) > limit  # (N, K, B, B)
    able = value == value if least is None else value > least.reshape(())
    room = most.reshape(()).astype(np.int64)
    numbers = arange(boxes.shape[1])

    def trip(kept: Array, item: Any) -> Any:
        k, close, possible = item
        lost = (kept & close).any(-1) | (kept.astype(np.int64).sum(-1) >= room)
        return kept | ((numbers == k) & (possible & ~lost)[..., None]), None

    items = traced(numbers), np.moveaxis(near, 2, 0), np.moveaxis(able, 2, 0)
    kept, _ = scan(trip, value != value, items)
    image, kind, place = np.nonzero(kept)
    return np.stack([image, kind, order[image, kind, place]], 1).astype(np.int64)


def _overlaps(boxes: Array, centred: bool) -> Array:
    """Intersection over union of each pair of boxes. (…, B, 4) -> (…, B, B)."""
    if centred:
        middle, half = boxes[..., :2], boxes[..., 2:] / 2
        low, high = middle - half, middle + half
    else:
        low = np.minimum(boxes[..., :2], boxes[..., 2:])
        high = np.maximum(boxes[..., :2], boxes[..., 2:])
    sides = np.minimum(high[..., :, None, :], high[..., None, :, :]) - np.maximum(
        low[..., :, None, :], low[..., None, :, :]
    )
    shared = np.where((sides > 0).all(-1), sides[..., 0] * sides[..., 1], scalar(boxes, 0))
    area = (high[..., 0] - low[..., 0]) * (high[..., 1] - low[..., 1])
    union = area[..., :, None] + area[..., None, :] - shared
    whole = (shared > 0) & (union > 0)
    return np.where(whole, shared / np.where(whole, union, scalar(boxes, 1)), scalar(boxes, 0))
