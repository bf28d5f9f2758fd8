"""Loops of numbers and single elements as nests, judged by NumPy running the same text."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

Arrays = tuple[Any, ...]
RANDOM = np.random.default_rng(7)


def longest_common(a: Any, b: Any) -> Any:
    table = np.zeros((a.shape[0] + 1, b.shape[0] + 1))

    def row(i: Any, table: Any) -> Any:
        def cell(j: Any, table: Any) -> Any:
            above, left = table[i, j + 1], table[i + 1, j]

            def one_more() -> Any:
                return table[i, j] + 1

            def larger() -> Any:
                return np.maximum(above, left)

            table[i + 1, j + 1] = mlc.cond(a[i] == b[j], one_more, larger)
            return table

        return mlc.fori_loop(0, b.shape[0], cell, table)

    return mlc.fori_loop(0, a.shape[0], row, table)


def running_mean(x: Any) -> Any:
    def step(i: Any, mean: Any) -> Any:
        return mean + (x[i] - mean) / (i + 1)

    return mlc.fori_loop(0, x.shape[0], step, 0.0)


def smoothed(x: Any) -> Any:
    def step(i: Any, carry: Any) -> Any:
        y, s = carry
        s = 0.9 * s + 0.1 * x[i]
        y[i] = s
        return y, s

    return mlc.fori_loop(0, x.shape[0], step, (np.zeros(x.shape), x[0] * 1.0))


def newton(a: Any) -> Any:
    def goes_on(s: Any) -> Any:
        x, k = s
        return (np.abs(x * x - a) > 1e-9) & (k < 50)

    return mlc.while_loop(
        goes_on, lambda s: (s[0] - (s[0] * s[0] - a) / (2 * s[0]), s[1] + 1), (a, 0)
    )


def triangle(a: Any) -> Any:
    def row(i: Any, a: Any) -> Any:
        def column(j: Any, a: Any) -> Any:
            a[i, j] = a[i, j] + a[j, i] * 2
            return a

        return mlc.fori_loop(0, i, column, a)

    return mlc.fori_loop(0, a.shape[0], row, a.copy())


def relaxed(a: Any, b: Any) -> Any:
    """Gauss-Seidel: elements of the new array are read as soon as they are written."""
    n = a.shape[0]

    def sweep(_: Any, x: Any) -> Any:
        def row(i: Any, x: Any) -> Any:
            s = mlc.fori_loop(0, n, lambda j, s: s + a[i, j] * x[j], 0.0)
            x[i] = (b[i] - s + a[i, i] * x[i]) / a[i, i]
            return x

        return mlc.fori_loop(0, n, row, x)

    return mlc.fori_loop(0, 5, sweep, np.zeros(n))


def sorted_by_exchange(a: Any) -> Any:
    n = a.shape[0]

    def pass_(k: Any, a: Any) -> Any:
        def pair(j: Any, a: Any) -> Any:
            x, y = a[j], a[j + 1]
            a[j] = np.minimum(x, y)
            a[j + 1] = np.maximum(x, y)
            return a

        return mlc.fori_loop(0, n - 1 - k, pair, a)

    return mlc.fori_loop(0, n, pass_, a.copy())


def reversed_in_place(a: Any) -> Any:
    def exchange(i: Any, a: Any) -> Any:
        t = a[i]
        a[i] = a[-1 - i]
        a[-1 - i] = t
        return a

    return mlc.fori_loop(0, a.shape[0] // 2, exchange, a.copy())


def counted(k: Any) -> Any:
    def count(i: Any, h: Any) -> Any:
        h[k[i]] += 1
        return h

    return mlc.fori_loop(0, k.shape[0], count, np.zeros(5, np.int64))


def two_arrays(a: Any) -> Any:
    def step(i: Any, carry: Any) -> Any:
        b, c = carry
        b[i] = c[i - 1] + a[i]
        c[i] = b[i - 1]
        return b, c

    return mlc.fori_loop(0, a.shape[0], step, (a.copy(), a.copy()))


def escape(c: Any) -> Any:
    return mlc.while_loop(
        lambda s: (np.abs(s[0]) < 2) & (s[1] < 50), lambda s: (s[0] * s[0] + c, s[1] + 1), (c, 0)
    )


def many_dtypes(x: Any) -> Any:
    def step(i: Any, carry: Any) -> Any:
        flag, small, half, single = carry
        return ~flag, small * np.uint8(7), half + np.float16(0.1), single + np.float32(x[i])

    start = (np.bool_(True), np.uint8(3), np.float16(0), np.float32(0))
    return mlc.fori_loop(0, x.shape[0], step, start)


def from_a_table(x: Any) -> Any:
    table = np.array([1.0, 5.0, 2.0])
    return mlc.fori_loop(0, x.shape[0], lambda i, s: s + table[x[i] % 3], 0.0)


def in_a_loop_of_vectors(a: Any, s: Any) -> Any:
    def step(_: Any, carry: Any) -> Any:
        a, s = carry

        def cell(j: Any, a: Any) -> Any:
            a[j] = a[j] + a[j - 1] / s
            return a

        a = mlc.fori_loop(1, a.shape[0], cell, a)
        return a, np.sqrt(a).sum()

    return mlc.fori_loop(0, 4, step, (a.copy(), s))


CASES: dict[str, tuple[Callable[..., Any], Arrays]] = {
    "longest common": (longest_common, (RANDOM.integers(0, 4, 17), RANDOM.integers(0, 4, 9))),
    "running mean": (running_mean, (RANDOM.random(50),)),
    "smoothed": (smoothed, (RANDOM.random(50),)),
    "newton": (newton, (7.0,)),
    "triangle": (triangle, (RANDOM.random((7, 7)),)),
    "relaxed": (relaxed, (RANDOM.random((6, 6)) + 6 * np.eye(6), RANDOM.random(6))),
    "sorted": (sorted_by_exchange, (RANDOM.random(20),)),
    "reversed": (reversed_in_place, (RANDOM.random(9),)),
    "counted": (counted, (RANDOM.integers(-5, 5, 40),)),
    "two arrays": (two_arrays, (RANDOM.random(6),)),
    "escape": (escape, (0.3 + 0.5j,)),
    "many dtypes": (many_dtypes, (RANDOM.random(10),)),
    "table": (from_a_table, (RANDOM.integers(0, 9, 10),)),
    "in a loop of vectors": (in_a_loop_of_vectors, (RANDOM.random(700), 0.5)),
    "no trips": (running_mean, (np.zeros(0),)),
}


def plan_of(f: Callable[..., Any], arguments: Arrays) -> str:
    return mlc.compile(f, target="avx512").lower(*arguments).text("plan")


def flat(result: Any) -> list[Any]:
    return [*result] if type(result) is tuple else [result]


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", CASES)
def test_a_nest_computes_what_python_does(name: str) -> None:
    f, arguments = CASES[name]
    compiled = mlc.compile(f)
    expected = flat(f(*arguments))
    for found in (compiled(*arguments), compiled.reference(*arguments)):
        for x, y in zip(flat(found), expected, strict=True):
            assert np.asarray(x).dtype == np.asarray(y).dtype
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_copied_in_its_loops(name: str) -> None:
    """One kernel holds the loops; only the loop of vectors has others around it."""
    plan = plan_of(*CASES[name])
    assert plan.count('mlc.kernel "nest"') == 1
    if name != "in a loop of vectors":
        body = plan.split("func.func", 1)[1]
        assert not re.search(r"mlc\.(for|while).*\n(?:.*\n)*?.*mlc\.kernel", body)


@pytest.mark.parametrize("name", ["longest common", "smoothed", "triangle", "reversed", "counted"])
def test_sizes_may_be_symbols(name: str) -> None:
    f, arguments = CASES[name]
    compiled = mlc.compile(f, dynamic=True)
    for x, y in zip(flat(compiled(*arguments)), flat(f(*arguments)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("name", ["running mean", "smoothed", "triangle", "relaxed", "two arrays"])
def test_derivatives_go_through(name: str) -> None:
    f, arguments = CASES[name]

    def loss(*x: Any) -> Any:
        return sum(np.sum(r * r) for r in flat(f(*x)))

    mlc.check_grads(loss, arguments)


@pytest.mark.parametrize("name", ["longest common", "smoothed", "triangle", "counted", "reversed"])
def test_of_many_examples_each_has_its_own(name: str) -> None:
    f, arguments = CASES[name]
    many = [np.stack([x, x[::-1].copy(), x]) for x in arguments]
    found = flat(mlc.compile(mlc.vmap(f))(*many))
    for k in range(3):
        for x, y in zip(found, flat(f(*(x[k] for x in many))), strict=True):
            np.testing.assert_allclose(x[k], y, rtol=1e-12)


def test_the_argument_stays_as_it_is() -> None:
    x = RANDOM.random(9)
    before = x.copy()
    mlc.compile(sorted_by_exchange)(x)
    np.testing.assert_array_equal(x, before)


def test_an_index_beyond_the_end_is_an_error_with_its_line() -> None:
    k = np.array([0, 4, 5])
    with pytest.raises(IndexError, match=r"index 5 is out of bounds for an axis of size 5"):
        mlc.compile(counted)(k)
    with pytest.raises(IndexError, match=r"h\[k\[i\]\] \+= 1"):
        mlc.compile(counted)(k)


def test_an_error_ends_a_loop_that_would_not_end() -> None:
    def f(x: Any) -> Any:
        return mlc.while_loop(lambda k: k == 0, lambda k: k + x[k + 3], 0)

    with pytest.raises(IndexError):
        mlc.compile(f)(np.zeros(3, np.int64))


def test_an_element_that_was_read_stays_what_it_was() -> None:
    def f(x: Any) -> Any:
        x = x.copy()
        t = x[1]
        x[1] = x[2]
        x[2] = t
        return x, t

    x = np.arange(4.0)
    for found, expected in zip(mlc.compile(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_rows_at_places_that_are_values_are_views() -> None:
    def f(a: Any, i: Any, j: Any) -> Any:
        a = a.copy()
        row = a[i]
        row[0] = 5
        row += 1
        a[j, :2] *= 3
        a[1:, j] = a[i, 1]
        return a, row

    a = np.arange(12.0).reshape(3, 4)
    for i, j in ((0, 2), (-1, 1), (2, -3)):
        for found, expected in zip(mlc.compile(f)(a, i, j), f(a, i, j), strict=True):
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(IndexError):
        mlc.compile(f)(a, 3, 0)


@pytest.mark.parametrize("loop", ["while", "for"])
def test_a_nest_may_be_interrupted(loop: str) -> None:
    def forever(k: Any) -> Any:
        return mlc.while_loop(lambda s: s >= k, lambda s: (s * 3 + 1) % 1000, 5)

    def long(k: Any) -> Any:
        return mlc.fori_loop(0, 10**13 + k, lambda i, s: (s * 3 + i) % 1000, 5)

    compiled = mlc.compile(forever if loop == "while" else long)
    compiled(2000 if loop == "while" else -(10**13))
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        compiled(0)
    timer.join()


def test_a_step_may_be_a_number_of_trips() -> None:
    def marked(x: Any) -> Any:
        for i in range(2, len(x)):
            for j in range(i * i, len(x), i):
                x[j] += i
            for j in range(len(x) - 1, i, -i):
                x[j] -= 0.5
        return x

    x = RANDOM.standard_normal(50)
    step: Any = mlc.compile(marked)
    np.testing.assert_array_equal(step(x.copy()), marked(x.copy()))


def test_a_step_of_unknown_sign_must_not_be_zero() -> None:
    def stepped(x: Any, bounds: Any) -> Any:
        start, stop, step = bounds[0], bounds[1], bounds[2]
        for j in range(start, stop, step):
            x[j] += j
        return x

    compiled: Any = mlc.compile(stepped)
    for bounds in ([0, 9, 2], [8, -1, -3], [3, 4, 5], [4, 3, 1], [3, 4, -1], [0, 0, 7]):
        x, found = np.zeros(9), np.array(bounds)
        np.testing.assert_array_equal(compiled(x.copy(), found), stepped(x.copy(), found))
    with pytest.raises(ValueError, match="arg 3 must not be zero"):
        compiled(np.zeros(9), np.array([0, 9, 0]))


def test_a_sieve_whose_outer_loop_python_could_run_is_one_loop() -> None:
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

    step: Any = mlc.compile(sieve)
    np.testing.assert_array_equal(step(5000), sieve(5000))
    assert step.lower(5000).text("trace").count("mlc.for") < 40  # of 69 trips


def looked_up(x: Any) -> Any:
    """A loop over single elements, which is no arithmetic of whole arrays."""
    out = np.empty(len(x))
    for i in range(len(x)):
        k = int(x[i] * 4)
        if k > 2:
            out[i] = x[k]
        elif k > 1:
            out[i] = x[i] / k
        else:
            out[i] = 0.0
    return out


def test_trips_that_workers_share_are_asked_between_blocks_whether_to_stop() -> None:
    x = RANDOM.random(200_000)
    step: Any = mlc.compile(threads=2)(looked_up)
    np.testing.assert_array_equal(step(x), looked_up(x))
    text = step.lower(x).text("loops")
    loop = max(re.findall(r"\n( +)scf\.for %i\w* .*?\n\1}", text, re.S), key=len)
    body = re.search(rf"\n{loop}scf\.for .*?memref\.store.*?\n{loop}}}", text, re.S)
    assert body is not None
    assert "mlc_par.stopped" not in body.group()


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, np.uint64])
@pytest.mark.parametrize("divisor", [1, 2, 64])
def test_divisors_that_are_powers_of_two_round_down(dtype: Any, divisor: int) -> None:
    def halves(x: Any) -> Any:
        out = np.empty((len(x), 2), x.dtype)
        for i in range(len(x)):
            out[i, 0] = x[i] // divisor
            out[i, 1] = x[i] % divisor
        return out

    x = np.array([-128, -65, -64, -2, -1, 0, 1, 2, 3, 63, 64, 127] * 3).astype(dtype)
    step: Any = mlc.compile(halves)
    np.testing.assert_array_equal(step(x), halves(x))
    assert "divsi" not in step.lower(x).text("loops").partition("func.func @halves")[0]


def test_min_and_max_of_numbers_are_pythons() -> None:
    def ends(x: Any) -> Any:
        return np.stack([min(x[0], x[1]), max(x[0], x[1]), min(x[2], x[1], x[0]), max(0.0, x[0])])

    step: Any = mlc.compile(ends)
    nan = float("nan")
    for x in ([nan, 1.0, 2.0], [1.0, nan, 0.0], [0.0, -0.0, 1.0], [-0.0, 0.0, nan]):
        np.testing.assert_array_equal(step(np.array(x)), ends(np.array(x)))
        np.testing.assert_array_equal(np.signbit(step(np.array(x))), np.signbit(ends(np.array(x))))


def test_the_largest_of_trips_that_run_at_once_is_pythons() -> None:
    def ends(x: Any) -> Any:
        low, high = x[0], -np.inf
        for i in mlc.prange(len(x)):
            low = min(low, x[i])
            high = max(high, 2 * x[i])
        return low, high

    x = RANDOM.standard_normal(5000)
    x[77] = np.nan
    assert mlc.compile(ends)(x) == ends(x)
