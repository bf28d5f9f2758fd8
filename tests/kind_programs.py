"""
Values of which only the compiled function knows the kind: None or a number, one text or another,
set or not. Python says what the compiled ones do.
"""
# pyright: basic, reportPossiblyUnboundVariable=false, reportOptionalOperand=false
# pyright: reportAttributeAccessIssue=false, reportOperatorIssue=false
# ruff: noqa: E711, RET503

from __future__ import annotations

from typing import Any

import numpy as np

from tests.effect_programs import BAD, GOOD, Programs, collecting

KINDS: Programs = {}
program = collecting(KINDS)
MANY = np.tile(np.array([3.0, 1.0, 4.0]), 20)
NONE = -MANY


@program((MANY,), (NONE,))
def best_none(x: Any) -> Any:
    best = None
    for v in x:
        if best is None or v > best:
            best = v
    return best


@program((MANY,), (NONE,))
def best_idx(x: Any) -> Any:
    best = None
    arg = None
    for i, v in enumerate(x):
        if best is None or v > best:
            best = v
            arg = i
    return best, arg


@program((GOOD,), (BAD,))
def maybe(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x * 2
    if y is None:
        return x
    return y


@program((GOOD,), (BAD,))
def maybe_ret(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0]
    return y


@program((GOOD,), (BAD,))
def find(x: Any) -> Any:
    for i in range(len(x)):
        if x[i] < 0:
            return i
    return None


@program((GOOD,), (BAD,))
def find_implicit(x: Any) -> Any:
    for i in range(len(x)):
        if x[i] < 0:
            return x[i]


@program((GOOD,), (BAD,))
def find_use(x: Any) -> Any:
    idx = None
    for i in range(len(x)):
        if x[i] < 0:
            idx = i
            break
    if idx is not None:
        x[idx] = 0
    return x.sum()


@program((GOOD,), (BAD,))
def unset(x: Any) -> Any:
    if x[0] > 0:
        y = x[0]
    if x[0] > 0:
        return y
    return x[1]


@program((GOOD,), (BAD,))
def unset_err(x: Any) -> Any:
    if x[0] > 0:
        y = x[0]
    return y


@program((MANY,), (NONE,))
def prev(x: Any) -> Any:
    prev = None
    changes = 0
    for v in x:
        if prev is not None and v != prev:
            changes += 1
        prev = v
    return changes


@program((GOOD,), (BAD,))
def none_err(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0]
    return y + 1


@program((GOOD,), (BAD,))
def not_none_chain(x: Any) -> Any:
    a = None
    b = None
    if x[0] > 0:
        a = x[0]
    if x[1] > 0:
        b = x[1]
    if a is not None and b is not None:
        return a + b
    if a is not None:
        return a
    return -1.0


@program((GOOD,), (BAD,))
def cond_expr(x: Any) -> Any:
    y = x[0] if x[0] > 0 else None
    return 0.0 if y is None else y * 2


@program((GOOD,), (BAD,))
def helper_none(x: Any) -> Any:
    def f(v):
        if v > 0:
            return v

    r = f(x[0])
    if r is None:
        return -1.0
    return r * 2


@program((GOOD,), (BAD,))
def while_none(x: Any) -> Any:
    i = 0
    found = None
    while found is None and i < len(x):
        if x[i] > 0:
            found = x[i]
        i += 1
    return i, found


@program((GOOD,), (BAD,))
def tuple_none(x: Any) -> Any:
    r = (None, None)
    if x[0] > 0:
        r = (x[0], x[1])
    if r[0] is None:
        return 0.0
    return r[0] + r[1]


@program((GOOD,), (BAD,))
def truthy(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0]
    if y:
        return y
    return -1.0


@program((GOOD,), (BAD,))
def eq_none(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0]
    if y == None:
        return 0.0
    return y


@program((GOOD,), (BAD,))
def print_none(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0]
    print(y)
    return x


@program((GOOD,), (BAD,))
def arr_none(x: Any) -> Any:
    out = None
    for _ in range(3):
        if x[0] > 0:
            if out is None:
                out = np.zeros(2)
            out = out + x
    return x if out is None else out


@program((GOOD,), (BAD,))
def str_join(x: Any) -> Any:
    s = "neg"
    if x[0] > 0:
        s = "pos"
    print(s)
    return x


@program((GOOD,), (BAD,))
def str_ret(x: Any) -> Any:
    return "pos" if x[0] > 0 else "neg"


@program((GOOD,), (BAD,))
def bool_none(x: Any) -> Any:
    flag = None
    if x[0] > 0:
        flag = True
    if flag:
        return x * 2
    return x


@program((GOOD,), (BAD,))
def status(x: Any) -> Any:
    status = "ok"
    val = x[0]
    if val < 0:
        status = "clipped"
        val = 0.0
    return val, status


@program((GOOD,), (BAD,))
def none_err_store(x: Any) -> Any:
    y = None
    if x[0] > 0:
        y = x[0]
    z = y + 1
    x[1] = 7
    return z


@program((GOOD,), (BAD,))
def fn_choice(x: Any) -> Any:
    f = np.abs if x[0] > 0 else np.negative
    return f(x)


@program((GOOD,), (BAD,))
def dict_mode(x: Any) -> Any:
    table = {"pos": 1.0, "neg": -1.0}
    key = "pos" if x[0] > 0 else "neg"
    return x * table[key]


@program((GOOD,), (BAD,))
def mode_eq(x: Any) -> Any:
    mode = "lin"
    if x[0] < 0:
        mode = "quad"
    if mode == "quad":
        return x**2
    return x


@program((MANY,), (NONE,))
def state_machine(x: Any) -> Any:
    state = "idle"
    n = 0
    for v in x:
        if state == "idle":
            if v > 2:
                state = "run"
        elif state == "run":
            n += 1
            if v < 2:
                state = "idle"
    return n, state


@program((GOOD,), (BAD,))
def obj_attr(x: Any) -> Any:
    class S:
        pass

    s = S()
    s.best = None
    for v in x:
        if s.best is None or v < s.best:
            s.best = v
    return s.best


@program((MANY,), (NONE,))
def dict_none(x: Any) -> Any:
    d = {"best": None, "n": 0}
    for v in x:
        if v > 0:
            d["best"] = v
            d["n"] += 1
    return d


@program((MANY,), (NONE,))
def loop_unset(x: Any) -> Any:
    for v in x:
        if v > 0:
            y = v
    return y


@program((MANY,), (NONE,))
def last_pos(x: Any) -> Any:
    last = None
    for i in range(len(x)):
        if x[i] > 2:
            last = i
    if last is None:
        return -1
    return last
