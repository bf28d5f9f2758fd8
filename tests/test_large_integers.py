"""
Integers of Python's that leave 64 bits: loops of which Python knows the trips are theirs trip by
trip, and a call whose integers do so elsewhere is run by Python. NumPy's wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.random_python.judge import compiled_text, different, outcome
from tests.test_written_programs import bodies_in, text_of

TEXT = """
# powers of a trip
s = 0.0
for k in range(80):
    s += x[k % 4] * 2**k
return s

# negative powers of a trip
s = 0.0
for k in range(80):
    s += x[k % 4] * 2**-k
return s

# products of a trip
s = 0.0
for k in range(100000):
    s += x[k % 4] * k**4
return s

# powers that are stored
out = np.zeros(70)
for k in range(70):
    out[k] = 2**k
return out

# NumPy's wrap around
s = np.int64(1)
for k in range(70):
    s = np.int64(3) ** k * s
return s

# bits in a branch
s = 0
for k in range(70):
    s = s * 2 + (1 if x[k % 4] > 0 else 0)
return s

# doubled until it is large
s = 1
while s < abs(x[3]) * 1e25:
    s *= 2
return s

# sums of sums
a, b = 0, 1
while b < abs(x[3]) * 1e25:
    a, b = b, a + b
return a, b

# a factorial
p = 1
for k in range(1, int(abs(x[3]) * 15)):
    p *= k
return p

# a hash that stays
h = 5381
for k in range(int(abs(x[3]) * 40)):
    h = (h * 33 + k) % 1000003
return h

# a hash that does not
h = 5381
for k in range(int(abs(x[3]) * 40)):
    h = h * 33 + k
return h

# magnitudes that grow
s = 1
for k in range(int(abs(x[3]) * 40)):
    s = abs(s) * 3
return s

# halves that grow
s = 9
for k in range(int(abs(x[3]) * 80)):
    s = (s >> 1) * 5
return s

# a power of a number
m = int(abs(x[3]) * 13)
return 10**m, m * m

# a shift by a number
return 1 << int(x[3] * 40), 5 >> int(abs(x[3]))

# a shift by less than nothing
return 1 << int(-abs(x[3]) * 40)

# a number without an end
m = int(abs(x[3]) * 1e15)
return m * m * m

# of which a branch leaves one
n = 2**40
m = n * n if x[0] > 0 else n
return m, m + 1, m // 3, float(m), str(m), x[1] * float(m)

# that are a number of 64 bits in another branch
m = 2**63
if x[0] > 0:
    m = 1
return m, (2**64 - 1 if x[1] > 0 else 0) & 255

# in trips
m = 2**70
for i in range(len(x)):
    if x[i] > 1:
        m = i
return m

# made of a float
return int(x[0] * 1e30), round(x[1] * 1e25), int(x[2])

# Collatz
c, t = int(abs(x[3]) * 20), 0
while c != 1:
    c = c // 2 if c % 2 == 0 else 3 * c + 1
    t += 1
return c, t
"""

PROGRAMS = bodies_in(TEXT)


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_as_python_has_it(name: str) -> None:
    text = text_of(PROGRAMS[name])
    plain, step = compiled_text(text), mlc.compile(compiled_text(text))
    for values in ([0.7, 0.4, -0.3, 2.0], [-1.0, 0.2, 3.0, 0.6]):
        arguments = np.array(values), 3
        wanted, given = outcome(plain, arguments), outcome(step, arguments)
        assert not different(wanted, given)


def test_a_derivative_says_it() -> None:
    def f(x: Any) -> Any:
        s = 1
        while s < x[0] * 1e25:
            s *= 2
        return x[0] * s

    assert mlc.compile(mlc.grad(f))(np.array([1e-20])).tolist() == [131072.0]
    with pytest.raises(OverflowError, match="64 bits"):
        mlc.compile(mlc.grad(f))(np.ones(1))


def looked_at(f: Any) -> list[int]:
    """In how many places the programs that calls have look at integers, the newest first."""
    programs = [r.program for group in f._dispatcher.ready.values() for r in group]
    return [str(program.module).count("int too large") for program in programs]


X = np.array([0.5, 1.5])


def made_in_a_branch(x: Any, n: Any) -> Any:
    m = n * n if x[0] > 0 else n
    return x * (m * n)


def made_in_trips(x: Any, n: Any) -> Any:
    for k in range(5):
        x = x + n * n * k
    return x


def with_a_derivative(x: Any, n: Any) -> Any:
    def total(y: Any) -> Any:
        return (y * (n * n * n)).sum()

    return mlc.grad(total)(x)


FOLLOWED: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, n: x * (n * n + 1),
    "powers and shifts": lambda x, n: (x * n**3, x + (n << 3)),
    "a size": lambda x, n: x * (n * n * n * x.shape[0]),
    "number of trips": lambda x, n: np.zeros(abs(n)) + n * n * n,
    "branch": made_in_a_branch,
    "trips": made_in_trips,
    "derivative": with_a_derivative,
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_the_guards_say_is_not_looked_at(name: str) -> None:
    f, compiled = FOLLOWED[name], mlc.compile(FOLLOWED[name])
    for n in (2, 3, 5, 7):
        assert str(compiled(X, n)) == str(mlc.compile(f)(X, n))
    assert set(looked_at(compiled)) == {0}
    if name not in ("number of trips", "branch", "derivative"):
        for n in (2**21, 2**40, -(2**62), 2**63 - 1, 2**70, 4):
            assert str(compiled(X, n)) == str(f(X, n)), n


def test_what_values_say_is_looked_at() -> None:
    def doubled(x: Any, n: Any) -> Any:
        s, t = 1, 0.0
        while t < n:
            t += x[0]
            s *= 2
        return s

    def beside(x: Any, n: Any) -> Any:
        return int(x[0]) * n * n

    for f, small in ((doubled, 0.01), (beside, 1e17)):
        compiled = mlc.compile(f)
        for n in (2, 3, 5, 7):
            assert compiled(X, n) == f(X, n)
        assert 0 not in looked_at(compiled)
        with pytest.warns(RuntimeWarning, match="ran as Python"):
            assert compiled(np.array([small]), 99) == f(np.array([small]), 99)


def found_by_halves(x: Any, v: Any) -> Any:
    low, high = 0, len(x)
    while low < high:
        middle = (low + high) // 2
        if x[middle] < v:
            low = middle + 1
        else:
            high = middle
    return low


def sunk(x: Any, v: Any) -> Any:
    y, root = x + v, 0
    while 2 * root + 1 < len(y):
        child = 2 * root + 1
        if child + 1 < len(y) and y[child] < y[child + 1]:
            child += 1
        if y[root] >= y[child]:
            break
        y[root], y[child] = y[child], y[root]
        root = child
    return y, root


def two_ends(x: Any, v: Any) -> Any:
    i, j, n = 0, len(x) - 1, 0
    while i < j:
        if x[i] + x[j] > v:
            n += j - i
            j -= 1
        else:
            i += 1
    return n - 7 * i + 3 * j, i * j


@pytest.mark.parametrize(
    ("f", "looks"), [(found_by_halves, [0, 0]), (sunk, [0, 0]), (two_ends, [1, 2])]
)
def test_what_tests_of_loops_say_is_not_looked_at(f: Callable[..., Any], looks: list[int]) -> None:
    compiled = mlc.compile(f)
    for size in (40, 41, 7, 1, 0):
        x = np.sort(np.random.default_rng(size).random(size))
        for v in (0.0, 0.3, 0.9, 1.7):
            assert str(compiled(x, v)) == str(f(x, v))
    assert looked_at(compiled)[::-1][:2] == looks  # of one size, and of any


def no_low_end(n: Any) -> Any:
    low, high = int(n[0]), int(n[1])
    while low < high:
        low = 5 * low
        high = high - 3
    return low, high


def no_high_end(n: Any) -> Any:
    root, trips = 0, 0
    while root < int(n[1]):
        root = 2 * root + 1
        trips += 1
    return root, trips


@pytest.mark.parametrize("f", [no_low_end, no_high_end])
def test_what_has_one_end_is_looked_at(f: Callable[[Any], Any]) -> None:
    compiled = mlc.compile(f)
    values = np.array([2, 100])
    assert compiled(values) == f(values)
    assert 0 not in looked_at(compiled)
    for most in (2**62 + 5, 2**63 - 1):
        values = np.array([2, most])
        with pytest.warns(RuntimeWarning, match="ran as Python"):
            assert compiled(values) == f(values)


def test_an_executable_has_no_guards_and_looks() -> None:
    compiled = mlc.compile(FOLLOWED["sum"])
    for n in (2, 3, 5, 7):
        compiled(X, n)
    executable = compiled.lower(X, 7).compile()
    assert executable(X, 9)[0].tolist() == (X * 82).tolist()
    with pytest.raises(OverflowError, match="64 bits"):
        executable(X, 2**40)
