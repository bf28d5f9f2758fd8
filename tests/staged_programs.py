"""
Functions as NumPy users write them, with control flow that values decide, and arguments for them.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {}


def program(*arguments: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The function with each of these arguments is a case."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for k, given in enumerate(arguments):
            PROGRAMS[f"{function.__name__}_{k}"] = function, given
        return function

    return add


f64, i64, c128 = np.float64, np.int64, np.complex128
V = np.array


@program((f64(2),), (f64(0.5),), (3.0,))
def newton(a: Any) -> Any:
    x = a
    while abs(x * x - a) > 1e-10:
        x = x - (x * x - a) / (2 * x)
    return x


@program((f64(0), f64(2), f64(2)), (0.0, 3.0, 5.0))
def bisection(a: Any, b: Any, c: Any) -> Any:
    while True:
        m = (a + b) / 2
        if abs(m * m - c) < 1e-9 or b - a < 1e-9:
            return m
        if m * m > c:
            b = m
        else:
            a = m


@program((f64(1.5), f64(-0.0)), (2, 3.0), (np.complex128(1 + 2j), f64(2)), (f64(1), 2 - 1j))
def complex_of_parts(a: Any, b: Any) -> Any:
    z = complex(a, b)
    w = complex(imag=a)
    return z * w, complex(z), isinstance(z, complex)


@program((27,), (i64(27),), (i64(1),))
def collatz(n: Any) -> Any:
    k = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        k += 1
    return k


@program((c128(0.4 + 0.5j),), (0.3 + 0.5j,), (c128(5),))
def escape_time(c: Any) -> Any:
    z = 0
    for k in range(50):  # noqa: B007 - read after the loop
        if abs(z) > 2:
            break
        z = z * z + c
    return k


@program((c128(0.1 + 0.1j),), (c128(0.4 + 0.5j),))
def escape_else(c: Any) -> Any:
    z = 0 * c
    for k in range(50):  # noqa: B007 - read after the loop
        if abs(z) > 2:
            break
        z = z * z + c
    else:
        k = -1
    return k


@program((f64(2),), (f64(9),))
def newton_with_break(a: Any) -> Any:
    x = a / 2
    for i in range(100):  # noqa: B007 - read after the loop
        d = (x * x - a) / (2 * x)
        x -= d
        if abs(d) < 1e-12:
            break
    return x, i


@program((np.arange(12.0).reshape(4, 3), V([4])), (np.arange(4.0), V([3])))
def sum_of_rows(x: Any, n: Any) -> Any:
    s = 0
    for i in range(n[0]):
        s += x[i]
    return s


@program((np.arange(6.0), V([5])), (np.arange(6.0), V([0])))
def doubled_in_place(x: Any, n: Any) -> Any:
    for i in range(n[0]):
        if i == 2:
            continue
        x[i] = x[i] * 2
    return x.sum()


@program((V([1.0, 2, 3, 4]),), (V([1.0, 2, 1]),))
def first_above(x: Any) -> Any:
    for i, v in enumerate(x):
        if v > 2:
            return i
    return -1


@program((1071, 462), (i64(1071), i64(462)), (i64(5), i64(0)))
def euclid(a: Any, b: Any) -> Any:
    while b:
        a, b = b, a % b
    return a


@program((np.arange(-3.0, 3), np.ones(6)))
def dot_of_some(x: Any, y: Any) -> Any:
    s = 0.0
    for a, b in zip(x, y, strict=True):
        if a < 0:
            continue
        s += a * b
    return s


@program((V([1.0, 2]),), (V([200.0, 2]),))
def items_of_a_list(x: Any) -> Any:
    L = [x[0], x[1]]
    while L[0] < 100:
        L[0], L[1] = L[1], L[0] + L[1]
    return L[0]


class Point:
    """Something with attributes."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.steps = 0

    def double(self) -> None:
        """A method that updates the object."""
        self.x = self.x * 2
        self.steps += 1

    def step(self, limit: Any) -> bool:
        """A method with a branch."""
        if self.x > limit:
            return False
        self.double()
        return True


@program((V([1.5]),), (V([100.0]),))
def attributes(x: Any) -> Any:
    p = Point(x[0])
    while p.x < 100:
        p.double()
    return p.x + p.steps


@program((V([1.5]),), (V([100.0]),))
def methods_that_answer(x: Any) -> Any:
    p = Point(x[0])
    while p.step(50):
        pass
    return p.x, p.steps


@program((V([1, 2, 3, 4]), V([1, 3, 4])))
def edit_distance(a: Any, b: Any) -> Any:
    n, m = a.shape[0], b.shape[0]
    d = np.zeros((n + 1, m + 1))
    for i in range(n + 1):
        d[i, 0] = i
    for j in range(m + 1):
        d[0, j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                d[i, j] = d[i - 1, j - 1]
            else:
                d[i, j] = 1 + min(d[i - 1, j], d[i, j - 1], d[i - 1, j - 1])
    return d[n, m]


@program((np.diag([1.0, 2, 5]) + 0.1,))
def power_iteration(m: Any) -> Any:
    v, it, old = np.ones(3), 0, 0.0
    while True:
        w = m @ v
        value = np.sqrt((w * w).sum())
        v = w / value
        it += 1
        if abs(value - old) < 1e-10 or it >= 500:
            break
        old = value
    return value, it


@program((V([0.5]),), (V([50.0]),))
def no_trip(x: Any) -> Any:
    s = 1.0
    while s < x[0]:
        s *= 2
    return s


@program((np.ones(3),))
def argument_in_place(x: Any) -> Any:
    while x.sum() < 100:
        x += 1
    return x


@program((np.ones(20, np.float32),))
def two_tests(x: Any) -> Any:
    s = i = 0
    while i < x.shape[0] and s < 10:
        s = s + x[i]
        i += 1
    return s


@program(*((V(x),) for x in ([3.0, 4, 9], [0.1, 7, 9], [0.1, 0.2, 0.7], [0.1, 0.2, 0.3])))
def nested_returns(x: Any) -> Any:
    if x[0] > 1:
        return x.sum()
    if x[1] > 1:
        t = x.max()
        if t > 5:
            return t
    elif x[2] > 0.5:
        return x.min()
    return x[0] * 100


@program((V([1.0, 2, 3]),), (V([-1.0, 2, 3]),))
def branch_in_place(x: Any) -> Any:
    if x[0] > 0:
        x[1] = 7
    else:
        x[2:] = 8
    return x.sum()


@program((V([1.0, 2]),), (V([3.0, 2]),), (V([3.0, 11]),), (V([0.0, 11]),))
def swapped_and_chosen(x: Any) -> Any:
    a, b = x[0], x[1]
    if a > b:
        a, b = b, a
    return a - b if 0 < a < b and not b > 10 else (a or b)


@program((V([1.0, 2]),), (V([-1.0, 2]),))
def stores_to_items(x: Any) -> Any:
    p: Any
    p, L = {"w": x[0], "n": 0, "inner": {"z": [x[1]]}}, [x[1]]
    if x[0] > 0:
        p["w"] += 1
        p["n"] = 3
        L[0] = L[0] * 2
    else:
        p["inner"]["z"][0] -= 1
    return p["w"] + p["n"] + L[0] + p["inner"]["z"][0]


@program((V([1.0, 2]),), (V([-1.0, 2]),))
def appended_on_both_sides(x: Any) -> Any:
    out = []
    if x[0] > 0:
        out.append(x[0])
        out.append(x[1] * 2)
    else:
        out.append(x[1])
        out.append(x[0])
    return out[0] - out[1]


@program((V([1.0, 2]), i64(3)), (V([1.0, 2]), i64(-3)))
def closures(x: Any, n: Any) -> Any:
    total = 0.0

    def add(v: Any) -> None:
        nonlocal total
        total = total + v

    if n > 0:
        add(x[0])
    else:
        add(x[1])
        add(x[1])
    for _ in range(n):
        add(x[0])
    return total


@program((V([1.0, 2, 3]),), (V([-1.0, 2, 3]),))
def two_names_of_one_array(x: Any) -> Any:
    y = x
    view = x[1:]
    if x[0] > 0:
        y[1] = 10
    view[1] += 1
    return x.sum() + view[0] + y[2]


@program((V([1.0, 2]),))
def path_not_taken(x: Any) -> Any:
    k = 0
    if x[0] > 5:
        return x[0] // k, x[np.array([7, 8])].sum()
    return x[1], x[0]


@program((V([2.0, -1.0]), i64(3)), (V([2.0, -1.0]), i64(1)))
def index_error(x: Any, i: Any) -> Any:
    s = 0.0
    while s < 3:
        s += x[i] + 3
        i += 1
    return s


@program((V([1, 5, 3]),), (V([1, 5, -1]),))
def sorted_by_insertion(x: Any) -> Any:
    y = x.copy()
    for i in range(1, len(y)):
        key = y[i]
        j = i - 1
        while j >= 0 and y[j] > key:
            y[j + 1] = y[j]
            j -= 1
        y[j + 1] = key
    return y


@program((V([3.0, 1.0]),), (V([-3.0, 1.0]),))
def helpers_with_returns(x: Any) -> Any:
    def sign(v: Any) -> Any:
        if v > 0:
            return 1.0
        if v < 0:
            return -1.0
        return 0.0

    def relu(v: Any) -> Any:
        return v if v > 0 else 0.0

    return sign(x[0]) * 2 + sign(x[1]) + relu(x[0])


@program((V([1.0, 4.0, 9.0]),), (V([1.0, -4.0, 9.0]),))
def any_and_all(x: Any) -> Any:
    if all(v > 0 for v in x) and not any(v > 8 for v in x[:2]):
        return np.sqrt(x).sum()
    return x.sum()


@program((i64(10),), (i64(1),))
def fibonacci(n: Any) -> Any:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@program((V([0.5, 1.5, 2.5]), f64(2.0)), (V([0.5, 1.5, 2.5]), f64(9.0)))
def nested_loops_with_breaks(x: Any, limit: Any) -> Any:
    total, hits = 0.0, 0
    for a in x:
        for b in reversed(x):
            if a * b > limit:
                break
            if b < 1:
                continue
            total += a * b
            hits += 1
        else:
            total += 100
    return total, hits


@program((f64(1.0),), (f64(-1.0),))
def with_and_try(a: Any) -> Any:
    r = 0.0
    with np.errstate(all="ignore"):
        if a > 0:
            r = np.log(a)
        try:
            r = r + 1
        finally:
            r = r * 2
    return r


@program((V([1.0, 2.0, 3.0]),), (V([-1.0, 2.0, 3.0]),))
def writes_ahead_of_the_loop(x: Any) -> Any:
    total, first = 0.0, x[0]
    for k, v in enumerate(x):
        if v > 0 and k < 2:
            x[k + 1] = v * 2
        total += v
    x[0] = 100
    return total, first


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(0)))
def containers_made_anew(x: Any, n: Any) -> Any:
    p: Any = {"q": x[0], "r": [x[1], 0]}
    for k in range(n, 5):
        p = {**p, "q": p["q"] + k}
        p["r"][0] += p["q"]
        p["r"][1] += 1
    return p["q"], p["r"][0], p["r"][1]


@program((V([1.0, 2.0]),), (V([-1.0, 2.0]),), (V([-1.0, 9.0]),))
def returned_or_raised_behind_a_loop(x: Any) -> Any:
    k = 0
    while True:
        k += 1
        if k > 3:
            break
        if x[0] > 0:
            return k
        for v in x:
            if v > 5:
                continue
        else:  # noqa: PLW0120 - as users write it
            assert x[1] < 5
    return -1


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(0)))
def items_replaced_on_one_side(x: Any, n: Any) -> Any:
    p: Any = {"r": [x[1], 2]}
    if n > 1:
        return p["r"][1]
    for _ in range(n, 4):
        p["r"] = [x[0], 0]
    p["r"][1] += 1
    return p["r"][1]


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(-1)))
def lists_in_a_dict(x: Any, n: Any) -> Any:
    """One side replaces what the other changes in place."""
    p: Any = {"r": [x[1], x * 2]}
    for _ in range(3):
        if n > 0:
            p["r"] = [x[0], x * 3]
            return p["r"][0], p["r"][1]
        p["r"][0] += 1
        p["r"][1][0] += 2
    return p["r"][0], p["r"][1]


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(-1)))
def methods_and_partial_functions(x: Any, n: Any) -> Any:
    def put(places: Any, value: Any) -> None:
        places[0] = value

    double, places = Point(x[0]).double, [x[1]]
    set_first = partial(put, places)
    if n > 0:
        double()
        set_first(x[0] * 7)
    return double.__self__.x, set_first.args[0][0]
