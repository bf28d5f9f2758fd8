# pyright: basic
"""Fourier transforms, windows and n-grams of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from mlc.frontend.importers.bounds import FAR, check_between
from mlc.frontend.importers.onnx.bounds import check_axes, check_room
from mlc.frontend.importers.onnx.graph import dtype_of
from mlc.frontend.importers.onnx.run import ROWS, At, row, traced
from mlc.frontend.importers.onnx.values import arange, cut
from mlc.frontend.numpy.complexes import of_parts

Array = Any


@row("DFT")
def _dft(at: At, x: Array, length: Array = None, axis: Array = None) -> Array:
    where = at.get("axis", 1) if axis is None else at.number(axis, "axis")
    if axis is None and at.version >= 20:
        where = -2
    check_axes("axis", where, x.ndim)
    where = where % x.ndim
    inverse, half = bool(at.get("inverse", 0)), bool(at.get("onesided", 0))
    n = x.shape[where]
    if length is not None:
        n = at.number(length, "dft_length")
        check_between("dft_length", n, 1, FAR - 1)
    elif inverse and half:
        n = 2 * (n - 1)
    return transformed(x, n, where, inverse=inverse, half=half)


def transformed(x: Array, n: int, axis: int, *, inverse: bool, half: bool) -> Array:
    """
    The transform along an axis; the last one is the real part alone, or both parts. Of 64 bits, as
    ONNX's own, whose zeros are zeros.
    """
    wide = x.astype(np.float64)
    parts = wide[..., 0]
    if x.shape[-1] > 1:
        parts = of_parts(traced(parts), traced(wide[..., 1]))
    if inverse and half:
        return np.fft.irfft(parts, n, axis)[..., None].astype(x.dtype)
    found = (np.fft.ifft if inverse else np.fft.fft)(parts, n, axis)
    if half:
        found = cut(found, axis, slice(0, n // 2 + 1))
    return np.stack([found.real, found.imag], -1).astype(x.dtype)


@row("STFT")
def _stft(at: At, x: Array, step: Array, window: Array = None, length: Array = None) -> Array:
    """x: (N, time, 1 or 2); (N, frames, frequencies, 2)."""
    each = at.number(step, "frame_step")
    check_between("frame_step", each, 1, FAR - 1)
    n = window.shape[0] if window is not None else x.shape[1]
    n = n if length is None else at.number(length, "frame_length")
    check_between("frame_length", n, 1, x.shape[1] if isinstance(x.shape[1], int) else FAR - 1)
    frames = 1 + (x.shape[1] - n) // each
    places = arange(frames)[:, None] * each + arange(n)
    parts = x[:, places]  # (N, frames, n, 1 or 2)
    if window is not None:
        parts = parts * window.reshape(-1, 1)
    return transformed(parts, n, 2, inverse=False, half=bool(at.get("onesided", 1)))


def _window(alpha: float, beta: float) -> Callable[..., Array]:
    def apply(at: At, size: Array) -> Array:
        n = at.number(size, "the size")
        check_between("the size", n, 0, FAR - 1)
        count = n if at.get("periodic", 1) else n - 1
        turn = 2 * np.pi * arange(n) / count
        found = alpha - (1 - alpha - beta) * np.cos(turn) + beta * np.cos(2 * turn)
        return found.astype(dtype_of(int(at.get("output_datatype", 1))))

    return apply


ROWS["HannWindow"] = _window(0.5, 0.0)
ROWS["HammingWindow"] = _window(25 / 46, 0.0)
ROWS["BlackmanWindow"] = _window(0.42, 0.08)


@row("MelWeightMatrix")
def _mel(at: At, bins: Array, length: Array, rate: Array, low: Array, high: Array) -> Array:
    """Triangles over the frequencies of a transform. (length // 2 + 1, bins)."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    values: list[Any] = [
        at.known(x, name).reshape(())[()]
        for x, name in zip((bins, length, rate, low, high), names, strict=True)
    ]
    count, n = int(values[0]), int(values[1])
    check_between("num_mel_bins", count, 0, FAR - 1)
    check_between("dft_length", n, 0, FAR - 1)
    check_between("sample_rate", int(values[2]), 1, FAR - 1)
    check_room((n // 2 + 1) * (count + 2), "the matrix")
    first, last = (2595 * np.log10(1 + v / 700) for v in values[3:])
    mel = arange(count + 2) * ((last - first) / (count + 2)) + first
    hertz = 700 * (10 ** (mel / 2595) - 1)
    edges = (((n + 1) * hertz) // values[2]).astype(np.int64)
    found = np.zeros((n // 2 + 1, count))
    for k in range(count):
        left, top, right = edges[k : k + 3]
        found[top, k] = 1  # where nothing rises
        if top > left:
            found[left : top + 1, k] = (arange(left, top + 1) - left) / (top - left)
        if right > top:
            found[top:right, k] = (right - arange(top, right)) / (right - top)
    return found.astype(dtype_of(int(at.get("output_datatype", 1))))


@row("TfIdfVectorizer")
def _tf_idf(at: At, x: Array) -> Array:
    """How often each n-gram of a pool of numbers occurs. x: (N, C) or (C,)."""
    pool = at.get("pool_int64s")
    if pool is None:
        raise at.refuse("its pool is text; expected pool_int64s")
    columns = [int(k) for k in at.get("ngram_indexes")]
    starts = [*at.get("ngram_counts"), len(pool)]
    shortest, longest = int(at.get("min_gram_length")), int(at.get("max_gram_length"))
    skips = int(at.get("max_skip_count"))
    rows = x if x.ndim == 2 else x.reshape(1, -1)
    counted: list[Array] = []
    places: list[int] = []
    done = 0
    for length, (first, last) in enumerate(pairwise(starts), 1):
        grams = np.array(pool[first:last], np.int64).reshape(-1, length)
        mine, done = columns[done : done + len(grams)], done + len(grams)
        if shortest <= length <= longest and len(grams):
            places += mine
            counted.append(_occurrences(rows, grams, 1 if length == 1 else skips + 1))
    width = max(columns) + 1
    check_room(len(places) * width, "ngram_indexes")
    shares = np.zeros((len(places), width), np.float32)
    shares[arange(len(places)), places] = 1
    found = np.concatenate(counted, 1).astype(np.float32) @ shares
    mode, weights = at.get("mode"), at.get("weights")
    if mode == "IDF":
        found = np.minimum(found, 1)
    if mode != "TF" and weights:
        found = found * np.array(weights, np.float32)[:width]
    return found if x.ndim == 2 else found.reshape(-1)


def _occurrences(rows: Array, grams: np.ndarray[Any, Any], skips: int) -> Array:
    """rows: (N, C), grams: (G, length); (N, G)."""
    length, size = grams.shape[1], rows.shape[1]
    total: Array = np.zeros((rows.shape[0], len(grams)), np.int64)
    for skip in range(1, skips + 1):
        room = size - skip * (length - 1)
        if room <= 0:
            break
        same: Array = None
        for k in range(length):
            here = rows[:, k * skip : k * skip + room, None] == grams[:, k]
            same = here if same is None else same & here
        total = total + same.astype(np.int64).sum(1)
    return total
