"""Loops of many trips stay loops, as they are written; those whose trips differ are unrolled."""

# pyright: reportPossiblyUnboundVariable=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.staging import loops, trials
from mlc.frontend.trace.trace import Trace

Array = Any
R = np.random.default_rng(7)


def common_subsequence(a: Array, b: Array) -> Array:
    n, m = len(a), len(b)
    table = np.zeros((n + 1, m + 1), np.int32)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            if a[i - 1] == b[j - 1]:
                table[i, j] = table[i - 1, j - 1] + 1
            else:
                table[i, j] = max(table[i - 1, j], table[i, j - 1])
    return table


def edit_distance(a: Array, b: Array) -> Array:
    previous = np.arange(len(b) + 1)
    for i in range(len(a)):
        current = np.empty_like(previous)
        current[0] = i + 1
        for j in range(len(b)):
            cost = 0 if a[i] == b[j] else 1
            current[j + 1] = min(previous[j + 1] + 1, current[j] + 1, previous[j] + cost)
        previous = current
    return previous[-1]


def shortest_paths(d: Array) -> Array:
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


def gauss_seidel(u: Array) -> Array:
    n, m = u.shape
    for _ in range(40):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                u[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) / 4
    return u


def smoothed(x: Array) -> Array:
    y, s = np.empty_like(x), 0
    for i in range(len(x)):
        s = 0.9 * s + 0.1 * x[i]
        y[i] = s
    return y


def escapes(c: Array) -> Array:
    out = np.zeros(c.shape, np.int64)
    for i in range(len(c)):
        z = 0j
        for k in range(60):
            if abs(z) > 2:
                break
            z = z * z + c[i]
            out[i] = k
    return out


def longest_run(x: Array) -> Array:
    best = run = 0
    for v in x:
        if v > 0:
            run += 1
            if run > best:
                best = run
        else:
            run = 0
    return best


def first_repeat(x: Array) -> Array:
    for i in range(len(x)):
        for j in range(i):
            if x[i] == x[j]:
                return i
    return -1


def last_index(x: Array) -> Array:
    """The target is what it was in the last trip."""
    s = x[0]
    for i in range(len(x)):
        s = np.sin(s) + x[i] * np.cos(s) - s / 3 + np.sqrt(abs(s)) * x[i] - s * s / 7
    return s + i


def tridiagonal(a: Array, b: Array, c: Array, d: Array) -> Array:
    """A system in each row: columns are swept forwards and backwards."""
    p, q, x = np.zeros_like(b), np.zeros_like(b), np.empty_like(b)
    p[:, 0], q[:, 0] = c[:, 0] / b[:, 0], d[:, 0] / b[:, 0]
    for i in range(1, b.shape[1]):
        m = b[:, i] - a[:, i] * p[:, i - 1]
        p[:, i] = c[:, i] / m
        q[:, i] = (d[:, i] - a[:, i] * q[:, i - 1]) / m
    x[:, -1] = q[:, -1]
    for i in range(b.shape[1] - 2, -1, -1):
        x[:, i] = q[:, i] - p[:, i] * x[:, i + 1]
    return x


def cheapest_paths(cost: Array) -> Array:
    m = cost.copy()
    for i in range(1, len(cost)):
        before = np.minimum(np.minimum(m[i - 1, :-2], m[i - 1, 1:-1]), m[i - 1, 2:])
        m[i, 1:-1] += before
        m[i, 0] += min(m[i - 1, 0], m[i - 1, 1])
        m[i, -1] += min(m[i - 1, -1], m[i - 1, -2])
    return m


def hidden_states(a: Array, b: Array, seen: Array) -> Array:
    alpha = np.zeros((len(seen), len(a)))
    alpha[0] = b[:, seen[0]] / len(a)
    for t in range(1, len(seen)):
        alpha[t] = (alpha[t - 1] @ a) * b[:, seen[t]]
        alpha[t] /= alpha[t].sum()
    return alpha


def trajectory(x: Array, v: Array) -> Array:
    found = np.zeros((80, len(x)))
    for t in range(80):
        v = v - 0.005 * x
        x = x + 0.01 * v
        v = v - 0.005 * x
        found[t] = x
    return found


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "common_subsequence": (common_subsequence, (R.integers(0, 4, 70), R.integers(0, 4, 90))),
    "edit_distance": (edit_distance, (R.integers(0, 4, 70), R.integers(0, 4, 60))),
    "shortest_paths": (shortest_paths, (R.random((40, 40)),)),
    "gauss_seidel": (gauss_seidel, (R.random((40, 50)),)),
    "smoothed": (smoothed, (R.random(5_000),)),
    "escapes": (escapes, (R.uniform(-2, 1, 400) + 1j * R.uniform(-1, 1, 400),)),
    "longest_run": (longest_run, (R.standard_normal(6_000),)),
    "first_repeat": (first_repeat, (R.permutation(np.r_[np.arange(400), 17]),)),
    "tridiagonal": (tridiagonal, (R.random((6, 50)), R.random((6, 50)) + 2, *R.random((2, 6, 50)))),
    "cheapest_paths": (cheapest_paths, (R.random((40, 30)),)),
    "hidden_states": (hidden_states, (*R.random((2, 5, 5)), R.integers(0, 5, 90))),
    "trajectory": (trajectory, (R.random(9), R.random(9))),
    "last_index": (last_index, (R.random(3_000),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_numpy(name: str) -> None:
    """The same results, changed arguments included, from a program as short as its text."""
    function, arguments = PROGRAMS[name]
    own, expected = ([x.copy() for x in arguments] for _ in range(2))
    compiled = mlc.compile(function)
    found = compiled(*own)
    np.testing.assert_allclose(found, function(*expected), rtol=1e-12)
    for x, y in zip(own, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)
    program = compiled.lower(*arguments).text("tensor")
    assert program.count("\n") < 200
    assert "mlc.for" in program or "mlc.while" in program


def test_elementwise_trips_follow_each_other_in_registers() -> None:

    def escaped(c: Array) -> Array:
        z = np.zeros_like(c)
        for _ in range(40):
            z = z * z - 0.3 * z + 0.1 * c * c + c / 7 - 0.5
        return z

    c = R.uniform(-0.5, 0.5, 30)
    compiled = mlc.compile(escaped)
    np.testing.assert_allclose(compiled(c), escaped(c), rtol=1e-12)
    plan = compiled.lower(c).text("plan")
    assert "mlc.for" not in plan
    assert plan.count("mlc.kernel") < 5


def test_what_needs_its_number_stands_there_once_for_each_trip(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trials, "MOST_OPS", 50)
    weights = [R.random((3, 3)) / 3 for _ in range(40)]

    def layers(x: Array) -> Array:
        for i in range(len(weights)):
            for _ in range(3):
                x = x + 0.01 * np.tanh(x)
            x = np.tanh(weights[i] @ x)
        return x

    x = R.random(3)
    np.testing.assert_allclose(mlc.compile(layers)(x), layers(x), rtol=1e-12)


def test_an_iterator_gives_each_trip_its_own() -> None:
    """Inside a loop of the program it would give the same to all."""
    values = R.random(1_000)

    def summed(x: Array) -> Array:
        given = iter([float(v) for v in values])
        for _ in range(len(values)):
            v = next(given)
            x = x + v * np.sin(x) + v * np.cos(x) + v * v * x + v * abs(x) + v * np.exp(-x * x)
            x = x / (1 + x * x) + np.tanh(x) * v - np.sqrt(abs(x)) * v + np.log1p(abs(x)) / (2 + v)
        return x

    few = values[:40]
    expected = summed(0.3)
    assert np.isfinite(expected)
    values = few
    np.testing.assert_allclose(mlc.compile(summed)(0.3), summed(0.3), rtol=1e-12)


def test_what_a_trip_that_was_tried_appends_is_gone() -> None:
    def halves(x: Array) -> Array:
        seen = list[Array]()
        for i in range(40):
            seen.append(x[i] / 2)
            for j in range(len(x)):
                x[j] = np.sin(x[j]) * np.cos(x[j]) + x[j] * x[j] - np.exp(x[j]) / 3
        return np.array(seen)

    x = R.random(60)
    np.testing.assert_allclose(mlc.compile(halves)(x.copy()), halves(x.copy()), rtol=1e-10)


@pytest.mark.parametrize("trips", [31, 32, 700])
def test_types_that_the_first_trip_changes(trips: int) -> None:
    def grown(x: Array) -> Array:
        s = 0
        for i in range(trips):
            for j in range(trips):
                s = s + x[i % 3] * (j + 1) / (i + 1)
        return s

    x = R.random(3).astype(np.float32)
    found, expected = mlc.compile(grown)(x), grown(x)
    np.testing.assert_allclose(found, expected, rtol=2e-4)
    assert np.asarray(found).dtype == np.asarray(expected).dtype


def test_gradients_go_through_loops_that_stay_loops() -> None:
    def relaxed(x: Array) -> Array:
        s = x[0]
        for i in range(len(x)):
            s = np.sin(s) * x[i] + s / 2 + np.cos(x[i]) * s * s / 9 - np.tanh(s) * x[i] * x[i] / 5
        return s

    x = R.random(2_000)
    gradient = mlc.compile(mlc.grad(relaxed))(x)
    h = 1e-6
    for k in (0, 1_990, 1_999):
        step = np.zeros_like(x)
        step[k] = h
        numeric = (relaxed(x + step) - relaxed(x - step)) / (2 * h)
        np.testing.assert_allclose(gradient[k], numeric, rtol=1e-4, atol=1e-8)


def test_lines_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    def counted(x: Array) -> Array:
        s = x[0]
        for i in range(40):
            print("trip", i)
            for j in range(len(x)):
                s = s + x[j] * i
        return s

    x = R.random(200)
    found = mlc.compile(counted)(x)
    compiled = capsys.readouterr().out
    np.testing.assert_allclose(found, counted(x), rtol=1e-10)
    assert capsys.readouterr().out == compiled


def test_what_only_a_python_int_has() -> None:
    def weighted(x: Array) -> Array:
        s = x[0]
        for i in range(100):
            s = s + x[i] * i.bit_count() + x[i] * x[i] - np.sin(x[i])
        return s

    x = R.random(100)
    np.testing.assert_allclose(mlc.compile(weighted)(x), weighted(x), rtol=1e-12)


def fibonacci(x: Any) -> Any:
    a, b = 0, 1
    for _ in range(120):
        a, b = b, a + b
        x = x + (a % 10) + np.sin(x) * np.cos(x)
    return x


def powers(x: Any) -> Any:
    a = 1
    for _ in range(100):
        for _ in range(2):
            a = a * 3
        x = x + (a % 10) + np.sin(x) * np.cos(x)
    return x


def generator(x: Any) -> Any:
    s = 12345
    for _ in range(1000):
        s = (1103515245 * s + 12345) % 2**31
        x = x + s / 2**31 + np.sin(x)
    return x


def counts(x: Any) -> Any:
    k, triangle, most = 0, 0, 1
    for _ in range(3000):
        if x > 0.3:
            k += 1
        triangle += k
        for j in range(4):
            triangle += j
        most = max(most, k * 7)
        x = np.cos(x) * 1.1 + triangle * 1e-12
    return x, k, triangle, most


@pytest.mark.parametrize(
    ("function", "stays"), [(fibonacci, False), (powers, False), (generator, True), (counts, True)]
)
def test_integers_of_pythons_have_no_end(function: Any, stays: bool) -> None:
    """A loop has 64 bits: where they may not do, its trips stand there one after another."""
    step = mlc.compile(function)
    x = np.float64(0.5)
    np.testing.assert_allclose(step(x), function(x), rtol=1e-12)
    assert ("mlc.for" in step.lower(x).text("trace")) is stays


def sieved(flags: Array) -> Array:
    i = 2
    while i * i < len(flags):
        if flags[i]:
            j = i * i
            while j < len(flags):
                flags[j] = False
                j += i
        i += 1
    return flags


def turned(x: Array) -> Array:
    low, high = 0, len(x) - 1
    while low < high:
        x[low], x[high] = x[high], x[low]
        low, high = low + 1, high - 1
    return x


def counted_down(x: Array) -> Array:
    n = 400
    while True:
        x = 0.5 * x + 0.5 * np.roll(x, 1)
        n -= 1
        if n == 3:
            break
    return x + n


def rooted(x: Array) -> Array:
    """The first trip makes a float of an int."""
    s, k = 0, 0
    while k < len(x):
        s = s + x[k] * x[k] / (k + 1)
        k += 1
    return s


WHILES: dict[str, tuple[Callable[..., Any], Array]] = {
    "sieved": (sieved, np.ones(900, np.bool_)),
    "turned": (turned, R.random(500)),
    "counted_down": (counted_down, R.random(20)),
    "rooted": (rooted, R.random(300)),
}


@pytest.mark.parametrize("name", WHILES)
def test_loops_on_which_python_decides_stay_loops_where_they_are_long(name: str) -> None:
    function, argument = WHILES[name]
    own, expected = argument.copy(), argument.copy()
    compiled = mlc.compile(function)
    np.testing.assert_allclose(compiled(own), function(expected), rtol=1e-12)
    np.testing.assert_allclose(own, expected)
    program = compiled.lower(argument).text("trace")
    assert "mlc.while" in program
    assert program.count("\n") < 1_500


def test_integers_of_pythons_on_which_python_decides_have_no_end() -> None:
    def grown(x: Array) -> Array:
        n = 3
        while n < 10**40:
            x = np.sin(x) + x[::-1] * 0.5
            n = n * 2 + 1
        return x + n % 7

    x = R.random(5)
    np.testing.assert_allclose(mlc.compile(grown)(x), grown(x), rtol=1e-12)


def test_what_no_loop_carries_keeps_its_trips() -> None:
    def emptied(x: Array) -> Array:
        left = list(range(90))
        while left:
            x = np.sin(x) * 0.5 + x[::-1] / (1 + left.pop())
        return x

    x = R.random(5)
    np.testing.assert_allclose(mlc.compile(emptied)(x), emptied(x), rtol=1e-12)


def test_a_trip_is_tried_no_further_than_where_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether trips are many ops is known before one of them has been traced to its end."""
    inserted, tried = [0], list[int]()
    insert, tried_trip = Trace.insert, loops.tried_trip

    def counted(self: Trace, op: Any) -> None:
        inserted[0] += 1
        insert(self, op)

    def watched(*args: Any) -> Any:
        before = inserted[0]
        found = tried_trip(*args)
        tried.append(inserted[0] - before)
        return found

    def turned_often(x: Array) -> Array:
        for _ in range(40):
            for _ in range(4):
                for _ in range(4):
                    for _ in range(4):
                        x[1:] = 0.5 * x[1:] + 0.5 * np.roll(x, 1)[1:]
        return x

    monkeypatch.setattr(Trace, "insert", counted)
    monkeypatch.setattr(loops, "tried_trip", watched)
    x = R.standard_normal(6)
    np.testing.assert_allclose(mlc.compile(turned_often)(x.copy()), turned_often(x.copy()))
    assert tried
    assert max(tried) < 2 * (1 + trials.MOST_SHORT // 40)  # to the end of the innermost trip


def test_few_trips_around_others_are_one_loop() -> None:
    def windows(x: Array, w: Array) -> Array:
        out = np.empty((x.shape[0] - 2, x.shape[1] - 2))
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] = np.sum(x[i : i + 3, j : j + 3] * w)
        return out

    x, w = R.standard_normal((22, 18)), R.standard_normal((3, 3))
    step: Any = mlc.compile(windows)
    np.testing.assert_allclose(step(x, w), windows(x, w), rtol=1e-12)
    assert "mlc.for" in step.lower(x, w).text("trace")


def test_few_trips_around_long_loops_are_one_loop() -> None:
    def ranks(start: Array, target: Array) -> Array:
        rank = np.full(start.size - 1, 1.0)
        for _ in range(6):
            new = np.full(rank.size, 0.1)
            for i in range(rank.size):
                for e in range(start[i], start[i + 1]):
                    new[target[e]] += rank[i]
            rank = new
        return rank

    start = np.arange(0, 3 * 801, 3)
    target = R.integers(0, 800, 2400)
    step: Any = mlc.compile(ranks)
    np.testing.assert_array_equal(step(start, target), ranks(start, target))
    assert step.lower(start, target).text("trace").count("mlc.for") == 3


def triangular(x: Array) -> Array:
    for i in range(len(x)):
        for j in range(i):
            x[i] = x[i] + x[j] * 0.5 if x[j] > 0 else x[i] - 1.0
    return x


def upper(x: Array) -> Array:
    for i in range(len(x)):
        for j in range(i * i, len(x)):
            x[j] = x[j] + x[i] * 0.5
    return x


def islands_like(x: Array) -> Array:
    count = 0
    for i in range(4):
        for j in range(4):
            while x[4 * i + j] > 0.5:
                x[4 * i + j] = x[4 * i + j] * 0.5 - 0.1
                count += 1
    return count


def counted_up(x: Array) -> Array:
    k = 0
    while k < len(x):
        if x[k] > 0:
            x[k] = x[k] * 2 + 1
        k += 1
    return x


@pytest.mark.parametrize(
    ("function", "loops_in"), [(triangular, 2), (upper, 2), (islands_like, 3), (counted_up, 1)]
)
def test_few_trips_of_elements_are_one_loop(function: Callable[..., Any], loops_in: int) -> None:
    """However many trips its first one has in it."""
    x = R.standard_normal(16)
    own, expected = x.copy(), x.copy()
    step: Any = mlc.compile(function)
    np.testing.assert_allclose(step(own), function(expected), rtol=1e-12)
    np.testing.assert_allclose(own, expected, rtol=1e-12)
    text = step.lower(x).text("trace")
    assert text.count("mlc.for") + text.count("mlc.while") == loops_in


def sized(x: Array) -> Array:
    n = 0
    for i in range(6):
        x[i] = x[i] * 2
        n += 2
    return np.zeros(n) + x[0]


def placed(x: Array) -> Array:
    for i in range(6):
        x[i] = x[i] * 2
    return np.zeros(i) + x[0]


def kept(x: Array) -> Array:
    seen = list[int]()
    for i in range(6):
        x[i] = x[i] * 2
        seen.append(i)
    return np.zeros(seen[4]) + x[0]


def walked(x: Array) -> Array:
    k = 0
    while k < 6:
        x[k] = x[k] * 2
        k += 1
    return np.zeros(k) + x[0]


@pytest.mark.parametrize("function", [sized, placed, kept, walked])
def test_numbers_that_python_computes_in_short_loops_stay_pythons(
    function: Callable[..., Any],
) -> None:
    x = R.standard_normal(8)
    np.testing.assert_array_equal(mlc.compile(function)(x.copy()), function(x.copy()))


def test_what_is_a_trips_own_is_not_handed_on() -> None:
    """Also where a branch alone gives it a value: whether it has one is asked nowhere."""

    def halved(x: Array) -> Array:
        for i in range(len(x)):
            if x[i] > 0:
                y, n = x[i], 0
                while y > 0.5:
                    half = y / 2
                    y, n = half, n + 1
                x[i] = y + n
        return x

    x = R.standard_normal(50) * 9
    step: Any = mlc.compile(halved)
    np.testing.assert_allclose(step(x.copy()), halved(x.copy()), rtol=1e-15)
    loops_of = [op for op in step.lower(x).module.walk() if op.name in ("mlc.for", "mlc.while")]
    assert sorted(len(op.results) for op in loops_of) == [1, 2]  # x; y and n


def ended(x: Any) -> Any:
    for k in range(3):
        p = x[0]
        for a in x:
            p = a
            if k > 50:
                break
        else:
            t: Any = k + 1
        x = x * (t + p)
    return x


def left_after_the_end(x: Any) -> Any:
    for _ in range(40):
        k = 0
        while k < 9:
            k += 1
            if k > 50:
                break
        else:
            t = [k]
        x = x + t[0]
        if t:
            break
    return x


def bound_by_another_trip(x: Any) -> Any:
    for _ in range(4):
        for j in range(40):
            if j < 2:
                t = x[0] + j
            x = x * 0.5
        x = x + t
    return x


def ended_with_an_error(x: Any) -> Any:
    for k in range(3):
        for a in x:
            if a > k:
                break
        else:
            raise ValueError("none is larger")
        x = x + a
    return x


@pytest.mark.parametrize(
    "function", [ended, left_after_the_end, bound_by_another_trip, ended_with_an_error]
)
def test_what_follows_loops_in_a_trip_that_is_tried(function: Callable[..., Any]) -> None:
    x = np.arange(4.0) + 1
    assert mlc.compile(function)(x).tolist() == function(x).tolist()
