"""
Optimisers as plain functions on containers of arrays: parameters, gradients and state go in, new
parameters and state come out. They record operations inside a compiled function, with `donate=` in
place, and compute with NumPy outside.

A leaf that holds no floating-point numbers, and one whose gradient is None, stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mlc.dialects.dtypes import numpy_dtype
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend.errors import located
from mlc.frontend.trace.containers import flatten, unflatten

if TYPE_CHECKING:
    from mlc.runtime.cuda.dlpack import View

Params = Any
"""Arrays in any nesting of tuples, lists, dicts, namedtuples and dataclasses."""


class AdamState(NamedTuple):
    """`step`: updates so far, 0-d int64; `mean` and `square`: as the parameters, moments of g."""

    step: Any
    mean: Params
    square: Params


def sgd_init(params: Params) -> Params:
    """
    Velocities of zero, as the parameters in structure, shapes and dtypes; on the GPU where these
    lie there.
    """
    return _zeros("sgd_init", params)


def sgd(
    params: Params,
    grads: Params,
    state: Params,
    *,
    lr: Any,
    momentum: Any = 0.0,
    nesterov: bool = False,
    weight_decay: Any = 0.0,
) -> tuple[Params, Params]:
    """
    A step of stochastic gradient descent; gives (parameters, velocities).

    g <- g + weight_decay p; v <- momentum v + g; p <- p - lr d, where d is v, or with `nesterov`
    g + momentum v. `state` is `sgd_init`'s or the last step's. ShapeError where structures or
    shapes differ. SOURCE: Sutskever, Martens, Dahl and Hinton, "On the importance of initialization
    and momentum in deep learning", ICML 2013; its velocity is -lr v for a constant lr.
    """

    def step(p: Any, g: Any, v: Any) -> tuple[Any, Any]:
        rate, keep, decay = (_number(x, p) for x in (lr, momentum, weight_decay))
        if not _is_zero(weight_decay):
            g = g + decay * p
        if not _is_zero(momentum):
            v = keep * v + g
            g = g + keep * v if nesterov else v
        return p - rate * g, v

    if nesterov and _is_zero(momentum):
        raise ValueError("sgd: nesterov looks ahead along the momentum, which is 0; pass momentum=")
    new, velocities = _mapped(step, 2, "sgd", params, grads, state)
    return new, velocities


def adam_init(params: Params) -> AdamState:
    """
    Moments of zero, as the parameters in structure, shapes and dtypes; no step taken. On the GPU
    where parameters lie there, the number of steps too: what a call finds there is not copied.
    """
    mean, square = _zeros("adam_init", params), _zeros("adam_init", params)
    there = any(_on_device(x) for x in flatten(params)[0])
    step = np.zeros((), np.int64)
    return AdamState(_put(step) if there else step, mean, square)


def adam(
    params: Params,
    grads: Params,
    state: AdamState,
    *,
    lr: Any = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> tuple[Params, AdamState]:
    """
    A step of Adam; gives (parameters, state).

    m <- b1 m + (1 - b1) g; s <- b2 s + (1 - b2) g^2; p <- p - lr m' / (sqrt(s') + eps), where m'
    and s' are m / (1 - b1^t) and s / (1 - b2^t) after t steps. `b1` and `b2` are Python numbers in
    [0, 1). ShapeError where structures or shapes differ. SOURCE: Kingma and Ba, "Adam: A Method for
    Stochastic Optimization", ICLR 2015, algorithm 1.
    """
    return _adam("adam", (params, grads, state), lr, b1, b2, eps, 0.0)


def adamw(
    params: Params,
    grads: Params,
    state: AdamState,
    *,
    lr: Any = 1e-3,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: Any = 1e-2,
) -> tuple[Params, AdamState]:
    """
    A step of Adam that also subtracts lr weight_decay p, apart from the moments; `adam_init`'s
    state. SOURCE: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.
    """
    return _adam("adamw", (params, grads, state), lr, b1, b2, eps, weight_decay)


def _adam(
    name: str,
    given: tuple[Params, Params, AdamState],
    lr: Any,
    b1: float,
    b2: float,
    eps: float,
    weight_decay: Any,
) -> tuple[Params, AdamState]:
    params, grads, state = given
    for option, b in (("b1", b1), ("b2", b2)):
        if not isinstance(b, float | int) or not 0 <= b < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"{name}: {option}={b!r}; expected a Python number in [0, 1)")
    b1, b2, eps = float(b1), float(b2), float(eps)
    count = state.step + 1

    def step(p: Any, g: Any, m: Any, s: Any) -> tuple[Any, Any, Any]:
        rate = _number(lr, p)
        t = count.astype(p.dtype)
        m = b1 * m + (1 - b1) * g
        s = b2 * s + (1 - b2) * (g * g)
        update = (m / _correction(b1, t)) / (np.sqrt(s / _correction(b2, t)) + eps)
        if not _is_zero(weight_decay):
            update = update + _number(weight_decay, p) * p
        return p - rate * update, m, s

    new, mean, square = _mapped(step, 3, name, params, grads, state.mean, state.square)
    return new, AdamState(count, mean, square)


class ScaleState(NamedTuple):
    """`scale`: 0-d float32, a power of two; `good`: steps without overflow so far, 0-d int32."""

    scale: Any
    good: Any


def scale_init(scale: float = 2.0**15) -> ScaleState:
    """The start of a dynamic loss scale."""
    return ScaleState(np.asarray(scale, np.float32), np.zeros((), np.int32))


def scaled(loss: Any, state: ScaleState) -> Any:
    """
    The loss times the scale, in float32: differentiate this where gradients are computed in f16,
    whose smallest numbers (6e-8) they would fall below.
    """
    return loss.astype(np.float32) * state.scale


def unscaled(
    grads: Params, state: ScaleState, *, growth_interval: int = 2000
) -> tuple[Params, Any, ScaleState]:
    """
    (gradients divided by the scale, whether all of them are finite, the next scale).

    The scale is halved where a gradient is not finite, whose step is to be left out
    (`mlc.optim.where`), and doubled after `growth_interval` steps without one. SOURCE: Micikevicius
    et al., "Mixed precision training", ICLR 2018, section 3.2.
    """
    leaves, structure = flatten(grads)
    finite: Any = np.asarray(True)
    found: list[Any] = []
    for leaf in leaves:
        g: Any = leaf
        if _is_trained(leaf):
            g = (leaf.astype(np.float32) / state.scale).astype(leaf.dtype)
            finite = np.logical_and(finite, np.all(np.isfinite(g)))
        found.append(g)
    good = np.where(finite, state.good + 1, 0).astype(np.int32)
    grows = good >= growth_interval
    factor = np.where(finite, np.where(grows, 2.0, 1.0), 0.5).astype(np.float32)
    following = ScaleState(state.scale * factor, np.where(grows, 0, good).astype(np.int32))
    return unflatten(structure, found), finite, following


def where(condition: Any, new: Params, old: Params) -> Params:
    """Containers of arrays: `new` where the condition, one bool, holds, else `old`."""
    leaves, structure = flatten(new)
    others, found = flatten(old)
    if found != structure:
        message = f"where: found {_spelled(old)} beside {_spelled(new)}; expected one structure"
        raise located(ShapeError, message)
    pairs = zip(leaves, others, strict=True)
    chosen: list[Any] = [np.where(condition, x, y) if hasattr(x, "dtype") else x for x, y in pairs]
    return unflatten(structure, chosen)


def _correction(b: float, t: Any) -> Any:
    """1 - b^t, without cancellation where b is near 1 and t is small."""
    return -np.expm1(t * math.log(b)) if b else 1.0


def _is_zero(x: Any) -> bool:
    """Whether a number is known to be zero."""
    return isinstance(x, float | int) and x == 0


def _number(x: Any, p: Any) -> Any:
    """A number that leaves the parameter's dtype as it is."""
    return x if type(x) in (float, int) or not hasattr(x, "astype") else x.astype(p.dtype)


def _is_trained(leaf: Any) -> bool:
    """Whether a leaf is an array of floating-point numbers, traced or not."""
    if _on_device(leaf):
        return _viewed(leaf).row.is_inexact
    dtype = getattr(leaf, "dtype", None)
    try:
        return dtype is not None and numpy_dtype(dtype).is_inexact
    except TypeError:  # a dtype that no array of ours has
        return False


def _mapped(
    function: Callable[..., tuple[Any, ...]], count: int, name: str, params: Params, *others: Params
) -> tuple[Params, ...]:
    """`count` containers like `params`, of what the function gives for each parameter."""
    leaves, structure = flatten(params)
    rows: list[list[Any]] = []
    for other in others:
        row, found = flatten(other)
        if found != structure:
            raise located(
                ShapeError,
                f"{name}: gradients and state have the parameters' structure; found"
                f" {_spelled(other)} beside {_spelled(params)}",
            )
        rows.append(row)
    results: list[list[Any]] = [[] for _ in range(count)]
    for number, p in enumerate(leaves):
        parts = [row[number] for row in rows]
        if not _is_trained(p) or (parts and parts[0] is None):
            kept = [p, *parts[1:]] if parts else [None]
            made: tuple[Any, ...] = tuple(kept[k] if k < len(kept) else None for k in range(count))
        else:
            for part in parts:
                _check(name, p, part)
            made = function(p, *parts)
        for result, one in zip(results, made, strict=True):
            result.append(one)
    return tuple(unflatten(structure, result) for result in results)


def _zeros(name: str, params: Params) -> Params:
    def zero(p: Any) -> tuple[Any]:
        if not _on_device(p):
            return (np.zeros_like(p),)
        there = _viewed(p)
        return (_put(np.zeros(there.shape, there.row.numpy)),)

    return _mapped(zero, 1, name, params)[0]


def _on_device(leaf: Any) -> bool:
    """Whether an array lies on a GPU: one of another library, or `mlc.DeviceArray`."""
    if isinstance(leaf, np.ndarray | np.generic | float | int):
        return False
    from mlc.runtime.cuda.dlpack import on_device

    return on_device(leaf)


def _viewed(leaf: Any) -> View:
    from mlc.runtime.cuda.dlpack import view_of

    return view_of(leaf, "a parameter")


def _put(array: Any) -> Any:
    from mlc.runtime.cuda.dlpack import device_put

    return device_put(array)


def _check(name: str, p: Any, part: Any) -> None:
    if getattr(part, "shape", None) != p.shape:
        raise located(
            ShapeError,
            f"{name}: a parameter of shape {p.shape} has a gradient or state of shape"
            f" {getattr(part, 'shape', None)}; expected equal shapes",
        )
    if part.dtype != p.dtype:
        raise located(
            DTypeError,
            f"{name}: a parameter of {p.dtype} has a gradient or state of {part.dtype}; convert it,"
            " such as g.astype(p.dtype)",
        )


def _spelled(value: Any) -> str:
    """The structure of a container, without its numbers."""
    leaves, structure = flatten(value)
    return repr(unflatten(structure, [_Leaf() for _ in leaves]))


class _Leaf:
    def __repr__(self) -> str:
        return "*"
