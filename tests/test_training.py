"""
Training by one compiled step, forward to update, beside a NumPy loop with derivatives by hand.

The networks and their steps are the example's, examples/train_digits.py.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from examples.train_digits import cnn, cnn_start, compiled, load, mlp, mlp_start
from mlc.frontend.trace.containers import flatten

Params = dict[str, Any]
RATE = 1e-2
MOMENTUM = 0.9
STEPS = 100


def batches(dtype: Any, count: int, size: int = 64) -> list[tuple[Any, Any]]:
    """Batches of the digits, drawn with replacement."""
    images, labels = load()
    rows = np.random.default_rng(3).integers(0, len(images), (count, size))
    return [(images[r].astype(dtype), labels[r]) for r in rows]


def start(dtype: Any) -> Params:
    found = mlp_start(np.random.default_rng(4))
    return {name: p.astype(dtype) for name, p in found.items()}


def resident_bytes() -> int:
    """Memory of this process that is in use. SOURCE: proc(5), statm, pages of 4096 bytes."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def leaves(value: object) -> list[Any]:
    return [x for x in flatten(value)[0] if isinstance(x, np.ndarray)]


# The same training with NumPy, derivatives by hand


def by_hand(p: Params, x: Any, y: Any) -> tuple[Any, Params]:
    """The mean cross-entropy of `mlp` and its gradient."""
    flat = x.reshape(len(x), -1)
    before = flat @ p["w1"] + p["b1"]
    hidden = np.maximum(before, 0)
    scores = hidden @ p["w2"] + p["b2"]
    scores = scores - scores.max(axis=1, keepdims=True)
    weight = np.exp(scores)
    total = weight.sum(axis=1, keepdims=True)
    rows = np.arange(len(x))
    loss = (np.log(total[:, 0]) - scores[rows, y]).mean()
    d_scores = weight / total
    d_scores[rows, y] -= 1
    d_scores /= np.asarray(len(x), x.dtype)
    d_before = (d_scores @ p["w2"].T) * (before > 0)
    return loss, {
        "w1": flat.T @ d_before,
        "b1": d_before.sum(axis=0),
        "w2": hidden.T @ d_scores,
        "b2": d_scores.sum(axis=0),
    }


def sgd_by_hand(p: Params, g: Params, v: Params) -> tuple[Params, Params]:
    v = {name: MOMENTUM * v[name] + g[name] for name in p}
    return {name: p[name] - RATE * v[name] for name in p}, v


def adam_by_hand(p: Params, g: Params, state: tuple[int, Params, Params]) -> tuple[Params, Any]:
    t, m, s = state[0] + 1, *state[1:]
    m = {name: 0.9 * m[name] + 0.1 * g[name] for name in p}
    s = {name: 0.999 * s[name] + 0.001 * g[name] ** 2 for name in p}
    one, two = 1 - 0.9**t, 1 - 0.999**t
    new = {name: p[name] - RATE * (m[name] / one) / (np.sqrt(s[name] / two) + 1e-8) for name in p}
    return new, (t, m, s)


def train_by_hand(p: Params, update: Callable[..., Any], state: Any, data: Any) -> Any:
    """(parameters, losses) after a step for each batch."""
    losses: list[Any] = []
    for x, y in data:
        loss, g = by_hand(p, x, y)
        p, state = update(p, g, state)
        losses.append(loss)
    return p, np.array(losses)


@mlc.compile(donate=("params", "state"))
def sgd_step(params: Params, state: Params, x: Any, y: Any) -> Any:
    """A step of gradient descent with momentum on `mlp`."""
    value, gradient = mlc.value_and_grad(lambda p: mlc.nn.cross_entropy(mlp(p, x), y))(params)
    params, state = mlc.optim.sgd(params, gradient, state, lr=RATE, momentum=MOMENTUM)
    return params, state, value


def train_compiled(step: Any, params: Params, state: Any, data: Any) -> Any:
    """(parameters, losses) after a step for each batch; the arrays must be the ones given."""
    given = leaves((params, state))
    losses: list[Any] = []
    for x, y in data:
        params, state, loss = step(params, state, x, y)
        losses.append(float(loss))
    assert all(new is old for new, old in zip(leaves((params, state)), given, strict=True))
    return params, np.array(losses)


def adam_step() -> Any:
    """The example's step at a constant rate."""
    step, _ = compiled(mlp)
    return lambda params, state, x, y: step(params, state, x, y, RATE)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-5)])
def test_gradient_descent_equals_numpy(dtype: Any, tolerance: float) -> None:
    """Relative to the largest parameter of each array: sums of float32 differ in their order."""
    params, data = start(dtype), batches(dtype, STEPS)
    state = mlc.optim.sgd_init(params)
    expected, losses = train_by_hand(copy.deepcopy(params), sgd_by_hand, copy.deepcopy(state), data)
    found, curve = train_compiled(sgd_step, params, state, data)
    for name, p in expected.items():
        assert found[name].dtype == dtype
        np.testing.assert_allclose(found[name], p, rtol=0, atol=tolerance * np.abs(p).max())
    np.testing.assert_allclose(curve, losses, rtol=tolerance)
    assert losses[-10:].mean() < losses[:10].mean() / 2


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-3)])
def test_adam_equals_numpy(dtype: Any, tolerance: float) -> None:
    """
    In float32 the curve of losses alone: where a gradient is only rounding, Adam's step goes by its
    sign.
    """
    params, data = start(dtype), batches(dtype, STEPS)
    nothing = {name: np.zeros_like(p) for name, p in params.items()}
    expected, losses = train_by_hand(
        copy.deepcopy(params), adam_by_hand, (0, nothing, nothing), data
    )
    found, curve = train_compiled(adam_step(), params, mlc.optim.adam_init(params), data)
    np.testing.assert_allclose(curve, losses, rtol=tolerance, atol=tolerance)
    if dtype is np.float64:
        for name, p in expected.items():
            np.testing.assert_allclose(found[name], p, rtol=0, atol=tolerance * np.abs(p).max())


# What a step costs


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory in use: Linux only")
@pytest.mark.parametrize(("model", "begin"), [(mlp, mlp_start), (cnn, cnn_start)])
def test_arrays_stay_and_memory_does_not_grow(model: Any, begin: Any) -> None:
    step, _ = compiled(model)
    params = begin(np.random.default_rng(5))
    state = mlc.optim.adam_init(params)
    given = leaves((params, state))
    addresses = [x.ctypes.data for x in given]
    data = batches(np.float32, 8, 8)
    used: list[int] = []
    for k in range(1100):
        params, state, _ = step(params, state, *data[k % 8], 1e-3)
        if k in (99, 1099):
            used.append(resident_bytes())
    assert all(new is old for new, old in zip(leaves((params, state)), given, strict=True))
    assert [x.ctypes.data for x in given] == addresses
    assert state.step == 1100
    assert used[1] - used[0] < 2**18  # less than the smallest array with its header, each step
    assert step.stats().compilations + step.stats().cache_hits == 1


def test_the_step_of_the_mlp_copies_nothing() -> None:
    """All that is not a product or a sum is computed where its operands come from."""
    step, _ = compiled(mlp)
    params = start(np.float32)
    ((x, y),) = batches(np.float32, 1)
    plan = step.lower(params, mlc.optim.adam_init(params), x, y, RATE).compile().plan()
    assert plan.copied_bytes == 0
    weights = [k for k in plan.kernels if k.template == "contraction" and "sqrt" in str(k.ops)]
    assert len(weights) == 2  # w1, w2: Adam is computed while the gradient's tiles are in registers


def test_cross_entropy_keeps_the_exponentials_of_softmax() -> None:
    def loss(scores: Any, labels: Any) -> Any:
        return mlc.nn.cross_entropy(scores, labels)

    lowered = mlc.compile(mlc.value_and_grad(loss)).lower(
        np.zeros((64, 10), np.float32), np.zeros(64, np.int64)
    )
    text = lowered.text("tensor")
    assert text.count("mlc.exp ") == 1
    assert text.count("mlc.log ") == 1
    assert text.count('mlc.reduce "max"') == 1  # a constant for the derivative
    assert text.count("mlc.reduce") <= 4


# The convolutional network


def test_gradient_of_the_cnn_equals_central_differences() -> None:
    rng = np.random.default_rng(6)
    params = {name: p.astype(np.float64) for name, p in cnn_start(rng, 3, 4).items()}
    params = {name: p + 0.1 * rng.standard_normal(p.shape) for name, p in params.items()}
    ((x, y),) = batches(np.float64, 1, 5)
    x = x + 0.01 * rng.standard_normal(x.shape)  # no two pixels alike: no ties

    @mlc.compile
    def loss(params: Params) -> Any:
        return mlc.nn.cross_entropy(cnn(params, x), y)

    gradient = mlc.compile(mlc.grad(loss))(params)
    for name, p in params.items():
        for place in [np.unravel_index(k, p.shape) for k in rng.integers(0, p.size, 12)]:
            ends: list[float] = []
            for h in (1e-6, -1e-6):
                moved = p.copy()
                moved[place] += h
                ends.append(float(loss({**params, name: moved})))
            difference = (ends[0] - ends[1]) / 2e-6
            np.testing.assert_allclose(gradient[name][place], difference, rtol=1e-5, atol=1e-8)
