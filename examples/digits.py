"""
Handwritten digits, recognised by their nearest neighbours and by a neural network trained here.

Every numerical function below is plain NumPy. It runs twice: as it stands, and compiled by mlc.
Both go through the same 5-fold stratified cross-validation on the same batches in the same order,
so that their predictions can be compared one by one. examples/README.md describes the data.

    mlc run examples/digits.py
    mlc run examples/digits.py --target cuda --threads 1

The last line is for programs: `accuracy` is the lower one of the two compiled models' means over
the folds, `agreement` the fraction of all predictions that are equal to NumPy's, and `speedup` is
NumPy's time over mlc's. mlc's time counts everything between the import and the last prediction:
tracing, passes, native code (from the disk cache where an earlier run left it) and every call.
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
Params = tuple[F64, ...]  # w1 (64, H), b1 (H,), w2 (H, 10), b2 (10,)

DATA = Path(__file__).with_name("digits.npz")
FOLDS = 5
CLASSES = 10
HIDDEN = 128
BATCH = 64
EPOCHS = 40
RATE = 0.1
MOMENTUM = 0.9


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


def classify(params: Params, x: F64) -> I64:
    """Label of each row by the network. x: (B, 64); result: (B,)."""
    w1, b1, w2, b2 = params
    return (np.maximum(x @ w1 + b1, 0.0) @ w2 + b2).argmax(axis=1)


def train_step(params: Params, velocity: Params, x: F64, y: I64) -> tuple[Params, Params, Any]:
    """
    One step of gradient descent with momentum on the mean cross-entropy. x: (B, 64), y: (B,).

    With p = softmax(scores), the derivative of -log p[y] by the scores is p - onehot(y).
    """
    w1, b1, w2, b2 = params
    before = x @ w1 + b1
    hidden = np.maximum(before, 0.0)
    scores = hidden @ w2 + b2

    shifted = scores - scores.max(axis=1, keepdims=True)
    weight = np.exp(shifted)
    total: F64 = weight.sum(axis=1, keepdims=True)
    target = y[:, None] == np.arange(CLASSES)
    each: F64 = np.log(total) - np.where(target, shifted, 0.0).sum(axis=1, keepdims=True)

    d_scores = (weight / total - np.where(target, 1.0, 0.0)) / x.shape[0]
    d_before = np.where(before > 0.0, d_scores @ w2.T, 0.0)
    gradient = (x.T @ d_before, d_before.sum(axis=0), hidden.T @ d_scores, d_scores.sum(axis=0))

    velocity = tuple(MOMENTUM * v - RATE * g for v, g in zip(velocity, gradient, strict=True))
    params = tuple(p + v for p, v in zip(params, velocity, strict=True))
    return params, velocity, each.mean()


# The experiment around it


@dataclass(frozen=True)
class Program:
    """The three functions as one way of running them, and the seconds that they took."""

    name: str
    nearest: Callable[[F32, I64, F32], I64]
    classify: Callable[[Params, F64], I64]
    train_step: Callable[[Params, Params, F64, I64], tuple[Params, Params, Any]]
    seconds: dict[str, float] = field(default_factory=lambda: {"neighbours": 0.0, "network": 0.0})

    def timed(self, model: str, compute: Callable[[], I64]) -> I64:
        """The result of `compute`, whose time is added to the model's."""
        start = time.perf_counter()
        result = compute()
        self.seconds[model] += time.perf_counter() - start
        return result


@dataclass(frozen=True)
class Fold:
    """One of the five divisions of the data: rows to learn from, rows to be asked about."""

    train: I64
    test: I64
    orders: I64  # (EPOCHS, len(train)): the order of the training rows in each epoch
    start: Params


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
        yield Fold(train, np.flatnonzero(part == k), orders, initial_params(rng))


def initial_params(rng: np.random.Generator) -> Params:
    """Initial weights with variance 2 / inputs of the layer (He et al., ICCV 2015, eq. 10)."""
    w1 = rng.normal(0.0, np.sqrt(2 / 64), (64, HIDDEN))
    w2 = rng.normal(0.0, np.sqrt(2 / HIDDEN), (HIDDEN, CLASSES))
    return w1, np.zeros(HIDDEN), w2, np.zeros(CLASSES)


def train_and_classify(program: Program, fold: Fold, pixels: F64, labels: I64) -> I64:
    """The network's labels for the fold's test rows, after training from the fold's start."""
    params, velocity = fold.start, tuple(np.zeros_like(p) for p in fold.start)
    for order in fold.orders:
        x, y = pixels[order], labels[order]
        for k in range(0, len(order) - BATCH + 1, BATCH):  # a rest is left out, another each time
            params, velocity, _ = program.train_step(
                params, velocity, x[k : k + BATCH], y[k : k + BATCH]
            )
    return program.classify(params, pixels[fold.test])


def run_fold(program: Program, fold: Fold, pixels: F32, labels: I64) -> dict[str, I64]:
    """The labels that each model gives the fold's test rows."""
    train, answers, test = pixels[fold.train], labels[fold.train], pixels[fold.test]
    scaled = pixels.astype(np.float64) / 16.0
    return {
        "neighbours": program.timed("neighbours", lambda: program.nearest(train, answers, test)),
        "network": program.timed(
            "network", lambda: train_and_classify(program, fold, scaled, labels)
        ),
    }


def compiled(target: str | None, threads: int | None) -> tuple[Program, list[Any]]:
    """The functions compiled for `target`, varying sizes left open; and the functions alone."""
    options: dict[str, Any] = {"threads": threads} | ({"target": target} if target else {})
    rows = {"train": {0: "N"}, "labels": {0: "N"}, "test": {0: "B"}}
    functions: list[Any] = [
        mlc.compile(dynamic=rows, **options)(nearest),
        mlc.compile(dynamic={"x": {0: "B"}}, **options)(classify),
        mlc.compile(**options)(train_step),
    ]
    return Program("mlc", *functions), functions


def report(
    programs: tuple[Program, Program],
    accuracy: dict[tuple[str, str], list[float]],
    compile_s: dict[str, float],
) -> None:
    """A table: what each model got right, and how long it took each program."""
    plain, fast = programs
    print(f"\n{'model':12}{'program':9}{'accuracy by fold, %':34}{'mean':>7}{'seconds':>10}")
    for model in plain.seconds:
        for program in programs:
            found = accuracy[model, program.name]
            folds = "  ".join(f"{100 * a:.2f}" for a in found)
            mean = f"{100 * np.mean(found):7.2f}{program.seconds[model]:10.3f}"
            print(f"{model:12}{program.name:9}{folds:34}{mean}")
    print(f"\n{'model':12}{'NumPy / mlc':>14}{'of that, compile s':>20}{'without it':>13}")
    for model, numpy_s in plain.seconds.items():
        mlc_s = fast.seconds[model]
        steady = numpy_s / (mlc_s - compile_s[model])
        print(f"{model:12}{numpy_s / mlc_s:13.2f}x{compile_s[model]:20.3f}{steady:12.2f}x")


def main() -> None:
    """Cross-validate both programs, print the table and the line for programs."""
    parser = argparse.ArgumentParser(description="Handwritten digits with NumPy and with mlc.")
    parser.add_argument("--target", help="machine to compile for, e.g. cuda (default: this CPU)")
    parser.add_argument("--threads", type=int, help="threads of the compiled functions")
    parser.add_argument("--folds", type=int, default=FOLDS, help="stop after this many folds")
    options = parser.parse_args()

    pixels, labels = load()
    plain = Program("NumPy", nearest, classify, train_step)
    fast, functions = compiled(options.target, options.threads)
    programs = (plain, fast)
    accuracy: dict[tuple[str, str], list[float]] = {}
    equal: list[bool] = []
    for fold in list(stratified_folds(labels, np.random.default_rng(7)))[: options.folds]:
        found = {program.name: run_fold(program, fold, pixels, labels) for program in programs}
        for name, models in found.items():
            for model, answers in models.items():
                right = np.equal(answers, labels[fold.test]).mean()
                accuracy.setdefault((model, name), []).append(float(right))
        for model, answers in found["NumPy"].items():
            equal.extend((answers == found["mlc"][model]).tolist())

    stats = [function.stats() for function in functions]
    compile_s = [s.trace_s + s.compile_s for s in stats]
    report(programs, accuracy, {"neighbours": compile_s[0], "network": sum(compile_s[1:])})
    lowest = min(float(np.mean(found)) for (_, name), found in accuracy.items() if name == "mlc")
    speedup = sum(plain.seconds.values()) / sum(fast.seconds.values())
    new, known = sum(s.compilations for s in stats), sum(s.cache_hits for s in stats)
    print(f"\n{len(equal)} predictions compared; {new} compilations, {known} from the cache")
    print(f"accuracy={lowest:.4f} agreement={np.mean(equal):.4f} speedup={speedup:.2f}")


if __name__ == "__main__":
    main()
