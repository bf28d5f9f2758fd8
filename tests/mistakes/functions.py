"""
Mistakes in Python: each function makes one. `python functions.py` makes them all and prints what
the user reads; the golden file shows lines of this file without their numbers.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mlc

A = np.ones((3, 4), np.float32)
B = np.ones((5, 6), np.float32)
EMPTY = np.zeros((2, 0))
NUMBERS = np.arange(9)


def inner_sizes_of_a_product() -> object:
    return mlc.compile(lambda x, y: x @ y)(A, B)


def shapes_that_do_not_broadcast() -> object:
    @mlc.compile
    def f(x: Any, y: Any) -> Any:
        return np.exp(x) + y

    return f(A, B)


def concatenation_of_unlike_rows() -> object:
    return mlc.compile(lambda x, y: np.concatenate([x, y]))(A, B)


def reshape_to_another_count() -> object:
    return mlc.compile(lambda x: x.reshape(5, 3))(A)


def axis_that_does_not_exist() -> object:
    return mlc.compile(lambda x: np.sum(x, axis=2))(A)


def strings() -> object:
    return mlc.compile(lambda x: x + 1)(np.array(["a", "b"]))


def objects() -> object:
    return mlc.compile(lambda x: x + 1)(np.array([None, 1]))


def an_argument_too_many() -> object:
    return mlc.compile(lambda x: x + 1)(A, B)  # pyright: ignore[reportCallIssue]


def an_unknown_option() -> object:
    return mlc.compile(optimise=True)(lambda x: x)  # pyright: ignore[reportCallIssue]


def no_threads() -> object:
    return mlc.compile(threads=0)(lambda x: x)


def an_unknown_target() -> object:
    return mlc.compile(target="z80")(lambda x: x + 1)(A)


def sizes_that_must_be_equal() -> object:
    f = mlc.compile(dynamic={"x": {0: "N"}, "y": {0: "N"}})(lambda x, y: x + y)
    return f(np.ones(3), np.ones(4))


def index_out_of_range() -> object:
    @mlc.compile
    def f(x: Any, i: Any) -> Any:
        return x[i] * 2

    return f(NUMBERS, np.array([1, 9]))


def negative_index_out_of_range() -> object:
    return mlc.compile(lambda x, i: np.take(x, i) + 1)(NUMBERS, np.array([-10]))


def largest_of_nothing() -> object:
    return mlc.compile(lambda x: np.max(x, axis=1))(EMPTY)


def position_in_nothing() -> object:
    f = mlc.compile(dynamic={"x": {1: "N"}})(lambda x: np.argmax(x, axis=1))
    f(np.ones((2, 3)))
    return f(EMPTY)


def truth_of_an_array() -> object:
    @mlc.compile
    def f(x: Any) -> Any:
        if x > 0:
            return x
        return -x

    return f(NUMBERS)


def set_in_one_branch() -> object:
    @mlc.compile
    def f(x: Any) -> Any:
        if x[0] > 0:
            scale = x[1]
        return x * scale  # pyright: ignore[reportPossiblyUnboundVariable]

    return f(NUMBERS)


def a_type_that_changes_at_every_trip() -> object:
    @mlc.compile
    def f(x: Any) -> Any:
        while x.sum() < 100:
            x = np.concatenate([x, x])
        return x

    return f(NUMBERS)


def raised_in_a_function_of_a_loop() -> object:
    def trip(_: Any, x: Any) -> Any:
        if x[0] < 0:
            raise ValueError("negative")
        return x

    return mlc.compile(lambda x: mlc.fori_loop(0, 3, trip, x))(NUMBERS)


def random_numbers_inside() -> object:
    return mlc.compile(lambda x: x + np.random.normal(size=9))(NUMBERS)  # noqa: NPY002


def a_result_that_is_no_array() -> object:
    return mlc.compile(lambda x: (x, lambda y: x + y))(NUMBERS)


def division_by_zero() -> object:
    """No mistake for a machine: 0, as documented, and never a trap."""
    low = np.array([7, -(2**63)])
    found = mlc.compile(lambda x, y: x // y)(low, np.array([0, -1]))
    raise ValueError(f"7 // 0 = {found[0]}, -2**63 // -1 = {found[1]}")


def a_setting_that_means_nothing() -> object:
    os.environ["MLC_CACHE_BYTES"] = "plenty"
    try:
        return mlc.compile(lambda x: x * 3)(A)
    finally:
        del os.environ["MLC_CACHE_BYTES"]


MISTAKES: tuple[Callable[[], object], ...] = (
    inner_sizes_of_a_product,
    shapes_that_do_not_broadcast,
    concatenation_of_unlike_rows,
    reshape_to_another_count,
    axis_that_does_not_exist,
    strings,
    objects,
    an_argument_too_many,
    an_unknown_option,
    no_threads,
    an_unknown_target,
    sizes_that_must_be_equal,
    index_out_of_range,
    negative_index_out_of_range,
    largest_of_nothing,
    position_in_nothing,
    truth_of_an_array,
    set_in_one_branch,
    a_type_that_changes_at_every_trip,
    raised_in_a_function_of_a_loop,
    random_numbers_inside,
    a_result_that_is_no_array,
    division_by_zero,
    a_setting_that_means_nothing,
)


def make(mistakes: Sequence[Callable[[], object]]) -> None:
    """Makes every mistake, and prints what the user reads."""
    os.chdir(Path(__file__).parent)  # messages show paths relative to it
    for mistake in mistakes:
        print(f"=== {mistake.__name__}")
        try:
            mistake()
        except Exception as error:  # noqa: BLE001 - whatever a user may read
            print(f"{type(error).__name__}: {error}\n", flush=True)
        else:
            print("no error\n")


if __name__ == "__main__":
    make(MISTAKES)
