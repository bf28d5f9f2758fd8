"""What may fail raises its error also where nothing reads what it gives: wherever that stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.random_python.judge import judged

HEAD = "def f(x, y, A, s, n):\n"
PROGRAMS = {
    "a test's tuple": "k = 0\nwhile (x[k + n], k < 3)[1]:\n    k += 1\nreturn k",
    "a division in a test": "k = n\nwhile (1 // (k - 3), k < 6)[1]:\n    k += 1\nreturn k",
    "a test in a loop": "for i in range(3):\n    k = n\n    while (1 // (k - 3), k < 6)[1]:\n"
    "        k += 1\n    x[i] = k\nreturn x",
    "a test with a branch": "k = n\nwhile (1 // (k - 3) if s > 0 else 2, k < 6)[1]:\n    k += 1\n"
    "return k",
    "a routine": "np.linalg.inv(A[:3, :3] * (n % 2))\nreturn s",
    "a routine in a loop": "for k in range(n):\n    np.linalg.cholesky(A[:3, :3] * k)\nreturn s",
    "a routine in a branch": "if s > 0:\n    np.linalg.solve(A[:3, :3] * (n - 2), x[:3])\nreturn s",
    "a routine before a store": "L = np.linalg.cholesky(A[:3, :3] @ A[:3, :3].T * (n - 2))\n"
    "x[0] = 3.0\nreturn s",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_unread(name: str) -> None:
    text = HEAD + "".join(f"    {line}\n" for line in PROGRAMS[name].splitlines())
    verdict = judged(text, range(10), code=True)
    assert verdict.kind == "same", verdict.detail


V = np.arange(4.0) + 1


def rows(x: Any, i: Any) -> Any:
    x[i]
    return (x * x).sum()


def beside(x: Any, i: Any) -> Any:
    return (x * x).sum(), x[i]


def gradient_alone(x: Any, i: Any) -> Any:
    gradient, _ = mlc.grad(beside, has_aux=True)(x, i)
    return gradient


def factored(a: Any, i: Any) -> Any:
    np.linalg.cholesky(a * i[0])
    return (a * a).sum()


def counted(x: Any, i: Any) -> Any:
    k = 0
    while (1 // (k - int(i[0])), k < 3)[1]:
        k += 1
    return (x * x).sum()


TRANSFORMED: dict[str, tuple[Callable[..., Any], Any, Any, Any, type[Exception]]] = {
    "gradient": (mlc.grad(rows), V, [0, 3], [0, 9], IndexError),
    "batch": (mlc.vmap(rows, in_axes=(0, None)), np.stack([V, V]), [0, 3], [0, 9], IndexError),
    "beside a gradient": (
        *(gradient_alone, V, [0, 3], [0, 9]),
        IndexError,
    ),
    "gradient of a routine": (mlc.grad(factored), np.eye(3), [1], [-1], np.linalg.LinAlgError),
    "batch of a test": (
        *(mlc.vmap(counted, in_axes=(0, None)), np.stack([V, V]), [9], [2]),
        ZeroDivisionError,
    ),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_unread_in_a_transformation(name: str) -> None:
    function, x, good, bad, error = TRANSFORMED[name]

    @mlc.compile
    def step(x: Any, i: Any) -> Any:
        return function(x, i)

    step(x, np.array(good))
    with pytest.raises(error):
        step(x, np.array(bad))
