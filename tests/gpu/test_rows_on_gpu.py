"""Kernels that hold their rows in registers, on a GPU: results, with the same bits in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from tests.row_programs import PROGRAMS, Rows, results_of, softmax

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("guarded_memory")]


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_rows_are_computed(program: Rows) -> None:
    compiled: Any = mlc.compile(program.f, target="cuda")
    arrays = program.arrays(np.random.default_rng(3))
    found = [results_of(compiled(*arrays)) for _ in range(3)]
    for again in found[1:]:
        assert [x.tobytes() for x in again] == [x.tobytes() for x in found[0]]
    for got, (want, close) in zip(found[0], program.expected(arrays), strict=True):
        np.testing.assert_allclose(got.astype(np.float32), want, rtol=close, atol=close)


def test_rows_that_hold_no_number_are_so() -> None:
    x = np.random.default_rng(3).standard_normal((64, 1000)).astype(np.float32)
    x[3, 7], x[5] = np.nan, -np.inf
    found: Any = mlc.compile(softmax, target="cuda")(x)
    assert np.isnan(found[[3, 5]]).all()
    rest = np.delete(np.arange(64), [3, 5])
    np.testing.assert_allclose(found[rest], softmax(x[rest]), rtol=1e-5, atol=1e-7)
