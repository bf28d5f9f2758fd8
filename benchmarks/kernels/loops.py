"""
Loops over elements, graphs and particles: programs for which users take up numba.

SOURCE: PolyBench/C 4.2 (Floyd-Warshall, Nussinov); textbook algorithms.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kernels.model import Arrays, kernel, matrices

STEPS = 20


@kernel(matrices("nn"), 12, 200)
def floyd_warshall(path: Any) -> None:
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))


@kernel(matrices("nn"), 12, 120, scalar=True)
def floyd_warshall_by_elements(path: Any) -> None:
    n = path.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = min(path[i, j], path[i, k] + path[k, j])


def _bases(rng: np.random.Generator, n: int) -> Arrays:
    return (rng.integers(0, 4, n),)


@kernel(_bases, 12, 80, scalar=True)
def nussinov(sequence: Any) -> Any:
    n = sequence.shape[0]
    table = np.zeros((n, n), np.int64)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < n:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < n:
                if i < j - 1:
                    pair = 1 if sequence[i] + sequence[j] == 3 else 0
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + pair)
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


def _grid(_: np.random.Generator, n: int) -> Arrays:
    return np.linspace(-2.0, 0.6, n), np.linspace(-1.2, 1.2, n)


@kernel(_grid, 12, 200)
def mandelbrot(re: Any, im: Any) -> Any:
    c = re + im[:, None] * 1j
    n = np.zeros(c.shape, np.int64)
    z = np.zeros(c.shape, np.complex128)
    for _ in range(50):
        inside = np.abs(z) < 2.0
        n[inside] += 1
        z[inside] = z[inside] ** 2 + c[inside]
    return n


@kernel(_grid, 12, 200, scalar=True)
def mandelbrot_by_elements(re: Any, im: Any) -> Any:
    out = np.zeros((im.shape[0], re.shape[0]), np.int64)
    for i in range(im.shape[0]):
        for j in range(re.shape[0]):
            c = complex(re[j], im[i])
            z = 0j
            k = 0
            while k < 50:
                if z.real * z.real + z.imag * z.imag > 4.0:
                    break
                z = z * z + c
                k += 1
            out[i, j] = k
    return out


def _particles(rng: np.random.Generator, n: int) -> Arrays:
    return rng.random((n, 1)) / n, rng.standard_normal((n, 3)), rng.standard_normal((n, 3))


def _acceleration(position: Any, mass: Any) -> Any:
    x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    weight = (dx**2 + dy**2 + dz**2 + 0.01) ** (-1.5)
    return np.hstack(((dx * weight) @ mass, (dy * weight) @ mass, (dz * weight) @ mass))


@kernel(_particles, 9, 100)
def nbody(mass: Any, position: Any, velocity: Any) -> Any:
    velocity -= np.mean(mass * velocity, axis=0) / np.mean(mass)
    force = _acceleration(position, mass)
    energy = np.empty(STEPS)
    for t in range(STEPS):
        velocity += force * 0.005
        position += velocity * 0.01
        force = _acceleration(position, mass)
        velocity += force * 0.005
        energy[t] = 0.5 * np.sum(mass * velocity**2)
    return energy


def _rows_of_sparse(rng: np.random.Generator, n: int) -> Arrays:
    count = rng.integers(0, 9, n)
    start = np.concatenate(([0], np.cumsum(count)))
    column = rng.integers(0, n, int(start[-1]))
    return start, column, rng.random(int(start[-1])), rng.random(n)


@kernel(_rows_of_sparse, 15, 4000)
def spmv(start: Any, column: Any, value: Any, x: Any) -> Any:
    y = np.empty(start.size - 1, value.dtype)
    for i in range(start.size - 1):
        a, b = start[i], start[i + 1]
        y[i] = value[a:b] @ x[column[a:b]]
    return y


@kernel(_rows_of_sparse, 15, 4000, scalar=True)
def spmv_by_elements(start: Any, column: Any, value: Any, x: Any) -> Any:
    y = np.zeros(start.size - 1)
    for i in range(start.size - 1):
        for k in range(start[i], start[i + 1]):
            y[i] += value[k] * x[column[k]]
    return y


def _words(rng: np.random.Generator, n: int) -> Arrays:
    return rng.integers(0, 4, n), rng.integers(0, 4, n)


@kernel(_words, 13, 200, scalar=True)
def edit_distance(a: Any, b: Any) -> Any:
    n, m = len(a), len(b)
    d = np.zeros((n + 1, m + 1), np.int64)
    d[:, 0] = np.arange(n + 1)
    d[0, :] = np.arange(m + 1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[n, m]


@kernel(_words, 13, 200, scalar=True)
def longest_common_subsequence(a: Any, b: Any) -> Any:
    table = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            if a[i - 1] == b[j - 1]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    return table[-1, -1]


@kernel(matrices("n"), 20, 10_000, scalar=True)
def exponential_average(x: Any) -> Any:
    out = np.empty_like(x)
    s = x[0]
    for i in range(len(x)):
        s = 0.9 * s + 0.1 * x[i]
        out[i] = s
    return out


def _items(rng: np.random.Generator, n: int) -> Arrays:
    return rng.integers(1, 10, n), rng.random(n), 5 * n


@kernel(_items, 8, 60, scalar=True)
def knapsack(weight: Any, value: Any, capacity: int) -> Any:
    best = np.zeros(capacity + 1)
    for i in range(len(weight)):
        for c in range(capacity, weight[i] - 1, -1):
            best[c] = max(best[c], best[c - weight[i]] + value[i])
    return best[capacity]


@kernel(matrices("n"), 20, 2000, scalar=True)
def insertion_sort(x: Any) -> None:
    for i in range(1, len(x)):
        key = x[i]
        j = i - 1
        while j >= 0 and x[j] > key:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = key


def _limit(_: np.random.Generator, n: int) -> Arrays:
    return (n,)


@kernel(_limit, 50, 20_000, scalar=True)
def sieve(limit: int) -> Any:
    prime = np.ones(limit + 1, np.bool_)
    prime[:2] = False
    i = 2
    while i * i <= limit:
        if prime[i]:
            for j in range(i * i, limit + 1, i):
                prime[j] = False
        i += 1
    return prime


def _readings(rng: np.random.Generator, n: int) -> Arrays:
    return rng.random(n), 10


@kernel(_readings, 40, 10_000, scalar=True)
def histogram(x: Any, bins: int) -> Any:
    count = np.zeros(bins, np.int64)
    for i in range(len(x)):
        k = int(x[i] * bins)
        count[k] += 1
    return count
