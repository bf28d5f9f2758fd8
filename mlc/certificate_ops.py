"""
What ops do with elements, in the few words that `mlc.check` knows: which position in an operand,
whose axes are one, an element comes from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Json = dict[str, Any]
Shape = Sequence[int]
Core = tuple[str, Json]
"""A word of the checker, and what it is told besides the operands."""
NUMPY = {
    "sub": "subtract", "mul": "multiply", "div": "divide", "neg": "negative", "max": "maximum",
    "min": "minimum", "abs": "absolute", "pow": "power", "round": "rint", "rem": "fmod",
    "mod": "remainder", "floor_div": "floor_divide", "shl": "left_shift", "shr": "right_shift",
    "popcount": "bitwise_count", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    "not": "invert", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2",
    "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "eq": "equal", "ne": "not_equal",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
    "sum": "add", "prod": "multiply", "argmax": "argmax", "argmin": "argmin",
}  # fmt: skip
"""NumPy's names of functions of elements, comparisons and monoids, where they are others."""
ELEMENTWISE = {
    "add", "sub", "mul", "div", "neg", "max", "min", "abs", "pow", "round", "rem", "mod",
    "floor_div", "shl", "shr", "popcount", "and", "or", "xor", "not", "exp", "exp2", "expm1", "log",
    "log2", "log10", "log1p", "sqrt", "cbrt", "rsqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "asin", "acos", "atan", "atan2", "asinh", "acosh", "atanh", "sigmoid", "erf", "floor", "ceil",
    "trunc", "sign", "hypot", "copysign", "isnan", "isinf", "isfinite", "signbit", "fmax", "fmin",
    "convert",
}  # fmt: skip


def core(name: str, p: Json, xs: Sequence[Shape], shape: Shape) -> Core:
    """
    What an op is, by its properties and the shapes of its operands and its result. KeyError or
    ValueError where the checker has no words for it; TypeError where a size is computed.
    """
    if name in ELEMENTWISE and not p:
        return NUMPY.get(name, name), {}
    return _CORES[name](p, xs, shape)


def _strides(shape: Shape) -> list[int]:
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def _words(p: Json) -> tuple[list[str], str]:
    words, _, result = p["letters"].partition("->")
    return words.split(","), result


def _axes(word: str) -> list[list[tuple[int, str]]]:
    """Of each axis its index: letters, with factors."""
    axes = re.findall(r"\(.*?\)|\w", word)
    return [[(int(k or 1), c) for k, c in re.findall(r"(\d*)([A-Za-z])", axis)] for axis in axes]


def _by_letters(word: str, x: Shape, letters: Iterable[str]) -> list[int]:
    """How far apart the elements are that follow each other along a letter."""
    found = dict.fromkeys(letters, 0)
    for axis, stride in zip(_axes(word), _strides(x), strict=True):
        for factor, letter in axis:
            found[letter] += factor * stride
    return list(found.values())


def _sizes(p: Json, xs: Sequence[Shape], shape: Shape) -> dict[str, int]:
    """Of each letter, those of the result first."""
    words, result = _words(p)
    sizes = dict(zip(result, shape, strict=True))
    for word, x in zip(words, xs, strict=True):
        axes = zip(_axes(word), x, strict=True)
        sizes |= {axis[0][1]: n for axis, n in axes if len(axis) == 1}
    inner = dict.fromkeys(c for word in words for axis in _axes(word) for _, c in axis)
    others = [c for c in inner if c not in sizes]
    return sizes | dict(zip(others, p.get("window", ()), strict=True))


def _view(p: Json, xs: Sequence[Shape], shape: Shape) -> Core:
    (word,), result = _words(p)
    return "look", {"offset": 0, "strides": _by_letters(word, xs[0], result)}


def _same(_: Json, xs: Sequence[Shape], shape: Shape) -> Core:
    return "look", {"offset": 0, "strides": _strides(shape)}


def _slice(p: Json, xs: Sequence[Shape], _: Shape) -> Core:
    strides = _strides(xs[0])
    offset = sum(a * k for a, k in zip(p["offsets"], strides, strict=True))
    steps = [a * k for a, k in zip(p["steps"], strides, strict=True)]
    return "look", {"offset": offset, "strides": steps}


def _fold(p: Json, xs: Sequence[Shape], shape: Shape) -> Core:
    word, result = _words(p)[0][0], _words(p)[1]
    order = [word.index(c) for c in (*result, *(c for c in word if c not in result))]
    return "fold", {"monoid": NUMPY[p["monoid"]], "order": order}


def _product(p: Json, _xs: Sequence[Shape], _: Shape) -> Core:
    if "rounds" in p:
        raise ValueError("factors that are rounded")
    return "product", {"letters": p["letters"]}


def windows(p: Json, xs: Sequence[Shape], shape: Shape) -> tuple[Json, list[Any]]:
    """
    The properties of an op on windows, as those of one without; and of each operand where its
    windows are: what `look` is told, and the shape that comes of it, or None for a plain operand.
    """
    (words, result), sizes, looks, flat = _words(p), _sizes(p, xs, shape), list[Any](), list[str]()
    for word, x in zip(words, xs, strict=True):
        letters = {c: sizes[c] for axis in _axes(word) for _, c in axis}
        flat.append("".join(letters))
        told = {"offset": 0, "strides": _by_letters(word, x, letters)}
        looks.append(None if flat[-1] == word else (told, list(letters.values())))
    return {**p, "letters": ",".join(flat) + "->" + result}, looks


def cropped(p: Json, x: Shape) -> tuple[Json, list[Any]]:
    """The same of a pad that takes elements away: without those, and which are left."""
    ends = list(zip(p["low"], x, p["high"], strict=True))
    part = [(max(-a, 0), max(min(n, n + b), -a, 0)) for a, n, b in ends]
    if part == [(0, n) for n in x]:
        return p, [None, None]
    offset = sum(a * k for (a, _), k in zip(part, _strides(x), strict=True))
    left = {k: [max(n, 0) for n in p[k]] for k in ("low", "high")}
    told = {"offset": offset, "strides": _strides(x)}
    return {**p, **left}, [(told, [b - a for a, b in part]), None]


def _pad(p: Json, xs: Sequence[Shape], shape: Shape) -> Core:
    strides = _strides(shape)
    offset = sum(a * k for a, k in zip(p["low"], strides, strict=True))
    return "put", {"of": [1, 0], "adds": False, "offset": offset, "strides": strides}


def _indexed(p: Json, x: Shape, at: Sequence[Shape], word: str) -> Json:
    """Where an element is read or written whose place on some axes index tensors say."""
    first, *others = _words(p)[0]
    strides = dict.fromkeys(word, 0)
    by: list[Any] = [None] * len(at)
    for c, size, stride in zip(first, x, _strides(x), strict=True):
        if c.isdigit():
            by[int(c)] = [stride, size, _by_letters(others[int(c)], at[int(c)], word)]
        else:
            strides[c] += stride
    return {"offset": 0, "strides": list(strides.values()), "by": by}


def _gather(p: Json, xs: Sequence[Shape], _: Shape) -> Core:
    return "look", _indexed(p, xs[0], xs[1:], _words(p)[1])


def _scatter(p: Json, xs: Sequence[Shape], _: Shape) -> Core:
    if p["mode"] not in ("add", "set"):
        raise ValueError(p["mode"])
    where = _indexed(p, xs[0], xs[1:-1], _words(p)[1])
    return "put", {"of": [0, len(xs) - 1], "adds": p["mode"] == "add", **where}


def _moving(x: Shape, part: Shape) -> Json:
    """Where a part begins that starts say, as far as it fits."""
    strides = _strides(x)
    triples = zip(strides, x, part, strict=True)
    by = [[stride, n - m + 1, [0] * len(x)] for stride, n, m in triples]
    return {"offset": 0, "strides": strides, "by": by, "clipped": True}


def _scan(p: Json, _xs: Sequence[Shape], _: Shape) -> Core:
    if p["kind"] != "inclusive":
        raise ValueError(p["kind"])
    more = {"axis": p["axis"], "step": 1 if p["direction"] == "forward" else -1}
    return "scan", {"monoid": NUMPY[p["monoid"]], **more}


def _argsort(p: Json, _xs: Sequence[Shape], _: Shape) -> Core:
    if p["order"] != "ascending":
        raise ValueError(p["order"])
    return "argsort", {}


def _sort(_: Json, xs: Sequence[Shape], shape: Shape) -> Core:
    """Of an array, and of how it is sorted."""
    *others, _last = strides = _strides(shape)
    by = [[1, shape[-1], strides]]
    return "look", {"offset": 0, "strides": [*others, 0], "by": by}


_CORES: dict[str, Callable[[Json, Sequence[Shape], Shape], Core]] = {
    **dict.fromkeys(("broadcast", "transpose"), _view),
    **dict.fromkeys(("reshape", "barrier", "share", "divisor", "stop_gradient"), _same),
    **dict.fromkeys(("contract", "conv"), _product),
    **dict.fromkeys(("reduce", "window"), _fold),
    **dict.fromkeys(("concat", "join"), lambda p, _xs, _: ("concat", {"axis": p["axis"]})),
    "slice": _slice,
    "pad": _pad,
    "gather": _gather,
    "scatter": _scatter,
    "dynamic_slice": lambda _, xs, shape: ("look", _moving(xs[0], shape)),
    "dynamic_update": lambda _, xs, shape: (
        "put",
        {"of": [0, 1], "adds": False, **_moving(shape, xs[1])},
    ),
    "scan": _scan,
    "sort": _sort,
    "argsort": _argsort,
    "compare": lambda p, _xs, _: (NUMPY[p["predicate"]], {}),
    "select": lambda _p, _xs, _: ("select", {}),
    "iota": lambda p, _xs, _: ("iota", {"axis": p["axis"]}),
    "size": lambda p, _xs, _: ("constant", {"value": p["dims"][:1]}),
    "constant": lambda p, _xs, _: ("constant", {"value": p["value"]}),
}
