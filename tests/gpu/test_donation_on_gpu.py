"""Donated arguments of GPU programs: arrays on the device stay in place, host arrays come back."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc

pytestmark = pytest.mark.gpu
RNG = np.random.default_rng(0)


def step(params: Any, velocity: Any, x: Any, y: Any) -> Any:
    """Gradient descent with momentum on a linear model."""
    e = (x @ params["w"] + params["b"] - y) / x.shape[0]
    grads = {"w": x.T @ e, "b": e.sum(axis=0)}
    return mlc.optim.sgd(params, grads, velocity, lr=0.1, momentum=0.9)


def data(rows: int, wide: int) -> tuple[Any, Any, Any, Any]:
    def normal(*shape: int) -> Any:
        return RNG.standard_normal(shape).astype(np.float32)

    params = {"w": normal(wide, 16), "b": normal(16)}
    return params, mlc.optim.sgd_init(params), normal(rows, wide), normal(rows, 16)


@pytest.mark.parametrize("rows", [64, 5000])
@pytest.mark.parametrize("wide", [8, 300])
def test_host_arrays_are_written_back(rows: int, wide: int) -> None:
    params, velocity, x, y = data(rows, wide)
    expected: Any = ({k: v.copy() for k, v in params.items()}, mlc.optim.sgd_init(params))
    compiled = mlc.compile(target="cuda", donate=("params", "velocity"))(step)
    for _ in range(3):
        expected = step(expected[0], expected[1], x, y)
        new, moved = compiled(params, velocity, x, y)
        assert new["w"] is params["w"]
        assert moved["b"] is velocity["b"]
        for key in ("w", "b"):
            np.testing.assert_allclose(new[key], expected[0][key], rtol=2e-3, atol=2e-4)


def test_tensors_on_the_device_keep_their_memory() -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    params, velocity, x, y = data(2000, 300)
    expected = step(params, velocity, x, y)

    def there(value: Any) -> Any:
        return {k: torch.from_numpy(v.copy()).cuda() for k, v in value.items()}

    mine, state = there(params), there(velocity)
    compiled = mlc.compile(target="cuda", donate=("params", "velocity"))(step)
    new, _ = compiled(mine, state, torch.from_numpy(x).cuda(), torch.from_numpy(y).cuda())
    for key in ("w", "b"):
        assert new[key] is mine[key]
        found = mine[key].cpu().numpy()
        np.testing.assert_allclose(found, expected[0][key], rtol=2e-3, atol=2e-4)
    before = torch.arange(10.0, device="cuda")
    shifted: Any = mlc.compile(target="cuda", donate="w")(lambda w: w[::-1] + w)
    assert shifted(before) is before
    assert before.tolist() == [9.0] * 10
    for _ in range(2):
        both: Any = mlc.compile(target="cuda", donate="w")(lambda w, g: w - g)
        with pytest.raises(mlc.NotSupportedError, match="shares memory with g"):
            both(before[:8], before[2:])


def test_a_loop_carries_in_the_donated_memory() -> None:
    halved: Any = mlc.compile(target="cuda", donate="w")(
        lambda w: mlc.fori_loop(0, 5, lambda _, c: c * 0.5 + 1, w)
    )
    w = np.full(1000, 34.0, np.float32)
    assert halved(w) is w
    assert (w == 3.0).all()


def test_the_state_of_parameters_on_the_device_is_there() -> None:
    """So the steps after the first two are made by native code: nothing of them is copied."""
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")

    def adam(params: Any, state: Any, x: Any) -> Any:
        def loss(p: Any) -> Any:
            return ((x @ p["w"]) ** 2).mean()

        grads: Any = mlc.grad(loss)(params)
        return mlc.optim.adam(params, grads, state, lr=0.01)

    w, x = RNG.standard_normal((8, 4)), RNG.standard_normal((16, 8))
    params = {"w": torch.from_numpy(w.copy()).cuda()}
    state: Any = mlc.optim.adam_init(params)
    wanted: Any = ({"w": w.copy()}, mlc.optim.adam_init({"w": w}))
    compiled: Any = mlc.compile(target="cuda", donate=("params", "state"))(adam)
    there = torch.from_numpy(x).cuda()
    reference: Any = mlc.compile(adam)
    for _ in range(4):
        params, state = compiled(params, state, there)
        wanted = reference(*wanted, x)
    assert int(np.asarray(state.step)) == 4
    np.testing.assert_allclose(params["w"].cpu().numpy(), wanted[0]["w"], rtol=1e-9)
    stats = compiled.stats()
    assert (stats.calls, stats.compilations + stats.cache_hits) == (4, 1)
