"""Python's `if`, `while` and `for` on values: what NumPy answers, the compiled function answers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.trace.containers import flatten
from tests.found_programs import PROGRAMS


def outcome(function: Any, arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """(leaves of the result or the exception's builtin class, the arguments afterwards)."""
    given = copy.deepcopy(arguments)
    try:
        return flatten(function(*given)), given
    except Exception as error:  # noqa: BLE001 - whichever it raises is the answer
        known = next(c for c in type(error).__mro__ if c.__module__ == "builtins")
        return known, given


def assert_same_outcome(found: Any, expected: Any) -> None:
    """Values, dtypes, changed arguments, exception classes."""
    if isinstance(expected[0], type):
        assert found[0] is expected[0]
    else:
        assert found[0][1] == expected[0][1]
        for x, y in zip(found[0][0], expected[0][0], strict=True):
            assert np.asarray(x).dtype == np.asarray(y).dtype
            np.testing.assert_allclose(x, y, rtol=1e-12)
    for x, y in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    function, arguments = PROGRAMS[name]
    assert_same_outcome(outcome(mlc.compile(function), arguments), outcome(function, arguments))
