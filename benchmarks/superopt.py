"""
Ten graphs without and with `mlc superopt`, by search and by saturation: `python -m
benchmarks.superopt`; with `--curves`, what the best program so far should take, over plans; with
`--layers`, how far both reach in long programs; with `--target NAME`, what the model says there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mlc
from mlc import nn
from mlc.backends import backend_of
from mlc.calls import inputs_of
from mlc.levels import Levels
from mlc.options import BY
from mlc.passes.rules.rule import Rule
from mlc.passes.rules.search import Found
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


def found_in(
    function: Callable[..., Any], types: Sequence[Type], rules: Sequence[Rule], plans: int
) -> tuple[Levels, list[Found], list[float]]:
    """What both ways find, and the processor's seconds of each."""
    given: dict[str, Any] = {"target": _target()} if _target() else {}
    levels = mlc.compile(function, numerics="fast", threads=1, **given).lower(*types).levels
    found: list[Found] = []
    taken: list[float] = []
    for way in BY:
        start = time.process_time()
        found.append(superopt(levels, rules, by=way, plans=plans))
        taken.append(time.process_time() - start)
    return levels, found, taken


def row(*cells: object) -> None:
    """Prints a row of a table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def curves(rules: Sequence[Rule]) -> None:
    """What the best program so far should take."""
    for function, types in GRAPHS:
        _, found, _ = found_in(function, types, rules, PLANS)
        for way, each in zip(BY, found, strict=True):
            best = (f"{each.best_after(n) * 1e6:.0f}" for n in POINTS)
            row(function.__name__, way, *best, each.judged)


def layers(rules: Sequence[Rule]) -> None:
    """Layers of two products each, one behind the other."""

    def deep(x: Any, *weights: Any) -> Any:
        for v, w in zip(weights[::2], weights[1::2], strict=True):
            x = np.tanh(x @ v + x @ w)
        return x

    for count in (2, 4, 8, 12, 24):
        _, found, taken = found_in(deep, (SQUARE,) * (2 * count + 1), rules, 200)
        cells = [f"{found[0].start_s * 1e6:.0f}"]
        for each, seconds in zip(found, taken, strict=True):
            cells += [f"{each.best_s * 1e6:.0f}", f"{each.judged}", f"{seconds:.1f}"]
        row(count, *cells)


def main() -> None:
    """Prints a table; ratios are the median of three runs in turn."""
    rules = verified(RULES)
    if "--curves" in sys.argv:
        return curves(rules)
    if "--layers" in sys.argv:
        return layers(rules)
    for function, types in GRAPHS:
        levels, found, taken = found_in(function, types, rules, PLANS)
        predicted = [f"{x * 1e6:.0f}" for x in (found[0].start_s, *(x.best_s for x in found))]
        counts = [f"{x.judged}" for x in found]
        if _target():
            row(function.__name__, *predicted, *counts)
            continue
        functions = [compiled(levels, x) for x in (found[0].start, *(x.best for x in found))]
        backend = backend_of(levels.options.target)
        runs = [backend.measure(functions, inputs_of(levels)) for _ in range(3)]
        measured = [f"{min(run[k] for run in runs) * 1e6:.0f}" for k in range(3)]
        ratios = [f"{sorted(run[0] / run[k] for run in runs)[1]:.2f}" for k in (1, 2)]
        seconds = [f"{x:.1f}" for x in taken]
        row(function.__name__, *predicted, *measured, *ratios, *counts, *seconds)
    return None


def _target() -> str | None:
    given = sys.argv
    return given[given.index("--target") + 1] if "--target" in given else None


if __name__ == "__main__":
    main()
