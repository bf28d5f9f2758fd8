"""
Arrays that are one or another, or a view of one, depending on the branch: whoever writes to one of
them writes to what it is. Python says what the compiled ones do.
"""
# pyright: basic, reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import Any

import numpy as np

from tests.effect_programs import Programs, collecting

ALIASES: Programs = {}
REFUSED: Programs = {}
program, refused = collecting(ALIASES), collecting(REFUSED)
X = np.arange(6.0)
CALLS = (X, 1.0), (X, -1.0)


@program(*CALLS)
def read_behind_a_write(x: Any, c: Any) -> Any:
    y = x.copy()
    if c > 0:
        v = y[1:]
    else:
        v = y[:-1]
    y[1] = 50.0
    return v


@program(*CALLS)
def one_way_alone(x: Any, c: Any) -> Any:
    y = x.copy()
    v = y[1:]
    if c > 0:
        v = y[:-1]
    y[2] = 50.0
    return v, y


@program(*CALLS)
def written_through(x: Any, c: Any) -> Any:
    y = x.copy()
    v = y[1:] if c > 0 else y[:-1]
    v[0] = 7.0
    v += 1
    return y, v


@program(*CALLS)
def two_arrays(x: Any, c: Any) -> Any:
    y, z = x.copy(), x * 2
    v = y if c > 0 else z
    v[0] = 3.0
    y[1] += 10
    z[1] -= 10
    return v, y, z


@program(*CALLS)
def a_new_one(x: Any, c: Any) -> Any:
    y = x.copy()
    v = y[::2] if c > 0 else np.zeros(3)
    v[1] = 5.0
    y[0] = 9.0
    v[2] += 1
    return v, y


@program(*CALLS)
def swapped(x: Any, c: Any) -> Any:
    a, b = x.copy(), x * 3
    if c > 0:
        a, b = b, a
    a[0] = -1.0
    b[1] = a[2]
    return a, b


@program(*CALLS)
def views_of_it(x: Any, c: Any) -> Any:
    y, z = x.copy().reshape(2, 3), x.reshape(3, 2) * 2
    v = y.T if c > 0 else z
    row = v[1]
    row[0] = 8.0
    v[2, 1] = 4.0
    y[0, 0] = z[0, 0] = 6.0
    return row, v, y, z


@program(*CALLS)
def chosen_twice(x: Any, c: Any) -> Any:
    a, b, d = x.copy(), x * 2, x * 3
    v = a if c > 0 else b
    w = v if x.sum() > c else d
    w[0] = 1.0
    a[1] = b[1] = d[1] = 2.0
    return a, b, d, v, w


@program(*CALLS)
def written_in_a_branch(x: Any, c: Any) -> Any:
    y, z = x.copy(), x * 2
    v = y if c > 0 else z
    if c * c > 0.5:
        v[2] = 11.0
        y[3] = 12.0
    else:
        z[3] = 13.0
    return v, y, z


@program(*CALLS)
def in_a_loop(x: Any, c: Any) -> Any:
    y, z = x.copy(), x * 2
    for i in range(len(x)):
        v = y if x[i] * c > 2 else z
        v[i] += 100.0
        y[i] *= 2
    return y, z


@program(*CALLS)
def in_a_list(x: Any, c: Any) -> Any:
    y = x.copy()
    rows = [y[0:2], y[2:4]]
    if c > 0:
        rows = [y[1:3], y[0:2]]
    y[1] = 33.0
    rows[0][0] = 34.0
    return rows[0], rows[1], y


@program(*CALLS)
def the_argument(x: Any, c: Any) -> Any:
    v = x[2:] if c > 0 else x[:-2]
    v[0] = 21.0
    return v.sum()


@program(*CALLS)
def at_a_traced_place(x: Any, c: Any) -> Any:
    k = int(x[2])
    v = x[k] if c > 0 else x[0]
    rows = x.reshape(3, 2)
    row = rows[k] if c > 0 else rows[0]
    return v + row


@program(*CALLS)
def returned_early(x: Any, c: Any) -> Any:
    y = x.copy()
    v = y[:3]
    if c > 0:
        v = y[3:]
        y[4] = 2.0
        return v
    y[1] = 7.0
    return v


@program(*CALLS)
def summed(x: Any, c: Any) -> Any:
    y = x.copy()
    v = y[1:] if c > 0 else y[:-1]
    total = v.sum()
    y[2] = 100.0
    return total + v.sum()


TABLE = np.arange(120.0).reshape(30, 4)


@program((TABLE,))
def rows_of_a_table(x: Any) -> Any:
    y = x.copy()
    before = y[0]
    for i in range(1, len(y)):
        row = y[i]
        row[1:] = before[:-1] + row[1:]
        before = row
    return before[-1], y


@program((TABLE, 9.0), (TABLE, 2.0))
def the_row_where_it_ends(x: Any, c: Any) -> Any:
    y, i = x.copy(), 0
    row = y[0]
    while y[i, 0] < c and i < 20:
        i += 1
        row = y[i]
    return row * 2, y


@refused((TABLE, 9.0))
def written_where_it_ends(x: Any, c: Any) -> Any:
    y, i = x.copy(), 0
    row = y[0]
    while y[i, 0] < c and i < 20:
        i += 1
        row = y[i]
    row[0] = 50.0
    return y


@refused((TABLE, 9.0))
def read_where_it_ends(x: Any, c: Any) -> Any:
    y, i = x.copy(), 0
    row = y[0]
    while y[i, 0] < c and i < 20:
        i += 1
        row = y[i]
    y[1] = 7.0
    return row


@refused((TABLE, 9.0))
def of_a_branch(x: Any, c: Any) -> Any:
    y, k = x.copy(), int(x[1, 1])
    v = y[k : k + 2] if c > 3 else y[0:2]
    y[1] = 5.0
    return v.sum()


@refused((TABLE, 9.0))
def of_a_branch_written(x: Any, c: Any) -> Any:
    y, k = x.copy(), int(x[1, 1])
    v = y[k] if c > 3 else y[0]
    v[0] = 5.0
    return y


LINE = np.linspace(0, 1, 60)


@program((LINE, 0.5), (LINE, 9.0))
def walked_and_rebound(x: Any, c: Any) -> Any:
    v, total = x * 1.0, 0.0
    for e in v[1:]:
        v[:] = x * c
        total += e
        v = x * 1
    return total, v


@program((LINE, 0.5), (LINE, 9.0))
def walked_in_pairs(x: Any, c: Any) -> Any:
    v, w, total = x * 1.0, x * 2, 0.0
    for k, (e, g) in enumerate(zip(v, w, strict=True)):
        v += g
        total = total * 0.5 + e * k
        if total > c:
            v, w = w, v
    return total, v, w


@refused((X, 9.0))
def through_loops_one_after_the_other(x: Any, c: Any) -> Any:
    y = x.copy()
    v = y
    for _ in range(4):
        k = 0
        while True:
            k += 1
            if k > 3:
                break
            if not v.max() > c:
                continue
            v = x * 0.5
    y[2] += 1
    return v
