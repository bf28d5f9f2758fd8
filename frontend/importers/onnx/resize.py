# pyright: basic
"""`Resize` and `Upsample` of ONNX: axis by axis, sums of neighbours with known weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects.dtypes import is_real
from mlc.frontend.importers.bounds import FAR, check_between
from mlc.frontend.importers.onnx.bounds import check_room
from mlc.frontend.importers.onnx.run import At, row

Array = Any
Known = np.ndarray[Any, Any]


@row("Upsample")
def _upsample(at: At, x: Array, scales: Array = None) -> Array:
    factors = at.get("scales") if scales is None else [float(s) for s in at.known(scales, "scales")]
    if factors is None:  # opset 1
        factors = [1.0, 1.0, at.get("height_scale"), at.get("width_scale")]
    mode = {"linear": "linear", "bilinear": "linear"}.get(at.get("mode", "nearest"), "nearest")
    axes = Axes(at, mode, "asymmetric", "floor")
    sizes = [_scaled(n, s) for n, s in zip(x.shape, factors, strict=True)]
    return axes.applied(x, range(x.ndim), factors, sizes, None)


def _scaled(n: Any, factor: float) -> Any:
    """A size times a factor; one that varies stays as it is where the factor is 1."""
    if not 0 < factor < np.inf:
        raise ValueError(f"scales: {factor}; expected a number above 0")
    return n if factor == 1 else int(np.floor(int(n) * factor))


@row("Resize")
def _resize(at: At, x: Array, *given: Array) -> Array:
    if at.version < 11:  # scales alone
        factors = [float(s) for s in at.known(given[0], "scales")]
        axes = Axes(at, at.get("mode", "nearest"), "asymmetric", "floor")
        sizes = [_scaled(n, s) for n, s in zip(x.shape, factors, strict=True)]
        return axes.applied(x, range(x.ndim), factors, sizes, None)
    roi, scales, wanted = [*given, None, None, None][:3]
    where = [int(a) % x.ndim for a in at.get("axes") or range(x.ndim)]
    space = [x.shape[a] for a in where]
    if wanted is not None and np.size(at.known(wanted, "sizes")):
        sizes = at.ints(wanted, "sizes")
        factors = [
            1.0 if n is m or n == m else int(n) / int(m) for n, m in zip(sizes, space, strict=True)
        ]
        policy = at.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            each = (min if policy == "not_larger" else max)(factors)
            factors = [each] * len(space)
            sizes = [int(np.floor(each * n + 0.5)) for n in space]
    else:
        factors = [float(s) for s in np.ravel(at.known(scales, "scales"))]
        sizes = [_scaled(n, s) for n, s in zip(space, factors, strict=True)]
    part = None
    if roi is not None and np.size(at.known(roi, "roi")):
        part = np.asarray(at.known(roi, "roi"), np.float64).reshape(2, -1).T
    how = at.get("coordinate_transformation_mode", "half_pixel")
    axes = Axes(at, at.get("mode", "nearest"), how, at.get("nearest_mode", "round_prefer_floor"))
    return axes.applied(x, where, factors, sizes, part)


class Axes:
    """How an axis is resized."""

    def __init__(self, at: At, mode: str, how: str, nearest: str) -> None:
        self.at, self.mode, self.how, self.nearest = at, mode, how, nearest
        self.smooth = bool(at.get("antialias", 0))
        self.cubic = float(at.get("cubic_coeff_a", -0.75))
        self.inside = bool(at.get("exclude_outside", 0))
        self.beyond = float(at.get("extrapolation_value", 0.0))

    def applied(
        self, x: Array, where: Sequence[int], factors: Sequence[float], sizes: Sequence[int],
        roi: Known | None,
    ) -> Array:  # fmt: skip
        """The input with these axes resized."""
        lost: list[tuple[int, Known]] = []
        for k, (axis, factor, wanted) in enumerate(zip(where, factors, sizes, strict=True)):
            part = None if roi is None else roi[k]
            if self.how != "tf_crop_and_resize" and factor == 1 and wanted == x.shape[axis]:
                continue
            n = int(x.shape[axis])
            check_between(f"the size of axis {axis}", int(wanted), 0, FAR - 1)
            check_room(int(wanted) * (1 if self.mode == "nearest" else n), f"axis {axis}")
            places = self._places(n, int(wanted), factor, part)
            if self.how == "tf_crop_and_resize":
                lost.append((axis, (places < 0) | (places > n - 1)))
                places = np.clip(places, 0, n - 1)
            x = self._along(x, axis, places, factor)
        for axis, outside in lost:
            if outside.any():
                hit = outside.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
                x = np.where(hit, np.asarray(self.beyond, x.dtype), x)
        return x

    def _places(self, n: int, size: int, factor: float, roi: Known | None) -> Known:
        """Where each element of the result lies in the input."""
        line = np.arange(size, dtype=np.float64)
        if self.how == "align_corners":
            return line * ((n - 1) / (factor * n - 1)) if size > 1 else np.zeros(size)
        if self.how == "asymmetric":
            return line / factor
        if self.how == "tf_crop_and_resize":
            start, end = (0.0, 1.0) if roi is None else roi
            if size > 1:
                return start * (n - 1) + line * ((end - start) * (n - 1) / (size - 1))
            return np.full(size, 0.5 * (start + end) * (n - 1))
        if self.how == "pytorch_half_pixel" and size == 1:
            return np.full(size, -0.5)
        places = (line + 0.5) / factor - 0.5
        if self.how == "half_pixel_symmetric":
            share = size / (factor * n)
            places = places + n / 2 * (1 - share)
        return places

    def _along(self, x: Array, axis: int, places: Known, factor: float) -> Array:
        n = int(x.shape[axis])
        left = np.ceil(places).astype(np.int64) - 1
        ratio = places - left  # in (0, 1]
        if self.mode == "nearest":
            smaller = self.at.node.op == "Resize" and self.at.version == 10 and factor < 1
            right = {
                "round_prefer_floor": ratio > 0.5, "round_prefer_ceil": ratio >= 0.5,
                "floor": ratio == 1, "ceil": np.ones(len(ratio), bool),
            }["ceil" if smaller else self.nearest]  # fmt: skip
            return np.take(x, np.clip(left + right, 0, n - 1), axis=axis)
        if not len(places):
            return np.take(x, left, axis=axis)
        begin, weights = self._weights(ratio, factor)
        matrix = np.zeros((len(places), n))
        for k in range(weights.shape[1]):
            index = left + begin + k
            share = weights[:, k]
            if self.inside:
                share = np.where((index < 0) | (index >= n), 0.0, share)
            np.add.at(matrix, (np.arange(len(places)), np.clip(index, 0, n - 1)), share)
        if self.inside:
            matrix = matrix / matrix.sum(1, keepdims=True)
        kind = x.dtype if is_real(x.dtype) else np.dtype(np.float32)
        moved = np.moveaxis(x, axis, -1).astype(kind) @ matrix.T.astype(kind)
        found = np.moveaxis(moved, -1, axis)
        return found if is_real(x.dtype) else np.rint(found).astype(x.dtype)

    def _weights(self, ratio: Known, factor: float) -> tuple[int, Known]:
        """Where the neighbours begin, and the share of each."""
        reach = 1 if self.mode == "linear" else 2
        scale = min(factor, 1.0) if self.smooth else 1.0
        begin = int(np.floor(-reach / scale)) + 1
        offsets = np.arange(begin, 2 - begin)
        apart = np.abs(scale * (offsets - ratio[:, None]))
        if self.mode == "linear":
            shares = np.clip(1 - apart, 0, 1)
        else:
            a = self.cubic
            near = ((a + 2) * apart - (a + 3)) * apart * apart + 1
            far = ((a * apart - 5 * a) * apart + 8 * a) * apart - 4 * a
            shares = np.where(apart <= 1, near, np.where(apart < 2, far, 0.0))
        if self.smooth:
            shares = shares / shares.sum(1, keepdims=True)
        return begin, shares
