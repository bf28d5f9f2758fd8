"""Python ints that decide about a program: few artifacts for all values, and Python's answers."""

# pyright: basic, reportConstantRedefinition=false
# ruff: noqa: PLW0108, PERF401, B007 - as users write loops

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import mlc

X = np.arange(1.0, 9.0)
NAMES = {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}
LAYERS = [np.full(k + 1, float(k)) for k in range(4)]
COUNT: Any = 1


def trips(x: Any, n: Any) -> Any:
    for _ in range(n):
        x = x * 0.5 + 1
    return x


def from_one(x: Any, n: Any) -> Any:
    total = 0.0
    for i in range(1, n):
        total = total + x[i % 8] * i
    return total


def stepped(x: Any, n: Any) -> Any:
    total = 0
    for i in range(0, n, 3):
        total += i
    return total + x[0]


def step(x: Any, n: Any) -> Any:
    total = 0.0
    for i in range(0, 20, n):
        total += x[i % 8]
    return total


def backwards(x: Any, n: Any) -> Any:
    for i in range(n, 0, -1):
        x = x * 0.5 + i
    return x


def nested(x: Any, n: Any) -> Any:
    for i in range(n):
        for j in range(i):
            x = x * 0.9 + j
    return x


def last_index(x: Any, n: Any) -> Any:
    i = -1
    for i in range(n):
        x = x + 1
    return x, i


def counted(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        x = x * 0.5 + i
        i += 1
    return x, i


def both(x: Any, n: Any) -> Any:
    for _ in range(n):
        x = x + 1
    while n > 3:
        x = x * 0.5
        n -= 2
    return x, n


def decided(x: Any, n: Any) -> Any:
    if n > 3:
        return x + n
    return x[:2] if n == 2 else x - n


def equal(x: Any, n: Any) -> Any:
    return x[:n] if n != 5 else x * 2


def powers(x: Any, n: Any) -> Any:
    return np.rint(x**n) * np.zeros(n).size


def python_numbers(x: Any, n: Any) -> Any:
    np.zeros(n)
    quotient, rest = divmod(n, 3)
    return n, -n, abs(n - 4), n // 2, n % 3, n / 2, n * n, n & 5, n << 2, n >> 1, quotient, rest


def python_comparisons(x: Any, n: Any) -> Any:
    np.zeros(n)
    return n < 2.5, n == 3.0, n == True, n in (1, 4), 2 < n <= 6, not n  # noqa: E712 - as users do


def python_calls(x: Any, n: Any) -> Any:
    np.zeros(n)
    return int(n), float(n), round(n), min(n, 4), max(n, 4), isinstance(n, int), math.floor(n)


def extremes(x: Any, n: Any) -> Any:
    return x[: min(n, 4)] * max(n, 2)


def drawn(x: Any, n: Any) -> Any:
    found = []
    for i in range(n):
        found.append(x[i % 8] * 2)
    return np.array(found)


def comprehended(x: Any, n: Any) -> Any:
    return sum([x[i % 8] for i in range(n)]) + len([0 for _ in range(n)])


def table(x: Any, n: Any) -> Any:
    held = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            held[i, j] = x[i % 8] * j
    return held


SHARED: dict[str, tuple[Callable[..., Any], int]] = {
    "trips": (trips, 3),
    "from one": (from_one, 4),
    "stepped": (stepped, 3),
    "step": (step, 4),
    "backwards": (backwards, 3),
    "nested": (nested, 3),
    "last index": (last_index, 4),
    "counted": (counted, 2),
    "both": (both, 4),
    "decided": (decided, 6),
    "equal": (equal, 5),
    "slice": (lambda x, n: x[:n], 4),
    "slice from": (lambda x, n: x[n:], 4),
    "slice between": (lambda x, n: x[n : n + 2], 5),
    "strided": (lambda x, n: x[:n:2], 4),
    "reversed": (lambda x, n: x[n::-1], 4),
    "zeros": (lambda x, n: np.zeros(n) + x[0], 2),
    "arange": (lambda x, n: np.arange(n) * x[1], 2),
    "arange from": (lambda x, n: np.arange(2, n), 4),
    "linspace": (lambda x, n: np.linspace(0, 1, 5) * n, 2),
    "eye": (lambda x, n: np.eye(n), 2),
    "full": (lambda x, n: np.full((n, 2), n), 2),
    "tile": (lambda x, n: np.ones((n, 1)) * x, 2),
    "sum": (lambda x, n: x[:n].sum(), 4),
    "powers": (lambda x, n: powers(x[:2], n), 2),
    "numbers": (python_numbers, 3),
    "comparisons": (python_comparisons, 12),
    "calls": (python_calls, 5),
    "extremes": (extremes, 6),
    "drawn": (drawn, 3),
    "comprehended": (comprehended, 3),
    "table": (table, 2),
    "text": (lambda x, n: (f"{n}", str(n), f"{np.zeros(n).size:03d}"), 2),
}
"""Programs, and how many artifacts they have for the values 0 to 29."""


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(same, found, expected))
    if type(found) is not type(expected):
        return False
    if isinstance(expected, np.ndarray):
        return found.dtype == expected.dtype and np.array_equal(found, expected)
    return bool(found == expected)


def check(f: Callable[..., Any], calls: Sequence[tuple[Any, ...]], most: int) -> Any:
    compiled = mlc.compile(f)
    for args in calls:
        try:
            expected = f(*args)
        except (ValueError, IndexError, KeyError) as error:
            with pytest.raises(type(error)):
                compiled(*args)
            continue
        found = compiled(*args)
        assert same(found, expected), (args[1:], found, expected)
    assert len(compiled.stats().artifacts) <= most, compiled.stats().remarks
    return compiled


@pytest.mark.parametrize("name", SHARED)
def test_thirty_values_share_programs(name: str) -> None:
    f, most = SHARED[name]
    check(f, [(X, n) for n in (3, *range(30))], most)


@pytest.mark.parametrize("name", SHARED)
def test_values_that_are_no_sizes(name: str) -> None:
    f, _ = SHARED[name]
    check(f, [(X, n) for n in (3, 5, -1, 4, -3, 0, 1)], 10)


def test_numbers_from_outside() -> None:
    class Model:
        def __init__(self) -> None:
            self.steps: Any = 3
            self.sizes: Any = [3, 4]

        def run(self, x: Any) -> Any:
            for _ in range(self.steps):
                x = x * 0.5 + self.steps
            return x

    model, held, table = Model(), 3, {"n": 3}

    def put_global(n: Any) -> None:
        global COUNT
        COUNT = n

    def put_cell(n: Any) -> None:
        nonlocal held
        held = n

    def by_global(x: Any) -> Any:
        return np.zeros(COUNT) + x[:COUNT].sum()

    ways: list[tuple[Callable[..., Any], Callable[[Any], None]]] = [
        (by_global, put_global),
        (lambda x: trips(x, held), put_cell),
        (lambda x: model.run(x), lambda n: setattr(model, "steps", n)),
        (lambda x: trips(x, table["n"]), lambda n: table.__setitem__("n", n)),
        (lambda x: trips(x, model.sizes[0]), lambda n: model.sizes.__setitem__(0, n)),
    ]
    for f, put in ways:
        compiled = mlc.compile(f)
        for n in (3, *range(30), 3.0, -2, 5):
            put(n)
            try:
                expected = f(X)
            except (TypeError, ValueError) as error:
                with pytest.raises(type(error)):
                    compiled(X)
                continue
            assert same(compiled(X), expected), n
        assert len(compiled.stats().artifacts) <= 6, compiled.stats().remarks


def test_a_thousand_values_are_one_program() -> None:
    compiled = mlc.compile(trips)
    for n in range(1000):
        assert compiled(X[:1], n)[0] == pytest.approx(2 - 2.0**-n if n else 1.0)
    assert len(compiled.stats().artifacts) == 2


def test_several_numbers() -> None:
    def f(x: Any, n: Any, m: Any, k: Any) -> Any:
        for i in range(n):
            x = x * 0.5 + NAMES[k]
            for j in range(m):
                x = x + i * j
        return x, np.zeros((n, m))

    values = zip(range(2, 30), range(28, 0, -1), [0, 1] * 14, strict=True)
    calls = [(X, n, m, k) for n, m, k in values]
    compiled = check(f, calls, 7)
    assert any("integer value of k" in r for r in compiled.stats().remarks)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, n: x * NAMES[n],
        lambda x, n: x * NAMES.get(n, 9.0),
        lambda x, n: LAYERS[n].sum() * x,
        lambda x, n: x * (2 if n in {1, 2} else 3),
        lambda x, n: [x] * n,
        lambda x, n: n * (1, 2),
        lambda x, n: x * "abcd".index("abcd"[n]),
    ],
)
def test_what_needs_the_number_has_a_program_for_each(f: Callable[..., Any]) -> None:
    compiled = check(f, [(X, n) for n in (0, 1, 2, 3, 2, 1)], 4)
    assert len(compiled.stats().artifacts) == 4
    assert any("of n is needed" in r or "n as a" in r for r in compiled.stats().remarks)


def factorial(n: Any) -> Any:
    found = 1
    for i in range(1, n + 1):
        found *= i
    return found


def fibonacci(n: Any) -> Any:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def cubes(n: Any) -> Any:
    total = 0
    for i in range(n):
        total += i * i * i
    return total


def by_while(n: Any) -> Any:
    found, i = 1, 1
    for _ in range(n):
        found = found + 0
    while i <= n:
        found, i = found * i, i + 1
    return found


def masked(n: Any) -> Any:
    seed = 7
    for _ in range(n):
        seed = (1103515245 * seed + 12345) & 0x7FFFFFFF
    return seed


def remainders(n: Any) -> Any:
    total = 1
    for i in range(n):
        total = (total * 31 + i) % 1000003
    return total


def product_of_list(n: Any) -> Any:
    held, found = [], 1
    for i in range(n):
        held.append(i + 1)
    for x in held:
        found *= x
    return found


def sum_of_list(n: Any) -> Any:
    held = []
    for i in range(n):
        held.append(i**4 * 1000)
    return sum(held)


EXACT: dict[str, tuple[Callable[..., Any], Sequence[int], int]] = {
    "factorial": (factorial, (3, 5, 19, 20, 21, 22, 30, 50), 8),
    "fibonacci": (fibonacci, (3, 5, 11, 15, 91, 92, 93, 94, 200), 8),
    "cubes": (cubes, (3, 5, 600, 1000, 78000), 4),
    "while": (by_while, (3, 5, 20, 21, 30), 5),
    "square": (lambda n: n * n, (3, 2**20, 2**31, 2**32, -(2**33), 2**62, 2**63 - 1), 6),
    "next": (lambda n: n + 1, (3, 2**62, 2**63 - 1, -(2**63) + 1), 3),
    "negative": (lambda n: -n, (3, 2**63 - 1, -(2**63) + 1, -(2**63)), 4),
    "power": (lambda n: n**5, (3, 1000, 2**20, -(2**20)), 4),
    "of two": (lambda n: 2**n, (3, 4, 10, 16, 62, 63, 64, 100), 7),
    "shifted": (lambda n: 1 << n, (3, 4, 10, 16, 62, 63, 64, 100), 6),
    "masked": (masked, (3, 5, 100, 1000), 2),
    "remainders": (remainders, (3, 5, 100, 1000), 2),
    "listed": (product_of_list, (3, 5, 20, 21, 30), 6),
    "sum listed": (sum_of_list, (3, 5, 16, 100, 120), 5),
    "sum of a list": (lambda n: sum([i**4 for i in range(n)]), (3, 5, 40, 9000), 4),
}


@pytest.mark.parametrize("name", EXACT)
def test_pythons_ints_have_no_end(name: str) -> None:
    f, values, most = EXACT[name]
    check(f, [(n,) for n in values], most)


def test_sizes_have_no_end_either() -> None:
    for f, most in (
        (lambda x: factorial(x.shape[0]), 8),
        (lambda x: x.shape[0] ** 9, 8),
        (lambda x: 2 ** x.shape[0], 8),
    ):
        check(f, [(np.zeros(n),) for n in (3, 20, 21, 30, 62, 63, 200, 400)], most)


def test_what_does_not_fit_is_an_error() -> None:
    narrow = np.ones(3, np.int8)

    def f(x: Any, n: Any) -> Any:
        return np.zeros(n).sum() + (x + n)

    compiled = mlc.compile(f)
    for n in (1, 2, 3, 100, 127):
        np.testing.assert_array_equal(compiled(narrow, n), f(narrow, n))
    for n in (128, 300, 128):
        with pytest.raises(OverflowError, match="out of bounds for int8"):
            compiled(narrow, n)
    np.testing.assert_array_equal(compiled(narrow, 5), f(narrow, 5))
    assert len(compiled.stats().artifacts) == 2


def test_a_call_that_is_wrong_makes_no_number_static() -> None:
    def f(x: Any, n: Any) -> Any:
        if n < 1:
            raise ValueError("none")
        return x[n] + trips(x, n)

    check(f, [(X, n) for n in (1, 2, 0, 9, 3, -1, 10, 0, 11, 12, 4, 5, 6, 7)], 9)


def test_derivatives() -> None:
    f = mlc.compile(mlc.grad(lambda x, n: trips(x * x, n).sum()))
    for n in range(12):
        np.testing.assert_allclose(f(X, n), 2 * X * 0.5**n)
    assert len(f.stats().artifacts) <= 3
    g = mlc.compile(mlc.vmap(lambda x, n: trips(x, n) * n, in_axes=(0, None)))
    for n in range(12):
        np.testing.assert_allclose(g(X, n), trips(X, n) * n)
    assert len(g.stats().artifacts) <= 3


@pytest.mark.parametrize("value", [0, 1, 2, 7])
def test_keys_and_classes_of_sizes(value: int) -> None:
    names = {0: 4.0, 1: 5.0, 2: 6.0}

    def f(x: Any) -> Any:
        n = x.shape[0]
        kinds = isinstance(n, int), type(n) is int, n in {1, 2}, n == value, n < 1.5, {n: 1}[n]
        return names.get(n, 9.0), kinds, n & 3, n | 1, n ^ 2, ~n, abs(n - 2), n == float(value)

    check(f, [(np.zeros(n),) for n in (5, value, 1, 0, 2, 3)], 7)
