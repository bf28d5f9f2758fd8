"""
Whole programs as NumPy users write them: simulations, statistics, images, signals.
"""
# pyright: basic
# ruff: noqa: B007, B905, RUF007 - as users write them

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


@program(rng.random((9, 10)), 0.1, 40)
def heat(u, alpha, steps):
    for _ in range(steps):
        new = u.copy()
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + alpha * (
            u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
        )
        u = new
    return u


@program(rng.random((9, 3)), rng.random((9, 3)), rng.random(9) + 1, 0.01, 4)
def nbody(pos, vel, mass, dt, steps):
    energies = []
    for _ in range(steps):
        acc = np.zeros_like(pos)
        for i in range(len(mass)):
            d = pos - pos[i]
            r2 = (d**2).sum(axis=1) + 1e-3
            acc[i] = (mass[:, None] * d / r2[:, None] ** 1.5).sum(axis=0)
        vel = vel + dt * acc
        pos = pos + dt * vel
        energies.append(0.5 * np.sum(mass * (vel**2).sum(1)))
    return pos, vel, np.array(energies)


@program(rng.standard_normal(9))
def kalman(zs):
    F = np.array([[1.0, 0.1], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q = 1e-3 * np.eye(2)
    R = np.array([[0.5]])
    x = np.zeros(2)
    P = np.eye(2)
    out = []
    for z in zs:
        x = F @ x
        P = F @ P @ F.T + Q
        y = z - H @ x
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        x = x + K @ y
        P = (np.eye(2) - K @ H) @ P
        out.append(x[0])
    return np.array(out), P


@program(rng.standard_normal((80, 2)), 4)
def kmeans(X, k):
    centers = X[:k].copy()
    while True:
        dist = ((X[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
        labels = dist.argmin(axis=1)
        new = centers.copy()
        for j in range(k):
            members = X[labels == j]
            if len(members) > 0:
                new[j] = members.mean(axis=0)
        if np.allclose(new, centers):
            break
        centers = new
    return centers, labels


@program(
    np.log(rng.dirichlet(np.ones(3), 3)),
    np.log(rng.dirichlet(np.ones(4), 3)),
    np.log(np.ones(3) / 3),
    rng.integers(0, 4, 8),
)
def viterbi(A, B, pi, obs):
    T = len(obs)
    N = len(pi)
    delta = np.zeros((T, N))
    psi = np.zeros((T, N), dtype=int)
    delta[0] = pi + B[:, obs[0]]
    for t in range(1, T):
        for j in range(N):
            scores = delta[t - 1] + A[:, j]
            psi[t, j] = np.argmax(scores)
            delta[t, j] = scores[psi[t, j]] + B[j, obs[t]]
    path = np.zeros(T, dtype=int)
    path[-1] = np.argmax(delta[-1])
    for t in range(T - 2, -1, -1):
        path[t] = psi[t + 1, path[t + 1]]
    return path, delta[-1].max()


@program(np.array([1.0, 1.0, 1.0]), 0.01, 300)
def lorenz(state, dt, steps, sigma=10.0, rho=28.0, beta=8 / 3):
    def f(s):
        x, y, z = s
        return np.array([sigma * (y - x), x * (rho - z) - y, x * y - beta * z])

    trajectory = np.empty((steps + 1, 3))
    trajectory[0] = state
    for i in range(steps):
        s = trajectory[i]
        k1 = f(s)
        k2 = f(s + dt / 2 * k1)
        k3 = f(s + dt / 2 * k2)
        k4 = f(s + dt * k3)
        trajectory[i + 1] = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return trajectory


@program((rng.random((30, 30)) < 0.2).astype(float))
def pagerank(links, damping=0.85, tol=1e-10):
    n = links.shape[0]
    out = links.sum(axis=1)
    M = np.where(out[:, None] > 0, links / np.maximum(out, 1)[:, None], 1.0 / n).T
    r = np.full(n, 1.0 / n)
    count = 0
    while True:
        new = damping * M @ r + (1 - damping) / n
        count += 1
        if np.abs(new - r).sum() < tol:
            return new, count
        r = new


@program(
    lambda t, y: np.array([y[1], -np.sin(y[0]) - 0.1 * y[1]]),
    np.array([1.0, 0.0]),
    np.linspace(0, 1, 9),
)
def rk4(f, y0, ts):
    ys = [y0]
    for t0, t1 in zip(ts[:-1], ts[1:]):
        h = t1 - t0
        y = ys[-1]
        k1 = f(t0, y)
        k2 = f(t0 + h / 2, y + h / 2 * k1)
        k3 = f(t0 + h / 2, y + h / 2 * k2)
        k4 = f(t1, y + h * k3)
        ys.append(y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return np.array(ys)


@program(200)
def metropolis(n):
    rng = np.random.default_rng(42)
    x = 0.0
    samples = np.zeros(n)
    accepted = 0
    for i in range(n):
        prop = x + rng.normal(0, 1)
        if rng.random() < np.exp(min(0, (x**2 - prop**2) / 2)):
            x = prop
            accepted += 1
        samples[i] = x
    return samples, accepted / n


@program(rng.standard_normal(128), 0.1)
def fft_filter(x, cutoff):
    spectrum = np.fft.rfft(x)
    freq = np.fft.rfftfreq(len(x))
    spectrum[freq > cutoff] = 0
    return np.fft.irfft(spectrum, n=len(x))


@program(rng.standard_normal((50, 6)), 2)
def pca(X, k):
    Xc = X - X.mean(axis=0)
    C = np.cov(Xc, rowvar=False)
    vals, vecs = np.linalg.eigh(C)
    order = np.argsort(vals)[::-1][:k]
    comps = vecs[:, order]
    return np.abs(Xc @ comps), vals[order] / vals.sum()


@program(rng.standard_normal((60, 3)), (rng.random(60) < 0.5).astype(float))
def logistic(X, y, lr=0.1, epochs=100):
    w = np.zeros(X.shape[1])
    b = 0.0
    for epoch in range(epochs):
        p = 1 / (1 + np.exp(-(X @ w + b)))
        w -= lr * X.T @ (p - y) / len(y)
        b -= lr * np.mean(p - y)
    loss = -np.mean(y * np.log(p) + (1 - y) * np.log(1 - p))
    return w, b, loss


@program((rng.random((16, 18)) < 0.4).astype(int), 10)
def conway_roll(grid, steps):
    for _ in range(steps):
        n = sum(
            np.roll(np.roll(grid, i, 0), j, 1)
            for i in (-1, 0, 1)
            for j in (-1, 0, 1)
            if (i, j) != (0, 0)
        )
        grid = ((n == 3) | ((grid == 1) & (n == 2))).astype(int)
    return grid


@program((rng.random((10, 11)) < 0.4).astype(int))
def conway_loops(grid):
    h, w = grid.shape
    new = np.zeros_like(grid)
    for i in range(h):
        for j in range(w):
            total = 0
            for di in (-1, 0, 1):
                for dj in (-1, 0, 1):
                    if di == 0 and dj == 0:
                        continue
                    total += grid[(i + di) % h, (j + dj) % w]
            if (grid[i, j] == 1 and (total == 2 or total == 3)) or (grid[i, j] == 0 and total == 3):
                new[i, j] = 1
    return new


@program(rng.standard_normal(40), 50)
def bootstrap(x, n):
    rng = np.random.default_rng(1)
    means = np.array([rng.choice(x, size=len(x), replace=True).mean() for _ in range(n)])
    return np.percentile(means, [2.5, 97.5]), means.std(ddof=1)


@program(rng.random((14, 15)), rng.random((3, 3)))
def convolution(img, k):
    kh, kw = k.shape
    h, w = img.shape
    out = np.zeros((h - kh + 1, w - kw + 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(img[i : i + kh, j : j + kw] * k)
    return out


@program(rng.random((40, 3)), rng.integers(0, 3, 40), rng.random((10, 3)), 5)
def knn(X, y, Q, k):
    pred = np.empty(len(Q), dtype=y.dtype)
    for i, q in enumerate(Q):
        d = np.sqrt(((X - q) ** 2).sum(1))
        nearest = np.argsort(d, kind="stable")[:k]
        pred[i] = np.bincount(y[nearest], minlength=3).argmax()
    return pred


@program(rng.standard_normal((12, 6)))
def gram_schmidt(A):
    Q = np.zeros_like(A)
    R = np.zeros((A.shape[1], A.shape[1]))
    for j in range(A.shape[1]):
        v = A[:, j].copy()
        for i in range(j):
            R[i, j] = Q[:, i] @ A[:, j]
            v -= R[i, j] * Q[:, i]
        R[j, j] = np.linalg.norm(v)
        Q[:, j] = v / R[j, j]
    return Q, R


@program(np.diag([5.0, 3, 2, 1]) + 0.1 * np.ones((4, 4)))
def qr_iteration(A):
    A = A.copy()
    for _ in range(60):
        Q, R = np.linalg.qr(A)
        A = R @ Q
        if np.abs(np.tril(A, -1)).max() < 1e-12:
            break
    return np.sort(np.diag(A))


@program(np.diag([5.0, 3, 2, 1]) + 0.1 * np.ones((4, 4)))
def power_iteration(A):
    v = np.ones(A.shape[0]) / np.sqrt(A.shape[0])
    lam = 0.0
    for it in range(1000):
        w = A @ v
        new = v @ w
        v = w / np.linalg.norm(w)
        if abs(new - lam) < 1e-12:
            break
        lam = new
    return new, v, it
