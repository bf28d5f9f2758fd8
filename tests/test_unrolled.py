"""`explain` says of every loop that was traced trip by trip why it is none, with file and line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.program import UNROLLED, entry_function, unrolled_loops
from mlc.fingerprint import fingerprint
from mlc.text import parse_text

X = mlc.TensorSpec(8, 8)


def few(x: Any) -> Any:
    for _ in range(3):
        x = np.sort(x)
    return x


def short(x: Any) -> Any:
    for _ in range(15):
        x = np.sort(x)
    return x


SCALES = {k: float(k) for k in range(400)}
LAYERS = [float(k) for k in range(400)]


def keyed(x: Any) -> Any:
    for k in range(400):
        x = np.sort(x) * SCALES[k]
    return x


def listed(x: Any) -> Any:
    for k in range(400):
        x = np.sort(x) * LAYERS[k]
    return x


def over_list(x: Any) -> Any:
    for scale in [2.0, 3.0]:
        x = x * scale
    return x


def raising(x: Any) -> Any:
    for k in range(200):
        x = np.sort(x) + np.zeros(8 if k < 300 else 9)
    return x


def types(x: Any) -> Any:
    kept: Any = 0
    for k in range(200):
        x = np.sort(x) + 1
        kept = (kept, x) if k % 2 else k
    return x


def decided(x: Any) -> Any:
    k = 0
    while k < 3:
        x = np.sort(x)
        k += 1
    return x


def left(x: Any) -> Any:
    for k in range(10):
        x = np.sort(x)
        if k == 4:
            break
    return x


def said(function: Callable[..., Any]) -> tuple[str, list[str]]:
    lowered = mlc.compile(target="avx2")(function).lower(X)
    found = [x for x in lowered.levels.remarks() if x.op == "unrolled"]
    for x in found:
        assert str(x) in lowered.explain()
    return lowered.text("trace"), [f"{x.where}: {x.text}" for x in found]


@pytest.mark.parametrize(
    ("function", "trips", "why"),
    [
        (few, 3, "they are too few, or too short"),
        (short, 15, "they are too few, or too short"),
        (keyed, 400, "the number of the trip, or what it picks, is needed"),
        (listed, 400, "the number of the trip, or what it picks, is needed"),
        (over_list, 2, "it goes over Python values"),
        (raising, 200, "as one loop it raises ShapeError"),
        (types, 200, "types change: kept is"),
        (decided, 3, "Python decides its test"),
        (left, 5, "they are too few, or too short"),
    ],
)
def test_reason(function: Any, trips: int, why: str) -> None:
    text, found = said(function)
    assert len(found) == 1, found
    line = next(
        number for number, written in _lines(function) if re.match(r"\s*(for|while) ", written)
    )
    assert found[0].startswith(f"{__file__}:{line}: {trips} trips stand one after another: ")
    assert why in found[0]
    again = unrolled_loops(entry_function(parse_text(text, "again.mlir")))
    assert [f"{at}: {reason}" for at, reason in again] == found


def _lines(function: Any) -> list[tuple[int, str]]:
    written, first = inspect.getsourcelines(function)
    return [(first + k, line) for k, line in enumerate(written)]


def test_without_source() -> None:
    """Control flow of a function whose text is not known is Python's."""
    space: dict[str, Any] = {}
    text = "def f(x):\n    for k in range(400):\n        x = x * 2 + k\n    return x\n"
    exec(compile(text, "<told>", "exec"), {"__name__": "told"}, space)
    _, found = said(space["f"])
    assert len(found) == 1
    assert found[0].startswith("<told>:2: trips stand one after another: the text of the function")


def test_a_loop_that_stays_says_nothing() -> None:
    def stays(x: Any) -> Any:
        for _ in range(400):
            x = np.sort(x) * 0.5
        return x

    text, found = said(stays)
    assert not found
    assert "mlc.unrolled" not in text


def test_inside_a_loop_that_stays() -> None:
    """What trials said that were undone is not said; what stands in the loop is, once."""

    def nested(x: Any) -> Any:
        for _ in range(400):
            for _ in range(3):
                x = np.sort(x) * 0.5
        return x

    _, found = said(nested)
    assert len(found) == 1
    assert ": 3 trips stand" in found[0]


def test_no_other_artifact() -> None:
    """Lines of loops do not decide which artifact of the cache is taken."""
    module = parse_text(said(few)[0], "few.mlir")
    before = fingerprint(module, UNROLLED)
    del entry_function(module).attributes[UNROLLED]
    assert fingerprint(module, UNROLLED) == before
