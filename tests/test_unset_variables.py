"""
Variables that only a trip or a branch sets, which the compiled function may not run: what they are
where it has run, and UnboundLocalError where it has not, in the order of what else is done.
"""

from __future__ import annotations

import numpy as np
import pytest

import mlc
from tests.random_python.judge import compiled_text, different, is_refusal, outcome, rolling

HEAD = "def f(x, A, n):\n"
PROGRAMS = {
    "number of the last trip": "for k in range(n):\n    x[0] += k\nreturn k",
    "what a trip computes": "for k in range(n):\n    c = x[k % 4] * 2\nreturn c + k, c",
    "of while": "while n > 0:\n    n -= 1\n    z = x * n\nx[0] = 3\nreturn z",
    "items of an array": "for e in x[x > n]:\n    z = e * 2\nreturn e + z",
    "left by break": "for k, e in enumerate(x[:n]):\n    if e > 1:\n        break\n"
    "print(k)\nx[0] = k\nreturn k, e",
    "with else": "for k in range(n):\n    if x[k % 4] > 1.5:\n        break\n    w = k\n"
    "else:\n    return w, k\nreturn k",
    "containers": "for k in range(n):\n    d = {'a': k, 'b': [x[0]]}\nreturn d",
    "a list": "for k in range(n):\n    r = [k, x[k % 4]]\nr[0] = 7\nreturn r",
    "None on some trips": "for k in range(n):\n    if k > 2:\n        continue\n"
    "    z = k if x[k] > 1 else None\nprint('here')\nreturn z",
    "loops in loops": "for k in range(n):\n    for j in range(k):\n        z = j + k\nreturn z",
    "again in each trip": "t = 0.0\nfor i in range(3):\n    for k in range(n - i):\n"
    "        t += x[k % 4]\n    t += k\nreturn t",
    "read by a function": "def g():\n    return k * 2\nfor k in range(n):\n    pass\nreturn g()",
    "stored": "for k in range(n):\n    pass\nx[0] = k\nreturn x",
    "printed": "for k in range(n):\n    pass\nprint(k)\nx[0] = 7\nreturn x",
    "given to a function": "def g(z):\n    print('g')\n    return z\nfor k in range(n):\n    pass\n"
    "print('first')\nx[1] = g(k)\nx[0] = 7\nreturn x",
    "in a branch": "for k in range(n):\n    pass\nif x[0] > 1:\n    return k\nreturn x",
    "None is no number": "k = None\nif n > 0:\n    k = n\nx[0] = k + 1\nreturn x",
    "None is not printed": "k = None\nif n > 0:\n    k = n\nprint(k + 1)\nreturn x",
}
"""Bodies of functions of an array of four elements, a matrix and a number."""


def text_of(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.splitlines())


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("always", [True, False])
def test_is_as_python_has_it(name: str, always: bool) -> None:
    text = text_of(PROGRAMS[name])
    plain, step = compiled_text(text), mlc.compile(compiled_text(text), numerics="strict")
    with rolling(always):
        for n in (np.int64(0), np.int64(3), np.int64(1)):
            arguments = np.array([0.5, 2.0, -1.0, 1.0]), np.ones((3, 4)), n
            wanted, given = outcome(plain, arguments), outcome(step.reference, arguments)
            assert not different(wanted, given)


def test_rows_that_may_be_another_array_are_not_written() -> None:
    body = "for row in A[:n]:\n    row[0] = 1.0\nrow[1] = 2.0\nreturn row"
    step = mlc.compile(compiled_text(text_of(body)))
    found = outcome(step.reference, (np.ones(4), np.ones((3, 4)), np.int64(2)))
    assert is_refusal(found.error)
