"""Functions that raise, assert and print on values: Python says what the compiled ones do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Programs = dict[str, tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]]

PROGRAMS: Programs = {}
GOOD, BAD, HUGE = np.array([3.0, 1.0]), np.array([-3.0, 1.0]), np.array([30.0, 1.0])


def collecting(programs: Programs) -> Callable[..., Any]:
    """A decorator: a program, and the arguments of its calls, one after another."""

    def program(*arguments: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Any]:
        def keep(function: Callable[..., Any]) -> Callable[..., Any]:
            programs[function.__name__] = function, arguments
            return function

        return keep

    return program


program = collecting(PROGRAMS)


class Refused(Exception):  # noqa: N818 - as users name them
    """An error whose message is made of a value."""

    def __init__(self, value: float, where: str) -> None:
        super().__init__(f"{where}: {value}")
        self.value = value


class Point(NamedTuple):
    """A pair."""

    x: Any
    y: Any


@program((GOOD,), (BAD,))
def asserted(x: Any) -> Any:
    assert x[0] > 0
    return x * 2


@program((GOOD,), (BAD,))
def asserted_with_text(x: Any) -> Any:
    assert np.all(x > 0), f"x[0] = {x[0]} of {x.shape}"
    return np.log(x)


@program((GOOD,), (BAD,), (HUGE,))
def several_errors(x: Any) -> Any:
    if x[0] < 0:
        raise ValueError("negative")
    if x[0] > 10:
        raise OverflowError(f"large: {x[0]:.0f}")
    assert x[1] == 1
    return x


@program((GOOD,), (BAD,))
def errors_of_python_in_branches(x: Any) -> Any:
    pair, names = [1.0, 2.0], {"a": 1.0}
    total = 0.0
    for v in x:
        if v > 20:
            total += pair[2] + names["b"]
        if v < 0:
            print("divides")
            total += 1 // 0
        total += v
    return total


@program((GOOD,), (BAD,))
def own_class(x: Any) -> Any:
    if x[0] < 0:
        raise Refused(x[0], "here")
    return x.sum()


@program((GOOD,), (BAD,))
def class_alone(x: Any) -> Any:
    if x[0] < 0:
        raise NotImplementedError
    return x.sum()


@program((GOOD,), (BAD,))
def prepared(x: Any) -> Any:
    error = KeyError("prepared")
    if x[0] < 0:
        raise error from None
    return x


@program((GOOD,), (BAD,))
def stores_before(x: Any) -> Any:
    x[1] = 5.0
    if x[0] < 0:
        raise ValueError("negative")
    x[0] = 7.0
    return x.sum()


@program((GOOD,), (BAD,))
def other_branch_only(x: Any) -> Any:
    if x[0] < 0:
        y = -x
    elif x[0] > 5:
        raise ValueError("large")
    else:
        y = x + 1
    return y


@program((np.array([1.0, 2.0, 3.0]),), (np.array([1.0, -2.0, 3.0]),))
def in_a_loop(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        print("trip", i)
        if x[i] < 0:
            raise ValueError(f"x[{i}] = {x[i]}")
        total += x[i]
    return total


@program((np.array([1.0, 2.0, 3.0]),), (np.array([1.0, -2.0, 3.0]),))
def nested_prints(x: Any) -> Any:
    for i in range(len(x)):
        for j in range(2):
            if x[i] > 0:
                print(i, j, x[i])
            else:
                print("skip", i)
                break
    return x.sum()


@program((1.5, 40), (3.5, 3))
def in_while(x: Any, most: Any) -> Any:
    k = 0
    while x < 1000:
        x = x * x
        k += 1
        if k > most:
            raise RuntimeError(f"no end after {k} steps, at {x:.3f}")
        if k % 2 == 0:
            print(f"step {k}: {x:.2e}", end=";")
    print()
    return x, k


@program((np.array([2.0]),), (np.array([-2.0]),))
def else_of_a_loop(x: Any) -> Any:
    y = x[0] * 0 + 1
    for _ in range(60):
        new = (y + x[0] / y) / 2
        if abs(new - y) < 1e-12:
            break
        y = new
    else:
        raise ArithmeticError("no root")
    return y


def checked(values: Any, name: str) -> Any:
    """A helper that validates."""
    if values.min() < 0:
        raise ValueError(f"{name} must not be negative, is {values.min()}")
    return np.asarray(values)


@program((GOOD, HUGE), (BAD, GOOD), (GOOD, BAD))
def raised_in_a_helper(x: Any, y: Any) -> Any:
    x = checked(x, "x")
    y = checked(y, "y")
    x[0] = 100
    print("both")
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@program((GOOD, HUGE), (BAD, GOOD), (GOOD, BAD))
def raised_two_calls_below(x: Any, y: Any) -> Any:
    found = raised_in_a_helper(x, y)
    y[0] = 3
    return found + 1


@program((GOOD,), (BAD,))
def helper_that_always_raises(x: Any) -> Any:
    def fail(text: str) -> None:
        raise ValueError(text)

    if x[0] < 0:
        fail("negative")
    x[1] = 9
    return x.sum()


@program((GOOD,), (BAD,))
def helper_in_while(x: Any) -> Any:
    def small(v: Any) -> Any:
        if v < -4:
            raise ValueError("too small")
        return v

    v = x[0]
    k = 0
    while v != 0 and k < 9:
        v = small(v - 1) if k % 2 == 0 else v - 0.5
        k += 1
    return v, k


@program((GOOD,), (BAD,))
def with_finally(x: Any) -> Any:
    try:
        if x[0] < 0:
            raise ValueError("negative")
        y = x * 2
    finally:
        print("done")
    return y


@program((GOOD,), (BAD,))
def inside_with(x: Any) -> Any:
    with np.errstate(invalid="ignore"):
        y = np.sqrt(x)
        if x[0] < 0:
            raise ValueError("negative")
    return y


@program((GOOD,))
def printed_before_a_sure_error(x: Any) -> Any:
    print("start", x)
    if len(x) == 2:
        raise ValueError("two")
    return x


@program(
    (np.array([1 + 2j, 2.0]),),
    (np.arange(6, dtype=np.int8).reshape(2, 3),),
    (np.array([True, False]),),
    (np.arange(3, dtype=np.uint64) * np.uint64(2**62),),
    (np.array([1.1, 2.2], np.float32),),
    (np.array([1.1, np.nan], np.float16),),
    (np.array([-(2**63), 2**53 + 1]),),
)
def every_dtype(x: Any) -> Any:
    print(x, x[0])
    print({"a": x, "b": [x[0], 1, "s"]}, sep="")
    print(f"{x!r} {x.dtype}")
    return x


@program((3.7, 2), (1.5, 2))
def python_numbers(x: Any, n: Any) -> Any:
    print(x, n, x * n, int(x), x > 2, f"{x:.1f}|{n:03d}|{x * n:>10.2f}|{x!r}")
    return x * n


@program((GOOD,), (BAD,))
def ways_to_write(x: Any) -> Any:
    print("a %g b %.2f" % (x[0], x[1]))  # noqa: UP031
    print("a {} b {:.3e}".format(x[0], x[1]))  # noqa: UP032
    print("v=" + str(x[0]), repr(x), *x, format(x[0], ".1f"))
    print(", ".join(f"{v:.1f}" for v in x), " ".join(map(str, x)))
    print("sum:".ljust(8) + f"{x.sum()}".rjust(9))
    print(Point(x[0], x[1]))
    return x


@program((GOOD,), (BAD,))
def objects_show_themselves(x: Any) -> Any:
    class Interval:
        def __init__(self, low: Any, high: Any) -> None:
            self.low, self.high = low, high

        def __repr__(self) -> str:
            return f"[{self.low:.1f}, {self.high:.1f}]"

    found = Interval(x.min(), x.max())
    print(found, f"{found} and {found!r}")
    return found.high


@program((np.ones(3),), (np.ones(4),), (np.ones(5),), (np.ones(6) * 3,))
def open_sizes(x: Any) -> Any:
    print(x, len(x), x.shape)
    assert x.sum() < 12, f"{x.sum()} of {len(x)}"
    return x * 2


@program((GOOD,), (BAD,))
def returns_a_text(x: Any) -> Any:
    return f"{x[0]:.2f}", x, {"mean": "%.3f" % x.mean()}  # noqa: UP031
