"""
Mistakes with keys, sets and lists in programs as NumPy users write them: what Python finds by its
hash, places that one branch makes, lists whose length only the compiled function knows.
"""

# pyright: basic, reportCallIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np

import mlc
from tests.mistakes.functions import make

X = np.arange(1.0, 7.0)
LABELS = np.array([1, 0, 2, 1])
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


@mistake(LABELS)
def a_histogram_in_a_dict(labels):
    counts = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return counts


@mistake(LABELS)
def a_set_of_values(labels):
    return len(set(labels.tolist()))


@mistake(LABELS)
def a_set_comprehension_of_values(labels):
    return len({2 * label for label in labels})


@mistake(LABELS)
def a_counter_of_values(labels):
    return Counter(labels.tolist())


@mistake(LABELS)
def values_that_have_been_seen(labels):
    seen, first = set(), []
    for label in labels:
        if label not in seen:
            seen.add(label)
            first.append(label)
    return first


@mistake(X)
def a_key_that_one_branch_makes(x):
    found = {"all": x.sum()}
    if x[0] > 0:
        found["positive"] = x[0]
    return sum(found.values())


@mistake(X)
def an_attribute_that_one_branch_makes(x):
    class Box:
        """Something."""

    box = Box()
    for v in x:
        if v > 3:
            box.last = v
    return len(vars(box))


@mistake(X)
def keys_in_two_orders(x):
    found = {}
    if x[0] > 0:
        found["a"], found["b"] = x[0], x[1]
    else:
        found["b"], found["a"] = x[0], x[1]
    return found


@mistake(X)
def a_list_of_a_number_of_values_as_arguments(x):
    kept = [v for v in x if v > 2]
    return np.hypot(*kept)


@mistake(X)
def every_second_of_a_list_assigned(x):
    kept = [v for v in x if v > 2]
    kept[::2] = [0.0, 0.0]
    return kept


@mistake(X, dynamic={"x": {0: "n"}})
def a_tuple_of_any_length(x):
    return tuple(x)


if __name__ == "__main__":
    make(MISTAKES)
