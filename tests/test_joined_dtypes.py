"""Branches and trips that leave numbers and arrays of dtypes of which none is the others' too."""

from __future__ import annotations

import pytest

from tests.random_python.judge import judged

HEAD = "def f(x, y, A, s, n):\n"
USES = "return q, q + 1, q * s"
PROGRAMS = {
    "integer and float": f"q = y[0]\nif s > 0:\n    q = x[0]\n{USES}",
    "an expression": "q = y[0] if s > 0 else x[0]\nreturn q * 2, q",
    "two floats": f"q = np.float32(s)\nif s > 0:\n    q = x[0]\n{USES}",
    "arrays": "q = y\nif s > 0:\n    q = x\nreturn q * 2, q[1], q.sum(), np.sin(q)",
    "arrays made anew": "q = y * 1\nif s > 0:\n    q = q / 2\nreturn q * 2, q.sum()",
    "written in place": "q = y\nif s > 0:\n    q = x\nq[1] = 3\nq += 1\nreturn q",
    "in a loop": f"q = y[0]\nfor k in range(n):\n    if x[k % 4] > 0:\n        q = x[0]\n"
    f"    else:\n        q = q + 1\n{USES}",
    "three classes": f"q = 1\nif s > 0:\n    q = x[0]\nif n > 2:\n    q = True\n{USES}",
    "three classes in a loop": "q = 1\nfor k in range(n):\n    if x[k % 4] > 0:\n"
    f"        q = x[0]\n    elif k > 2:\n        q = 2.5\n    else:\n        q = q + 1\n{USES}",
    "items of objects": "p = {'a': y[0], 'b': [x[0]]}\nif s > 0:\n    p['a'] = x[1]\n"
    "    p['b'][0] = y[1]\nreturn p, p['a'] + 1, p['b'][0] * 2",
    "returned early": "if s > 0:\n    return y[0]\nreturn x[0]",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_is_as_its_branch_left_it(name: str) -> None:
    text = HEAD + "".join(f"    {line}\n" for line in PROGRAMS[name].splitlines())
    verdict = judged(text, range(10), code=False)
    assert verdict.kind == "same", verdict.detail


MIXED = {
    "a float beside float32": "G = [0.1]\nfor e in x:\n    if e > s:\n"
    "        G.append(np.float32(e))\n",
    "a float beside integers": "G = [0.5]\nfor k in range(4):\n    if x[k] > s:\n"
    "        G.append(y[k])\n",
}


@pytest.mark.parametrize("name", MIXED)
def test_a_list_of_an_open_length_has_one_dtype_or_is_refused(name: str) -> None:
    lines = f"{MIXED[name]}return G".splitlines()
    text = HEAD + "".join(f"    {line}\n" for line in lines)
    verdict = judged(text, range(10), code=False)
    assert verdict.kind == "refused", verdict.detail
    assert "Python's float" in verdict.detail
