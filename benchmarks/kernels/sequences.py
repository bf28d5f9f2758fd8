"""
Sequences, tables and graphs, element by element: dynamic programs, scans, codes and walks.

SOURCE: textbook definitions (Cormen, Leiserson, Rivest, Stein; Durbin et al., Biological sequence
analysis); Marsaglia, Xorshift RNGs, 2003; CRC-16/X-25 of ITU-T X.25.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kernels.model import Arrays, kernel, matrices


def _words(rng: np.random.Generator, n: int) -> Arrays:
    return rng.integers(0, 4, n), rng.integers(0, 4, n)


def _model(rng: np.random.Generator, n: int) -> Arrays:
    states = 12
    chances = (rng.random((states, states)), rng.random((states, 6)), rng.random(states))
    return *(np.log(x) for x in chances), rng.integers(0, 6, n)


def _bits(rng: np.random.Generator, n: int) -> Arrays:
    return rng.integers(0, 2, n), rng.integers(0, 2, 7)


def _bytes(rng: np.random.Generator, n: int) -> Arrays:
    return (rng.integers(0, 256, n).astype(np.uint8),)


def _wide(rng: np.random.Generator, n: int) -> Arrays:
    return (rng.integers(0, 2**60, n, dtype=np.uint64),)


def _signed(rng: np.random.Generator, n: int) -> Arrays:
    return (rng.standard_normal(n),)


def _coins(_: np.random.Generator, n: int) -> Arrays:
    return np.array([1, 2, 5, 10, 25, 50]), n


def _links(rng: np.random.Generator, n: int) -> Arrays:
    start = np.concatenate(([0], np.cumsum(rng.integers(1, 9, n))))
    return start, rng.integers(0, n, int(start[-1]))


def _seed(_: np.random.Generator, n: int) -> Arrays:
    return np.uint64(88172645463325252), n


def _points(rng: np.random.Generator, n: int) -> Arrays:
    return rng.random((n, 3)), rng.random((5, 3))


@kernel(_words, 13, 300, scalar=True)
def needleman_wunsch(a: Any, b: Any) -> Any:
    n, m = a.size, b.size
    F = np.zeros((n + 1, m + 1), np.int64)
    for i in range(n + 1):
        F[i, 0] = -2 * i
    for j in range(m + 1):
        F[0, j] = -2 * j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            s = 1 if a[i - 1] == b[j - 1] else -1
            best = F[i - 1, j - 1] + s
            if F[i - 1, j] - 2 > best:
                best = F[i - 1, j] - 2
            if F[i, j - 1] - 2 > best:
                best = F[i, j - 1] - 2
            F[i, j] = best
    return F


@kernel(_words, 13, 300, scalar=True)
def dynamic_time_warping(x: Any, y: Any) -> Any:
    n, m = len(x), len(y)
    D = np.full((n + 1, m + 1), np.inf)
    D[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            c = abs(x[i - 1] - y[j - 1])
            D[i, j] = c + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[n, m]


@kernel(_model, 7, 300, scalar=True)
def viterbi(A: Any, B: Any, pi: Any, obs: Any) -> Any:
    S, T = A.shape[0], obs.shape[0]
    d = np.zeros((T, S))
    p = np.zeros((T, S), np.int64)
    for s in range(S):
        d[0, s] = pi[s] + B[s, obs[0]]
    for t in range(1, T):
        for s in range(S):
            best = -1e300
            arg = 0
            for r in range(S):
                v = d[t - 1, r] + A[r, s]
                if v > best:
                    best = v
                    arg = r
            d[t, s] = best + B[s, obs[t]]
            p[t, s] = arg
    path = np.zeros(T, np.int64)
    path[T - 1] = np.argmax(d[T - 1])
    for t in range(T - 2, -1, -1):
        path[t] = p[t + 1, path[t + 1]]
    return path


@kernel(_signed, 20, 20_000, scalar=True)
def kadane(x: Any) -> Any:
    best = x[0]
    cur = x[0]
    for i in range(1, len(x)):
        cur = max(x[i], cur + x[i])
        best = max(best, cur)
    return best


@kernel(_bits, 40, 20_000, scalar=True)
def knuth_morris_pratt(text: Any, pat: Any) -> Any:
    m = len(pat)
    fail = np.zeros(m, np.int64)
    q = 0
    for i in range(1, m):
        while q > 0 and pat[q] != pat[i]:
            q = fail[q - 1]
        if pat[q] == pat[i]:
            q += 1
        fail[i] = q
    count = 0
    q = 0
    for i in range(len(text)):
        while q > 0 and pat[q] != text[i]:
            q = fail[q - 1]
        if pat[q] == text[i]:
            q += 1
        if q == m:
            count += 1
            q = fail[q - 1]
    return count


@kernel(_bytes, 40, 20_000, scalar=True)
def crc16(data: Any) -> Any:
    crc = 0xFFFF
    for b in data:
        cur_byte = 0xFF & b
        for _ in range(8):
            if (crc & 0x0001) ^ (cur_byte & 0x0001):
                crc = (crc >> 1) ^ 0x8408
            else:
                crc >>= 1
            cur_byte >>= 1
    crc = ~crc & 0xFFFF
    crc = (crc << 8) | ((crc >> 8) & 0xFF)
    return crc & 0xFFFF


@kernel(_wide, 20, 5_000, scalar=True)
def popcounts(x: Any) -> Any:
    out = np.zeros(len(x), np.int64)
    for i in range(len(x)):
        v = x[i]
        c = 0
        while v != 0:
            v = v & (v - np.uint64(1))
            c += 1
        out[i] = c
    return out


@kernel(matrices("n"), 20, 500, scalar=True)
def longest_increasing(x: Any) -> Any:
    n = len(x)
    L = np.ones(n, np.int64)
    for i in range(n):
        for j in range(i):
            if x[j] < x[i] and L[j] + 1 > L[i]:
                L[i] = L[j] + 1
    return L.max()


@kernel(_coins, 30, 5_000, scalar=True)
def coin_change(coins: Any, amount: Any) -> Any:
    ways = np.zeros(amount + 1, np.int64)
    ways[0] = 1
    for c in coins:
        for a in range(c, amount + 1):
            ways[a] += ways[a - c]
    return ways[amount]


@kernel(_links, 15, 1_500, scalar=True)
def pagerank(start: Any, target: Any) -> Any:
    n = start.size - 1
    rank = np.full(n, 1.0 / n)
    for _ in range(20):
        new = np.full(n, 0.15 / n)
        for i in range(n):
            share = 0.85 * rank[i] / (start[i + 1] - start[i])
            for e in range(start[i], start[i + 1]):
                new[target[e]] += share
        rank = new
    return rank


@kernel(matrices("nn"), 9, 200, scalar=True)
def dijkstra(w: Any) -> Any:
    n = w.shape[0]
    dist = np.full(n, np.inf)
    done = np.zeros(n, np.bool_)
    dist[0] = 0.0
    for _ in range(n):
        u = -1
        best = np.inf
        for v in range(n):
            if not done[v] and dist[v] < best:
                best = dist[v]
                u = v
        if u < 0:
            break
        done[u] = True
        for v in range(n):
            if dist[u] + w[u, v] < dist[v]:
                dist[v] = dist[u] + w[u, v]
    return dist


@kernel(_seed, 100, 20_000, scalar=True)
def pi_by_xorshift(seed: Any, n: Any) -> Any:
    s = seed
    hits = 0
    for _ in range(n):
        s ^= s << np.uint64(13)
        s ^= s >> np.uint64(7)
        s ^= s << np.uint64(17)
        x = (s >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        s ^= s << np.uint64(13)
        s ^= s >> np.uint64(7)
        s ^= s << np.uint64(17)
        y = (s >> np.uint64(11)) * (1.0 / 9007199254740992.0)
        if x * x + y * y < 1.0:
            hits += 1
    return 4.0 * hits / n


@kernel(_points, 20, 1_000, scalar=True)
def k_means(points: Any, centers: Any) -> Any:
    n, d = points.shape
    k = centers.shape[0]
    c = centers.copy()
    lab = np.zeros(n, np.int64)
    for _ in range(5):
        for i in range(n):
            best = 1e300
            arg = 0
            for j in range(k):
                s = 0.0
                for t in range(d):
                    s += (points[i, t] - c[j, t]) ** 2
                if s < best:
                    best = s
                    arg = j
            lab[i] = arg
        cnt = np.zeros(k)
        new = np.zeros((k, d))
        for i in range(n):
            cnt[lab[i]] += 1
            for t in range(d):
                new[lab[i], t] += points[i, t]
        for j in range(k):
            if cnt[j] > 0:
                for t in range(d):
                    c[j, t] = new[j, t] / cnt[j]
    return c, lab


@kernel(matrices("n"), 40, 20_000, scalar=True)
def clipping(x: Any) -> Any:
    out = np.empty_like(x)
    for i in range(len(x)):
        v = x[i]
        if v < 0.25:
            out[i] = 0.25
        elif v > 0.75:
            out[i] = 0.75
        else:
            out[i] = v
    return out


@kernel(matrices("nn"), 12, 200, scalar=True)
def prefix_table(x: Any) -> Any:
    n, m = x.shape
    s = np.zeros((n + 1, m + 1))
    for i in range(n):
        for j in range(m):
            s[i + 1, j + 1] = x[i, j] + s[i, j + 1] + s[i + 1, j] - s[i, j]
    return s
