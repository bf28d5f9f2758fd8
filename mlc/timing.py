"""Seconds of functions that are called in turn, on CPUs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

SAMPLE_S = 2e-4  # of one measurement: many times what reading the clock takes
LEAST_ROUNDS = 5
MEASURING_S = 0.5  # of all measurements of a function; the least of them counts


def measure(
    functions: Sequence[Callable[..., object]],
    arguments: Sequence[object],
    said: Callable[[float], None] | None = None,
    seconds: float | None = None,
) -> list[float]:
    """
    Seconds of a call of each function: the least of short measurements in turn, since what else
    runs on the machine can only add to them. `said` is told which part of the time has passed;
    `seconds`: for each function, `MEASURING_S` where nothing is said.
    """
    each = MEASURING_S if seconds is None else seconds
    counts: list[int] = []
    for function in functions:
        function(*arguments)
        start = time.perf_counter()
        function(*arguments)
        counts.append(max(1, round(SAMPLE_S / max(time.perf_counter() - start, 1e-7))))
    least = [float("inf")] * len(functions)
    end = time.perf_counter() + each * len(functions)
    rounds = 0
    while rounds < LEAST_ROUNDS or time.perf_counter() < end:
        rounds += 1
        for k, (function, count) in enumerate(zip(functions, counts, strict=True)):
            start = time.perf_counter()
            for _ in range(count):
                function(*arguments)
            now = time.perf_counter()
            least[k] = min(least[k], (now - start) / count)
            if said is not None:
                said(1 - max(0.0, end - now) / (each * len(functions)))
    return least
