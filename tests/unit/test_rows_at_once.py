"""Reductions along rows, several at once: each row's bits are those it has alone."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import re

import numpy as np
import pytest

import mlc
from tests.plans import HOSTED, RUNNABLE, planned, spec
from tests.unit.test_lane_loads import numbers


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8"])
@pytest.mark.parametrize("columns", [1, 3, 16, 100, 517])
def test_any_length(columns: int, dtype: str) -> None:
    x = numbers(dtype, 67, columns)
    along = mlc.compile(lambda x: (x.sum(axis=1), x.max(axis=1), x.min(axis=1)), target=RUNNABLE)
    for found, expected in zip(along(x), (x.sum(1), x.max(1), x.min(1)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == "float16" else 1e-5)


@pytest.mark.parametrize("target", HOSTED)
def test_a_matrix_times_a_vector_and_what_follows(target: str) -> None:
    x, v, w = numbers("float32", 67, 333), numbers("float32", 333), numbers("float32", 67)
    product = mlc.compile(lambda x, v, w: w * (x @ v) + 1, target=target)
    for part, some in ((x, w), (x[::2], w[::2]), (x[:, ::-1], w), (np.asfortranarray(x), w)):
        np.testing.assert_array_equal(product(part, v, some), some * (part @ v) + 1)


def test_batches_and_several_summed_axes() -> None:
    x, y = numbers("float64", 3, 33, 40), numbers("float64", 5, 40, 7)
    last = mlc.compile(lambda x: x.sum(axis=2), target=RUNNABLE)
    np.testing.assert_array_equal(last(x), x.sum(axis=2))
    around = mlc.compile(lambda y: y.sum(axis=(0, 2)), target=RUNNABLE)
    np.testing.assert_array_equal(around(y), y.sum(axis=(0, 2)))


@pytest.mark.parametrize("target", HOSTED)
def test_bits_do_not_depend_on_neighbours_and_threads(target: str) -> None:
    rng = np.random.default_rng(3)
    x, v = rng.standard_normal((1031, 700), np.float32), rng.standard_normal(700, np.float32)
    found = [mlc.compile(lambda x, v: x @ v, target=target, threads=n)(x, v) for n in (1, 2, 3)]
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    turned = mlc.compile(lambda x, v: x @ v, target=target)(np.roll(x, 3, axis=0), v)
    assert np.roll(turned, -3).tobytes() == found[0].tobytes()


@pytest.mark.parametrize(("target", "rows"), [("avx2", 4), ("avx512", 4), ("neon", 4)])
def test_how_many(target: str, rows: int) -> None:
    text = planned(lambda x, v: x @ v, spec(200, 300), spec(300), target=target).text("plan")
    assert f"rows({rows})" in text
    few = planned(lambda x, v: x @ v, spec(3, 300), spec(300), target=target).text("plan")
    heavy = planned(lambda x: np.exp(x).sum(axis=1), spec(200, 300), target=target).text("plan")
    assert "rows" not in few
    assert "rows" not in heavy


def test_two_rows_where_a_vector_holds_two() -> None:
    x = spec(100, 300, dtype="f64")
    assert "rows(2)" in planned(lambda x: x.sum(axis=1), x, target="neon").text("plan")


def test_strict_takes_one_row_after_the_other() -> None:
    levels = planned(lambda x: x.sum(axis=1), spec(200, 300), target="avx2", numerics="strict")
    assert "rows" not in levels.text("plan")


def test_long_rows_from_memory_are_one_stream() -> None:
    """What fits level 2 may be read in any order, and so may rows of a few lines."""

    def rows(*shape: int) -> bool:
        return "rows(" in planned(lambda x: x.sum(axis=1), spec(*shape), target="avx512").text(
            "plan"
        )

    assert rows(512, 256)
    assert not rows(65536, 256)
    assert rows(65536, 48)


def test_a_tile_comes_from_afar_once() -> None:
    """Of a tile loop's phases the first one reads what the others then find in level 2."""

    def variances(x: np.ndarray) -> np.ndarray:
        d = x - x.mean(1, keepdims=True)
        return (d * d).mean(1)

    text = planned(variances, spec(16384, 1024), target="avx512").text("plan")
    first, second = re.findall(r"mlc\.reduce.*?schedule = ([^>]*)", text, re.DOTALL)
    assert "mlc.tiles" in text
    assert "rows" not in first
    assert "rows(4)" in second
