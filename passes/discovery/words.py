"""
The ops that programs are made of: their shapes, what they are modulo p, and how rules write them.

One option of `--ops` may be several of them: `concat` is one along each of the first two axes,
`split` the two parts along each of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.lazy_dataclass import dataclass
from mlc.passes.discovery.residues import (
    MOST,
    PRIME,
    Shape,
    any_function,
    convolution,
    fold,
    is_positive,
    product,
)

CUT = (4, 8)  # axes that a split may halve: sums of equal parts, whose joint is where they are cut
PICTURE, WINDOW = (2, 3), (2, 2)  # what a convolution reads is one or the other by its shape
LONGEST = 8  # positions of an axis


@dataclass(frozen=True)
class Word:
    """
    An op. `shape`: of the result, None where operands of these shapes have none; `value`: of a
    batch modulo p; `weight`: what it costs, of an addition, as far as which side of a rule is the
    smaller one.
    """

    name: str
    parts: int
    weight: int
    shape: Callable[..., Shape | None]
    value: Callable[..., Array]
    commutes: bool = False
    axis: int = 0
    """Of concat and split."""


def _same(*shapes: Shape) -> Shape | None:
    return shapes[0] if all(s == shapes[0] for s in shapes) else None


def _product_shape(x: Shape, y: Shape) -> Shape | None:
    return (x[0], y[1]) if len(x) == len(y) == 2 and x[1] == y[0] else None


def _transposed(x: Shape) -> Shape | None:
    return x[::-1] if len(x) == 2 else None


def _joined_shape(axis: int, x: Shape, y: Shape) -> Shape | None:
    rest = (*x[:axis], *x[axis + 1 :])
    if len(x) != len(y) or rest != (*y[:axis], *y[axis + 1 :]):
        return None
    found = (*x[:axis], x[axis] + y[axis], *x[axis + 1 :])
    return found if found[axis] <= LONGEST and math.prod(found) <= MOST else None


def _half_shape(axis: int, x: Shape) -> Shape | None:
    return (*x[:axis], x[axis] // 2, *x[axis + 1 :]) if x[axis] in CUT else None


def _conv_shape(x: Shape, w: Shape) -> Shape | None:
    if x[2:] != PICTURE or w[2:] != WINDOW or x[1] != w[1]:
        return None
    return (x[0], w[0], PICTURE[0] - WINDOW[0] + 1, PICTURE[1] - WINDOW[1] + 1)


def _joined(axis: int, x: Array, y: Array) -> Array:
    return np.concatenate([x, y], axis + 2)


def _part(axis: int, which: int, x: Array) -> Array:
    half = x.shape[axis + 2] // 2
    at = (slice(None),) * (axis + 2)
    return x[(*at, slice(which * half, (which + 1) * half))]


def _larger(x: Array, y: Array) -> Array:
    return np.where(is_positive(_difference(x, y)), x, y)


def _positive_part(x: Array) -> Array:
    return np.where(is_positive(x), x, np.uint64(0))


def _sum(x: Array, y: Array) -> Array:
    return fold(x + y)


def _difference(x: Array, y: Array) -> Array:
    return fold(x + PRIME - y)


def _times(x: Array, y: Array) -> Array:
    return fold(x * y)


def _negated(x: Array) -> Array:
    return fold(PRIME - x)


def _turned(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def _concat(axis: int) -> Word:
    return Word(
        f"concat{axis}", 2, 2, partial(_joined_shape, axis), partial(_joined, axis), axis=axis
    )


def _split(axis: int, which: int) -> Word:
    return Word(
        f"{('first', 'second')[which]}{axis}", 1, 1, partial(_half_shape, axis),
        partial(_part, axis, which), axis=axis,
    )  # fmt: skip


ELEMENTWISE: dict[str, Word] = {
    "add": Word("add", 2, 2, _same, _sum, commutes=True),
    "sub": Word("sub", 2, 2, _same, _difference),
    "mul": Word("mul", 2, 2, _same, _times, commutes=True),
    "max": Word("max", 2, 2, _same, _larger, commutes=True),
    "neg": Word("neg", 1, 2, _same, _negated),
    "relu": Word("relu", 1, 2, _same, _positive_part),
    "tanh": Word("tanh", 1, 8, _same, any_function),
}
WORDS: dict[str, tuple[Word, ...]] = {
    **{name: (word,) for name, word in ELEMENTWISE.items()},
    "transpose": (Word("transpose", 1, 1, _transposed, _turned),),
    "concat": (_concat(0), _concat(1)),
    "split": tuple(_split(axis, which) for axis in (0, 1) for which in (0, 1)),
    "matmul": (Word("matmul", 2, 16, _product_shape, product),),
    "conv": (Word("conv", 2, 16, _conv_shape, convolution),),
}
"""By option, the cheap ones first: of programs of as many ops the first one stands for all."""
DOCUMENTS = ("add", "mul", "relu", "transpose", "concat", "split", "matmul", "conv")
"""The ops of the documents' examples: elementwise ones, products, and what joins and cuts."""


@dataclass(frozen=True)
class Space:
    """Programs of one kind: their inputs, and the ops that have a meaning there."""

    name: str
    inputs: tuple[Shape, ...]
    words: tuple[Word, ...]


MATRICES = ((2, 4),) * 3 + ((4, 4),) * 2
IMAGES = ((2, 2, *PICTURE),) * 3 + ((2, 2, *WINDOW),) * 3
"""Pictures, and filters."""


def spaces(options: Sequence[str]) -> list[Space]:
    """What is enumerated for options; pictures where there is a convolution."""
    chosen = [w for name, words in WORDS.items() if name in options for w in words]
    matrices = tuple(w for w in chosen if w.name != "conv")
    found = [Space("matrices", MATRICES, matrices)] if matrices else []
    if "conv" in options:
        images = tuple(w for w in chosen if w.name not in ("matmul", "transpose"))
        found.append(Space("images", IMAGES, images))
    return found
