# pyright: basic
"""
A network that PyTorch trained and exported, run and trained further without PyTorch.

    mlc run examples/pytorch_model.py

`digits.onnx` is a convolutional network for the first 1,200 of the digits that examples/README.md
describes, of which `--export` makes it anew (that needs `torch` and `onnxscript`). Reading it needs
`onnx`: pip install 'mlc-compiler[onnx]'. The model has one open size, the number of images, and one
compilation serves all. Weights that are arguments can be differentiated: the last layer is trained
on, for writers that it has not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mlc

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
MODEL = Path(__file__).with_name("digits.onnx")
DATA = Path(__file__).with_name("digits.npz")
SEEN = 1200  # images that PyTorch trained on
HELD = 300  # of the others, those that are only looked at
LAST = ("4.weight", "4.bias")
RATE = 0.5
STEPS = 40


def digits() -> tuple[F32, I64]:
    """Images [1797, 1, 8, 8] from 0 to 1, and labels [1797]."""
    with np.load(DATA) as data:
        return data["images"][:, None].astype(np.float32) / 16, data["labels"].astype(np.int64)


def accuracy(scores: F32, labels: I64) -> float:
    """Of scores [n, 10]."""
    return float((scores.argmax(1) == labels).mean())


def train_on(images: F32, labels: I64) -> dict[str, F32]:
    """The weights after `STEPS` of gradient descent in the last layer."""
    network = mlc.onnx.load(MODEL, weights="arguments")
    wanted = np.eye(10, dtype=np.float32)[labels]

    def loss(last: dict[str, F32]) -> Any:
        scores = network(images, **last)
        scores = scores - scores.max(1, keepdims=True)
        return (np.log(np.exp(scores).sum(1)) - (scores * wanted).sum(1)).mean()

    slopes = mlc.compile(mlc.grad(loss))
    last = {name: np.array(network.weights[name]) for name in LAST}
    for _ in range(STEPS):
        found = slopes(last)
        last = {name: w - np.float32(RATE) * np.asarray(found[name]) for name, w in last.items()}
    return last


def export() -> None:
    """Trains the network with PyTorch, which writes `digits.onnx`, less its notes on files."""
    import onnx
    import torch  # pyright: ignore[reportMissingImports]

    images, labels = (torch.from_numpy(x[:SEEN]) for x in digits())
    torch.manual_seed(0)
    layers = torch.nn
    network = layers.Sequential(
        layers.Conv2d(1, 16, 3, padding=1), layers.ReLU(), layers.MaxPool2d(2), layers.Flatten(),
        layers.Linear(256, 10),
    )  # fmt: skip
    descent = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(30):
        descent.zero_grad()
        layers.functional.cross_entropy(network(images), labels).backward()
        descent.step()
    torch.onnx.export(
        network.eval(), (images[:2],), MODEL, input_names=["images"], output_names=["scores"],
        dynamic_shapes=({0: torch.export.Dim("n")},), external_data=False,
    )  # fmt: skip
    model = onnx.load(MODEL)
    graph = model.graph
    for part in (model, graph, *graph.node, *graph.value_info, *graph.input, *graph.output):
        part.ClearField("metadata_props")
    onnx.save(model, MODEL)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the model on digits that it has not seen, as it is and trained further."""
    parser = argparse.ArgumentParser(description="A network from PyTorch, by ONNX.")
    parser.add_argument("--export", action="store_true", help="make the model anew with PyTorch")
    if parser.parse_args(arguments).export:
        export()
    images, labels = digits()
    network = mlc.onnx.load(MODEL)
    parts = [network(images[first : first + 64]) for first in range(SEEN, len(images), 64)]
    one = network(images[SEEN : SEEN + 1])
    assert np.allclose(one, parts[0][:1], atol=1e-5)
    before = np.concatenate(parts)[-HELD:]
    last = train_on(images[SEEN:-HELD], labels[SEEN:-HELD])
    after = mlc.onnx.load(MODEL, weights="arguments")(images[-HELD:], **last)
    print(
        f"before={accuracy(before, labels[-HELD:]):.4f} after={accuracy(after, labels[-HELD:]):.4f}"
        f" compilations={len(network.programs())}"
    )


if __name__ == "__main__":
    main()
