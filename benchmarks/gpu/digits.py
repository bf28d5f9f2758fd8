"""Training steps of the networks of examples/train_digits.py: forward to Adam's update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import mlc
from benchmarks.gpu.candidates import captured as captured_calls
from benchmarks.gpu.workload import Array, Group, Workload
from benchmarks.training import jax_step
from examples.train_digits import CLASSES, NETWORKS, SIDE, Network, compiled

Step = Callable[[], Any]

RATE = 1e-3
STEPS = 100  # of a sample: some 2 to 10 ms


def _loss(network: Network, names: Sequence[str], *arrays: Any) -> Any:
    params = dict(zip(names, arrays[:-2], strict=True))
    return mlc.nn.cross_entropy(network.model(params, arrays[-2]), arrays[-1])


def _mlc_steps(network: Network, names: Sequence[str], _: Any, *arrays: Any) -> Step:
    step, _ = compiled(network.model, target="cuda")
    host = [x.cpu().numpy() for x in arrays[:-2]]
    params: Any = {name: mlc.device_put(x) for name, x in zip(names, host, strict=True)}
    state: Any = mlc.optim.adam_init(params)

    def call() -> Any:
        nonlocal params, state
        params, state, loss = step(params, state, arrays[-2], arrays[-1], RATE)
        return loss

    return call


def _jax_steps(network: Network, names: Sequence[str], jax: Any, *arrays: Any) -> Step:
    step = jax_step(network.model.__name__)
    host = [x.cpu().numpy() for x in arrays[:-2]]
    params: Any = {name: jax.numpy.array(p) for name, p in zip(names, host, strict=True)}
    start = mlc.optim.adam_init(dict(zip(names, host, strict=True)))
    state: Any = jax.tree.map(jax.numpy.array, start)
    x, y = (jax.numpy.array(a.cpu().numpy()) for a in (arrays[-2], arrays[-1].int()))

    def call() -> Any:
        nonlocal params, state
        params, state, loss = step(params, state, x, y, RATE)
        return loss

    return call


def _torch_scores(torch: Any, name: str, p: dict[str, Any], x: Any) -> Any:
    functional = torch.nn.functional
    if name == "mlp":
        hidden = torch.relu(x.reshape(len(x), -1) @ p["w1"] + p["b1"])
        return hidden @ p["w2"] + p["b2"]
    h = x[:, None]
    for kernel, shift in (("k1", "c1"), ("k2", "c2")):
        h = functional.conv2d(h, p[kernel].permute(3, 2, 0, 1), padding=1)
        h = torch.relu(h + p[shift][:, None, None])
    h = functional.max_pool2d(h, 2).permute(0, 2, 3, 1)
    return h.reshape(len(x), -1) @ p["w"] + p["b"]


def _torch_steps(
    network: Network, names: Sequence[str], captured: bool, torch: Any, *arrays: Any
) -> Step:
    """One step each call; captured: a copy of the batch, and a graph with all of the step."""
    x, y = arrays[-2].clone(), arrays[-1].clone()
    params = {name: a.clone().requires_grad_() for name, a in zip(names, arrays[:-2], strict=True)}
    adam = torch.optim.Adam(params.values(), lr=RATE, fused=True, capturable=captured)

    def call() -> Any:
        adam.zero_grad(set_to_none=True)
        scores = _torch_scores(torch, network.model.__name__, params, x)
        loss = torch.nn.functional.cross_entropy(scores, y)
        loss.backward()
        adam.step()
        return loss.detach()

    if not captured:
        return call
    replay = captured_calls(torch, call)
    with torch.no_grad():  # back to the start: what is recorded has run before
        for name, a in zip(names, arrays[:-2], strict=True):
            params[name].copy_(a)
        for moments in adam.state.values():
            for moment in moments.values():
                moment.zero_()

    def replayed() -> Any:
        x.copy_(arrays[-2])
        y.copy_(arrays[-1])
        return replay()

    return replayed


def training(network: Network, batch: int) -> Workload:
    """Weights as He et al. start them, biases from 0."""
    start = network.start(np.random.default_rng(0))
    weights = [
        Array(p.shape, "f32", 0.0 if p.ndim == 1 else float(np.sqrt(2 / np.prod(p.shape[:-1]))))
        for p in start.values()
    ]
    images = Array((batch, SIDE, SIDE), "f32")
    labels = Array((batch,), "i64", CLASSES)
    words = {
        "torch": partial(_torch_steps, network, tuple(start), False),
        "graph": partial(_torch_steps, network, tuple(start), True),
        "jax": partial(_jax_steps, network, tuple(start)),
        "mlc": partial(_mlc_steps, network, tuple(start)),
    }
    return Workload(
        f"digits_{network.model.__name__}_{batch}", (*weights, images, labels),
        partial(_loss, network, tuple(start)), words, error=1e-3, steps=STEPS,
    )  # fmt: skip


GROUPS = (
    Group(
        "digits", tuple(training(network, batch) for network in NETWORKS for batch in (64, 512)),
        tuple(training(network, 8) for network in NETWORKS),
    ),
)  # fmt: skip
