"""
Arithmetic modulo p = 2^31 - 1 on many tensors at once, and keys of what it gives.

A batch is an unsigned array of B tensors, each at `SAMPLES` random inputs: (B, SAMPLES, *shape).
What is no polynomial is what `rules/residues.py` says of it: a number is positive by a random odd
function of it, and other functions are random functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.passes.rules.residues import mixed

PRIME = np.uint64(2**31 - 1)
HALF = np.uint64(2**30 - 1)
SAMPLES = 4
SEED = 0x5DEECE66D
MOST = 256  # elements of a tensor
_SHIFT = np.uint64(31)
Shape = tuple[int, ...]


def fold(x: Array) -> Array:
    """Numbers of at most 64 bits modulo p: 2^31 is 1 there."""
    x = (x & PRIME) + (x >> _SHIFT)
    x = (x & PRIME) + (x >> _SHIFT)
    return np.minimum(x, x - PRIME)  # a difference below 0 is huge


def drawn(number: int, shape: Shape, seed: int = SEED) -> Array:
    """Random residues for an input, by its number alone: (1, SAMPLES, *shape)."""
    count = SAMPLES * int(np.prod(shape))
    base = mixed(np.uint64(seed) + np.arange(count, dtype=np.uint64) * np.uint64(4093))
    return (mixed(base + np.uint64(number)) % PRIME).reshape(1, SAMPLES, *shape)


def is_positive(x: Array) -> Array:
    """For which residues a random odd function says so; 0 is not."""
    mirrored = x > HALF
    smaller = np.where(mirrored, PRIME - x, x)
    odd = mixed(smaller + np.uint64(SEED)) >> np.uint64(40) & np.uint64(1) == 1
    return (odd ^ mirrored) & (x != 0)


def any_function(x: Array) -> Array:
    """A random function of each residue."""
    return fold(mixed(x + np.uint64(SEED * 7)) >> np.uint64(2))


def product(x: Array, y: Array) -> Array:
    """Matrices: (…, m, k) and (…, k, n) give (…, m, n)."""
    found = np.zeros((*x.shape[:-1], y.shape[-1]), np.uint64)
    for k in range(x.shape[-1]):
        found += fold(x[..., :, k, None] * y[..., k, None, :])
    return fold(found)


def convolution(x: Array, w: Array) -> Array:
    """(…, n, c, h, w) and (…, f, c, i, j) give (…, n, f, h - i + 1, w - j + 1)."""
    f, channels, i, j = w.shape[-4:]
    n, _, height, width = x.shape[-4:]
    rows, columns = height - i + 1, width - j + 1
    batch = np.broadcast_shapes(x.shape[:-4], w.shape[:-4])
    found = np.zeros((*batch, n, f, rows, columns), np.uint64)
    for c in range(channels):
        for k in range(i):
            for m in range(j):
                window = x[..., :, None, c, k : k + rows, m : m + columns]
                found += fold(window * w[..., None, :, c, k, m, None, None])
    return fold(found)


class Keys:
    """64 bits for a tensor: two random linear forms of its residues, and its shape."""

    def __init__(self) -> None:
        count = np.arange(2 * SAMPLES * MOST, dtype=np.uint64)
        self.forms = fold(mixed(count + np.uint64(SEED * 3)) >> np.uint64(2)).reshape(2, -1)

    def of(self, values: Array, shape: Shape) -> Array:
        """A key for each of a batch."""
        flat = values.reshape(len(values), -1)
        size = flat.shape[1]
        first, second = (
            fold(fold(flat * form[None, :size]).sum(1, dtype=np.uint64)) for form in self.forms
        )
        return mixed(mixed((first << _SHIFT) | second) + shape_number(shape))


def shape_number(shape: Sequence[int]) -> Array:
    """A number for a shape."""
    found = np.array(len(shape), np.uint64)
    for n in shape:
        found = mixed(found + np.uint64(n))
    return found
