"""
What Python says of numbers by their class: sums with a start, complex numbers beside NumPy's
floats, formats that do not fit, arrays of no axes that are changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.random_python.judge import compiled_text, different, outcome
from tests.sweeps import covering

STARTS = (
    "True",
    "0",
    "2",
    "2.5",
    "1j",
    "np.True_",
    "np.float32(2)",
    "np.int32(1)",
    "s > 0",
    "x[0]",
)
SUMMED = (
    *("x", "x > 0", "w", "A", "A > 0", "[e > 0 for e in x]", "[r * 1 for r in A]"),
    *("[e for e in x if e > s]", "(e > 0 for e in x if e > s)", "[r * 2 for r in A if r[0] > s]"),
    *("(int(e) for e in x if e > s)", "(bool(e > 0) for e in x if e > s)", "w[w > s]"),
    *("(r > 0 for r in A if r[0] > s)", "(e for e in w if e > s)"),
)
COMPLEX = (
    *("1j + x[0]", "x[0] + 1j", "(1j + s) * x[0]", "1j - x[0]", "1j / x[0]", "1j / x[2]"),
    *("1j ** x[1]", "1j + w[0]", "1j + z", "1j + (x[0] > 0)", "1j * np.sqrt(x[1]) / 0"),
)
FORMATS = (
    *("t = f'{n:q}'", "t = '%d' % (str(n),)", "if s > 0:\n    t = f'{s:d}'", "t = format(s, 'd')"),
    *("print('a')\nt = f'{x:.2f}'", "t = '{:x}'.format(s)", "if s > 99:\n    t = f'{s:d}'"),
    *("t = '%s %5.2f %d' % (x, s, n)", "t = f'{n!r:s}'", "t = f'{s > 0:d}'", "t = '%d %d' % n"),
    *(
        "t = f'{s:{n}}'",
        "t = '{} {}'.format(n)",
        "for k in range(n):\n    print(k)\n    t = f'{k:q}'",
    ),
    "try:\n    t = f'{n:q}'\nexcept ValueError:\n    x[0] = 9.0",
)
PLACES = (
    *("z += 1\nreturn z", "z[...] = 3", "if s > 0:\n    z += n", "y = z\ny -= 2\nreturn z"),
    *("for k in range(n):\n    z *= 2\nreturn z + 0", "np.add(z, 1, out=z)\nz *= z\nreturn x * z"),
    *(
        "while z < 9:\n    z *= 2",
        "p = {'z': z}\np['z'] += 1\nreturn z",
        "z = z + 1\nz += 1\nreturn z",
    ),
)
HEAD = "def f(x, w, A, z, s, n):\n"


def check(body: str, size: int = 3) -> None:
    """Values, dtypes, classes of numbers, what is printed and changed, and errors."""
    text = HEAD + "".join(f"    {line}\n" for line in body.splitlines())
    plain, step = compiled_text(text), mlc.compile(compiled_text(text))
    rng = np.random.default_rng(size)
    x, A = rng.standard_normal(size), rng.standard_normal((size, 3))
    x[:3] = 0.5, 2.0, 0.0
    for s, n in ((0.25, 3), (99.0, 2)):
        arguments = x, x.astype(np.float32), A, np.array(1.5), s, n
        wanted, given = outcome(plain, arguments), outcome(step.reference, arguments)
        assert not different(wanted, given)
        if np.ndim(wanted.result) == 0 and not isinstance(wanted.result, np.ndarray):
            assert type(wanted.result) is type(given.result)


@pytest.mark.parametrize(("start", "summed"), covering(STARTS, SUMMED))
def test_sums_are_of_the_class_that_python_gives(start: str, summed: str) -> None:
    check(f"return sum({summed}, {start})", 40)


@pytest.mark.parametrize("body", COMPLEX)
def test_complex_numbers_of_pythons_take_floats(body: str) -> None:
    check(f"return {body}")


@pytest.mark.parametrize("body", FORMATS)
def test_formats_that_do_not_fit_raise_although_nothing_reads_the_text(body: str) -> None:
    check(f"{body}\nreturn x")


@pytest.mark.parametrize("body", PLACES)
def test_arrays_of_no_axes_change_in_place(body: str) -> None:
    check(body)


def test_in_a_container() -> None:
    def raised(p: dict[str, Any]) -> None:
        p["a"] += 1

    kept: list[Any] = []
    for function in (raised, mlc.compile(raised)):
        given = np.array(1)
        held = {"a": given}
        _called(function, held)
        assert held["a"] is given
        kept.append(given.item())
    assert kept == [2, 2]


def _called(function: Callable[..., Any], held: dict[str, Any]) -> None:
    function(held)
