"""Gradients equal those that JAX gave, in f32 and f64, also where a function has a kink."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import mlc
import mlc.numpy as mnp
from tests.gradients import compiled_grad
from tests.jax_programs import DATA, DTYPES, PROGRAMS, Library, Program, inputs

GRADIENTS: dict[str, dict[str, dict[str, Any]]] = json.loads(DATA.read_text())["gradients"]
LIBRARY = Library(mnp, mlc.scan, mlc.vmap, mlc.grad, mlc.cond)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_equal_those_of_jax(program: Program, dtype: str) -> None:
    def loss(x: Any) -> Any:
        return program(LIBRARY, x)

    compiled = compiled_grad(loss)
    expected = GRADIENTS[program.__name__][dtype]
    error = 2e-5 if dtype == "float32" else 1e-12
    for run in (compiled.reference, compiled):
        found = run(inputs(dtype))
        assert list(found) == list(inputs(dtype))  # JAX sorts the names
        for name, x in found.items():
            assert x.dtype == np.dtype(dtype)
            largest = max(1.0, float(np.abs(expected[name]).max()))
            np.testing.assert_allclose(x, expected[name], rtol=error, atol=error * largest)
