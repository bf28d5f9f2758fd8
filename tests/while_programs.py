"""
Programs whose loops run as often as their numbers say, each a function of f64 arrays that gives one
number. Reverse mode of JAX refuses all of them: "reverse-mode differentiation does not work for
lax.while_loop or lax.fori_loop with dynamic start/stop values".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mlc

_rng = np.random.default_rng(11)
VECTOR = _rng.standard_normal(5)
MATRIX = _rng.standard_normal((4, 4))


def fixed_point(a: Any) -> Any:
    """x = cos(a x), until it stands still."""
    step = mlc.while_loop(
        lambda c: np.abs(c[0] - c[1]).max() > 1e-11, lambda c: (np.cos(a * c[0]), c[0]), (a, a + 1)
    )
    return step[0].sum()


def newton_root(a: Any) -> Any:
    """The cube root of a, by Newton's iteration."""
    return mlc.while_loop(
        lambda x: np.abs(x**3 - a) > 1e-12 * a, lambda x: x - (x**3 - a) / (3 * x**2), a
    )


def bisection(a: Any) -> Any:
    """The root of x**3 + a x - 1: halved intervals, then the step that carries the derivative."""

    def halve(c: Any) -> Any:
        low, high = c
        middle = (low + high) / 2
        right = middle**3 + a * middle < 1
        return np.where(right, middle, low), np.where(right, high, middle)

    start = (np.float64(0.0), np.float64(2.0))
    low, high = mlc.while_loop(lambda c: c[1] - c[0] > 1e-9, halve, start)
    x = (low + high) / 2
    return x - (x**3 + a * x - 1) / (3 * x**2 + a)


def adaptive_ode(k: Any) -> Any:
    """y' = -k y + sin t up to t = 2, by Heun's method whose steps follow its error."""

    def slope(t: Any, y: Any) -> Any:
        return -k * y + np.sin(t)

    def step(c: Any) -> Any:
        t, y, h = c
        first = slope(t, y)
        second = slope(t + h, y + h * first)
        error = np.abs(h * (second - first) / 2).max() + 1e-12
        accepted: Any = error < 1e-3
        after = y + h * (first + second) / 2
        wanted = h * np.minimum(2.0, 0.8 * np.sqrt(1e-3 / error))
        t = t + np.where(accepted, h, 0.0)
        return t, np.where(accepted, after, y), np.minimum(wanted, 2 - t + 1e-9)

    zero = np.float64(0.0)
    _, y, _ = mlc.while_loop(lambda c: c[0] < 2, step, (zero, np.ones_like(k), np.float64(0.1)))
    return (y * y).sum()


def euclid(x: Any) -> Any:
    """A polynomial whose coefficients are the remainders of Euclid's algorithm."""

    def step(c: Any) -> Any:
        a, b, s = c
        return b, a % b, s * np.tanh(x) + a

    start = (np.int64(1071), np.int64(462), x)
    return mlc.while_loop(lambda c: c[1] != 0, step, start)[2].sum()


def power_iteration(m: Any) -> Any:
    """The largest eigenvalue of M Mᵀ, until it stands still."""
    s = m @ m.T

    def step(c: Any) -> Any:
        v, value, _ = c
        w = s @ v
        following = np.sqrt((w * w).sum())
        return w / following, following, value

    start = (np.ones(4) / 2, np.float64(1.0), np.float64(0.0))
    return mlc.while_loop(lambda c: np.abs(c[1] - c[2]) > 1e-10, step, start)[1]


def line_search(x: Any) -> Any:
    """One step of steepest descent, shortened until it goes down far enough."""

    def energy(v: Any) -> Any:
        return (v**4).sum() + (v[1:] * v[:-1]).sum()

    slope = _energy_slope(x) if isinstance(x, np.ndarray) else mlc.grad(energy)(x)
    length = mlc.while_loop(
        lambda t: energy(x - t * slope) > energy(x) - 0.3 * t * (slope * slope).sum(),
        lambda t: t * 0.5,
        (x * x).sum(),
    )
    return energy(x - length * slope)


def _energy_slope(x: Any) -> Any:
    found = 4 * x**3
    found[1:] += x[:-1]
    found[:-1] += x[1:]
    return found


def collatz(x: Any) -> Any:
    """A sum over the numbers of a Collatz sequence, each with a weight that depends on x."""

    def step(c: Any) -> Any:
        n, total, weight = c
        total = total + weight * np.sin(x * n / 7.0)
        n = mlc.cond(n % 2 == 0, lambda: n // 2, lambda: 3 * n + 1)
        return n, total, weight * 0.9

    start = (np.int64(9), x * 0, np.ones_like(x))
    return mlc.while_loop(lambda c: c[0] != 1, step, start)[1].sum()


def rejection(x: Any) -> Any:
    """Numbers of a congruential generator are drawn until three of them are small enough."""

    def step(c: Any) -> Any:
        seed, hits, total = c
        seed = (seed * 1103515245 + 12345) % 2147483648
        u = seed / 2147483648.0
        hit = u < 0.3
        total = total + np.where(hit, np.exp(-x * u), 0.0)
        return seed, hits + np.where(hit, 1, 0), total

    start = (np.int64(42), np.int64(0), x * 0)
    return mlc.while_loop(lambda c: c[1] < 3, step, start)[2].sum()


def jacobi(m: Any) -> Any:
    """A system with a strong diagonal, solved by Jacobi's iteration."""
    diagonal = np.abs(m).sum(axis=1) + 1
    right = np.arange(4.0)

    def residual(x: Any) -> Any:
        return right - m @ x - diagonal * x

    x = mlc.while_loop(
        lambda x: np.abs(residual(x)).max() > 1e-11, lambda x: x + residual(x) / diagonal, right
    )
    return (x**2).sum()


def geometric_mean(x: Any) -> Any:
    """The arithmetic-geometric mean of two numbers."""
    a, _ = mlc.while_loop(
        lambda c: np.abs(c[0] - c[1]) > 1e-11,
        lambda c: ((c[0] + c[1]) / 2, np.sqrt(c[0] * c[1])),
        (x[0], x[1]),
    )
    return a


def continued_fraction(x: Any) -> Any:
    """tan x = x / (1 - x² / (3 - x² / (5 - …))), by the recurrence of its numerators."""

    def step(c: Any) -> Any:
        k, a, b, c1, d = c
        scale = 2 * k + 1.0
        return k + 1, c1, d, scale * c1 - x * x * a, scale * d - x * x * b

    one, zero = np.ones_like(x), x * 0
    start = (np.int64(1), zero, one, x, one)
    found = mlc.while_loop(lambda c: np.abs(c[3] / c[4] - c[1] / c[2]) > 1e-12, step, start)
    return found[3] / found[4]


def series(x: Any) -> Any:
    """The exponential series, until its terms count for nothing."""
    _, _, total = mlc.while_loop(
        lambda c: np.abs(c[1]).max() > 1e-14,
        lambda c: (c[0] + 1, c[1] * x / (c[0] + 1), c[2] + c[1]),
        (np.float64(0.0), np.ones_like(x), x * 0),
    )
    return (total * np.arange(5.0)).sum()


def first_passage(x: Any) -> Any:
    """Elements are added in turn until the sum passes a barrier; what it is then."""
    _, total = mlc.while_loop(
        lambda c: c[1] < 10,
        lambda c: (c[0] + 1, c[1] + np.abs(x[c[0] % 5]) * np.sqrt(1 + c[1])),
        (np.int64(0), np.float64(0.0)),
    )
    return total


def halving_in_a_loop(x: Any) -> Any:
    """Squares, each time halved until it is small again: a loop in a loop."""

    def outer(c: Any) -> Any:
        k, v = c
        v = v * v * 3 + 1
        return k + 1, mlc.while_loop(lambda w: (w * w).sum() > 4, lambda w: w * 0.5, v)

    return mlc.while_loop(lambda c: c[0] < 6, outer, (np.int64(0), x))[1].sum()


def table_search(table: Any) -> Any:
    """A place between two entries, found by halving, and the value interpolated there."""
    grid = np.arange(5.0) ** 2
    wanted = 6.5

    def step(c: Any) -> Any:
        low, high = c
        middle = (low + high) // 2
        right = grid[middle] <= wanted
        return np.where(right, middle, low), np.where(right, high, middle)

    grid = table * 0 + grid
    low, high = mlc.while_loop(lambda c: c[1] - c[0] > 1, step, (np.int64(0), np.int64(4)))
    part = (wanted - grid[low]) / (grid[high] - grid[low])
    return table[low] ** 2 * (1 - part) + table[high] ** 3 * part


def escape(c: Any) -> Any:
    """The smooth number of steps in which z² + c leaves a disc."""

    def step(s: Any) -> Any:
        re, im, k = s
        return re * re - im * im + c[0], 2 * re * im + c[1], k + 1

    start = (c[0] * 0, c[1] * 0, np.int64(0))
    re, im, k = mlc.while_loop(lambda s: s[0] ** 2 + s[1] ** 2 < 100, step, start)
    return k - np.log2(np.log(re * re + im * im) / 2)


def linked_list(w: Any) -> Any:
    """A list's elements, each found by the index that its predecessor holds."""
    following = np.array([3, -1, 1, 4, 2]) + (w[:5] * 0).astype(np.int64)

    def step(c: Any) -> Any:
        at, total = c
        return following[at], total * w[at] + np.sin(w[at])

    return mlc.while_loop(lambda c: c[0] >= 0, step, (np.int64(0), np.float64(1.0)))[1]


def sinkhorn(m: Any) -> Any:
    """A matrix scaled until its rows and columns sum to one."""
    kernel = np.exp(m / 2)

    def step(c: Any) -> Any:
        u, v, _ = c
        following = 1 / (kernel @ v)
        return following, 1 / (kernel.T @ following), np.abs(following - u).max()

    start = (np.ones(4), np.ones(4), np.float64(1.0))
    u, v, _ = mlc.while_loop(lambda c: c[2] > 1e-11, step, start)
    return (u[:, None] * kernel * v * np.arange(16.0).reshape(4, 4)).sum()


def bouncing(x: Any) -> Any:
    """A ball that loses speed at the floor, until it is slow there."""

    def step(c: Any) -> Any:
        height, speed, path = c
        following = height + 0.05 * speed

        def bounce() -> Any:
            return -following * x[2], -speed * x[2], path + np.abs(following)

        def fall() -> Any:
            return following, speed - 0.05 * x[1], path + 0.05 * np.abs(speed)

        return mlc.cond(following < 0, bounce, fall)

    start = (x[0], x[0] * 0, x[0] * 0)
    return mlc.while_loop(lambda c: c[2] < 3.0, step, start)[2]


def as_often_as_said(x: Any) -> Any:
    """A loop whose bound is computed from the numbers it works on."""
    count = np.floor(np.abs(x).sum()).astype(np.int64) + 2
    return mlc.fori_loop(1, count, lambda i, c: np.sin(c) * i + x, x).sum()


def descent(x: Any) -> Any:
    """The minimum of (y - x)² + y⁴, by descent until the slope is flat: a solver in a loss."""

    def slope(y: Any) -> Any:
        return 2 * (y - x) + 4 * y**3

    y = mlc.while_loop(
        lambda y: np.abs(slope(y)).max() > 1e-11, lambda y: y - 0.05 * slope(y), x * 0
    )
    return (y * np.arange(1.0, 6.0)).sum()


Program = Callable[[Any], Any]
PROGRAMS: dict[Program, Any] = {
    fixed_point: np.array([0.4, 0.9]),
    newton_root: np.float64(5.0),
    bisection: np.float64(1.7),
    adaptive_ode: np.array([0.7, 1.9]),
    euclid: VECTOR,
    power_iteration: MATRIX,
    line_search: VECTOR,
    collatz: VECTOR,
    rejection: VECTOR,
    jacobi: MATRIX,
    geometric_mean: np.array([1.5, 4.0]),
    continued_fraction: np.float64(0.8),
    series: VECTOR,
    first_passage: VECTOR,
    halving_in_a_loop: VECTOR,
    table_search: VECTOR + 2,
    escape: np.array([0.5, 0.6]),
    linked_list: VECTOR,
    sinkhorn: MATRIX,
    bouncing: np.array([1.3, 9.8, 0.77]),
    as_often_as_said: VECTOR,
    descent: VECTOR,
}
"""Each with an argument at which small changes change no number of trips, or no result by it."""
