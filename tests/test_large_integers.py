"""
Integers of Python's that leave 64 bits: loops of which Python knows the trips are theirs trip by
trip, and a call whose integers do so elsewhere is run by Python. NumPy's wrap around.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mlc
from tests.random_python.judge import compiled_text, different, outcome
from tests.test_written_programs import text_of

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

# Collatz
c, t = int(abs(x[3]) * 20), 0
while c != 1:
    c = c // 2 if c % 2 == 0 else 3 * c + 1
    t += 1
return c, t
"""

PROGRAMS: dict[str, str] = dict(re.findall(r"^# (.+)\n((?:(?!# ).*\n)+)", TEXT, re.MULTILINE))


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
