"""
Mistakes in programs as NumPy users write them: control flow on values, loops, stores, containers,
sizes, `prange`, numbers that change, what comes from other libraries, dtypes and shapes.
"""

# pyright: basic, reportUnknownLambdaType=false, reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import mlc
from tests.mistakes.functions import make

X = np.arange(1.0, 7.0)
M = np.ones((3, 4))
SEEN: list[Any] = []
TOTALS: dict[str, Any] = {}
COUNT = 0
MISTAKES: list[Any] = []


def mistake(*args: Any, **options: Any) -> Any:
    """The function is compiled with these options, and called with these arguments."""

    def keep(function: Any) -> Any:
        @functools.wraps(function)
        def wrong() -> object:
            return mlc.compile(function, **options)(*args)

        MISTAKES.append(wrong)
        return function

    return keep


# Control flow on values


def _without_source(text: str, name: str) -> Any:
    space: dict[str, Any] = {"np": np}
    exec(text, space)
    return space[name]


def a_while_without_source() -> object:
    text = (
        "def halve(error, count):\n    while error > 1:\n        error = error / 2\n"
        "        count = count + 1\n    return error\n"
    )
    return mlc.compile(_without_source(text, "halve"))(np.float64(9.0), 3)


def an_if_without_source() -> object:
    text = "def sign(x):\n    if x[0] > 1:\n        return x\n    return -x\n"
    return mlc.compile(_without_source(text, "sign"))(X)


MISTAKES += [a_while_without_source, an_if_without_source]


@mistake(X)
def branches_of_two_shapes(x):
    if x[0] > 1:
        y = x
    else:
        y = np.ones((2, 2))
    return y


@mistake(X)
def a_return_inside_with(x):
    with np.errstate(all="ignore"):
        if x[0] > 1:
            return x
    return -x


@mistake(X)
def a_break_inside_try(x):
    total = 0.0
    for v in x:
        try:
            if v > 3:
                break
            total += v
        finally:
            total += 1
    return total


@mistake(X)
def an_error_that_is_caught_in_a_derivative(x):
    def loss(x):
        try:
            if x.sum() < 1e9:
                raise ValueError("small")
        except ValueError:
            return x.sum()
        return x.sum() * 2

    return mlc.grad(loss)(x)


@mistake(X)
def a_match_on_a_value(x):
    match {"k": x[0]}:
        case {"k": 1.0, **rest}:
            return x, rest
        case _:
            return -x


@mistake(X)
def a_list_as_condition(x):
    if x > 2:
        return x
    return -x


@mistake(X, M)
def arrays_joined_by_and(x, m):
    return np.where(x > 1 and x < 3, x, 0)


@mistake(X)
def recursion_that_a_value_ends(x):
    def halved(v):
        if v < 1:
            return v
        return halved(v / 2)

    return halved(x[5])


# Loops


@mistake(X, np.array([3]))
def a_list_that_grows_in_a_loop(x, n):
    found = []
    for k in range(n[0]):
        found.append(x[:k])  # noqa: PERF401
    return found


@mistake(X, np.array([3]))
def an_array_that_grows_in_a_loop(x, n):
    for k in range(n[0]):
        x = np.append(x, k)
    return x


@mistake(X, np.array([3]))
def a_number_that_becomes_an_array(x, n):
    total = [0]
    for k in range(n[0]):
        total = [total, x[k]]
    return total


@mistake([np.ones(2), np.ones(3)], np.array([1]))
def an_item_of_a_list_by_a_value(layers, k):
    return layers[k[0]]


@mistake({"a": X, "b": X}, np.array([1]))
def an_item_of_a_dict_by_a_value(table, k):
    return table[k[0]]


@mistake(X, 2.5)
def a_range_of_a_float(x, n):
    total = 0.0
    for k in range(n):
        total += x[k]
    return total


@mistake(X, np.array([2.5]))
def a_range_of_a_traced_float(x, n):
    total = 0.0
    for k in range(n[0]):
        total += x[k]
    return total


@mistake(X, np.array([9]))
def an_index_beyond_in_a_loop(x, n):
    total = 0.0
    for k in range(n[0]):
        total += x[k]
    return total


@mistake(X)
def an_iterator_that_is_used_up(x):
    rows = iter(x)
    if x[0] > 1:
        return next(rows)
    return x[0]


@mistake(iter([1.0]))
def an_iterator_as_argument(rows):
    return next(rows)


# Loops whose trips run at once


@mistake(X)
def trips_that_read_each_other(x):
    sums = np.zeros(len(x))
    for i in mlc.prange(1, len(x)):
        sums[i] = sums[i - 1] + x[i]
    return sums


@mistake(X, np.array([0, 1, 2, 0, 1, 2]))
def trips_that_write_where_data_say(x, places):
    out = np.zeros(3)
    for i in mlc.prange(len(x)):
        out[places[i]] = x[i]
    return out


@mistake(X)
def a_number_that_trips_hand_on(x):
    s = 0.0
    for i in mlc.prange(len(x)):
        s = 0.5 * s + x[i]
    return s


@mistake(X)
def trips_that_are_left(x):
    for i in mlc.prange(len(x)):
        if x[i] > 3:
            break
    return x


# Stores


@mistake(X)
def a_global_that_is_bound(x):
    global COUNT
    COUNT = COUNT + 1
    return x


@mistake(X)
def a_global_list_that_grows(x):
    SEEN.append(x.sum())
    return x


@mistake(X)
def a_global_dict_that_is_written(x):
    TOTALS["sum"] = x.sum()
    return x


def a_variable_of_the_enclosing_function() -> object:
    steps = 0

    @mlc.compile
    def step(x):
        nonlocal steps
        steps += 1
        return x * steps

    return step(X)


def a_captured_array_that_is_written() -> object:
    weights = np.ones(6)

    @mlc.compile
    def update(x):
        weights[:] = weights + x
        return weights

    return update(X)


class Settings:
    rate = 0.5


def an_attribute_of_a_class() -> object:
    @mlc.compile
    def step(x):
        Settings.rate = Settings.rate / 2
        return x * Settings.rate

    return step(X)


def an_argument_that_may_not_be_written() -> object:
    x = X.copy()
    x.flags.writeable = False

    @mlc.compile
    def clear(x):
        x[0] = 0

    return clear(x)


def two_arguments_of_one_memory() -> object:
    @mlc.compile
    def add(x, y):
        x += y

    return add(X, X[::-1])


MISTAKES += [
    a_variable_of_the_enclosing_function,
    a_captured_array_that_is_written,
    an_attribute_of_a_class,
    an_argument_that_may_not_be_written,
    two_arguments_of_one_memory,
]


@mistake(np.arange(6))
def floats_into_integers(n):
    n /= 2
    return n


@mistake(X)
def complex_numbers_into_floats(x):
    x[0] = 1j
    return x


@mistake(M)
def a_part_of_another_shape(m):
    m[:, 0] = np.ones(4)
    return m


# Containers and results


@mistake(X)
def a_function_as_result(x):
    return lambda y: x + y


@mistake({1, 2.5}, X)
def a_set_that_is_summed(numbers, x):
    return np.sum(numbers) + x


@mistake([1.0, "two"], X)
def a_text_in_a_list(numbers, x):
    return x + np.array(numbers).sum()


@mistake([X, M])
def a_list_that_is_no_array(parts):
    return np.array(parts)


# Sizes


@mistake(X, np.array([3]))
def a_number_of_points_from_an_array(x, n):
    return np.linspace(0, x.sum(), n[0])


@mistake(X, np.array([3]))
def a_shape_from_an_array(x, n):
    return x.reshape(n[0], 2)


@mistake(np.array([True, False, True]), X)
def a_mask_of_another_size(m, x):
    return x[m]


@mistake(X, X[::-1])
def picked_elements_of_two_sizes(x, y):
    return x[x > 2] + y[y > 1]


@mistake(X - 9)
def the_largest_of_what_a_mask_picks(x):
    return x[x > 0].max()


@mistake(M)
def a_batch_of_picked_elements(m):
    return mlc.vmap(lambda row: np.sort(row[row > 0]))(m)


# Numbers


@mistake(np.ones(3, np.uint8), 300)
def a_number_that_does_not_fit(x, n):
    return x + n


@mistake(np.arange(3), 2**63)
def a_number_of_more_than_64_bits(x, n):
    return x + n


@mistake(X, np.array([1]))
def an_index_that_is_a_float(x, n):
    return x[n[0] / 2]


@mistake(np.arange(3))
def integers_to_a_negative_power(n):
    return n**-1


@mistake(X)
def a_number_of_pythons_that_is_asked(x):
    return math.comb(int(x[0]), 2)


@mistake(X)
def a_text_that_decides(x):
    return x if str(x[0]) == "1.0" else -x


# Other libraries


@mistake(np.array(["2024-01-01"], "M8[D]"))
def dates(days):
    return days + 1


@mistake(np.array([(1, 2.0)], [("n", "i4"), ("x", "f8")]))
def records(rows):
    return rows * 2


@mistake(np.ma.array([1.0, 2.0], mask=[0, 1]))
def a_masked_array(x):
    return x.sum()


@mistake({"a": X})
def files_while_it_runs(p):
    np.save("weights.npy", p["a"])
    return p


@mistake(X)
def time_while_it_runs(x):
    import time

    return x * time.time()


@mistake(X)
def random_numbers_without_a_seed(x):
    return x + np.random.default_rng().random(6)


@mistake(X)
def a_function_of_another_library(x):
    return bytes(x)


# Shapes and dtypes


@mistake(M, M)
def a_product_of_shapes_that_differ(a, b):
    return a @ b


@mistake(M)
def letters_of_einsum(a):
    return np.einsum("ij,jk->ik", a, a)


@mistake(M, X)
def stacked_rows_that_differ(a, x):
    return np.vstack([a, x])


@mistake(M)
def solved_with_a_matrix_that_is_not_square(a):
    return np.linalg.solve(a, np.ones(3))


@mistake(X)
def bits_of_floats(x):
    return x & 1


@mistake(M)
def an_axis_twice(a):
    return a.sum(axis=(0, 0))


if __name__ == "__main__":
    make(MISTAKES)
