"""
What ops of a certificate do with elements, as one table (`mlc.check`).

Each entry is a function of the numbers that it is about (`check_values`), the op's properties, the
result's shape and the operands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Shape = tuple[int, ...]
Props = dict[str, Any]
PRIME = 2**31 - 1
COMPARE: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


class UnknownError(Exception):
    """What has no meaning here."""


def _only(holds: bool, what: str) -> None:
    if not holds:
        raise UnknownError(what)


def _counting(size: int) -> Array:
    return np.arange(size)


def _iota(_: Any, props: Props, shape: Shape, _xs: Sequence[Array]) -> Array:
    axis: int = props["axis"]
    column = _counting(shape[axis]).reshape(-1, *(1 for _ in shape[axis + 1 :]))
    return np.broadcast_to(column, shape)


def _turned(_: Any, props: Props, shape: Shape, xs: Sequence[Array]) -> Array:
    word, _, result = props["letters"].partition("->")
    return np.broadcast_to(_spread(xs[0], word, result), shape)


def _slice(_: Any, props: Props, shape: Shape, xs: Sequence[Array]) -> Array:
    places = zip(shape, props["offsets"], props["steps"], strict=True)
    return xs[0][np.ix_(*(a + k * np.arange(n) for n, a, k in places))]


def _pad(_: Any, props: Props, shape: Shape, xs: Sequence[Array]) -> Array:
    found = np.broadcast_to(xs[1], shape).copy()
    ends = list(zip(props["low"], xs[0].shape, shape, strict=True))
    to = tuple(slice(max(a, 0), max(min(a + n, m), 0)) for a, n, m in ends)
    found[to] = xs[0][tuple(slice(max(-a, 0), max(min(n, m - a), 0)) for a, n, m in ends)]
    return found


def _product(domain: Any, props: Props, shape: Shape, xs: Sequence[Array]) -> Array:
    words, _, result = props["letters"].partition("->")
    (a, left), (b, right) = _views(xs, words.split(","), result, shape, [])
    return domain.product(f"{left},{right}->{result}", a, b)


def _fold(domain: Any, props: Props, shape: Shape, xs: Sequence[Array]) -> Array:
    words, _, result = props["letters"].partition("->")
    ((x, word),) = _views(xs, [words], result, shape, props.get("window", []))
    x = _spread(x, word, result + "".join(c for c in word if c not in result))
    x = x.reshape(*shape, math.prod(x.shape[len(result) :]))
    _only(x.dtype != bool and x.shape[-1] > 0, "a fold of bools, or of nothing")
    if props["monoid"] in ("argmax", "argmin"):
        return (np.argmax if props["monoid"] == "argmax" else np.argmin)(domain.key(x), -1)
    return domain.fold(props["monoid"], x)


def _places(domain: Any, props: Props, many: Shape, xs: Sequence[Array]) -> tuple[Array, ...]:
    left, _, result = props["letters"].partition("->")
    words = left.split(",")
    found = [
        domain.index(_spread(xs[1 + int(c)], words[1 + int(c)], result)) % n
        if c.isdigit()
        else _spread(_counting(n), c, result)
        for c, n in zip(words[0], xs[0].shape, strict=True)
    ]
    return tuple(np.broadcast_to(x, many) for x in found)


def _scatter(domain: Any, props: Props, _: Shape, xs: Sequence[Array]) -> Array:
    _only(props["mode"] == "add", f"scatter {props['mode']}")
    found = xs[0].copy()
    np.add.at(found, _places(domain, props, xs[-1].shape, xs), xs[-1])
    return domain.reduced(found)


def _scan(domain: Any, props: Props, _: Shape, xs: Sequence[Array]) -> Array:
    _only((props["monoid"], props["kind"]) == ("sum", "inclusive"), "such a scan")
    turn = slice(None, None, 1 if props["direction"] == "forward" else -1)
    found = np.cumsum(np.moveaxis(xs[0], props["axis"], 0)[turn], 0)[turn]
    return domain.reduced(np.moveaxis(found, 0, props["axis"]))


def _part(domain: Any, sizes: Shape, part: Shape, at: Sequence[Array]) -> tuple[slice, ...]:
    starts = [int(domain.index(x)) for x in at]
    firsts = [max(min(a, n - c), 0) for a, n, c in zip(starts, sizes, part, strict=True)]
    return tuple(slice(a, a + c) for a, c in zip(firsts, part, strict=True))


def _update(domain: Any, _: Props, _shape: Shape, xs: Sequence[Array]) -> Array:
    found = xs[0].copy()
    found[_part(domain, found.shape, xs[1].shape, xs[2:])] = xs[1]
    return found


def _compare(domain: Any, props: Props, _: Shape, xs: Sequence[Array]) -> Array:
    name = props["predicate"]
    keys = xs if name in ("eq", "ne") else [domain.key(x) for x in xs]
    return domain.truth(COMPARE[name](*keys))


def _order(domain: Any, props: Props, _: Shape, xs: Sequence[Array]) -> Array:
    _only(props["order"] == "ascending", "such an order")
    return np.argsort(domain.key(xs[0]), axis=-1, kind="stable")


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


Meaning = Callable[[Any, Props, Shape, Sequence[Array]], Any]
OPS: dict[str, Meaning] = {
    **dict.fromkeys(
        ("reshape", "barrier", "share", "divisor"), lambda d, p, s, xs: xs[0].reshape(s)
    ),
    **dict.fromkeys(("concat", "join"), lambda d, p, s, xs: np.concatenate(xs, p["axis"])),
    "broadcast": _turned, "transpose": _turned, "iota": _iota, "slice": _slice, "pad": _pad,
    "size": lambda d, p, s, xs: np.asarray(p["dims"][0]),
    "select": lambda d, p, s, xs: np.where(xs[0].astype(bool), xs[1], xs[2]),
    "contract": _product, "conv": _product, "reduce": _fold, "window": _fold, "scan": _scan,
    "gather": lambda d, p, s, xs: xs[0][_places(d, p, s, xs)],
    "scatter": _scatter,
    "sort": lambda d, p, s, xs: np.take_along_axis(xs[0], _order(d, p, s, xs), -1),
    "argsort": _order,
    "dynamic_slice": lambda d, p, s, xs: xs[0][_part(d, xs[0].shape, s, xs[1:])],
    "dynamic_update": _update,
    "compare": _compare,
}  # fmt: skip
_NAMED = (
    "abs exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan asin acos atan atan2 sinh cosh tanh"
    " floor ceil trunc sign pow hypot isnan isinf isfinite"
)  # as NumPy names them
ELEMENTWISE: dict[str, Any] = {
    **{name: getattr(np, name) for name in _NAMED.split()},
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative,
    "max": np.maximum, "min": np.minimum, "round": np.rint, "rem": np.fmod, "mod": np.mod,
    "floor_div": np.floor_divide, "and": np.bitwise_and, "or": np.bitwise_or, "not": np.invert,
    "xor": np.bitwise_xor, "shl": np.left_shift, "shr": np.right_shift,
    "popcount": np.bitwise_count, "rsqrt": _rsqrt, "sigmoid": _sigmoid,
    "erf": np.vectorize(math.erf, otypes=[float]),
}  # fmt: skip


# Letters


def _spread(x: Array, word: str, result: str) -> Array:
    """Axes in the result's order, with axes of size 1 for letters that the word lacks."""
    order = sorted(range(len(word)), key=lambda k: result.index(word[k]))
    sizes = {word[k]: x.shape[k] for k in order}
    return np.transpose(x, order).reshape([sizes.get(c, 1) for c in result])


def _views(
    xs: Sequence[Array], words: Sequence[str], result: str, shape: Shape, rest: list[int]
) -> list[tuple[Array, str]]:
    """With an axis for each letter, and the letters; `rest`: sizes that no operand says."""
    axes = [re.findall(r"\((\d*)([A-Za-z])\+(\d*)([A-Za-z])\)|([A-Za-z])", w) for w in words]
    sizes = dict(zip(result, shape, strict=True))
    for x, word in zip(xs, axes, strict=True):
        sizes |= {term[4]: n for term, n in zip(word, x.shape, strict=True) if term[4]}
    found: list[tuple[Array, str]] = []
    for x, word in zip(xs, axes, strict=True):
        view, letters = x, ""
        for scale, outer, dilation, inner, plain in word:
            if not plain:
                steps = [(outer, scale), (inner, dilation)]
                counts = [
                    sizes[c] if c in sizes else sizes.setdefault(c, rest.pop(0)) for c, _ in steps
                ]
                at = [int(k or 1) * np.arange(n) for (_, k), n in zip(steps, counts, strict=True)]
                view = np.take(view, np.add.outer(*at), axis=len(letters))
            letters += plain or outer + inner
        found.append((view, letters))
    return found
