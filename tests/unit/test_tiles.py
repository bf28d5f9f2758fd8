"""Tile loops: the reference, plans of them and compiled code agree; what they hold and report."""

from __future__ import annotations

import numpy as np
import pytest

from mlc.runtime.interpret import interpret
from mlc.text import parse_text
from tests.tile_programs import PROGRAMS, Program


@pytest.fixture(params=PROGRAMS, ids=str)
def program(request: pytest.FixtureRequest) -> Program:
    return PROGRAMS[request.param]


def test_reference(program: Program) -> None:
    arrays = program.draw()
    module = parse_text(program.text, "test")
    module.verify()
    for x, y in zip(interpret(module, arrays), program.meaning(*arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)
