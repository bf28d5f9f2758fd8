# pyright: basic
"""ONNX's domains beside its own: updates of training, gradients, and trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mlc.frontend.importers.onnx.run import At, row, traced
from mlc.frontend.importers.onnx.values import taken

Array = Any
TRAINING = "ai.onnx.preview.training"
ML = "ai.onnx.ml"


def _updates(name: str, states: int) -> Callable[..., Any]:
    """An optimizer: the learning rate, the number of the step, then arrays of each parameter."""

    def register(update: Callable[..., tuple[Array, ...]]) -> Any:
        def apply(at: At, rate: Array, step: Array, *given: Array) -> tuple[Array, ...]:
            kinds = 2 + states  # parameter, gradient, and what it remembers
            count = len(given) // kinds
            found = [update(at, rate, step, *given[k::count]) for k in range(count)]
            return tuple(x.astype(given[0].dtype) for parts in zip(*found, strict=True)
                         for x in parts)  # fmt: skip

        return row(name, domain=TRAINING)(apply)

    return register


def _regularised(at: At, x: Array, g: Array) -> Array:
    return at.get("norm_coefficient", 0.0) * x + g


@_updates("Adagrad", 1)
def _adagrad(at: At, rate: Array, step: Array, x: Array, g: Array, h: Array) -> Any:
    g = _regularised(at, x, g)
    new = h + g * g
    rate = rate / (1 + step * at.get("decay_factor", 0.0))
    return x - rate * g / (np.sqrt(new) + at.get("epsilon", 1e-6)), new


@_updates("Adam", 2)
def _adam(at: At, rate: Array, step: Array, x: Array, g: Array, v: Array, h: Array) -> Any:
    alpha, beta = at.get("alpha", 0.9), at.get("beta", 0.999)
    g = _regularised(at, x, g)
    first = alpha * v + (1 - alpha) * g
    second = beta * h + (1 - beta) * (g * g)
    t = np.maximum(step, 1)
    rate = rate * np.where(step > 0, np.sqrt(1 - beta**t) / (1 - alpha**t), 1)
    new = x - rate * (first / (np.sqrt(second) + at.get("epsilon", 1e-6)))
    return (1 - at.get("norm_coefficient_post", 0.0)) * new, first, second


@_updates("Momentum", 1)
def _momentum(at: At, rate: Array, step: Array, x: Array, g: Array, v: Array) -> Any:
    alpha = at.get("alpha")
    g = _regularised(at, x, g)
    new = alpha * v + np.where(step > 0, at.get("beta"), 1) * g
    return x - rate * (g + alpha * new if at.get("mode") == "nesterov" else new), new


@row("Gradient", domain=TRAINING)
def _gradient(at: At, *given: Array) -> tuple[Array, ...]:
    """Of the value called `y`, with respect to those called `xs`, where `zs` stay as they are."""
    from mlc.frontend.transforms.derivatives import vjp

    xs, zs = list(at.get("xs")), list(at.get("zs") or ())
    fixed = dict(zip(zs, given[len(xs) :], strict=True))

    def y(*values: Array) -> Array:
        return at.again(at.get("y"), {**dict(zip(xs, values, strict=True)), **fixed})

    found, pull = vjp(y, *(traced(x) for x in given[: len(xs)]))
    return tuple(pull(np.ones_like(found)))


@row("ArrayFeatureExtractor", domain=ML)
def _features(at: At, x: Array, places: Array) -> Array:
    return taken(x if x.ndim > 1 else x.reshape(1, -1), places.reshape(-1), -1)


@row("Binarizer", domain=ML)
def _binarizer(at: At, x: Array) -> Array:
    return (x > np.asarray(at.get("threshold", 0.0), x.dtype)).astype(x.dtype)


@row("TreeEnsemble", domain=ML)
def _trees(at: At, x: Array) -> Array:
    """x: (N, features); (N, targets)."""
    if at.get("post_transform", 0):
        raise at.refuse(f"post_transform = {at.get('post_transform')}; expected 0, none")
    weights = np.asarray(at.get("leaf_weights"))
    targets = np.asarray(at.get("leaf_targetids"))
    count = int(at.get("n_targets"))
    leaves = _leaves(at, x)  # (N, trees)
    value = taken(weights, leaves)[..., None]
    mine = taken(targets, leaves)[..., None] == np.arange(count)
    how = int(at.get("aggregate_function", 1))
    if how in (0, 1):
        total = np.where(mine, value, np.zeros((), x.dtype)).sum(1)
        return total / leaves.shape[1] if how == 0 else total
    limits = np.finfo(x.dtype)
    if how == 2:
        return np.where(mine, value, np.asarray(limits.max, x.dtype)).min(1)
    return np.where(mine, value, np.asarray(limits.min, x.dtype)).max(1)


def _leaves(at: At, x: Array) -> Array:
    """The leaf that each row of x reaches in each tree: all rows go down at once."""
    modes = np.asarray(at.get("nodes_modes"))
    splits, features = np.asarray(at.get("nodes_splits")), np.asarray(at.get("nodes_featureids"))
    roots = np.asarray(at.get("tree_roots"))
    ends = [
        (np.asarray(at.get(f"nodes_{way}nodeids")), np.asarray(at.get(f"nodes_{way}leafs")))
        for way in ("true", "false")
    ]
    after = [np.where(leaf != 0, -1 - ids, ids) for ids, leaf in ends]  # a leaf k is -1 - k
    members = _members(at, modes)
    missing = np.asarray(at.get("nodes_missing_value_tracks_true") or [0] * len(modes)) != 0
    alone = (after[0] < 0) & (after[0] == after[1])  # a root that is a leaf
    state: Array = np.broadcast_to(
        np.where(alone[roots], after[0][roots], roots), (x.shape[0], len(roots))
    )
    line = np.arange(x.shape[0])[:, None]
    for _ in range(_depth(after, roots)):
        node = np.maximum(state, 0)
        v = traced(x)[line, taken(features, node)]
        split, mode = taken(splits, node), taken(modes, node)
        tests = [v <= split, v < split, v >= split, v > split, v == split, v != split]
        if members is not None:
            tests.append((v[..., None] == members[node]).any(-1))
        found = np.isnan(v) & taken(missing, node)
        for k, test in enumerate(tests):
            found = found | ((mode == k) & test)
        below = np.where(found, taken(after[0], node), taken(after[1], node))
        state = np.where(state < 0, state, below)
    return -1 - state


def _members(at: At, modes: np.ndarray[Any, Any]) -> Array:
    """The numbers that each node of mode 6 asks for, NaN where there are fewer."""
    given = at.get("membership_values")
    if given is None or not (modes == 6).any():
        return None
    groups: list[list[Any]] = [[]]
    for value in np.asarray(given):
        if np.isnan(value):
            groups.append([])
        else:
            groups[-1].append(value)
    width = max(map(len, groups)) or 1
    table = np.full((len(modes), width), np.nan, np.asarray(given).dtype)
    for node, group in zip(np.flatnonzero(modes == 6), groups, strict=False):
        table[node, : len(group)] = group
    return traced(table)


def _depth(after: list[np.ndarray[Any, Any]], roots: np.ndarray[Any, Any]) -> int:
    """How many nodes stand above the deepest leaf."""
    level, depth = set(roots.tolist()), 0
    while level:
        depth += 1
        level = {int(way[k]) for k in level for way in after if way[k] >= 0}
        if depth > len(after[0]):
            return depth
    return depth
