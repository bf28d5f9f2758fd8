# pyright: basic
"""Rows of ops that order elements, or go along an axis: medians, modes, running extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.frontend.importers.fx.run import At, row
from mlc.frontend.numpy.creation import arange, full
from mlc.frontend.numpy.scans import cumlogsumexp, cummax, cummin

Array = Any


def _line(x: Array, axis: int) -> Array:
    """The numbers of the elements of an axis, beside all others."""
    return arange(x.shape[axis]).reshape([-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])


def _at_place(x: Array, order: Array, place: Any, axis: int, keepdim: bool) -> tuple[Array, ...]:
    """The element of each line that has a place in its order, and where it is."""
    found = np.take_along_axis(order, place, axis)
    pair = np.take_along_axis(x, found, axis), found
    return pair if keepdim else tuple(np.squeeze(part, axis) for part in pair)


def _ordered(x: Array, axis: int) -> tuple[Array, ...]:
    """The order of each line, NaN last, and how many of it are numbers."""
    count = (x == x).astype(np.int64).sum(axis, keepdims=True)
    return np.argsort(x, axis=axis, kind="stable"), count


def _single(x: Array) -> tuple[Array, ...]:
    return x, full((), 0, np.int64)


@row("kthvalue")
def _kth(at: At, x: Array, k: int, axis: int = -1, keepdim: bool = False) -> tuple[Array, ...]:
    if not x.ndim:
        return _single(x)
    order, count = _ordered(x, axis)
    return _at_place(x, order, count * 0 + (k - 1), axis, keepdim)


@row("median", "nanmedian")
def _median(at: At, x: Array, axis: Any = None, keepdim: bool = False) -> Any:
    """The lower one of two in the middle; NaN where one is, or of what is left beside them."""
    if axis is None:
        return _median(at, x.reshape(-1), 0)[0]
    if not x.ndim:
        return _single(x)
    order, count = _ordered(x, axis)
    size = x.shape[axis]
    place = np.maximum(count - 1, 0) // 2
    if at.name == "median":
        place = np.where(count == size, place, count)  # the first NaN
    return _at_place(x, order, place, axis, keepdim)


@row("mode")
def _mode(at: At, x: Array, axis: int = -1, keepdim: bool = False) -> tuple[Array, ...]:
    """The smallest of those that are there most often, and the last place that has it."""
    if not x.ndim:
        return _single(x)
    order = np.argsort(x, axis=axis, kind="stable")
    line, number = np.take_along_axis(x, order, axis), _line(x, axis)
    before = np.take_along_axis(line, np.broadcast_to(np.maximum(number - 1, 0), x.shape), axis)
    begins = (number == 0) | (line != before)
    length = number - cummax(np.where(begins, number, 0), axis)
    return _at_place(x, order, np.argmax(length, axis, keepdims=True), axis, keepdim)


@row("cummax", "cummin")
def _running(at: At, x: Array, axis: int) -> tuple[Array, ...]:
    """Running extremes, and the last place that has each."""
    if not x.ndim:
        return _single(x)
    whole = x.astype(np.int8) if x.dtype.kind == "b" else x
    found = (cummax if at.name == "cummax" else cummin)(whole, axis)
    if not at.uses(1):
        return found, None
    here = (whole == found) | (whole != whole)
    return found, cummax(np.where(here, _line(x, axis), 0), axis)


@row("logcumsumexp")
def _log_of_sums(at: At, x: Array, axis: int) -> Array:
    return cumlogsumexp(x, axis) if x.ndim else x
