# pyright: basic
"""
A function of JAX, compiled by mlc: a Kalman filter over a track, its gradient, and many tracks.

    python examples/jax_function.py

`mlc.jax` takes what JAX says of the function, StableHLO, and makes a function of mlc of it, which
can be called in traced functions, differentiated and batched like any other. Needs `jax`, whose own
results it compares with.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mlc

F32 = NDArray[np.float32]
STEPS, TRACKS = 200, 16
MOVE = np.array([[1, 0.1], [0, 1]], np.float32)  # position (m) and speed (m/s), 0.1 s apart
DRIFT = np.diag([1e-4, 1e-2]).astype(np.float32)  # variance of a step


def surprise(noise: Any, seen: Any) -> Any:
    """How unlikely positions [STEPS] (m) are, if each is off by a variance of `noise` (m²)."""
    import jax.numpy as jnp  # pyright: ignore[reportMissingImports]
    from jax import lax  # pyright: ignore[reportMissingImports]

    def step(state: Any, z: Any) -> Any:
        mean, covariance = state
        mean = MOVE @ mean
        covariance = MOVE @ covariance @ MOVE.T + DRIFT
        error, variance = z - mean[0], covariance[0, 0] + noise
        gain = covariance[:, 0] / variance
        mean = mean + gain * error
        covariance = covariance - jnp.outer(gain, covariance[0])
        return (mean, covariance), error**2 / variance + jnp.log(variance)

    start = jnp.zeros(2), jnp.eye(2)
    return lax.scan(step, start, seen)[1].sum()


def tracks(seed: int = 0) -> F32:
    """Noisy positions [TRACKS, STEPS] (m)."""
    rng = np.random.default_rng(seed)
    speeds = rng.standard_normal((TRACKS, STEPS)).cumsum(1) * 0.1
    return (speeds.cumsum(1) * 0.1 + rng.standard_normal(speeds.shape)).astype(np.float32)


def main() -> None:
    """Compares JAX and mlc: values, gradients, and all tracks at once."""
    try:
        import jax  # pyright: ignore[reportMissingImports]
    except ModuleNotFoundError:
        sys.exit("This example compares with JAX: pip install jax")
    seen, noise = tracks(), np.float32(0.5)
    ours = mlc.jax(surprise)
    value = mlc.compile(ours)
    slope = mlc.compile(mlc.grad(ours))
    every = mlc.compile(mlc.vmap(mlc.grad(ours), in_axes=(None, 0)))
    pairs = (
        ("value", value(noise, seen[0]), surprise(noise, seen[0])),
        ("gradient", slope(noise, seen[0]), jax.grad(surprise)(noise, seen[0])),
        ("gradients", every(noise, seen), jax.vmap(jax.grad(surprise), (None, 0))(noise, seen)),
    )
    for name, found, wanted in pairs:
        np.testing.assert_allclose(found, wanted, rtol=1e-3)
        error = np.max(np.abs(np.asarray(found) / np.asarray(wanted) - 1))
        print(f"{name}: equal to JAX's, relative error {error:.1e}")


if __name__ == "__main__":
    main()
