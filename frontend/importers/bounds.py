# pyright: basic
"""Between what a number of a model may lie, and what functions may call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

FAR = 1 << 31
"""No size, stride or padding is that large; ONNX's numbers for "to the end" begin there."""


def check_between(name: str, value: Any, least: int, most: int) -> None:
    """ValueError where a number, or one of several, lies outside; sizes that vary may be any."""
    for number in value if isinstance(value, list | tuple) else [value]:
        if isinstance(number, int) and not least <= number <= most:
            raise ValueError(f"{name} = {value}; expected {least} to {most}")


MOST_STEPS, MOST_CALLS = 1 << 20, 64
"""Of a program whose calls are written out, and of functions that call one another in a row."""


def check_calls(functions: Mapping[str, tuple[int, Sequence[str]]]) -> None:
    """
    ValueError where a function calls itself, or calls are too many. `functions`: the steps of each
    and whom it calls, once for each time.
    """
    known: dict[str, tuple[int, int]] = {}  # steps, and calls in a row

    def visit(name: str, above: tuple[str, ...]) -> tuple[int, int]:
        if name in above:
            raise ValueError(f"{name} calls itself; expected functions that do not")
        if name not in known:
            steps, called = functions[name]
            if len(above) < MOST_CALLS:
                found = [visit(each, (*above, name)) for each in called if each in functions]
                steps += sum(n for n, _ in found)
                known[name] = steps, 1 + max((deep for _, deep in found), default=0)
            if name not in known or known[name][1] > MOST_CALLS:
                raise ValueError(f"{name} calls through {MOST_CALLS} others; expected fewer")
            if steps > MOST_STEPS:
                raise ValueError(f"{name} takes {steps} steps; expected {MOST_STEPS} at most")
        return known[name]

    for name in functions:
        visit(name, ())
