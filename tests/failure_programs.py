"""
Programs that fail when they run, after they have done something; and numbers that stay Python's
where no trip, or the other branch, has made them NumPy's. Python says what the compiled ones do.
"""
# pyright: basic, reportOptionalOperand=false, reportOperatorIssue=false
# pyright: reportUnusedExpression=false

from __future__ import annotations

from typing import Any

import numpy as np

from tests.effect_programs import Programs, collecting

FAILURES: Programs = {}
NUMBERS: Programs = {}
failing, counting = collecting(FAILURES), collecting(NUMBERS)
X = np.arange(4.0) - 1
PLACES = (X, np.int64(2)), (X, np.int64(9)), (X, np.int64(0))
TRIPS = (X, np.int64(0)), (X, np.int64(1)), (X, np.int64(3))


class Account:
    """What is stored to."""

    def __init__(self, total: float) -> None:
        self.total = total
        self.seen: list[float] = []

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Account) and vars(self) == vars(other)

    __hash__ = object.__hash__


@failing(*PLACES)
def array_before_a_division(x: Any, n: Any) -> Any:
    x += 1
    x[0] = 7.0
    return divmod(5, int(n))


@failing(*PLACES)
def array_before_an_index(x: Any, n: Any) -> Any:
    x *= 2
    y = x[n]
    x[1] = y
    return y


@failing(*PLACES)
def array_in_a_loop(x: Any, n: Any) -> Any:
    for k in range(3):
        x[k] += x[k + n]
    return x.sum()


@failing((Account(1.0), np.int64(2)), (Account(2.0), np.int64(0)))
def attribute_before_a_division(account: Any, n: Any) -> Any:
    account.total += 1
    account.seen.append(account.total)
    account.total = 6 // int(n)
    return account.total


@failing(([1.0, 2.0], X, 2), ([1.0, 2.0], X, 9))
def item_before_an_index(held: Any, x: Any, n: Any) -> Any:
    held[0] += x[1]
    held[1] = x[n]
    return held[0]


@failing((X, 1), (X, 9))
def line_before_an_index(x: Any, n: Any) -> Any:
    print("before", x[0])
    x[0] = 5.0
    print("at", x[n])
    return x


@failing((X, 1))
def array_before_a_wrong_type(x: Any, n: Any) -> Any:
    x -= n
    return None + n


@failing((X, 1.0), (X, -1.0))
def wrong_type_on_one_way(x: Any, c: Any) -> Any:
    x += 1
    if c > 0:
        x[1] = 3.0
        x = x + None
    return x * 2


@failing((X, 1.0), (X, -1.0))
def wrong_shape_on_one_way(x: Any, c: Any) -> Any:
    x[0] = 2.0
    if c > 0:
        x += np.ones(3)
    return x * 2


UNLIKELY = (X, 0), (X, 1), (X, 2), (X, 3), (X, 4), (X, 5), (X, 6), (X, 7), (X, 8), (X, 9)


@failing(*UNLIKELY)
def what_is_known_to_fail_on_one_way(x: Any, n: Any) -> Any:
    held: Any = [1, 2]
    account: Any = Account(1.0)
    number: Any = 3
    x[0] = 5.0
    print("before")
    if n == 0:
        held["a"]
    elif n == 1:
        print(account.missing)
    elif n == 2:
        len(number)
    elif n == 3:
        min([])
    elif n == 4:
        sorted([*held, "a"])
    elif n == 5:
        list(range(1, 2, 0))
    elif n == 6:
        print(x.missing)
    elif n == 7:
        {"a": 1}["b"]
    elif n == 8:
        np.array([[1], [1, 2]])
    print("after")
    return x


@failing((X, 1))
def line_before_an_attribute_that_is_missing(x: Any, n: Any) -> Any:
    account: Any = Account(1.0)
    print("before", x[n])
    return account.missing


@failing((X, 2), (X, 7))
def index_before_a_raise(x: Any, n: Any) -> Any:
    y = np.zeros(3)
    y[n] = x[0]
    raise KeyError("later")


@failing((X, 3), (X, 0))
def division_in_a_loop_before_a_raise(x: Any, n: Any) -> Any:
    i = n
    for _ in range(1, 4):
        i = i % (i - 0 * n)
    raise KeyError(x.shape[0])


@failing((X, 2), (X, 0))
def division_before_an_index_that_is_known(x: Any, n: Any) -> Any:
    n = 7 % n
    return x[9], n


@failing((X, 2, 1), (X, 9, 0), (X, 9, 1), (X, 2, 0))
def first_of_two(x: Any, n: Any, m: Any) -> Any:
    k = 5 // m
    return x[n] + k


@failing((X, 2), (X, 9), (X, -9))
def unread(x: Any, n: Any) -> Any:
    x[n]
    return x.sum()


@failing((X, 2, 1.0), (X, 9, 1.0), (X, 9, -1.0), (X, 0, 1.0))
def unread_in_branches(x: Any, n: Any, c: Any) -> Any:
    if c > 0:
        x[n]
        if n < 3:
            y = 7 // n
            y = np.zeros(2)
            y[n - 2] = 1.0
    return x.sum()


@failing((X, 1), (X, 2), (X, 0))
def unread_in_loops(x: Any, n: Any) -> Any:
    for k in range(3):
        x[k * n]
    k = n
    while k < 4:
        k += 1
        x[np.array([0, 4 - k])]
        if x[0] < 0:
            6 % (k - 4)
    return k


@failing((X, np.int64(0)), (X, np.int64(2)))
def lines_in_a_loop_before_an_index(x: Any, n: Any) -> Any:
    w = np.ones(4)
    for k in range(4):
        print("trip", k, x[k])
        w[n + k] = 2.0
    return w


@failing((X, 2), (X, 0))
def unread_division(x: Any, n: Any) -> Any:
    1 // n
    return x.sum()


@failing((X, np.bool_(True)), (X, np.bool_(False)))
def division_by_what_is_picked(x: Any, t: Any) -> Any:
    """Picked twice: what has been picked may be Python's and may not."""
    i, j = np.int64(2), 2
    for k in range(3):
        x[k] = i // (j - 2)
        i = j = (i, j)[int(t)] % 5
    return x, i, j


@failing((X, np.float64(1)), (X, np.float64(-1)))
def dtype_beside_a_computed_size(x: Any, c: Any) -> Any:
    """One way fails by its dtypes, whatever size the other computes."""
    t = q = c > 0
    if t:
        x[x < c] -= 0.25
    else:
        q = -q
    return x, q


@counting(*TRIPS)
def total(x: Any, n: Any) -> Any:
    s = 0
    for i in range(n):
        s += x[i]
    return s


@counting(*TRIPS)
def with_it(x: Any, n: Any) -> Any:
    s, t = 0, True
    for i in range(n):
        s += x[i]
        t = x[i]
    return s + 1, -s, s * 2, s * 0.5, [s, (t, s)]


@counting((X, 0), (X, 2), *TRIPS)
def mean(x: Any, n: Any) -> Any:
    s = 0
    for i in range(n):
        s += x[i]
    return s / int(n)


@counting(*TRIPS)
def halved(x: Any, n: Any) -> Any:
    q, k = 8, x[1]
    while k < n:
        k += 1
        q = q / 2
    return q


@counting(*TRIPS, (-X, np.int64(3)))
def until(x: Any, n: Any) -> Any:
    s = 0
    for i in range(n):
        if x[i] > 0:
            break
        s += x[i]
    else:
        s = s + 0.5
    return s


@counting(*TRIPS)
def in_another(x: Any, n: Any) -> Any:
    q, k = 0, n * 0
    while True:
        k += 1
        if k > n:
            break
        for i in range(n - 2):
            q = q / 2 + x[i]
    return q


def positive(z: Any) -> Any:
    if z > 0:
        raise ValueError("positive")
    return z


def put(x: Any, v: Any) -> Any:
    x[1] = v
    return v


SIGNS = (X, np.float64(0.5)), (X, np.float64(-0.5))


@failing(*SIGNS)
def stored_from_a_function(x: Any, s: Any) -> Any:
    x[2] = positive(s)


@failing(*SIGNS)
def added_from_a_function(x: Any, s: Any) -> Any:
    x[0], x[3] = 4.0, 5.0
    x[0] += positive(s)


@failing(*SIGNS)
def added_in_place(x: Any, s: Any) -> Any:
    x += positive(s)


@failing(*SIGNS)
def stored_among_others(x: Any, s: Any) -> Any:
    x[0], x[1] = 4.0, positive(s)


@failing(*SIGNS)
def stored_at_a_functions_place(x: Any, s: Any) -> Any:
    x[int(positive(s))] = 2


@failing(*SIGNS)
def handed_to_a_function(x: Any, s: Any) -> Any:
    put(x, positive(s))


@failing(*SIGNS)
def before_another_function(x: Any, s: Any) -> Any:
    return positive(s) + put(x, 3.0)


@failing(*SIGNS)
def appended(x: Any, s: Any) -> Any:
    found = [1.0]
    try:  # noqa: SIM105
        found.append(positive(s))
    except ValueError:
        pass
    return len(found), found[-1]


@failing(*SIGNS)
def trips_from_a_function(x: Any, s: Any) -> Any:
    for i in range(int(positive(s)) + 2):
        x[i] = 7


@failing(*SIGNS)
def a_test_of_a_function(x: Any, s: Any) -> Any:
    if positive(s) < 5:
        x[3] = 9


@failing(*SIGNS)
def one_of_two_values(x: Any, s: Any) -> Any:
    x[0] = 1 if s > 5 else positive(s)


@failing(*SIGNS)
def a_test_of_a_loop(x: Any, s: Any) -> Any:
    while positive(s) < 1:
        x[0] += 1
        s += 1


@failing((X,), (np.arange(40.0),))
def caught_in_each_trip(x: Any) -> Any:
    for c in x:  # noqa: B007
        try:  # noqa: SIM105
            positive(1)
        except ValueError:
            pass
    return c


@counting(*TRIPS)
def where_some(x: Any, n: Any) -> Any:
    q = 1
    for i in range(n):
        if x[i] > 0:
            q = q * 0.5
    return q


@counting(*TRIPS)
def one_after_another(x: Any, n: Any) -> Any:
    q = 1
    for i in range(n - 1):
        q = q * x[i]
    for i in range(n - 2):
        q = q * x[i]
    return q


@counting((X, np.int64(0)), (X, np.int64(2)))
def behind_an_assertion(x: Any, n: Any) -> Any:
    assert n < 9, f"{n}"
    q = 0
    for i in range(n):
        q = q + x[i]
    return {"q": q}


@counting((X, 1.0), (X, -1.0))
def branches(x: Any, c: Any) -> Any:
    a = 1 if c > 0 else 0.5
    b = 2
    if c > 0:
        b = x[0]
    return a, b, a + 1, b * 3


@counting(([1.5], X, np.int64(0)), ([1.5], X, np.int64(2)))
def stored(held: Any, x: Any, n: Any) -> Any:
    s = 0
    for i in range(n):
        s += x[i]
    held[0] = s
    print(s, f"{s}")


@counting(*TRIPS)
def returned_from_a_loop(x: Any, n: Any) -> Any:
    q, k = 0, 0
    while True:
        k += 1
        if k > n:
            return q, k
        q = q + x[k]


@counting((X, 3.0), (X, 0.0))
def read_in_its_trip(x: Any, c: Any) -> Any:
    n = int(c)
    total = 0
    for (_, a), b in zip(enumerate(x), [n, 2, 7], strict=False):
        if n > 1:
            x[::-1] = b - a
        else:
            break
        total = total + b
    return x, total


@counting((X, 1.0), (X, -1.0))
def floats_beside_others(x: Any, c: Any) -> Any:
    a, b, d, z = 0.5, 0.1, float(x[0]), 1
    if c > 0:
        a = b = np.float32(1.5)
        d, z = x.astype(np.float32)[1], 2j
    return a, a * 1.1, b, b * 1.1, np.sin(b), d / 3, d * np.float32(2), z, z * 3


@counting(*TRIPS)
def largest_of_float32(x: Any, n: Any) -> Any:
    largest, scale, w = -np.inf, 0.1, x.astype(np.float32)
    for k in range(n):
        if w[k] > largest:
            largest = w[k]
            scale = scale + largest
    return largest, scale, scale * 2


@counting(*TRIPS)
def complex_beside_float(x: Any, n: Any) -> Any:
    z, d = 0, 0.5
    for k in range(n):
        if abs(z) > 2:
            break
        z = z * z + complex(x[0], 1.0)
        if k > 0:
            d = d * z
    return z, z * 2, d, d / 3, d + x[0]


@counting((X, 0.5), (X, 3.0), (X, -9.0))
def sums_of_none(x: Any, c: Any) -> Any:
    a, b = sum(e for e in x if e > c), sum(float(e) for e in x if e > c)
    w = sum(e for e in x.astype(np.float32) if e > c)
    rows = [x * e for e in x if e > c]
    return a, a / 3, b, b * 2, w, w * 1.1, sum((e for e in x if e > c), 1), sum(rows)


@counting(*TRIPS)
def classes_through_loops(x: Any, n: Any) -> Any:
    q, t, a, b, c = 1, x[2] > 0, 0.0, x[1], x[0]
    if x[0] > n - 2:
        q = q / 2
    r = q
    for _ in range(n):
        q = q * 2
        a, (b, c) = c, (a, b)
        b = x[1] * 1.0
    for v in x:
        if v > 0:
            r += t
    return q, r, a, b, c
