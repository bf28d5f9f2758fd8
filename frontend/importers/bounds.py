# pyright: basic
"""Between what a number of a model may lie."""

from __future__ import annotations

from typing import Any

FAR = 1 << 31
"""No size, stride or padding is that large; ONNX's numbers for "to the end" begin there."""


def check_between(name: str, value: Any, least: int, most: int) -> None:
    """ValueError where a number, or one of several, lies outside; sizes that vary may be any."""
    for number in value if isinstance(value, list | tuple) else [value]:
        if isinstance(number, int) and not least <= number <= most:
            raise ValueError(f"{name} = {value}; expected {least} to {most}")
