"""Whole programs as NumPy users write them, unchanged: NumPy's results and changes."""

# pyright: basic

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import mlc
from tests.numpy_programs import algorithms, simulations

PROGRAMS = simulations.PROGRAMS | algorithms.PROGRAMS


def assert_same(found: Any, wanted: Any) -> None:
    """The same containers with arrays of the same dtypes and values."""
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        assert_same(list(found.values()), list(wanted.values()))
    elif isinstance(wanted, list | tuple):
        assert type(found) is type(wanted)
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    elif callable(wanted) or wanted is None:
        assert found is wanted
    else:
        assert np.asarray(found).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_numpy(name: str) -> None:
    function, arguments = PROGRAMS[name]
    ours, theirs = (
        tuple(x if callable(x) else copy.deepcopy(x) for x in arguments) for _ in range(2)
    )
    with np.errstate(all="ignore"):
        wanted = function(*theirs)
    assert_same(mlc.compile(function)(*ours), wanted)
    assert_same(ours, theirs)
