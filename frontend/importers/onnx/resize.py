# pyright: basic
"""`Resize` and `Upsample` of ONNX: sums of neighbours with known shares.

Where an element lies and its neighbours' shares are computed in f32 and summed in the order of
ONNX Runtime: where a quotient lies at a border, another precision has another nearest element and
another length. Data of 64 bits, which it does not resize, are computed in f64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from mlc.frontend.importers.bounds import FAR, check_between
from mlc.frontend.importers.onnx.bounds import check_room
from mlc.frontend.importers.onnx.run import At, row

Array = Any
Known = np.ndarray[Any, Any]
Line = tuple[int, Known, Any]
"""An axis, where each element of the result lies in it, and its factor."""

REACH = {"nearest": 0.5, "linear": 1, "cubic": 2}
"""`mode` -> how far from a place its neighbours lie."""

PLACES: dict[str, Callable[..., Known]] = {
    "half_pixel": lambda line, factor, n, size: (line + 0.5) / factor - 0.5,
    "half_pixel_symmetric": lambda line, factor, n, size: (
        n / 2 * (1 - size / (factor * n)) + (line.astype(np.float64) + 0.5) / factor - 0.5
    ),
    "pytorch_half_pixel": lambda line, factor, n, size: (
        (line + 0.5) / factor - 0.5 if size > 1 else 0 * line
    ),
    "tf_half_pixel_for_nn": lambda line, factor, n, size: (line + 0.5) / factor,
    "align_corners": lambda line, factor, n, size: (
        line * (n - 1) / (factor * n - 1) if size > 1 else 0 * line
    ),
    "asymmetric": lambda line, factor, n, size: line / factor,
}  # fmt: skip
"""`coordinate_transformation_mode` -> where elements lie, in the floats of its arguments."""
ROUNDED: dict[str, Callable[[Known], Known]] = {
    "round_prefer_floor": lambda places: np.ceil(places - (0.5 + 1e-6)),
    "round_prefer_ceil": lambda places: np.floor(places + (0.5 + 1e-6)),
    "floor": np.floor,
    "ceil": np.ceil,
}
"""`nearest_mode` -> which element is nearest to a place, a half from 1e-6 below to 1e-6 above."""


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
    """A size times a factor, in f32; one that varies stays as it is where the factor is 1."""
    if not 0 < factor < np.inf:
        raise ValueError(f"scales: {factor}; expected a number above 0")
    return n if factor == 1 else int(np.floor(np.float32(factor) * np.float32(int(n))))


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
            sizes = [int(np.floor(np.float32(each) * np.float32(int(n)) + 0.5)) for n in space]
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
        for name, value, known in (
            ("mode", mode, [*REACH]), ("nearest_mode", nearest, [*ROUNDED]),
            ("coordinate_transformation_mode", how, [*PLACES, "tf_crop_and_resize"]),
        ):  # fmt: skip
            if value not in known:
                raise ValueError(f"{name}: {value!r}; expected one of {', '.join(known)}")

    def applied(
        self, x: Array, where: Sequence[int], factors: Sequence[float], sizes: Sequence[int],
        roi: Known | None,
    ) -> Array:  # fmt: skip
        """The input with these axes resized."""
        lines: list[Line] = []
        lost: list[tuple[int, Known]] = []
        wide = np.float64 if x.dtype == np.float64 else np.float32
        for k, (axis, factor, wanted) in enumerate(zip(where, factors, sizes, strict=True)):
            if self.how != "tf_crop_and_resize" and factor == 1 and wanted == x.shape[axis]:
                continue
            n = int(x.shape[axis])
            check_between(f"the size of axis {axis}", int(wanted), 0, FAR - 1)
            check_room(int(wanted) * self._neighbours(factor), f"axis {axis}")
            line = np.arange(int(wanted), dtype=wide)
            if self.how == "tf_crop_and_resize":
                places = _cropped(line, wide(n - 1), [0.0, 1.0] if roi is None else roi[k])
                lost.append((axis, (places < 0) | (places > n - 1)))
                places = np.clip(places, 0, n - 1)
            else:
                places = PLACES[self.how](line, wide(factor), wide(n), wide(wanted)).astype(wide)
            lines.append((axis, places, factor))
        x = self._resized(x, lines, wide)
        for axis, outside in lost:
            if outside.any():
                hit = outside.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
                x = np.where(hit, np.asarray(self.beyond, x.dtype), x)
        return x

    def _neighbours(self, factor: float) -> int:
        """How many elements one of the result is summed from."""
        return int(np.ceil(2 * REACH[self.mode] / (min(factor, 1.0) if self.smooth else 1.0)))

    def _resized(self, x: Array, lines: Sequence[Line], wide: type) -> Array:
        if self.mode == "nearest":
            for axis, places, factor in lines:
                x = np.take(x, self._picked(places, factor, int(x.shape[axis])), axis=axis)
            return x
        found = x.astype(wide)
        if self.mode == "linear" and not self.smooth:
            for end in range(len(lines), 0, -3):  # ONNX Runtime has up to three at once
                found = _between_corners(found, lines[max(end - 3, 0) : end])
        else:
            for line in reversed(lines):
                found = self._along(found, line)
        return found.astype(x.dtype)

    def _picked(self, places: Known, factor: float, n: int) -> Known:
        """The nearest elements."""
        smaller = self.at.node.op == "Resize" and self.at.version == 10 and factor < 1
        how = "ceil" if smaller else self.nearest
        return np.clip(ROUNDED[how](places.astype(np.float64)).astype(np.int64), 0, n - 1)

    def _along(self, x: Array, line: Line) -> Array:
        """The input with an axis summed from the neighbours along it."""
        axis, places, factor = line
        n = int(x.shape[axis])
        index, shares = self._stretched(places, factor) if self.smooth else self._cubic(places)
        if self.inside:
            shares = np.where((index < 0) | (index >= n), 0, shares)
            shares = shares / shares.sum(1, keepdims=True)
        index, shares = np.clip(index, 0, n - 1), shares.astype(places.dtype)
        after = (1,) * (x.ndim - 1 - axis)
        if self.smooth:
            found = np.take(x, index, axis=axis) * shares.reshape(*shares.shape, *after)
            return np.sum(found, axis=axis + 1)
        found = 0
        for k in range(index.shape[1]):
            found = found + np.take(x, index[:, k], axis=axis) * shares[:, k].reshape(-1, *after)
        return found

    def _cubic(self, places: Known) -> tuple[Known, Known]:
        """The four neighbours of each place, and the share of each, in the floats of the places."""
        left = np.floor(places)
        right = places - left
        a = places.dtype.type(self.cubic)
        shares = [_far(a, 1 + right), _near(a, right), _near(a, 1 - right), _far(a, 2 - right)]
        index = left.astype(np.int64)[:, None] + np.arange(-1, 3)
        return index, np.stack(shares, 1)

    def _stretched(self, places: Known, factor: float) -> tuple[Known, Known]:
        """The same against aliasing: a smaller result has more neighbours, each with less."""
        left = np.ceil(places) - 1
        ratio = places.astype(np.float64) - left  # in (0, 1]
        scale = min(factor, 1.0)
        begin = int(np.floor(-REACH[self.mode] / scale)) + 1
        offsets = np.arange(begin, 2 - begin)
        apart = np.abs(scale * (offsets - ratio[:, None]))
        if self.mode == "linear":
            shares = np.clip(1 - apart, 0, 1)
        else:
            near, far = _near(self.cubic, apart), _far(self.cubic, apart)
            shares = np.where(apart <= 1, near, np.where(apart < 2, far, 0.0))
        return left.astype(np.int64)[:, None] + offsets, shares / shares.sum(1, keepdims=True)


def _near(a: Any, apart: Known) -> Known:
    """The share of what lies up to 1 from an element, of Keys's cubic."""
    return ((a + 2) * apart - (a + 3)) * apart * apart + 1


def _far(a: Any, apart: Known) -> Known:
    """The share of what lies from 1 to 2 from an element."""
    return ((a * apart - 5 * a) * apart + 8 * a) * apart - 4 * a


def _cropped(line: Known, last: Any, part: Any) -> Known:
    """Where elements of a part of an axis lie, the axis's last element at `last`."""
    start, end = (line.dtype.type(p) for p in part)
    if len(line) > 1:
        return start * last + line * (end - start) * last / line.dtype.type(len(line) - 1)
    return np.full(len(line), 0.5 * float(start + end) * float(last), line.dtype)


def _between_corners(x: Array, lines: Sequence[Line]) -> Array:
    """Linear along all of these axes: the corners around a place times products of shares."""
    sides: list[list[tuple[Known, Known]]] = []  # of each axis: the first and the second neighbours
    for axis, line, _ in lines:
        n = int(x.shape[axis])
        places = np.clip(line, 0, n - 1)
        first = np.floor(places).astype(np.int64)
        second = np.minimum(first + 1, n - 1)
        end, after = first == second, (1,) * (x.ndim - 1 - axis)
        shares = [
            np.where(end, 0.5, np.abs(places - s)).astype(places.dtype) for s in (second, first)
        ]
        sides.append(
            [(i, w.reshape(-1, *after)) for i, w in zip((first, second), shares, strict=True)]
        )
    found: Array = 0
    for corner in product((0, 1), repeat=len(lines)):
        part, share = x, 1
        for (axis, *_), side, which in zip(
            reversed(lines), reversed(sides), reversed(corner), strict=True
        ):
            part = np.take(part, side[which][0], axis=axis)
            share = share * side[which][1]
        found = found + part * share
    return found
