"""The source transform: NumPy by any name, helpers, captured values, guards."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import functools
import math
import random
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy  # noqa: ICN001 - another name
import numpy as np
import pytest
from numpy import exp as e_to_the

import mlc
from mlc.frontend.trace.transform import transformed
from tests.unit.test_numpy_names import assert_same

X = np.arange(6.0).reshape(2, 3)
weights = np.ones((3, 2))
rate = 0.5
PARAMS: dict[str, Any] = {"w": np.ones(3), "layers": [(np.ones(3), 2.0), (np.zeros(3), 1.0)]}


class Pair(NamedTuple):
    first: Any
    second: Any


PAIR = Pair(np.ones(3), 4)


def helper(x: Any) -> Any:
    return e_to_the(x) + np.zeros(3)


def test_numpy_by_any_name() -> None:
    add = np.add

    def f(x: Any, k: Any) -> Any:
        import numpy as other  # noqa: ICN001

        ones = numpy.ones(3)
        table = np.eye(4)[k]
        pair = np.array([x[0, 0], x[1, 1]])
        functions = [np.tanh, other.sqrt]
        return (
            add(x, ones),
            table,
            pair,
            [g(x) for g in functions],
            helper(x),
            functools.reduce(np.maximum, list(x)),
        )

    k = np.array([0, 3, 1])
    found, expected = mlc.compile(f).reference(X, k), f(X, k)
    for a, b in zip(found, expected, strict=True):
        assert_same(a, b)


def test_globals_are_read_at_every_call() -> None:
    global weights, rate

    @mlc.compile
    def f(x: Any) -> Any:
        return x @ weights * rate

    assert_same(f(X), X @ weights * rate)
    weights = weights * 3
    assert_same(f(X), X @ weights * rate)
    weights[0] = 7
    assert_same(f(X), X @ weights * rate)
    assert len(f.stats().artifacts) == 1
    rate = 0.25
    assert_same(f(X), X @ weights * rate)
    assert "rate" in f.stats().artifacts[1].because
    weights = np.ones((3, 4))
    assert_same(f(X), X @ weights * rate)
    assert len(f.stats().artifacts) == 3


def test_closures_are_read_at_every_call() -> None:
    w, b = np.ones(3), 1.0

    @mlc.compile
    def f(x: Any) -> Any:
        return x * w + b

    assert_same(f(X), X * w + b)
    w, b = w * 2, 3.0
    assert_same(f(X), X * w + b)


def test_containers_from_outside() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        for w, scale in PARAMS["layers"]:
            x = x + w * scale
        return x * PARAMS["w"] + PAIR.first * PAIR.second

    def expected() -> Any:
        return f.__wrapped__(X)

    assert_same(f(X), expected())
    PARAMS["w"] = PARAMS["w"] * 5
    PARAMS["layers"][0] = (np.full(3, 9.0), 2.0)
    assert_same(f(X), expected())
    assert len(f.stats().artifacts) == 1
    PARAMS["layers"].append((np.ones(3), 3.0))
    assert_same(f(X), expected())
    assert len(f.stats().artifacts) == 2


class Layer:
    def __init__(self, w: Any, act: Any) -> None:
        self.w = w
        self.act = act
        self.__scale = 2.0

    def __call__(self, x: Any) -> Any:
        return self.act(x @ self.w) * self.__scale


class Model:
    def __init__(self, *layers: Layer) -> None:
        self.layers = list(layers)
        self.sizes = [1, 2]

    @mlc.compile
    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        for size in self.sizes:
            x = x + size
        return x


def test_methods_and_objects() -> None:
    one = Model(Layer(np.ones((3, 3)), np.tanh), Layer(np.full((3, 2), 0.1), np.exp))
    two = Model(Layer(np.ones((3, 3)) * 2, np.tanh), Layer(np.full((3, 2), 0.3), np.exp))
    plain = Model.forward.__wrapped__
    for model in (one, two, one):
        assert_same(model.forward(X), plain(model, X))
    assert len(Model.forward.stats().artifacts) == 1
    one.layers[0].w = one.layers[0].w * 3
    two.layers[1].act = np.sqrt
    two.sizes = [5]
    for model in (one, two, one):
        assert_same(model.forward(X), plain(model, X))


@dataclass
class State:
    position: Any
    speed: Any


def test_dataclasses() -> None:
    @mlc.compile
    def step(state: State, dt: Any) -> State:
        return State(state.position + dt * state.speed, state.speed)

    found = step(State(X, X * 2), 0.5)
    assert isinstance(found, State)
    assert_same(found.position, X * 2)


def test_callees_comprehensions_and_lambdas() -> None:
    scale = 3.0

    def f(x: Any, *, power: int = 2) -> Any:
        def inner(v: Any, k: Any = scale) -> Any:
            nonlocal_like = [v * j for j in range(3) if j != 1]
            return sum(nonlocal_like) + k

        parts = {name: fn(x) for name, fn in (("a", lambda t: t**power), ("b", inner))}
        first, *rest = [max(x[0, 0], x[0, 1]), float(x[0, 2]), int(x[1, 0])]
        text = f"{len(parts)} parts of {x.shape}"
        return (
            parts,
            first,
            rest,
            text,
            abs(x),
            isinstance(x, np.ndarray),
            functools.partial(inner, k=1.0)(x),
        )

    found, expected = mlc.compile(f).reference(X), f(X)
    assert_same(found[0]["a"], expected[0]["a"])
    assert_same(found[0]["b"], expected[0]["b"])
    assert found[1] == expected[1]
    assert found[2] == expected[2]
    assert found[3] == expected[3]
    assert found[5]
    assert_same(found[6], expected[6])


def test_mathematics_of_numbers() -> None:
    def f(x: Any, a: float) -> Any:
        return x * math.sqrt(a), math.exp(x[0, 0]), math.sqrt(x.shape[1]), math.pi * x

    found, expected = mlc.compile(f).reference(X, 2.0), f(X, 2.0)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b)
        assert type(a) is type(b)


def test_without_source_the_tracer_works_alone() -> None:
    space: dict[str, Any] = {"np": np, "W": np.ones(3)}
    exec("def f(x):\n    return np.exp(x) @ W + x.T.sum()", space)
    function = space["f"]
    assert transformed(function) is None
    compiled = mlc.compile(function)
    assert_same(compiled(X), function(X))
    assert_same(mlc.compile(eval("lambda x: np.tanh(x)[0]", space))(X), np.tanh(X)[0])


def test_random_numbers_are_refused() -> None:
    rng = np.random.default_rng(0)
    for function in (
        lambda x: x + np.random.rand(3),  # noqa: NPY002 - refused too
        lambda x: x + rng.normal(size=3),
        lambda x: x + np.random.default_rng().random(3),
        lambda x: x * random.random(),
    ):
        with pytest.raises(mlc.NotSupportedError, match="Draw the numbers before"):
            mlc.compile(function).reference(X)


def test_tracebacks_show_the_users_line() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        return {}["missing"] + y

    with pytest.raises(KeyError) as caught:
        mlc.compile(f).reference(X)
    last = caught.traceback
    lines = [t.lineno for t in last if str(t.path).endswith("test_frontend_transform.py")]
    assert f.__code__.co_firstlineno + 1 in lines


def test_match_walrus_and_global_statements() -> None:
    def f(x: Any, mode: str) -> Any:
        match mode:
            case "double":
                y = x * 2
            case str(other):
                y = x if (n := len(other)) > 3 else x + n
        with np.errstate(all="ignore"):
            try:
                return np.log(y)
            finally:
                pass

    compiled = mlc.compile(f)
    for mode in ("double", "abc", "abcd"):
        assert_same(compiled(X + 1, mode), f(X + 1, mode))
    assert len(compiled.stats().artifacts) == 3


TABLE: dict[str, Any] = {"w": np.ones(3), "unused": np.ones(5), "names": np.array(["a", "b"])}
TABLE["self"] = TABLE


def test_only_arrays_that_are_used_become_inputs() -> None:
    f = mlc.compile(lambda x: x * TABLE["w"])
    assert_same(f(X), X * TABLE["w"])
    assert len(f.lower(X).signature.args) == 2
    TABLE["unused"] = np.ones(7)
    assert_same(f(X), X * TABLE["w"])
    assert len(f.stats().artifacts) == 1


def factorial(n: int, x: Any) -> Any:
    return x if n == 0 else n * factorial(n - 1, x)


def test_a_global_function_that_calls_itself() -> None:
    x = np.arange(4.0)
    np.testing.assert_array_equal(mlc.compile(lambda x: factorial(4, x))(x), 24 * x)
