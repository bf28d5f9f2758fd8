"""What users read after a mistake: the messages of tests/golden/frontend.txt."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc

GOLDEN = Path(__file__).parent.parent / "golden" / "frontend.txt"
X = np.ones((64, 128), np.float32)
W = np.ones((64, 32), np.float32)
N = np.arange(9)
MISTAKES: dict[str, tuple[type[Exception], Callable[[], object]]] = {}


def mistake(kind: type[Exception]) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """A function that makes a mistake, and the built-in class of the error it gets."""

    def add(function: Callable[[], object]) -> Callable[[], object]:
        MISTAKES[function.__name__] = (kind, function)
        return function

    return add


def run(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """The function, traced."""
    return mlc.compile(**options)(function).reference(*args)


@mistake(ValueError)
def matmul_inner() -> object:
    def f(x: Any, w: Any) -> Any:
        y = x @ w
        return y * 2

    return run(f, X, W)


@mistake(ValueError)
def broadcast() -> object:
    return run(lambda x, w: x + w, X, W)


@mistake(ValueError)
def symbols_that_differ() -> object:
    f = mlc.compile(dynamic={"x": {0: "B"}, "y": {0: "C"}})(lambda x, y: x * y)
    return f(N, N)


@mistake(ValueError)
def branches_of_two_shapes() -> object:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return x[0]

    return run(f, X)


@mistake(TypeError)
def size_from_array() -> object:
    return run(lambda x, n: np.linspace(0, 1, n.sum()) + x, X, N)


@mistake(TypeError)
def python_float() -> object:
    import math

    return run(lambda x: math.gamma(x[0, 0]), X)


@mistake(IndexError)
def index_outside() -> object:
    return run(lambda x: x[12], N)


@mistake(IndexError)
def too_many_indices() -> object:
    return run(lambda x: x[0, 0, 0], X)


@mistake(IndexError)
def boolean_mask() -> object:
    return run(lambda x: x[x[0] > 0], X)


@mistake(NotImplementedError)
def unknown_function() -> object:
    return run(lambda x: np.array2string(x * 2), X)


@mistake(NotImplementedError)
def random_numbers() -> object:
    return run(lambda x: x + np.random.default_rng().normal(size=3), X)


@mistake(ValueError)
def reshape_count() -> object:
    return run(lambda x: x.reshape(100, -1), X)


@mistake(IndexError)
def axis_outside() -> object:
    return run(lambda x: x.sum(axis=2), X)


@mistake(TypeError)
def subtract_bool() -> object:
    return run(lambda x: (x > 0) - (x < 0), X)


@mistake(TypeError)
def in_place_dtype() -> object:
    def f(n: Any) -> Any:
        n = n.copy()
        n += 0.5
        return n

    return run(f, N)


@mistake(TypeError)
def argument_dtype() -> object:
    return run(lambda z: z * 2, np.array(["a", "b"]))


@mistake(TypeError)
def unknown_option() -> object:
    return mlc.compile(traget="cuda")(run)  # pyright: ignore[reportCallIssue]


@mistake(TypeError)
def donation() -> object:
    return mlc.compile(donate="weights")(lambda w, x: w + x)(X, X)


@mistake(TypeError)
def static_donation() -> object:
    return mlc.compile(donate="w", static="w")(lambda w, x: w + x)(X, X)


@mistake(ValueError)
def donated_read_only() -> object:
    w = X.copy()
    w.flags.writeable = False
    return mlc.compile(donate="p")(lambda p: {"w": p["w"] + 1})({"w": w})


@mistake(ValueError)
def donated_columns() -> object:
    return mlc.compile(donate="w")(lambda w: w + 1)(X[:, ::2])


@mistake(ValueError)
def donated_bytes() -> object:
    return mlc.compile(donate="w")(lambda w: w + 1)(N.astype(">i8"))


@mistake(NotImplementedError)
def donated_twice() -> object:
    w = X.copy()
    return mlc.compile(donate="p")(update)({"w": w, "v": w[1:]})


def update(p: Any) -> Any:
    return {"w": p["w"] + 1, "v": p["v"] * 2}


@mistake(TypeError)
def unknown_static() -> object:
    return mlc.compile(static="axes")(lambda x, axis: x.sum(axis))(X, 0)


@mistake(TypeError)
def dynamic_size_decides() -> object:
    return mlc.compile(dynamic={"x": {0: "B"}})(lambda x: [x[k] for k in range(x.shape[0])])(N)


@mistake(RuntimeError)
def loop_value_leaks() -> object:
    def f(x: Any) -> Any:
        kept: list[Any] = []

        def body(i: Any, total: Any) -> Any:
            kept.append(total * i)
            return total + x[i]

        return mlc.fori_loop(0, 3, body, 0) + kept[-1]

    return run(f, N)


@mistake(ValueError)
def loop_shape_changes() -> object:
    return run(lambda x: mlc.fori_loop(0, 3, lambda i, c: np.concatenate([c, c]), x), N)


@mistake(RuntimeError)
def write_in_loop() -> object:
    def f(x: Any) -> Any:
        out = np.zeros(3)

        def body(i: Any, total: Any) -> Any:
            out[0] = total
            return total + 1.0

        return mlc.fori_loop(0, 3, body, 0.0), out, x

    return run(f, N)


@mistake(NotImplementedError)
def write_to_captured() -> object:
    def f(x: Any) -> Any:
        X[0, 0] = 1
        return x

    return run(f, N)


@mistake(ValueError)
def einsum_sizes() -> object:
    return run(lambda x, w: np.einsum("ij,jk->ik", x, w), X, W)


@mistake(AttributeError)
def attribute_misspelled() -> object:
    def f(x: Any) -> Any:
        return x.argsrt(axis=0)

    return run(f, X)


@mistake(AttributeError)
def attribute_of_a_number() -> object:
    def f(x: Any) -> Any:
        total = np.sum(x)
        return total.quux()

    return run(f, X)


def message_of(name: str) -> str:
    """The error's class and message, without line numbers."""
    kind, function = MISTAKES[name]
    with pytest.raises(kind) as caught:
        function()
    text = str(caught.value)
    # as many letters as digits, so that the carets keep their places
    text = re.sub(r"(?<=errors\.py:)\d+|(?<=\(line )\d+", lambda digits: "N" * len(digits[0]), text)
    return f"{type(caught.value).__name__}: {text}".rstrip()


def golden() -> dict[str, str]:
    """Name -> message."""
    parts = re.split(r"^=== (\w+)\n", GOLDEN.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.strip("\n") for name, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parent)  # messages show paths relative to it
    assert message_of(name) == golden()[name]


def test_index_outside_at_run_time() -> None:
    f = mlc.compile(lambda x, i: x[i])
    for _ in range(2):
        with pytest.raises(
            IndexError, match=r"index 12 is out of bounds for .*size 9\n.*errors.py:\d+"
        ):
            f(N, np.array([3, 12]))
    assert f(N, np.array([-9]))[0] == 0


def test_golden_file_has_no_strays() -> None:
    assert set(golden()) == set(MISTAKES)


UNTYPED: Any = np
NETWORKS: Any = mlc.nn


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: UNTYPED.flatnonzero(x, 0), "takes 1 positional argument but 2 were given"),
        (lambda x: UNTYPED.exp(), "0 were given|missing 1 required positional"),
        (lambda x: UNTYPED.where(x > 0, x, x, x), "but 4 were given"),
        (lambda x: x.sum(1, 2, 3, 4, 5, 6, 7, 8), "but 9 were given"),
        (lambda x: NETWORKS.relu(x, 3), "but 2 were given"),
        (lambda x: UNTYPED.sum(x, axis=0, a=x), "multiple values for argument 'a'"),
    ],
)
def test_calls_whose_arguments_do_not_fit_have_the_users_line(call: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said) as caught:
        mlc.compile(call)(np.ones(3))
    assert "test_frontend_errors.py:" in str(caught.value)


def test_errors_of_the_users_own_calls_stay_as_they_are() -> None:
    def helper(x: Any) -> Any:
        return x

    def f(x: Any) -> Any:
        wrong: Any = helper
        return wrong(x, x)

    with pytest.raises(TypeError) as caught:
        mlc.compile(f)(np.ones(3))
    assert "helper() takes 1 positional argument but 2 were given" in str(caught.value)
