"""mlc.optim against loops written in NumPy, inside and outside of compiled functions."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.trace.containers import flatten

RNG = np.random.default_rng(0)
SHAPES = [(4, 3), (3,), ()]


def problem(dtype: Any) -> tuple[Any, list[Any]]:
    """Parameters in containers, and a gradient of the same structure for each of ten steps."""

    def fresh() -> Any:
        a, b, c = (RNG.standard_normal(shape).astype(dtype) for shape in SHAPES)
        return {"layers": [(a, b)], "scale": np.asarray(c), "ids": np.arange(3)}

    return fresh(), [fresh() for _ in range(10)]


def sgd_loop(p: Any, grads: list[Any], lr: float, mu: float, nesterov: bool, decay: float) -> Any:
    v = np.zeros_like(p)
    for g in grads:
        total = g + decay * p
        v = mu * v + total
        p = p - lr * (total + mu * v if nesterov else v)
    return p


def adam_loop(p: Any, grads: list[Any], lr: float, b1: float, b2: float, decay: float) -> Any:
    m, s = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        m = b1 * m + (1 - b1) * g
        s = b2 * s + (1 - b2) * g**2
        old = p
        p = p - lr * (m / (1 - b1**t)) / (np.sqrt(s / (1 - b2**t)) + 1e-8) - lr * decay * old
    return p


Step = Callable[[Any, Any, Any], Any]
CASES: dict[str, tuple[Callable[[Any], Any], Step, Callable[[Any, list[Any]], Any]]] = {
    "sgd": (
        mlc.optim.sgd_init,
        lambda p, g, s: mlc.optim.sgd(p, g, s, lr=0.1),
        lambda p, g: sgd_loop(p, g, 0.1, 0.0, False, 0.0),
    ),
    "momentum": (
        mlc.optim.sgd_init,
        lambda p, g, s: mlc.optim.sgd(p, g, s, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda p, g: sgd_loop(p, g, 0.1, 0.9, False, 0.01),
    ),
    "nesterov": (
        mlc.optim.sgd_init,
        lambda p, g, s: mlc.optim.sgd(p, g, s, lr=0.1, momentum=0.9, nesterov=True),
        lambda p, g: sgd_loop(p, g, 0.1, 0.9, True, 0.0),
    ),
    "adam": (
        mlc.optim.adam_init,
        lambda p, g, s: mlc.optim.adam(p, g, s, lr=0.01),
        lambda p, g: adam_loop(p, g, 0.01, 0.9, 0.999, 0.0),
    ),
    "adam without mean": (
        mlc.optim.adam_init,
        lambda p, g, s: mlc.optim.adam(p, g, s, lr=0.01, b1=0.0, b2=0.5),
        lambda p, g: adam_loop(p, g, 0.01, 0.0, 0.5, 0.0),
    ),
    "adamw": (
        mlc.optim.adam_init,
        lambda p, g, s: mlc.optim.adamw(p, g, s, lr=0.01, weight_decay=0.1),
        lambda p, g: adam_loop(p, g, 0.01, 0.9, 0.999, 0.1),
    ),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_ten_steps_equal_a_loop(name: str, dtype: Any, compiled: bool) -> None:
    init, step, loop = CASES[name]
    params, grads = problem(dtype)
    expected = [
        p if p.dtype == np.int64 else loop(p, list(g))
        for p, *g in zip(flatten(params)[0], *(flatten(g)[0] for g in grads), strict=True)
    ]
    state = init(params)
    run: Any = mlc.compile(donate=("p", "s"))(step) if compiled else step
    mine = copy.deepcopy(params)
    before = flatten((mine, state))[0]
    for g in grads:
        mine, state = run(mine, g, state)
    tolerance = 1e-12 if dtype is np.float64 else 2e-6
    for x, y in zip(flatten(mine)[0], expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)
    for x in flatten(state)[0]:
        assert x is None or x.dtype in (dtype, np.int64)
    if compiled:
        assert all(x is y for x, y in zip(flatten((mine, state))[0], before, strict=True))
        assert run.lower(mine, grads[0], state).compile().plan().copied_bytes == 0


def test_state_begins_inside_too_and_rates_may_be_arguments() -> None:
    @mlc.compile
    def two(w: Any, g: Any, lr: Any) -> Any:
        state = mlc.optim.adam_init({"w": w})
        params, state = mlc.optim.adam({"w": w}, {"w": g}, state, lr=lr)
        params, state = mlc.optim.adam(params, {"w": g}, state, lr=lr)
        return params["w"], state.step

    w, g = np.ones(5, np.float32), RNG.standard_normal(5).astype(np.float32)
    for lr in (0.1, np.float64(0.1)):
        new, count = two(w, g, lr)
        assert new.dtype == np.float32
        assert count == 2
        np.testing.assert_allclose(new, adam_loop(w, [g, g], 0.1, 0.9, 0.999, 0.0), rtol=1e-5)


def test_what_is_no_number_stays() -> None:
    params = {"w": np.ones(3), "frozen": np.ones(2), "name": "layer", "n": 3}
    grads = {"w": np.ones(3), "frozen": None, "name": None, "n": None}
    new, _ = mlc.optim.adam(params, grads, mlc.optim.adam_init(params))
    assert new["frozen"] is params["frozen"]
    assert (new["name"], new["n"]) == ("layer", 3)
    assert (new["w"] < 1).all()


def test_mistakes_are_named() -> None:
    w = np.ones((3, 2))
    with pytest.raises(mlc.ShapeError, match=r"structure; found \[\*\] beside \{'w': \*\}"):
        mlc.optim.sgd({"w": w}, [w], {"w": w}, lr=0.1)
    with pytest.raises(mlc.ShapeError, match=r"shape \(3, 2\) has a gradient or state of shape"):
        mlc.compile(lambda w, g: mlc.optim.sgd(w, g, w, lr=0.1))(w, w.T)
    with pytest.raises(mlc.DTypeError, match="of float64 has a gradient or state of float32"):
        mlc.optim.sgd(w, w.astype(np.float32), w, lr=0.1)
    with pytest.raises(ValueError, match=r"b2=1\.0; expected a Python number in \[0, 1\)"):
        mlc.optim.adam(w, w, mlc.optim.adam_init(w), b2=1.0)
    with pytest.raises(ValueError, match="nesterov looks ahead"):
        mlc.optim.sgd(w, w, w, lr=0.1, nesterov=True)


def test_a_loss_scale_saves_gradients_that_f16_cannot_hold() -> None:
    weights = {"w": np.full(4, 1e-4, np.float16)}
    tiny = np.full(4, 2e-5, np.float16)

    def loss(p: Any, x: Any) -> Any:
        return np.sum((p["w"] * x) ** 2)

    @mlc.compile
    def step(p: Any, state: Any, x: Any) -> Any:
        grads = mlc.grad(lambda q: mlc.optim.scaled(loss(q, x), state))(p)
        return mlc.optim.unscaled(grads, state, growth_interval=2)

    plain = mlc.grad(loss)(weights, tiny)
    assert not plain["w"].any()  # 8e-14 is zero in f16
    big = mlc.optim.scale_init(2.0**14)
    grads, finite, state = step(weights, big, np.full(4, 2.0, np.float16))
    np.testing.assert_allclose(grads["w"], np.full(4, 8e-4), rtol=2e-3)
    assert finite
    assert (state.scale, state.good) == (2.0**14, 1)
    _, finite, state = step(weights, state, np.full(4, 2.0, np.float16))
    assert (state.scale, state.good) == (2.0**15, 0)  # two good steps: doubled
    _, finite, state = step(weights, state, np.full(4, 6e4, np.float16))
    assert not finite
    assert (state.scale, state.good) == (2.0**14, 0)
    kept = mlc.optim.where(finite, {"w": weights["w"] + 1}, weights)
    np.testing.assert_array_equal(kept["w"], weights["w"])


def test_bf16_parameters_are_trained() -> None:
    import ml_dtypes

    p = [np.ones(3, ml_dtypes.bfloat16)]
    new, _ = mlc.optim.sgd(p, [np.ones(3, ml_dtypes.bfloat16)], mlc.optim.sgd_init(p), lr=0.5)
    np.testing.assert_array_equal(new[0].astype(np.float32), np.full(3, 0.5, np.float32))
