"""Lists of which only the compiled function knows how long they are, and what is done with them."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# ruff: noqa: PERF401 - as users write it

from __future__ import annotations

import bisect
import heapq
from collections import deque
from typing import Any

import numpy as np

from tests.staged_programs import PROGRAMS, V, f64, i64, program

__all__ = ["PROGRAMS"]

X = V([0.3, -1.2, 0.7, 2.0, -0.1])
"""Half of its elements are positive, and not half of those of -X."""


@program((X,), (-X,), (V([-1.0]),))
def positives(x: Any) -> Any:
    found = []
    for v in x:
        if v > 0:
            found.append(v)
    return found


@program((X,), (-X,))
def all_methods(x: Any) -> Any:
    found = [0.5]
    for v in x:
        if v > 0:
            found.append(v)
    found.extend([1.5, 2.5])
    found += [0.25]
    found[1] = 9.0
    found.insert(1, 7.0)
    last = found.pop()
    first = found.pop(0)
    found.reverse()
    part = found[:2]
    part.sort()
    del found[0]
    return found, part, last, first, len(found), 1.5 in found, found[-1], found.index(1.5)


@program((X,), (-X,))
def segments(x: Any) -> Any:
    found = []
    start = None
    for i, v in enumerate(x):
        if v > 0 and start is None:
            start = i
        elif v <= 0 and start is not None:
            found.append((start, i))
            start = None
    return found


class Best:
    """An object whose list grows."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def update(self, v: Any) -> None:
        """Keeps what is less than the last."""
        if not self.seen or v < self.seen[-1]:
            self.seen.append(v)


@program((X,), (-X,))
def attributes_that_grow(x: Any) -> Any:
    best = Best()
    for v in x:
        best.update(v)
    return best.seen


@program(([0.5], X), ([], -X))
def arguments_that_grow(kept: Any, x: Any) -> Any:
    for v in x:
        if v > 0:
            kept.append(v)
    return len(kept)


@program((X, f64(0.7)), (X, f64(0.8)))
def removed(x: Any, t: Any) -> Any:
    found = []
    for v in x:
        if v > 0:
            found.append(v)
    found.remove(t)
    return found


@program((X,), (-X,))
def tuples_of_numbers(x: Any) -> Any:
    found = []
    for i, v in enumerate(x):
        if v > 0:
            found.append((i, v))
    total = 0.0
    for i, v in found:
        total += i * v
    return found, total


@program((V([3, 1, 2, 5, 4]),), (V([1, 2]),), (V([2, 2, 1]),))
def quicksort(a: Any) -> Any:
    a = a.copy()
    stack = [(0, len(a) - 1)]
    while stack:
        low, high = stack.pop()
        if low >= high:
            continue
        i = low - 1
        for j in range(low, high):
            if a[j] <= a[high]:
                i += 1
                a[i], a[j] = a[j], a[i]
        a[i + 1], a[high] = a[high], a[i + 1]
        stack.append((low, i))
        stack.append((i + 2, high))
    return a


@program((X,), (-X,))
def breadth_first(x: Any) -> Any:
    queue = deque([0])
    seen = [False] * 5
    order = []
    while queue:
        k = queue.popleft()
        order.append(k)
        for j in range(5):
            if not seen[j] and x[j] > x[k]:
                seen[j] = True
                queue.append(j)
    return order


@program((X, f64(0.5)), (X, f64(9.0)))
def popped_from_none(x: Any, t: Any) -> Any:
    found = []
    for v in x:
        if v > t:
            found.append(v)
    return found.pop()


@program((X, f64(0.5)), (X, f64(9.0)))
def comprehensions(x: Any, t: Any) -> Any:
    found = [v * 2 for v in x if v > t]
    total = sum(v for v in x if v > t) + f64(0)
    known = any(v > 1 for v in x if v > t), all(v > 1 for v in x if v > t)
    return found, total, known, len([1 for v in x if v < t]), min([v for v in x if v < t])


@program((X,), (-X,))
def generator(x: Any) -> Any:
    def kept(values: Any) -> Any:
        for k, v in enumerate(values):
            if v > 0:
                yield k

    return list(kept(x)), sum(kept(x))


@program((V([3, 1, 2, 5, 4]), i64(2)), (V([0, 0, 0, 0, 5]), i64(0)))
def places_by_values(a: Any, k: Any) -> Any:
    table = [0, 0, 0, 0, 0, 0]
    for v in a:
        table[v] = table[v] + 1
    return table, [10, 20, 30][k]


@program((X,), (-X,))
def orders(x: Any) -> Any:
    values = list(x)
    ordered = sorted(values, key=lambda v: v * v, reverse=True)
    best, at = max((v, k) for k, v in enumerate(x))
    where = min(range(5), key=lambda k: x[k])
    values.sort()
    bisect.insort(values, f64(0.5))
    return ordered, best, at, where, values, bisect.bisect_left(values, f64(0.1))


@program((X,), (-X,))
def heap(x: Any) -> Any:
    found = []
    for k, v in enumerate(x):
        if v > -1:
            heapq.heappush(found, (v, k))
    order = []
    while found:
        order.append(heapq.heappop(found)[1])
    return order


@program((X, i64(0)), (X, i64(-1)))
def of_one_element(x: Any, k: Any) -> Any:
    arrays, smallest, ordered = [x], [x[0]], [x[1]]
    first = arrays[k]
    arrays[k] = first + 1
    heapq.heappush(smallest, x[2])
    bisect.insort(ordered, x[3])
    bisect.insort(ordered, x[4])
    return first, arrays[0], heapq.heappop(smallest), ordered


@program((X, i64(2)), (X, i64(7)), (X, i64(-9)))
def caught(x: Any, k: Any) -> Any:
    x[0] = 5.0
    try:
        return x[k]
    except IndexError:
        return f64(-1)


@program((X, i64(2)), (X, i64(-2)), (X, i64(9)))
def slices_by_values(x: Any, k: Any) -> Any:
    y = x.copy()
    y[:k] += 1
    y[k:] = 0
    return x[k:], x[:k].sum(), y, x[k::2]


@program((V([1.0, 2.0, 3.0, 4.0]), V([True, False, True, True])), (V([1.0]), V([False])))
def sizes_by_masks(x: Any, m: Any) -> Any:
    x[m] = np.arange(m.sum())
    return x, np.zeros(m.sum()) + x[m]


@program((X,), (-X,), (V([-1.0, -2.0]),))
def places(x: Any) -> Any:
    found, y, table = [], x.copy(), np.outer(x, x)
    for k in range(len(x)):
        if x[k] > 0:
            found.append(k)
    y[found] += 1
    table[found, 0] = 5.0
    return x[found], y, table[found], table[0, found]


@program((X,), (-X,), (V([-1.0, -2.0]),))
def from_a_generator(x: Any) -> Any:
    return np.fromiter((v * 2 for v in x if v > 0), float), np.fromiter(map(abs, x), np.float32)
