"""Derivatives up to the third order, in every order of modes, beside those by differences."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mlc

One = Callable[[Any], Any]
MODES = ("f", "r", "ff", "fr", "rf", "rr", "fff", "rrr", "frr", "rff")
"""The mode of each derivative, the last one first: "fr" is forward over reverse."""


def directional(f: One, mode: str, v: Any) -> One:
    """The derivative of a function, which gives one number, along a direction."""
    if mode == "f":
        return lambda x: mlc.jvp(f, (x,), (v,))[1]
    return lambda x: (mlc.grad(f)(x) * v).sum()


def chain(f: One, modes: str, directions: Sequence[Any]) -> One:
    """The derivative in a chain of modes, each along its direction."""
    for mode, v in zip(reversed(modes), directions, strict=False):
        f = directional(f, mode, v)
    return f


def everything(f: One, modes: Sequence[str]) -> Callable[..., dict[str, Any]]:
    """A function of a point and of directions: the derivative in each chain of modes."""

    def run(x: Any, *directions: Any) -> dict[str, Any]:
        return {m: chain(f, m, directions)(x) for m in modes}

    return run


def differences(f: One, orders: int, step: float) -> Callable[..., list[Any]]:
    """For each order the difference of the forward derivative below it, of fourth order."""

    def run(x: Any, *directions: Any) -> list[Any]:
        slopes: list[Any] = []
        for order in range(orders):
            below, v = chain(f, "f" * order, directions), directions[order]
            near, far = (below(x + k * step * v) - below(x - k * step * v) for k in (1, 2))
            slopes.append((8 * near - far) / (12 * step))
        return slopes

    return run


def _given(x: Any, modes: Sequence[str]) -> list[Any]:
    """A point, and a direction for each order."""
    at = np.asarray(x, np.float64)
    orders = max(map(len, modes))
    return [at, *np.random.default_rng(at.size).standard_normal((orders, *at.shape))]


def differing(
    f: One, x: Any, modes: Sequence[str] = MODES, step: float = 5e-4, tolerance: float = 1e-6
) -> list[str]:
    """For each chain of modes whose derivative at `x` is not the difference: what was found."""
    given = _given(x, modes)
    with np.errstate(all="ignore"):
        found = mlc.compile(everything(f, modes)).reference(*given)
        slopes = mlc.compile(differences(f, len(given) - 1, step)).reference(*given)
    return [
        f"{chain}: {value}, difference {slopes[len(chain) - 1]}"
        for chain, value in found.items()
        if not np.allclose(value, slopes[len(chain) - 1], rtol=tolerance, atol=tolerance)
    ]


def inconsistent(f: One, x: Any, modes: Sequence[str] = MODES, *, finite: bool = True) -> list[str]:
    """For each chain of modes whose derivative is not finite or not that of forward mode: both."""
    with np.errstate(all="ignore"):
        found = mlc.compile(everything(f, modes)).reference(*_given(x, modes))
    return [
        f"{chain}: {value}, forward {found['f' * len(chain)]}"
        for chain, value in found.items()
        if not (
            np.isfinite(value) == finite and np.isclose(value, found["f" * len(chain)], rtol=1e-9)
        )
    ]


def compare(f: One, x: Any, orders: int = 3, tolerance: float = 1e-6) -> None:
    """AssertionError unless the derivatives are the differences."""
    wrong = differing(f, x, [m for m in MODES if len(m) <= orders], tolerance=tolerance)
    assert not wrong, "\n".join(wrong)
