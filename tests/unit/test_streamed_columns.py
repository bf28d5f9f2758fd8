"""Reductions down many columns: rows are read one after the other, states wait in memory."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import numpy as np
import pytest

import mlc
from tests.plans import RUNNABLE, planned, spec
from tests.unit.test_lane_loads import numbers

ROWS = 1203  # of four rows and eight at a time some are left
COLUMNS = (333, 1030, 4500)  # one block of states and several; not whole vectors


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "float16"])
@pytest.mark.parametrize("columns", COLUMNS)
def test_any_monoid(columns: int, dtype: str) -> None:
    x = numbers(dtype, ROWS, columns)
    down = mlc.compile(
        lambda x: (x.sum(axis=0), x.max(axis=0), x.argmax(axis=0), np.any(x, axis=0)),
        target=RUNNABLE,
    )
    wanted = x.sum(0), x.max(0), x.argmax(0), np.any(x, 0)
    for found, expected in zip(down(x), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == "float16" else 0)


def test_a_row_times_a_matrix() -> None:
    v, x = numbers("float32", 1, ROWS), numbers("float32", ROWS, 1030)
    product = mlc.compile(lambda v, x: v @ x, target=RUNNABLE)
    np.testing.assert_array_equal(product(v, x), v @ x)


def test_views_batches_and_epilogues() -> None:
    x, y = numbers("float64", 3, ROWS, 300), numbers("float64", 300)
    middle = mlc.compile(lambda x, y: np.abs(x).sum(axis=1) + y, target=RUNNABLE)
    for part in (x, x[:, ::2], x[:, :, ::-1], x[::2], np.asfortranarray(x)):
        np.testing.assert_array_equal(middle(part, y), np.abs(part).sum(axis=1) + y)


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 1203])
def test_rows_known_when_it_runs(rows: int) -> None:
    down = mlc.compile(lambda x: x.sum(axis=0), dynamic={"x": {0: "N"}}, target=RUNNABLE)
    x = numbers("float32", rows, 700)
    np.testing.assert_array_equal(down(x), x.sum(axis=0))


def test_equal_bits_for_any_number_of_threads_and_in_order() -> None:
    x = np.random.default_rng(1).standard_normal((ROWS, 2000)).astype(np.float32)
    found = [
        mlc.compile(lambda x: np.exp(x).sum(axis=0), target=RUNNABLE, threads=n)(x)
        for n in (1, 2, 3)
    ]
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    total = np.zeros(2000, np.float32)
    for row in x:
        total += row
    down = mlc.compile(lambda x: x.sum(axis=0), target=RUNNABLE)
    np.testing.assert_array_equal(down(x), total)


@pytest.mark.parametrize("target", ["avx2", "avx512", "neon"])
@pytest.mark.parametrize(
    ("shape", "streams"), [((4096, 4096), True), ((64, 512), False), ((100000, 32), False)]
)
def test_which_columns_are_streamed(shape: tuple[int, int], streams: bool, target: str) -> None:
    down = planned(lambda x: x.sum(axis=0), spec(*shape), target=target).text("plan")
    assert ("rows(8)" in down) == streams
    product = planned(lambda v, x: v @ x, spec(shape[0]), spec(*shape), target=target).text("plan")
    assert ("rows(8)" in product) == streams


def test_what_is_summed_in_lanes_is_not_streamed() -> None:
    strict = planned(lambda x: x.sum(axis=0), spec(4096, 4096), target="avx2", numerics="strict")
    assert "rows" not in strict.text("plan")
