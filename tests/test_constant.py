"""`mlc.constant`: arrays from outside as part of the program, folded when it is compiled."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc import nn
from mlc.dialects.errors import DTypeError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 64)).astype(np.float32)
W = RNG.standard_normal((64, 32)).astype(np.float32)
IMAGES = RNG.standard_normal((2, 3, 12, 12)).astype(np.float32)
FILTERS = RNG.standard_normal((8, 3, 3, 3)).astype(np.float32)
STATISTICS = {
    "mean": RNG.standard_normal((8, 1, 1)).astype(np.float32),
    "var": RNG.random((8, 1, 1)).astype(np.float32) + 0.5,
}
MARKED = mlc.constant(W)
MARKED_STATISTICS = mlc.constant(STATISTICS)


def plan(f: Any, *arguments: Any) -> str:
    """The function at the plan level."""
    return f.lower(*arguments).text("plan")


def test_a_constant_is_no_argument() -> None:
    plain = mlc.compile(lambda x: x @ W)
    marked = mlc.compile(lambda x: x @ mlc.constant(W))
    outside = mlc.compile(lambda x: x @ MARKED)
    for f, count in ((plain, 0), (marked, 1), (outside, 1)):
        np.testing.assert_allclose(f(X), X @ W, rtol=1e-4, atol=1e-4)
        assert plan(f, X).count("mlc.constant dense") == count


def test_what_depends_on_constants_alone_is_computed_once() -> None:
    f = mlc.compile(lambda x: x + (mlc.constant(W) * 2 + 1).T[:, ::-1].sum(0))
    text = plan(f, X)
    for op in ("mlc.reduce", "mlc.slice", "mlc.mul", "mlc.transpose"):
        assert op not in text
    np.testing.assert_allclose(f(X), X + (W * 2 + 1).T[:, ::-1].sum(0), rtol=1e-4, atol=1e-4)


def normalised_convolution(x: Any, w: Any, mean: Any, var: Any) -> Any:
    """A convolution and the batch normalisation after it, with given statistics."""
    return (nn.conv(x, w) - mean) / np.sqrt(var + 1e-5)


def test_statistics_become_part_of_the_filters() -> None:
    @mlc.compile(target="avx2")
    def f(x: Any) -> Any:
        s = mlc.constant(STATISTICS)
        return normalised_convolution(x, mlc.constant(FILTERS), s["mean"], s["var"])

    @mlc.compile(target="avx2")
    def outside(x: Any) -> Any:
        s = MARKED_STATISTICS
        return normalised_convolution(x, mlc.constant(FILTERS), s["mean"], s["var"])

    want = mlc.compile(normalised_convolution)(
        IMAGES, FILTERS, STATISTICS["mean"], STATISTICS["var"]
    )
    for folded in (f, outside):
        text = plan(folded, IMAGES)
        assert text.count("mlc.kernel") == 1
        for op in ("mlc.mul", "mlc.div", "mlc.sqrt", "mlc.rsqrt"):
            assert op not in text, op
        np.testing.assert_allclose(folded(IMAGES), want, rtol=1e-3, atol=1e-3)


def test_strict_statistics_keep_their_order() -> None:
    @mlc.compile(numerics="strict")
    def f(x: Any) -> Any:
        s = mlc.constant(STATISTICS)
        return normalised_convolution(x, mlc.constant(FILTERS), s["mean"], s["var"])

    assert (f(IMAGES) == f.reference(IMAGES)).all()


def test_it_is_a_snapshot_and_another_array_is_seen() -> None:
    holder = {"w": W.copy()}
    f = mlc.compile(lambda x: x @ mlc.constant(holder["w"]))
    before = f(X)
    holder["w"][...] = 0
    assert (f(X) == before).all()  # elements: as they were
    holder["w"] = np.ones_like(W)
    np.testing.assert_allclose(f(X), X @ holder["w"], rtol=1e-4, atol=1e-4)


def test_outside_it_is_a_copy_that_cannot_be_written() -> None:
    source: dict[str, Any] = {"a": W.copy(), "b": (1.5, np.arange(3))}
    found = mlc.constant(source)
    source["a"][...] = 0
    assert (found["a"] == W).all()
    assert found["b"][0] == 1.5
    with pytest.raises(ValueError, match="read-only"):
        found["a"][0] = 1
    with pytest.raises(DTypeError, match=r"mlc\.constant: found str"):
        mlc.constant("w")


def test_arguments_are_refused_with_what_to_write() -> None:
    f = mlc.compile(lambda x: mlc.constant(x) + 1)
    with pytest.raises(DTypeError, match="an argument or what the function computes"):
        f(X)
    g = mlc.compile(lambda x: x @ mlc.constant(W.T))
    with pytest.raises(DTypeError, match=r"mlc\.constant\(w\)\.T"):
        g(X)


def test_derivatives_pass_it_by() -> None:
    f = mlc.compile(mlc.grad(lambda x: ((x @ mlc.constant(W)) ** 2).sum()))
    np.testing.assert_allclose(f(X), 2 * (X @ W) @ W.T, rtol=1e-3, atol=1e-3)
    g = mlc.compile(mlc.vmap(lambda row: row @ mlc.constant(W)))
    np.testing.assert_allclose(g(X), X @ W, rtol=1e-4, atol=1e-4)


def test_it_may_stand_in_a_loop() -> None:
    square = (RNG.standard_normal((16, 16)) / 8).astype(np.float32)
    f = mlc.compile(lambda x: mlc.fori_loop(0, 3, lambda i, c: c @ mlc.constant(square), x))
    x = RNG.standard_normal((4, 16)).astype(np.float32)
    np.testing.assert_allclose(f(x), x @ square @ square @ square, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c8", "i8", "u1", "?"])
def test_large_constants_are_written_as_their_bytes(dtype: str) -> None:
    large = RNG.integers(0, 3, (130, 70)).astype(dtype)
    f = mlc.compile(lambda x: x + mlc.constant(large))
    x = np.ones((130, 70), dtype)
    assert f(x).dtype == (x + large).dtype
    assert (f(x) == x + large).all()
    assert 'x i8] c"\\' in f.lower(x).text("code")
