"""
Calls that go over many items, lists that are taken apart, keys, queues and classes, as users write
them: NumPy says what the compiled ones give, and of which class.
"""
# pyright: basic, reportArgumentType=false
# ruff: noqa: B007, B905, C416, C417, RUF007

from __future__ import annotations

import bisect
from collections import deque
from typing import Any

import numpy as np

from tests.effect_programs import Programs, collecting

MANY_ITEMS: Programs = {}
program = collecting(MANY_ITEMS)
LONG = np.random.default_rng(0).standard_normal(40)
SHORT = LONG[:7]
HOLE = np.where(np.arange(40) == 3, np.nan, LONG)
HOLE_FIRST = np.where(np.arange(40) == 0, np.nan, LONG)
LABELS = np.random.default_rng(1).integers(0, 6, 45)
both = program((LONG,), (SHORT,), (np.concatenate([LONG, LONG]),))


@program((LONG,), (HOLE,), (HOLE_FIRST,), (SHORT,))
def extrema(x: Any) -> Any:
    place = max(enumerate(x), key=lambda pair: pair[1])[0]
    return max(x), min(x), max(v for v in x), max(x, key=abs), place


@program((LABELS,), (LONG,), (LABELS.astype("u1"),), (LABELS > 3,), (LONG.astype("f4"),))
def sums(x: Any) -> Any:
    counts = sum(v > 0 for v in x), sum(1 for v in x), sum(map(int, x)), sum(map(bool, x))
    return sum(x), sum(x, 10), any(x), all(x), any(v > 1 for v in x), counts


@both
def lists(x: Any) -> Any:
    pairs = list(enumerate(x)), list(zip(x, x[1:])), list(map(float, x)), list(reversed(x))
    return (
        list(x),
        x.tolist(),
        sorted(x),
        sorted(x, reverse=True),
        list(filter(lambda v: v > 0, x)),
        pairs,
    )


@both
def orders(x: Any) -> Any:
    L = list(x)
    L.sort(key=abs, reverse=True)
    least = min(zip(x, x**2)), min(range(len(x)), key=lambda i: x[i])
    return L, sorted(x, key=lambda v: (v > 0, v)), sorted(range(len(x)), key=lambda i: x[i]), least


@both
def mapped(x: Any) -> Any:
    out = np.zeros(len(x))
    for i, v in enumerate(map(lambda v: v * 2, x)):
        out[i] = v
    for i, (a, b) in enumerate(zip(map(np.sin, x), x)):
        out[i] += a * b
    return out, [v for v in map(max, x, x[::-1])], dict(zip("abc", map(float, x)))


@both
def each_when_it_is_asked_for(x: Any) -> Any:
    def shown(v: Any) -> Any:
        print(f"{v:.3f}")
        return v

    for y in map(shown, x[:4]):
        if y > 0:
            break
    return y


@both
def taken_apart(x: Any) -> Any:
    kept = [v for v in x if v > -1]
    a, b, *rest = kept
    c, *_, d = sorted(kept)
    e, f = kept[:2]
    p = q = 0.0
    for p, q in [(v, v + 1) for v in x if v > 0]:
        pass
    return a, b, len(rest), rest, c, d, e - f, [*kept, 1.0], p, q


@program((LONG,), (LONG[:3],), (LONG[:1],))
def too_few(x: Any) -> Any:
    a, b = [v for v in x if v > 0.5][:2]
    return a, b


@both
def spliced(x: Any) -> Any:
    kept = [v for v in x if v > 0]
    kept[1:2] = [7.0, 8.0]
    kept[3:] = x[:2]
    kept.extend(x)
    return kept


@both
def latest(x: Any) -> Any:
    recent, marked, sums = deque(maxlen=3), deque([0.0], maxlen=2), []
    for v in x:
        recent.append(v)
        sums.append(sum(recent) / len(recent))
        if v > 0:
            marked.append(v)
    marked.appendleft(5.0)
    return sums, list(recent), len(marked), list(marked)


@both
def inserted_in_order(x: Any) -> Any:
    held: list[Any] = []
    for v in x:
        bisect.insort(held, v)
    return held, bisect.bisect(held, 0.0)


@program((LABELS, 1), (LABELS, 2))
def keys_of_arguments(x: Any, n: Any) -> Any:
    table = {0: x[0], 1: x[1], 2: x[2]}
    table[n] = table[n] * 2
    return table.get(n, 0), table.get(7, 5), n in table, len({n, n + 0, 1}), dict.fromkeys([n], 0)


@both
def truths(x: Any) -> Any:
    n, kept = 0, []
    for v in x:
        if bool(v > 0) and not bool(v > 3):
            n += 1
            kept.append(v)
    return (
        n,
        bool(n),
        bool(x[0]),
        bool(kept),
        bool(np.any(x > 2)),
        list(map(bool, x)),
        any([0, x[0]]),
    )


@program((np.float64(3.0),), (np.array(2.0),), (np.ones(3),), (2.0,), (3,), (np.int32(3),))
def classes(x: Any) -> Any:
    return (
        isinstance(x, np.ndarray),
        isinstance(x, float),
        isinstance(x, np.generic),
        type(x).__name__,
    )


@both
def numbers_of_python(x: Any) -> Any:
    n = len(x)
    return np.allclose(x, x), np.array_equal(x, x[:2]), np.array_equiv(x, x), round(n / 7, 2)


@program((LABELS,), (LABELS + 3,))
def sizes_of_labels(y: Any) -> Any:
    k = y.max() + 1
    counts = np.zeros(k, dtype=int)
    for v in y:
        counts[v] += 1
    weights = np.bincount(y, weights=y * 0.5) / np.maximum(np.bincount(y), 1)
    return counts, np.eye(k)[y], np.arange(k), np.full((2, k), 0.5), weights, np.arange(y.min() - 9)


@program((LABELS,), (LABELS - 9,))
def no_size(y: Any) -> Any:
    return np.ones(y.max())


class Moments:
    """Sums that are read through properties."""

    def __init__(self, n: int) -> None:
        self.m = np.zeros(n) + 2
        self.scale = 2.0

    @property
    def norm(self) -> float:
        return float(np.linalg.norm(self.m))

    @property
    def turned(self) -> Any:
        if self.m[0] > 1:
            return self.m * self.scale
        return -self.m


@program((Moments(7), SHORT), (Moments(7), SHORT * 3))
def properties(moments: Any, x: Any) -> Any:
    before = moments.norm
    moments.m = moments.m * 0.9 + x
    return before, moments.norm, moments.turned


@program((np.ones((3, 4)) * LONG[:4], LONG[:3]), (np.ones((2, 4)) * LONG[:4], LONG[1:3]))
def averages(a: Any, w: Any) -> Any:
    return np.average(a, axis=0, weights=w), np.average(a, axis=1, weights=a[0] ** 2)


@program((np.random.default_rng(3).integers(0, 9, (8, 2)), 9), (np.array([[0, 1], [2, 1]]), 3))
def roots_of_trees(edges: Any, n: int) -> Any:
    parent = list(range(n))

    def find(v: Any) -> Any:
        while parent[v] != v:
            parent[v] = parent[parent[v]]
            v = parent[v]
        return v

    for a, b in edges:
        if find(a) != find(b):
            parent[find(b)] = find(a)
    return [find(k) for k in range(n)], sum(find(k) for k in range(n)), np.array(parent)
