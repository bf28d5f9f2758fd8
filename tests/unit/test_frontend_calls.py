"""What may be compiled, what may be given to it, and what may be called inside."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import array
import ctypes
import datetime as dt
import functools
import gc
import logging
import os
import pathlib
import pickle
import random
import secrets
import sys
import time
import uuid
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.call.dispatcher import Dispatcher
from tests.unit.test_numpy_names import assert_same

X = np.arange(6.0) + 0.5
A = X.reshape(2, 3)


def unaligned(dtype: Any = np.float64, count: int = 6) -> Any:
    """An array whose elements lie at odd addresses."""
    memory = bytearray(count * np.dtype(dtype).itemsize + 1)
    found = np.frombuffer(memory, dtype, offset=1)
    found[...] = np.arange(count)
    return found


def write(x: Any) -> Any:
    x[0] = 5.0
    x[1:] += 1
    return x.sum()


def test_unaligned_arrays() -> None:
    captured = unaligned()
    for dtype in (np.float64, np.float32, np.int16, np.complex128):
        x = unaligned(dtype)
        f = mlc.compile(lambda x: x + 1)
        assert_same(f(x), x + 1)
        assert_same(f(x), x + 1)
        assert_same(mlc.compile(lambda d: d["a"][0] * 2)({"a": [x]}), x * 2)
        assert_same(mlc.compile(lambda x, n: x * n)(x, 2), x * 2)
        assert_same(f.reference(x), x + 1)
    assert_same(mlc.grad(lambda x: (x**2).sum())(captured), 2 * captured)
    assert_same(mlc.compile(lambda x: x * captured)(X), X * captured)
    assert_same(
        mlc.compile(lambda x: x.T)(unaligned().reshape(2, 3)), np.arange(6.0).reshape(2, 3).T
    )
    packed = np.zeros(4, np.dtype([("a", "i1"), ("b", "f8")]))["b"]
    assert_same(mlc.compile(lambda x: x + 1)(packed), packed + 1)
    for make in (unaligned, lambda: np.zeros(6, ">f8")):
        x, y = make(), make().copy()
        assert_same(mlc.compile(write)(x), write(y))
        np.testing.assert_array_equal(x, y)


def test_read_only_arrays_are_not_written() -> None:
    x = X.copy()
    x.flags.writeable = False
    f, inside = mlc.compile(write), mlc.compile(lambda d: write(d["a"]))
    for _ in range(2):
        for call in (
            lambda: f(x),
            lambda: inside({"a": x}),
            lambda: f.reference(x),
            lambda: f(x[::2]),
        ):
            with pytest.raises(ValueError, match="assignment destination is read-only") as caught:
                call()
            assert "x[0] = 5.0" in str(caught.value)
        f(X.copy())
        inside({"a": X.copy()})
    np.testing.assert_array_equal(x, X)
    assert_same(mlc.compile(lambda x: x + 1)(x), X + 1)


def test_arrays_of_no_axes_are_written() -> None:
    def f(x: Any) -> None:
        x[...] = x * 2

    x = np.array(3.0)
    mlc.compile(f)(x)
    assert x == 6.0


class Series:
    """What NumPy makes an array of, and nothing else of NumPy's."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values


SERIES = Series(X)


def test_array_likes() -> None:
    f = mlc.compile(lambda x, y: np.tanh(x) * y)
    assert_same(f(Series(X), X), np.tanh(X) * X)
    assert_same(f(X, Series(X)), np.tanh(X) * X)
    assert_same(f(array.array("d", X), memoryview(X)), np.tanh(X) * X)  # pyright: ignore[reportArgumentType]
    assert_same(mlc.compile(lambda x: x + 1)(bytearray(b"ab")), np.array([98, 99], np.uint8))
    assert_same(mlc.compile(lambda x: x + 1)((ctypes.c_double * 2)(1, 2)), np.array([2.0, 3.0]))
    g = mlc.compile(lambda x: x * SERIES + np.exp(SERIES))
    assert_same(g(X), X * X + np.exp(X))
    SERIES.values = X * 2
    assert_same(g(X), X * X * 2 + np.exp(X * 2))
    with pytest.raises(mlc.NotSupportedError, match="argument x is a Series"):
        mlc.compile(write)(Series(X))
    memory = array.array("d", [0.0] * 6)
    mlc.compile(write)(memoryview(memory))
    assert memory[:2] == array.array("d", [5.0, 1.0])


class Model:
    def __init__(self) -> None:
        self.w = np.ones(6)

    def __call__(self, x: Any, y: Any = 2.0) -> Any:
        return x * y * self.w

    def method(self, x: Any) -> Any:
        return self(x) + 1

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * 3


def scaled(a: Any, b: Any, *, k: Any) -> Any:
    return a * b + k


MODEL = Model()
CALLABLES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "partial": (functools.partial(scaled, 2.0, k=3.0), (X,)),
    "partial of a partial": (functools.partial(functools.partial(scaled, X), k=X), (X,)),
    "partial of NumPy": (functools.partial(np.add, 2.0), (X,)),
    "partial with keywords": (functools.partial(np.clip, a_min=1, a_max=2), (X,)),
    "object": (MODEL, (X,)),
    "bound method": (MODEL.method, (X,)),
    "bound call": (MODEL.__call__, (X, 3.0)),
    "class method": (MODEL.of_class, (X,)),
    "method of an array": (X.dot, (X,)),
    "reduce": (np.add.reduce, (A,)),
    "vdot": (np.vdot, (X, X)),
    "inner": (np.inner, (X, X)),
    "dot": (np.dot, (A, A.T)),
    "where": (np.where, (X > 2, X, -X)),
    "clip": (np.clip, (X, 1.0, 2.0)),
    "concatenate": (np.concatenate, ((X, X),)),
    "outer": (np.outer, (X, X)),
    "trace": (np.trace, (A,)),
    "einsum": (np.einsum, ("ij,ij->i", A, A)),
    "std": (np.std, (X,)),
    "reshape": (np.reshape, (X, (3, 2))),
    "diag": (np.diag, (X,)),
    "norm": (np.linalg.norm, (X,)),
    "take": (np.take, (X, np.array([1, 2]))),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_what_can_be_called_can_be_compiled(name: str) -> None:
    function, args = CALLABLES[name]
    compiled = mlc.compile(function)
    for _ in range(2):
        assert_same(compiled(*args), function(*args))
    assert compiled.__name__ in repr(compiled)


def test_a_compiled_object_is_read_at_every_call() -> None:
    model = Model()
    compiled = mlc.compile(model)
    assert_same(compiled(X, y=3.0), X * 3)
    model.w = np.arange(6.0)
    assert_same(compiled(X), X * 2 * model.w)


def test_round_gives_what_numpy_gives() -> None:
    for dtype in (np.float32, np.float64, np.int8):
        x = (np.arange(5) * 1.25 - 2.5).astype(dtype)
        for k in range(5):
            found = mlc.compile(lambda x, k: round(x[k]))(x, k)
            assert type(found) is int
            assert found == round(x[k])
        found, expected = mlc.compile(lambda x: round(x[1], 1))(x), round(x[1], 1)
        assert type(found) is type(expected)
        assert found == expected
    for refused in (X, X > 1, X.astype(complex)):
        with pytest.raises(TypeError, match="doesn't define __round__"):
            mlc.compile(lambda x: round(x) + 1)(refused)
    with pytest.raises(TypeError, match="doesn't define __round__"):
        mlc.compile(lambda x: round(x[0]))(X > 1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: f"{x.sum():.3f}",
        lambda x: f"{x}",
        lambda x: str(x[1:]),
        lambda x: f"{x[0]:.2f}",
        lambda x: "%s" % x[0],  # noqa: UP031
        lambda x: "%.2f" % x[0],  # noqa: UP031
        lambda x: format(x[0], ".2f"),
    ],
)
def test_texts_of_traced_values_are_made_after_the_call(f: Callable[..., Any]) -> None:
    compiled = mlc.compile(f)
    for x in (X, -X):
        assert compiled(x) == f(x)
    with pytest.raises(mlc.ConcretizationError, match=r"test_frontend_calls\.py"):
        mlc.compile(lambda x: {f(x): x})(X)


def test_texts_of_what_is_known() -> None:
    f = mlc.compile(lambda x, n: {f"k{n}": x, f"shape{x.shape[0]}": f"{n:03d}"})
    for n in (3, 4):
        found = f(X, n)
        assert set(found) == {f"k{n}", "shape6"}
        assert found["shape6"] == f"{n:03d}"


def test_dynamic_names_what_there_is() -> None:
    for dynamic, message in (
        ({"q": {0: "B"}}, "names q, which no argument is; expected one of x"),
        ({"x": {1: "B"}}, "axis 1 of x, which has 1 axes"),
        ({"x[0]": {0: "B"}}, "names x\\[0\\]"),
    ):
        with pytest.raises(ValueError, match=message):
            mlc.compile(dynamic=dynamic)(lambda x: x + 1)(X)
    with pytest.raises(TypeError, match="expected True, or axes"):
        mlc.compile(dynamic={"x": {"0": "B"}})  # pyright: ignore[reportArgumentType]
    f = mlc.compile(dynamic={'p["w"]': {0: "B"}})(lambda p: p["w"] + 1)
    for n in (3, 4, 5):
        assert_same(f({"w": X[:n]}), X[:n] + 1)
    assert len(f.stats().artifacts) == 1
    with pytest.raises(ValueError, match=r"names p, .* expected one of p\['w'\]"):
        mlc.compile(dynamic={"p": {0: "B"}})(lambda p: p["w"] + 1)({"w": X})


@pytest.mark.parametrize(
    "f",
    [
        lambda: time.time() + 1,
        lambda: time.perf_counter() + 1,
        lambda: time.monotonic_ns() + 1,
        lambda: dt.datetime.now().second,
        lambda: dt.date.today().day,
        lambda: random.random() + 1,
        lambda: random.Random(0).random(),
        lambda: secrets.randbelow(3),
        lambda: uuid.uuid4().int,
        lambda: os.urandom(1)[0],
        lambda: os.getpid() + 1,
        lambda: float(input()),
        lambda: len(open(__file__).read()),  # noqa: SIM115
        lambda: len(pathlib.Path(__file__).read_text()),
    ],
)
def test_what_differs_at_each_call_is_refused(f: Callable[[], float]) -> None:
    with pytest.raises(mlc.NotSupportedError, match="inside a compiled function") as caught:
        mlc.compile(lambda x: x + f())(X)
    assert "test_frontend_calls.py" in str(caught.value)


def test_what_writes_does_so_at_each_call(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def f(x: Any) -> Any:
        print("seen", x[0])
        sys.stdout.write(f"{x[1]:.2f}\n")
        logging.getLogger("mlc.test").warning("logged %s", x[2])
        warnings.warn(f"warned of {x[3]}", UserWarning, stacklevel=2)
        return x

    compiled = mlc.compile(f)
    for x in (X, -X):
        with pytest.warns(UserWarning, match=f"warned of {x[3]}"):
            compiled(x)
        assert capsys.readouterr().out == f"seen {x[0]}\n{x[1]:.2f}\n"
    assert [record.getMessage() for record in caplog.records] == [
        f"logged {X[2]}",
        f"logged {-X[2]}",
    ]


def test_dates_compute() -> None:
    date = mlc.compile(lambda x: x + dt.datetime(2020, 1, 7).day)
    assert_same(date(X), X + 7)


def test_dtypes_of_one_kind_under_other_names() -> None:
    x = np.arange(6, dtype=np.longlong)
    for given in (x, x.view("<i8"), x[::2], np.frombuffer(x.tobytes(), "q")):
        assert_same(mlc.compile(lambda x: x + 1)(given), given + 1)
    assert_same(mlc.compile(lambda y: y + x)(x), x + x)
    mlc.compile(write)(x)
    assert x[0] == 5


def test_functions_without_text_are_held_to_the_same() -> None:
    space: dict[str, Any] = {"time": time, "now": time.time, "print": print}
    for text in ("x + time.time()", "x + now()", "f'{x}'"):
        with pytest.raises(mlc.MlcError):
            mlc.compile(eval(f"lambda x: {text}", space))(X)
    assert_same(mlc.compile(eval("lambda x: x * len(x) + max(x[0], 1.0)"))(X), X * 6 + 1)


def positional(x: Any, y: Any = 2.0) -> Any:
    return x - y


def several(*xs: Any) -> Any:
    return xs[0] - xs[-1]


def by_name(x: Any, *, y: Any = 3.0) -> Any:
    return x - y


def all_kinds(a: Any, /, b: Any = 2.0, *c: Any, d: Any = 4.0, **e: Any) -> Any:
    return a - b + sum(c) * d - sum(e[k] * (n + 2) for n, k in enumerate(sorted(e)))


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (positional, (X,), {}),
    (positional, (X, X + 1), {}),
    (positional, (X,), {"y": 5.0}),
    (positional, (), {"y": X, "x": 1.0}),
    (several, (X, X * 2), {}),
    (several, (X, X * 2, X * 3), {}),
    (by_name, (X,), {}),
    (by_name, (X,), {"y": X + 1}),
    (all_kinds, (X,), {}),
    (all_kinds, (X, 1.0, X, X + 1), {"d": X}),
    (all_kinds, (X,), {"q": X, "p": X + 1, "a": 1.0}),
    (all_kinds, (X,), {"p": X + 1, "q": X}),
]


@pytest.mark.parametrize("case", CALLS, ids=lambda c: f"{c[0].__name__} {len(c[1])} {[*c[2]]}")
def test_a_second_call_of_any_form_needs_no_full_dispatch(
    case: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, args, kwargs = case
    wanted = function(*args, **kwargs)
    compiled: Any = mlc.compile(function)
    np.testing.assert_allclose(compiled(*args, **kwargs), wanted, rtol=1e-12)

    def call(*_: Any) -> Any:
        raise AssertionError("full dispatch")

    monkeypatch.setattr(Dispatcher, "call", call)
    np.testing.assert_allclose(compiled(*args, **kwargs), wanted, rtol=1e-12)


def test_quick_calls_look_at_defaults_and_bind_as_python_does() -> None:
    def f(x: Any, y: Any = 1.0, *, z: Any = 2.0) -> Any:
        return x + 10.0 * y + 100.0 * z

    compiled: Any = mlc.compile(f)
    for _ in range(2):
        np.testing.assert_array_equal(compiled(X), X + 210)
    assert f.__kwdefaults__
    f.__kwdefaults__["z"] = 3.0
    np.testing.assert_array_equal(compiled(X), X + 310)
    f.__defaults__ = (2.0,)
    np.testing.assert_array_equal(compiled(X), X + 320)
    np.testing.assert_array_equal(compiled(X, z=1.0), X + 120)
    for args, kwargs in (((), {}), ((X,), {"w": 1}), ((X, 1.0, 2.0), {}), ((X,), {"x": X})):
        with pytest.raises(TypeError):
            compiled(*args, **kwargs)


TRANSFORMED: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: mlc.grad(f)(X),
    "hessian": lambda f: mlc.hessian(f)(X),
    "jvp": lambda f: mlc.jvp(f, (X,), (X,)),
    "vjp": lambda f: mlc.vjp(f, X)[1](1.0),
    "vmap": lambda f: mlc.vmap(f)(A),
    "of a compiled one": lambda f: mlc.grad(mlc.compile(f))(X),
    "twice": lambda f: mlc.grad(lambda x: mlc.grad(f)(x).sum())(X),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_what_is_made_of_a_function_goes_with_it(name: str) -> None:
    def inner() -> weakref.ref[Any]:
        def f(x: Any) -> Any:
            return (x * x).sum()

        TRANSFORMED[name](f)
        return weakref.ref(f)

    gone = inner()
    gc.collect()
    assert gone() is None


def test_what_is_made_of_a_function_is_made_once_and_of_it_alone() -> None:
    def f(x: Any) -> Any:
        return (x * x).sum()

    assert mlc.grad(f) is mlc.grad(f)
    np.testing.assert_array_equal(mlc.grad(f)(X), 2 * X)

    @functools.wraps(f)
    def g(x: Any) -> Any:
        return (x * x * x).sum()

    np.testing.assert_allclose(mlc.grad(g)(X), 3 * X * X)
    assert not pickle.loads(pickle.dumps(vars(f)))["__mlc_made__"]
