"""
Ten graphs without and with `mlc superopt`: `python -m benchmarks.superopt`; with `--curves`, what
the best program so far should take, over plans.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mlc
from mlc import nn
from mlc.backends import backend_of
from mlc.calls import inputs_of
from mlc.rule_files import verified
from mlc.superopt import compiled, superopt

RULES = Path(__file__).parent.parent / "tests" / "data" / "rules" / "right.rules"
PLANS = 60
POINTS = (1, 2, 4, 8, 16, 32, 60)  # of curves
Type = Any


def two_inputs(x: Any, y: Any, w: Any) -> Any:
    """One layer of two inputs, added."""
    return np.tanh(x @ w + y @ w)


def two_layers(x: Any, v: Any, w: Any) -> Any:
    """Two layers of one input, added: an adapter beside a layer."""
    return np.tanh(x @ v + x @ w)


def three_layers(x: Any, u: Any, v: Any, w: Any) -> Any:
    """Three of them."""
    return x @ u + x @ v + x @ w


def branches(x: Any, v: Any, w: Any) -> Any:
    """Convolutions of one input, added."""
    return np.maximum(nn.conv(x, v, padding=1) + nn.conv(x, w, padding=1), 0)


def inception(x: Any, v: Any, w: Any) -> Any:
    """Convolutions of one input, side by side."""
    both = [nn.conv(x, v, padding=1), nn.conv(x, w, padding=1)]
    return np.concatenate(both, axis=1)


def residual(x: Any, v: Any, w: Any) -> Any:
    """A block of a residual network."""
    y = np.maximum(nn.conv(x, v, padding=1), 0)
    return np.maximum(x + nn.conv(y, w, padding=1), 0)


def mlp(x: Any, v: Any, w: Any) -> Any:
    """Two layers."""
    return np.maximum(x @ v, 0) @ w


def attention(q: Any, k: Any, v: Any) -> Any:
    """One head."""
    scores = q @ k.T / 8
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ v


def cell(x: Any, h: Any, v: Any, w: Any) -> Any:
    """A recurrent cell."""
    return np.tanh(x @ v + h @ w)


def total(x: Any, w: Any) -> Any:
    """A sum over rows of a product."""
    return (x @ w).sum(axis=0)


SQUARE = mlc.TensorSpec(256, 256)
IMAGE, FILTER = mlc.TensorSpec(1, 32, 28, 28), mlc.TensorSpec(32, 32, 3, 3)
GRAPHS: tuple[tuple[Callable[..., Any], tuple[Type, ...]], ...] = (
    (two_inputs, (SQUARE,) * 3),
    (two_layers, (SQUARE,) * 3),
    (three_layers, (SQUARE,) * 4),
    (branches, (IMAGE, FILTER, FILTER)),
    (inception, (IMAGE, FILTER, FILTER)),
    (residual, (IMAGE, FILTER, FILTER)),
    (mlp, (SQUARE,) * 3),
    (attention, (mlc.TensorSpec(128, 64),) * 3),
    (cell, (SQUARE,) * 4),
    (total, (SQUARE,) * 2),
)


def main() -> None:
    """Prints predicted and measured time of each graph, without and with the search; or curves."""
    rules = verified(RULES)
    for function, types in GRAPHS:
        made = mlc.compile(function, numerics="fast", threads=1)
        levels = made.lower(*types).levels
        found = superopt(levels, rules, plans=PLANS)
        if "--curves" in sys.argv:
            best = [f"{found.best_after(n) * 1e6:.0f}" for n in POINTS]
            cells = [function.__name__, *best, f"{found.judged}"]
            print(f"| {' | '.join(cells)} |", flush=True)
            continue
        functions = [compiled(levels, found.start), compiled(levels, found.best)]
        backend = backend_of(levels.options.target)
        runs = [backend.measure(functions, inputs_of(levels)) for _ in range(3)]
        gains = sorted(a / b for a, b in runs)
        before, after = min(a for a, _ in runs), min(b for _, b in runs)
        steps = ", ".join(step.rule for step in found.steps) or "-"
        times = (found.start_s, found.best_s, before, after)
        cells = [function.__name__, *(f"{x * 1e6:.0f}" for x in times), f"{gains[1]:.2f}"]
        print(f"| {' | '.join(cells)} | {found.judged} | {steps} |", flush=True)


if __name__ == "__main__":
    main()
