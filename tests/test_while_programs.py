"""Reverse mode through loops of as many trips as their numbers say."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gradients import agrees
from tests.while_programs import PROGRAMS, Program


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients_of_loops_that_end_when_they_end(program: Program) -> None:
    argument: Any = PROGRAMS[program]
    agrees(program, argument)


def test_there_are_twenty() -> None:
    assert len(PROGRAMS) >= 20
