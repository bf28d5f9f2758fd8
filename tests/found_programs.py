"""What random programs have found, in few lines: cases beside those of staged_programs.py."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tests.list_programs import PROGRAMS
from tests.staged_programs import Point, V, i64, program

__all__ = ["PROGRAMS"]


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(0)))
def containers_made_anew(x: Any, n: Any) -> Any:
    p: Any = {"q": x[0], "r": [x[1], 0]}
    for k in range(n, 5):
        p = {**p, "q": p["q"] + k}
        p["r"][0] += p["q"]
        p["r"][1] += 1
    return p["q"], p["r"][0], p["r"][1]


@program((V([1.0, 2.0]),), (V([-1.0, 2.0]),), (V([-1.0, 9.0]),))
def returned_or_raised_behind_a_loop(x: Any) -> Any:
    k = 0
    while True:
        k += 1
        if k > 3:
            break
        if x[0] > 0:
            return k
        for v in x:
            if v > 5:
                continue
        else:  # noqa: PLW0120 - as users write it
            assert x[1] < 5
    return -1


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(0)))
def items_replaced_on_one_side(x: Any, n: Any) -> Any:
    p: Any = {"r": [x[1], 2]}
    if n > 1:
        return p["r"][1]
    for _ in range(n, 4):
        p["r"] = [x[0], 0]
    p["r"][1] += 1
    return p["r"][1]


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(-1)))
def lists_in_a_dict(x: Any, n: Any) -> Any:
    """One side replaces what the other changes in place."""
    p: Any = {"r": [x[1], x * 2]}
    for _ in range(3):
        if n > 0:
            p["r"] = [x[0], x * 3]
            return p["r"][0], p["r"][1]
        p["r"][0] += 1
        p["r"][1][0] += 2
    return p["r"][0], p["r"][1]


@program((V([1.0, 2.0]),), (V([7.0, 2.0]),))
def types_settle_in_a_loop_that_is_left(x: Any) -> Any:
    """Python decides the test, the compiled function whether the loop is left."""
    q, k = 0, 0
    while k < 4:
        k += 1
        q = q / 2 if q > 1 else q + x[0] * 0.5
        if q > 3:
            break
    return q, k


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(0)))
def index_outside_in_a_loop(x: Any, n: Any) -> Any:
    k = 0
    while k < n - 3:
        x[2] = 1.0
        k += 1
    for _ in range(n - 3):
        x[5] = 1.0
    return x[k]


@program((V([1.0, 2.0]), i64(2)), (V([1.0, 2.0]), i64(-1)))
def methods_and_partial_functions(x: Any, n: Any) -> Any:
    def put(places: Any, value: Any) -> None:
        places[0] = value

    double, places = Point(x[0]).double, [x[1]]
    set_first = partial(put, places)
    if n > 0:
        double()
        set_first(x[0] * 7)
    return double.__self__.x, set_first.args[0][0]


@program((V([1.0, 2.0]), i64(2)), (V([7.0, 2.0]), i64(-1)))
def whether_something_is_in_an_array(x: Any, n: Any) -> Any:
    """A bool of Python's, whose sums are whole numbers."""
    inside, listed, absent = x[1] in x, x[0] in [n, x[1]], n not in x
    return inside + listed, absent + absent, 2 - (n in (1, 2))


@program((V([1.0, 2.0]), i64(2)), (V([0.0, 0.0]), i64(2)), (V([1.0, 2.0]), i64(-1)))
def a_bool_of_pythons_or_numpys(x: Any, n: Any) -> Any:
    """`is True` is so of Python's alone, which `and` gives where the first is true."""
    t = x.any() and (n > 0) is not None
    match t:
        case True:
            return 1
        case False:
            return 2
        case _:
            return 3


@program((V([0.0, 1.0, 2.0]), 0.5), (V([0.0, 1.0, 2.0]), 2.0))
def sizes_of_one_way(x: Any, s: Any) -> Any:
    """What is returned early has no array of a size that the rest computes."""
    q: list[Any] = []
    if x[0] + s > 1:
        return q
    w = x[x > s]
    for _ in w:
        q += [1.5]
    return q, w, [w + 1]


@program((V([0.0, 1.0, 2.0]), 0.5), (V([0.0, 1.0, 2.0]), 2.0))
def array_or_none_of_a_size(x: Any, s: Any) -> Any:
    w = None
    if x[1] > s:
        w = x[x > s]
    return w is None, [] if w is None else [w]


@program(*((V([0.5, 2.0]), i64(k)) for k in (0, 1, 2, -1, 3)))
def picked_numbers_of_pythons(x: Any, k: Any) -> Any:
    """Of its own class is what the data pick."""
    a, b = (k, 1, 2)[k], [1, 0.5, 2.0][k]
    p = [(1, x[0]), (x[1], 2), (2, x[0])][k]
    return a, a / 2, b, b * x, p, p[0] * 2


@program(*((V([0.5, -2.0, 3.0]), i64(k)) for k in (0, 1, 4, 3)))
def a_length_behind_a_raise(x: Any, k: Any) -> Any:
    """What only the way has that raises nothing: a number of its own mask."""

    def same(z: Any) -> Any:
        return z

    a = 0.0
    try:
        if k:
            raise ValueError
    except ValueError:
        a = same(k)
    k = len(np.where(x > a)[0])
    return k, a


@program(*((V([0.5, -2.0, 3.0, 1.0]), V([1.0, 2.0, 3.0, 4.0]), i64(k)) for k in (0, 1, 4, 5)))
def slices_to_a_number_from_before_the_loop(x: Any, y: Any, k: Any) -> Any:
    """Their size is bound in each loop, whatever trials of its trips bound before."""
    j, M = k % 3, np.ones((3, 4))
    for _ in np.flatnonzero(x > 0):
        M[1][:j] = y[3]
    for i in np.flatnonzero(x > 0):
        M[2][: j + 1] += y[i]
    return M
