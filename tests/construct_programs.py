"""
Each construct of Python's that is staged, in a function of a vector that gives one number. Where
they are differentiable they are so at `POINTS`, and everything depends on the elements.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportPossiblyUnboundVariable=false
# ruff: noqa: PERF401 - as users write it

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Constructs = dict[str, Callable[[Any], Any]]
CONSTRUCTS: Constructs = {}
POINTS = (
    np.array([0.6, -1.3, 2.2, 0.4, -0.7, 1.1]),
    np.array([-0.8, 0.9, 0.35, 1.7, -2.1, 0.2]),
    np.array([2.4, 1.2, -0.3, -1.6, 0.5, 0.75]),
)


def collecting(constructs: Constructs) -> Callable[..., Any]:
    """A decorator that adds to them."""

    def construct(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        constructs[function.__name__] = function
        return function

    return construct


construct = collecting(CONSTRUCTS)


@construct
def if_elif_else(x: Any) -> Any:
    if x[0] > 1:
        y = x[0] * x[1]
    elif x[0] > 0:
        y = np.sin(x[1])
    else:
        y = x[2] ** 2
    return y + x[3]


@construct
def while_test(x: Any) -> Any:
    t = abs(x[0]) + 0.5
    while t < 10 and x[1] < 5:
        t = t * (1.3 + 0.1 * x[1] ** 2)
    return t


@construct
def while_true_return(x: Any) -> Any:
    s, k = x[0], 1.0
    while True:
        s = s + x[1] ** 2 / k
        k = k * 2
        if k > 20 or s > 3:
            return s * x[2]


@construct
def while_true_break(x: Any) -> Any:
    s, k = x[0], 0
    while True:
        s = s * 0.5 + x[k % 6]
        k += 1
        if s > 1.5 or k > 9:
            break
    else:
        s = s * 100
    return s * k


@construct
def for_range(x: Any) -> Any:
    s = 0
    for i in range(1, x.shape[0], 2):
        s = s * 0.5 + x[i] * x[i - 1]
    for i in range(4, -1, -2):
        s = s + x[i] * i
    return s


@construct
def for_enumerate(x: Any) -> Any:
    s = 0.0
    for k, v in enumerate(x, 1):
        if v > 0:
            s += v * v / k
    return s


@construct
def for_zip(x: Any) -> Any:
    s = 0.0
    for a, b in zip(x, x[1:], strict=False):  # noqa: RUF007 - not itertools here
        s += a * b if a < b else a - b
    return s


@construct
def for_reversed(x: Any) -> Any:
    s = 1.0
    for v in reversed(x):
        s = np.tanh(s) + v
    for i in reversed(range(3)):
        s = s * 0.5 + x[i]
    return s


@construct
def for_array(x: Any) -> Any:
    s = 0.0
    for row in x[:, None] * x[None, :]:
        if row.sum() > 0:
            s = s + row[0] * row[1]
    return s


@construct
def break_and_else(x: Any) -> Any:
    s = 0.0
    for v in x:
        if v < -0.5:
            s = s * 2
            break
        s += v * v
    else:
        s = s * 3
    return s + x[5] ** 2


@construct
def continues(x: Any) -> Any:
    s = 0.0
    for v in x:
        if v < 0:
            continue
        s += np.sqrt(v)
    return s


@construct
def early_return(x: Any) -> Any:
    for i in range(len(x)):
        if x[i] > 2:
            return x[i] * i + x[0]
        for j in range(i):
            if x[i] * x[j] < -2.5:
                return x[i] - x[j]
    return x.sum() ** 2


@construct
def and_or_not(x: Any) -> Any:
    y = x[1]
    if (x[0] > 0 and not x[2] < 0) or x[3] > 1:
        y = y * x[0]
    chosen = x[4] ** 2 and x[0]
    return y * y + (chosen or x[5])


@construct
def contained(x: Any) -> Any:
    s = x[0] ** 2
    k = int(x[2] > 0) + int(x[3] > 0)
    if k in (0, 2):
        s = s * x[1]
    if 1.7 not in x:
        s = s + x[5]
    return s


@construct
def chained(x: Any) -> Any:
    s = 0.0
    for v in x:
        if -1 < v <= 1 < abs(v) + 0.9:
            s += v**3
    return s


@construct
def conditional(x: Any) -> Any:
    s = x[1] if x[0] > 0 else np.exp(x[2])
    return s * (x[3] if x[4] > 0 else 2.0 if x[5] > 1 else x[5])


@construct
def comprehensions(x: Any) -> Any:
    squares = [v * v if v > 0 else -v for v in x]
    table = {k: v * k for k, v in enumerate(squares)}
    return np.array(squares).sum() + table[2] * table[3]


@construct
def generators(x: Any) -> Any:
    s = sum(v * v for v in x) + max(v * 0.5 for v in x) - min(abs(v) for v in x)
    if any(v > 2 for v in x) and not all(v > -2 for v in x[:5]):
        s = s * x[0]
    return s


@construct
def filtered(x: Any) -> Any:
    s = sum(v * v for v in x if v > 0) + sum(1 for v in x if v < 0)
    if any(v > 2 for v in x if v != 0):
        s = s * max(v for v in x if v < 3)
    return s


@construct
def asserted(x: Any) -> Any:
    assert x[0] < 9, f"x[0] is {x[0]}"
    s = 0.0
    for v in x:
        assert v > -9
        s += v * x[0]
    return s


@construct
def raised(x: Any) -> Any:
    s = 0.0
    for k, v in enumerate(x):
        if v > 100:
            raise ValueError(f"element {k} is {v:.2f}")
        s += v**3
    return s


@construct
def error_states(x: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        s = np.log(x[0]) if x[0] > 0 else x[0] ** 2
    return s * x[1]


@construct
def tried(x: Any) -> Any:
    s = x[0]
    try:
        if x[1] > 0:
            s = s * x[2]
    except ZeroDivisionError:
        s = s * 0
    finally:
        s = s + x[3] ** 2
    return s


@construct
def matched(x: Any) -> Any:
    s = x[0] ** 2
    match x.ndim:
        case 1 if x[1] is not None:
            s = s * x[1]
        case 2 | 3:
            s = s + 1
        case _:
            s = s + 2
    return s


@construct
def slices(x: Any) -> Any:
    y = x * 1.0
    s = 0.0
    for i in range(1, len(x)):
        y[i] = y[i] - y[:i] @ x[:i] * 0.25
        s = s + x[i:].sum() * y[i - 1 : i + 1].sum()
    return s + y.sum()


@construct
def appended(x: Any) -> Any:
    rows: list[Any] = []
    for i in range(6):
        rows.append(x * x[i] if i % 2 else x + 1)
    stacked = np.stack(rows)
    return (stacked.sum(0) ** 2).sum() + stacked[2, 3]


@construct
def appended_when_run(x: Any) -> Any:
    path = [x[0]]
    for _ in range(5):
        path.append(np.sin(path[-1]) if path[-1] > 0.3 else path[-1] + 0.5 * x[1] ** 2)
    return np.array(path).sum() * x[2]


@construct
def dictionaries(x: Any) -> Any:
    state: dict[str, Any] = {"m": x * 0.0, "v": 1.0, "n": 0}
    for v in x:
        if v < 1.5:
            state["m"] = state["m"] * 0.9 + v * x
            state["v"] *= 1.1
            state["n"] += 1
    return (state["m"] ** 2).sum() * state["v"] + state["n"]


class Counter:
    """Something with attributes."""

    def __init__(self, x: Any) -> None:
        self.total = x
        self.steps = 0

    def add(self, v: Any) -> None:
        """A method that updates the object."""
        if v > 0:
            self.total = self.total * 0.5 + v
            self.steps += 1


@construct
def attributes(x: Any) -> Any:
    counter = Counter(x[0] ** 2)
    for v in x:
        counter.add(v)
    return counter.total * (1 + counter.steps)


@construct
def element_stores(x: Any) -> Any:
    d = np.zeros(6)
    d[0] = x[0]
    for i in range(1, 6):
        if d[i - 1] > 1:
            d[i] = d[i - 1] * 0.5
        else:
            d[i] = np.sin(d[i - 1]) + x[i]
        d[i - 1] *= 2
    return (d * d).sum()


@construct
def tables(x: Any) -> Any:
    d = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            if i == 0 or j == 0:
                d[i, j] = x[i] * x[j]
            else:
                d[i, j] = max(d[i - 1, j], d[i, j - 1]) + 0.1 * d[i - 1, j - 1] * x[j]
    return d[5, 5] + d[2, 3]


@construct
def row_stores(x: Any) -> Any:
    d = np.zeros((4, len(x)))
    for i in range(4):
        d[i] = x * x[i]
        d[i, 1:3] += 1
        if x[i] > 0:
            d[i] *= d[i - 1] + 0.5
    return (d**2).sum()


@construct
def masks(x: Any) -> Any:
    y = x * x
    y[x > 1] = 0.5
    y[x < 0] += x[0]
    return (y * x).sum() + x[x > 0].sum()


@construct
def nested_exits(x: Any) -> Any:
    s, k = 0.0, 0
    while k < 3:
        k += 1
        for v in x:
            if v * k > 2:
                break
            if v < -1:
                continue
            s += v * v * k
        else:
            s = s + x[0]
        if s > 12:
            return s * x[1]
    return s


@construct
def carried_types(x: Any) -> Any:
    s: Any = 0
    best: Any = None
    for v in x:
        s = s + v * v
        if best is None or v > best:
            best = v
    return s * best


@construct
def swaps(x: Any) -> Any:
    a, b = x[0], x[1]
    L = [x[2], x[3]]
    for _ in range(4):
        if a > b:
            a, b = b, a * 0.9
        L[0], L[1] = L[1], L[0] + a
        b = b * 0.7
    return a * b + L[0] * L[1]
