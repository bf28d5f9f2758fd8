"""
Further constructs: exits in one another, `else` of loops, stores to parts, errors that are caught,
numbers of trips and places that data decide. As in construct_programs.py.
"""

# pyright: basic, reportPossiblyUnboundVariable=false, reportOptionalOperand=false
# ruff: noqa: B007

from __future__ import annotations

from typing import Any

import numpy as np

from tests.construct_programs import Constructs, collecting

CONSTRUCTS: Constructs = {}
construct = collecting(CONSTRUCTS)


@construct
def walrus(x: Any) -> Any:
    s = 0.0
    if (m := x.max()) > 1.5:
        s = s + m * x[0]
    while (t := abs(s) * 0.5) > 0.2:
        s = s * 0.7 - t * 0.1 * x[1] ** 2
    return s + m + t


@construct
def sliced_augmented(x: Any) -> Any:
    y = x * x[0]
    y[1:3] += x[2]
    y[::2] *= x[1]
    y[-2:] -= 1
    for i in range(1, 5):
        y[i : i + 2] *= 0.9 + x[i] * 0.1
        if y[i] > 1:
            y[:i] -= 0.25 * y[i]
    return (y**2).sum()


@construct
def break_under_if_under_for_under_while(x: Any) -> Any:
    s, k = x[0] ** 2, 0
    while s < 20 and k < 4:
        k += 1
        for v in x:
            if v > 0:
                if s * v > 2.5:
                    s += 1
                    break
                s = s + v
            else:
                s = s * 1.01 - v * 0.1
    return s * k


@construct
def views_written(x: Any) -> Any:
    y = x.copy()
    head, tail = y[:3], y[3:]
    head *= 2
    tail[0] = head[1] * x[5]
    odd = tail[::2]
    for k in range(2):
        odd[k] += x[k] ** 2
    m = y.reshape(2, 3)
    m.T[1] -= 0.5 * m[0, 0]
    if y[0] > 1:
        m[1][:] = m[0] * x[2]
    return (y * x).sum()


@construct
def while_else(x: Any) -> Any:
    k, s = 0, 0.0
    while k < 6:
        if x[k] > 2:
            break
        s += x[k] ** 2
        k += 1
    else:
        s = s * 2
    return s + k * x[0]


@construct
def nested_else(x: Any) -> Any:
    s = 0.0
    for i in range(3):
        for j in range(i, 6):
            if x[i] * x[j] > 2:
                s += x[i] * x[j]
                break
            if x[j] < -2:
                continue
            s += 0.1 * x[j]
        else:
            s = s * 1.5 + x[i]
            continue
        s += 0.01
    return s


@construct
def with_errstate_loop(x: Any) -> Any:
    s = 0.0
    for v in x:
        with np.errstate(all="ignore"):
            if v > 0:
                s = s + np.log(v)
            else:
                s = s + v**2
    return s


@construct
def try_else_finally(x: Any) -> Any:
    s = 0.0
    for v in x:
        try:
            s = s + v * v
        except ValueError:
            s = 0.0
        else:
            if v > 1:
                s = s * 1.1
        finally:
            s = s + 0.5 * v
    return s


@construct
def raises_caught(x: Any) -> Any:
    def risky(v):
        if v > 50:
            raise OverflowError("big")
        return v * v

    s = 0.0
    for v in x:
        try:
            s = s + risky(v)
        except OverflowError:
            s = s + 1
    return s * x[0]


@construct
def printed(x: Any) -> Any:
    s = 0.0
    for k, v in enumerate(x):
        if v > 1:
            print("big", k, f"{v:.3f}")
        s = s + v**2
    print("sum", s)
    return s


@construct
def ternary_chains(x: Any) -> Any:
    a = x[0] if x[0] > x[1] else x[1] if x[1] > x[2] else x[2]
    b = min(x[3], x[4], x[5]) * max(x[0], 0.5)
    c = (x[0] > 0) * x[1] + (x[2] < 0) * x[3]
    return a * b + c + abs(x[4]) + bool(x[5] > 1) * x[0]


@construct
def augmented_all(x: Any) -> Any:
    s = x[0]
    s += x[1]
    s -= 2
    s *= x[2]
    s /= 1.5
    s **= 2
    n = 7
    n //= 2
    n %= 5
    n <<= 1
    n |= 1
    n &= 13
    n ^= 2
    y = x.copy()
    y **= 2
    y /= 3
    y -= x
    y += n
    return s * y.sum()


@construct
def del_and_none(x: Any) -> Any:
    best = None
    for v in x:
        if best is None or v * v > best:
            best = v * v
    tmp = best * 2
    del tmp
    out = None
    if x[0] > 0:
        out = best + x[1]
    return best if out is None else out


@construct
def while_counts(x: Any) -> Any:
    n, s = 0, 0.0
    while n * n < 30:
        n += 1
        s = s + x[n % 6] / n
    i = 5
    while i:
        s = s * 0.9 + x[i]
        i -= 1
    return s


@construct
def data_trip_counts(x: Any) -> Any:
    n = int(abs(x[0]) * 3)
    s = x[1]
    for i in range(n):
        s = s * 0.8 + x[i % 6] ** 2
    for i in range(n, 0, -2):
        s = s + x[2] / i
    return s


@construct
def element_of_data(x: Any) -> Any:
    k = int(np.argmax(x))
    j = x.argmin()
    y = x.copy()
    y[k] *= 2
    y[j], y[k] = y[k], y[j]
    o = np.argsort(x)
    return y[k] * y[j] + x[o[2]] * x[o[-1]] + y[o][0]


@construct
def continue_in_while(x: Any) -> Any:
    k, s = -1, 0.0
    while True:
        k += 1
        if k >= 6:
            break
        if x[k] < 0:
            continue
        if x[k] > 2.3:
            return s - x[k]
        s += x[k] ** 2
    return s * x[0]


@construct
def matched_value(x: Any) -> Any:
    s = 0.0
    for i in range(6):
        k = int(x[i] > 0) + int(x[i] > 1)
        match k:
            case 0:
                s = s - x[i]
            case 1 | 3:
                s = s + x[i] ** 2
            case _:
                s = s * 1.1
    return s


@construct
def returns_in_nested_ifs(x: Any) -> Any:
    if x[0] > 0:
        if x[1] > 0:
            return x[2] * x[0]
        y = x[3]
        if x[2] > 1:
            return y * y
    else:
        y = x[4]
        for v in x:
            if v > 1.5:
                return v * y
    return y + x[5] ** 2


@construct
def bool_algebra(x: Any) -> Any:
    a, b = x[0] > 0, x[1] > 0
    c = (a and not b) or ((a ^ b) and (a | b))
    m = (x > 0) & ~(x > 1) | (x < -1)
    return np.where(m, x, 0).sum() ** 2 + (x[2] if c else x[3]) + (a == b) * x[4]


@construct
def whole_array_loop(x: Any) -> Any:
    y = x.copy()
    for _ in range(30):
        y = 0.5 * (y + np.roll(y, 1) * x)
        y = y / max(1.0, np.abs(y).max())
    return (y * x).sum()


@construct
def convergence(x: Any) -> Any:
    y = np.abs(x) + 1
    for it in range(100):
        new = 0.5 * (y + (np.abs(x) + 2) / y)
        if np.abs(new - y).max() < 1e-12:
            break
        y = new
    return y.sum() + it
