"""
Handwritten digits, recognised by their nearest neighbours and by a neural network trained here.

Every numerical function below is plain NumPy. It runs twice: as it stands, and compiled by mlc.
Both go through the same 5-fold stratified cross-validation on the same batches in the same order,
so that their predictions can be compared one by one. examples/README.md describes the data.

    mlc run examples/digits.py
    mlc run examples/digits.py --threads 2 --target cuda

The last line is for programs: `accuracy` is the lower one of the two compiled models' means over
the folds, `agreement` the fraction of all predictions that are equal to NumPy's, and `speedup` is
NumPy's time over mlc's. mlc's time counts everything after `import mlc`: the first calls, which
load the compiler, trace and compile (or find the code on the disk where an earlier run left it),
and all calls after them. mlc uses one thread unless told otherwise, since a batch of 64 rows is
little to share; NumPy's BLAS as many as it wants, or as OPENBLAS_NUM_THREADS says.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mlc

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
State = tuple[F64, ...]  # w1 (64, H), b1 (H,), w2 (H, 10), b2 (10,), and their velocities

DATA = Path(__file__).with_name("digits.npz")
FOLDS = 5
CLASSES = 10
HIDDEN = 128
BATCH = 64
EPOCHS = 150
RATE = 0.1
MOMENTUM = 0.9
FIRST = "first calls"


# The numerical part: NumPy functions, compiled further below without a change


def nearest(train: F32, labels: I64, test: F32) -> I64:
    """
    Label of each test image: two votes of its three nearest training images, else the nearest's.

    train: (N, 64), labels: (N,), test: (B, 64); result: (B,). |t - s|^2 = |t|^2 - 2 t.s + |s|^2.
    Pixels are integers up to 16, so every distance is an integer below 2^24: exact in float32.
    """
    products = test @ train.T
    distance = (test * test).sum(axis=1)[:, None] - 2.0 * products + (train * train).sum(axis=1)
    columns = np.arange(train.shape[0], dtype=np.int64)
    first = distance.argmin(axis=1)
    distance = np.where(columns == first[:, None], np.inf, distance)
    second = distance.argmin(axis=1)
    distance = np.where(columns == second[:, None], np.inf, distance)
    third = distance.argmin(axis=1)
    a, b, c = labels[first], labels[second], labels[third]
    return np.where(b == c, b, a)


def classify(w1: F64, b1: F64, w2: F64, b2: F64, x: F64) -> I64:
    """Label of each row by the network. w1: (64, H), w2: (H, 10), x: (B, 64); result: (B,)."""
    return (np.maximum(x @ w1 + b1, 0.0) @ w2 + b2).argmax(axis=1)


def train_step(
    w1: F64, b1: F64, w2: F64, b2: F64, v1: F64, c1: F64, v2: F64, c2: F64, x: F64, y: I64
) -> State:
    """
    The state after one step down the gradient of the mean cross-entropy. x: (B, 64), y: (B,).

    v1, c1, v2, c2 are the velocities of w1, b1, w2, b2. With p = softmax(scores), the derivative of
    -log p[y] by the scores is p - onehot(y).
    """
    before = x @ w1 + b1
    hidden = np.maximum(before, 0.0)
    scores = hidden @ w2 + b2

    weight = np.exp(scores - scores.max(axis=1, keepdims=True))
    target = np.where(y[:, None] == np.arange(CLASSES), 1.0, 0.0)
    d_scores = (weight / weight.sum(axis=1, keepdims=True) - target) / x.shape[0]
    d_before = np.where(before > 0.0, d_scores @ w2.T, 0.0)

    v1 = MOMENTUM * v1 - RATE * (x.T @ d_before)
    c1 = MOMENTUM * c1 - RATE * d_before.sum(axis=0)
    v2 = MOMENTUM * v2 - RATE * (hidden.T @ d_scores)
    c2 = MOMENTUM * c2 - RATE * d_scores.sum(axis=0)
    return w1 + v1, b1 + c1, w2 + v2, b2 + c2, v1, c1, v2, c2


# The experiment around it


@dataclass(frozen=True)
class Program:
    """The three functions as one way of running them, and the seconds that they took."""

    name: str
    nearest: Callable[[F32, I64, F32], I64]
    classify: Callable[..., I64]
    train_step: Callable[..., State]
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def timed(self, part: str, compute: Callable[[], I64]) -> I64:
        """The result of `compute`, whose time is added to that part's."""
        start = time.perf_counter()
        result = compute()
        self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - start
        return result


@dataclass(frozen=True)
class Fold:
    """One of the five divisions of the data: rows to learn from, rows to be asked about."""

    train: I64
    test: I64
    orders: I64  # (EPOCHS, len(train)): the order of the training rows in each epoch
    start: State


def load() -> tuple[F32, I64]:
    """Pixels (1797, 64), as float32 whole numbers 0 … 16, and labels (1797,)."""
    with np.load(DATA) as data:
        images: NDArray[np.uint8] = data["images"]
        labels: NDArray[np.uint8] = data["labels"]
    return images.reshape(len(images), -1).astype(np.float32), labels.astype(np.int64)


def stratified_folds(labels: I64, rng: np.random.Generator) -> Iterator[Fold]:
    """Five folds in each of which every digit has its share, with all that is random in them."""
    part = np.empty(len(labels), np.int64)
    for digit in range(CLASSES):
        rows = rng.permutation(np.flatnonzero(labels == digit))
        part[rows] = (np.arange(len(rows)) + digit) % FOLDS  # + digit: the remainders spread too
    for k in range(FOLDS):
        train = np.flatnonzero(part != k)
        orders = np.stack([rng.permutation(train) for _ in range(EPOCHS)])
        yield Fold(train, np.flatnonzero(part == k), orders, initial_state(rng))


def initial_state(rng: np.random.Generator) -> State:
    """Weights with variance 2 / inputs of their layer (He et al., ICCV 2015, eq. 10), at rest."""
    w1 = rng.normal(0.0, np.sqrt(2 / 64), (64, HIDDEN))
    w2 = rng.normal(0.0, np.sqrt(2 / HIDDEN), (HIDDEN, CLASSES))
    params = (w1, np.zeros(HIDDEN), w2, np.zeros(CLASSES))
    return params + tuple(np.zeros_like(p) for p in params)


def train_and_classify(program: Program, fold: Fold, pixels: F64, labels: I64) -> I64:
    """The network's labels for the fold's test rows, after training from the fold's start."""
    state = fold.start
    for order in fold.orders:
        x, y = pixels[order], labels[order]
        for k in range(0, len(order) - BATCH + 1, BATCH):  # a rest is left out, another each time
            state = program.train_step(*state, x[k : k + BATCH], y[k : k + BATCH])
    return program.classify(*state[:4], pixels[fold.test])


def first_calls(program: Program, fold: Fold, pixels: F32, labels: I64) -> None:
    """Each function once: what a compiled function does only at its first call happens here."""
    train, test = pixels[fold.train], pixels[fold.test]
    x, y = pixels[:BATCH] / np.float64(16), labels[:BATCH]
    program.timed(FIRST, lambda: program.nearest(train, labels[fold.train], test))
    program.timed(FIRST, lambda: program.classify(*fold.start[:4], x))
    program.timed(FIRST, lambda: program.train_step(*fold.start, x, y)[0].astype(np.int64))


def run_fold(program: Program, fold: Fold, pixels: F32, labels: I64) -> dict[str, I64]:
    """The labels that each model gives the fold's test rows."""
    train, answers, test = pixels[fold.train], labels[fold.train], pixels[fold.test]
    scaled = pixels / np.float64(16)
    return {
        "neighbours": program.timed("neighbours", lambda: program.nearest(train, answers, test)),
        "network": program.timed(
            "network", lambda: train_and_classify(program, fold, scaled, labels)
        ),
    }


def compiled(target: str | None, threads: int) -> tuple[Program, list[Any]]:
    """The functions compiled for `target`, varying sizes left open; and the functions alone."""
    options: dict[str, Any] = {"threads": threads} | ({"target": target} if target else {})
    rows = {"train": {0: "N"}, "labels": {0: "N"}, "test": {0: "B"}}
    functions: list[Any] = [
        mlc.compile(dynamic=rows, **options)(nearest),
        mlc.compile(dynamic={"x": {0: "B"}}, **options)(classify),
        mlc.compile(**options)(train_step),
    ]
    return Program("mlc", *functions), functions


def report(plain: Program, fast: Program, accuracy: dict[str, list[float]], stats: Any) -> float:
    """Print what the models got right and the time of both programs; the speedup of the whole."""
    print(f"\n{'compiled model':16}{'accuracy by fold, %':34}{'mean':>7}")
    for model, found in accuracy.items():
        folds = "  ".join(f"{100 * a:.2f}" for a in found)
        print(f"{model:16}{folds:34}{100 * np.mean(found):7.2f}")
    total = (sum(plain.seconds.values()), sum(fast.seconds.values()))
    rows = {m: (plain.seconds.get(m, 0.0), s) for m, s in fast.seconds.items()} | {"all": total}
    print(f"\n{'part':16}{'NumPy, s':>10}{'mlc, s':>10}{'NumPy / mlc':>14}")
    for part, (numpy_s, mlc_s) in rows.items():
        ratio = f"{numpy_s / mlc_s:.2f}" if numpy_s else ""
        print(f"{part:16}{numpy_s:10.3f}{mlc_s:10.3f}{ratio:>14}")
    trace_s, compile_s = sum(s.trace_s for s in stats), sum(s.compile_s for s in stats)
    new, known = sum(s.compilations for s in stats), sum(s.cache_hits for s in stats)
    print(
        f"\n{FIRST}: {trace_s:.3f} s tracing, {compile_s:.3f} s for {new} compilations and"
        f" {known} functions from the cache; the rest loads the compiler"
    )
    return total[0] / total[1]


def main() -> None:
    """Cross-validate both programs, print the tables and the line for programs."""
    parser = argparse.ArgumentParser(description="Handwritten digits with NumPy and with mlc.")
    parser.add_argument("--target", help="machine to compile for, e.g. cuda (default: this CPU)")
    parser.add_argument("--threads", type=int, default=1, help="of compiled functions (default: 1)")
    parser.add_argument("--folds", type=int, default=FOLDS, help="stop after this many folds")
    options = parser.parse_args()

    pixels, labels = load()
    folds = list(stratified_folds(labels, np.random.default_rng(7)))[: options.folds]
    plain = Program("NumPy", nearest, classify, train_step)
    fast, functions = compiled(options.target, options.threads)
    first_calls(fast, folds[0], pixels, labels)
    accuracy: dict[str, list[float]] = {}
    equal: list[bool] = []
    for fold in folds:
        expected = run_fold(plain, fold, pixels, labels)
        for model, found in run_fold(fast, fold, pixels, labels).items():
            right = np.equal(found, labels[fold.test]).mean()
            accuracy.setdefault(model, []).append(float(right))
            equal.extend(np.equal(found, expected[model]).tolist())

    speedup = report(plain, fast, accuracy, [function.stats() for function in functions])
    lowest = min(float(np.mean(found)) for found in accuracy.values())
    print(f"{len(equal)} predictions compared with NumPy's")
    print(f"accuracy={lowest:.4f} agreement={np.mean(equal):.4f} speedup={speedup:.2f}")


if __name__ == "__main__":
    main()
