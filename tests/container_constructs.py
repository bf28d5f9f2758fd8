"""
Constructs of containers, calls, classes, generators and patterns, and of sizes that data decide. As
in construct_programs.py.
"""

# pyright: basic, reportPossiblyUnboundVariable=false, reportAttributeAccessIssue=false
# ruff: noqa: B905, C417, E731

from __future__ import annotations

import functools
import itertools
from collections import deque
from typing import Any

import numpy as np

from tests.construct_programs import Constructs, collecting

CONSTRUCTS: Constructs = {}
construct = collecting(CONSTRUCTS)


@construct
def attribute_stores(x: Any) -> Any:
    class Box:
        pass

    box = Box()
    box.s, box.items = x[0], [x[1], x[2]]
    for v in x:
        if v > 0:
            box.s = box.s * 0.5 + v
        else:
            box.items[0] = box.items[0] + v
        box.items[1] *= 0.9
    return box.s * box.items[0] + box.items[1]


@construct
def dict_new_keys(x: Any) -> Any:
    d = {}
    for k in range(6):
        d[k] = x[k] * (k + 1)
    d["sum"] = sum(d.values())
    for k in (1, 3):
        d[k] = d.get(k, 0) + x[0]
    if x[0] > 0:
        d["sum"] = d["sum"] * 2
    return d["sum"] + d[1] * d[3] + len(d)


@construct
def dict_key_if(x: Any) -> Any:
    d = {"a": x[0] ** 2}
    if x[1] > 0:
        d["b"] = x[2]
    else:
        d["b"] = x[3] * 2
    return d["a"] * d["b"]


@construct
def dict_iteration(x: Any) -> Any:
    p = {"w": x[:3], "b": x[3:]}
    s = 0.0
    for name, value in p.items():
        s = s + (value**2).sum() * (2 if name == "w" else 1)
    q = {k: v * x[0] for k, v in p.items()}
    p.update(b=q["w"] * 2)
    return s + (p["b"] * q["b"]).sum()


@construct
def nested_functions(x: Any) -> Any:
    total = x[0]

    def add(v):
        nonlocal total
        if v > 0:
            total = total * 0.5 + v
        return total

    for v in x:
        add(v * x[1])
    return total + add(x[2] ** 2)


@construct
def recursion(x: Any) -> Any:
    def tree(lo, hi):
        if hi - lo == 1:
            return x[lo] ** 2
        mid = (lo + hi) // 2
        return tree(lo, mid) * 0.5 + tree(mid, hi)

    return tree(0, 6)


@construct
def generator_function(x: Any) -> Any:
    def pairs(v):
        for i in range(5):
            yield v[i] * v[i + 1]

    s = 0.0
    for p in pairs(x):
        s = s + p if p > 0 else s - p * 0.5
    return s + sum(pairs(x * x[0]))


@construct
def starred(x: Any) -> Any:
    first, *rest, last = x

    def f(a, *args, scale=1.0, **kw):
        return a * scale + sum(args) * kw.get("w", 2.0)

    s = f(first, *rest, scale=last)
    a, (b, c), d = x[0], (x[1], x[2]), x[3]
    return s + f(a, b, c, w=d)


@construct
def lambdas(x: Any) -> Any:
    fs = [lambda v: v * 2, lambda v: v**2, np.sin]
    s = x[0]
    for f in fs:
        s = f(s) + x[1]
    g = lambda a, b=x[2]: a * b
    return g(s) if x[3] > 0 else -g(s, x[4])


@construct
def maps_filters(x: Any) -> Any:
    s = sum(map(lambda v: v**3, x)) + max(map(abs, x))
    for a, b in zip(map(np.sin, x), reversed(x)):
        s = s + a * b
    sums = list(itertools.accumulate(x, lambda a, b: a * 0.9 + b))
    return s + functools.reduce(lambda a, b: a * 0.5 + b, x) + sums[-1] * sums[2]


@construct
def list_methods(x: Any) -> Any:
    L = list(x)
    L.insert(0, x[0] * x[1])
    L.extend([x[2] ** 2, x[3]])
    last = L.pop()
    L.reverse()
    s = last
    for k, v in enumerate(L):
        if v > 0:
            s = s + v * (k + 1)
    L[1:3] = [x[4] * 3]
    return s * len(L) + L[1] + L[-1]


@construct
def popped(x: Any) -> Any:
    stack = [x[0]]
    s = 0.0
    k = 0
    while stack and k < 12:
        v = stack.pop()
        k += 1
        s = s + v * v
        if v > 0.5:
            stack.append(v * 0.5)
            stack.append(v - x[1] ** 2)
    return s + k


@construct
def tuple_state(x: Any) -> Any:
    state = (x[0], 1.0, 0)
    for v in x[1:]:
        a, b, n = state
        state = (a * 0.5 + v, b * 1.1, n + 1) if v > 0 else (a, b - 0.1 * v, n)
    return state[0] * state[1] + state[2]


@construct
def nested_lists(x: Any) -> Any:
    grid = [[x[i] * x[j] for j in range(3)] for i in range(3)]
    grid[1][2] = grid[0][0] + 1
    s = 0.0
    for row in grid:
        for v in row:
            if v > 0:
                s = s + v
    A = np.array(grid)
    return s + np.trace(A @ A)


@construct
def comprehension_nested(x: Any) -> Any:
    s = sum(a * b for i, a in enumerate(x) for j, b in enumerate(x) if i < j)
    t = [v for v in x if v > 0]
    return s + sum(t) + len(t) + {k: v * 2 for k, v in zip("abc", x)}["b"] + sum({1, 2})


@construct
def isinstance_shape(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.ndim == 1 and len(x) > 2 and x.dtype == np.float64:
        y = x.reshape(2, -1)
    else:
        y = x
    return (y[0] * y[1]).sum() * x.shape[0]


@construct
def matched_tuple(x: Any) -> Any:
    def apply(op, v):
        match op:
            case ("scale", k):
                return v * k
            case ("shift", k) if k > 0:
                return v + k
            case {"pow": p}:
                return v**p
            case [*_]:
                return v * 0
            case _:
                return -v

    s = x[0]
    for op in (("scale", x[1]), ("shift", 2.0), {"pow": 2}, "neg", ("shift", -1.0)):
        s = apply(op, s) + x[2]
    return s


@construct
def grown_concatenate(x: Any) -> Any:
    y = x[:1] ** 2
    for i in range(1, 6):
        y = np.concatenate([y, y[-1:] * 0.5 + x[i]])
    return (y * y).sum()


@construct
def data_sizes(x: Any) -> Any:
    y = x[x > 0]
    if y.size > 2:
        s = y.sum() * x[0]
    else:
        s = (y**2).mean()
    i = np.flatnonzero(x < 1)
    return s + x[i].max() + np.sort(y)[-1]


@construct
def over_many(x: Any) -> Any:
    y = np.concatenate([x, x * 0.5, x[:3], x**2, x, x, x])
    s = sum(y) * 0.1 + max(y) - min(y) + sorted(y)[2]
    best, place = max(zip(y, range(100)), key=lambda pair: pair[0])
    L = list(map(lambda a, b: a * b, y, reversed(y)))
    kept = list(filter(lambda v: v > 0.53, y))
    L.sort(key=abs)
    return s + best * (place + 1) + L[3] * L[-1] + sum(kept) * any(v > 2 for v in y)


@construct
def taken_apart(x: Any) -> Any:
    positive = [v for v in x if v > -0.5]
    first, *rest, last = positive
    (a, b), c = (first, last), rest[0]
    pairs = [(v, v * v) for v in x if v > 0]
    for p, q in pairs:
        c = c + p * q
    return a * b + c + len(rest) + [*rest, x[0]][-1]


@construct
def queues(x: Any) -> Any:
    recent = deque(maxlen=2)
    s = 0.0
    for v in x:
        if v > -1:
            recent.append(v)
        s = s + sum(recent) * 0.5 + len(recent)
    recent.appendleft(x[0])
    return s * recent[0] + recent[-1] ** 2


class Scaled:
    def __init__(self, x: Any) -> None:
        self.x = x
        self.calls = 0

    @property
    def size(self) -> Any:
        if self.x[0] > 0:
            return self.x[0] * self.x[1]
        return -self.x[2]

    @classmethod
    def of(cls, x: Any) -> Any:
        return cls(x * 2)

    @staticmethod
    def clipped(v: Any) -> Any:
        return v if v < 1 else 1.0 + 0.1 * v

    def __call__(self, v: Any) -> Any:
        self.calls += 1
        return self.clipped(v) * self.size

    def __getitem__(self, k: Any) -> Any:
        return self.x[k] if self.calls > 1 else self.x[0]

    def __enter__(self) -> Any:
        self.calls += 10
        return self

    def __exit__(self, *_: object) -> None:
        self.x = self.x * 0.5


@construct
def protocols(x: Any) -> Any:
    made = Scaled.of(x)
    s = made[3] + made(x[3])
    with made as same:
        s = s + same(x[4]) * same[2]
    return s * made.size + made.calls


@construct
def known_keys(x: Any) -> Any:
    counts = {}
    for name in "abacab":
        counts[name] = counts.get(name, 0) + 1
    seen = set()
    s = 0.0
    for k, name in enumerate(counts):
        if name not in seen and x[k] > 0:
            s = s + x[k] * counts[name]
        seen.add(name)
    return s + len(seen) * x[0] + counts.setdefault("z", 2) * x[1]
