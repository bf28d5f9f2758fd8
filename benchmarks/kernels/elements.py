"""
Sorts, searches, tables and graphs by elements: loops that data end, at places that data say.

SOURCE: Cormen, Leiserson, Rivest, Stein: Introduction to Algorithms.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kernels.model import Arrays, kernel, matrices


@kernel(matrices("n"), 20, 300, scalar=True)
def bubble_sort(x: Any) -> None:
    n = len(x)
    for i in range(n):
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                t = x[j]
                x[j] = x[j + 1]
                x[j + 1] = t


@kernel(matrices("n"), 20, 300, scalar=True)
def selection_sort(x: Any) -> None:
    n = len(x)
    for i in range(n):
        k = i
        for j in range(i + 1, n):
            if x[j] < x[k]:
                k = j
        x[i], x[k] = x[k], x[i]


@kernel(matrices("n"), 20, 1000, scalar=True)
def heap_sort(x: Any) -> None:
    n = len(x)
    for first in range(n // 2 - 1, -1, -1):
        root = first
        while 2 * root + 1 < n:
            child = 2 * root + 1
            if child + 1 < n and x[child] < x[child + 1]:
                child += 1
            if x[root] >= x[child]:
                break
            x[root], x[child] = x[child], x[root]
            root = child
    for end in range(n - 1, 0, -1):
        x[0], x[end] = x[end], x[0]
        root = 0
        while 2 * root + 1 < end:
            child = 2 * root + 1
            if child + 1 < end and x[child] < x[child + 1]:
                child += 1
            if x[root] >= x[child]:
                break
            x[root], x[child] = x[child], x[root]
            root = child


def _counts(rng: np.random.Generator, n: int) -> Arrays:
    return rng.integers(0, 100, n), 100


@kernel(_counts, 20, 10_000, scalar=True)
def counting_sort(x: Any, values: int) -> Any:
    count = np.zeros(values, np.int64)
    for i in range(len(x)):
        count[x[i]] += 1
    out = np.empty_like(x)
    k = 0
    for v in range(values):
        for _ in range(count[v]):
            out[k] = v
            k += 1
    return out


def _sorted(rng: np.random.Generator, n: int) -> Arrays:
    return np.sort(rng.random(n)), np.sort(rng.random(n))


@kernel(_sorted, 20, 5000, scalar=True)
def merged(a: Any, b: Any) -> Any:
    out = np.empty(len(a) + len(b))
    i = 0
    j = 0
    for k in range(len(out)):
        if j >= len(b) or (i < len(a) and a[i] <= b[j]):
            out[k] = a[i]
            i += 1
        else:
            out[k] = b[j]
            j += 1
    return out


@kernel(_sorted, 20, 1000, scalar=True)
def binary_search(sought: Any, table: Any) -> Any:
    out = np.zeros(len(sought), np.int64)
    for t in range(len(sought)):
        low = 0
        high = len(table)
        while low < high:
            mid = (low + high) // 2
            if table[mid] < sought[t]:
                low = mid + 1
            else:
                high = mid
        out[t] = low
    return out


@kernel(matrices("nn"), 6, 100, scalar=True)
def largest_place(x: Any) -> Any:
    best = x[0, 0]
    row = 0
    column = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > best:
                best = x[i, j]
                row = i
                column = j
    return best, row, column


def _chain(rng: np.random.Generator, n: int) -> Arrays:
    return (rng.integers(1, 30, n + 1),)


@kernel(_chain, 8, 60, scalar=True)
def matrix_chain(size: Any) -> Any:
    n = len(size) - 1
    cost = np.zeros((n, n), np.int64)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cost[i, j] = 1 << 60
            for k in range(i, j):
                found = cost[i, k] + cost[k + 1, j] + size[i] * size[k + 1] * size[j + 1]
                if found < cost[i, j]:
                    cost[i, j] = found
    return cost[0, n - 1]


def _letters(rng: np.random.Generator, n: int) -> Arrays:
    return rng.integers(0, 4, n), rng.integers(0, 4, n)


@kernel(_letters, 12, 200, scalar=True)
def smith_waterman(a: Any, b: Any) -> Any:
    score = np.zeros((len(a) + 1, len(b) + 1))
    best = 0.0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            same = 2.0 if a[i - 1] == b[j - 1] else -1.0
            v = max(0.0, score[i - 1, j - 1] + same, score[i - 1, j] - 1.0, score[i, j - 1] - 1.0)
            score[i, j] = v
            if v > best:
                best = v
    return best


def _text(rng: np.random.Generator, n: int) -> Arrays:
    return rng.integers(0, 3, n), rng.integers(0, 3, 4)


@kernel(_text, 30, 5000, scalar=True)
def occurrences(text: Any, pattern: Any) -> Any:
    count = 0
    for i in range(len(text) - len(pattern) + 1):
        hit = True
        for j in range(len(pattern)):
            if text[i + j] != pattern[j]:
                hit = False
                break
        if hit:
            count += 1
    return count


def _board(rng: np.random.Generator, n: int) -> Arrays:
    return (rng.integers(0, 2, (n, n)),)


@kernel(_board, 10, 80, scalar=True)
def game_of_life(board: Any) -> Any:
    n, m = board.shape
    out = np.zeros_like(board)
    for i in range(n):
        for j in range(m):
            s = 0
            for di in range(-1, 2):
                for dj in range(-1, 2):
                    if di != 0 or dj != 0:
                        s += board[(i + di) % n, (j + dj) % m]
            if s == 3 or (s == 2 and board[i, j] == 1):
                out[i, j] = 1
    return out


def _graph(rng: np.random.Generator, n: int) -> Arrays:
    count = rng.integers(1, 6, n)
    start = np.concatenate(([0], np.cumsum(count)))
    target = rng.integers(0, n, int(start[-1]))
    target[start[:-1]] = (np.arange(n) + 1) % n  # a ring, so that all is reached
    return start, target


@kernel(_graph, 20, 3000, scalar=True)
def breadth_first(start: Any, target: Any) -> Any:
    n = len(start) - 1
    distance = np.full(n, -1)
    queue = np.zeros(n, np.int64)
    distance[0] = 0
    head, tail = 0, 1
    while head < tail:
        u = queue[head]
        head += 1
        for k in range(start[u], start[u + 1]):
            v = target[k]
            if distance[v] < 0:
                distance[v] = distance[u] + 1
                queue[tail] = v
                tail += 1
    return distance


def _pairs(rng: np.random.Generator, n: int) -> Arrays:
    return rng.integers(0, n, (n, 2)), n


@kernel(_pairs, 20, 3000, scalar=True)
def union_find(pairs: Any, n: int) -> Any:
    parent = np.arange(n)
    for k in range(len(pairs)):
        a = pairs[k, 0]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        b = pairs[k, 1]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        parent[a] = b
    return parent


def _numbers(_: np.random.Generator, n: int) -> Arrays:
    return (np.arange(1, n),)


@kernel(_numbers, 20, 1000, scalar=True)
def collatz(number: Any) -> Any:
    longest = 0
    for i in range(len(number)):
        x = number[i]
        steps = 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            steps += 1
        if steps > longest:
            longest = steps
    return longest


@kernel(matrices("n"), 20, 10_000, scalar=True)
def running_sum(x: Any) -> Any:
    out = np.empty_like(x)
    out[0] = x[0]
    for i in range(1, len(x)):
        out[i] = out[i - 1] + x[i]
    return out


def _limit(_: np.random.Generator, n: int) -> Arrays:
    return (n,)


@kernel(_limit, 50, 20_000, scalar=True)
def primes(limit: int) -> Any:
    prime = np.ones(limit + 1, np.bool_)
    for i in range(2, limit + 1):
        if prime[i]:
            for j in range(i * i, limit + 1, i):
                prime[j] = False
    return prime


def _islands(rng: np.random.Generator, n: int) -> Arrays:
    return ((rng.random((n, n)) < 0.5).astype(np.int64),)


@kernel(_islands, 4, 60, scalar=True)
def islands(land: Any) -> Any:
    n, m = land.shape
    seen = np.zeros((n, m), np.int64)
    count = 0
    for i in range(n):
        for j in range(m):
            if land[i, j] == 1 and seen[i, j] == 0:
                count += 1
                stack = [(i, j)]
                while stack:
                    y, x = stack.pop()
                    if y < 0 or x < 0 or y >= n or x >= m:
                        continue
                    if seen[y, x] == 1 or land[y, x] == 0:
                        continue
                    seen[y, x] = 1
                    stack.append((y + 1, x))
                    stack.append((y - 1, x))
                    stack.append((y, x + 1))
                    stack.append((y, x - 1))
    return count
