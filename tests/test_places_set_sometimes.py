"""
Keys of dicts and attributes that only a branch or a trip sets, which the compiled function may not
run: read by `d[k]`, `get`, `in`, `len` and `getattr` they are as Python has them, with its error
where nothing is set; what asks for all that is set is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from tests.random_python.judge import compiled_text, different, is_refusal, outcome, rolling

HEAD = "def f(x, n):\n"
BRANCH = "d = {}\nif x[0] > 0:\n    d['a'] = x[1]\n"
BOX = "class Box:\n    pass\nb = Box()\nif x[0] > 0:\n    b.f = x[1]\n"
COUNT = (
    "    if x[k % 4] > 0:\n        d['p'] = d.get('p', 0) + 1\n"
    "    else:\n        d['n'] = d.get('n', 0) + 1\nreturn d.get('p', 0), d.get('n'), len(d)"
)
PROGRAMS = {
    "get": f"{BRANCH}return d.get('a', 0), d.get('a'), d.get('b', 1)",
    "in": f"{BRANCH}return 'a' in d, 'b' in d, 'a' not in d",
    "item": f"{BRANCH}x[2] = 7\nreturn d['a']",
    "asked before": f"{BRANCH}if 'a' in d:\n    return d['a'] * 2\nreturn x[2]",
    "whether any": f"{BRANCH}if d:\n    return 1\nreturn len(d), not d",
    "one of two": "d = {'z': 1}\nif x[0] > 0:\n    d['a'] = 1\nelse:\n    d['b'] = 2\n"
    "if x[1] > 2.5:\n    d['b'] = 3\nreturn len(d), d.get('a'), d.get('b')",
    "an array that is written": "d = {}\nif x[0] > 0:\n    d['a'] = x\nif 'a' in d:\n"
    "    d['a'][1] = 7\nreturn x",
    "in place": f"{BRANCH}d['a'] += 1\nreturn d",
    "again": f"{BRANCH}d['b'] = 2\nd['a'] = 3\nreturn d['a'], 'a' in d, len(d)",
    "other kinds": "d = {}\nif x[0] > 0:\n    d['a'] = None\nif x[1] > 2.5:\n    d['a'] = x[2]\n"
    "if x[1] < 0:\n    d['b'] = 's'\nreturn d.get('a', 4), d.get('b', 't'), 'a' in d",
    "pop": f"{BRANCH}v = d.pop('a', None)\nreturn v is None, d",
    "pop without default": f"{BRANCH}print('before')\nreturn d.pop('a')",
    "setdefault": f"{BRANCH}v = d.setdefault('a', 3.0)\nreturn v, d",
    "update": f"{BRANCH}d.update(b=1)\nreturn d.get('a'), len(d)",
    "deleted in a branch": "d = {'a': 1}\nif x[0] > 0:\n    del d['a']\nreturn d.get('a'), len(d)",
    "deleted after": f"{BRANCH}print('before')\ndel d['a']\nreturn d",
    "caught": f"{BRANCH}try:\n    v = d['a']\nexcept KeyError:\n    v = 5.0\nreturn v",
    "in a function": f"g = lambda d: d.get('a', 1.0)\n{BRANCH}return g(d)",
    "a dict in a dict": "d = {'i': {}}\nif x[0] > 0:\n    d['i']['a'] = 1\nreturn d['i'].get('a')",
    "a match": f"{BRANCH}match d:\n    case {{'a': v}}:\n        return v\nreturn 0.0",
    "attribute": f"{BOX}print('before')\nreturn b.f",
    "attribute asked for": f"{BOX}if hasattr(b, 'f'):\n    return b.f\nreturn getattr(b, 'f', 3.0)",
    "attribute deleted": f"{BOX}del b.f\nreturn hasattr(b, 'f')",
    "attribute in a loop": "class Box:\n    pass\nb = Box()\nfor k in range(n):\n"
    "    if x[k % 4] > 0:\n        b.f = k\nprint('before')\nreturn b.f",
    "loop": "d = {}\nfor k in range(n):\n    d['a'] = k\nreturn d['a'], len(d)",
    "counted": f"d = {{}}\nfor k in range(n):\n{COUNT}",
    "counted at once": f"d = {{}}\nfor k in range(40):\n{COUNT}",
    "the largest": "d = {}\nfor k in range(n):\n    if 'm' not in d or x[k] > d['m']:\n"
    "        d['m'] = x[k]\nreturn d['m']",
    "the first": "d = {}\nfor k in range(n):\n    if x[k] < 0:\n        d['first'] = k\n"
    "        break\nreturn d.get('first', -1)",
    "while": "d = {}\nwhile n > 0:\n    n -= 1\n    if x[n % 4] > 0:\n        d[1, 2] = n\n"
    "return d.get((1, 2), 7)",
    "loops in loops": "d = {}\nfor k in range(n):\n    for j in range(k):\n        if x[j] > 0:\n"
    "            d['a'] = k + j\nreturn d.get('a', 0), len(d)",
    "returned": f"{BRANCH}d['z'] = 1\nif x[1] > 2:\n    d['b'] = 'two'\nreturn d, [{{'in': d}}]",
    "printed": f"{BRANCH}print(f'{{d}}')\nreturn 1",
    "returned without": "d = {'a': 1, 'b': x}\nif x[0] > 0:\n    del d['a']\nreturn d",
    "of a loop": "d = {}\nfor k in range(4):\n    if x[k] > 2:\n        d[k] = x[k]\nreturn d",
    "of a comprehension": "d = {k: x[k] for k in range(4) if x[k] > 2}\nreturn d, len(d)",
    "of the class": "class Box:\n    f = 2.5\n    g = None\nb = Box()\n"
    "if x[0] > 0:\n    b.f = x[1]\nif x[1] > 0:\n    b.g = 's'\nh = b.f * 2\nb.f += 1\n"
    "return h, b.f, b.g, hasattr(b, 'f'), getattr(b, 'f', 9.0)",
    "of the class in a loop": "class Box:\n    f = 2.5\nb = Box()\nfor v in x:\n    if v > 1:\n"
    "        b.f = b.f + v\nreturn b.f",
    "of the class, deleted": "class Box:\n    f = 2.5\nb = Box()\nif x[0] > 0:\n    b.f = 1.0\n"
    "print('before')\ndel b.f\nreturn b.f",
    "a list of a number of elements is compared": "r = []\nif x[0] > 0:\n    r.append(x[1])\n"
    "return r == [], r != [], [] == r == []",
}
"""Bodies of functions of an array of four elements and a number."""

REFUSED = {
    "gone over": f"{BRANCH}t = 0\nfor k in d:\n    t += 1\nreturn t",
    "in a comprehension": f"{BRANCH}return {{k for k in d}}",
    "in a generator": f"{BRANCH}return sum(1 for k in d)",
    "its items": f"{BRANCH}return {{k: v for k, v in d.items()}}",
    "a view from before": f"d = {{}}\nv = d.keys()\n{BRANCH[7:]}return 'a' in v",
    "listed": f"{BRANCH}return [*d]",
    "taken apart": f"{BRANCH}d['b'] = 1\np, *q = d\nreturn len(q)",
    "compared": f"{BRANCH}return d == {{}}",
    "compared within": f"{BRANCH}return [d] != [{{}}]",
    "found in a list": f"{BRANCH}return d in [{{}}]",
    "joined": f"{BRANCH}e = {{'a': 3.0}} | d\nreturn e['a']",
    "copied over": f"{BRANCH}e = {{'a': 3.0, **d}}\nreturn e['a']",
    "as keywords": f"g = lambda a=2.0: a\n{BRANCH}return g(**d)",
    "its attributes": f"{BOX}return len(vars(b))",
    "lists, which may change": "d = {}\nif x[0] > 0:\n    d['a'] = [1]\nreturn len(d)",
    "a list of a number of elements": "r = []\nif x[0] > 0:\n    r.append(1.0)\nreturn r == [1.0]",
}
"""Bodies likewise that ask for what is set."""

ARRAYS = ([1.0, 2.0, -3.0, 4.0], [-1.0, 2.0, 3.0, 4.0], [-1.0, -2.0, -3.0, -4.0], [1.0, 3, 3, 3])


def text_of(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.splitlines())


@pytest.mark.parametrize("name", PROGRAMS)
def test_is_as_python_has_it(name: str) -> None:
    text = text_of(PROGRAMS[name])
    plain, step = compiled_text(text), mlc.compile(compiled_text(text), numerics="strict")
    for values in ARRAYS:
        for n in (0, 3):
            arguments = np.array(values), np.int64(n)
            wanted, given = outcome(plain, arguments), outcome(step.reference, arguments)
            assert not different(wanted, given)


@pytest.mark.parametrize("name", ["counted at once", "other kinds", "item"])
def test_is_the_same_where_loops_stay_loops(name: str) -> None:
    text = text_of(PROGRAMS[name])
    with rolling(True):
        step = mlc.compile(compiled_text(text), numerics="strict")
        for values in ARRAYS:
            arguments = np.array(values), np.int64(3)
            given = outcome(step.reference, arguments)
            assert not different(outcome(compiled_text(text), arguments), given)


@pytest.mark.parametrize("name", REFUSED)
def test_what_asks_for_all_that_is_set_is_refused(name: str) -> None:
    step = mlc.compile(compiled_text(text_of(REFUSED[name])))
    found = outcome(step.reference, (np.array([-1.0, 2.0, 3.0, 4.0]), np.int64(3)))
    assert is_refusal(found.error)


def test_derivatives_and_batches_go_through() -> None:
    def f(x: Any) -> Any:
        d: dict[str, Any] = {}
        if x[0] > 0:
            d["a"] = x[1] * x[0]
        return d.get("a", 2.0) * x[2]

    g: Any = mlc.compile(mlc.grad(f))
    assert g(np.array([2.0, 3.0, 5.0])).tolist() == [15.0, 10.0, 6.0]
    assert g(np.array([-2.0, 3.0, 5.0])).tolist() == [0.0, 0.0, 2.0]
    batch: Any = mlc.compile(mlc.vmap(f))(np.array([[2.0, 3.0, 5.0], [-2.0, 3.0, 5.0]]))
    assert batch.tolist() == [30.0, 10.0]


class Box:
    """What has an attribute sometimes."""


def test_arguments_get_what_is_set() -> None:
    def f(d: Any, b: Any, x: Any) -> Any:
        if x[0] > 0:
            d["a"] = x[1]
            del d["z"]
            b.f = 3.0
        return b

    compiled = mlc.compile(f)
    for first in (1.0, -1.0):
        states: list[Any] = []
        for function in (f, compiled):
            given, box = {"z": 1.0}, Box()
            made = function(given, box, np.array([first, 2.0]))
            states.append((given, vars(box), made is box))
        assert states[0] == states[1]


def test_objects_that_are_made_have_what_is_set() -> None:
    def f(x: Any) -> Any:
        box: Any = Box()
        if x[0] > 0:
            box.f = x[1]
        return box

    compiled: Any = mlc.compile(f)
    assert vars(compiled(np.array([1.0, 2.0]))) == {"f": 2.0}
    assert vars(compiled(np.array([-1.0, 2.0]))) == {}
