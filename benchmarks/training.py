"""
Training steps beside JAX's: the networks of examples/train_digits.py, forward to update.

`steps`: 20 steps after one another, as in training, first calls not counted. `training`: a fresh
process trains on one fold, `--epochs` times over the images, compilation included, nothing known
from an earlier run. JAX takes part where it is installed; both run the example's own loop.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Settings, Table, paired, report, settings
from examples.train_digits import NETWORKS, Network, compiled, load, stratified_folds, train
from mlc.optim import adam_init

STEPS = 20
ROOT = Path(__file__).parent.parent
HAS_JAX = importlib.util.find_spec("jax") is not None


def jax_step(name: str) -> Callable[..., Any]:
    """The example's training step in JAX, with its arguments."""
    import jax  # pyright: ignore[reportMissingImports]

    found: Any = jax
    jnp, lax = found.numpy, found.lax

    def mlp(p: Any, x: Any) -> Any:
        hidden = jnp.maximum(x.reshape(x.shape[0], -1) @ p["w1"] + p["b1"], 0)
        return hidden @ p["w2"] + p["b2"]

    def convolution(x: Any, w: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout)

    def cnn(p: Any, x: Any) -> Any:
        h = jnp.maximum(convolution(x[..., None], p["k1"]) + p["c1"], 0)
        h = jnp.maximum(convolution(h, p["k2"]) + p["c2"], 0)
        h = h.reshape(-1, h.shape[1] // 2, 2, h.shape[2] // 2, 2, h.shape[-1]).max(axis=(2, 4))
        return h.reshape(h.shape[0], -1) @ p["w"] + p["b"]

    model = {"mlp": mlp, "cnn": cnn}[name]

    def step(params: Any, state: Any, x: Any, y: Any, rate: Any) -> Any:
        def loss(p: Any) -> Any:
            logs = found.nn.log_softmax(model(p, x))
            return -jnp.take_along_axis(logs, y[:, None], 1).mean()

        value, g = found.value_and_grad(loss)(params)
        t = state.step + 1
        mean = {k: 0.9 * m + 0.1 * g[k] for k, m in state.mean.items()}
        square = {k: 0.999 * s + 0.001 * g[k] * g[k] for k, s in state.square.items()}
        one, two = 1 - 0.9**t, 1 - 0.999**t
        params = {
            k: p - rate * (mean[k] / one) / (jnp.sqrt(square[k] / two) + 1e-8)
            for k, p in params.items()
        }
        return params, type(state)(t, mean, square), value

    return found.jit(step, donate_argnums=(0, 1))


def step_of(library: str, network: Network, threads: int) -> Any:
    """The compiled step of one of the libraries."""
    if library == "JAX":
        return jax_step(network.model.__name__)
    return compiled(network.model, threads=threads)[0]


def some_steps(step: Any, network: Network) -> Callable[[], object]:
    """A call that takes STEPS steps from where the last one ended."""
    images, labels = load()
    x, y = images[:64], labels[:64]
    params: Any = network.start(np.random.default_rng(0))
    kept: list[Any] = [params, adam_init(params)]

    def call() -> object:
        loss: Any = None
        for _ in range(STEPS):
            kept[0], kept[1], loss = step(kept[0], kept[1], x, y, 1e-3)
        np.asarray(kept[0]["w" if "w" in kept[0] else "w1"])  # JAX waits here
        return float(loss)

    return call


def steps(options: Settings) -> Table:
    """Both libraries' steps, taking turns."""
    table = Table("a training step, batches of 64", ["network", "mlc", "JAX", "JAX / mlc"])
    for network in NETWORKS:
        ours = some_steps(step_of("mlc", network, options.threads), network)
        if HAS_JAX:
            theirs = some_steps(step_of("JAX", network, options.threads), network)
            mine, other, ratio = paired(ours, theirs, options.rounds, options.settle_s)
            row = (mine / STEPS, other / STEPS, f"{ratio:.2f}")
        else:
            row = (paired(ours, ours, options.rounds)[0] / STEPS, "not installed", "")
        table.add(network.model.__name__, *row)
    return table


def whole(library: str, number: int, epochs: int, threads: int) -> float:
    """Seconds of training on one fold, in this process; the libraries are imported before."""
    if library == "JAX":
        importlib.import_module("jax")
    network = NETWORKS[number]
    images, labels = load()
    rows, _ = next(stratified_folds(labels, np.random.default_rng(7)))
    begin = time.perf_counter()
    step = step_of(library, network, threads)
    params = train(network, step, images[rows], labels[rows], epochs, np.random.default_rng(0))
    for p in params.values():
        np.asarray(p)
    return time.perf_counter() - begin


def training(options: Settings) -> Table:
    """Medians over fresh processes, which take turns."""
    table = Table(
        "training on one fold, compilation included",
        ["network", "epochs", "mlc", "JAX", "JAX / mlc"],
    )
    rounds = 3 if options.quick else 5
    for number, network in enumerate(NETWORKS):
        epochs = max(1, network.epochs // (10 if options.quick else 1))
        samples: dict[str, list[float]] = {"mlc": [], **({"JAX": []} if HAS_JAX else {})}
        for _ in range(rounds):
            for library, found in samples.items():
                arguments = [library, str(number), str(epochs), str(options.threads)]
                with tempfile.TemporaryDirectory() as cache:
                    command = [sys.executable, "-m", "benchmarks.training", "--one", *arguments]
                    environment = {**os.environ, "MLC_CACHE_DIR": cache}
                    text = subprocess.check_output(command, cwd=ROOT, env=environment, text=True)
                found.append(json.loads(text.splitlines()[-1]))
        medians = {name: statistics.median(found) for name, found in samples.items()}
        pairs = zip(samples["mlc"], samples.get("JAX", ()), strict=False)
        ratio = [theirs / ours for ours, theirs in pairs]
        table.add(
            network.model.__name__,
            epochs,
            medians["mlc"],
            medians.get("JAX", "not installed"),
            f"{statistics.median(ratio):.2f}" if ratio else "",
        )
    return table


def main() -> None:
    """Print both tables, or the seconds of one training."""
    if sys.argv[1:2] == ["--one"]:
        library, number, epochs, threads = sys.argv[2:]
        print(json.dumps(whole(library, int(number), int(epochs), int(threads))))
        return
    options = settings(__doc__ or "")
    report(options, steps(options), training(options))


if __name__ == "__main__":
    main()
