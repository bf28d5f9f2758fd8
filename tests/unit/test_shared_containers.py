"""One list, dict or object that a compiled function gets by two ways is one there, too."""
# pyright: basic, reportConstantRedefinition=false

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.errors import NotSupportedError

X = np.arange(3.0)
SHARED: Any = None
BESIDE: Any = None


@dataclass
class Pair:
    v: Any


class Thing:
    def __init__(self, v: Any) -> None:
        self.v = v


def grows(a: Any, b: Any) -> Any:
    a.append(a[0] + 1)
    return len(b)


def grows_for_a_while(a: Any, b: Any) -> Any:
    a.append(X)
    found = len(b)
    a.pop()
    return found


def an_item(a: Any, b: Any) -> Any:
    a[0] = a[0] * 2
    return b[0] + 1


def an_element(a: Any, b: Any) -> Any:
    a[0][1] = 9.0
    return b[0] * 2


def by_key(a: Any, b: Any) -> Any:
    a["k"] = a["k"] * 2
    return b["k"] + 1


def an_attribute(a: Any, b: Any) -> Any:
    a.v = a.v * 2
    return b.v + 1


def an_element_of_an_attribute(a: Any, b: Any) -> Any:
    a.v[1] = 9.0
    return b.v + 1


def inside(a: Any, b: Any) -> Any:
    a.v.append(b[0])
    return len(b)


def one(a: Any, b: Any) -> Any:
    return a is b


def starred(*args: Any) -> Any:
    args[0].append(X)
    return len(args[1])


def named(a: Any, **rest: Any) -> Any:
    a.append(X)
    return len(rest["b"])


def in_one(a: Any) -> Any:
    a[0].append(X)
    return len(a[1])


def a_global(a: Any) -> Any:
    a[0] = a[0] * 2
    return SHARED[0] + 1


def list_of(kind: Any = list) -> Any:
    return kind([X.copy()])


def twice(make: Callable[[], Any]) -> Any:
    made = make()
    return made, made


def container_cases() -> dict[str, Any]:
    """A function, with what makes arguments that share and arguments that do not."""
    lists = lambda: twice(list_of), lambda: (list_of(), list_of())
    pairs = lambda: twice(lambda: Pair(X)), lambda: (Pair(X), Pair(X + 0))
    things = lambda: twice(lambda: Thing(X)), lambda: (Thing(X), Thing(X + 0))
    dicts = lambda: twice(lambda: {"k": X}), lambda: ({"k": X}, {"k": X + 0})
    numbers = lambda: twice(lambda: [1.0, 2.0]), lambda: ([1.0, 2.0], [1.0, 2.0])
    empty = lambda: twice(list), lambda: ([], [])

    def held() -> Any:
        made = list_of()
        return Thing(made), made

    return {
        "a list grows": (grows, *lists),
        "a list grows for a while": (grows_for_a_while, *lists),
        "an empty list": (starred, *empty),
        "an item of a list": (an_item, *lists),
        "a list of numbers": (an_item, *numbers),
        "an element of an array in a list": (an_element, *lists),
        "a dict": (by_key, *dicts),
        "a dataclass": (an_attribute, *pairs),
        "an element of an array of an object": (
            an_element_of_an_attribute,
            lambda: twice(lambda: Thing(X.copy())),
            lambda: (Thing(X.copy()), Thing(X.copy())),
        ),
        "an object": (an_attribute, *things),
        "a list in an object": (inside, held, lambda: (Thing(list_of()), list_of())),
        "identity": (one, *lists),
        "starred": (starred, *lists),
        "in a list": (in_one, lambda: (list(twice(list_of)),), lambda: ([list_of(), list_of()],)),
        "in a tuple": (in_one, lambda: (twice(list_of),), lambda: ((list_of(), list_of()),)),
        "in a dict": (
            in_one,
            lambda: (dict(enumerate(twice(list_of))),),
            lambda: ({0: list_of(), 1: list_of()},),
        ),
    }


CASES = container_cases()


@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 1)], ids=["one first", "two first"])
@pytest.mark.parametrize("name", CASES)
def test_what_is_one_stays_one(name: str, order: tuple[int, ...]) -> None:
    function, *makes = CASES[name]
    compiled = mlc.compile(function)
    for k in order:
        expected, given = copy.deepcopy(makes[k]()), copy.deepcopy(makes[k]())
        wanted, found = function(*expected), compiled(*given)
        np.testing.assert_array_equal(found, wanted)
        assert _told(given) == _told(expected)
    assert len(compiled.stats().artifacts) == 2  # the third call has its program


def _told(value: Any) -> str:
    if isinstance(value, list | tuple):
        return str([_told(x) for x in value])
    return repr(vars(value) if isinstance(value, Thing) else value)


def test_arguments_by_name() -> None:
    compiled = mlc.compile(named)
    made = list_of()
    assert compiled(made, b=made) == 2
    assert compiled(list_of(), b=list_of()) == 1


@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 1)], ids=["one first", "two first"])
def test_a_global_that_is_an_argument(order: tuple[int, ...]) -> None:
    global SHARED
    compiled = mlc.compile(a_global)
    for k in order:
        SHARED = list_of()
        given = SHARED if k == 0 else list_of()
        np.testing.assert_array_equal(compiled(given), X * 2 + 1 if k == 0 else X + 1)


def an_attribute_of_a_global(a: Any) -> Any:
    a.v = a.v * 2
    return SHARED.v + 1


@pytest.mark.parametrize("kind", [Pair, Thing])
@pytest.mark.parametrize("order", [(0, 1, 0), (1, 0, 1)], ids=["one first", "two first"])
def test_an_object_that_is_a_global(order: tuple[int, ...], kind: Any) -> None:
    global SHARED
    compiled = mlc.compile(an_attribute_of_a_global)
    for k in order:
        SHARED = kind(X)
        given = SHARED if k == 0 else kind(X)
        np.testing.assert_array_equal(compiled(given), X * 2 + 1 if k == 0 else X + 1)
    assert len(compiled.stats().artifacts) == 2


def both_globals() -> Any:
    return SHARED.v + BESIDE.v


def items_of_both() -> Any:
    return SHARED[0] + BESIDE[0]


@pytest.mark.parametrize(
    ("function", "make"), [(both_globals, Thing), (items_of_both, lambda x: [x])]
)
def test_globals_that_were_one(function: Any, make: Any) -> None:
    global SHARED, BESIDE
    compiled = mlc.compile(function)
    SHARED = BESIDE = make(X)
    np.testing.assert_array_equal(compiled(), X + X)
    BESIDE = make(X + 1)
    np.testing.assert_array_equal(compiled(), X + X + 1)


def test_an_array_in_two_lists_is_refused() -> None:
    compiled, x = mlc.compile(an_element), X.copy()
    compiled(list_of(), list_of())
    with pytest.raises(NotSupportedError, match=r"a\[0\], which shares memory with b\[0\]"):
        compiled([x], [x])


def test_a_donated_list_is_no_other_argument() -> None:
    compiled = mlc.compile(lambda p, q: [p[0] + q[0]], donate=("p",))
    made = list_of()
    with pytest.raises(NotSupportedError, match=r"shares memory with q\[0\]"):
        compiled(made, made)
