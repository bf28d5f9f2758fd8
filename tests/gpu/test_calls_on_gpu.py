"""Calls that are made again by native code: streams, threads, graphs, late errors, flat memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import mlc

pytestmark = pytest.mark.gpu


def chain(x: Any, y: Any) -> Any:
    """As many kernels as it has lines, without fusion."""
    for _ in range(6):
        x = x * 0.5 + y
    return x, x + y


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def _compiled() -> Any:
    return mlc.compile(target="cuda", fusion="none")(chain)


def test_graphs_with_addresses_that_change(torch: Any) -> None:
    f = _compiled()
    kept: list[Any] = []
    for k in range(40):
        x = torch.randn(1000 + k % 3, device="cuda")
        y = torch.randn(1000 + k % 3, device="cuda")
        kept.append((f(x, y), chain(x, y)))
        if k % 7 == 0:
            kept.append((x, x))  # other addresses from here on
    for found, wanted in kept:
        for a, b in zip(found, wanted, strict=True):
            assert torch.allclose(a, b)


def test_arrays_of_our_own() -> None:
    f = _compiled()
    rng = np.random.default_rng(0)
    for _ in range(5):
        x, y = (rng.random(1000, np.float32) for _ in range(2))
        found = f(mlc.device_put(x), mlc.device_put(y))
        for a, b in zip(found, chain(x, y), strict=True):
            assert isinstance(a, mlc.DeviceArray)
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-6)


def test_our_arrays_and_those_of_torch(torch: Any) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    there = mlc.device_put(x)
    shared = torch.from_dlpack(there)
    assert shared.tolist() == x.tolist()
    shared += 1
    np.testing.assert_array_equal(np.asarray(there), x + 1)
    other = torch.as_tensor(there, device="cuda")  # by the CUDA array interface
    assert other.data_ptr() == shared.data_ptr()

    def add(a: Any, b: Any) -> Any:
        return a + b

    total = mlc.compile(target="cuda")(add)
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(total(there, shared)), 2 * x + 2)


def test_two_threads_on_two_streams(torch: Any) -> None:
    f = _compiled()
    faults: list[str] = []

    def work(seed: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for k in range(60):
                x = torch.full((4096,), float(seed + k), device="cuda")
                y = torch.full((4096,), 1.0 + seed, device="cuda")
                found, wanted = f(x, y), chain(x, y)
                if not all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True)):
                    faults.append(f"call {k} of thread {seed}")

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


def test_work_waits_for_the_callers_stream(torch: Any) -> None:
    f = _compiled()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for k in range(5):
            x = torch.zeros(1 << 24, device="cuda")
            for _ in range(20):
                x += 1  # still under way when the call is made
            found, _ = f(x, x)
            assert float(found[-1]) == float(chain(20.0, 20.0)[0]), k


def test_an_error_is_raised_by_a_later_call(torch: Any) -> None:
    def pick(x: Any, i: Any) -> Any:
        return x[i] + 1.0

    f = mlc.compile(target="cuda")(pick)
    x, good = torch.arange(5.0, device="cuda"), torch.tensor([0, 4], device="cuda")
    for _ in range(3):
        assert f(x, good).tolist() == [1.0, 5.0]
    for _ in range(2):
        f(x, torch.tensor([0, 7], device="cuda"))
        torch.cuda.synchronize()
        with pytest.raises(IndexError, match="index 7 is out of bounds for an axis of size 5"):
            f(x, good)
        assert f(x, good).tolist() == [1.0, 5.0]
    found = f(mlc.device_put(np.arange(5.0, dtype=np.float32)), mlc.device_put(np.array([9, 0])))
    with pytest.raises(IndexError, match="index 9"):
        np.asarray(found)


def test_memory_stays_flat(torch: Any) -> None:
    """
    100,000 calls of 40 shapes. What is free is the whole device's, and others use it too: a leak
    shows in every round.
    """
    f = _compiled()

    def taken() -> int:
        before = int(torch.cuda.mem_get_info()[0])
        for k in range(17_000):
            x = torch.ones(256 + 64 * (k % 40), device="cuda")
            f(x, x)
        torch.cuda.synchronize()
        return before - int(torch.cuda.mem_get_info()[0])

    taken()
    assert min(taken() for _ in range(5)) < 4 << 20


def test_a_loop_of_the_host_is_made_again(torch: Any) -> None:
    def looped(x: Any) -> Any:
        return mlc.fori_loop(0, 7, lambda k, c: c * 0.5 + k + c.sum() * 0.0, x)

    f: Any = mlc.compile(target="cuda")(looped)
    x = torch.ones(1000, device="cuda")
    wanted = looped(np.ones(1000, np.float32))
    for _ in range(3):
        np.testing.assert_allclose(f(x).cpu().numpy(), wanted, rtol=1e-6)


def test_numbers_among_the_arguments(torch: Any) -> None:
    def step(x: Any, rate: Any, count: Any) -> Any:
        return x * rate + count

    f: Any = mlc.compile(target="cuda")(step)
    x = torch.ones(1000, device="cuda")
    for k in range(12):
        assert torch.equal(f(x, 0.5 * k, k), step(x, 0.5 * k, k))


def test_a_training_step_in_place(torch: Any) -> None:
    def step(params: Any, x: Any, rate: Any) -> Any:
        error = x @ params["w"] + params["b"]
        new = {"w": params["w"] - rate * (x.T @ error), "b": params["b"] - rate * error.sum(axis=0)}
        return new, (error * error).mean()

    f: Any = mlc.compile(target="cuda", donate="params")(step)
    rng = np.random.default_rng(0)
    start = {"w": rng.standard_normal((20, 8)), "b": rng.standard_normal(8)}
    x = rng.standard_normal((64, 20))
    mine = {k: torch.from_numpy(v).cuda() for k, v in start.items()}
    there = torch.from_numpy(x).cuda()
    for k in range(8):
        start, wanted = step(start, x, 0.001 * k)
        mine, loss = f(mine, there, 0.001 * k)
        np.testing.assert_allclose(float(loss), wanted, rtol=1e-9)
    for key, value in start.items():
        np.testing.assert_allclose(mine[key].cpu().numpy(), value, rtol=1e-9)
