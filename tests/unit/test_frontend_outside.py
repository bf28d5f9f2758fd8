"""What a function reaches from outside may be another at a later call."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportAttributeAccessIssue=false, reportPrivateUsage=false
# pyright: reportUnnecessaryComparison=false, reportOptionalSubscript=false

from __future__ import annotations

import enum
import functools
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from tests.unit.test_numpy_names import assert_same

X = np.arange(1.0, 5.0)


def made(source: str) -> dict[str, Any]:
    """A module whose functions have a text."""
    import linecache

    name = f"<outside {len(linecache.cache)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, "mlc": mlc, "functools": functools, "__name__": "outside"}
    exec(compile(source, name, "exec"), space)
    return space


MODULE = """
def helper(x): return x * 2
def other(x): return x * 3
def deep(x): return helper(x) + 1
ACT = np.tanh
TABLE = {"act": np.tanh, "own": helper}
LIST = [helper, np.exp]
def scaled(x, s=2.0, *, t=1.0): return x * s + t
def listed(x, s=[2.0, 3.0]): return x * s[0]
def rows(x, s=np.ones(4)): return x * s
PART = functools.partial(scaled, s=3.0)
GRAD = mlc.grad(lambda x: (x ** 2).sum())
COMPILED = mlc.compile(helper)
SCALE = 2.0
@functools.lru_cache
def remembered(n): return n * SCALE
class Base:
    k = 2.0
    def __init__(self, a=None): self.a = a; self.act = np.tanh
    def forward(self, x): return x * self.k
    def __call__(self, x): return self.forward(x) + 1
    @property
    def prop(self): return 3.0
    @staticmethod
    def static(x): return x * 5
    @classmethod
    def of_class(cls, x): return x * cls.k
class Derived(Base):
    def forward(self, x): return super().forward(x) + 1
OBJ = Base()
DERIVED = Derived()
def looped(x):
    for f in LIST: x = f(x)
    return x
def folded(x): return functools.reduce(lambda a, b: a + helper(b), [x, x])
def mapped(x): return sum(map(helper, [x, x]))
def repeated(x): return mlc.fori_loop(0, 3, lambda i, c: helper(c) / 2, x)
"""
REPLACED: dict[str, tuple[str, str]] = {
    "helper": ("helper(x)", "helper = other"),
    "helper of a helper": ("deep(x)", "helper = other"),
    "code": ("helper(x)", "helper.__code__ = other.__code__"),
    "global ufunc": ("ACT(x)", "ACT = np.exp"),
    "dict": ('TABLE["act"](x)', 'TABLE["act"] = np.exp'),
    "dict of functions": ('TABLE["own"](x)', 'TABLE["own"] = other'),
    "list": ("LIST[0](x)", "LIST[0] = other"),
    "loop over a list": ("looped(x)", "LIST.append(np.sqrt)"),
    "default": ("scaled(x)", "scaled.__defaults__ = (4.0,)"),
    "default of a keyword": ("scaled(x)", 'scaled.__kwdefaults__["t"] = 9.0'),
    "default that is changed": ("listed(x)", "listed.__defaults__[0][0] = 7.0"),
    "array as default": ("rows(x)", "rows.__defaults__[0][:] = 5.0"),
    "other array as default": ("rows(x)", "rows.__defaults__ = (np.arange(4.0),)"),
    "partial": ("PART(x)", "PART = functools.partial(scaled, s=5.0)"),
    "gradient": ("GRAD(x)", "GRAD = mlc.grad(lambda x: (x ** 3).sum())"),
    "compiled": ("COMPILED(x)", "COMPILED = mlc.compile(other)"),
    "cached": ("x * remembered(3)", "SCALE = 5.0; remembered.cache_clear()"),
    "method": ("OBJ.forward(x)", "Base.forward = lambda self, x: x * 7"),
    "method of the object": ("OBJ.forward(x)", "OBJ.forward = lambda x: x * 7"),
    "call": ("OBJ(x)", "Base.__call__ = lambda self, x: x * 8"),
    "super": ("DERIVED.forward(x)", "Base.forward = lambda self, x: x * 9"),
    "override": ("DERIVED.of_class(x)", "Derived.of_class = classmethod(lambda cls, x: x)"),
    "static method": ("Base.static(x)", "Base.static = staticmethod(lambda x: x * 10)"),
    "static by object": ("OBJ.static(x)", "Base.static = staticmethod(lambda x: x * 10)"),
    "class method": ("OBJ.of_class(x)", "Base.of_class = classmethod(lambda cls, x: x)"),
    "property": ("x * OBJ.prop", "Base.prop = property(lambda self: 12.0)"),
    "class attribute": ("x * Base.k", "Base.k = 6.0"),
    "class attribute by object": ("x * OBJ.k", "Base.k = 6.0"),
    "function as attribute": ("OBJ.act(x)", "OBJ.act = lambda x: x * 13"),
    "fresh object's method": ("Base(x).forward(x)", "Base.forward = lambda self, x: x * 14"),
    "fresh object's attribute": ("Base(x).k * x", "Base.k = 15.0"),
    "initialiser": ("Base(x).a", 'Base.__init__ = lambda self, a: setattr(self, "a", a * 9)'),
    "reduce": ("folded(x)", "helper = other"),
    "map": ("mapped(x)", "helper = other"),
    "loop": ("repeated(x)", "helper = other"),
    "argument's method": ("f(x, OBJ)", "Base.forward = lambda self, x: x * 16"),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_later_call_sees_what_was_replaced(name: str) -> None:
    use, replace = REPLACED[name]
    space = made(f"{MODULE}def f(x, m=None): return {'m.forward(x)' if 'f(x,' in use else use}\n")
    f, more = space["f"], (space["OBJ"],) if "f(x," in use else ()
    compiled = mlc.compile(f)
    for _ in range(2):
        assert_same(compiled(X, *more), f(X, *more))
    assert len(compiled.stats().artifacts) == 1
    exec(replace, space)
    for _ in range(2):
        assert_same(compiled(X, *more), f(X, *more))
    assert len(compiled.stats().artifacts) <= 2


class Mode(enum.Enum):
    PLAIN = 1
    TWICE = 2


RANGE, SET, QUEUE, DTYPE, MODE = range(3), {1, 2}, deque([1.0, 2.0]), np.float32, Mode.PLAIN
XP: Any = np


def summed(values: Any, x: Any) -> Any:
    for value in values:
        x = x + value
    return x


@pytest.mark.parametrize(
    ("f", "name", "value"),
    [
        (lambda x: summed(RANGE, x), "RANGE", range(5)),
        (lambda x: summed(SET, x), "SET", {1, 2, 5}),
        (lambda x: summed(QUEUE, x), "QUEUE", deque([7.0])),
        (lambda x: x.astype(DTYPE), "DTYPE", np.float16),
        (lambda x: x * 2 if MODE is Mode.TWICE else x, "MODE", Mode.TWICE),
        (lambda x: XP.tanh(x) + 1, "XP", types.SimpleNamespace(tanh=lambda x: x * 3)),
    ],
)
def test_values_that_choose_are_guarded(
    f: Callable[..., Any], name: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = mlc.compile(f)
    assert_same(compiled(X), f(X))
    monkeypatch.setitem(globals(), name, value)
    assert_same(compiled(X), f(X))
    assert len(compiled.stats().artifacts) == 2


def test_elements_of_a_collection_are_guarded() -> None:
    kept = {1, 2}
    compiled = mlc.compile(lambda x: summed(kept, x))
    assert_same(compiled(X), X + 3)
    kept.add(5)
    assert_same(compiled(X), X + 8)


def test_a_variable_of_an_enclosing_function_is_bound_anew() -> None:
    def enclosing() -> Any:
        k = np.tanh

        def change() -> None:
            nonlocal k
            k = np.exp

        return mlc.compile(lambda x: k(x)), change  # noqa: PLW0108 - k is bound anew

    compiled, change = enclosing()
    assert_same(compiled(X), np.tanh(X))
    change()
    assert_same(compiled(X), np.exp(X))


def test_own_defaults_are_those_of_now() -> None:
    def f(x: Any, s: Any = 2.0, *, t: float = 0.0) -> Any:
        return x * s + t

    compiled = mlc.compile(f)
    assert_same(compiled(X), X * 2)
    f.__defaults__ = (4.0,)
    f.__kwdefaults__["t"] = 1.0
    assert_same(compiled(X), X * 4 + 1)
    assert_same(compiled(X, s=1.0), X + 1)


def test_functions_without_text_see_the_same() -> None:
    space: dict[str, Any] = {"np": np}
    exec(
        "class C:\n    k = 2.0\nc = C()\nW = np.ones(4)\ndef g(x): return x * c.k\n"
        "def f(x): return g(x) + W * C.k\n",
        space,
    )
    f, compiled = space["f"], mlc.compile(space["f"])
    for change in ("pass", "c.k = 3.0", "W = np.arange(4.0)", "g = np.tanh", "C.k = 4.0"):
        exec(change, space)
        assert_same(compiled(X), f(X))
    exec("kept = []\ndef h(x):\n    global W\n    W = x\n    return x\n", space)
    with pytest.raises(mlc.NotSupportedError, match="global variable W is bound anew"):
        mlc.compile(space["h"])(X)
    assert isinstance(space["W"], np.ndarray)


def test_plain_functions_stay_native() -> None:
    compiled = mlc.compile(lambda x: np.tanh(x) * 2)
    compiled(X)
    assert compiled._dispatcher.chain
    guarded = mlc.compile(lambda x: summed((), x))
    for _ in range(3):
        assert_same(guarded(X), X)
    assert guarded.stats().calls == 3
    assert_same(guarded(x=X), X)
