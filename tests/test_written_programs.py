"""
Functions as they are written: variables that functions inside share, lists of so many elements,
lists that grow where values say so and are then arrays. Each is run by NumPy and compiled.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import mlc
from tests.random_python.judge import compiled_text, different, outcome, rolling

SHARED = {
    "ADDS": """
total, calls = 0.0, 0
def add(v):
    nonlocal total, calls
    calls += 1
    if v > 0.5:
        total += v
    return total
""",
    "MAKES": """
def make(step):
    k = 0
    def count():
        nonlocal k
        k += step
        return k
    return count
""",
    "GROWS": """
ts, ys = [], []
t, y = 0.0, x[0]
while t < abs(x[1]) * 5:
    ts.append(t)
    ys.append(y)
    t += 0.25
    y = y - 0.1 * y
""",
    "RUNS": """
runs, first = [], -1
for i in range(len(x)):
    if x[i] > 0:
        if first < 0:
            first = i
    elif first >= 0:
        runs.append((first, i))
        first = -1
""",
    "CLASS": """
class C:
    def __init__(self):
        self.k = 0.0
    def next(self):
        self.k += abs(x[1]) + 0.5
        return self.k
""",
}
"""What programs begin with, by a word that stands for it."""

TEXT = """
# a variable in a comprehension
ADDS
return [add(v) for v in x], total, calls

# a variable in a sum
ADDS
return sum(add(v) for v in x), total, calls

# an array of what it gives
ADDS
return np.array([add(x[k % 4]) for k in range(12)])

# a counter in a branch
MAKES
a = make(1)
if x[0] > 0.5:
    a()
return a()

# a counter in a loop
MAKES
a, b = make(1), make(x[1])
for v in x:
    if v > 0.5:
        a()
    b()
return a(), b()

# a counter in a comprehension
MAKES
a = make(1)
return [a() * v for v in x], a()

# a counter in a while
MAKES
a = make(abs(x[1]) + 0.1)
while a() < 2:
    pass
return a()

# two functions of one variable
def make():
    s = np.zeros(2)
    def add(v):
        nonlocal s
        s = s + v
    def get():
        return s
    return add, get
add, get = make()
for v in x:
    if v > 0.5:
        add(v)
return get()

# a test that binds a name
k, t = 0, 0.0
while (k := k + 1) < x[3] * 4:
    t += k
return k, t

# a test that Python decides
k, t = 0, 0.0
while (k := k + 1) < 60:
    t += x[k % 4]
    if t > 4 * x[3]:
        break
return k, t

# a test that takes from a list
q, t = [0.1, 0.2, 0.3, 9.0, 1.0], 0
while q.pop(0) < x[3]:
    t += 1
return t, q

# a test that changes an object
CLASS
c, t = C(), 0.0
while c.next() < 3 * x[3]:
    t += c.k
return c.k, t

# a test that binds a name which the trip reads
s = x[3]
while (t := abs(s) * 0.5) > 0.2:
    s = s * 0.7 - t * 0.1 * x[1] ** 2
return s, t

# any ends at the first
if any((y := v) > 2 for v in [1, 2, 3, 4]):
    return y * x[0]
return -1.0

# a list of so many
r = [0.0] * n
r[0] = x[0]
return r, n * [x[1]], (1, 2) * n, 'ab' * n

# a list that is repeated
r = [x[0]]
s = r
r *= n
return s

# a list times a float
return [1, 2] * x[0]

# a list and a number
return [1, 2] + n

# a table of places
best = [0] * (n + 1)
for i in range(4):
    for c in range(n, int(abs(x[i])), -1):
        best[c] = max(best[c], best[c - 1] + x[i])
return best[n]

# pairs as an array
RUNS
if first >= 0:
    runs.append((first, len(x)))
return np.array(runs), len(runs)

# two lists as arrays
GROWS
ts, ys = np.array(ts), np.array(ys)
return ts * ys, ys[ts > 1]

# two lists for a function
GROWS
return np.trapezoid(ys, ts), np.column_stack([ts, ys])

# a list as an array twice
GROWS
return np.array(ys) - np.array(ys).mean()

# lists of branches
a, b = [], []
for k in range(30):
    if x[k % 4] > 0.3:
        a.append(k)
        b.append(x[k % 4] * k)
return np.array(a) * np.array(b)

# lists side by side
GROWS
return [a * b for a, b in zip(ts, ys)]

# an insertion
r = []
for v in x:
    k = 0
    while k < len(r) and r[k] < v:
        k += 1
    r.insert(k, v)
return r

# a place that is taken
r = [x[0], x[1], x[2]]
k = int(abs(x[3]))
return r.pop(k % 3), r

# a member of an Enum
from enum import Enum
S = Enum('S', 'IDLE RUN STOP')
s, k = S.IDLE, 0
for v in x:
    match s:
        case S.IDLE:
            if v > 0:
                s = S.RUN
        case S.RUN:
            k += 1
            if v < 0:
                s = S.STOP
return k, s is S.STOP, s == S.RUN, s.value

# names in tests of comprehensions
a = [y for v in x if (y := v * 2) > 0.5]
b = [y + z for v in x if (y := v * 2) > 0.5 and (z := v - 1) < 2]
c = sum(y for v in x if (y := abs(v)) > 0.5)
return a, b, c, max((t for v in x if (t := v) < 1), default=0)

# comprehensions with tests in comprehensions
a = [[p for p in x if p > v] for v in x[:2]]
b = [sum(p for p in x if p > v) for v in x[:2]]
c = [len([p for p in x if p > k]) for k in range(3)]
return a, b, c, [[k for k in range(3) if k != i] for i in range(3)]

# tests in comprehensions of dicts
d = {k: [p for p in x if p > k] for k in range(2)}
e = {k: v for k, v in {'a': 1, 'b': n}.items() if v > 1}
return d, e, {k: x[k] for k in range(4) if x[k] > 0.5}
"""


def bodies_in(text: str) -> dict[str, str]:
    """Bodies of functions, by the comments above them."""
    return dict(re.findall(r"^# (.+)\n((?:(?!# ).*\n)+)", text, re.MULTILINE))


PROGRAMS = bodies_in(TEXT)
"""Bodies of functions of an array of four elements and a number."""

ARRAYS = ([0.7, 0.4, -0.3, 2.0], [-1.0, 0.2, 3.0, 0.6])


def text_of(body: str) -> str:
    """The function's."""
    for word, text in SHARED.items():
        body = re.sub(rf"^{word}\n", text, body)
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"def f(x, n):\n{lines}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_as_python_has_it(name: str) -> None:
    text = text_of(PROGRAMS[name])
    plain = compiled_text(text)
    for stays in (True, False):
        step = mlc.compile(compiled_text(text), numerics="strict")
        with rolling(stays):
            for values in ARRAYS:
                arguments = np.array(values), 3
                wanted, given = outcome(plain, arguments), outcome(step.reference, arguments)
                assert not different(wanted, given)


def test_what_values_end_binds_nothing() -> None:
    text = text_of("if any((y := v) > 0.5 for v in x):\n    return y\nreturn -1.0")
    with pytest.raises(mlc.NotSupportedError, match="the generator binds y"):
        mlc.compile(compiled_text(text))(np.array(ARRAYS[0]), 3)
