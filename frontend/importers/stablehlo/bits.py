# pyright: basic
"""
`rng_bit_generator`: the bits that XLA gives for the same state.

SOURCE: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Threefry-2x32);
XLA's `prng.cc` for the order of words and the counter. Philox-4x32 is that of our own `PhiloxOp`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.tensor.random import LOW, ArrayWords, philox4x32
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.stablehlo.program import Op, TensorKind
from mlc.frontend.importers.stablehlo.text import numpy_of
from mlc.frontend.numpy.creation import arange

Array = Any
_TURNS = ((13, 15, 26, 6), (17, 29, 16, 24))


def _halves(x: Array) -> tuple[Array, Array]:
    """The lower and the upper 32 bits."""
    return (x & np.uint64(LOW)).astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


def _joined(low: Array, high: Array) -> Array:
    return low.astype(np.uint64) | (high.astype(np.uint64) << np.uint64(32))


def _threefry(x: tuple[Array, Array], key: tuple[Array, Array]) -> tuple[Array, Array]:
    keys = (*key, key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    a, b = x[0] + keys[0], x[1] + keys[1]
    for group in range(5):
        for turn in _TURNS[group % 2]:
            a = a + b
            b = ((b << np.uint32(turn)) | (b >> np.uint32(32 - turn))) ^ a
        a = a + keys[(group + 1) % 3]
        b = b + keys[(group + 2) % 3] + np.uint32(group + 1)
    return a, b


def _threefry_words(state: Array, pairs: int) -> tuple[Array, Array, Array]:
    """So many pairs of words, and the state after them."""
    counter = state[1] + arange(pairs).astype(np.uint64)
    words = _threefry(_halves(counter), _halves(state[0]))
    return (*words, np.stack([state[0], state[1] + np.uint64(pairs)]))


def _philox_words(state: Array, count: int) -> tuple[Array, Array]:
    """So many words, and the state after them."""
    blocks = -(-count // 4)
    numbers = arange(blocks).astype(np.uint64)
    high = state[2] if state.shape[0] > 2 else state[0]  # the key again
    low = state[1] + numbers
    high_of = high + (low < numbers).astype(np.uint64)
    a = ArrayWords()
    counter, key = (a.low(low), a.high(low), a.low(high_of), a.high(high_of)), state[0]
    words = philox4x32(a, counter, (a.low(key), a.high(key)))
    flat = np.stack(words, axis=-1).reshape(-1)[:count].astype(np.uint32)
    after = state[1] + np.uint64(blocks)
    carried = high + (after < np.uint64(blocks)).astype(np.uint64)
    return flat, np.stack([state[0], after, carried][: state.shape[0]])


def rng_bit_generator(op: Op, state: Array) -> tuple[Array, Array]:
    """`rng_bit_generator %state, algorithm = THREE_FRY`: the state after it, and bits."""
    kind = op.kinds[1]
    assert isinstance(kind, TensorKind)
    if None in kind.shape or state.dtype != np.uint64 or state.shape[0] not in (2, 3):
        raise NotSupportedError(
            f"line {op.line}: rng_bit_generator with the state {state.dtype}{list(state.shape)};"
            " expected two or three numbers of ui64, and a result of known sizes"
        )
    shape, dtype = tuple(n or 0 for n in kind.shape), numpy_of(kind)
    count, bits = int(np.prod(shape, dtype=np.int64)), 8 * dtype.itemsize
    named = op.get("rng_algorithm")
    if named == "THREE_FRY":
        flat, after = _threefry_bits(state, shape, count, bits)
    else:
        words, after = _philox_words(state, count * max(bits // 32, 1))
        flat = _joined(words[0::2], words[1::2]) if bits == 64 else words
    unsigned = flat.astype(np.dtype(f"u{dtype.itemsize}")) if bits < 32 else flat
    return after, unsigned.view(dtype).reshape(shape)


def _threefry_bits(
    state: Array, shape: tuple[int, ...], count: int, bits: int
) -> tuple[Array, Array]:
    if bits == 64:
        first, second, after = _threefry_words(state, count)
        return _joined(first, second), after
    # pairs along the first axis that is even, else along the longest, of whose end one goes
    axis = next((a for a, n in enumerate(shape) if n % 2 == 0), None)
    if axis is None:
        axis = max(range(len(shape)), key=lambda a: shape[a], default=-1)
    pairs = shape if axis >= 0 else (1,)
    half = tuple(-(-n // 2) if a == max(axis, 0) else n for a, n in enumerate(pairs))
    first, second, after = _threefry_words(state, int(np.prod(half, dtype=np.int64)))
    both = np.stack([first.reshape(half), second.reshape(half)], axis=max(axis, 0) + 1)
    even = tuple(2 * n if a == max(axis, 0) else n for a, n in enumerate(half))
    return both.reshape(even)[tuple(slice(n) for n in pairs)].reshape(-1), after
