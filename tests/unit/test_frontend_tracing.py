"""What tracing records: views and writes, weak numbers, symbolic sizes, loops, containers."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.errors import LeakError
from tests.unit.test_numpy_names import F, assert_same

X = np.arange(12, dtype=np.float64).reshape(3, 4)


def stores(a: Any, v: Any) -> Any:
    a = a.copy()
    a[1:, ::-1] = v
    a[0, 1] = 7
    a[..., -1] += 2
    row = a[1]
    row *= 2
    a.T[0] = 3
    a[a < 0] = 0
    a[:, 2] = a[:, 1]
    a[-1:] = 1.5
    return a, row


def fresh(x: Any) -> Any:
    out = np.zeros((2, 4))
    alias = out
    out[0] = x[0]
    alias[1] = x[1] + out[0]
    part = out[:, 1:3]
    part[...] = -part
    return out, alias, part


def views(x: Any) -> Any:
    a = x.copy()
    seen = a.reshape(2, 6)[1]
    a += 1
    seen[0] = 100
    b = a.ravel()
    b[0:2] = [5, 6]
    return a, seen, b


def number(x: Any) -> Any:
    total = x.sum()
    kept = total
    total += 1
    return total, kept


@pytest.mark.parametrize("function", [stores, fresh, views, number], ids=lambda f: f.__name__)
def test_writes_are_numpys(function: Callable[..., Any]) -> None:
    args = (X, np.arange(4.0)) if function is stores else (X,)
    assert_same(mlc.compile(function).reference(*args), function(*args))


def test_writes_to_arguments_reach_the_callers_array() -> None:
    def step(x: Any, y: Any) -> Any:
        x += 1
        y[0] = x[0]
        return x.sum()

    mine, theirs = [X.copy(), X.copy()], [X.copy(), X.copy()]
    compiled = mlc.compile(step)
    for _ in range(2):
        assert_same(compiled(*mine), step(*theirs))
        assert_same(mine, theirs)
    for _ in range(2):
        with pytest.raises(mlc.NotSupportedError, match="writes to x, which shares memory with y"):
            compiled(mine[0], mine[0][:2])


def test_weak_numbers() -> None:
    @mlc.compile
    def scaled(x: Any, a: Any, n: Any) -> Any:
        return x * a, a * 2, n + 1, a > n, np.sqrt(a), x + np.float64(1) * a

    results = scaled.reference(F, 2.5, 3)
    assert_same(results[0], F * 2.5)
    assert (type(results[1]), results[1]) == (float, 5.0)
    assert (type(results[2]), results[2]) == (int, 4)
    assert results[3] == np.False_
    assert results[4].dtype == np.float64
    assert results[5].dtype == np.float64


def test_promotion_of_python_integers() -> None:
    x = np.ones(2, np.int32)
    with pytest.raises(OverflowError, match="3000000000 out of bounds for int32"):
        mlc.compile(lambda x: x + 3000000000).reference(x)


def test_containers_in_and_out() -> None:
    @mlc.compile
    def step(params: Any, x: Any, *more: Any, scale: Any = 2.0, **named: Any) -> Any:
        new = {name: w * scale for name, w in params.items()}
        return {
            "params": new,
            "x": (x, None, "text"),
            "rest": [*more, named["last"]],
            "n": x.shape[0],
        }

    given = ({"w": F, "b": F[0]}, F)
    found = step(*given, F, last=F[1])
    assert_same(found["params"]["w"], F * 2)
    assert found["x"][1:] == (None, "text")
    assert_same(found["rest"], [F, F[1]])
    assert found["n"] == 3


def test_symbolic_sizes_in_expressions() -> None:
    @mlc.compile(dynamic={"x": {0: "B"}})
    def step(x: Any) -> Any:
        n = x.shape[0]
        mean = x.sum(axis=0) / n
        return (
            x.reshape(n * 2, -1),
            x[1:] - x[:-1],
            x[::-1],
            np.zeros((n, 2)) + n,
            np.arange(n),
            x.reshape(-1)[::2],
            mean,
            n // 2,
            len(x),
            np.concatenate([x, x]),
            x.mean(),
            x.var(axis=0),
            x[-1],
            np.linspace(0.0, 1.0, n),
            np.eye(n) @ x,
            x.max(0),
            x.argmax(0),
            n % 2,
        )

    text = step.lower(mlc.TensorSpec("B", 4, dtype="f64")).text("trace")
    assert '#mlc.dims<"B", 4>' in text
    for n in (3, 5, 2):
        x = np.random.default_rng(n).normal(size=(n, 4))
        assert_same(step(x), step.__wrapped__(x))
    assert len(step.stats().artifacts) == 1


def test_fori_loop_is_one_loop() -> None:
    @mlc.compile
    def power(a: Any, x: Any, n: int) -> Any:
        def body(i: Any, carry: Any) -> Any:
            v, total = carry
            v = a @ v
            return v / np.sqrt((v * v).sum()), total + i

        return mlc.fori_loop(0, n, body, (x, 0))

    a = X.T @ X
    found, total = power(a, np.ones(4), 20)
    v = np.ones(4)
    for _ in range(20):
        v = a @ v
        v = v / np.sqrt((v * v).sum())
    np.testing.assert_allclose(found, v)
    assert total == sum(range(20))
    text = power.lower(a, np.ones(4), 5).text("trace")
    assert text.count("mlc.for ") == 1
    assert text.count("mlc.contract") == 1
    assert mlc.fori_loop(1, 4, lambda i, c: c * i, 1) == 6


def test_fori_loop_carry_finds_its_dtype() -> None:
    @mlc.compile
    def mean(x: Any) -> Any:
        return mlc.fori_loop(0, 3, lambda i, total: total + x[i] / 3, 0)

    assert_same(mean.reference(X[:, 0]), np.float64(X[:, 0].mean()))


def test_nested_compiled_functions_are_one_program() -> None:
    @mlc.compile
    def inner(x: Any) -> Any:
        return np.tanh(x)

    @mlc.compile
    def outer(x: Any) -> Any:
        return inner(x) + inner(x[::-1])

    assert "mlc.tanh" in outer.lower(X).text("trace")
    assert_same(outer.reference(X), np.tanh(X) + np.tanh(X[::-1]))


def test_locations_and_names() -> None:
    @mlc.compile
    def f(x: Any) -> Any:
        total = x.sum(axis=0)
        return total * 2

    text = f.lower(X).text("trace")
    assert "%total = mlc.reduce" in text
    operation = next(op for op in f.lower(X).module.walk() if op.name == "mlc.reduce")
    line = f.__wrapped__.__code__.co_firstlineno + 2
    assert str(operation.location).startswith('loc("')
    assert f'test_frontend_tracing.py":{line}:17' in str(operation.location)


class Log:
    """Code that is not traced, which keeps what it gets."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __matmul__(self, other: Any) -> Any:
        self.kept.append(other)
        return other


def test_traced_values_do_not_leak() -> None:
    log = Log()
    with pytest.raises(LeakError, match=r"kept after the function has returned: .* a list"):
        mlc.compile(lambda x: log @ (x * 2)).reference(X)
    assert log.kept == []
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its argument is looked at
        mlc.compile(fail).reference(X)
    assert_same(caught.value.args[0], X)


def fail(x: Any) -> None:
    raise ValueError(x)


def test_strided_arguments_and_byte_order() -> None:
    f = mlc.compile(lambda x: x * 2)
    wide = np.arange(24.0).reshape(4, 6)
    for x in (
        wide[:, ::2],
        wide.T,
        wide[::-1],
        wide.astype(">f8"),
        np.broadcast_to(wide[0], (3, 6)),
        wide[1:2],
    ):
        assert_same(f(x), np.asarray(x, np.float64) * 2)
    assert_same(f(np.float32(3)), np.float32(6))


def test_one_array_among_other_results() -> None:
    def f(x: Any) -> Any:
        return {"n": x.shape[0], "total": x.sum()}

    compiled = mlc.compile(f)
    for _ in range(2):
        assert compiled(X) == f(X)
    assert mlc.compile(lambda x: [x + 1])(X)[0].shape == X.shape
    assert mlc.compile(lambda x: (x + 1,))(X)[0].shape == X.shape
    assert mlc.compile(lambda x: None)(X) is None
    assert mlc.compile(lambda x: 3)(X) == 3
