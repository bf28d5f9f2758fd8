"""A list or dict of which a branch chooses one: read as that one, refused where it changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.errors import NotSupportedError
from tests.random_python.judge import judged

HEAD = "def f(x, y, A, s, n):\n"
CHANGED = {
    "an expression": "(L if x[0] < 0.5 else M).append(1.0)",
    "a variable": "t = L if x[0] < 0.5 else M\nt.append(1.0)",
    "what it may be": "t = L if x[0] < 0.5 else M\nL.append(1.0)\nr = t[0]",
    "a dict": "t = D if x[0] < 0.5 else {'a': 2.0}\nt['a'] = 0.0",
    "in a tuple": "t, u = (L, M) if x[0] < 0.5 else (M, L)\nt.pop()",
    "in a loop": "t = []\nfor e in x:\n    L.append(e)\n    if e < s:\n        t = L\nr = len(t)",
    "in another branch": "t = L\nif x[0] < 0.5:\n    t = M\nif n > 2:\n    t.insert(0, s)",
}
READ = {
    "an element": "r = (L if x[0] < 0.5 else M)[0]\nL.append(1.0)",
    "lists of the branches": "t = [s] if x[0] < 0.5 else [1.0]\nt.append(2.0)\nr = t",
    "a copy": "t = M[:] if x[0] < 0.5 else L[:]\nt.append(s)\nL.append(1.0)",
    "both are exchanged": "t, u = L, M\nif x[0] < 0.5:\n    t, u = u, t\nr = t[0], u[-1]",
    "the loser is gone": "r = [s]\nfor e in x:\n    if e < r[0]:\n        r = [e]\nr.append(1.0)",
}


def program(text: str) -> str:
    """A function that begins with two lists and a dict."""
    lines = ["L, M, D, r = [1.0], [2.0], {'a': s}, 0", *text.splitlines(), "return L, M, D, r"]
    return HEAD + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize("name", CHANGED)
def test_is_not_changed(name: str) -> None:
    verdict = judged(program(CHANGED[name]), range(6, 10), code=False)
    assert verdict.kind == "refused", verdict.detail
    assert "only the compiled function knows which it is" in verdict.detail


@pytest.mark.parametrize("name", READ)
def test_is_read(name: str) -> None:
    verdict = judged(program(READ[name]), range(6, 10), code=False)
    assert verdict.kind == "same", verdict.detail


def test_an_argument_is_not_changed_as_another() -> None:
    @mlc.compile
    def halved(p: Any, x: Any) -> Any:
        if x[0] > 0.5:
            p = {"w": p["w"] / 2}
        p["w"] = p["w"] + 1
        return p

    with pytest.raises(NotSupportedError, match=r"a dict is changed(.|\n)*copies: dict\(x\)"):
        halved({"w": 1.0}, np.ones(1))
