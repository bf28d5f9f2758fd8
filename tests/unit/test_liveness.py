"""Which names of a loop are read again, and which are a trip's own."""

from __future__ import annotations

import ast

import pytest

from mlc.frontend.staging.liveness import Liveness
from mlc.frontend.staging.scopes import bound_in

PROGRAMS = {
    "a value of each trip": ("for i in x:\n    y = i\n    s += y\nreturn s", "i y", "s"),
    "read before it is given": ("for i in x:\n    s += y\n    y = i\nreturn s", "i", "s"),
    "given on one way only": (
        "for i in x:\n    if i:\n        y = i\n    s += y\nreturn s",
        "i",
        "s",
    ),
    "given on both": (
        "for i in x:\n    if i:\n        y = i\n    else:\n        y = 2\n    s += y\nreturn s",
        "i y",
        "s",
    ),
    "read behind the loop": ("for i in x:\n    y = i\nreturn y", "i", "y"),
    "given again behind it": ("for i in x:\n    y = i\ny = 2\nreturn y", "i y", ""),
    "read in its else": ("for i in x:\n    y = i\nelse:\n    return y", "i", "y"),
    "read where it is left": (
        "for i in x:\n    y = i\n    if y > 2:\n        break\nreturn y",
        "i",
        "y",
    ),
    "before `continue`": (
        "for i in x:\n    if i:\n        continue\n    y = i\n    x[0] = y",
        "i y",
        "",
    ),
    "asked by a while": ("while y > 2:\n    z = y\n    y = z - 1", "z", ""),
    "of a function inside": (
        "for i in x:\n    y = i\n    f = lambda: y\n    x[0] = f()",
        "f i",
        "y",
    ),
    "changed in place": ("for i in x:\n    y += i\n    y = 2", "i", ""),
    "of `try`": ("try:\n    for i in x:\n        y = i\nexcept E:\n    pass", "", "i y"),
    "seen by name": ("for i in x:\n    y = i\nreturn locals()", "", "i y"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_names(name: str) -> None:
    text, own, after = PROGRAMS[name]
    body = ast.parse("def f(x, s, y):\n" + "".join(f"    {x}\n" for x in text.split("\n"))).body[0]
    assert isinstance(body, ast.FunctionDef)
    loop = next(x for x in ast.walk(body) if isinstance(x, ast.For | ast.While))
    live = Liveness(body.body, ())
    assert live.own(loop, bound_in([loop])) == own.split()
    assert live.after(loop, bound_in([loop])) == after.split()


def test_of_two_loops_that_share_a_name() -> None:
    """The second gives its number to each trip: what the first left is not read."""
    body = ast.parse("for i in x:\n    s += i\nfor i in y:\n    s += i").body
    live = Liveness(body, {"s"})
    for loop in body:
        assert live.own(loop, bound_in([loop])) == ["i"]
        assert live.after(loop, bound_in([loop])) == ["s"]
