"""Statements whose calls are apart: each is evaluated where Python evaluates it."""

from __future__ import annotations

import ast

import pytest

from mlc.frontend.staging.separated import separated

CASES = {
    "w.reshape(2, 2).T[0] += 1": "__mlc_0__ = w.reshape(2, 2).T\n__mlc_0__[0] += 1",
    "x[f(g(s))] = h(y)": (
        "__mlc_0__ = h(y)\n__mlc_1__ = g(s)\n__mlc_2__ = f(__mlc_1__)\nx[__mlc_2__] = __mlc_0__"
    ),
    "f(x)[0], (g(y).z, *a[h(s)]) = p": (
        "__mlc_0__ = f(x)\n__mlc_1__ = g(y)\n__mlc_2__ = h(s)\n"
        "__mlc_0__[0], (__mlc_1__.z, *a[__mlc_2__]) = p"
    ),
    "x[2] = f(g(s))": "__mlc_0__ = g(s)\n__mlc_1__ = f(__mlc_0__)\nx[2] = __mlc_1__",
}


@pytest.mark.parametrize("text", CASES)
def test_calls_in_their_order(text: str) -> None:
    module = ast.parse(text)
    module.body = separated(module.body)
    assert ast.unparse(ast.fix_missing_locations(module)) == CASES[text]
