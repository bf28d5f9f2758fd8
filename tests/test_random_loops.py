"""
Random loops over elements: the same numbers on any number of threads, and which trips are said to
meet. NumPy running the same text is the judge.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import numpy as np
import pytest

import mlc
from tests.random_loops import Writer, arguments, function_of, touched_by
from tests.sweeps import leading

PAIR = re.compile(r"Trips (\d+) and (\d+) do, for example")


def outcome(function: Any, given: tuple[Any, ...]) -> list[Any]:
    """Results and arrays afterwards."""
    own = copy.deepcopy(given)
    found = function(*own)
    return [np.asarray(x) for x in (*found, *own[:4])]


def check(seed: int, threads: tuple[int, ...]) -> str:
    """
    What became of a program's parallel loop; raises where that is wrong. Without `threads` no code
    is made.
    """
    text, given = Writer(seed).text("mlc.prange"), arguments(seed)
    touched = touched_by(text, given)
    expected = outcome(function_of(text), given)
    serial = function_of(text.replace("mlc.prange", "range"))
    for number in threads:
        _compare(outcome(mlc.compile(serial, threads=number), given), expected, text)
    try:
        mlc.compile(function_of(text)).lower(*given).text("tensor")
    except mlc.ParallelError as error:
        message = str(error)
    else:
        assert not touched.conflict, text
        bits: set[bytes] = set()
        for number in threads:
            found = outcome(mlc.compile(function_of(text), threads=number), given)
            _compare(found, expected, text)
            bits.add(b"".join(x.tobytes() for x in found))
        assert len(bits) <= 1, text
        return "parallel"
    if pair := PAIR.search(message):
        one, other = map(int, pair.groups())
        assert touched.meet(one, other), f"{text}\n{message}"
    return "refused" if touched.conflict else "unproven"


def _compare(found: list[Any], expected: list[Any], text: str) -> None:
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-12, err_msg=text)


@pytest.mark.parametrize("start", leading(2, range(0, 24, 4)))
def test_values_and_bits(start: int) -> None:
    for seed in range(start, start + 4):
        check(seed, (1, 3))


@pytest.mark.parametrize("start", leading(2, range(100, 200, 20)))
def test_which_trips_meet(start: int) -> None:
    found = [check(seed, ()) for seed in range(start, start + 20)]
    assert found.count("parallel") > 1
    assert found.count("refused") > 3


@pytest.mark.parametrize("seed", [50097, 50111, 50133, 50186])
def test_trips_that_write_under_a_condition_are_no_example(seed: int) -> None:
    assert check(seed, ()) in ("refused", "unproven")


@pytest.mark.parametrize("seed", [3207, 4614, 5538, 6165])
def test_a_trip_before_the_loop_meets_others(seed: int) -> None:
    assert check(seed, ()) == "refused"  # and the trips that are named are counted from that one


def test_a_nest_among_the_kernels_of_a_loop() -> None:
    assert check(4151, (1,)) == "refused"  # its serial loop holds one, and becomes one


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 50))
def test_many(first: int) -> None:
    for seed in range(first, first + 50):
        check(seed, (1, 2, 3))
