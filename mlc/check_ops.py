"""What ops of a certificate do with elements, whatever these are (`mlc.check`)."""

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


# Elements of operands, at other places


def _itself(_: Props, shape: Shape, x: Array) -> Array:
    return x.reshape(shape)


def _counting(size: int) -> Array:
    return np.arange(size)


def _iota(props: Props, shape: Shape) -> Array:
    axis: int = props["axis"]
    column = _counting(shape[axis]).reshape(-1, *(1 for _ in shape[axis + 1 :]))
    return np.broadcast_to(column, shape)


def _turned(props: Props, shape: Shape, x: Array) -> Array:
    word, _, result = props["letters"].partition("->")
    return np.broadcast_to(_spread(x, word, result), shape)


def _slice(props: Props, shape: Shape, x: Array) -> Array:
    places = zip(shape, props["offsets"], props["steps"], strict=True)
    return x[np.ix_(*(a + s * np.arange(n) for n, a, s in places))]


def _pad(props: Props, shape: Shape, x: Array, value: Array) -> Array:
    found = np.broadcast_to(value, shape).copy()
    ends = list(zip(props["low"], x.shape, shape, strict=True))
    to = tuple(slice(max(a, 0), max(min(a + n, m), 0)) for a, n, m in ends)
    of = tuple(slice(max(-a, 0), max(min(n, m - a), 0)) for a, n, m in ends)
    found[to] = x[of]
    return found


def _size(props: Props, shape: Shape) -> Array:
    return np.asarray(props["dims"][0])


def _concat(props: Props, shape: Shape, *xs: Array) -> Array:
    return np.concatenate(xs, props["axis"])


def _select(props: Props, shape: Shape, condition: Array, x: Array, y: Array) -> Array:
    return np.where(condition.astype(bool), x, y)


MOVES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("reshape", "barrier", "share", "divisor"), _itself),
    **dict.fromkeys(("broadcast", "transpose"), _turned),
    "iota": _iota,
    "size": _size,
    **dict.fromkeys(("concat", "join"), _concat),
    "slice": _slice,
    "pad": _pad,
    "select": _select,
}


# What depends on how one adds, or who is larger


def _product(domain: Any, props: Props, shape: Shape, *xs: Array) -> Array:
    words, _, result = props["letters"].partition("->")
    (a, left), (b, right) = _views(xs, words.split(","), result, shape, [])
    return domain.product(f"{left},{right}->{result}", a, b)


def _fold(domain: Any, props: Props, shape: Shape, x: Array) -> Array:
    words, _, result = props["letters"].partition("->")
    ((x, word),) = _views([x], [words], result, shape, props["window"])
    x = _spread(x, word, result + "".join(c for c in word if c not in result))
    x = x.reshape(*shape, math.prod(x.shape[len(result) :]))
    if x.dtype == bool or not x.shape[-1]:
        raise UnknownError("a fold of bools, or of nothing")
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


def _gather(domain: Any, props: Props, shape: Shape, *xs: Array) -> Array:
    return xs[0][_places(domain, props, shape, xs)]


def _scatter(domain: Any, props: Props, shape: Shape, *xs: Array) -> Array:
    if props["mode"] != "add":
        raise UnknownError(f"scatter {props['mode']}")
    found = xs[0].copy()
    np.add.at(found, _places(domain, props, xs[-1].shape, xs), xs[-1])
    return domain.reduced(found)


def _scan(domain: Any, props: Props, shape: Shape, x: Array) -> Array:
    if props["monoid"] != "sum" or props["kind"] != "inclusive":
        raise UnknownError("such a scan")
    turn = slice(None, None, 1 if props["direction"] == "forward" else -1)
    found = np.cumsum(np.moveaxis(x, props["axis"], 0)[turn], 0)[turn]
    return domain.reduced(np.moveaxis(found, 0, props["axis"]))


def _part(domain: Any, sizes: Shape, part: Shape, at: Sequence[Array]) -> tuple[slice, ...]:
    starts = [int(domain.index(x)) for x in at]
    firsts = [max(min(a, n - c), 0) for a, n, c in zip(starts, sizes, part, strict=True)]
    return tuple(slice(a, a + c) for a, c in zip(firsts, part, strict=True))


def _dynamic_slice(domain: Any, props: Props, shape: Shape, x: Array, *at: Array) -> Array:
    return x[_part(domain, x.shape, shape, at)]


def _dynamic_update(
    domain: Any, props: Props, shape: Shape, x: Array, update: Array, *at: Array
) -> Array:
    found = x.copy()
    found[_part(domain, x.shape, update.shape, at)] = update
    return found


def _compare(domain: Any, props: Props, shape: Shape, *xs: Array) -> Array:
    name = props["predicate"]
    keys = xs if name in ("eq", "ne") else [domain.key(x) for x in xs]
    return domain.truth(COMPARE[name](*keys))


def _sorted(domain: Any, props: Props, shape: Shape, x: Array) -> Array:
    return np.take_along_axis(x, _order(domain, props, shape, x), -1)


def _order(domain: Any, props: Props, shape: Shape, x: Array) -> Array:
    if props["order"] != "ascending":
        raise UnknownError("such an order")
    return np.argsort(domain.key(x), axis=-1, kind="stable")


OF_DOMAINS: dict[str, Callable[..., Array]] = {
    **dict.fromkeys(("contract", "conv"), _product),
    **dict.fromkeys(("reduce", "window"), _fold),
    "gather": _gather,
    "scatter": _scatter,
    "scan": _scan,
    "sort": _sorted,
    "argsort": _order,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update": _dynamic_update,
    "compare": _compare,
}


# Letters


def _spread(x: Array, word: str, result: str) -> Array:
    """Axes in the result's order, with axes of size 1 for letters that the word lacks."""
    order = sorted(range(len(word)), key=lambda k: result.index(word[k]))
    sizes = {word[k]: x.shape[k] for k in order}
    return np.transpose(x, order).reshape([sizes.get(c, 1) for c in result])


def _views(
    xs: Sequence[Array], words: Sequence[str], result: str, shape: tuple[int, ...], rest: list[int]
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
