"""
Whole programs as NumPy users write them: algorithms, linear algebra, searches, classes.
"""
# pyright: basic
# ruff: noqa: B007, B905, E741, F841, PERF401, RUF007, RUF059 - as users write them

from __future__ import annotations

from typing import Any

import numpy as np

rng = np.random.default_rng(0)
PROGRAMS: dict[str, Any] = {}
"""Functions, with their arguments."""


def program(*arguments: Any) -> Any:
    """Collects a program."""

    def keep(function: Any) -> Any:
        PROGRAMS[function.__name__] = function, arguments
        return function

    return keep


@program(lambda x: x**3 - 2 * x - 5, lambda x: 3 * x**2 - 2, 2.0)
def newton(f, df, x0, tol=1e-12, maxiter=50):
    x = x0
    for i in range(maxiter):
        fx = f(x)
        if abs(fx) < tol:
            return x, i
        x = x - fx / df(x)
    raise RuntimeError("no convergence")


@program(lambda x: np.cos(x) - x, 0.0, 1.0)
def bisection(f, a, b, tol=1e-10):
    if f(a) * f(b) > 0:
        raise ValueError("same sign")
    while b - a > tol:
        m = 0.5 * (a + b)
        if f(a) * f(m) <= 0:
            b = m
        else:
            a = m
    return 0.5 * (a + b)


class Layer:
    def __init__(self, n, m, rng):
        self.W = rng.standard_normal((n, m)) * 0.1
        self.b = np.zeros(m)

    def forward(self, x):
        self.x = x
        self.z = x @ self.W + self.b
        return np.tanh(self.z)

    def backward(self, g, lr):
        g = g * (1 - np.tanh(self.z) ** 2)
        gx = g @ self.W.T
        self.W -= lr * self.x.T @ g
        self.b -= lr * g.sum(0)
        return gx


class Net:
    def __init__(self, sizes, seed=0):
        rng = np.random.default_rng(seed)
        self.layers = [Layer(a, b, rng) for a, b in zip(sizes[:-1], sizes[1:])]
        self.history = []

    def fit(self, X, Y, epochs, lr):
        for e in range(epochs):
            out = X
            for l in self.layers:
                out = l.forward(out)
            err = out - Y
            self.history.append((err**2).mean())
            g = 2 * err / len(X)
            for l in reversed(self.layers):
                g = l.backward(g, lr)
        return self


@program(rng.standard_normal((20, 3)), rng.standard_normal((20, 1)) * 0.3)
def network_of_classes(X, Y):
    net = Net([3, 8, 1]).fit(X, Y, 20, 0.1)
    return net.history, net.layers[0].W


@program(rng.random((8, 8)) + 8 * np.eye(8))
def lu(A):
    n = len(A)
    U = A.copy()
    L = np.eye(n)
    for k in range(n - 1):
        for i in range(k + 1, n):
            L[i, k] = U[i, k] / U[k, k]
            U[i, k:] -= L[i, k] * U[k, k:]
    return L, U


@program(rng.random((8, 8)), rng.random(8))
def gauss_pivot(A, b):
    A = A.copy()
    b = b.copy()
    n = len(b)
    for k in range(n):
        p = k + np.argmax(np.abs(A[k:, k]))
        if p != k:
            A[[k, p]] = A[[p, k]]
            b[[k, p]] = b[[p, k]]
        for i in range(k + 1, n):
            f = A[i, k] / A[k, k]
            A[i, k:] -= f * A[k, k:]
            b[i] -= f * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


@program(np.sin, 0.0, np.pi, 100)
def simpson(f, a, b, n):
    if n % 2:
        raise ValueError("even")
    x = np.linspace(a, b, n + 1)
    y = f(x)
    h = (b - a) / n
    return h / 3 * (y[0] + 4 * y[1:-1:2].sum() + 2 * y[2:-1:2].sum() + y[-1])


@program(2000)
def monte_carlo_pi(n):
    rng = np.random.default_rng(0)
    inside = 0
    xy = rng.random((n, 2))
    for x, y in xy:
        if x * x + y * y <= 1:
            inside += 1
    return 4 * inside / n, 4 * np.mean((xy**2).sum(1) <= 1)


@program(rng.standard_normal(50), 5)
def moving_average(x, w):
    c = np.cumsum(np.insert(x, 0, 0.0))
    a = (c[w:] - c[:-w]) / w
    b = np.convolve(x, np.ones(w) / w, mode="valid")
    d = []
    for i in range(len(x) - w + 1):
        d.append(np.mean(x[i : i + w]))
    return a, b, np.array(d)


@program(rng.integers(0, 256, (20, 20)).astype(np.uint8))
def equalise(img):
    hist, bins = np.histogram(img.flatten(), 256, (0, 256))
    cdf = hist.cumsum()
    masked = cdf[cdf > 0]
    cdf = (cdf - masked.min()) * 255 / (masked.max() - masked.min())
    return cdf[img].astype("uint8")


@program([[0, 1, 1, 2], [1, 3], [0, 0, 4, 2, 2]], 5)
def tfidf(docs, vocab):
    tf = np.zeros((len(docs), vocab))
    for i, doc in enumerate(docs):
        for word in doc:
            tf[i, word] += 1
        tf[i] /= len(doc)
    df = (tf > 0).sum(axis=0)
    idf = np.log((1 + len(docs)) / (1 + df)) + 1
    m = tf * idf
    return m / np.linalg.norm(m, axis=1, keepdims=True)


@program(rng.dirichlet(np.ones(4), 4), 100)
def markov(P, n):
    rng = np.random.default_rng(3)
    state = 0
    visits = np.zeros(4, dtype=int)
    cum = P.cumsum(axis=1)
    for _ in range(n):
        state = np.searchsorted(cum[state], rng.random())
        visits[state] += 1
    pi = np.linalg.matrix_power(P, 50)[0]
    return visits, pi


@program(rng.random(20), rng.random(23))
def dtw(a, b):
    n, m = len(a), len(b)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = abs(a[i - 1] - b[j - 1])
            D[i, j] = cost + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    i, j = n, m
    path = []
    length = 0
    while i > 0 and j > 0:
        length += 1
        step = np.argmin(np.array([D[i - 1, j - 1], D[i - 1, j], D[i, j - 1]]))
        if step == 0:
            i -= 1
            j -= 1
        elif step == 1:
            i -= 1
        else:
            j -= 1
    return D[n, m], length


@program(rng.random((12, 2)))
def nearest_neighbour_tour(pts):
    n = len(pts)
    visited = np.zeros(n, dtype=bool)
    tour = [0]
    visited[0] = True
    total = 0.0
    for _ in range(n - 1):
        d = np.linalg.norm(pts - pts[tour[-1]], axis=1)
        d[visited] = np.inf
        j = d.argmin()
        total += d[j]
        visited[j] = True
        tour.append(j)
    return tour, total


@program(np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3]))
def bubble_sort(a):
    a = a.copy()
    n = len(a)
    swaps = 0
    for i in range(n):
        swapped = False
        for j in range(n - i - 1):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
                swapped = True
                swaps += 1
        if not swapped:
            break
    return a, swaps


@program(rng.random((6, 6)), 0)
def dijkstra(W, src):
    n = len(W)
    dist = np.full(n, np.inf)
    dist[src] = 0
    done = np.zeros(n, bool)
    for _ in range(n):
        u = -1
        best = np.inf
        for v in range(n):
            if not done[v] and dist[v] < best:
                best = dist[v]
                u = v
        if u == -1:
            break
        done[u] = True
        for v in range(n):
            if W[u, v] > 0 and dist[u] + W[u, v] < dist[v]:
                dist[v] = dist[u] + W[u, v]
    return dist


@program(rng.random(30) * 100, rng.random(30) * 10)
def summary_statistics(x, w):
    s = {
        "mean": x.mean(),
        "median": np.median(x),
        "std": x.std(ddof=1),
        "wmean": np.average(x, weights=w),
    }
    z = (x - s["mean"]) / s["std"]
    s["skew"] = (z**3).mean()
    s["outliers"] = x[np.abs(z) > 1.5]
    s["iqr"] = np.subtract(*np.percentile(x, [75, 25]))
    s["mode_bin"] = np.argmax(np.histogram(x, bins=10)[0])
    return s


@program(rng.random((15, 2)), rng.random(15), 0.5)
def gaussian_process(X, y, ls):
    def kernel(a, b):
        return np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / (2 * ls**2))

    K = kernel(X, X) + 1e-4 * np.eye(len(X))
    L = np.linalg.cholesky(K)
    alpha = np.linalg.solve(L.T, np.linalg.solve(L, y))
    Xs = np.stack(np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 4)), -1).reshape(-1, 2)
    Ks = kernel(Xs, X)
    v = np.linalg.solve(L, Ks.T)
    return Ks @ alpha, 1 - (v**2).sum(0)


@program(rng.random((5, 5)))
def conjugate_gradient(A):
    A = A @ A.T + 5 * np.eye(5)
    b = np.arange(5.0)
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rs = r @ r
    it = 0
    while np.sqrt(rs) > 1e-10 and it < 100:
        Ap = A @ p
        alpha = rs / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        new = r @ r
        p = r + (new / rs) * p
        rs = new
        it += 1
    return x, it


@program([1, 5, 2, 8, 3], 11)
def subset_sums(items, target):
    dp = np.zeros(target + 1, dtype=bool)
    dp[0] = True
    for it in items:
        for s in range(target, it - 1, -1):
            dp[s] = dp[s] or dp[s - it]
    return dp


@program(rng.random((20, 2)), 0.3, 3)
def clusters(X, eps, least):
    n = len(X)
    D = np.linalg.norm(X[:, None] - X, axis=2)
    labels = np.full(n, -1)
    count = 0
    for i in range(n):
        if labels[i] != -1:
            continue
        near = np.flatnonzero(D[i] <= eps)
        if near.size < least:
            continue
        labels[i] = count
        frontier = [int(j) for j in near]
        while frontier:
            j = frontier.pop()
            if labels[j] != -1:
                continue
            labels[j] = count
            others = np.flatnonzero(D[j] <= eps)
            if others.size >= least:
                frontier.extend(others.tolist())
        count += 1
    return labels, count


@program(rng.integers(0, 6, 20), rng.random((20, 3)))
def means_of_groups(labels, X):
    k = labels.max() + 1
    means = np.full((k, X.shape[1]), np.nan)
    for j in range(k):
        mine = labels == j
        if mine.any():
            means[j] = X[mine].mean(axis=0)
    return means, np.eye(k)[labels], np.bincount(labels) / np.maximum(np.bincount(labels), 1)


@program(rng.random(20), 5)
def statistics_of_windows(x, width):
    out = np.zeros((len(x) - width + 1, 4))
    for i in range(len(out)):
        part = x[i : i + width]
        out[i] = part.mean(), part.std(), part.min(), np.median(part)
    return out
