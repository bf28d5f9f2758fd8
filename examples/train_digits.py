"""
Two networks learn to read handwritten digits; each is trained by one compiled function.

The step is written as one would write it for NumPy: the loss of a batch, its gradient, Adam's
update. `mlc.compile` makes one native function of it all, forward and backward, and with `donate=`
the parameters and the optimiser's state are updated where they lie. Both networks go through 5-fold
stratified cross-validation. examples/README.md describes the data.

    mlc run examples/train_digits.py
    mlc run examples/train_digits.py --folds 1 --epochs 3

The last line is for programs: mean accuracy over the folds; training steps per second, what is done
between them and the first calls included; seconds of all training; and how many programs the steps
needed, compiled now or by an earlier run: one for each network.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mlc

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
Params = dict[str, F32]

DATA = Path(__file__).with_name("digits.npz")
SIDE = 8  # pixels
CLASSES = 10
FOLDS = 5
BATCH = 64


# The networks: parameters and images (B, 8, 8) to scores (B, 10)


def mlp(p: Params, x: F32) -> F32:
    """Two layers, of which the first has rectified outputs."""
    hidden = np.maximum(x.reshape(-1, SIDE * SIDE) @ p["w1"] + p["b1"], 0)
    return hidden @ p["w2"] + p["b2"]


def cnn(p: Params, x: F32) -> F32:
    """Two convolutions of 3 by 3 pixels, the largest of each 2 by 2 results, and a layer."""
    h = np.maximum(convolution(x[..., None], p["k1"]) + p["c1"], 0)
    h = np.maximum(convolution(h, p["k2"]) + p["c2"], 0)
    half = SIDE // 2
    h = h.reshape(-1, half, 2, half, 2, h.shape[-1]).max(axis=(2, 4))
    return h.reshape(h.shape[0], -1) @ p["w"] + p["b"]


def convolution(x: F32, w: F32) -> F32:
    """x: (B, 8, 8, C), w: (3, 3, C, F); result: (B, 8, 8, F)."""
    return mlc.nn.conv(x, w, padding=1, layout="channels_last")  # pyright: ignore[reportReturnType]


def normal(rng: np.random.Generator, *shape: int) -> F32:
    """Weights with variance 2 / inputs of their layer (He et al., ICCV 2015, eq. 10)."""
    inputs = np.prod(shape[:-1])
    return rng.normal(0, np.sqrt(2 / inputs), shape).astype(np.float32)


def zeros(*shape: int) -> F32:
    """Where biases start."""
    return np.zeros(shape, np.float32)


def mlp_start(rng: np.random.Generator, hidden: int = 256) -> Params:
    """Parameters of an untrained `mlp`."""
    return {
        "w1": normal(rng, SIDE * SIDE, hidden),
        "b1": zeros(hidden),
        "w2": normal(rng, hidden, CLASSES),
        "b2": zeros(CLASSES),
    }


def cnn_start(rng: np.random.Generator, few: int = 16, many: int = 32) -> Params:
    """Parameters of an untrained `cnn`."""
    return {
        "k1": normal(rng, 3, 3, 1, few),
        "c1": zeros(few),
        "k2": normal(rng, 3, 3, few, many),
        "c2": zeros(many),
        "w": normal(rng, (SIDE // 2) ** 2 * many, CLASSES),
        "b": zeros(CLASSES),
    }


# Training


@dataclass(frozen=True)
class Network:
    """A model with what training it takes."""

    model: Callable[[Params, F32], F32]
    start: Callable[[np.random.Generator], Params]
    rate: float  # Adam's, at the start; it goes down to 0 along half a cosine
    epochs: int


NETWORKS = (Network(mlp, mlp_start, 5e-3, 80), Network(cnn, cnn_start, 4e-3, 40))


def compiled(model: Callable[[Params, F32], F32], **options: Any) -> tuple[Any, Any]:
    """The network's training step and its classifier."""

    @mlc.compile(donate=("params", "state"), **options)
    def step(params: Params, state: Any, x: F32, y: I64, rate: float) -> tuple[Params, Any, Any]:
        def loss(params: Params) -> Any:
            return mlc.nn.cross_entropy(model(params, x), y)

        value, gradient = mlc.value_and_grad(loss)(params)
        params, state = mlc.optim.adam(params, gradient, state, lr=rate)
        return params, state, value

    @mlc.compile(dynamic={"x": {0: "B"}}, **options)
    def classify(params: Params, x: F32) -> I64:
        return model(params, x).argmax(axis=1)

    return step, classify


def train(
    network: Network, step: Any, x: F32, y: I64, epochs: int, rng: np.random.Generator
) -> Params:
    """Parameters after `epochs` passes over the images, in batches of changing order."""
    params = network.start(rng)
    state = mlc.optim.adam_init(params)
    batches = len(x) // BATCH  # a rest is left out, another each time
    for epoch in range(epochs):
        order = rng.permutation(len(x))
        images, labels = shifted(x[order], rng), y[order]
        for k in range(batches):
            part = slice(k * BATCH, (k + 1) * BATCH)
            done = (epoch + k / batches) / epochs
            rate = network.rate * (1 + np.cos(np.pi * done)) / 2
            params, state, _ = step(params, state, images[part], labels[part], float(rate))
    return params


def shifted(images: F32, rng: np.random.Generator) -> F32:
    """The images, some of them moved by one pixel: up or down, left or right, or both."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (SIDE, SIDE), axis=(1, 2))
    rows, columns = rng.choice(3, (2, len(images)), p=(0.2, 0.6, 0.2))
    return windows[np.arange(len(images)), rows, columns]


# The experiment around it


def load() -> tuple[F32, I64]:
    """Images (1797, 8, 8) with values 0 … 1, and labels (1797,)."""
    with np.load(DATA) as data:
        images: NDArray[np.uint8] = data["images"]
        labels: NDArray[np.uint8] = data["labels"]
    return images.astype(np.float32) / np.float32(16), labels.astype(np.int64)


def stratified_folds(labels: I64, rng: np.random.Generator) -> Iterator[tuple[I64, I64]]:
    """(rows to learn from, rows to be asked about) five times; each digit has its share in each."""
    part = np.empty(len(labels), np.int64)
    for digit in range(CLASSES):
        rows = rng.permutation(np.flatnonzero(labels == digit))
        part[rows] = (np.arange(len(rows)) + digit) % FOLDS  # + digit: the remainders spread too
    for k in range(FOLDS):
        yield np.flatnonzero(part != k), np.flatnonzero(part == k)


def progress(items: Iterable[Any], label: str) -> Iterable[Any]:
    """The items, with a progress bar where there is a terminal and tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return items
    return tqdm(items, label, leave=False, disable=None)  # None: off where stderr is no terminal


def main() -> None:
    """Cross-validate both networks, print a table and the line for programs."""
    parser = argparse.ArgumentParser(description="Networks that learn to read digits.")
    parser.add_argument("--target", help="machine to compile for, e.g. cuda (default: this CPU)")
    parser.add_argument("--threads", type=int, default=1, help="of compiled functions (default: 1)")
    parser.add_argument("--folds", type=int, default=FOLDS, help="stop after this many folds")
    parser.add_argument("--epochs", type=int, help="of each network (default: 80 and 40)")
    options = parser.parse_args()
    images, labels = load()
    folds = list(stratified_folds(labels, np.random.default_rng(7)))[: options.folds]

    summary: list[str] = []
    programs, total = 0, 0.0
    print(f"{'network':9}{'accuracy by fold, %':34}{'mean':>7}{'steps/s':>9}")
    for network in NETWORKS:
        name, epochs = network.model.__name__, options.epochs or network.epochs
        settings = {"target": options.target, "threads": options.threads}
        step, classify = compiled(network.model, **settings)
        rng = np.random.default_rng(11)
        right: list[float] = []
        seconds = 0.0
        for rows, asked in progress(folds, name):
            start = time.perf_counter()
            params = train(network, step, images[rows], labels[rows], epochs, rng)
            seconds += time.perf_counter() - start
            found: I64 = classify(params, images[asked])
            right.append(float(np.equal(found, labels[asked]).mean()))
        stats = step.stats()
        programs += stats.compilations + stats.cache_hits
        total += seconds
        mean, per_s = np.mean(right), stats.calls / seconds
        by_fold = "  ".join(f"{100 * a:.2f}" for a in right)
        print(f"{name:9}{by_fold:34}{100 * mean:7.2f}{per_s:9.0f}")
        summary += [f"{name}_accuracy={mean:.4f}", f"{name}_steps_per_s={per_s:.0f}"]
    print(*summary, f"seconds={total:.1f}", f"compilations={programs}")


if __name__ == "__main__":
    main()
