"""Seconds of programs that are called in turn, on the device."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

from mlc.runtime.cuda.dlpack import device_put
from mlc.runtime.cuda.driver import device
from mlc.runtime.cuda.pool import current_stream

FLUSHED_BYTES = 128 << 20  # copied before a call: more than any level 2 holds
LEAST_ROUNDS, MOST_ROUNDS = 5, 200
MEASURING_S = 0.3  # of all measurements of a function


def measure(
    functions: Sequence[Callable[..., object]],
    arguments: Sequence[object],
    said: Callable[[float], None] | None = None,
    seconds: float | None = None,
) -> list[float]:
    """
    Seconds of a call of each function, with nothing of its arguments in level 2: the median of
    calls in turn, since the clock of the device varies both ways. `said` and `seconds` as for CPUs.
    """
    total = (MEASURING_S if seconds is None else seconds) * len(functions)
    arrays, gpu, stream = [device_put(x) for x in arguments], device(), current_stream()
    found: list[list[float]] = [[] for _ in functions]
    with gpu.active():
        start, end = (gpu.native.event(timed=True) for _ in range(2))
        dirt = gpu.native.allocate(2 * FLUSHED_BYTES)
    for function in functions:
        function(*arrays)
    begin, rounds = time.perf_counter(), 0
    try:
        while rounds < LEAST_ROUNDS or (
            rounds < MOST_ROUNDS and time.perf_counter() < begin + total
        ):
            rounds += 1
            for took, function in zip(found, functions, strict=True):
                with gpu.active():
                    gpu.native.copy(dirt, dirt + FLUSHED_BYTES, FLUSHED_BYTES, stream)
                    gpu.native.record(start, stream)
                function(*arrays)
                with gpu.active():
                    gpu.native.record(end, stream)
                    took.append(gpu.native.seconds_between(start, end))
            if said is not None and total:
                said(min(1.0, (time.perf_counter() - begin) / total))
    finally:
        with gpu.active():
            gpu.native.synchronize(stream)
            gpu.native.free(dirt)
    return list(map(median, found))
