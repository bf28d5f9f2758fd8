"""Large results come from memory that earlier results have left behind."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import gc
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc

CALLS = 8


def faults(call: Callable[[], Any]) -> int:
    """Pages that this thread touched for the first time in some calls."""
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(CALLS):
        call()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


@pytest.mark.parametrize("size", [1_000, 400_000, 3_000_000])
def test_a_second_call_causes_no_page_fault(size: int) -> None:
    x = np.ones(size, np.float32)
    plus = mlc.compile(lambda x: (x + 1, np.cumsum(x)[::-1] * 2), threads=1)
    held: list[Any] = [None]

    def released() -> None:
        plus(x)

    def alternating() -> None:
        held[0] = plus(x)

    gc.disable()
    try:
        for call in (released, alternating):
            faults(call)
            assert faults(call) < CALLS
    finally:
        gc.enable()
