"""Parts of arrays that are written one after another, each made of what others hold by then."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import mlc

Array = Any


def _part(rng: np.random.Generator, shape: tuple[int, int]) -> str:
    n, m = shape
    i, j = int(rng.integers(0, n)), int(rng.integers(0, m))
    return str(rng.choice([f"[{i}]", f"[:, {j}]", f"[{i}:, :{j + 1}]", "[1:-1, 1:-1]", "[::-1]"]))


def _statement(rng: np.random.Generator, shape: tuple[int, int]) -> str:
    """A part, made of the same part, of the whole array or of single elements."""
    part = _part(rng, shape)
    if part == "[::-1]":
        return f"a[1:] = a{part}[1:] * 0.5 + b[1:]"
    i, j = int(rng.integers(0, shape[0])), int(rng.integers(0, shape[1]))
    made = [
        f"np.sqrt(abs(a{part})) + b{part}",
        f"a{part} * a[{i}, {j}]",
        f"b{part} + a.mean()",
        "0.25",
    ]
    if part in ("[0]", "[1]", "[2]"):
        made += [f"a[{i}] + 1", f"a[{i}] * b[0] - a[1]"]
    return f"a{part} = {rng.choice(made)}"


@pytest.mark.parametrize("seed", range(24))
def test_as_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (int(rng.integers(3, 9)), int(rng.integers(3, 21)))
    start = rng.choice(["a = b * 2", "a = np.zeros_like(b)", "a = np.sort(b, 0)", "pass"])
    lines = [start, *(_statement(rng, shape) for _ in range(6))]
    if rng.random() < 0.5:
        lines.insert(4, "kept = a[0] + 1")
        lines.append("b[:, 0] = kept.sum()")
    body = "\n".join(f"    {line}" for line in lines)
    names: dict[str, Any] = {"np": np}
    text = f"def f(a, b):\n{body}\n    return a, b * 1\n"
    exec(compile(text, f"<parts {seed}>", "exec"), names)
    given = rng.random((2, *shape))
    own, expected = given.copy(), given.copy()
    found, wanted = mlc.compile(names["f"])(*own), names["f"](*expected)
    for x, y in zip((*found, *own), (*wanted, *expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, err_msg=text)


def test_boundaries_write_boundaries() -> None:
    """Whatever else the array holds stays where it is."""

    def framed(x: Array) -> Array:
        u = x @ x
        u[0], u[-1], u[:, 0] = 1.0, 0.0, u[:, 1]
        return u

    x = np.random.default_rng(0).random((20, 20))
    compiled = mlc.compile(framed, target="avx2")
    np.testing.assert_allclose(compiled(x), framed(x), rtol=1e-12)
    plan = compiled.lower(x).text("plan")
    assert plan.count("buffers = [#mlc.buffer<input 0>]") == plan.count("over = [0 : i64]") > 0
    assert "mlc.arena" not in plan or '"0"' not in plan.split("mlc.kernel")[0]


def test_rows_beside_a_nest_of_elements_are_written_where_they_lie() -> None:
    """A loop that writes a row, then its elements one by one, writes no whole array."""

    def swept(a: Array) -> None:
        for i in range(1, len(a)):
            a[i, 1:] += a[i - 1, :-1]
            for j in range(1, a.shape[1]):
                a[i, j] += a[i, j - 1] / 9.0

    x = np.random.default_rng(0).random((70, 80))
    compiled = mlc.compile(target="avx2")(swept)
    written = [int(n) for n in re.findall(r"written (\d+)", compiled.lower(x).text("plan"))]
    assert written.count(x.nbytes) == 1, "the nest, which says what its array holds"
    found, expected = x.copy(), x.copy()
    mlc.compile(swept)(found)
    swept(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
