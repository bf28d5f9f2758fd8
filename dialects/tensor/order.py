"""
The order in which the reference adds and multiplies inexact numbers: the same on every machine.

Compiled code follows it with numerics "strict"; every product and every sum is rounded.

- "in turn": one element after the other, the last of the reduced letters fastest. Matrix products,
  convolutions, windows.
- "in lanes": `LANES` partial results. The one at n takes the elements whose position on the last
  reduced axis is n, n + LANES, …, in turn; then the upper half is combined into the lower until one
  is left. The first reduced axis is cut into blocks (`block_size`), whose results are combined in
  turn. Sums, products, dot products, a matrix times a vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.dialects.tensor.rounded import times

Order = Literal["any", "in turn", "in lanes"]
"""How a reduction must combine its summands; "any": every order gives the same bits."""
Combine = Callable[[Array, Array], Array]

LANES = 16
"""Four chains of a 128-bit vector unit's, two of AVX2's and one of AVX-512's lanes of f32."""
BLOCKS = 64
"""At most so many blocks, which threads share where there is a single result."""
BLOCK_ELEMENTS = 8192
"""Each of at least so many elements: 32 KiB of f32, a first-level cache."""
_ROW = 1 << 14  # elements from which a loop of NumPy's takes longer than its call


def block_size(size: int, inner: int, *, single: bool) -> int:
    """
    Positions of the first reduced axis in one block; `inner`: elements for each of them. Of a
    `single` reduced axis a block holds a multiple of LANES.
    """
    least = -(-BLOCK_ELEMENTS // max(inner, 1))
    block = max(-(-size // BLOCKS), least)
    return -(-block // LANES) * LANES if single else block


def plus(x: Array, y: Array) -> Array:
    """The sum."""
    return x + y


def fold(combine: Combine, start: Array, rows: Array) -> Array:
    """`start` and the rows, one after the other."""
    if combine is plus and len(rows) > 1:  # what NumPy accumulates it adds in turn
        first = np.broadcast_to(start, rows.shape[1:])[None]
        return np.add.accumulate(np.concatenate([first, rows]), axis=0)[-1]
    for row in rows:
        start = combine(start, row)
    return start


def in_turn(combine: Combine, x: Array, axes: Sequence[int], identity: float) -> Array:
    """The elements along the axes, one after the other."""
    front = np.moveaxis(x, axes, range(len(axes)))
    sizes, shape = front.shape[: len(axes)], front.shape[len(axes) :]
    start = np.full(shape, identity, x.dtype)
    return fold(combine, start, front.reshape(math.prod(sizes), *shape))


def in_lanes(combine: Combine, x: Array, axes: Sequence[int], identity: float) -> Array:
    """The elements along the axes in partial results, as the module says."""
    front = np.moveaxis(x, axes, range(len(axes)))
    sizes, shape = front.shape[: len(axes)], front.shape[len(axes) :]
    block = block_size(sizes[0], math.prod(sizes[1:]), single=len(axes) == 1)
    total = np.full(shape, identity, x.dtype)
    for start in range(0, sizes[0], block):
        part = front[start : start + block]
        total = combine(total, _block(combine, part, len(axes), identity))
    return total


def _block(combine: Combine, x: Array, count: int, identity: float) -> Array:
    """One block; its first `count` axes are reduced."""
    shape = x.shape[count:]
    missing = [(0, 0)] * x.ndim
    missing[count - 1] = (0, -x.shape[count - 1] % LANES)
    padded = np.pad(x, missing, constant_values=x.dtype.type(identity))
    trips = math.prod(padded.shape[:count]) // LANES
    start = np.full((LANES, *shape), identity, x.dtype)
    found = fold(combine, start, padded.reshape(trips, LANES, *shape))
    while len(found) > 1:
        half = len(found) // 2
        found = combine(found[:half], found[half:])
    return found[0]


COMBINE: dict[Order, Callable[[Combine, Array, Sequence[int], float], Array]] = {
    "in turn": in_turn,
    "in lanes": in_lanes,
}
"""(combine, array, axes, identity) -> the elements along the axes in that order."""


def products(words: Sequence[str], letters: str, operands: Sequence[Array]) -> list[Array]:
    """The operands with an axis for each of the letters, of size 1 where one has none."""
    found: list[Array] = []
    for word, x in zip(words, operands, strict=True):
        own = "".join(c for c in letters if c in word)
        view: Any = np.einsum(f"{word}->{own}", x)
        found.append(view.reshape([view.shape[own.index(c)] if c in own else 1 for c in letters]))
    return found


def contract(
    order: Order, words: Sequence[str], result: str, summed: str, operands: Sequence[Array]
) -> Array:
    """The sum over the letters `summed` of products of two operands."""
    x, y = products(words, summed + result, operands)
    count = len(summed)
    if order == "in lanes" and count:
        return in_lanes(plus, times(x, y), range(count), 0)
    sizes = np.broadcast_shapes(x.shape, y.shape)
    total = math.prod(sizes[:count])
    x, y = (
        np.broadcast_to(a, (*sizes[:count], *(rest := a.shape[count:]))).reshape(total, *rest)
        for a in (x, y)
    )
    found = np.zeros(sizes[count:], x.dtype)
    step = max(_ROW // max(found.size, 1), 1)
    for k in range(0, total, step):
        found = fold(plus, found, times(x[k : k + step], y[k : k + step]))
    return found
