"""A list that changes while a loop goes over it: as Python reads it, or refused at its line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.errors import NotSupportedError
from tests.random_python.judge import compiled_text
from tests.sweeps import covering

LISTS = {
    "numbers of Python's": "L = [1.0, 2.0, 0.5]",
    "elements": "L = [x[0], x[1], x[2]]",
    "of a length that is computed": "L = [v for v in x if v > 0.2]",
}
CHANGES = {
    "grows": "if len(L) < 6: L.append(L[0] * 2)",
    "grows where a value says so": "if v < 2 and len(L) < 7: L.append(v + 1)",
    "without end": "L.append(v * 2)",
    "shrinks": "L.pop()",
    "moves": "L.pop(0)",
    "sorted": "L.sort()",
    "an item": "L[-1] = v * 3",
    "by a function": "grow(L, v)",
}
EXITS = {
    "break": ["if v > 6: break"],
    "return": ["if v > x[1]: return s, L"],
    "none": ["if len(L) > 9 or s > 100: break"],
}
HEADER = "def grow(M, v):\n    if len(M) < 5: M.insert(1, v)\n\n\ndef f(x):\n"


def program(made: str, change: str, leave: str, over: str = "v in L") -> str:
    """The text of a function of three elements."""
    lines = ["s = 0.0", LISTS[made], f"for {over}:"]
    lines += [f"    {line}" for line in (*EXITS[leave], CHANGES[change], "s += v")]
    lines += ["else:", "    s = -s", "return s, L"]
    return HEADER + "".join(f"    {line}\n" for line in lines)


def shown(function: Callable[..., Any], x: Any) -> str:
    """What it gives, with the classes of all numbers, or the error's class."""
    try:
        return repr(function(x.copy()))
    except (IndexError, ValueError) as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("made", "change", "leave"), covering([*LISTS], [*CHANGES], [*EXITS], strength=1)
)
def test_is_read_as_it_is_then(made: str, change: str, leave: str) -> None:
    text = program(made, change, leave)
    plain, step = compiled_text(text), mlc.compile(compiled_text(text))
    for x in ([1.0, 2.0, 3.0], [3.0, 0.5, 2.5], [0.3, 7.0, 0.1]):
        assert shown(step.reference, np.array(x)) == shown(plain, np.array(x))


def test_numbered() -> None:
    text = program("elements", "grows", "break", "k, v in enumerate(L, 2)").replace(
        "+= v", "+= k * v"
    )
    plain, step = compiled_text(text), mlc.compile(compiled_text(text))
    for x in ([1.0, 2.0, 3.0], [0.3, 7.0, 0.1]):
        assert shown(step, np.array(x)) == shown(plain, np.array(x))


@pytest.mark.parametrize(
    "over",
    ["v in reversed(L)", "v, _ in zip(L, range(9))", "v in (w * 2 for w in L)", "v in iter(L)"],
)
def test_what_is_made_of_it_is_refused(over: str) -> None:
    step: Any = mlc.compile(compiled_text(program("elements", "grows", "break", over)))
    with pytest.raises(NotSupportedError, match=r"changes while a loop(.|\n)*list\(xs\)"):
        step(np.array([1.0, 2.0, 3.0]))


def test_a_dict_whose_values_change_is_refused() -> None:
    @mlc.compile
    def paid(x: Any) -> Any:
        owed, paid = {"a": 1.0, "b": 2.0}, 0.0
        for v in owed.values():
            if x[0] > v:
                break
            owed["b"] = v + 10
            paid += v
        return paid

    with pytest.raises(NotSupportedError, match="changes while a loop"):
        paid(np.array([1.0]))
